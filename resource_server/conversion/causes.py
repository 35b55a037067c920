"""Causes of errors of parsers: a table by their exception classes, for the readers of documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from resource_server.runtime.causes import Cause, Causes

_DAMAGED: Final = Cause(
    "damaged", "it is damaged, or not what its name says", "replace or remove it"
)
_COMPRESSED: Final = Cause("damaged", "its compressed data is damaged", "replace the file")
_MEMORY: Final = Cause("resources", "it takes too much memory", "split the document")

DOCUMENT: Final[Causes] = {
    "MemoryError": _MEMORY,
    "RecursionError": Cause("resources", "it is nested too deeply", "flatten the document"),
    "EOFError": Cause(
        "damaged", "its compressed data ends early", "it was not written whole; write it again"
    ),
    "UnicodeError": Cause("damaged", "its text encoding is damaged", "save it as UTF-8"),
    "gzip.BadGzipFile": _COMPRESSED,
    "_lzma.LZMAError": _COMPRESSED,
    "zlib.error": _COMPRESSED,
    "zipfile.BadZipFile": Cause("damaged", "it is damaged: no readable ZIP archive", "replace it"),
    "PIL.Image.DecompressionBombError": Cause(
        "resources", "the image has too many pixels", "scale it down"
    ),
    "PIL.UnidentifiedImageError": _DAMAGED,
    "_duckdb.Error": _DAMAGED,  # of a statement that only reads a file
    "_duckdb.OutOfMemoryException": _MEMORY,
    "_csv.Error": Cause("resources", "a cell is too large", "split the document"),
    "binascii.Error": _DAMAGED,
    "pypdfium2._helpers.misc.PdfiumError": _DAMAGED,
    "python_calamine.CalamineError": _DAMAGED,
    "python_calamine.PasswordError": Cause(
        "login", "it is protected by a password", "save it without one"
    ),
    "struct.error": _DAMAGED,
    "xml.etree.ElementTree.ParseError": Cause(
        "damaged", "it is damaged: its XML cannot be read", "replace the file"
    ),
}
"""Of a document; any other exception is none that a parser raises for a damaged one."""


def codes(error: BaseException) -> Iterator[str]:
    """Yield the names of an exception's classes, with modules for all but Python's own."""
    for each in type(error).__mro__[:-2]:
        is_builtin = each.__module__ == "builtins"
        yield each.__name__ if is_builtin else f"{each.__module__}.{each.__name__}"
