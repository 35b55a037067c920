"""Directories that are listed only if something in them is included."""

from __future__ import annotations

from pathlib import Path

import pytest

from resource_server.providers.filesystem import Filesystem, lookahead
from resource_server.runtime.eager import settle
from tests.providers.filesystem.trees import TREE, is_absent, plant, walk

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return plant(tmp_path / "root", TREE)


@pytest.mark.parametrize(
    ("include", "shown"),
    [
        (["*.md"], ["README.md", "src", "src/deep", "src/deep/er", "src/deep/er/file.md"]),
        (["x.*"], ["a", "a/x.txt"]),
        (["er/"], []),  # at the top
        (["**/er/"], ["src", "src/deep", "src/deep/er", "src/deep/er/file.md"]),
        (["**/empty/"], ["empty"]),
        (["a/b/none"], []),
        (["none"], []),
    ],
)
async def test_a_directory_is_listed_if_something_in_it_is_included(
    root: Path, include: list[str], shown: list[str]
) -> None:
    folder = Filesystem(path=root, include=tuple(include))
    assert await walk(folder) == shown
    assert await walk(folder, 1) == shown
    for path in ("a", "a/b", "empty", "src/deep"):
        assert await is_absent(folder, path) == (path not in shown)
    level = await settle(folder.level(1, "collection", after=None, limit=9))
    assert [each.name for each in level] == [path for path in shown if is_directory(root, path)]
    completed = await settle(folder.complete("path", "", given={}))
    assert completed == [
        f"{path}/" if (root / path).is_dir() else path for path in shown if "/" not in path
    ]
    hidden = dict(await settle(folder.hides(limit=99)))
    assert ("nothing in it is included" in hidden.values()) == (include != ["er/"])
    if shown:
        return
    (root / "none").write_text("x")
    (root / "a/b/none").write_text("x")
    assert "a" in await walk(folder) or include == ["er/"]


def is_directory(root: Path, path: str) -> bool:
    return "/" not in path and (root / path).is_dir()


async def test_a_link_leads_on_to_what_is_included_where_it_leads(root: Path) -> None:
    (root / "empty/link.md").symlink_to("../src/deep")
    (root / "a/loop.md").symlink_to("b")
    (root / "a/b/loop.md").symlink_to("../../empty")
    (root / "a-b/dead.md").symlink_to("none")
    folder = Filesystem(path=root, include=("*.md",), symlinks="within-root")
    found = await walk(folder)
    assert {"empty/link.md/er/file.md", "a/loop.md/loop.md/link.md/er/file.md"} <= set(found)
    assert "a-b" not in found
    (root / "src/deep/er/file.md").unlink()
    assert await walk(folder) == ["README.md"]


async def test_a_loop_of_links_leads_on_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/up").symlink_to("..")
    (tmp_path / "a/self").symlink_to(".")
    (tmp_path / "x.md").write_text("x")
    assert await walk(Filesystem(tmp_path, include=("*.md",), symlinks="within-root")) == ["x.md"]


@pytest.mark.timeout(60)
async def test_a_directory_that_several_links_lead_to_is_looked_into_once(tmp_path: Path) -> None:
    for name, others in {"a": "bc", "b": "ac", "c": "ab"}.items():
        (tmp_path / name).mkdir()
        for other in others:
            (tmp_path / f"{name}/{other}.md").symlink_to(f"../{other}")
    folder = Filesystem(tmp_path, include=("*.md",), symlinks="within-root")
    assert await walk(folder) == []
    (tmp_path / "c/x.md").write_text("x")
    assert {"a/b.md/c.md/x.md", "b/a.md/c.md/x.md", "c/x.md"} <= set(await walk(folder))


async def test_a_look_below_a_directory_is_bounded(root: Path) -> None:
    for number in range(lookahead.MAX_LOOKED + 1):
        (root / f"many/{number}").mkdir(parents=True)
    folder = Filesystem(path=root, include=("*.md",))
    assert "many" in await walk(folder)
    (root / "many/0").rmdir()
    (root / "many/1").rmdir()
    assert "many" not in await walk(folder)
