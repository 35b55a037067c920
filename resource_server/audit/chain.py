"""The chain of the record's lines: each has the hash of the line before."""

from __future__ import annotations

import hashlib
import re
from typing import Final

FIRST: Final = "0" * 64
"""What the first line of a record has in the place of a hash."""

_LINK = re.compile(rb'\A\{"(?:[^"\\]|\\.)*".*,"prev":"([0-9a-f]{64})"\}\Z')


def linked_line(entry: bytes, previous: str) -> bytes:
    """Return a JSON object as a line that follows another one, without its line end."""
    return b'%b,"prev":"%b"}' % (entry[:-1], previous.encode())


def link_of(line: bytes) -> str | None:
    """Return the hash that a line has of the one before; None if it is no line of a record."""
    found = _LINK.match(line)
    return None if found is None else found[1].decode()


def digest(line: bytes) -> str:
    """Return the hash of a line without its line end (SHA-256, hexadecimal)."""
    return hashlib.sha256(line).hexdigest()


class Chain:
    """The end of a chain, which grows line by line."""

    def __init__(self, last: str = FIRST) -> None:
        self.last = last
        """Hash of the last line."""

    def add(self, entry: bytes) -> bytes:
        """Return the next line, with its line end."""
        line = linked_line(entry, self.last)
        self.last = digest(line)
        return line + b"\n"
