"""One inotify descriptor for all watchers of a process."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from resource_server.runtime import inotify
from resource_server.runtime.inotify import Inotify
from tests.listeners import held
from tests.waiting import PATIENCE_S, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux has inotify"),
]

STRUCTURE = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
CONTENT = inotify.CLOSE_WRITE


class Watcher:
    """Remembers the events it is told of."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, str]] = []
        self.overflows = 0
        self._news = asyncio.Event()

    def happened(self, place: str, mask: int, name: str) -> None:
        self.events.append((place, mask, name))
        self._news.set()

    def overflowed(self) -> None:
        self.overflows += 1
        self._news.set()

    def names(self, mask: int) -> list[str]:
        return [name for _, seen, name in self.events if seen & mask]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._news.clear()
                await self._news.wait()


@pytest.fixture
async def shared() -> AsyncIterator[Inotify]:
    shared = Inotify.shared()
    yield shared
    shared.release()


@contextmanager
def opened(path: Path) -> Generator[int]:
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def add(shared: Inotify, path: Path, watcher: Watcher, mask: int, place: str = "p/") -> int:
    with opened(path) as fd:
        return shared.add(fd, mask, watcher, place)


# -- what is told


async def test_an_event_has_its_directory_and_its_name(shared: Inotify, tmp_path: Path) -> None:
    watcher = Watcher()
    add(shared, tmp_path, watcher, STRUCTURE, "here/")
    names = ["plain", "new\nline", "ü 🎉", os.fsdecode(b"caf\xe9"), "x" * 255]
    for name in names:
        (tmp_path / name).touch()
    await watcher.until(lambda: len(watcher.events) >= len(names))
    assert watcher.events == [("here/", inotify.CREATE, name) for name in names]


async def test_a_watch_follows_the_directory_and_not_its_name(
    shared: Inotify, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    watcher = Watcher()
    with opened(tmp_path / "a") as fd:
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").mkdir()
        shared.add(fd, STRUCTURE, watcher, "a/")
    (tmp_path / "a/other").touch()
    (tmp_path / "b/own").touch()
    await watcher.until(lambda: bool(watcher.events))
    assert watcher.names(STRUCTURE) == ["own"]


async def test_all_events_are_reported_even_if_they_exceed_one_read(
    shared: Inotify, tmp_path: Path
) -> None:
    watcher = Watcher()
    add(shared, tmp_path, watcher, STRUCTURE)
    names = [f"{number:0200}" for number in range(1000)]
    for name in names:
        (tmp_path / name).touch()
    await watcher.until(lambda: len(watcher.events) >= len(names))
    assert watcher.names(inotify.CREATE) == names
    assert watcher.overflows == 0


async def test_lost_events_are_reported_to_every_watcher(shared: Inotify, tmp_path: Path) -> None:
    most = _longest_queue()
    if most > 100_000:
        pytest.skip("the queue is too long to be filled")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    watchers = [Watcher(), Watcher()]
    add(shared, tmp_path / "a", watchers[0], STRUCTURE)
    add(shared, tmp_path / "b", watchers[1], STRUCTURE)
    (tmp_path / "a/0").touch()
    for number in range(most // 2 + 1):
        (tmp_path / f"a/{number}").rename(tmp_path / f"a/{number + 1}")
    await watchers[1].until(lambda: watchers[1].overflows > 0)
    assert watchers[0].overflows == 1
    (tmp_path / "b/x").touch()
    await watchers[1].until(lambda: bool(watchers[1].events))


# -- several watchers


async def test_every_watcher_of_one_directory_gets_the_events(
    shared: Inotify, tmp_path: Path
) -> None:
    watchers = [Watcher(), Watcher()]
    watch = add(shared, tmp_path, watchers[0], STRUCTURE, "one/")
    assert add(shared, tmp_path, watchers[1], STRUCTURE, "two/") == watch
    (tmp_path / "x").touch()
    await watchers[1].until(lambda: bool(watchers[1].events))
    assert [watcher.events for watcher in watchers] == [
        [("one/", inotify.CREATE, "x")],
        [("two/", inotify.CREATE, "x")],
    ]


async def test_removing_a_watcher_does_not_affect_others(shared: Inotify, tmp_path: Path) -> None:
    stays, leaves = Watcher(), Watcher()
    add(shared, tmp_path, stays, STRUCTURE | CONTENT, "stays/")
    watch = add(shared, tmp_path, leaves, STRUCTURE, "leaves/")
    shared.remove(watch, leaves, "leaves/")
    (tmp_path / "x").write_text("x")
    await stays.until(lambda: bool(stays.names(CONTENT)))
    assert leaves.events == []


async def test_a_watcher_of_two_directories_can_drop_one(shared: Inotify, tmp_path: Path) -> None:
    watcher = Watcher()
    watch = add(shared, tmp_path, watcher, STRUCTURE, "one/")
    add(shared, tmp_path, watcher, STRUCTURE, "two/")
    shared.remove(watch, watcher, "one/")
    (tmp_path / "x").touch()
    await watcher.until(lambda: bool(watcher.events))
    assert watcher.events == [("two/", inotify.CREATE, "x")]


async def test_a_watcher_of_fewer_events_never_takes_events_from_another(
    shared: Inotify, tmp_path: Path
) -> None:
    more, less = Watcher(), Watcher()
    add(shared, tmp_path, more, CONTENT)
    is_done = threading.Event()

    def hammer() -> None:
        while not is_done.is_set():
            add(shared, tmp_path, less, inotify.DELETE)

    names = [str(number) for number in range(3000)]

    def write() -> None:
        for name in names:
            (tmp_path / name).write_text("x")

    threads = [threading.Thread(target=hammer), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    try:
        await asyncio.to_thread(threads[1].join)
        (tmp_path / "last").write_text("x")
        await more.until(lambda: "last" in more.names(CONTENT))
    finally:
        is_done.set()
        threads[0].join()
    assert more.names(CONTENT) == [*names, "last"]


async def test_a_watcher_can_reduce_its_events(shared: Inotify, tmp_path: Path) -> None:
    watcher = Watcher()
    add(shared, tmp_path, watcher, STRUCTURE | CONTENT)
    add(shared, tmp_path, watcher, STRUCTURE)
    (tmp_path / "x").write_text("x")
    (tmp_path / "y").touch()
    await watcher.until(lambda: "y" in watcher.names(inotify.CREATE))
    assert watcher.names(CONTENT) == []


# -- what is gone


async def test_a_deleted_directory_can_no_longer_be_watched(
    shared: Inotify, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    watcher = Watcher()
    watch = add(shared, tmp_path / "a", watcher, STRUCTURE)
    (tmp_path / "a").rmdir()
    await watcher.until(lambda: bool(watcher.names(inotify.IGNORED)))
    shared.remove(watch, watcher, "p/")
    shared.remove(watch, watcher, "p/")
    (tmp_path / "a").mkdir()
    assert add(shared, tmp_path / "a", watcher, STRUCTURE) != watch


async def test_a_removed_watch_reports_no_events(shared: Inotify, tmp_path: Path) -> None:
    watcher, other = Watcher(), Watcher()
    watch = add(shared, tmp_path, watcher, STRUCTURE)
    (tmp_path / "before").touch()
    shared.remove(watch, watcher, "p/")
    add(shared, tmp_path, other, STRUCTURE)
    (tmp_path / "after").touch()
    await other.until(lambda: bool(other.names(inotify.CREATE)))
    assert watcher.events == []


async def test_a_failing_watch_raises_the_reason(shared: Inotify) -> None:
    with pytest.raises(OSError, match="No such file") as refused:
        shared.add(987_654, STRUCTURE, Watcher(), "p/")
    assert refused.value.errno == errno.ENOENT


# -- the descriptor


async def test_a_process_has_one_descriptor_closed_with_its_last_user(
    tmp_path: Path,
) -> None:
    # A descriptor is closed in a thread, that of the test before this one as well.
    await until(lambda: _descriptors() == 0)
    users = [Inotify.shared() for _ in range(3)]
    assert len(set(map(id, users))) == 1
    assert _descriptors() == 1
    add(users[0], tmp_path, Watcher(), STRUCTURE)
    for user in users:
        assert _descriptors() == 1
        user.release()
    await until(lambda: (_descriptors(), held()) == (0, 0))
    again = Inotify.shared()
    watcher = Watcher()
    add(again, tmp_path, watcher, STRUCTURE)
    (tmp_path / "x").touch()
    await watcher.until(lambda: bool(watcher.events))
    again.release()


def _longest_queue() -> int:
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


def _descriptors() -> int:
    """Return how many inotify descriptors this process has."""
    links = list[str]()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the directory itself
            links.append(str(path.readlink()))
    return links.count("anon_inode:inotify")
