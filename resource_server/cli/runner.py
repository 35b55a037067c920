"""The process of a command: its event loop, low-latency settings and exit.

The process exits even if a thread or task hangs.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NoReturn, cast

from resource_server.errors import Interrupted
from resource_server.runtime.eager import DRIVER_THREAD

logger = logging.getLogger(__name__)

_THREADS_END_S = 0.25
_TASKS_END_S = 1.0

_MMAP_THRESHOLD = -3
_TRIM_THRESHOLD = -1
"""Parameters of `mallopt`, from <malloc.h>."""
_MAX_KEPT_BLOCK_BYTES = 1024 * 1024
_MAX_KEPT_HEAP_BYTES = 4 * 1024 * 1024

_FIRST_RESPONSE_S = 0.5
"""Time after which the first client has its first response."""

_FIRST_READ_S = 0.1
"""Time after which the first client may read: it initializes and lists before."""

_is_left_open: ContextVar[bool] = ContextVar("is_left_open", default=False)
"""Whether a hanging task or thread kept the loop from closing."""


def run(work: Coroutine[Any, Any, int], *, busy: bool = False) -> int:
    """Run a coroutine and return its exit status; if `busy`, on uvloop where installed."""
    others = set(threading.enumerate())
    runner = asyncio.Runner(loop_factory=_uvloop() if busy else None)
    # An interrupt just before the loop waits only wakes it through the wakeup descriptor, which
    # any signal handler sets up.
    runner.get_loop().add_signal_handler(signal.SIGURG, lambda: None)
    executor = ThreadPoolExecutor()
    runner.get_loop().set_default_executor(executor)
    try:
        return _run_to_its_end(runner, work)
    finally:
        # Closing would wait for ever for a hanging worker thread or task.
        _is_left_open.set(True)
        executor.shutdown(wait=False)  # its idle threads end
        if not _is_stuck(others) and runner.get_loop().run_until_complete(_has_ended()):
            runner.close()
            _is_left_open.set(False)


def _run_to_its_end(runner: asyncio.Runner, work: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine, whatever other tasks raise.

    `SystemExit` and `KeyboardInterrupt` leave the loop from any task, even one that a plugin made.
    """
    main: list[asyncio.Task[Any]] = []

    async def begin() -> int:
        main.append(cast("asyncio.Task[Any]", asyncio.current_task()))
        return await work

    async def go_on() -> int:
        return await main[0]

    following = begin()
    while True:
        try:
            return runner.run(following)
        except (SystemExit, KeyboardInterrupt) as error:
            is_ours = isinstance(error, Interrupted) or main[0].done() or main[0].cancelling()
            if is_ours:
                raise
            logger.warning("a task of a plugin raised %s", type(error).__name__)
            logger.debug("a task of a plugin", exc_info=error)
            following = go_on()


async def _has_ended() -> bool:
    """Cancel all other tasks and close asynchronous generators; return whether all ended."""
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


def favour_the_loop() -> None:
    """Reduce delays of the event loop by other threads and garbage collection."""
    sys.setswitchinterval(0.001)
    # Requests leave no cycles, and loaded code stays loaded.
    gc.freeze()
    # A collection at a threshold of ten thousand takes some 3 ms.
    gc.set_threshold(10_000, 20, 50)


def keep_buffers_soon() -> None:
    """Tune malloc once the first response is out; loading ctypes would delay it."""
    asyncio.get_running_loop().call_later(_FIRST_RESPONSE_S, _keep_buffers)


def find_converters_soon() -> None:
    """Look at the installed packages for converters, in a thread soon after the start.

    It takes some milliseconds, which the first read would wait for.
    """
    thread = threading.Thread(target=_find_converters)  # no daemon may outlive the interpreter
    asyncio.get_running_loop().call_later(_FIRST_READ_S, thread.start)


def _find_converters() -> None:
    from resource_server.conversion import registry

    registry.find_packages()


def _keep_buffers() -> None:
    """Let the memory of one large message serve the next.

    By default glibc maps every block over 128 KiB and gives it back, and each page of it costs a
    fault: a quarter of the time of a page of a thousand rows.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    mallopt(_MMAP_THRESHOLD, _MAX_KEPT_BLOCK_BYTES)
    mallopt(_TRIM_THRESHOLD, _MAX_KEPT_HEAP_BYTES)


def leave(status: int, others: Set[threading.Thread]) -> NoReturn:
    """Exit the process; `others` are threads that the caller already had.

    The interpreter would wait for ever for a hanging thread, say in a read from a dead network
    drive, and warn about a hanging task; in either case the exit bypasses it.
    """
    if _is_left_open.get() or _is_stuck(others):
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        # The only exit that waits for no thread.
        os._exit(status)
    sys.exit(status)


def _is_stuck(others: Set[threading.Thread]) -> bool:
    """Return whether a thread outside `others` does not end in time."""
    deadline = time.monotonic() + _THREADS_END_S
    for thread in set(threading.enumerate()) - others:
        # The library of a driver may wait at the exit, or crash, if a statement still runs.
        if not thread.daemon or thread.name == DRIVER_THREAD:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                return True
    return False
