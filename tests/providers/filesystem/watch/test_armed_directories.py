from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest

from resource_server.provider import Change
from resource_server.providers.filesystem.watch.scanner import DirectoryScanner
from tests.listeners import LIST, Folder
from tests.providers.filesystem.watch.processes import teller
from tests.providers.filesystem.watch.scanning import (
    Meddler,
    plant,
    tree_of,
    work,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux has inotify"),
]


_WARNING = "sysctl fs.inotify.max_user_watches="


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "root")


def test_an_ignore_file_written_just_before_its_watch_is_read_again(
    folder: Folder,
) -> None:
    folder.write("sub/a.txt")
    folder.write("sub/.gitignore", "nothing\n")
    scanner = DirectoryScanner(tree_of(folder), Meddler(folder, "*.txt\n"))
    scanner.listing = True
    # Of the directory that nobody knew, and of what it is after the ignore file was written.
    assert work(scanner).count(Change(("sub",), "children")) == 2


class Scarce(Meddler):
    """A source with three watches; what gets the last of them is hidden at that moment."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder)
        self.watched: set[str] = set()

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        if len(self.watched) >= 3 and prefix not in self.watched:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.watched.add(prefix)
        if prefix == "wanted/":
            self._folder.write(".gitignore", "wanted/\n")

    def remove(self, prefix: str, name: str = "") -> None:
        self.watched.discard(prefix + name)


def test_a_directory_that_loses_its_watch_is_polled(folder: Folder) -> None:
    for name in ("a", "b"):
        folder.write(f"{name}/file")
    source = Scarce(folder)
    scanner = DirectoryScanner(tree_of(folder), source)
    scanner.listing = True
    work(scanner)
    assert source.watched == {"", "a/", "b/"}
    folder.write("wanted/file")
    scanner.add([("wanted", "file")])
    scanner.rescan("")
    work(scanner)
    (given_up,) = {"a/", "b/"} - source.watched
    folder.write(f"{given_up}new")
    scanner.poll()
    assert Change((given_up[:-1],), "children") in work(scanner)


async def test_with_too_few_watches_subscribed_paths_are_watched_and_others_polled(
    folder: Folder,
) -> None:
    names = plant(folder, 40)
    for name in names:
        folder.write(f"{name}/file", "body")
    often = {"watch_poll_s": 0.02, "watch_poll_share": 1}
    subscribed = [f"{name}/file" for name in names[::20]]
    async with teller(folder, *subscribed, limits={"watches": 12}, times=often) as process:
        await process.quiet()
        for name in names[1::10]:
            folder.write(f"{name}/new")
            await process.of(LIST)
            assert set(await process.quiet(0.05)) == {LIST}
        folder.write(subscribed[0], "other")
        await process.of(subscribed[0])
        await process.end()
        assert process.warnings.count(_WARNING) == 1
        assert len(process.warnings.splitlines()) == 1


async def test_with_too_few_watches_later_subscriptions_are_still_watched(
    folder: Folder,
) -> None:
    names = plant(folder, 40)
    for name in names:
        folder.write(f"{name}/file", "body")
    never = {"watch_poll_s": 3600.0, "sweep_s": 3600.0}
    async with teller(folder, limits={"watches": 12}, times=never) as process:
        await process.quiet()
        for name in names[::20]:
            await process.subscribe(f"{name}/file")
            folder.write(f"{name}/file", "other")
            await process.of(f"{name}/file")
