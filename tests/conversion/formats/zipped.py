"""Small ZIP documents, harmless and hostile, built by hand."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from typing import BinaryIO

from resource_server.conversion.pool import Conversion, ConverterPool
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

Convert = Callable[[BinaryIO, ConversionRequest], Iterable[Part]]


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    """Return an archive of some members."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def unzipped(document: bytes) -> dict[str, bytes]:
    """Return the members of an archive."""
    with zipfile.ZipFile(io.BytesIO(document)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def parts_of(
    convert: Convert,
    document: bytes,
    options: Mapping[str, str] | None = None,
    *,
    first: int = 1,
    last: int | None = None,
    format: str = "markdown",
) -> list[Part]:
    """Return the parts of a document, converted in this process."""
    request = ConversionRequest(
        media_type="application/zip",
        format=format,
        first=first,
        last=last,
        options=options or {},
    )
    return list(convert(io.BytesIO(document), request))


def text_of(convert: Convert, document: bytes, options: Mapping[str, str] | None = None) -> str:
    """Return all text of a document, converted in this process."""
    return "\n".join(str(part.data) for part in parts_of(convert, document, options))


def pooled(reference: str, documents: Iterable[bytes]) -> list[Conversion | ConversionError]:
    """Convert documents in one confined worker after another."""
    pool = ConverterPool(workers=1)
    results: list[Conversion | ConversionError] = []
    try:
        for document in documents:
            with tempfile.TemporaryFile() as file:
                file.write(document)
                file.seek(0)
                request = ConversionRequest(media_type="application/zip")
                try:
                    results.append(pool.convert(reference, file.fileno(), request))
                except ConversionError as error:
                    results.append(error)
    finally:
        pool.close()
    return results


def xml_bombs(root: str) -> Mapping[str, bytes]:
    """Return XML of a root element that declares entities, in several encodings."""
    laughs = "".join(f'<!ENTITY b{at} "{f"&b{at - 1};" * 10}">' for at in range(1, 10))
    text = f'<!DOCTYPE {root} [<!ENTITY b0 "ha">{laughs}]><{root}>&b9;</{root}>'
    outside = f'<!DOCTYPE {root} [<!ENTITY e SYSTEM "file:///etc/passwd">]><{root}>&e;</{root}>'
    return {
        "laughs": text.encode(),
        "laughs in UTF-16": text.encode("utf-16"),
        "laughs in UTF-16 without a mark": text.encode("utf-16-le"),
        "laughs in big-endian UTF-16 without a mark": text.encode("utf-16-be"),
        "laughs in UTF-7": b'<?xml version="1.0" encoding="utf-7"?>' + text.encode("utf-7"),
        "an external entity": outside.encode(),
        "an external document type": f'<!DOCTYPE {root} SYSTEM "http://e.org/x"><{root}/>'.encode(),
        "deep": f"<{root}>".encode() + b"<d>" * 500_000 + b"</d>" * 500_000 + f"</{root}>".encode(),
    }
