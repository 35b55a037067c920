"""Runs a command's coroutine, and leaves the process even where a thread hangs."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

_INTERRUPTED = 130
_THREADS_END_S = 0.25


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine to its exit status.

    The interpreter would wait for ever for a thread that hangs in a read, on a dead network drive
    say. So where one does not end by itself, the process ends here.
    """
    others = set(threading.enumerate())
    with asyncio.Runner() as runner:
        status = _INTERRUPTED
        try:
            status = runner.run(work)
        finally:
            if _has_stuck_thread(others):
                _leave(status)
    return status


def _has_stuck_thread(others: set[threading.Thread]) -> bool:
    deadline = time.monotonic() + _THREADS_END_S
    for thread in set(threading.enumerate()) - others:
        if not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                return True
    return False


def _leave(status: int) -> None:
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
