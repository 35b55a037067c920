from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import InvalidParameter
from resource_server.search.path_glob import FileGlob
from tests.cases import for_each

PATHS = (
    "a.py",
    "B.PY",
    "docs/api.md",
    "docs/api/x.txt",
    "src/app/a.ts",
    "src/a.js",
    "tests/src/t.ts",
)


def chosen(pattern: str) -> list[str]:
    glob = FileGlob(pattern)
    return [path for path in PATHS if glob.matches(tuple(path.split("/")))]


@for_each(
    ("pattern", "paths"),
    [
        ("*.py", ["a.py", "B.PY"]),
        ("b.py", ["B.PY"]),
        ("docs", ["docs/api.md", "docs/api/x.txt"]),
        ("docs/", ["docs/api.md", "docs/api/x.txt"]),
        ("api", ["docs/api/x.txt"]),
        ("docs/*.md", ["docs/api.md"]),
        ("./docs/*.md", ["docs/api.md"]),
        ("src/**/*.ts", ["src/app/a.ts", "tests/src/t.ts"]),
        ("/src/**/*.ts", ["src/app/a.ts"]),
        ("**/*.{js,ts}", ["src/app/a.ts", "src/a.js", "tests/src/t.ts"]),
        ("{docs,src/{app,none}}", ["docs/api.md", "docs/api/x.txt", "src/app/a.ts"]),
        ("[!a]*.{py,js}", ["B.PY"]),
        ("!*.{py,md,txt}", ["src/app/a.ts", "src/a.js", "tests/src/t.ts"]),
        ("!src", ["a.py", "B.PY", "docs/api.md", "docs/api/x.txt"]),
        ("**", list(PATHS)),
    ],
)
def test_a_glob_chooses_files_and_everything_below_collections(
    pattern: str, paths: list[str]
) -> None:
    assert chosen(pattern) == paths


@for_each("pattern", ["", " ", "/", "!", "./", "x" * 1001, "file:///a/*.py"])
def test_what_is_no_glob_over_paths_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidParameter, match="a glob over paths, such as"):
        FileGlob(pattern)


@for_each("pattern", ["{a,b}" * 7, "{" + "a," * 64 + "a" * 99 + "}"])
def test_too_many_alternatives_are_refused(pattern: str) -> None:
    if pattern.startswith("{a,a"):
        assert not chosen(pattern)  # the same one, many times
        return
    with pytest.raises(InvalidParameter, match="more than 64 alternatives"):
        FileGlob(pattern)


@for_each("pattern", ["*a" * 400 + "b", "**/*a/" * 160 + "b", "[" * 900, "{a,b,c}" * 3 + "*" * 290])
def test_hostile_globs_are_fast(pattern: str) -> None:
    begin = time.process_time()
    glob = FileGlob(pattern)
    for number in range(50):
        glob.matches((*["a" * 250] * 20, str(number)))
    assert time.process_time() - begin < 5


@given(st.text("ab*?[]{},!/.", min_size=1, max_size=30), st.lists(st.text("ab.", min_size=1)))
def test_any_glob_is_used_or_refused(pattern: str, path: list[str]) -> None:
    try:
        glob = FileGlob(pattern)
    except InvalidParameter:
        return
    if path and not pattern.startswith(("./", "!")):
        assert glob.matches(tuple(path)) != FileGlob(f"!{pattern}").matches(tuple(path))


def test_a_brace_before_very_many_commas_is_fast() -> None:
    begin = time.process_time()
    for pattern in ("{" + "," * 998, "{a,b}" * 6 + "{" + "," * 960):
        with suppress(InvalidParameter):
            FileGlob(pattern)
    assert time.process_time() - begin < 5


def test_very_long_alternatives_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="8000 characters"):
        FileGlob("{a,b}" * 5 + "x" * 900)
