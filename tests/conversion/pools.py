"""Documents that workers convert, some of them hostile."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from resource_server.conversion.pool import ConverterPool
from resource_server.provider.conversion import ConversionRequest

PDF = "resource_server.conversion.formats.pdf:convert"
HOSTILE = "hostile_converters:convert"
MODULES = str(Path(__file__).parent)
"""The folder of the hostile converters."""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux confines workers")


def converted(
    pool: ConverterPool, path: Path, data: bytes, reference: str = PDF, first: int = 1
) -> list[str]:
    """Return the parts of a document."""
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        request = ConversionRequest(media_type="application/pdf", first=first)
        return [str(part.data) for part in pool.convert(reference, fd, request).parts]
    finally:
        os.close(fd)
