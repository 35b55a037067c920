from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import DirectoryOptions
from resource_server.runtime.eager import settle
from tests.cases import for_each
from tests.conversion.portable import pdf
from tests.providers.filesystem.search_index.oracle import (
    FAST,
    both,
    found,
    pages,
    until_current,
    words,
)
from tests.waiting import grow_old, until

pytestmark = pytest.mark.anyio

NEEDLE = words("needle")
_STALL_S = 1.0
"""A read that waits behind searches takes as long as they do: tens of seconds."""


async def test_names_that_are_no_utf8_are_searched_at_each_search(tmp_path: Path) -> None:
    root = tmp_path / "root"
    odd = root / os.fsdecode(b"d\xff")
    odd.mkdir(parents=True)
    (odd / "a.txt").write_text("needle")
    (root / os.fsdecode(b"\xe9.txt")).write_text("hay")
    (root / "z.txt").write_text("needle")
    grow_old(root)
    async with both(root, tmp_path / "cache") as folders:
        await until_current(folders[0])
        for text, count in (("hay", 2), ("needle", 3), ("hay", 2)):
            (root / os.fsdecode(b"\xe9.txt")).write_text(text)
            for _ in range(2):
                assert len(await found(folders, NEEDLE)) == count
                await until_current(folders[0])


@for_each("directory", ["locked", "empty"])
async def test_a_full_page_ends_at_the_same_document_without_an_index(
    tmp_path: Path, directory: str
) -> None:
    root = tmp_path / directory
    (root / directory).mkdir(parents=True)
    (root / "a.txt").write_text("needle")
    if directory == "locked":
        (root / "locked" / "b.txt").write_text("needle")
    grow_old(root)
    options = {"locked": DirectoryOptions(readable=False, optional=True)}
    async with both(root, tmp_path / "cache", directories=options) as folders:
        await until_current(folders[0])
        for limit in (1000, 1000, 1):
            request = words("needle", count_s=0.0)
            indexed, scanned = [await pages(folder, request, limit) for folder in folders]
            assert indexed == scanned


@pytest.mark.parametrize("count", [0, 1, pytest.param(20_000, marks=pytest.mark.deep)])
async def test_a_folder_of_any_number_of_documents_has_the_answers_of_a_scan(
    tmp_path: Path, count: int
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for number in range(count):
        (root / f"{number:05}.txt").write_text("needle" if number % 1000 == 0 else f"hay {number}")
    grow_old(root)
    async with both(root, tmp_path / "cache") as folders:
        await until_current(folders[0])
        for _ in range(2):
            assert len(await found(folders, NEEDLE)) == -(-count // 1000)
        (root / "10500.txt").write_text("needle")
        (root / "new.txt").write_text("needle")
        for _ in range(2):
            assert len(await found(folders, NEEDLE)) == -(-count // 1000) + 2
            await until_current(folders[0])


async def test_text_of_converted_documents_is_in_the_index_and_failures_are_reported(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.pdf").write_bytes(pdf("a needle in a report"))
    (root / "b.pdf").write_bytes(pdf("hay"))
    (root / "broken.pdf").write_bytes(b"%PDF-1.7 no needle")
    (root / "c.txt").write_text("needle")
    grow_old(root)
    async with both(root, tmp_path / "cache") as folders:
        assert await found(folders, NEEDLE) == ["a.pdf", "c.txt"]
        await until_current(folders[0])
        assert await found(folders, NEEDLE) == ["a.pdf", "c.txt"]
        (root / "b.pdf").write_bytes(pdf("another needle"))
        (root / "a.pdf").write_bytes(pdf("hay"))
        assert await found(folders, NEEDLE) == ["b.pdf", "c.txt"]
        await until_current(folders[0])
        assert await found(folders, NEEDLE) == ["b.pdf", "c.txt"]


async def test_a_folder_is_left_at_once_while_its_index_is_built(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for number in range(300):
        (root / f"{number}.txt").write_text(f"hay {number} " * 10_000)
    grow_old(root)
    folder = Filesystem(root, index=True, cache=tmp_path / "cache")
    folder.timing = FAST
    async with folder:
        await until_current(folder)
        index = folder.search_index
        assert index is not None
        assert index.state.documents == 300
        assert index.state.is_complete
    other = Filesystem(root, index=True, cache=tmp_path / "other")
    other.timing = FAST
    async with other:
        index = other.search_index
        assert index is not None
        await until(lambda: index.compared)
    assert index.compared < 300
    assert not index.state.is_complete
    assert "search index" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.deep
async def test_reads_go_on_while_a_hundred_searches_wait(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for number in range(200):
        (root / f"{number}.txt").write_text(f"hay {number} needle\n" * 20)
    grow_old(root)
    async with both(root, tmp_path / "cache") as folders:
        await until_current(folders[0])
        spent: list[float] = []
        for folder in folders:
            searches = [
                asyncio.ensure_future(found((folder,), words(f"hay {number % 200}")))
                for number in range(100)
            ]
            worst = 0.0
            count = 0
            while not all(search.done() for search in searches):
                began = time.monotonic()
                await settle(folder.read(("7.txt",), {}))
                await asyncio.sleep(0)
                worst = max(worst, time.monotonic() - began)
                count += 1
            await asyncio.gather(*searches)
            assert count
            spent.append(worst)
        with_index, without = spent
        assert with_index < max(20 * without, _STALL_S)
