from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from resource_server.provider import ByteSize
from resource_server.providers.filesystem.search_index.store import IndexStore
from tests.cases import for_each
from tests.providers.filesystem.search_index.oracle import (
    both,
    found,
    pages,
    until_current,
    words,
)
from tests.waiting import grow_old, until

pytestmark = pytest.mark.anyio

NEEDLE = words("needle")
COUNT = 60


def plant(root: Path) -> Path:
    for number in range(COUNT):
        path = root / f"d{number % 5}" / f"{number:02}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"word{number} {'needle' if number % 7 == 0 else 'hay'}\n")
    grow_old(root)
    return root


def file_of(cache: Path) -> Path:
    (path,) = cache.glob("*.mcp-search")
    return path


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def overwritten(path: Path) -> None:
    path.write_bytes(b"no database " * 1000)


def of_a_newer_version(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2147483647")
        connection.execute("DROP TABLE documents")


def without_trigrams(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM trigrams_data")
        connection.commit()


def without_documents(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE documents")


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def link_as_lock(path: Path) -> None:
    lock = path.with_name(path.name + "-lock")
    lock.unlink()
    lock.symlink_to(path.with_name("elsewhere"))


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def gone(path: Path) -> None:
    path.unlink()


def cache_is_gone(path: Path) -> None:
    shutil.rmtree(path.parent)


def cache_is_a_file(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_text("")


def cache_is_open_to_others(path: Path) -> None:
    path.parent.chmod(0o777)


def file_is_of_another_user(path: Path) -> None:
    with contextlib.suppress(PermissionError):
        os.chown(path, 12345, 12345)


def cache_is_of_another_user(path: Path) -> None:
    with contextlib.suppress(PermissionError):
        os.chown(path.parent, 12345, 12345)


_MENDED: Sequence[Callable[[Path], None]] = (
    truncated, empty, overwritten, of_a_newer_version, without_trigrams, without_documents,
    gone, cache_is_gone,
)  # fmt: skip
_REFUSED: Sequence[Callable[[Path], None]] = (
    link, link_as_lock, folder, pipe, cache_is_a_file, cache_is_open_to_others,
    file_is_of_another_user, cache_is_of_another_user,
)  # fmt: skip


@for_each("harm", [*_MENDED, *_REFUSED], ids=[each.__name__ for each in (*_MENDED, *_REFUSED)])
async def test_a_file_that_is_not_as_it_was_left_changes_no_answer(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    root = plant(tmp_path / harm.__name__ / "root")
    cache = tmp_path / harm.__name__ / "cache"
    async with both(root, cache) as folders:
        await until_current(folders[0])
    harm(file_of(cache))
    async with both(root, cache) as folders:
        index = folders[0].search_index
        assert index is not None
        if harm in _MENDED or (os.geteuid() and "user" in harm.__name__):
            await until_current(folders[0])
        else:
            await until(lambda: index.state.problem)
        expected = [f"d{number % 5}/{number:02}.txt" for number in range(0, COUNT, 7)]
        assert sorted(await found(folders, NEEDLE)) == sorted(expected)
        (root / "d1" / "new.txt").write_text("needle")
        assert "d1/new.txt" in await found(folders, NEEDLE)


_WHILE_USED = (gone, cache_is_gone, truncated, overwritten, link_as_lock, cache_is_open_to_others)


@for_each("harm", _WHILE_USED, ids=[each.__name__ for each in _WHILE_USED])
async def test_a_file_that_is_harmed_while_it_is_used_changes_no_answer(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    root = plant(tmp_path / harm.__name__ / "root")
    cache = tmp_path / harm.__name__ / "cache"
    async with both(root, cache) as folders:
        await until_current(folders[0])
        await found(folders, NEEDLE)
        harm(file_of(cache))
        for number in range(5):
            (root / "d0" / "00.txt").write_text("needle" if number % 2 else "hay")
            hits = await found(folders, NEEDLE)
            assert ("d0/00.txt" in hits) == bool(number % 2)


async def test_an_index_that_another_process_makes_meanwhile_has_one_writer(tmp_path: Path) -> None:
    root, cache = plant(tmp_path / "root"), tmp_path / "cache"
    async with both(root, cache) as (first, scanned):
        await until_current(first)
        for path in cache.glob("*-lock"):
            path.unlink()
        async with both(root, cache) as (second, _):
            await until_current(second)
            for number in range(6):
                (root / "d0" / "00.txt").write_text("needle" if number % 2 else "hay")
                hits = await found((first, second, scanned), NEEDLE)
                assert ("d0/00.txt" in hits) == bool(number % 2)
                await until_current(second)
            assert first.search_index is not None
            problem = first.search_index.state.problem
            assert problem is None or "gone" in problem


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(5))
async def test_bytes_that_are_damaged_fail_no_search(tmp_path: Path, seed: int) -> None:
    root, cache = plant(tmp_path / "root"), tmp_path / "cache"
    async with both(root, cache) as folders:
        await until_current(folders[0])
    path = file_of(cache)
    whole = path.read_bytes()
    chance = random.Random(seed)  # noqa: S311  a seed repeats it
    for _ in range(20):
        harmed = bytearray(whole)
        for _ in range(chance.randint(1, 20)):
            harmed[chance.randrange(100, len(harmed))] = chance.randrange(256)
        path.write_bytes(harmed)  # a server may have deleted it, and ended
        async with both(root, cache) as (indexed, _):
            for text in ("needle", "word1", "hay", "absent"):
                for page in await pages(indexed, words(text), 1000):
                    assert not isinstance(page, type), page


def test_a_file_of_another_version_is_read_once_another_process_has_replaced_it(
    tmp_path: Path,
) -> None:
    writer, reader = (IndexStore(tmp_path, "/", "", max_bytes=10**9) for _ in range(2))
    assert writer.lock()
    writer.prepare()
    of_a_newer_version(file_of(tmp_path))
    assert not reader.is_readable()
    os.link(file_of(tmp_path), tmp_path / "kept")  # another file cannot get its number
    writer.prepare()
    assert reader.is_readable()
    for store in (reader, writer):
        store.close()


async def test_documents_beyond_the_size_of_the_index_are_found(tmp_path: Path) -> None:
    root = plant(tmp_path / "root")
    for number in range(600):
        (root / "d4" / f"x{number}.txt").write_text(f"{random.random()} needle {number}\n" * 20)  # noqa: S311
    grow_old(root)
    async with both(root, tmp_path / "cache", index_size=ByteSize(100_000)) as folders:
        await until_current(folders[0])
        assert len(await found(folders, NEEDLE)) == 600 + len(range(0, COUNT, 7))
        assert await found(folders, words("word59")) == ["d4/59.txt"]


_LIMITED = """
import asyncio, pathlib, resource, sys
from tests.providers.filesystem.search_index import test_store
asyncio.run(test_store.with_files_of_at_most(int(sys.argv[1]), pathlib.Path(sys.argv[2])))
"""


async def with_files_of_at_most(size: int, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    async with both(folder / "root", folder / "cache") as folders:
        index = folders[0].search_index
        assert index is not None
        await until(lambda: index.state.problem)
        assert len(await found(folders, NEEDLE)) == len(range(0, COUNT, 7))


@for_each("size", [0, 5_000, 40_000])
def test_a_disk_that_is_full_changes_no_answer(tmp_path: Path, size: int) -> None:
    folder = tmp_path / str(size)
    plant(folder / "root")
    run = [sys.executable, "-c", _LIMITED, str(size), str(folder)]
    subprocess.run(run, check=True, cwd=Path(__file__).parents[4])


async def test_an_index_that_is_closed_while_it_is_built_leaves_nothing_open(
    tmp_path: Path,
) -> None:
    root = plant(tmp_path / "root")
    before = len(open_files())
    for _ in range(3):
        async with both(root, tmp_path / "cache") as folders:
            await found(folders, NEEDLE)
            await until(lambda: len(open_files()) > before)
        await until(lambda: len(open_files()) <= before)


def open_files() -> Sequence[str]:
    """Return the open files of an index in this process."""
    opened: list[str] = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            opened.append(str(link.readlink()))
    return [each for each in opened if "mcp-search" in each or "inotify" in each]
