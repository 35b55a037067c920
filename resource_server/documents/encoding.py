"""Text encodings of documents: codecs, byte order marks, and where characters begin and end.

A document is text if its byte order mark or strict decoding proves it; the mark itself is dropped.
"""

from __future__ import annotations

import codecs
import functools
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from resource_server import media_types
from resource_server.provider import Content

# `utf-7` and the escapes can spell lone surrogates, which no message can carry.
_NOT_FOR_FILES = ("utf-7", "unicode-escape", "raw-unicode-escape", "idna", "punycode")
# Without a byte order mark, files are little-endian, whatever machine reads them.
_WITHOUT_MARK = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}

PIECE_BYTES = 64 * 1024
"""Maximum bytes that are decoded in one step, within which no other thread runs."""


def canonical_encoding(name: str) -> str:
    """Return the canonical name of a text encoding.

    Raises:
        ValueError: unknown, or not an encoding of text files (`base64`, `idna`, `utf-7`).
    """
    try:
        codec = codecs.lookup(name).name.replace("_", "-")
        "\n".encode(codec)
    except (LookupError, ValueError):
        codec = ""
    if not codec or codec in _NOT_FOR_FILES:
        raise ValueError(
            f"encoding: {name!r} is no text encoding; write one such as utf-8 or cp1252"
        )
    return _WITHOUT_MARK.get(codec, codec)


class TextEncoding(Struct, frozen=True):
    """The encoding of one document: codec, bytes per code unit, and whether it has a mark."""

    codec: str
    width: Literal[1, 2, 4]
    has_mark: bool

    @staticmethod
    def detect(head: bytes, encoding: str) -> TextEncoding:
        """Return the encoding of a byte order mark at the start of `head`, or else `encoding`."""
        codec = media_types.mark_codec(head)
        return _text_encoding(codec or encoding, has_mark=codec is not None)

    def decode(self, data: bytes, *, at_start: bool = True) -> str | None:
        """Return the text, or None if the bytes do not decode or contain a NUL."""
        try:
            text = data.decode(self.codec)
        except UnicodeError:
            return None
        if "\0" in text:
            return None
        return text.removeprefix("\ufeff") if at_start and self.has_mark else text

    def pieces(
        self,
        data: bytes,
        check: Callable[[], None],
        errors: str = "strict",
        *,
        is_part: bool = False,
    ) -> Iterator[str]:
        """Yield the text in pieces, with its mark, and call `check` between them.

        With `is_part`, the bytes may end within a character.

        Raises:
            UnicodeError: the bytes do not decode, and `errors` is `strict`.
        """
        decoder = codecs.getincrementaldecoder(self.codec)(errors)
        for begin in range(0, len(data), PIECE_BYTES):
            if begin:
                check()
            end = begin + PIECE_BYTES
            yield decoder.decode(data[begin:end], final=end >= len(data) and not is_part)

    @property
    def is_plain(self) -> bool:
        """Whether text has as many bytes here as it has when it is sent."""
        return self.codec == "utf-8" and not self.has_mark

    @property
    def newline(self) -> int:
        """The code unit that ends a line, as in `units`."""
        return int.from_bytes("\n".encode(self.codec), sys.byteorder)

    def units(self, data: bytes) -> bytes | array[int]:
        """Return the code units, without an incomplete one at the end."""
        if self.width == 1:
            return data
        return array("H" if self.width == 2 else "I", data[: len(data) - len(data) % self.width])

    def character_start(self, data: bytes, at: int, base: int) -> int:
        """Return the index at which the character begins that the byte `at` belongs to.

        `data` lies at offset `base` of the document and begins some bytes before `at`. The bytes of
        legacy multi-byte encodings do not tell: for them it is `at` itself.
        """
        if self.codec == "utf-8":
            return _utf8_character_start(data, at)
        at -= (base + at) % self.width
        if self.codec.startswith("utf-16") and at >= 2:
            order = -1 if self.codec == "utf-16-le" else 1
            before, here = data[at - 2 : at][::order], data[at : at + 2][::order]
            return at - 2 if _is_surrogate_pair(before, here) else at
        return at

    def unfinished(self, data: bytes) -> int:
        """Return how many trailing bytes begin an incomplete character of a legacy encoding."""
        if self.codec.startswith("utf-"):
            return 0
        decoder = codecs.getincrementaldecoder(self.codec)()
        try:
            decoder.decode(data)
        except UnicodeError:
            return 0
        return len(decoder.getstate()[0])


def decoded_content(data: bytes, promised: str | None, encoding: str) -> Content:
    """Return the content of a whole document.

    Nothing is guessed: bytes that do not decode or contain a NUL are a blob, and so is everything
    of a binary media type. `promised` is the media type of its name, `encoding` that of text
    without a mark.
    """
    detected = TextEncoding.detect(data, encoding)
    text = None
    if promised is None or not media_types.is_binary(promised):
        text = detected.decode(data)
    mime = media_types.of_content(data, promised, decodes=text is not None)
    known = None if mime == promised else mime
    if text is None or media_types.is_binary(mime):
        return Content(data, known)
    return Content(text, known, size=None if detected.is_plain else len(data))


def decodes_as_utf8(data: bytes, check: Callable[[], None], *, is_part: bool = False) -> bool:
    """Return whether bytes are text in UTF-8; `check` is called between pieces.

    With `is_part`, they may begin and end within a character.
    """
    begin = 0
    while is_part and begin < min(3, len(data)) and data[begin] & 0xC0 == 0x80:
        begin += 1
    try:
        for _ in _text_encoding("utf-8", has_mark=False).pieces(
            data[begin:], check, is_part=is_part
        ):
            pass
    except UnicodeError:
        return False
    return True


_WIDTHS: Mapping[str, Literal[2, 4]] = {"utf-16": 2, "utf-32": 4}


@functools.lru_cache(maxsize=32)
def _text_encoding(codec: str, *, has_mark: bool) -> TextEncoding:
    return TextEncoding(codec, _WIDTHS.get(codec[:6], 1), has_mark)


def _is_surrogate_pair(first: bytes, second: bytes) -> bool:
    """Return whether two code units, most significant byte first, make a surrogate pair."""
    if not first or not second:
        return False
    return 0xD8 <= first[0] < 0xDC and 0xDC <= second[0] < 0xE0


def _utf8_character_start(data: bytes, at: int) -> int:
    if at >= len(data) or data[at] & 0xC0 != 0x80:
        return at
    for begin in (at - 1, at - 2, at - 3):
        if begin >= 0 and data[begin] & 0xC0 == 0xC0:
            length = 2 + (data[begin] >= 0xE0) + (data[begin] >= 0xF0)
            return begin if begin + length > at else at
        if begin < 0 or data[begin] < 0x80:
            break
    return at
