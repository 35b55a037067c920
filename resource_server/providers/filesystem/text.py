"""The text of one document, for whoever looks for lines in very many: what `read` gives as text.

Most documents hold nothing of what is looked for. So first their bytes are asked, and only where
these may hold it the rest is found out: whether they are text at all, and of which encoding.
"""

from __future__ import annotations

import codecs
import os

from resource_server import media_types
from resource_server.provider.search import MatchedLine
from resource_server.providers.filesystem.encoding import Form
from resource_server.providers.filesystem.exposure.rules import Scope
from resource_server.search.text_match import Check, Lines

_HEAD_BYTES = 8192
"""A NUL in them tells a binary document before all of it is read."""
_SMALL_BYTES = 64 * 1024
"""Read whole at once, and decoded at once: meanwhile no other thread has its turn."""
_BLOCK_BYTES = 1024 * 1024
_FIRST_OF_MARKS = frozenset(mark[:1] for mark, _ in media_types.BOMS)


class Text:
    """Looks for lines in open documents; between blocks of large ones it calls `check`."""

    def __init__(self, lines: Lines, types: tuple[tuple[str, str], ...], check: Check) -> None:
        self._lines = lines
        self._types = types
        self._check = check

    def lines(self, fd: int, size: int, name: str, scope: Scope) -> tuple[MatchedLine, ...]:
        """Return the first lines that match in a document of this size and name.

        None in what is binary, does not decode, or is larger than `scope` allows.

        Raises:
            OSError: it cannot be read.
        """
        is_utf8 = scope.encoding == "utf-8"
        if size > _SMALL_BYTES and (
            size > scope.max_size
            or self._is_binary(name)
            or (is_utf8 and _has_nul(os.pread(fd, _HEAD_BYTES, 0)))
        ):
            return ()
        data = self._read(fd, size, scope.max_size)
        # What has a mark or is of another encoding cannot be asked as it stands.
        plain = is_utf8 and data[:1] not in _FIRST_OF_MARKS
        if not data or (plain and not self._lines.may_be_in(data, self._check)):
            return ()
        if self._is_binary(name):
            return ()
        text = self._decoded(data, Form.of(data, scope.encoding))
        found = self._lines.found(text, self._check) if text else ()
        if found and media_types.from_name(name, self._types) is None:
            mime_type = media_types.of_content(data, None, decodes=True)
            return () if media_types.is_binary(mime_type) else found
        return found

    def _is_binary(self, name: str) -> bool:
        mime_type = media_types.from_name(name, self._types)
        return mime_type is not None and media_types.is_binary(mime_type)

    def _read(self, fd: int, size: int, most: int) -> bytes:
        """Return all of it; nothing, where it has grown over what is allowed."""
        # Most have the size that they say; one byte more shows those that do not.
        data = os.read(fd, min(size + 1, _BLOCK_BYTES))
        if len(data) == size <= most:
            return data
        blocks = [data]
        count = len(data)
        while data and count <= most:
            self._check()
            data = os.read(fd, _BLOCK_BYTES)
            count += len(data)
            blocks.append(data)
        return b"".join(blocks) if count <= most else b""

    def _decoded(self, data: bytes, form: Form) -> bytes | None:
        """Return the text in UTF-8; None where the bytes are none."""
        if len(data) <= _SMALL_BYTES:
            text = form.decode(data)
            return None if text is None else text.encode()
        decoder = codecs.getincrementaldecoder(form.codec)()
        pieces: list[bytes] = []
        try:
            for begin in range(0, len(data), _SMALL_BYTES):
                self._check()
                end = begin + _SMALL_BYTES
                piece = decoder.decode(data[begin:end], final=end >= len(data))
                if "\0" in piece:
                    return None
                pieces.append(piece.encode())
        except UnicodeError:
            return None
        text = b"".join(pieces)
        return text.removeprefix(codecs.BOM_UTF8) if form.has_mark else text


def _has_nul(head: bytes) -> bool:
    return b"\0" in head and head[:1] not in _FIRST_OF_MARKS
