"""The kernel's own notifications (Linux): one descriptor for all folders of a process.

inotify(7) watches inodes: whoever adds a directory that is watched already gets the same watch, so
several folders, or two places of one, share it here, and each event is given to all of them.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import threading
from collections.abc import Iterator
from typing import Protocol, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

# <sys/inotify.h>
MODIFY = 0x0000_0002
ATTRIB = 0x0000_0004
CLOSE_WRITE = 0x0000_0008
MOVED_FROM = 0x0000_0040
MOVED_TO = 0x0000_0080
CREATE = 0x0000_0100
DELETE = 0x0000_0200
DELETE_SELF = 0x0000_0400
MOVE_SELF = 0x0000_0800
UNMOUNT = 0x0000_2000
Q_OVERFLOW = 0x0000_4000
IGNORED = 0x0000_8000
ISDIR = 0x4000_0000
_EXCL_UNLINK = 0x0400_0000
_MASK_ADD = 0x2000_0000
_CLOEXEC = 0o2000000
_NONBLOCK = 0o4000

_HEAD = struct.Struct("iIII")  # wd, mask, cookie, length of the name
_READ_BYTES = 16 * 1024
"""Of events, before others have their turn."""
_READS = 8
_READS_IN_S = 0.005
"""More reads than `_READS` in this time are put off to its end."""

Place: TypeAlias = str
"""What a watcher calls the inode it watches."""


class Watcher(Protocol):
    """Who is told of events, on the event loop."""

    def happened(self, place: Place, mask: int, name: str) -> None:
        """Take note of an event at `name` in the directory `place`, or of `place` itself (`""`)."""
        ...

    def overflowed(self) -> None:
        """Take note that events were lost."""
        ...


class _Entry(msgspec.Struct, eq=False, gc=False):
    """One watcher's interest in an inode; `other` is that of the next, where there are several."""

    watcher: Watcher
    place: Place
    mask: int
    other: _Entry | None = None

    def __iter__(self) -> Iterator[_Entry]:
        entry: _Entry | None = self
        while entry is not None:
            yield entry
            entry = entry.other


class Inotify:
    """An inotify descriptor that the running loop reads. `add` and `remove` may be called anywhere.

    Raises:
        OSError: EMFILE, no more instances are allowed to this user.
    """

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._add = libc.inotify_add_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self._remove = libc.inotify_rm_watch
        self._fd = _checked(libc.inotify_init1(_NONBLOCK | _CLOEXEC))
        self._entries: dict[int, _Entry] = {}
        self._lock = threading.Lock()
        self._users = 0
        self._reads = 0
        self._reads_until = 0.0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._readable)

    @staticmethod
    def shared() -> Inotify:
        """Return the descriptor of the running loop; each call is given back by one `release`."""
        loop = asyncio.get_running_loop()
        inotify = _of_loop.get(loop)
        if inotify is None:
            inotify = _of_loop[loop] = Inotify()
        inotify._users += 1
        return inotify

    def release(self) -> bool:
        """Close the descriptor if nobody else uses it; say so."""
        self._users -= 1
        if self._users > 0:
            return False
        del _of_loop[self._loop]
        self._loop.remove_reader(self._fd)
        with self._lock:
            fd, self._fd = self._fd, -1
            self._entries.clear()
        # The kernel takes a while to let go of many watches.
        threading.Thread(target=os.close, args=(fd,), daemon=True).start()
        return True

    def add(self, fd: int, mask: int, watcher: Watcher, place: Place) -> int:
        """Watch the open file or directory `fd`, or change what is watched; return the watch.

        Raises:
            OSError: ENOSPC, the user's limit of watches is reached; ENOENT, it is gone.
        """
        # By its descriptor: what the name leads to may be another file by now.
        name = b"/proc/self/fd/%d" % fd
        # Under the lock, so that no event of the watch is read before it is known whose it is.
        with self._lock:
            # Added to what others want, and only then cut to what all want together: replaced at
            # once it would be less than that for a moment.
            watch = _checked(self._add(self._fd, name, mask | _EXCL_UNLINK | _MASK_ADD))
            first = self._entries.get(watch)
            if first is None:
                self._entries[watch] = _Entry(watcher, place, mask)
                return watch
            before = _union(first)
            for entry in first:
                if entry.watcher is watcher and entry.place == place:
                    entry.mask = mask
                    break
            else:
                first.other = _Entry(watcher, place, mask, first.other)
            whole = _union(first)
            if whole != before | mask:
                _checked(self._add(self._fd, name, whole | _EXCL_UNLINK))
        return watch

    def remove(self, watch: int, watcher: Watcher, place: Place) -> None:
        """Watch no longer for this watcher; a watch that is gone already is fine."""
        with self._lock:
            first = self._entries.get(watch)
            if first is None:
                return  # or the descriptor is closed
            kept: _Entry | None = None
            for entry in list(first):
                if entry.watcher is not watcher or entry.place != place:
                    entry.other, kept = kept, entry
            if kept is not None:
                self._entries[watch] = kept
            else:
                del self._entries[watch]
                self._remove(self._fd, watch)

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        self._tell(data)
        if len(data) < _READ_BYTES // 2 and self._fd >= 0:
            self._rest()

    def _rest(self) -> None:
        """Read no more for a moment if there was much to read one by one.

        Of a file that somebody writes to without end, the kernel makes one event of all that
        nobody has read.
        """
        now = self._loop.time()
        if now > self._reads_until:
            self._reads_until = now + _READS_IN_S
            self._reads = 0
        self._reads += 1
        if self._reads == _READS:
            self._loop.remove_reader(self._fd)
            self._loop.call_at(self._reads_until, self._go_on)

    def _go_on(self) -> None:
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._readable)

    def _tell(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size + length
            name = os.fsdecode(data[at - length : at].rstrip(b"\0")) if length else ""
            if mask & Q_OVERFLOW:
                self._overflowed()
                continue
            with self._lock:
                gone = mask & IGNORED
                first = (self._entries.pop if gone else self._entries.get)(watch, None)
                entries = list(first or ())
            for entry in entries:
                entry.watcher.happened(entry.place, mask, name)

    def _overflowed(self) -> None:
        with self._lock:
            watchers = {entry.watcher for first in self._entries.values() for entry in first}
        for watcher in watchers:
            watcher.overflowed()


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Inotify] = WeakKeyDictionary()


def _union(entries: _Entry) -> int:
    mask = 0
    for entry in entries:
        mask |= entry.mask
    return mask


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
