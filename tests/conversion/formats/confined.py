"""Conversions in a confined worker, as the server makes them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from resource_server.conversion.pool import ConverterPool
from resource_server.provider.conversion import ConversionRequest, Part


def in_a_worker(module: str, document: bytes, request: ConversionRequest) -> Sequence[Part]:
    """Return the parts of a document, converted by a module of this package."""
    pool = ConverterPool(workers=1)
    try:
        with tempfile.TemporaryFile() as file:
            file.write(document)
            file.seek(0)
            reference = f"resource_server.conversion.formats.{module}:convert"
            return pool.convert(reference, file.fileno(), request).parts
    finally:
        pool.close()
