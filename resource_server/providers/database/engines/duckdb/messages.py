"""Messages between the DuckDB engine and its worker: MessagePack behind a length, over a socket.

MessagePack has no decimals, large integers, dates, times and UUIDs: their texts travel as
extensions, in both directions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, cast
from uuid import UUID

import msgspec
from msgspec.msgpack import Ext

MAX_RESULT_BYTES = 16 * 1024 * 1024
"""Size of a result at which it ends early; a row more may exceed it."""
MAX_VALUE_BYTES = 16 * 1024 * 1024
"""Maximum size of one value; a larger one is truncated."""
MAX_MESSAGE_BYTES = 3 * MAX_RESULT_BYTES
LENGTH = struct.Struct("!I")

LOGS: Final = (".wal", ".wal.checkpoint", ".wal.recovery")
"""Endings of the files beside a database that hold its last changes."""
NUMBERED: Final = "~numbered"
"""Schema of the tables of data files, with the number of each row."""
ROW: Final = "~row"
"""Column of that number."""

Failure: TypeAlias = Literal["refused", "missing", "unfit", "stopped", "memory", "broken"]
"""Why a statement failed: the database refuses it, or a table or column is missing, a value does
not fit, it was cancelled, it needs too much memory, or the worker must be replaced."""


RefusalReason: TypeAlias = Literal["locked", "damaged", "version", "missing", "extra"]


class DataFile(msgspec.Struct, frozen=True):
    """A data file, by its absolute path without symbolic links."""

    path: str
    name: str
    """Its path below the folder of the pattern."""
    device: int
    inode: int
    size: int


class DataTable(msgspec.Struct, frozen=True):
    """A table made of one data file, or of several that hold the same columns."""

    name: str
    kind: Literal["parquet", "csv", "json", "sheets"]
    files: tuple[DataFile, ...]


class Open(msgspec.Struct, frozen=True, tag=True):
    """Opens a database file, or data files as tables; the first message."""

    database: str | None
    tables: tuple[DataTable, ...] = ()


class Run(msgspec.Struct, frozen=True, tag=True):
    """Runs one statement and returns at most `limit` rows."""

    id: int
    sql: str
    parameters: tuple[object, ...]
    limit: int
    is_author: bool = False
    """Whether it is a query of the manifest."""
    only_prepare: bool = False
    """Whether to return only the names of the columns."""


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Stops a statement."""

    id: int


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The database is open, and the worker is confined."""

    protections: tuple[str, ...]
    schema: str
    """Differs if tables, views or columns differ."""
    problems: tuple[str, ...] = ()
    """Data files that cannot be read, each with the reason and the remedy."""
    has_tables: bool = True
    """Whether there is a table or a view."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The database cannot be opened."""

    reason: RefusalReason


class Result(msgspec.Struct, frozen=True, tag=True):
    """The rows of a statement."""

    id: int
    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]
    more: bool = False
    truncated: dict[int, dict[int, int]] = {}
    """Sizes of truncated values, by row and column."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A statement failed."""

    id: int
    failure: Failure
    message: str = ""
    """DuckDB's words, for the author of a query."""


Request: TypeAlias = Open | Run | Cancel
Answer: TypeAlias = Opened | Refused | Result | Failed

_WRITERS: Mapping[type, Callable[[Any], Ext]] = {
    Decimal: lambda value: Ext(1, str(value).encode()),
    UUID: lambda value: Ext(2, value.bytes),
    date: lambda value: Ext(4, value.isoformat().encode()),
    time: lambda value: Ext(5, value.isoformat().encode()),
    datetime: lambda value: Ext(6, value.isoformat().encode()),
}
_READERS: Mapping[int, Callable[[bytes], object]] = {
    1: lambda data: Decimal(data.decode("ascii")),
    2: lambda data: UUID(bytes=bytes(data)),
    3: lambda data: int(data.decode("ascii")),
    4: lambda data: date.fromisoformat(data.decode("ascii")),
    5: lambda data: time.fromisoformat(data.decode("ascii")),
    6: lambda data: datetime.fromisoformat(data.decode("ascii")),
}
_PLAIN = frozenset((type(None), bool, float, str, bytes))


def portable(value: object) -> object:
    """Return a value of the driver, or a parameter, in a form that travels whole."""
    cls: type[object] = type(value)
    if cls in _PLAIN:
        return value
    if cls is int:
        number = cast("int", value)
        fits = -(2**63) <= number < 2**64
        return number if fits else Ext(3, str(number).encode())
    write = _WRITERS.get(cls)
    if write is not None:
        return write(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(name): portable(each) for name, each in items}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [portable(each) for each in cast("Sequence[object]", value)]
    if isinstance(value, bytearray):
        return bytes(value)
    return str(value)


def _read(code: int, data: memoryview) -> object:
    return _READERS[code](bytes(data))


_encode = msgspec.msgpack.Encoder().encode
decode_answer = msgspec.msgpack.Decoder(Answer, ext_hook=_read).decode
decode_request = msgspec.msgpack.Decoder(Request, ext_hook=_read).decode


def framed(message: Request | Answer) -> bytes:
    """Return a message with its length."""
    data = _encode(message)
    return LENGTH.pack(len(data)) + data
