"""Text inside gzip, bzip2, xz and Zstandard."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import tarfile
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from resource_server.conversion import registry
from resource_server.conversion.formats import encodings
from resource_server.conversion.formats.compressed import convert
from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider.conversion import ConversionRequest
from tests.cases import for_each
from tests.conversion.formats.confined import in_a_worker
from tests.conversion.formats.damaged import damaged


def _twice(data: bytes) -> bytes:
    return gzip.compress(bz2.compress(data))


_COMPRESSORS: list[Callable[[bytes], bytes]] = [
    gzip.compress,
    bz2.compress,
    lzma.compress,
    importlib.import_module(registry.ZSTD).compress,
]
_TEXT = "".join(f"line {number}: Größe {number * 7919 % 1000}\n" for number in range(2000))


def _request(**options: str) -> ConversionRequest:
    return ConversionRequest(media_type="application/gzip", format="text", options=options)


def _text(data: bytes, **options: str) -> str:
    return "".join(str(part.data) for part in convert(io.BytesIO(data), _request(**options)))


@for_each("compress", _COMPRESSORS)
@for_each("encoding", ["utf-8", "cp1252", "utf-16"])
def test_text_is_read_in_its_encoding(compress: Callable[[bytes], bytes], encoding: str) -> None:
    assert _text(compress(_TEXT.encode(encoding))) == _TEXT


@for_each("compress", _COMPRESSORS)
def test_several_streams_after_each_other_are_one_text(
    compress: Callable[[bytes], bytes],
) -> None:
    assert _text(compress(b"one\n") + compress(b"two\n")) == "one\ntwo\n"


def test_the_encoding_that_is_asked_for_is_used() -> None:
    assert _text(gzip.compress("Дом".encode("koi8-r")), encoding="koi8-r") == "Дом"
    with pytest.raises(InvalidParameter, match="no encoding"):
        _text(gzip.compress(b"x"), encoding="klingon")


_DAMAGED = "Größe über Äpfel\n".encode() * 20 + b"\xff\n"
_LONG = "\ufeff" + "Größe \U0001f600\n" * 200_000


@for_each(
    "data",
    [
        b"abc \xff",
        _DAMAGED,
        _LONG.encode("utf-16-le"),
        _LONG.encode("utf-16-be"),
        _LONG.replace("\n", "").encode("utf-16-le"),
        ("Größe\n" * 200_000).encode("utf-16-le"),
        ("x" * 1_048_575 + "é" * 9).encode(),
    ],
    ids=["short", "damaged", "little-endian", "big-endian", "one line", "unmarked", "split letter"],
)
def test_an_encoding_is_guessed_as_that_of_the_plain_document(data: bytes) -> None:
    plain = "".join(str(part.data) for part in encodings.convert(io.BytesIO(data), _request()))
    assert _text(gzip.compress(data, 1)) == plain


def test_an_encoding_that_does_not_fit_is_refused_as_for_the_plain_document() -> None:
    for convert_one, data in ((convert, gzip.compress(_DAMAGED)), (encodings.convert, _DAMAGED)):
        with pytest.raises(InvalidParameter, match="not utf-8: byte 421 does not fit"):
            list(convert_one(io.BytesIO(data), _request(encoding="utf-8")))


def test_nothing_inside_is_an_empty_text() -> None:
    assert _text(gzip.compress(b"")) == ""


def test_long_text_comes_in_parts_of_whole_lines() -> None:
    text = "".join(f"{number} {number * 7919}\n" for number in range(900_000))
    parts = list(convert(io.BytesIO(gzip.compress(text.encode(), 1)), _request()))
    assert len(parts) > 2
    assert all(str(part.data).endswith("\n") for part in parts)
    assert "".join(str(part.data) for part in parts) == text
    assert parts[-1].number == parts[-1].total == len(parts)


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"), io.BytesIO())
    return buffer.getvalue()


@for_each(
    ("inside", "what"),
    [
        (b"%PDF-1.7\n", "a PDF document"),
        (b"PK\x03\x04....", "ZIP"),
        (_tar(), "a tar archive"),
        (gzip.compress(b"again", mtime=0), "gzip data"),
        (b"\x7fELF" + bytes(100), "a program"),
        (bytes(range(256)) * 9, "binary data"),
    ],
)
def test_what_is_no_text_is_named(inside: bytes, what: str) -> None:
    with pytest.raises(ConversionError, match=what):
        _text(gzip.compress(inside))


def test_what_is_not_compressed_is_refused() -> None:
    with pytest.raises(ConversionError, match="no gzip"):
        _text(b"plain text")


@for_each("compress", _COMPRESSORS)
def test_truncated_data_is_refused(compress: Callable[[bytes], bytes]) -> None:
    data = compress(_TEXT.encode())
    with pytest.raises(ConversionError, match=r"truncated|damaged"):
        _text(data[: len(data) // 2])


@pytest.mark.deep
@for_each("compress", [*_COMPRESSORS, _twice])
def test_bombs_are_refused_soon(compress: Callable[[bytes], bytes]) -> None:
    bomb = compress(b" " * (220 * 1024 * 1024))
    begin = time.process_time()
    with pytest.raises(ConversionError):
        _text(bomb)
    assert time.process_time() - begin < 10


def test_a_short_file_of_one_letter_is_no_bomb() -> None:
    assert _text(gzip.compress(b"a" * 1_000_000)) == "a" * 1_000_000


@for_each("compress", _COMPRESSORS)
def test_damaged_documents_raise_nothing_but_conversion_errors(
    compress: Callable[[bytes], bytes],
) -> None:
    begin = time.process_time()
    for data in damaged(compress(_TEXT.encode()), count=200):
        with suppress(ConversionError):
            _text(data)
    assert time.process_time() - begin < 60


def test_a_confined_worker_reads_text_and_no_more_of_a_bomb_than_fits() -> None:
    for compress in _COMPRESSORS:
        (part,) = in_a_worker("compressed", compress(_TEXT.encode()), _request())
        assert part.data == _TEXT
        with suppress(ConversionError):
            parts = in_a_worker("compressed", compress(b" " * (1 << 24)), _request())
            assert sum(len(part.data) for part in parts) <= 4 << 20
