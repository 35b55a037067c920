from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from resource_server.provider import Change
from resource_server.providers.filesystem.watch.scanner import DirectoryScanner
from tests.anybody import like_anybody
from tests.listeners import IMPATIENT, LIST, Folder, watched
from tests.providers.filesystem.watch.processes import teller
from tests.providers.filesystem.watch.scanning import (
    Register,
    inodes,
    tree_of,
    work,
)
from tests.waiting import grow_old

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux has inotify"),
]


_WARNING = "sysctl fs.inotify.max_user_watches="


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "root")


@pytest.mark.parametrize("is_old", [True, False])
def test_a_directory_replaced_without_an_event_is_watched_again(
    folder: Folder, tmp_path: Path, *, is_old: bool
) -> None:
    other = Folder(tmp_path / "other")
    for each in (folder.at("sub"), other.root):
        Folder(each).write("deep/file")
    if is_old:
        grow_old(folder.root)
    source = Register()
    scanner = DirectoryScanner(tree_of(folder), source)
    scanner.listing = True
    work(scanner)
    folder.move("sub", tmp_path / "before")
    other.root.rename(folder.at("sub"))
    grow_old(folder.root)
    scanner.poll(everything=True)
    work(scanner)
    assert source.watched == inodes(folder, ("", "sub/", "sub/deep/"))


def test_a_directory_replaced_without_an_event_is_reported(folder: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other")
    for each in (folder.at("sub"), other.root):
        Folder(each).write("file")
    grow_old(folder.root)
    scanner = DirectoryScanner(tree_of(folder), Register())
    scanner.listing = True
    scanner.add([("sub", "file")])
    work(scanner)
    folder.move("sub", tmp_path / "before")
    other.root.rename(folder.at("sub"))
    grow_old(folder.root)
    scanner.poll(everything=True)
    assert {Change((), "children"), Change(("sub",), "tree")} <= {*work(scanner)}


def test_a_directory_that_becomes_readable_is_found_by_the_sweep(folder: Folder) -> None:
    folder.write("shut/deep/file")
    folder.at("shut").chmod(0)
    grow_old(folder.root)
    source = Register()
    scanner = DirectoryScanner(tree_of(folder), source)
    scanner.listing = True
    scanner.add([("shut", "deep", "file")])
    with like_anybody():
        work(scanner)
        assert source.watched.keys() == {""}
        folder.at("shut").chmod(0o700)
        scanner.poll(everything=True)
        found = work(scanner)
    assert source.watched == inodes(folder, ("", "shut/", "shut/deep/"))
    assert {Change(("shut",), "children"), Change(("shut", "deep", "file"))} <= {*found}


async def test_a_write_through_a_memory_mapping_is_found_by_the_sweep(folder: Folder) -> None:
    folder.write("a", "x" * 4096)
    async with watched(folder.root, timing=replace(IMPATIENT, sweep_s=0.05)) as scene:
        await scene.subscribe("a")
        await scene.quiet()
        with folder.at("a").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
            mapping[0] = ord("y")
            await scene.tells("a")


async def test_without_inotify_watches_everything_is_polled(folder: Folder) -> None:
    folder.write("a/b", "body")
    often = {"watch_poll_s": 0.02, "watch_poll_share": 1}
    for limits, warning in (({"watches": 0}, _WARNING), ({"instances": 0}, "no inotify")):
        async with teller(folder, "a/b", limits=limits, times=often) as process:
            await process.quiet(0.1)
            folder.append("a/b")
            await process.of("a/b")
            folder.write(f"a/{warning[:2]}")
            await process.of(LIST)
            await process.end()
            assert process.warnings.count(warning) == 1
            assert len(process.warnings.splitlines()) == 1
