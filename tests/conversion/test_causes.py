"""The table of causes of parsers: each row by what the parser itself raises."""

from __future__ import annotations

import binascii
import csv
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from resource_server.conversion import causes
from resource_server.conversion.pool import ConverterPool
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest
from resource_server.runtime.causes import UNKNOWN, find
from tests.cases import for_each

calamine = pytest.importorskip("python_calamine")
pdfium = pytest.importorskip("pypdfium2")
duckdb = pytest.importorskip("duckdb")
images = pytest.importorskip("PIL.Image")


def _deep(depth: int = 0) -> int:
    return _deep(depth + 1)


def _image(*, most: int | None) -> None:
    stream = io.BytesIO()
    images.new("1", (64, 64)).save(stream, "PNG")
    before, images.MAX_IMAGE_PIXELS = images.MAX_IMAGE_PIXELS, most
    try:
        images.open(stream)
    finally:
        images.MAX_IMAGE_PIXELS = before


PROVOKED: dict[str, Callable[[], object]] = {
    "MemoryError": lambda: bytes(2**62),
    "RecursionError": _deep,
    "EOFError": lambda: gzip.decompress(gzip.compress(b"text")[:-4]),
    "UnicodeError": lambda: b"\xff".decode(),
    "gzip.BadGzipFile": lambda: gzip.decompress(b"text"),
    "_lzma.LZMAError": lambda: lzma.decompress(b"text text text"),
    "zlib.error": lambda: zlib.decompress(b"text"),
    "zipfile.BadZipFile": lambda: zipfile.ZipFile(io.BytesIO(b"text")),
    "PIL.Image.DecompressionBombError": lambda: _image(most=8),
    "PIL.UnidentifiedImageError": lambda: images.open(io.BytesIO(b"text")),
    "_duckdb.Error": lambda: duckdb.connect().execute("SELECT * FROM 'absent.parquet'"),
    "_csv.Error": lambda: list(csv.reader(["x" * (csv.field_size_limit() + 1)])),
    "binascii.Error": lambda: binascii.a2b_base64(b"a"),
    "pypdfium2._helpers.misc.PdfiumError": lambda: pdfium.PdfDocument(b"text"),
    "python_calamine.CalamineError": lambda: calamine.load_workbook(io.BytesIO(b"text")),
    "struct.error": lambda: struct.unpack("<I", b""),
    "xml.etree.ElementTree.ParseError": lambda: ElementTree.fromstring("<a>"),  # noqa: S314
}
ELSEWHERE = {
    "_duckdb.OutOfMemoryException": "test_isolation",
    "python_calamine.PasswordError": "tests of spreadsheets, by a protected one",
}


def test_each_row_of_the_table_has_a_test() -> None:
    assert {*PROVOKED, *ELSEWHERE} == causes.DOCUMENT.keys()


@for_each(("code", "parse"), PROVOKED.items(), ids=PROVOKED)
def test_an_error_of_a_parser_has_its_cause(code: str, parse: Callable[[], object]) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011
        parse()
    assert find(causes.DOCUMENT, causes.codes(raised.value)) == (causes.DOCUMENT[code], code)


def test_an_error_that_no_parser_raises_blames_no_document() -> None:
    found = find(causes.DOCUMENT, causes.codes(tarfile.TarError("secret")))
    assert found == (UNKNOWN, "tarfile.TarError")


def test_a_converter_that_fails_is_logged_and_does_not_blame_the_document(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "failing_converters.py").write_text(
        "def convert(file, request):\n    raise LookupError('secret')\n    yield\n"
    )
    pool = ConverterPool(modules=[str(tmp_path)])
    (tmp_path / "document").write_text("text")
    request = ConversionRequest(media_type="text/plain")
    with (tmp_path / "document").open("rb") as file:
        try:
            with pytest.raises(ConversionError, match="for a reason that the server's log has"):
                pool.convert("failing_converters:convert", file.fileno(), request)
        finally:
            pool.close()
    assert "the converter failing_converters:convert failed: LookupError" in caplog.text
    assert "secret" not in caplog.text
