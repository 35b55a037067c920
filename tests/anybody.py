"""What anybody may do: root is refused nothing, and tests often run as root."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def like_anybody() -> Generator[None]:
    """Let this thread, and those it starts, be refused what they may not read or write."""
    if os.geteuid() != 0:
        yield
        return
    kernel = ctypes.CDLL(None, use_errno=True)
    header = ctypes.create_string_buffer(struct.pack("Ii", 0x2008_0522, 0))
    before = ctypes.create_string_buffer(24)
    assert kernel.capget(header, before) == 0
    effective, *others = struct.unpack("6I", before.raw)
    # Without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
    assert kernel.capset(header, struct.pack("6I", effective & ~0b110, *others)) == 0
    try:
        yield
    finally:
        assert kernel.capset(header, before) == 0
