"""File system events of Linux (inotify), one descriptor per event loop.

inotify(7) watches inodes: adding a directory that is already watched returns the same watch. So
several listeners, or several places of one listener, share a watch, and each gets its events.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple, Protocol
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
STRUCTURE = CREATE | DELETE | MOVED_FROM | MOVED_TO | DELETE_SELF | MOVE_SELF
"""An entry or a directory comes, goes or moves."""
CONTENT = MODIFY | CLOSE_WRITE
"""A file is written to."""
_EXCL_UNLINK = 0x0400_0000
_MASK_ADD = 0x2000_0000
_CLOEXEC = 0o2000000
_NONBLOCK = 0o4000

_HEADER = struct.Struct("iIII")  # wd, mask, cookie, length of the name
_READ_BYTES = 16 * 1024
"""Maximum bytes of events read before the event loop runs other callbacks."""
_READS = 8
_READS_IN_S = 0.005
"""Period in which at most `_READS` reads happen; later ones wait for its end."""


class EventListener(Protocol):
    """Receives events on the event loop.

    A `place` is the listener's own name of a watched file or directory.
    """

    def happened(self, place: str, mask: int, name: str) -> None:
        """Handle an event of `name` in the directory `place`, or of `place` itself (`""`)."""
        ...

    def overflowed(self) -> None:
        """Handle a loss of events."""
        ...


class _Entry(msgspec.Struct, eq=False, gc=False):
    """One listener of a watch; `other` links to the next one."""

    listener: EventListener
    place: str
    mask: int
    other: _Entry | None = None

    def __iter__(self) -> Iterator[_Entry]:
        entry: _Entry | None = self
        while entry is not None:
            yield entry
            entry = entry.other


class InotifyEvent(NamedTuple):
    """An event of a watch: what happened (`mask`), to which entry of the directory."""

    watch: int
    mask: int
    name: str
    """Empty: to the watched file or directory itself."""


class InotifyDescriptor:
    """The calls of inotify(7) on a new descriptor, which does not block.

    Raises:
        OSError: EMFILE, the user's limit of instances is reached.
        AttributeError: this system has no inotify.
    """

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._add = libc.inotify_add_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self._remove = libc.inotify_rm_watch
        self.fd = _checked(libc.inotify_init1(_NONBLOCK | _CLOEXEC))

    def add(self, fd: int, mask: int) -> int:
        """Watch the open file or directory `fd`; return the watch. Raises as `Inotify.add`."""
        # By descriptor: the name may lead to another file by now.
        return _checked(self._add(self.fd, b"/proc/self/fd/%d" % fd, mask | _EXCL_UNLINK))

    def remove(self, watch: int) -> None:
        """Remove a watch, which may be gone already."""
        self._remove(self.fd, watch)

    def read(self, max_bytes: int) -> bytes:
        """Return the events that are there, for `events_in`."""
        try:
            return os.read(self.fd, max_bytes)
        except (BlockingIOError, InterruptedError):
            return b""


def events_in(data: bytes) -> Iterator[InotifyEvent]:
    """Yield the events that were read."""
    offset = 0
    while offset < len(data):
        watch, mask, _, length = _HEADER.unpack_from(data, offset)
        offset += _HEADER.size + length
        name = os.fsdecode(data[offset - length : offset].rstrip(b"\0")) if length else ""
        yield InotifyEvent(watch, mask, name)


class Inotify:
    """An inotify descriptor, read by the running loop. `add` and `remove` are thread-safe.

    Raises:
        OSError, AttributeError: as `InotifyDescriptor`.
    """

    def __init__(self) -> None:
        self._descriptor = InotifyDescriptor()
        self._entries: dict[int, _Entry] = {}
        self._lock = threading.Lock()
        self.users = 0
        """Number of users; the last one to `release` closes the descriptor."""
        self._reads = 0
        self._reads_until = 0.0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor.fd, self._readable)

    @staticmethod
    def shared() -> Inotify:
        """Return the descriptor of the running loop; each call needs one `release`."""
        loop = asyncio.get_running_loop()
        inotify = _by_loop.get(loop)
        if inotify is None:
            inotify = _by_loop[loop] = Inotify()
        inotify.users += 1
        return inotify

    def release(self) -> bool:
        """Give up one use; the last one closes the descriptor. Return whether it is closed."""
        self.users -= 1
        if self.users > 0:
            return False
        del _by_loop[self._loop]
        self._loop.remove_reader(self._descriptor.fd)
        with self._lock:
            fd, self._descriptor.fd = self._descriptor.fd, -1
            self._entries.clear()
        # In a thread: the kernel needs time to remove many watches.
        threading.Thread(target=os.close, args=(fd,)).start()
        return True

    def add(self, fd: int, mask: int, listener: EventListener, place: str) -> int:
        """Watch the open file or directory `fd`, or change its mask; return the watch.

        Raises:
            OSError: ENOSPC, the user's limit of watches is reached; ENOENT, the file is gone.
        """
        # Under the lock, so that the entry exists before the first event is read.
        with self._lock:
            # First widen the mask, then set it to the union of all: replacing it right away would
            # lose events of other listeners for a moment.
            watch = self._descriptor.add(fd, mask | _MASK_ADD)
            first = self._entries.get(watch)
            if first is None:
                self._entries[watch] = _Entry(listener, place, mask)
                return watch
            before = _union(first)
            for entry in first:
                if entry.listener is listener and entry.place == place:
                    entry.mask = mask
                    break
            else:
                first.other = _Entry(listener, place, mask, first.other)
            whole = _union(first)
            if whole != before | mask:
                self._descriptor.add(fd, whole)
        return watch

    def remove(self, watch: int, listener: EventListener, place: str) -> None:
        """Remove a listener from a watch, which may be gone already."""
        with self._lock:
            first = self._entries.get(watch)
            if first is None:
                return  # gone, or the descriptor is closed
            kept: _Entry | None = None
            for entry in list(first):
                if entry.listener is not listener or entry.place != place:
                    entry.other, kept = kept, entry
            if kept is not None:
                self._entries[watch] = kept
            else:
                del self._entries[watch]
                self._descriptor.remove(watch)

    def _readable(self) -> None:
        data = self._descriptor.read(_READ_BYTES)
        self._dispatch(data)
        if len(data) < _READ_BYTES // 2 and self._descriptor.fd >= 0:
            self._limit_reads()

    def _limit_reads(self) -> None:
        """Pause after many small reads: the kernel merges unread events of a busy file."""
        now = self._loop.time()
        if now > self._reads_until:
            self._reads_until = now + _READS_IN_S
            self._reads = 0
        self._reads += 1
        if self._reads == _READS:
            self._loop.remove_reader(self._descriptor.fd)
            self._loop.call_at(self._reads_until, self._resume)

    def _resume(self) -> None:
        if self._descriptor.fd >= 0:
            self._loop.add_reader(self._descriptor.fd, self._readable)

    def _dispatch(self, data: bytes) -> None:
        for watch, mask, name in events_in(data):
            if mask & Q_OVERFLOW:
                self._overflowed()
                continue
            with self._lock:
                entries = list(self._entries.get(watch, ()))
                if mask & IGNORED:
                    self._entries.pop(watch, None)
            for entry in entries:
                entry.listener.happened(entry.place, mask, name)

    def _overflowed(self) -> None:
        with self._lock:
            listeners = {entry.listener for first in self._entries.values() for entry in first}
        for listener in listeners:
            listener.overflowed()


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Inotify] = WeakKeyDictionary()


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
