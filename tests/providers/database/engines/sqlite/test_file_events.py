from __future__ import annotations

import asyncio
import pathlib
import sys

import pytest

from resource_server.providers.database.engines.sqlite import file_events as module
from resource_server.providers.database.engines.sqlite.file_events import file_events
from tests.providers.database.sqlite_databases import PATIENCE_S
from tests.waiting import until

pytestmark = pytest.mark.anyio
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


async def hears(nudged: asyncio.Event, path: pathlib.Path) -> None:
    """Write to a file, and wait for its event."""
    await asyncio.sleep(0)
    nudged.clear()
    path.write_bytes(b"x")  # noqa: ASYNC240
    async with asyncio.timeout(PATIENCE_S):
        await nudged.wait()


@pytest.mark.parametrize("has_inotify", [pytest.param(True, marks=linux_only), False])
async def test_writes_to_the_database_and_its_journals_are_reported(
    tmp_path: pathlib.Path, *, has_inotify: bool
) -> None:
    nudged = asyncio.Event()
    path = tmp_path / "shop.db"
    async with file_events(str(path), nudged.set, has_inotify=has_inotify) as are_arriving:
        await until(are_arriving)
        for name in ("shop.db", "shop.db-wal", "shop.db-journal"):
            await hears(nudged, tmp_path / name)


@linux_only
async def test_other_files_are_not_reported(tmp_path: pathlib.Path) -> None:
    nudged = asyncio.Event()
    async with file_events(str(tmp_path / "shop.db"), nudged.set) as are_arriving:
        await until(are_arriving)
        nudged.clear()
        (tmp_path / "other.db").write_bytes(b"x")
        await hears(nudged, tmp_path / "shop.db")


@linux_only
async def test_the_journals_beside_the_target_of_a_symlink_are_watched(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "shop.db").symlink_to(tmp_path / "real/orders.db")
    nudged = asyncio.Event()
    async with file_events(str(tmp_path / "shop.db"), nudged.set) as are_arriving:
        await until(are_arriving)
        await hears(nudged, tmp_path / "real/orders.db-wal")


@pytest.mark.parametrize("has_inotify", [pytest.param(True, marks=linux_only), False])
async def test_a_folder_that_is_replaced_is_watched_again(
    tmp_path: pathlib.Path, *, has_inotify: bool
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    nudged = asyncio.Event()
    async with file_events(
        str(folder / "shop.db"), nudged.set, has_inotify=has_inotify
    ) as are_arriving:
        await until(are_arriving)
        nudged.clear()
        folder.rename(tmp_path / "away")
        async with asyncio.timeout(PATIENCE_S):
            await nudged.wait()
        await until(lambda: not are_arriving())
        folder.mkdir()
        await until(are_arriving)
        await hears(nudged, folder / "shop.db")


@linux_only
async def test_events_of_a_network_file_system_are_not_relied_upon(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remote(_: str) -> str:
        return "remote"

    # Patched: there is no network file system at hand.
    monkeypatch.setattr(module, "file_system_kind", remote)
    nudged = asyncio.Event()
    async with file_events(str(tmp_path / "shop.db"), nudged.set) as are_arriving:
        assert not are_arriving()
        await hears(nudged, tmp_path / "shop.db")
