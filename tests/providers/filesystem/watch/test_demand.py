from __future__ import annotations

import sys
from pathlib import Path

import pytest

from resource_server.provider import Change
from resource_server.providers.filesystem.watch.scanner import DirectoryScanner
from tests.listeners import (
    EVENTS,
    EVERY,
    LIST,
    Folder,
    held,
    watched,
)
from tests.providers.filesystem.watch.scanning import Meddler, tree_of, work
from tests.waiting import until

pytestmark = pytest.mark.anyio


inotify_only = pytest.mark.skipif(sys.platform != "linux", reason="Linux has inotify")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def folder(root: Path) -> Folder:
    """A folder with `a.txt`, `b.txt`, `sub/c.txt` and `sub/deep/d.txt`."""
    folder = Folder(root)
    for name in ("a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"):
        folder.write(name, f"body of {name}")
    return folder


async def test_the_target_of_a_link_is_watched(folder: Folder) -> None:
    folder.link("link", "sub")
    folder.link("file", "sub/c.txt")
    async with watched(folder.root, EVERY, symlinks="within-root") as scene:
        await scene.follow("link", "link/c.txt", "link/deep/d.txt", "file", "sub/c.txt")
        folder.write("sub/c.txt", "other")
        await scene.tells("link", "link/c.txt", "file", "sub/c.txt")
        folder.write("sub/deep/d.txt", "other")
        await scene.tells("link/deep/d.txt")
        folder.write("sub/new.txt", "other")
        await scene.tells("link", LIST)


async def test_a_link_that_leads_nowhere_is_not_notified(folder: Folder) -> None:
    async with watched(folder.root, EVERY, symlinks="within-root") as scene:
        await scene.follow("sub")
        folder.link("sub/outwards", "/etc")
        folder.link("nowhere", "absent")
        await scene.tells_nothing()
        folder.link("nowhere", "a.txt")
        await scene.tells(LIST)


async def test_a_retargeted_link_is_notified(folder: Folder) -> None:
    folder.write("other/c.txt", "of the other")
    folder.link("link", "sub")
    folder.link("other/file", "../a.txt")
    async with watched(folder.root, EVERY, symlinks="within-root") as scene:
        await scene.follow("link", "link/c.txt", "other/file")
        folder.link("link", "other")
        await scene.tells("link", "link/c.txt", LIST)
        folder.write("sub/c.txt", "no longer")
        await scene.tells_nothing()
        folder.write("other/c.txt", "written to")
        await scene.tells("link", "link/c.txt")
        folder.link("other/file", "../b.txt")
        await scene.of("other/file")
        await scene.quiet()
        folder.write("b.txt", "written to")
        await scene.of("other/file")


async def test_a_retargeted_link_is_notified_without_subscribers_of_its_directory(
    folder: Folder,
) -> None:
    folder.write("links/x")
    folder.link("links/file", "../a.txt")
    async with watched(folder.root, EVENTS, symlinks="within-root") as scene:
        await scene.subscribe("links/file")
        await scene.quiet()
        folder.link("links/file", "../b.txt")
        await scene.tells("links/file")
        folder.write("b.txt", "written to")
        await scene.tells("links/file")


async def test_ignore_files_apply_to_the_target_of_a_link(folder: Folder) -> None:
    folder.link("link", "sub")
    folder.write("sub/.gitignore", "nothing\n")
    async with watched(folder.root, EVENTS, symlinks="within-root") as scene:
        await scene.follow("link", "link/c.txt", "link/deep/d.txt")
        folder.write("sub/.gitignore", "*.txt\n")
        await scene.tells("link", "link/c.txt", "link/deep/d.txt", LIST)
        scene.unsubscribe("link/c.txt", "link/deep/d.txt")
        folder.write("sub/.gitignore", "nothing\n")
        await scene.tells("link", LIST)


async def test_a_link_to_the_outside_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    outside = Folder(tmp_path / "outside")
    outside.write("secret.txt")
    folder.link("link", str(outside.root))
    folder.link("sub/link", "../../outside")
    async with watched(folder.root, EVENTS, symlinks="within-root") as scene:
        await scene.follow("", "sub")
        await scene.refuses("link/secret.txt")
        outside.write("secret.txt", "other")
        outside.write("new.txt")
        outside.remove("new.txt")
        await scene.tells_nothing()


async def test_an_unsubscribed_client_gets_no_more_notifications(folder: Folder) -> None:
    async with watched(folder.root, EVENTS) as scene:
        await scene.follow("a.txt", "b.txt", "")
        scene.unsubscribe("a.txt", "", "none.txt")
        scene.unsubscribe("a.txt")
        scene.unfollow_list()
        folder.write("a.txt", "other")
        folder.write("b.txt", "other")
        folder.write("new.txt")
        await scene.tells("b.txt")


@inotify_only
async def test_nothing_is_watched_without_subscribers(folder: Folder) -> None:
    before = held()
    async with watched(folder.root) as scene:
        await scene.follow("a.txt", "sub/deep/d.txt")
        await until(lambda: held() == before + 3)
        scene.unfollow_list()
        scene.unsubscribe("sub/deep/d.txt")
        await until(lambda: held() == before + 1)
        scene.unsubscribe("a.txt")
        await until(lambda: held() == before)


@inotify_only
async def test_only_the_directories_on_the_path_are_watched_for_a_subscriber(
    folder: Folder,
) -> None:
    folder.make("other/many/directories")
    before = held()
    async with watched(folder.root) as scene:
        await scene.subscribe("sub/c.txt")
        await until(lambda: held() == before + 2)
        await scene.tells_nothing()
        assert held() == before + 2


class Retargeter(Meddler):
    """A source of no events; a link comes to lead elsewhere just before it is watched."""

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        if self._left and prefix == "links/":
            self._folder.link("links/file", "../" + self._left.pop())


def test_a_link_retargeted_just_before_its_watch_is_followed_again(
    folder: Folder,
) -> None:
    folder.write("a.txt")
    folder.write("b.txt")
    folder.make("links")
    folder.link("links/file", "../a.txt")
    scanner = DirectoryScanner(tree_of(folder, follow_links=True), Retargeter(folder, "b.txt"))
    path = ("links", "file")
    scanner.add([path])
    assert Change(path) in work(scanner)
    assert scanner.subscribed("b.txt") == (path,)
    assert scanner.subscribed("a.txt") == ()


async def test_an_update_of_a_mounted_config_map_notifies_of_each_key(folder: Folder) -> None:
    for version in ("..2026_01", "..2026_02"):
        folder.write(f"{version}/app.yaml", f"of {version}")
    folder.write("..2026_02/new.txt")
    folder.link("..data", "..2026_01")
    folder.link("app.yaml", "..data/app.yaml")
    async with watched(folder.root, EVERY, symlinks="within-root") as scene:
        await scene.follow("app.yaml", "")
        folder.link("..data", "..2026_02")  # a rename over the link, as the kubelet does
        folder.remove("..2026_01")
        await scene.tells("app.yaml", "", LIST)
        folder.link("new.txt", "..data/new.txt")
        await scene.tells("", LIST)


async def test_a_folder_that_gets_its_first_included_file_is_notified_of(folder: Folder) -> None:
    folder.make("empty/deep/deeper")
    folder.make("other")
    async with watched(folder.root, EVERY, include=("*.md",)) as scene:
        await scene.follow("")
        folder.write("empty/deep/no.txt")
        folder.make("other/more")
        await scene.tells_nothing()
        folder.write("empty/deep/deeper/first.md")
        await scene.tells("", LIST)
        folder.write("empty/second.md")
        await scene.tells(LIST)
        folder.remove("empty/second.md")
        folder.remove("empty/deep/deeper")
        await scene.tells("", LIST)
