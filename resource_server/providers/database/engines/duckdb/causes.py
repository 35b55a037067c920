"""Causes of DuckDB's errors: a table by its exception classes, and by reasons to open no file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from resource_server.providers.database.engines.duckdb.messages import (
    VISIBLE_BYTES,
    Failure,
    RefusalReason,
)
from resource_server.runtime.causes import Cause, Causes, class_names

_MEMORY: Final = Cause("operation", "the database needs too much memory for this")
_DAMAGED: Final = Cause(
    "damaged",
    "its file is damaged, or not what its name says",
    "replace the file, or remove it",
)
_MISSING: Final = Cause(
    "broken",
    "something that it uses does not exist",
    "create what the view names, or drop it",
)
_UNFIT: Final = Cause(
    "value",
    "a value that it computes does not have the expected form",
    "correct the rows, or the expressions of the view",
)
_INTERNAL: Final = Cause(
    "damaged", "DuckDB has an internal error", "check the file with its own program; update DuckDB"
)
DAMAGED: Final = "IOException"
"""Code of what cannot be read in a data file."""
_EXTENSION: Final = "extension"
_NO_FUNCTION: Final = "No function matches"
_PARAMETER: Final = "Parameter not supported"

STATEMENT: Final[Causes] = {
    _EXTENSION: Cause(
        "unsupported",
        "it needs an extension of DuckDB, and extensions are not loaded",
        "read it by a view without the extension, or hide it",
    ),
    _NO_FUNCTION: Cause("operation", "the database has no such operation for a column's type"),
    _PARAMETER: Cause("operation", "a parameter stands where the database takes none"),
    "BinderException": _MISSING,
    "CatalogException": _MISSING,
    "ConversionException": _UNFIT,
    "FatalException": _INTERNAL,
    DAMAGED: _DAMAGED,
    "InternalException": _INTERNAL,
    "InterruptException": Cause("stopped", "time limit exceeded", is_temporary=True),
    "InvalidInputException": Cause(
        "computed",
        "a value that it computes does not exist",
        "correct the rows, or the expressions of the view",
    ),
    "MemoryError": _MEMORY,
    "NotImplementedException": Cause(
        "unsupported", "DuckDB does not support what it needs", "select it in DuckDB's own program"
    ),
    "OutOfMemoryException": _MEMORY,
    "OutOfRangeException": _UNFIT,
    "PermissionException": Cause(
        "unsupported",
        "it reads beyond the database, which is not allowed here",
        "load what the view reads into a table, or hide it",
    ),
    "SerializationException": _DAMAGED,
    "TypeMismatchException": _UNFIT,
}
"""Of a statement; the first three keys are words of messages."""

_FLOWS: Final[Mapping[str, Failure]] = {
    "InterruptException": "stopped",
    "MemoryError": "memory",
    "OutOfMemoryException": "memory",
    "FatalException": "broken",
    "IOException": "broken",
    "InternalException": "broken",
}

FILE: Final[Mapping[RefusalReason, Cause]] = {
    "damaged": Cause(
        "damaged",
        "the database file is damaged, encrypted, or no DuckDB database",
        "name another file, or a decrypted copy",
    ),
    "extra": Cause(
        "unsupported",
        "the database needs an extension of DuckDB, and extensions are not loaded",
        "store it without the extension",
    ),
    "locked": Cause(
        "busy", "another process has the database file open for writing", is_temporary=True
    ),
    "memory": Cause(
        "operation",
        "the visible part of the database does not fit into memory "
        f"({VISIBLE_BYTES // 2**20} MB); declare queries instead",
    ),
    "missing": Cause(
        "missing",
        "the database file cannot be opened",
        "create it, or give this user the permission to read it",
    ),
    "version": Cause(
        "unsupported",
        "the database file is of a version of DuckDB that cannot be read",
        "update the extra `duckdb`, or write the file anew",
    ),
}
"""Of a file that cannot be opened."""


def codes(error: BaseException) -> Iterator[str]:
    """Yield the codes of an error, the most specific one first."""
    message = str(error)
    if type(error).__name__ == "CatalogException" and _EXTENSION in message:
        yield _EXTENSION
    yield from (words for words in (_NO_FUNCTION, _PARAMETER) if words in message)
    yield type(error).__name__
    yield from (name for name in class_names(error) if name != "Error")


def flow(error: BaseException, *, of_files: bool, is_author: bool) -> Failure:
    """Return what an error means for the worker.

    `of_files` tells whether it reads data files, `is_author` if the statement is the manifest's.
    """
    name = type(error).__name__
    # A bare `Error` has the words of a reader of files, or of a statement that cannot be prepared.
    if of_files and (STATEMENT.get(name) is _DAMAGED or (name == "Error" and not is_author)):
        return "damaged"
    return _FLOWS.get(name, "refused")
