"""Memory of large messages: kept for the next one, where the C library can be asked for that."""

from __future__ import annotations

_MMAP_THRESHOLD = -3
_TRIM_THRESHOLD = -1
"""Parameters of `mallopt`, of <malloc.h>."""
_LARGEST_KEPT = 1024 * 1024
_MOST_KEPT = 4 * 1024 * 1024


def keep_buffers() -> None:
    """Let what was used for a message be used again.

    By default glibc maps every block over 128 KiB and gives it back, and each page of it costs a
    fault: a quarter of the time of a page of a thousand rows.
    """
    # Imported here: the first answer is there before.
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # another C library
    mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
    mallopt(_TRIM_THRESHOLD, _MOST_KEPT)
