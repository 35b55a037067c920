from __future__ import annotations

import logging
import os
import random
import subprocess
from pathlib import Path

import anyio
import pytest

from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.exposure.ignore_files import IgnoreRules
from tests.anybody import like_anybody
from tests.providers.filesystem.trees import walk

SEEDS = 12
NAMES = ("a", "b", "ab", "build", "x.py", "x.pyc", "y.c", "dé", "#h", "!e", "sp ", "k.log", "a b")
PIECES = (
    *("a", "b", "ab", "build", "x.py", "*.py", "*.pyc", "*.c", "*", "?", "??", "[ab]", "[!a]"),
    *(
        "[^a-x]*",
        "[[:alpha:]]",
        "dé",
        "d*",
        "d??",
        r"\#h",
        r"\!e",
        r"sp\ ",
        "a?b",
        "*b*",
        "k.[kl]og",
    ),
    *("**", "**", "a*d", "b\\", "[a", r"\a", "x.*", "!e", "#h"),
)


def visible(root: Path) -> set[str]:
    provider = Filesystem(path=root, hidden=True, symlinks="deny")

    return {*anyio.run(walk, provider, 100_000)} - {".gitignore"}


def shown_by_git(root: Path) -> set[str]:
    every = [path.relative_to(root) for path in root.rglob("*")]
    paths = [str(path) for path in every if ".git" not in path.parts]
    checked = subprocess.run(
        ["git", "-C", str(root), "check-ignore", "--no-index", "--stdin", "-z"],
        input=b"\0".join(os.fsencode(path) for path in paths),
        capture_output=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
        check=False,
    )
    assert checked.returncode in (0, 1), checked.stderr
    ignored = {os.fsdecode(path) for path in checked.stdout.split(b"\0") if path}
    return set(paths) - ignored - {".gitignore"}


def repository(root: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode("utf-8", "surrogateescape"))


def random_pattern(chance: random.Random) -> str:
    pattern = "/".join(chance.choice(PIECES) for _ in range(chance.choice((1, 1, 1, 2, 2, 3))))
    if chance.random() < 0.2:
        pattern = "/" + pattern
    if chance.random() < 0.25:
        pattern += "/"
    if chance.random() < 0.3:
        pattern = "!" + pattern
    return pattern + " " * (chance.random() < 0.1)


def grow(folder: Path, chance: random.Random, depth: int) -> None:
    folder.mkdir(exist_ok=True)
    if chance.random() < 0.6:
        lines = [random_pattern(chance) for _ in range(chance.randrange(1, 7))]
        (folder / ".gitignore").write_text(chance.choice(("\n", "\r\n")).join(lines), "utf-8")
    for name in chance.sample(NAMES, 6):
        if depth and chance.random() < 0.5:
            grow(folder / name, chance, depth - 1)
        else:
            (folder / name).touch()


@pytest.mark.guarantee("hidden-does-not-exist")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_generated_trees_show_the_same_files_as_git(tmp_path: Path, seed: int) -> None:
    root = repository(tmp_path / "root")
    grow(root, random.Random(seed), 3)  # noqa: S311 - a test tree, not a secret
    assert visible(root) == shown_by_git(root)


@pytest.mark.parametrize(
    "rules",
    [
        {".gitignore": "*\n!*/\n!*.c\n"},
        {".gitignore": "/*\n!/d\n/d/*\n!/d/x.c\n"},
        {".gitignore": "d/\n!d/x.c\n"},
        {".gitignore": "*.c\n", "d/.gitignore": "!x.c\n"},
        {".gitignore": "d/**/x.c\nd/e/\n"},
        {".gitignore": "\ufeffx.c\n"},
        {".gitignore": "y  \nx.c\t\n"},
        {".gitignore": "foo**/x.c\nd**\n!d\n"},
        {".gitignore": "d/e\0junk\n"},
        {".git/info/exclude": "x.c\nd/e\n", ".gitignore": "!x.c\n"},
    ],
    ids=str,
)
def test_handwritten_rules_show_the_same_files_as_git(
    tmp_path: Path, rules: dict[str, str]
) -> None:
    root = repository(tmp_path / "root")
    write(
        root,
        dict.fromkeys(("x.c", "y", "d/x.c", "d/y", "d/e/x.c", "d/e/f/x.c", "food/x.c"), ""),
    )
    write(root, rules)
    (root / ".git" / "index").unlink(missing_ok=True)
    git = shown_by_git(root) - {"d/.gitignore"}
    assert visible(root) - {"d/.gitignore"} == git


def test_a_later_kind_of_file_overrides_an_earlier_one(tmp_path: Path) -> None:
    write(tmp_path, {"a.log": "", "b.log": "", "c.log": "", ".gitignore": "*.log"})
    assert visible(tmp_path) == set()
    write(tmp_path, {".ignore": "!b.log\n!c.log", ".mcpignore": "c.log\n.*ignore"})
    assert visible(tmp_path) == {"b.log"}


def test_rules_of_directories_above_the_root_do_not_apply(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "a", "root/a": ""})
    assert visible(tmp_path / "root") == {"a"}


def test_a_linked_ignore_file_is_ignored(tmp_path: Path) -> None:
    write(tmp_path, {"rules": "a", "a": ""})
    (tmp_path / ".gitignore").symlink_to("rules")
    assert visible(tmp_path) == {"a", "rules"}


@pytest.mark.guarantee("hidden-does-not-exist")
def test_an_unreadable_ignore_file_hides_its_siblings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {"sub/.gitignore": "a", "sub/b": "", "c": ""})
    (tmp_path / "sub" / ".gitignore").chmod(0)
    with like_anybody():
        assert visible(tmp_path) == {"c", "sub"}
    assert {*caplog.messages} == {
        "all beside 'sub/.gitignore' is hidden: the ignore file may not be read"
    }
    (tmp_path / "sub" / ".gitignore").chmod(0o600)
    with like_anybody():
        assert visible(tmp_path) == {"c", "sub", "sub/.gitignore", "sub/b"}


def test_an_unmatchable_line_is_logged_once_with_its_position(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        ignores = IgnoreRules("src/", [(".gitignore", b"ok\n[a\n")])
    assert caplog.messages == ["'src/.gitignore' line 2 is skipped: nothing can match '[a'"]
    assert ignores.match("src/ok", "ok", is_directory=False) == 0


@pytest.mark.parametrize(
    "rules", [b"*a*b*c\n" * 20_000, b"*a" * 100_000, b"[\n" * 100_000, b"a\n" * 200_000]
)
def test_an_expensive_ignore_file_hides_its_siblings(
    rules: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        ignores = IgnoreRules("src/", [(".gitignore", rules)])
    rule = ignores.match("src/anything", "anything", is_directory=False)
    assert ignores.hides(rule)
    assert "too long or complex" in ignores.describe(rule)
    assert len(caplog.messages) == 1


def test_a_long_ignore_file_of_ordinary_lines_applies(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = [f"build{number}/\n*.{number}.py[cod]\n" for number in range(500)]
    ignores = IgnoreRules("", [(".gitignore", "".join(lines).encode())])
    assert ignores.match("a.499.pyc", "a.499.pyc", is_directory=False) == 999
    assert ignores.match("a.py", "a.py", is_directory=False) == -1
    assert not caplog.messages


def test_unmatchable_lines_do_not_flood_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        IgnoreRules("", [(".gitignore", b"[a\n" * 1000)])
    assert len(caplog.messages) == 10
