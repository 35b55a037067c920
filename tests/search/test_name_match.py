from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from resource_server.search.name_match import EXACT, PART, PREFIX, WORD, NameQuery
from tests.cases import for_each

WORDS = st.text("abAB*?[]!-./ßİ", min_size=1, max_size=12)
PATHS = st.lists(st.text("abABß.-", min_size=1, max_size=6), min_size=1, max_size=4).map(tuple)


def found(query: str, *paths: str) -> list[str]:
    """Return the paths that fit, best first."""
    names = NameQuery(query)
    keys = [
        names.key(path, rank)
        for path in (tuple(path.split("/")) for path in paths)
        if (rank := names.rank(path)) is not None
    ]
    return [path for *_, path in sorted(keys)]


@for_each(
    ("path", "rank"),
    [
        ("read", EXACT),
        ("docs/READ", EXACT),
        ("readme.md", PREFIX),
        ("how-to-read", WORD),
        ("howToRead", WORD),
        ("unread.read", WORD),
        ("bread", PART),
        ("read/x", None),
        ("rea/d", None),
    ],
)
def test_names_are_ranked_by_whole_prefix_word_and_substring_matches(
    path: str, rank: int | None
) -> None:
    assert NameQuery("Read").rank(tuple(path.split("/"))) == rank


def test_hits_are_ordered_by_rank_length_and_path() -> None:
    paths = ["x/b/orders", "orders", "a/orders.py", "b/orders.py", "c/reorders", "c/my_orders"]
    assert found("orders", *reversed(paths)) == [
        "orders",
        "x/b/orders",
        "a/orders.py",
        "b/orders.py",
        "c/my_orders",
        "c/reorders",
    ]


def test_vendored_and_generated_names_come_after_others_that_match_as_well() -> None:
    paths = ["dist/orders", "src/internal/orders", "node_modules/orders.js", "a/b/c/orders.ts"]
    assert found("orders", *paths) == [
        "src/internal/orders",
        "dist/orders",
        "a/b/c/orders.ts",
        "node_modules/orders.js",
    ]


def test_a_query_with_a_slash_matches_paths() -> None:
    paths = ["src/main.py", "lib/src/main.py", "lib/mysrc/main.py", "src", "main.py"]
    assert found("src/main", *paths) == ["src/main.py", "lib/src/main.py", "lib/mysrc/main.py"]
    assert found("/src/main", *paths) == ["src/main.py", "lib/src/main.py"]


@for_each(
    ("glob", "fits", "not_"),
    [
        ("*.PY", ["a.py", "x/b.py"], ["a.pyc", "py"]),
        ("t?st*", ["test", "x/tost.py"], ["tst", "atest"]),
        ("[ab].txt", ["a.txt", "B.TXT"], ["c.txt"]),
        ("[!ab].txt", ["c.txt"], ["a.txt"]),
        ("src/*.py", ["src/a.py", "lib/src/a.py"], ["src/x/a.py", "mysrc/a.py"]),
        ("/src/*.py", ["src/a.py"], ["lib/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["src", "a.py"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["a/x"]),
        ("a/**", ["a/x", "a/x/y"], ["b/x"]),
        ("x*y/z", ["xyzy/z"], ["xyzy/a"]),
    ],
)
def test_a_glob_matches_whole_names_or_the_ends_of_paths(
    glob: str, fits: list[str], not_: list[str]
) -> None:
    assert sorted(found(glob, *fits, *not_)) == sorted(fits)


@for_each("unclosed", ["[", "a[", "[]", "a[0"])
def test_an_unclosed_bracket_is_literal(unclosed: str) -> None:
    assert found(unclosed, f"x{unclosed}y", "x") == [f"x{unclosed}y"]


@for_each(
    ("glob", "name"),
    [
        ("*a" * 400 + "b", ("a" * 255,)),
        ("**/" * 300 + "b", ("a",) * 1000),
        ("**/*a*/" * 100 + "b", ("a",) * 1000),
        ("[" + "a-z" * 300 + "]*" * 3, ("a" * 255,)),
    ],
)
def test_hostile_globs_are_fast(glob: str, name: tuple[str, ...]) -> None:
    # Without care these take longer than the universe lasts; the suite's own time limit tells.
    assert NameQuery(glob).rank(name) is None


@given(query=WORDS, path=PATHS)
def test_any_query_ranks_names_alike_individually_and_in_bulk(
    query: str, path: tuple[str, ...]
) -> None:
    names = NameQuery(query)
    rank = names.rank(path)
    if not names.matches_paths:
        assert (path[-1] in names.candidates(["other", path[-1], "x"])) == (rank is not None)
    if not re.search(r"[*?\[]", query) and "/" not in query:
        assert (query.casefold() in path[-1].casefold()) == (rank is not None)


@given(words=st.lists(WORDS, min_size=2, max_size=3), path=PATHS)
def test_a_name_that_several_words_match_is_a_candidate(
    words: list[str], path: tuple[str, ...]
) -> None:
    names = NameQuery(" ".join(words), words=words)
    if names.rank(path) is not None:
        assert path[-1] in names.candidates(["other", path[-1], "x"])
