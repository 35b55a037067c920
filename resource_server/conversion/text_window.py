"""A window of a converted text: what lies at a line, at an offset or at the end, found in a stream.

The text is the parts of a document, joined, in UTF-8. It may be longer than a worker may keep or
send, so it passes by, and only the window remains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, TypeAlias

import msgspec

from resource_server.errors import ConversionError
from resource_server.provider.conversion import MARKDOWN, Part
from resource_server.runtime.document_range import Range

MARGIN_BYTES = 8
"""Bytes around a window: an offset may be within a character, and ranges are read that far."""
_CHARACTERS = 1024 * 1024
"""Characters that are encoded at a time."""
_NO_TEXT = "the format is no text, and has no lines"

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class WindowPlace(msgspec.Struct, frozen=True):
    """Where a window lies in its text; the totals are known if the end of the text was reached."""

    bytes_before: Count = 0
    lines_before: Count = 0
    begins_line: bool = True
    total_bytes: Count | None = None
    total_lines: Count | None = None


class TextWindow:
    """Collects at most `room` bytes of a text from its parts.

    They begin where a range does, or for a tail as near the end as fits. A text that fits as a
    whole is taken as a whole.
    """

    def __init__(self, start: Range, room: int) -> None:
        self._start = start
        self._room = room
        self._data = bytearray()
        self._before = self._lines = 0
        self._begins_line = True
        self._is_there = False
        self._is_within_line = False
        self.is_cut = False
        """Whether the text goes on behind the window."""
        self.mime_type = MARKDOWN

    @property
    def text(self) -> str:
        """The text of the window."""
        return self._data.decode()

    def take(self, parts: Iterable[Part]) -> WindowPlace:
        """Take parts until the window is full or the text ends; return where the window lies.

        Raises:
            ConversionError: they are no text.
        """
        for count, part in enumerate(parts):
            if isinstance(part.data, bytes):
                raise ConversionError(_NO_TEXT)
            if count == 0:
                self.mime_type = part.mime_type
            for piece in _pieces(part.data, "" if count == 0 else between(self.mime_type)):
                self._add(piece)
                if self.is_cut:
                    return WindowPlace(self._before, self._lines, self._begins_line)
        if self._start.unit == "tail":
            self._keep_the_end()
            self._drop(0 if self._begins_line else self._data.find(b"\n") + 1)
        total_lines = self._lines + self._data.count(b"\n") + self._is_within_line
        total_bytes = self._before + len(self._data)
        return WindowPlace(self._before, self._lines, self._begins_line, total_bytes, total_lines)

    def _add(self, piece: bytes) -> None:
        self._data += piece
        self._is_within_line = not piece.endswith(b"\n") if piece else self._is_within_line
        if self._start.unit == "tail":
            if len(self._data) > 2 * self._room:
                self._keep_the_end()
            return
        if len(self._data) <= self._room:
            return
        self._is_there = self._is_there or self._begins()
        if self._is_there and len(self._data) > self._room:
            self.is_cut = True
            whole = self._data[: self._room].decode("utf-8", "ignore").encode()
            del self._data[len(whole) :]

    def _begins(self) -> bool:
        """Drop what lies before the start; return whether that is reached."""
        if self._start.unit == "bytes":
            wanted = max(self._start.first - MARGIN_BYTES - self._before, 0)
            self._drop_characters(min(wanted, len(self._data)))
            return bool(self._data)
        missing = self._start.first - 1 - self._lines
        if self._data.count(b"\n") < missing:
            self._drop(len(self._data))
            return False
        end = 0
        for _ in range(missing):
            end = self._data.index(b"\n", end) + 1
        self._drop(end)
        return True

    def _keep_the_end(self) -> None:
        self._drop_characters(max(len(self._data) - self._room, 0))

    def _drop_characters(self, count: int) -> None:
        """Drop `count` bytes, and the rest of the character that they end in."""
        while count < len(self._data) and self._data[count] & 0xC0 == 0x80:
            count += 1
        self._drop(count)

    def _drop(self, count: int) -> None:
        if count:
            self._begins_line = self._data.endswith(b"\n", 0, count)
        self._before += count
        self._lines += self._data.count(b"\n", 0, count)
        del self._data[:count]


def between(mime_type: str) -> str:
    """Return what stands between parts: those of text and CSV end with a line of their own."""
    return "" if mime_type.startswith(("text/plain", "text/csv")) else "\n"


def encoded(text: str) -> bytes:
    """Return text in UTF-8, without what no message and no text can have."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace")


def _pieces(text: str, before: str) -> Iterator[bytes]:
    yield encoded(before)
    for at in range(0, len(text), _CHARACTERS):
        yield encoded(text[at : at + _CHARACTERS])
