from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from resource_server.runtime.timing import DEFAULT_TIMING
from resource_server.runtime.watchfiles_events import FileChanges, WatchfilesEvents
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

IMPATIENT = replace(
    DEFAULT_TIMING,
    watchfiles_step_s=0.003,
    watchfiles_debounce_s=0.01,
    watchfiles_pulse_s=0.02,
    watchfiles_restart_s=0.03,
)


class Told:
    """What a folder's events tell, in order."""

    def __init__(self, folder: Path) -> None:
        self.gaps = 0
        self.names = set[str]()
        self.failures: list[Exception] = []
        self._news = asyncio.Event()
        self.events = WatchfilesEvents(
            lambda: str(folder), self._take, self._gap, IMPATIENT, on_failure=self._fail
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._news.clear()
                await self._news.wait()

    def _take(self, changes: FileChanges) -> None:
        self.names |= {Path(name).name for _, name in changes}
        self._news.set()

    def _gap(self) -> None:
        self.gaps += 1
        self._news.set()

    def _fail(self, error: Exception) -> None:
        self.failures.append(error)
        self._news.set()


async def test_changes_follow_a_first_gap(tmp_path: Path) -> None:
    told = Told(tmp_path)
    async with told.events.running():
        await told.until(lambda: told.gaps == 1)
        assert told.events.are_arriving
        (tmp_path / "a.txt").touch()
        await told.until(lambda: "a.txt" in told.names)
    assert told.failures == []


async def test_a_replaced_folder_is_watched_again_between_two_gaps(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    told = Told(folder)
    async with told.events.running():
        await told.until(lambda: told.gaps == 1)
        folder.rename(tmp_path / "old")
        folder.mkdir()
        await told.until(lambda: told.gaps == 3)
        (folder / "b.txt").touch()
        await told.until(lambda: "b.txt" in told.names)


async def test_a_missing_folder_is_a_failure_until_it_is_there(tmp_path: Path) -> None:
    told = Told(tmp_path / "later")
    async with told.events.running():
        await told.until(lambda: len(told.failures) > 1)
        assert not told.events.are_arriving
        (tmp_path / "later").mkdir()
        await told.until(lambda: told.gaps == 1)
