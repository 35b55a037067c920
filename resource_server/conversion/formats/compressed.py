"""Documents inside gzip, bzip2, xz or Zstandard, decompressed within bounds: text, or converted."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import itertools
import lzma
import zlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import BinaryIO, cast

from resource_server.conversion import registry
from resource_server.conversion.formats import encodings
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

_MAX_BYTES = 200 * 1024 * 1024
_MAX_RATIO = 1000
_FREE_BYTES = 1024 * 1024
"""Bytes whose ratio does not count: a short file of spaces is no bomb."""
_CHUNK_BYTES = 256 * 1024
_PART_BYTES = 1024 * 1024


_SIGNATURES = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"RIFF", "a RIFF file"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"\xd0\xcf\x11\xe0", "an old office document"),
    (b"PAR1", "a Parquet file"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
)


def _zstd() -> ModuleType | None:
    """Return the module for Zstandard, if it is installed."""
    try:
        return importlib.import_module(registry.ZSTD)
    except ImportError:
        return None


_OPENERS: dict[bytes, Callable[[BinaryIO], BinaryIO]] = {
    b"\x1f\x8b": lambda file: cast("BinaryIO", gzip.GzipFile(fileobj=file)),
    b"BZh": lambda file: cast("BinaryIO", bz2.BZ2File(file)),
    b"\xfd7zXZ\0": lambda file: cast("BinaryIO", lzma.LZMAFile(file)),  # noqa: SIM115 - the caller closes it
}
_DAMAGES: list[type[Exception]] = [OSError, ValueError, zlib.error, lzma.LZMAError]
if (_module := _zstd()) is not None:
    _OPENERS[b"\x28\xb5\x2f\xfd"] = _module.ZstdFile
    _DAMAGES.append(_module.ZstdError)


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the text, in parts that end with a line; or what another format is made of."""
    start = file.read(8)
    file.seek(0)
    opener = next((each for mark, each in _OPENERS.items() if start.startswith(mark)), None)
    if opener is None:
        raise ConversionError("it is no gzip, bzip2, xz or Zstandard data")
    if request.format == registry.TEXT.name:
        yield from _text_parts(file, opener, request)
        return
    data = io.BytesIO()
    for chunk in _decompressed(file, opener):
        data.write(chunk)
    data.seek(0)
    module, _, name = registry.function_inside(request.media_type).partition(":")
    yield from getattr(importlib.import_module(module), name)(data, request)


def _text_parts(
    file: BinaryIO, opener: Callable[[BinaryIO], BinaryIO], request: ConversionRequest
) -> Iterator[Part]:
    blocks = _blocks(file, opener)
    block, following = next(blocks, b""), list(itertools.islice(blocks, 1))
    label = request.options.get("encoding")
    is_cut = bool(following)
    name = _guess(block, is_cut=is_cut) if label is None else encodings.named_codec(label)
    for part in encodings.text_parts(itertools.chain((block,), following, blocks), name, label):
        if part.number >= request.first:
            yield part
        if part.number == request.last:
            return


def _guess(block: bytes, *, is_cut: bool) -> str:
    """Return the encoding of text from its first block.

    Raises:
        ConversionError: it is no text; says what it is.
    """
    for mark, what in _SIGNATURES:
        if block.startswith(mark):
            raise ConversionError(f"there is {what} inside, no text")
    if block[257:262] == b"ustar":
        raise ConversionError("there is a tar archive inside, no text")
    name = encodings.guess_of_beginning(block, is_cut=is_cut)
    if name is None:
        raise ConversionError("there is binary data inside, no text")
    return name


def _blocks(file: BinaryIO, opener: Callable[[BinaryIO], BinaryIO]) -> Iterator[bytes]:
    """Yield the data in blocks; all but the last end with a line if lines are short."""
    buffer = bytearray()
    for chunk in _decompressed(file, opener):
        buffer += chunk
        if len(buffer) >= _PART_BYTES:
            end = buffer.rfind(b"\n") + 1 or len(buffer)
            yield bytes(buffer[:end])
            del buffer[:end]
    if buffer:
        yield bytes(buffer)


def _decompressed(file: BinaryIO, opener: Callable[[BinaryIO], BinaryIO]) -> Iterator[bytes]:
    size = 0
    try:
        with opener(file) as inside:
            while chunk := inside.read(_CHUNK_BYTES):
                size += len(chunk)
                if size > _MAX_BYTES:
                    raise ConversionError(f"there is more than {_MAX_BYTES >> 20} MiB inside")
                if size > _FREE_BYTES and size > _MAX_RATIO * file.tell():
                    raise ConversionError(f"it is more than {_MAX_RATIO} times as large inside")
                yield chunk
    except ConversionError:
        raise
    except EOFError:
        raise ConversionError("it is truncated") from None
    except MemoryError:
        raise ConversionError("it takes too much memory") from None
    except tuple(_DAMAGES) as error:
        raise ConversionError("the compressed data is damaged") from error
