"""Runs a command's coroutine, and leaves the process even where a thread hangs."""

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
from typing import Any, NoReturn, cast

_THREADS_END_S = 0.25


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
        # Closing waits for worker threads, and for one that hangs for ever.
        if not _is_stuck(others):
            runner.close()


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        found: Any = importlib.import_module("uvloop")
    except ImportError:
        return None
    return cast("Callable[[], asyncio.AbstractEventLoop]", found.new_event_loop)


def leave(status: int, others: Set[threading.Thread]) -> NoReturn:
    """End the process; `others` are the threads of whoever called.

    The interpreter would wait for ever for a thread that hangs, in a read on a dead network drive
    say, so then it is not asked to.
    """
    if _is_stuck(others):
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
