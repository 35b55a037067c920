"""What clients were sent and have not read: bounded for all of them together."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

MAX_UNREAD_BYTES = 256 * 1024 * 1024


class Reader(Protocol):
    """A client's connection."""

    def cut_off(self) -> None:
        """Forget what it has not read."""
        ...


class Backlog:
    """Who has not read what they were sent, and how much that was, the longest ago first."""

    def __init__(self) -> None:
        self._unread = OrderedDict[Reader, int]()
        self._bytes = 0

    def add(self, reader: Reader, unread: int) -> None:
        """Take in who has so much to read; if it is too much, others are cut off first."""
        self.remove(reader)
        self._unread[reader] = unread
        self._bytes += unread
        while self._bytes > MAX_UNREAD_BYTES:
            slowest = next(iter(self._unread))
            self.remove(slowest)
            slowest.cut_off()

    def remove(self, reader: Reader) -> None:
        """Forget who has read all of it, or has left."""
        self._bytes -= self._unread.pop(reader, 0)
