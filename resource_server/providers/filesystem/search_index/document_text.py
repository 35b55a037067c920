"""What a search index keeps of documents: all that `FileSearch` could find a match in.

A document that is reported as not searched, even if it does not match, is always searched.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence

import msgspec

from resource_server import media_types
from resource_server.documents.encoding import PIECE_BYTES, TextEncoding
from resource_server.errors import ConversionError, ResourceBusy
from resource_server.providers.filesystem.converted import ConvertedText, NotConvertedYet
from resource_server.providers.filesystem.exposure.rules import DirectoryRules
from resource_server.providers.filesystem.search_index.store import ALWAYS, ASCII, LETTERS
from resource_server.search import trigrams


class DocumentText(msgspec.Struct, frozen=True):
    """What an index keeps of a document: how much is `known` of it, as in `store`, and its text."""

    known: int
    text: str = ""


UNKNOWN = DocumentText(ALWAYS)
_UTF_8 = TextEncoding.detect(b"", "utf-8")


class DocumentTexts:
    """Reads the documents of one folder for its index. Any thread may call any method."""

    def __init__(
        self, types: tuple[tuple[str, str], ...], converted: ConvertedText | None = None
    ) -> None:
        self._types = types
        self._converted = converted

    def version(self, status: os.stat_result, name: str, rules: DirectoryRules) -> int:
        """Return a number that differs if anything does that `text` depends on."""
        converter = "" if self._converted is None else self._converted.version(name)
        facts = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        reading = zlib.crc32(converter.encode(), rules.reading) if converter else rules.reading
        # `hash` of integers is the same in every process.
        return hash((*facts, status.st_dev, reading))

    def text(
        self, fd: int, status: os.stat_result, name: str, rules: DirectoryRules
    ) -> DocumentText | None:
        """Return what to keep of an open document; None if it is being converted. Blocks.

        Raises:
            OSError: it cannot be read.
        """
        if self._converted is not None and self._converted.is_for(name):
            return self._of_conversion(self._converted, fd, name)
        mime_type = media_types.from_name(name, self._types)
        is_binary = mime_type is not None and media_types.is_binary(mime_type)
        is_long = status.st_size > PIECE_BYTES
        if status.st_size > rules.max_size or (is_binary and is_long):
            return UNKNOWN
        pieces = _pieces(fd, rules.max_size)
        if pieces is None or (is_long and any(b"\0" in piece for piece in pieces)):
            return UNKNOWN
        data = b"".join(pieces)
        if rules.encoding == "utf-8" and media_types.mark_codec(data) is None:
            try:
                return DocumentText(LETTERS, trigrams.searchable(_decoded(_UTF_8, data)))
            except UnicodeError:
                return DocumentText(ASCII, trigrams.ascii_letters(pieces))
        if is_binary:
            return UNKNOWN
        try:
            encoding = TextEncoding.detect(data, rules.encoding)
            decoded = [*_decoded(encoding, data)]
        except UnicodeError:
            return UNKNOWN
        if any("\0" in piece for piece in decoded):
            return UNKNOWN
        return DocumentText(LETTERS, trigrams.searchable(decoded))

    @staticmethod
    def _of_conversion(converted: ConvertedText, fd: int, name: str) -> DocumentText | None:
        try:
            (text,) = converted.texts(fd, name, None)
        except (NotConvertedYet, ResourceBusy):
            return None
        except (ConversionError, ValueError):
            return UNKNOWN
        if text.is_cut or text.pictures:
            return UNKNOWN
        return DocumentText(LETTERS, trigrams.searchable(_decoded(_UTF_8, text.data)))


def _pieces(fd: int, max_size: int) -> Sequence[bytes] | None:
    """Return the bytes of a document; None if there are too many."""
    found: list[bytes] = []
    left = max_size
    while left >= 0 and (piece := os.read(fd, PIECE_BYTES)):
        left -= len(piece)
        found.append(piece)
    return found if left >= 0 else None


def _decoded(encoding: TextEncoding, data: bytes) -> Iterator[str]:
    return encoding.pieces(data, lambda: None)
