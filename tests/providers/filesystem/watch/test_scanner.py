"""Nothing is missed, whatever happens while a folder is looked through or its watch is starved."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from resource_server.documents.path_selection import PathSelection
from resource_server.provider import Change
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.contained_root import ContainedRoot
from resource_server.providers.filesystem.exposure.rules import DirectoryRules, ExposureRules
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.watch.scanner import DirectoryScanner
from resource_server.runtime import clock
from resource_server.runtime.file_system_kind import file_system_kind
from resource_server.subscriptions import snapshot
from resource_server.subscriptions.interest import MountInterest
from tests.anybody import like_anybody
from tests.listeners import IMPATIENT, LIST, Folder, Recorder, held, uri_of, watched
from tests.providers.filesystem.watch.processes import teller
from tests.providers.filesystem.watch.scanning import (
    Register,
    inodes,
    no_descriptors,
    plant,
    tree_of,
    work,
)
from tests.waiting import grow_old, pause, quiet_for, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux has inotify"),
]
_WARNING = "sysctl fs.inotify.max_user_watches="


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "root")


async def test_a_file_added_to_a_directory_not_yet_watched_is_reported(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = plant(folder)
    grow_old(folder.root)
    for name in (names[0], names[-1]):
        async with watched(folder.root) as scene:
            scene.follow_list()
            await until(lambda: held() > 50)
            folder.write(f"{name}/new.txt")
            await scene.of(LIST)


async def test_a_file_added_to_a_reported_moved_in_tree_is_reported(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = Folder(tmp_path / "outside")
    names = plant(outside)
    async with watched(folder.root) as scene:
        await scene.follow()
        outside.root.rename(folder.at("moved"))
        recorder = scene.view.recorder
        await recorder.of(LIST)
        recorder.take()
        folder.write(f"moved/{random.Random(1).choice(names)}/new.txt")  # noqa: S311
        await recorder.of(LIST)


async def test_directories_are_watched_once_the_list_is_followed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("a/b/c.txt")
    folder.write("a/other/deep/d.txt")
    async with watched(folder.root) as scene:
        await scene.subscribe("a/b/c.txt")
        await scene.quiet()
        scene.follow_list()
        await scene.quiet()
        folder.write("a/other/deep/new.txt")
        await scene.tells(LIST)
        scene.unfollow_list()
        await scene.quiet()
        folder.write("a/other/deep/newer.txt")
        await scene.tells_nothing()
        scene.follow_list()
        await scene.quiet()
        folder.write("a/other/deep/newest.txt")
        await scene.tells(LIST)


async def test_directories_hidden_during_a_scan_are_not_watched(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(folder)
    async with watched(folder.root) as scene:
        scene.follow_list()
        await until(lambda: held() > 50)
        folder.write(".gitignore", "d*/\n")
        await scene.of(LIST)
        await until(lambda: held() == 2)  # the root and the ignore file


async def test_rules_changed_during_a_scan_apply_to_the_whole_tree(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(folder)
    expected = 12  # the root, those in it and the ignore file
    async with watched(folder.root) as scene:
        scene.follow_list()
        await until(lambda: held() > 50)
        folder.write(".gitignore", "e*/\n")
        await scene.of(LIST)
        await until(lambda: held() == expected)
        await scene.quiet()
        assert held() == expected


async def test_nothing_is_watched_for_clients_that_left_during_the_scan(
    folder: Folder, tmp_path: Path
) -> None:
    plant(folder)
    other = tmp_path / "other"
    async with watched(other) as scene:
        await scene.follow()
        before = held()
        for _ in range(8):
            async with watched(folder.root) as gone:
                gone.follow_list()
                await until(lambda: held() > before + 50)
            await until(lambda: held() == before)
            await quiet_for(0.01)
            assert held() == before


async def test_changed_rules_are_reported_only_where_exposed_names_differ(
    folder: Folder,
) -> None:
    plant(folder, 300)
    folder.write(".gitignore", "nothing\n")
    grow_old(folder.root)
    interests = MountInterest()
    interests.listing = True
    told: list[Change] = []

    async def take() -> None:
        async for change in Filesystem(folder.root).changes(interests):
            told.append(change)  # noqa: PERF401  read while it grows

    taking = asyncio.create_task(take())
    await until(lambda: held() == 312)
    folder.write(".gitignore", "d3/\n")
    await until(lambda: held() == 281 and bool(told))
    assert {*told} == {Change((), "children")}
    told.clear()
    folder.write(".gitignore", "# what nobody needs\nd3/\n")
    await quiet_for(0.1)
    folder.write("d1/new.txt")
    await until(lambda: bool(told))
    assert {*told} == {Change(("d1",), "children")}
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)


@pytest.mark.parametrize("shut", ["sub", ""])
async def test_a_temporarily_unreadable_directory_is_reported(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, shut: str
) -> None:
    folder.write("sub/b.txt")
    with like_anybody():
        async with watched(folder.root) as scene:
            await scene.follow("sub/b.txt")
            folder.at(shut).chmod(0)
            await scene.of("sub/b.txt", LIST)
            folder.at(shut).chmod(0o755)
            await scene.of("sub/b.txt", LIST)
            folder.write("sub/b.txt", "changed")
            await scene.tells("sub/b.txt")
            folder.write("sub/new.txt")
            await scene.of(LIST)


async def test_a_write_in_an_unlistable_directory_is_reported(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("sub/b.txt")
    with like_anybody():
        async with watched(folder.root) as scene:
            await scene.subscribe("sub/b.txt")
            await scene.quiet()
            folder.at("sub").chmod(0o111)
            await scene.quiet()
            folder.write("sub/b.txt", "changed")
            await scene.tells("sub/b.txt")
            folder.at("sub").chmod(0o755)


def test_a_directory_skipped_for_lack_of_descriptors_is_scanned_again(folder: Folder) -> None:
    source = Register()
    scanner = DirectoryScanner(tree_of(folder), source)
    scanner.listing = True
    work(scanner)
    folder.write("new/file")
    scanner.rescan("")
    with no_descriptors():
        assert work(scanner) == []
    scanner.poll()
    assert Change((), "children") in work(scanner)
    assert source.watched == inodes(folder, ("", "new/"))


def test_a_change_between_a_listing_and_a_scan_for_a_subscription_is_reported(
    folder: Folder,
) -> None:
    folder.write("sub/a.txt")
    folder.write("sub/b.txt")
    grow_old(folder.root)
    scanner = DirectoryScanner(tree_of(folder), Register())
    scanner.add([("sub", "a.txt")])
    followed_at = clock.now_ns()
    folder.remove("sub/b.txt")
    work(scanner)  # it has begun before it was told that the listing is followed
    scanner.listing_since_ns, scanner.listing = followed_at, True
    assert Change(("sub",), "children") in work(scanner)
    scanner.rescan("sub/")
    assert work(scanner) == []


@pytest.mark.skipif(file_system_kind("/") != "local", reason="all is polled here")
def test_pseudo_file_systems_are_scanned_only_for_subscribers() -> None:
    source = Register()
    rules = DirectoryRules(include=PathSelection(["/proc/sys/fs/**"]))
    scanner = DirectoryScanner(
        FileTree(ContainedRoot("/"), ExposureRules({}), rules, follow_links=False), source
    )
    scanner.listing = True
    work(scanner)
    assert source.watched.keys() == {""}
    assert not scanner.has_polled
    path = ("proc", "sys", "fs", "file-max")
    scanner.add([path])
    assert Change(path) in work(scanner)
    scanner.poll()
    assert Change(path) in work(scanner)
    assert source.watched.keys() == {""}
    assert scanner.has_polled
    scanner.remove([path])
    work(scanner)
    scanner.poll()
    assert Change(path) not in work(scanner)


# -- much at once


async def test_nothing_is_missed_in_trees_made_in_a_hurry(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number}/a/b/c/file" for number in range(500)]
    subscribed = names[::20]
    for name in subscribed:
        folder.write(name, "at first")

    def hurry() -> None:
        for name in subscribed:
            folder.remove(name.partition("/")[0])
        for name in names:
            folder.write(name, "then")
        for name in names:
            folder.write(name, "and at last")

    read: dict[str, str] = {}

    class Reader(Recorder):
        def updated(self, uri: str) -> None:
            super().updated(uri)
            path = folder.at(self.told[-1])
            read[self.told[-1]] = path.read_text() if path.exists() else ""

    async with watched(folder.root) as scene:
        reader = Reader()
        view = scene.view
        for name in subscribed:
            await view.broker.subscribe(uri_of(name), reader)
        await scene.follow()
        thread = threading.Thread(target=hurry)
        thread.start()
        await asyncio.to_thread(thread.join)
        await reader.until(lambda: read == dict.fromkeys(subscribed, "and at last"))
        await scene.quiet()
        # Nothing was missed that a later change would have to be told of:
        folder.write("499/a/b/c/new")
        await scene.of(LIST)
        folder.write(subscribed[-1], "once more")
        await reader.until(lambda: read[subscribed[-1]] == "once more")


async def test_a_collection_with_too_many_children_is_notified_of_each_change(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A limit of the module: a collection of more than a thousand files would take seconds.
    monkeypatch.setattr(snapshot, "MAX_CHILDREN", 100)
    for number in range(110):
        folder.write(f"many/{number:04}")
    async with watched(folder.root) as scene:
        await scene.follow("many")
        for name in ("many/0000", "many/0109"):
            folder.write(name, "other")
            await scene.tells("many")
        folder.write("many/9999")
        await scene.tells("many", LIST)
        folder.write("many/.hidden")
        folder.write("many/.hidden", "other")
        await scene.quiet()
        folder.remove("many/9999")
        await scene.tells("many", LIST)


async def test_a_huge_directory_is_scanned_rarely_and_its_files_notify_immediately(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = replace(IMPATIENT, watch_slow_scan_s=0.0, watch_poll_share=1000.0)
    folder.make("huge")
    for number in range(1000):
        folder.at(f"huge/{number}").touch()
    async with watched(folder.root, timing=timing) as scene:
        await scene.follow("huge/7")
        for number in range(50):
            folder.write(f"huge/new{number}")
            await pause(0.002)
        folder.write("huge/7", "other")
        await scene.view.recorder.of("huge/7")
        assert scene.view.recorder.told.count(LIST) <= 2


async def test_no_change_is_missed_when_events_are_lost_by_a_stopped_process(
    folder: Folder, tmp_path: Path
) -> None:
    longest = longest_queue()
    if longest > 100_000:
        pytest.skip("the queue is too long to be filled")
    outside = Folder(tmp_path / "outside")
    outside.write("in/moved.txt")
    for name in ("same", "changed", "removed", "sub/changed", "sub/deep/same", "gone/x", "back/x"):
        folder.write(name, "body")
    subscribed = ("same", "changed", "removed", "sub/changed", "sub/deep/same", "gone/x", "back/x")
    async with teller(folder, *subscribed, "sub", "sub/deep") as process:
        await process.quiet()
        process.signal(signal.SIGSTOP)
        for number in range(longest // 2 + 100):  # two events each
            os.close(os.open(folder.at(f"{number}"), os.O_CREAT | os.O_WRONLY))
        folder.write("changed", "other")
        folder.write("sub/changed", "other")
        folder.remove("removed")
        folder.remove("gone")
        folder.remove("back")
        folder.write("back/x", "other")
        outside.move("in", folder.at("in"))
        process.signal(signal.SIGCONT)
        changed = {"changed", "removed", "sub/changed", "gone/x", "back/x", "sub"}
        await process.of(*changed, LIST)
        assert set(await process.quiet()) <= {*changed, LIST}
        folder.write("in/new.txt")
        await process.of(LIST)
        folder.write("back/x", "and another")
        folder.write("sub/deep/same", "not any more")
        await process.of("back/x", "sub/deep", "sub/deep/same")
        folder.write("gone/x", "back")
        await process.of("gone/x")


def longest_queue() -> int:
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


async def test_above_the_limit_of_directories_only_subscribed_ones_are_watched(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Patched: no option sets the limit, and what it does is seen from outside.
    monkeypatch.setattr("resource_server.providers.filesystem.watch.scanner._MAX_DIRECTORIES", 3)
    names = [f"d{number}/file" for number in range(10)]
    for name in names:
        folder.write(name)
    async with watched(folder.root) as scene:
        await scene.follow()
        await until(lambda: held() == 3)
        await scene.subscribe(*names)
        await until(lambda: held() == 11)
        for name in names:
            folder.write(name, "other")
        await scene.of(*names)
        folder.make("new")
        await scene.of(LIST)
        assert held() == 11
    (warning,) = caplog.messages
    assert "more than 3 folders" in warning
