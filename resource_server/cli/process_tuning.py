"""Process settings for low latency: thread switching, garbage collection, malloc."""

from __future__ import annotations

import asyncio
import gc
import sys

_MMAP_THRESHOLD = -3
_TRIM_THRESHOLD = -1
"""Parameters of `mallopt`, from <malloc.h>."""
_MAX_KEPT_BLOCK_BYTES = 1024 * 1024
_MAX_KEPT_HEAP_BYTES = 4 * 1024 * 1024

_FIRST_ANSWER_S = 0.5
"""After this, the first client has its first response."""


def favour_the_loop() -> None:
    """Shorten what can hold up the event loop: other threads, garbage collection."""
    sys.setswitchinterval(0.001)
    # Requests leave no cycles, and loaded code stays loaded.
    gc.freeze()
    # A collection at a threshold of ten thousand takes some 3 ms.
    gc.set_threshold(10_000, 20, 50)


def keep_buffers_soon() -> None:
    """Tune malloc once the first response is out; loading ctypes would delay it."""
    asyncio.get_running_loop().call_later(_FIRST_ANSWER_S, _keep_buffers)


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
