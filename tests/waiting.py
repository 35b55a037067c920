"""Bounded waits for other tasks, threads and processes: the only place where tests sleep."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path

from resource_server.providers.filesystem.directory import is_fresh
from resource_server.runtime.timing import Timing

PATIENCE_S = 60.0
"""Timeout of what must happen, on a machine that is busy with other things, too."""
BUSY_S = 1800.0
"""Timeout of a test that counts cases, so that a busy machine tries as many as a quiet one."""
PATIENT = Timing(
    call_s=PATIENCE_S,
    key_completion_s=PATIENCE_S,
    listing_s=PATIENCE_S,
    mount_close_s=PATIENCE_S,
    mount_start_s=PATIENCE_S,
    search_alone_s=PATIENCE_S,
    search_convert_s=PATIENCE_S,
    search_mount_grace_s=PATIENCE_S,
    search_s=PATIENCE_S,
    suggest_s=PATIENCE_S,
    tool_list_timeout_s=PATIENCE_S,
)
"""Times of a server whose deadlines only end what hangs."""
_LOOK_S = 0.005


async def until(holds: Callable[[], object | Awaitable[object]]) -> None:
    """Wait until a condition holds that no event tells of."""
    async with asyncio.timeout(PATIENCE_S):
        while not await _value(holds()):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)


def block_until(holds: Callable[[], object]) -> None:
    """Do the same in a test without an event loop."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(_LOOK_S)


async def steady(count: Callable[[], int], quiet_s: float) -> None:
    """Wait until a number has stayed the same for so long."""
    before = -1
    async with asyncio.timeout(PATIENCE_S):
        while before != (before := count()):  # noqa: ASYNC110
            await asyncio.sleep(quiet_s)


async def quiet_for(seconds: float) -> None:
    """Give what must not happen the time to happen: a busy machine can hide it, not invent it."""
    await asyncio.sleep(seconds)


async def pause(seconds: float) -> None:
    """Take time as a slow client, provider or writer does; no test waits by it for an outcome."""
    await asyncio.sleep(seconds)


def block(seconds: float) -> None:
    """Take time in the same way in a thread."""
    time.sleep(seconds)


def grow_old(root: Path) -> None:
    """Wait until a further change of anything below would show in its times."""
    some = [root, *root.rglob("*")]
    block_until(lambda: not any(is_fresh(path.lstat()) for path in some))


def connection_threads() -> set[threading.Thread]:
    """Return the threads that run connections to SQLite: ours, and aiosqlite's."""
    names = ("sqlite-connection", "_connection_worker")
    return {each for each in threading.enumerate() if any(name in each.name for name in names)}


async def _value(found: object) -> object:
    return await found if isawaitable(found) else found
