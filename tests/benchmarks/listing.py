"""Listing a tree of 100,000 files, one of 16,656 folders, and a directory of 100,000 entries."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import msgspec

from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.cli import runner
from resource_server.serving import server_builder
from tests.benchmarks import servers
from tests.benchmarks.client import Client
from tests.benchmarks.table import Goal, interleaved, limit, show

FIND = "find -printf"
FIRST, AGAIN = "first time", "directories known"
FIRST_PAGE, LAST_PAGE = "first page", "last page"
FILES_IN_DIRECTORY = 10
PACKAGE_FOLDERS = ("", "lib", "lib/internal", "src", "types")
HEARTBEAT_S = 0.001


def run(*, quick: bool) -> None:
    """Print times of pages and whole listings, and the memory that they take."""
    count, leaves, rounds = (10_000, 1_024, 3) if quick else (100_000, 16_384, 5)
    runner.favour_the_loop()
    with tempfile.TemporaryDirectory() as scratch:
        tree, flat, folders = (Path(scratch) / name for name in ("modules", "flat", "folders"))
        entries = make_tree(tree, count)
        flat.mkdir()
        for number in range(count):
            (flat / f"entry_{number:06}.txt").touch()
        in_folders = make_folders(folders, leaves)
        print(f"\n{entries:,} files and folders, pages of 100")
        asyncio.run(_pages(tree, entries, rounds))
        _whole(tree, entries, rounds)
        print(f"\none directory of {count:,} entries")
        asyncio.run(_crowded(flat))
        _first_answers(flat, rounds, first_page_ms=120)
        print(f"\n{in_folders:,} files and folders, most of them folders")
        _first_answers(folders, rounds, first_page_ms=None)
        _whole(folders, in_folders, rounds)
        _memory(tree, entries)


def _catalog(folder: Path) -> Catalog:
    """Return the catalog of a folder that is listed whole, in pages of 100."""
    manifest = server_builder.load_manifest(str(folder), allow_plugins=False)
    catalog = server_builder.build_server(manifest, allow_plugins=False).catalog
    catalog.limits = msgspec.structs.replace(
        catalog.limits, next_page_size=None, listing_max=10_000_000
    )
    return catalog


def make_tree(root: Path, count: int) -> int:
    """Make folders of packages as below a `node_modules`; return how many entries a listing has."""
    directories = count // FILES_IN_DIRECTORY
    packages = directories // len(PACKAGE_FOLDERS)
    for package in range(packages):
        for folder in PACKAGE_FOLDERS:
            directory = root / f"package-{package:05}" / folder
            directory.mkdir(parents=True, exist_ok=True)
            for number in range(FILES_IN_DIRECTORY):
                (directory / f"module_{number}.js").write_text("exports.x = 1;\n", "utf-8")
    return 1 + directories + directories * FILES_IN_DIRECTORY


def make_folders(root: Path, leaves: int) -> int:
    """Make folders in folders, the `leaves` with a file each; return a listing's entry count."""
    made = {root}
    for number in range(leaves):
        middle = root / f"group-{number // 1_024:02}" / f"part-{number // 64:04}"
        leaf = middle / f"leaf-{number:05}"
        leaf.mkdir(parents=True)
        (leaf / "note.md").write_text("# Note\n", "utf-8")
        made |= {middle.parent, middle, leaf}
    return len(made) + leaves


async def _pages(tree: Path, entries: int, rounds: int) -> None:
    async with _catalog(tree) as catalog:
        cold, cursors = await _walk(catalog, entries)
        warm: list[float] = []
        for _ in range(rounds):
            warm += (await _walk(catalog, entries))[0]
        warm.sort()
        limit("page, p50", statistics.median(warm), 0.5, "ms")
        limit("page, p99", warm[len(warm) * 99 // 100], 1, "ms")
        limit("page, first listing, p50", statistics.median(cold), None, "ms")
        # The very last page is short: the last full one is what compares.
        ends = {FIRST_PAGE: cursors[0], LAST_PAGE: cursors[-2]}
        times: dict[str, list[float]] = {name: [] for name in ends}
        for _ in range(rounds * 20):
            for name, cursor in ends.items():
                times[name].append(await _page(catalog, cursor))
        last, first = (statistics.median(times[name]) for name in (LAST_PAGE, FIRST_PAGE))
        medians = {LAST_PAGE: last, FIRST_PAGE: first}
        show("any page costs the same", "ms", medians, [Goal(FIRST_PAGE, "<=", 1.3)])


async def _walk(catalog: Catalog, entries: int) -> tuple[list[float], list[str | None]]:
    """List everything; return the milliseconds of each page and the cursor that each began at."""
    times: list[float] = []
    cursors: list[str | None] = [None]
    listed = 0
    while True:
        begin = time.perf_counter()
        page = await catalog.list(after=cursors[-1])
        times.append((time.perf_counter() - begin) * 1_000)
        listed += len(page.entries)
        if page.next_cursor is None:
            assert listed == entries, f"{listed} of {entries} entries"
            return times, cursors
        cursors.append(page.next_cursor)


async def _page(catalog: Catalog, cursor: str | None) -> float:
    begin = time.perf_counter()
    await catalog.list(after=cursor)
    return (time.perf_counter() - begin) * 1_000


def _whole(tree: Path, entries: int, rounds: int) -> None:
    async def walks() -> tuple[float, float]:
        async with _catalog(tree) as opened:
            times: list[float] = []
            for _ in range(2):
                begin = time.perf_counter()
                await _walk(opened, entries)
                times.append((time.perf_counter() - begin) * 1_000)
            return times[0], times[1]

    def find() -> float:
        begin = time.perf_counter()
        subprocess.run(
            ["find", tree, "-printf", r"%p %s %T@\n"], stdout=subprocess.DEVNULL, check=True
        )
        return (time.perf_counter() - begin) * 1_000

    known: list[float] = []

    def first() -> float:
        begun, again = asyncio.run(walks())
        known.append(again)
        return begun

    def again() -> float:
        return known.pop()

    medians = interleaved({FIRST: first, AGAIN: again, FIND: find}, rounds)
    for name in (FIRST, AGAIN):
        pair = {name: medians[name], FIND: medians[FIND]}
        show("whole listing", "ms", pair, [Goal(FIND, "<=", 2)])


async def _crowded(flat: Path) -> None:
    longest = 0.0

    async def heart() -> None:
        nonlocal longest
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(HEARTBEAT_S)
            longest = max(longest, time.perf_counter() - begin - HEARTBEAT_S)

    async with _catalog(flat) as catalog:
        beating = asyncio.create_task(heart())
        await asyncio.sleep(HEARTBEAT_S * 10)
        longest = 0.0
        limit("first page", await _page(catalog, None), 100, "ms")
        limit("event loop blocked at most", longest * 1_000, 5, "ms")
        limit("first page again", await _page(catalog, None), None, "ms")
        beating.cancel()


def _first_answers(folder: Path, rounds: int, *, first_page_ms: float | None) -> None:
    """Measure first answers of new processes from outside: after `initialize`, over stdio."""
    first: list[float] = []
    page_pings: list[float] = []
    pings: list[float] = []
    for _ in range(rounds):
        with Client(servers.ours(folder)) as client:
            page = client.pinged("resources/list")
            first.append(page.elapsed_ms)
            page_pings.append(page.longest_ping_ms)
            longest = 0.0
            while "nextCursor" in page.result:
                page = client.pinged("resources/list", cursor=page.result["nextCursor"])
                longest = max(longest, page.longest_ping_ms)
            pings.append(longest)
    limit("first page, over stdio", statistics.median(first), first_page_ms, "ms")
    limit("slowest ping meanwhile", statistics.median(page_pings), 5, "ms")
    limit("slowest ping until the last page", statistics.median(pings), 5, "ms")


def _memory(tree: Path, entries: int) -> None:
    print("\nresident memory, over stdio")
    expected = min(entries, CatalogLimits().listing_max)
    with Client(servers.ours(tree)) as client:
        limit("started", client.resident_mb()[0], None, "MB")
        listed, cursor = 0, {}
        begin = time.perf_counter()
        while True:
            result = client.request("resources/list", **cursor)
            listed += len(result["resources"])
            if "nextCursor" not in result:
                break
            cursor = {"cursor": result["nextCursor"]}
        elapsed = time.perf_counter() - begin
        assert listed == expected, f"{listed} of {expected} entries"
        now, peak = client.resident_mb()
        limit("after a bounded listing", now, 60, "MB")
        limit("at its highest", peak, 60, "MB")
        limit("that listing, client included", elapsed * 1_000, None, "ms")
