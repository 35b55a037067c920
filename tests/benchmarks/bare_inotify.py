"""The floor: a bare loop over inotify, which prints the path of each file that was written.

python tests/benchmarks/bare_inotify.py FOLDER

It compares no versions, and knows nothing of what comes, goes or gets lost.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

IN_CLOSE_WRITE = 8  # <sys/inotify.h>
HEAD = struct.Struct("iIII")  # wd, mask, cookie, length of the name


def main() -> None:
    """Print until it is killed."""
    libc = ctypes.CDLL(None)
    inotify = libc.inotify_init()
    folders = {
        libc.inotify_add_watch(inotify, os.fsencode(folder), IN_CLOSE_WRITE): os.fsencode(folder)
        for folder, _, _ in os.walk(sys.argv[1])
    }
    while True:
        data, at = os.read(inotify, 1 << 16), 0
        while at < len(data):
            watch, _, _, length = HEAD.unpack_from(data, at)
            at += HEAD.size + length
            os.write(1, b"%b/%b\n" % (folders[watch], data[at - length : at].rstrip(b"\0")))


if __name__ == "__main__":
    main()
