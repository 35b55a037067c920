from __future__ import annotations

import asyncio
import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from resource_server.providers.filesystem import Filesystem
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.providers.filesystem.search_index.oracle import (
    FAST,
    both,
    found,
    until_current,
    words,
)
from tests.providers.filesystem.trees import plant
from tests.waiting import block_until, grow_old, until

pytestmark = pytest.mark.anyio

NEEDLE = words("needle")
HAY, FOUND = "hay in a stack\n", "hay, needle: \n"


def grow(root: Path) -> None:
    with (root / "a.txt").open("a") as file:
        file.write(FOUND)


def shrink(root: Path) -> None:
    os.truncate(root / "b.txt", 3)


def vanish(root: Path) -> None:
    (root / "b.txt").unlink()


def appear(root: Path) -> None:
    (root / "sub" / "deep" / "new").mkdir(parents=True)
    (root / "sub" / "deep" / "new" / "c.txt").write_text(FOUND)


def replaced(root: Path) -> None:
    (root / "temporary").write_text(FOUND)
    (root / "temporary").rename(root / "a.txt")


def exchange(root: Path) -> None:
    (root / "a.txt").rename(root / "c.txt")
    (root / "b.txt").rename(root / "a.txt")
    (root / "c.txt").rename(root / "b.txt")


def write_in_place_with_the_times_of_before(root: Path) -> None:
    status = (root / "a.txt").stat()
    (root / "a.txt").write_text(FOUND)
    os.utime(root / "a.txt", ns=(status.st_atime_ns, status.st_mtime_ns))


def write_and_date_back(root: Path) -> None:
    (root / "a.txt").write_text(FOUND)
    os.utime(root / "a.txt", (0, 0))


def write_with_a_time_to_come(root: Path) -> None:
    (root / "a.txt").write_text(FOUND)
    os.utime(root / "a.txt", (4e9, 4e9))


def write_by_a_second_name(root: Path) -> None:
    os.link(root / "a.txt", root / "sub" / "link.txt")
    (root / "sub" / "link.txt").write_text(FOUND)


def write_by_a_second_name_that_was_moved_in(root: Path) -> None:
    os.link(root / "a.txt", root.parent / "outside.txt")
    (root.parent / "outside.txt").rename(root / "sub" / "link.txt")
    (root / "sub" / "link.txt").write_text(FOUND)


def write_to_memory(root: Path) -> None:
    with (
        (root / "a.txt").open("r+b") as file,
        mmap.mmap(file.fileno(), 0) as mapped,
    ):
        mapped[: len(FOUND)] = FOUND.encode()


def swap_directories(root: Path) -> None:
    (root / "sub").rename(root / "old")
    (root / "other").rename(root / "sub")


def move_a_directory_out_and_another_in(root: Path) -> None:
    (root / "sub").rename(root.parent / "out")
    (root.parent / "out" / "s.txt").write_text(HAY * 2)
    (root.parent / "in").mkdir()
    (root.parent / "in" / "s.txt").write_text(FOUND)
    (root.parent / "in").rename(root / "sub")


def become_a_directory(root: Path) -> None:
    (root / "b.txt").unlink()
    (root / "b.txt").mkdir()
    (root / "b.txt" / "inner.txt").write_text(FOUND)


def hide_and_show(root: Path) -> None:
    (root / "sub").rename(root / ".sub")
    (root / ".sub" / "s.txt").write_text(FOUND)
    (root / ".sub").rename(root / "sub")


def overflow_the_queue(root: Path) -> None:
    for number in range(9_000):
        (root / "sub" / f"{number % 2}").touch()
        (root / "other" / f"{number % 2}").touch()
    (root / "other" / "o.txt").write_text(HAY)


_CHANGES: list[Callable[[Path], None]] = [
    grow, shrink, vanish, appear, replaced, exchange, write_in_place_with_the_times_of_before,
    write_and_date_back, write_with_a_time_to_come, write_by_a_second_name,
    write_by_a_second_name_that_was_moved_in, swap_directories, move_a_directory_out_and_another_in,
    become_a_directory, hide_and_show, overflow_the_queue,
]  # fmt: skip


def build(root: Path) -> Path:
    plant(root, ())
    for name, text in (
        ("a.txt", HAY),
        ("b.txt", FOUND),
        ("sub/s.txt", HAY),
        ("other/o.txt", FOUND),
        ("other/s.txt", FOUND),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    grow_old(root)
    return root


@for_each("change", _CHANGES, ids=[change.__name__ for change in _CHANGES])
async def test_a_change_counts_in_the_next_search(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    root = build(tmp_path / change.__name__ / "root")
    async with both(root, tmp_path / "cache", watch="off") as folders:
        await until_current(folders[0])
        for _ in range(2):
            await found(folders, NEEDLE)
        change(root)
        first = await found(folders, NEEDLE)
        await until_current(folders[0])
        for _ in range(2):
            assert await found(folders, NEEDLE) == first
        (root / "a.txt").write_text("no straw\n")
        assert "a.txt" not in await found(folders, NEEDLE)


@pytest.mark.deep
@for_each("is_outside", [True, False])
async def test_a_write_that_the_kernel_does_not_report_counts_after_the_next_sweep(
    tmp_path: Path, *, is_outside: bool
) -> None:
    root = build(tmp_path / str(is_outside) / "root")
    folder = Filesystem(root, index=True, cache=tmp_path / "cache")
    folder.timing = replace(FAST, sweep_s=0.05, watch_poll_share=0.1)
    async with folder:
        await until_current(folder)
        if is_outside:
            os.link(root / "a.txt", tmp_path / "outside.txt")
            (tmp_path / "outside.txt").write_text(FOUND)
        else:
            write_to_memory(root)

        async def is_found() -> bool:
            return "a.txt" in await found((folder,), NEEDLE)

        await until(is_found)


@for_each("is_new", [False, True])
async def test_what_changed_before_a_search_is_found_though_the_index_learns_of_it_meanwhile(
    tmp_path: Path, *, is_new: bool
) -> None:
    root = build(tmp_path / str(is_new))
    (root / "z").mkdir()
    (root / "z" / "z.txt").write_text(HAY)
    grow_old(root)
    folder = Filesystem(root, index=True, cache=tmp_path / "cache")
    folder.timing = Timing(index_settle_s=0.3, watch_poll_share=0.1)
    async with folder:
        await until_current(folder)
        for _ in range(2):
            await found((folder,), NEEDLE)
        (root / "z" / "z.txt").write_text(FOUND)
        if is_new:
            (root / "z" / "y.txt").write_text(HAY)
        index, is_first = folder.search_index, threading.Event()
        assert index is not None

        def wait(count: int) -> None:
            if not is_first.is_set():
                is_first.set()
                block_until(index.is_current)

        assert "z/z.txt" in await found((folder,), replace(NEEDLE, on_progress=wait))


@pytest.mark.deep
async def test_searches_from_all_threads_agree_while_documents_are_written(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    async with both(root, tmp_path / "cache") as (indexed, _):
        for turn in range(100):
            name, text = f"sub/{turn % 7}.txt", (HAY, FOUND)[turn % 2]
            (root / name).write_text(text)
            searches = [found((indexed,), NEEDLE) for _ in range(8)]
            for hits in await asyncio.gather(*searches):
                assert (name in hits) == (text == FOUND), turn


_UNDER_A_LIMIT = """
import asyncio, pathlib, sys
pathlib.Path("/proc/sys/user/max_inotify_watches").write_text(sys.argv[1])
from tests.providers.filesystem.search_index import test_changes
asyncio.run(test_changes.without_enough_watches(pathlib.Path(sys.argv[2])))
"""


async def without_enough_watches(folder: Path) -> None:
    root = build(folder / "root")
    async with both(root, folder / "cache") as folders:
        await until_current(folders[0])
        for change in (grow, replaced, swap_directories, appear, exchange):
            await found(folders, NEEDLE)
            change(root)
            await found(folders, NEEDLE)
            grow_old(root)
            await until_current(folders[0])


@pytest.mark.deep
@for_each("limit", ["0", "2"])
def test_answers_are_those_of_a_scan_where_the_kernel_grants_no_more_watches(
    tmp_path: Path, limit: str
) -> None:
    folder = plant(tmp_path / limit, ())
    command = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("no user namespaces")
    run = [*command, sys.executable, "-c", _UNDER_A_LIMIT, limit, str(folder)]
    subprocess.run(run, check=True, cwd=Path(__file__).parents[4])


_MOUNTED_TWICE = """
import asyncio, pathlib, sys
from tests.providers.filesystem.search_index import test_changes
asyncio.run(test_changes.with_a_directory_in_two_places(pathlib.Path(sys.argv[1])))
"""


async def with_a_directory_in_two_places(root: Path) -> None:
    async with both(root, root.parent / "cache") as folders:
        for name in ("other/1", "sub/2", "other/3", "sub/4"):
            await until_current(folders[0])
            for _ in range(2):
                await found(folders, NEEDLE)
            (root / name).write_text(FOUND)
            await found(folders, NEEDLE)


@pytest.mark.deep
def test_a_directory_that_is_mounted_in_two_places_changes_in_both(tmp_path: Path) -> None:
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("no user namespaces")
    root = build(tmp_path / "root")
    for name in "1234":
        (root / "other" / name).write_text(HAY)
    grow_old(root)
    script = 'mount --bind "$0/other" "$0/sub" && exec "$@"'
    run = [*command, "sh", "-c", script, str(root), sys.executable, "-c", _MOUNTED_TWICE, str(root)]
    subprocess.run(run, check=True, cwd=Path(__file__).parents[4])
