"""Causes of SQLite's errors: a table by result codes, and by words where one code is for many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from resource_server.errors import MountUnavailable
from resource_server.providers.database.engines.causes import unavailable
from resource_server.runtime.causes import UNKNOWN, Cause, Causes, class_names, find

_LOCKED: Final = Cause("busy", "the database is locked by a writer", is_temporary=True)
_MEMORY: Final = Cause(
    "busy", "the database needs too much memory for this", "see its largest values", True
)
_MISSING: Final = Cause(
    "broken",
    "something that it uses does not exist",
    "create what the view or the trigger names, or drop it",
)
_FUNCTION: Final = Cause(
    "broken",
    "it uses a function that only the program that writes the database has",
    "read it by a table without the function, or hide it",
)
_UNSAFE: Final = Cause(
    "unsupported",
    "it uses a function that is not allowed here, as it may do more than read",
    "read it by a view without the function, or hide it",
)
_UNFIT: Final = Cause("value", "a value does not fit where it is used", "correct the rows")

STATEMENT: Final[Causes] = {
    "SQLITE_AUTH": Cause("hidden", "it does not exist"),  # the authorizer's
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_CORRUPT_VTAB": Cause(
        "damaged",
        "an index of full text or of places is damaged",
        "INSERT INTO name(name) VALUES ('rebuild')",
    ),
    "SQLITE_ERROR_MISSING_COLLSEQ": Cause(
        "broken",
        "it uses a collation that only the program that writes the database has",
        "read it by a table without the collation, or hide it",
    ),
    "SQLITE_FULL": _MEMORY,  # nothing is ever written to a disk
    "SQLITE_INTERRUPT": Cause("stopped", "time limit exceeded", is_temporary=True),
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_MISMATCH": _UNFIT,
    "SQLITE_NOMEM": _MEMORY,
    "SQLITE_PROTOCOL": _LOCKED,
    "SQLITE_TOOBIG": Cause("operation", "a value is too large; read other columns, by `columns`"),
    "integer overflow": Cause(
        "computed", "a number that is computed is beyond 64 bits", "correct the view or the rows"
    ),
    "malformed JSON": Cause(
        "computed", "it reads text as JSON that is none", "correct the view or the rows"
    ),
    "no such column": _MISSING,
    "no such function": _FUNCTION,
    "no such module": Cause(
        "broken",
        "it is a virtual table of a module that is not installed here",
        "hide it",
    ),
    "no such table": _MISSING,
    "not authorized to use function": _UNSAFE,
    "unknown function": _FUNCTION,
    "unsafe use of": _UNSAFE,
    "MemoryError": _MEMORY,
    "OverflowError": _UNFIT,
    "ValueError": _UNFIT,
}
"""Of a statement; keys with spaces are words of messages, which SQLite does not translate."""

_FOLDER: Final = "give this user the permission to read it, and to search its folder"

FILE: Final[Causes] = {
    "SQLITE_BUSY": _LOCKED,  # while it is opened
    "SQLITE_CANTOPEN": Cause(
        "privilege", "the database file, or the log beside it, cannot be opened", _FOLDER
    ),
    "SQLITE_CORRUPT": Cause(
        "damaged",
        "the database file is damaged",
        "`PRAGMA integrity_check` tells more; `.recover` of the program sqlite3 saves what is left",
    ),
    "SQLITE_IOERR": Cause(
        "damaged", "the database file cannot be read: input or output failed", "check the disk"
    ),
    "SQLITE_NOTADB": Cause(
        "damaged",
        "the file is not a SQLite database, or it is encrypted",
        "name another file, or a decrypted copy",
    ),
    "SQLITE_PERM": Cause("privilege", "the database file may not be read by this process", _FOLDER),
    "SQLITE_READONLY": Cause(
        "unsupported",
        "the database has to be recovered first",
        "open it once with the program that writes it",
    ),
    "unsupported file format": Cause(
        "unsupported", "the database file is of a later version of SQLite", "update Python's SQLite"
    ),
    "FileNotFoundError": Cause(
        "missing", "the database file does not exist", "create it, or correct `url`"
    ),
    "IsADirectoryError": Cause(
        "missing", "the database is a folder", "name a SQLite file, or a pattern of data files"
    ),
    "OSError": Cause("missing", "the database file cannot be examined", "see its path and disk"),
    "PermissionError": Cause(
        "privilege", "the database file may not be read by this process", _FOLDER
    ),
    "SpecialFileError": Cause(
        "missing", "the database is not a regular file", "name a SQLite file in `url`"
    ),
}
"""Of the file, which cannot be read at all."""


class SpecialFileError(OSError):
    """A device, socket or FIFO in the place of a file."""


def codes(error: BaseException) -> Iterator[str]:
    """Yield the codes of an error, the most specific one first."""
    name = getattr(error, "sqlite_errorname", None)
    if name is None:
        yield from class_names(error)
        return
    message = str(error)
    yield from (words for words in (*STATEMENT, *FILE) if " " in words and words in message)
    yield name
    yield "_".join(name.split("_")[:2])


def cause_of(error: BaseException) -> tuple[Cause, str]:
    """Return the cause of an error of a statement, and its code."""
    return find(STATEMENT, codes(error))


def file_problem(error: BaseException) -> MountUnavailable | None:
    """Return what is raised if the error is one of the file, and of no statement."""
    if cause_of(error)[0] is not UNKNOWN:
        return None
    found = find(FILE, codes(error))
    return None if found[0] is UNKNOWN else unavailable(found, "")
