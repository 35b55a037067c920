"""Nothing is missed, whatever happens while a folder is looked through or its watch is starved."""

from __future__ import annotations

import asyncio
import errno
import json
import mmap
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from resource_server.provider import Change
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.directory import is_fresh
from resource_server.providers.filesystem.exposure.rules import (
    DirectoryRules,
    ExposureRules,
    Selection,
)
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.root import Root
from resource_server.providers.filesystem.watch.file_system_kind import file_system_kind
from resource_server.providers.filesystem.watch.scanner import DirectoryScanner
from resource_server.subscriptions import broker, snapshot
from resource_server.subscriptions.interest import MountInterest
from tests.anybody import like_anybody
from tests.listeners import IMPATIENT, LIST, Folder, Recorder, held, impatient, uri_of, watched

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux has inotify"),
]

_SCRIPT = Path(__file__).with_name("teller.py")
_WARNING = "sysctl fs.inotify.max_user_watches="


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "root")


# -- while it is looked through


def plant(folder: Folder, count: int = 600) -> list[str]:
    """Make so many directories in ten, and return their names."""
    names = [f"d{number % 10}/e{number:04}" for number in range(count)]
    for name in names:
        folder.make(name)
    return names


async def test_what_comes_into_a_directory_that_is_not_watched_yet_is_told(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    names = plant(folder)
    await asyncio.sleep(0.02)
    for name in (names[0], names[-1]):
        async with watched(folder.root) as scene:
            scene.follow_list()
            await until(lambda: held() > 50)
            folder.write(f"{name}/new.txt")
            await scene.of(LIST)


async def test_what_comes_into_a_tree_that_was_moved_in_and_told_of_is_told(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
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


async def test_what_nobody_needed_until_the_list_mattered_is_watched(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
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


async def test_what_is_hidden_while_it_is_looked_through_is_not_watched(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    plant(folder)
    async with watched(folder.root) as scene:
        scene.follow_list()
        await until(lambda: held() > 50)
        folder.write(".gitignore", "d*/\n")
        await scene.of(LIST)
        await until(lambda: held() == 2)  # the root and the ignore file


async def test_rules_that_change_while_a_tree_is_looked_through_hold_in_all_of_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
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


async def test_nothing_is_watched_for_who_left_while_it_was_looked_through(
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
            await asyncio.sleep(0.01)
            assert held() == before


async def test_rules_that_change_are_told_of_where_other_names_are_exposed(
    folder: Folder,
) -> None:
    plant(folder, 300)
    folder.write(".gitignore", "nothing\n")
    await asyncio.sleep(0.02)
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
    await asyncio.sleep(0.1)
    folder.write("d1/new.txt")
    await until(lambda: bool(told))
    assert {*told} == {Change(("d1",), "children")}
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)


class Meddler:
    """A source of no events; an ignore file is written just before it is watched."""

    def __init__(self, folder: Folder, *texts: str) -> None:
        self._folder = folder
        self._left = [*texts]

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        pass

    def add_file(self, prefix: str, name: str, fd: int) -> None:
        if self._left:
            self._folder.write(prefix + name, self._left.pop())

    def remove(self, prefix: str, name: str = "") -> None:
        pass


def test_an_ignore_file_that_is_written_just_before_it_is_watched_is_read_again(
    folder: Folder,
) -> None:
    folder.write("sub/a.txt")
    folder.write("sub/.gitignore", "nothing\n")
    scanner = DirectoryScanner(tree_of(folder), Meddler(folder, "*.txt\n"))
    scanner.listing = True
    # Of the directory that nobody knew, and of what it is after the ignore file was written.
    assert work(scanner).count(Change(("sub",), "children")) == 2


class Retargeter(Meddler):
    """A source of no events; a link comes to lead elsewhere just before it is watched."""

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        if self._left and prefix == "links/":
            self._folder.link("links/file", "../" + self._left.pop())


def test_a_link_that_comes_to_lead_elsewhere_just_before_it_is_watched_is_followed_again(
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


def test_what_gives_up_its_watch_for_what_is_hidden_then_is_polled(folder: Folder) -> None:
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


# -- what no event tells of


class Register:
    """A source of no events; which directory it watches in each place, by its inode."""

    def __init__(self) -> None:
        self.watched: dict[str, int] = {}

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        self.watched[prefix] = os.fstat(fd).st_ino

    def add_file(self, prefix: str, name: str, fd: int) -> None:
        pass

    def remove(self, prefix: str, name: str = "") -> None:
        self.watched.pop(prefix + name, None)


def inodes(folder: Folder, prefixes: Iterable[str]) -> dict[str, int]:
    return {prefix: folder.at(prefix).stat().st_ino for prefix in prefixes}


def grow_old(folder: Folder) -> None:
    """Wait until a further change of any directory would show in its times."""
    some = [folder.root, *folder.root.rglob("*/")]
    while any(is_fresh(path.stat()) for path in some):
        time.sleep(0.002)


@pytest.mark.parametrize("is_old", [True, False])
def test_a_directory_that_another_one_replaces_without_an_event_is_watched_anew(
    folder: Folder, tmp_path: Path, *, is_old: bool
) -> None:
    other = Folder(tmp_path / "other")
    for each in (folder.at("sub"), other.root):
        Folder(each).write("deep/file")
    if is_old:
        grow_old(folder)
    source = Register()
    scanner = DirectoryScanner(tree_of(folder), source)
    scanner.listing = True
    work(scanner)
    folder.move("sub", tmp_path / "before")
    other.root.rename(folder.at("sub"))
    grow_old(folder)
    scanner.poll(everything=True)
    work(scanner)
    assert source.watched == inodes(folder, ("", "sub/", "sub/deep/"))


def test_a_directory_that_another_one_replaces_without_an_event_is_told_of(
    folder: Folder, tmp_path: Path
) -> None:
    other = Folder(tmp_path / "other")
    for each in (folder.at("sub"), other.root):
        Folder(each).write("file")
    grow_old(folder)
    scanner = DirectoryScanner(tree_of(folder), Register())
    scanner.listing = True
    scanner.add([("sub", "file")])
    work(scanner)
    folder.move("sub", tmp_path / "before")
    other.root.rename(folder.at("sub"))
    grow_old(folder)
    scanner.poll(everything=True)
    assert {Change((), "children"), Change(("sub",), "tree")} <= {*work(scanner)}


def test_a_directory_that_can_be_read_at_last_is_found_by_the_sweep(folder: Folder) -> None:
    folder.write("shut/deep/file")
    folder.at("shut").chmod(0)
    grow_old(folder)
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


@pytest.mark.parametrize("shut", ["sub", ""])
async def test_a_directory_that_nobody_may_read_for_a_while_is_told_of(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, shut: str
) -> None:
    impatient(monkeypatch)
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


async def test_what_is_written_in_a_directory_that_cannot_be_listed_is_told_of(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
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


def test_a_directory_for_which_there_was_no_descriptor_is_looked_at_again(folder: Folder) -> None:
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


@contextmanager
def no_descriptors() -> Generator[None]:
    """Let this process open nothing more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.skipif(file_system_kind("/") != "local", reason="all is polled here")
def test_what_the_kernel_makes_up_is_not_looked_at_unless_it_is_subscribed_to() -> None:
    source = Register()
    scope = DirectoryRules(include=Selection(["/proc/sys/fs/**"]))
    scanner = DirectoryScanner(
        FileTree(Root("/"), ExposureRules({}), scope, follow_links=False), source
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


def work(scanner: DirectoryScanner) -> list[Change]:
    """Return what is found until there is nothing left to do."""
    found: list[Change] = []
    while scanner.has_work:
        found += scanner.work()
    return found


def tree_of(folder: Folder, *, follow_links: bool = False) -> FileTree:
    return FileTree(
        Root(str(folder.root)), ExposureRules({}), DirectoryRules(), follow_links=follow_links
    )


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that no event tells of."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


# -- much at once


async def test_of_trees_made_in_a_hurry_nothing_is_missed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
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


async def test_a_collection_with_more_children_than_are_compared_is_told_of_each(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    monkeypatch.setattr(snapshot, "_MAX_CHILDREN", 100)
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


async def test_a_huge_directory_is_looked_at_seldom_and_its_files_are_told_at_once(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    timing = replace(IMPATIENT, watch_slow_scan_s=0.0, watch_poll_share=1000.0)
    folder.make("huge")
    for number in range(1000):
        folder.at(f"huge/{number}").touch()
    async with watched(folder.root, timing=timing) as scene:
        await scene.follow("huge/7")
        for number in range(50):
            folder.write(f"huge/new{number}")
            await asyncio.sleep(0.002)
        folder.write("huge/7", "other")
        await scene.view.recorder.of("huge/7")
        assert scene.view.recorder.told.count(LIST) <= 2


async def test_what_a_mapping_writes_is_found_by_the_sweep(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    monkeypatch.setattr(broker, "_SWEEP_S", 0.05)
    folder.write("a", "x" * 4096)
    async with watched(folder.root) as scene:
        await scene.subscribe("a")
        await scene.quiet()
        with folder.at("a").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
            mapping[0] = ord("y")
            await scene.tells("a")


# -- lost events


class Teller:
    """A process that watches a folder; what it tells."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[str] = []
        self.warnings = ""

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def subscribe(self, path: str) -> None:
        """Let it subscribe to one more path, and wait until all is watched."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{path}\n".encode())
        await self.of("<subscribed>")
        await self.quiet()

    async def of(self, *some: str) -> None:
        """Wait until these have been told."""
        assert self.process.stdout is not None
        async with asyncio.timeout(20):
            while not set(some) <= set(self.told):
                line = await self.process.stdout.readline()
                assert line, f"it ended, and told only {self.told[-20:]}"
                self.told.append(json.loads(line))

    async def quiet(self, seconds: float = 0.3) -> list[str]:
        """Return what was told until nothing is told for a while, and forget it."""
        assert self.process.stdout is not None
        try:
            while True:
                async with asyncio.timeout(seconds):
                    self.told.append(json.loads(await self.process.stdout.readline()))
        except TimeoutError:
            told, self.told = self.told, []
        return told

    async def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        self.process.stdin.close()
        self.warnings = (await self.process.stderr.read()).decode()
        await self.process.wait()


@asynccontextmanager
async def teller(
    folder: Folder,
    *paths: str,
    follows_list: bool = True,
    limits: Mapping[str, int] | None = None,
    times: Mapping[str, float] | None = None,
) -> AsyncGenerator[Teller]:
    options = {
        "root": str(folder.root),
        "paths": paths,
        "follows_list": follows_list,
        "limits": limits or {},
        "times": times or {},
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(_SCRIPT),
        json.dumps(options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    teller = Teller(process)
    try:
        assert process.stdout is not None
        first = json.loads(await process.stdout.readline())
        if first.startswith("<not permitted"):
            pytest.skip(f"limits cannot be lowered here: {first}")
        assert first == "<ready>"
        yield teller
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            await teller.end()


async def test_nothing_is_missed_by_a_process_that_was_stopped_while_events_were_lost(
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


# -- too few watches


async def test_with_too_few_watches_subscribers_come_first_and_the_rest_is_polled(
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


async def test_with_too_few_watches_what_is_subscribed_to_later_is_still_watched(
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


async def test_of_more_directories_than_are_looked_at_those_subscribed_to_are_watched(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    impatient(monkeypatch)
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


async def test_without_any_watch_everything_is_polled(folder: Folder) -> None:
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
