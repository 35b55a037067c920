"""The system call `openat2` of Linux, which opens a path below a folder in one step."""

from __future__ import annotations

import functools
import os
import struct
import sys
from collections.abc import Callable
from typing import TypeAlias

# <linux/openat2.h>; the number is the same on every architecture but Alpha.
_SYS_OPENAT2 = 437
_AT_FDCWD = -100
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_CACHED = 0x20
HOW = struct.Struct("=QQQ")
"""`struct open_how`: flags, mode, resolve."""

OpenAt2: TypeAlias = Callable[[int, bytes, bytes], int]


@functools.cache
def system_call() -> OpenAt2 | None:
    """Return the kernel's `openat2`; None if it is missing (before 5.6) or forbidden."""
    if sys.platform != "linux":
        return None
    import ctypes

    # Declared argument types would cost a sixth of the call.
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    number, size = ctypes.c_long(_SYS_OPENAT2), ctypes.c_size_t(HOW.size)

    def openat2(folder: int, name: bytes, how: bytes) -> int:
        fd: int = syscall(number, folder, name, how, size)
        if fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return fd

    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        os.close(openat2(_AT_FDCWD, b"/", HOW.pack(flags, 0, RESOLVE_NO_MAGICLINKS)))
    except OSError:
        return None
    return openat2
