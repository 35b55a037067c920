"""Runs a command's coroutine, and leaves the process even where a thread or a task hangs."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Set
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NoReturn, cast

_THREADS_END_S = 0.25
_TASKS_END_S = 1.0

_is_left_open: ContextVar[bool] = ContextVar("is_left_open", default=False)
"""Whether a loop could not be closed, for what hangs in it."""


def run(work: Coroutine[Any, Any, int], *, busy: bool = False) -> int:
    """Run a coroutine to its exit status; `busy` by uvloop, where that is installed."""
    others = set(threading.enumerate())
    runner = asyncio.Runner(loop_factory=_uvloop() if busy else None)
    # An interrupt that comes just before the loop begins to wait wakes it only through the
    # descriptor that is set up with any handler.
    runner.get_loop().add_signal_handler(signal.SIGURG, lambda: None)
    try:
        return runner.run(work)
    finally:
        # Closing waits for worker threads and for tasks, and for one that hangs for ever.
        _is_left_open.set(True)
        if not _is_stuck(others) and runner.get_loop().run_until_complete(_has_ended()):
            runner.close()
            _is_left_open.set(False)


async def _has_ended() -> bool:
    """Cancel all other tasks, then close what generates; say whether that ends in time."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks and (await asyncio.wait(tasks, timeout=_TASKS_END_S))[1]:
        return False
    closing = asyncio.create_task(asyncio.get_running_loop().shutdown_asyncgens())
    return not (await asyncio.wait([closing], timeout=_TASKS_END_S))[1]


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        found: Any = importlib.import_module("uvloop")
    except ImportError:
        return None
    return cast("Callable[[], asyncio.AbstractEventLoop]", found.new_event_loop)


def leave(status: int, others: Set[threading.Thread]) -> NoReturn:
    """End the process; `others` are the threads of whoever called.

    The interpreter would wait for ever for a thread that hangs, in a read on a dead network drive
    say, and complain of a task that does, so then it is not asked to.
    """
    if _is_left_open.get() or _is_stuck(others):
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)
    sys.exit(status)


def _is_stuck(others: Set[threading.Thread]) -> bool:
    """Whether a thread that is not among `others` does not end by itself."""
    deadline = time.monotonic() + _THREADS_END_S
    for thread in set(threading.enumerate()) - others:
        if not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                return True
    return False
