"""Messages between the DuckDB engine and its worker, as MessagePack.

MessagePack has no decimals, large integers, dates, times and UUIDs: their texts travel as
extensions, in both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, cast
from uuid import UUID

import msgspec
from msgspec.msgpack import Ext

from resource_server.conversion import framing
from resource_server.providers.database.masks import MaskKind

MAX_RESULT_BYTES = 16 * 1024 * 1024
"""Size of a result at which it ends early; a row more may exceed it."""
MAX_VALUE_BYTES = 16 * 1024 * 1024
"""Maximum size of one value; a larger one is truncated."""
MAX_MESSAGE_BYTES = 3 * MAX_RESULT_BYTES
VISIBLE_BYTES = 384 * 1024 * 1024
"""Memory for copies of visible data; the rest is for callers' statements."""

LOGS: Final = (".wal", ".wal.checkpoint", ".wal.recovery")
"""Endings of the files beside a database that hold its last changes."""
NUMBERED: Final = "~numbered"
"""Schema of the tables of data files, with the number of each row."""
ROW: Final = "~row"
"""Column of that number."""

Failure: TypeAlias = Literal["refused", "stopped", "memory", "broken", "damaged"]
"""What the end of a statement means: the database refuses it, it was cancelled, it needs too much
memory, the worker must be replaced, or a data file is damaged."""


RefusalReason: TypeAlias = Literal["locked", "damaged", "version", "missing", "extra", "memory"]


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


class CallerTable(msgspec.Struct, frozen=True):
    """What callers may read of one table or view."""

    name: str
    """Its name in their SQL."""
    schema: str
    table: str
    columns: tuple[str, ...] | None
    """The visible columns; None if it is visible whole."""
    masks: tuple[tuple[str, MaskKind], ...] = ()
    where: str | None = None


class CallerTables(msgspec.Struct, frozen=True):
    """All that callers may read: the process that runs their statements has nothing else."""

    tables: tuple[CallerTable, ...]
    key: bytes = b""
    """Key of `hash` masks."""


class Open(msgspec.Struct, frozen=True, tag=True):
    """Opens a database file, or data files as tables; the first message."""

    database: str | None
    tables: tuple[DataTable, ...] = ()
    visible: CallerTables | None = None
    """What callers may read, if their statements are to be run."""


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


class Opening(msgspec.Struct, frozen=True, tag=True):
    """A data file is being read, by its place among the tables of `Open`."""

    place: int


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The database is open, and the worker is confined."""

    protections: tuple[str, ...]
    schema: str
    """Differs if tables, views or columns differ."""
    problems: tuple[str, ...] = ()
    """Data files that are left out or unusual, each with the reason."""
    sources: dict[str, int] = {}
    """Place of the data table that each table was made of, by its name in lower case."""
    has_tables: bool = True
    """Whether there is a table or a view."""
    is_copy: bool = False
    """Whether it holds copies of the visible data, and has closed the files."""


class OpenRefused(msgspec.Struct, frozen=True, tag=True):
    """The database cannot be opened."""

    reason: RefusalReason


class RunResult(msgspec.Struct, frozen=True, tag=True):
    """The rows of a statement."""

    id: int
    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]
    more: bool = False
    truncated: dict[int, dict[int, int]] = {}
    """Sizes of truncated values, by row and column."""
    sources: tuple[int, ...] | None = None
    """Places of the data tables that were read; None if they are not known."""


class RunFailed(msgspec.Struct, frozen=True, tag=True):
    """A statement failed."""

    id: int
    failure: Failure
    message: str = ""
    """DuckDB's words, for the author of a query or statement."""
    table: str | None = None
    """The missing table that a caller's statement names."""
    column: str | None = None
    """The missing column that it names."""
    code: str = ""
    """The code of its cause; empty for a caller's statement."""


Request: TypeAlias = Open | Run | Cancel
Answer: TypeAlias = Opening | Opened | OpenRefused | RunResult | RunFailed

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


def travelled(value: object) -> object:
    """Return a value of the driver as it arrives on the other side."""
    return value if type(value) in _PLAIN else _decode(_encode(portable(value)))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ext_hook=_read).decode
decode_answer = msgspec.msgpack.Decoder(Answer, ext_hook=_read).decode
decode_request = msgspec.msgpack.Decoder(Request, ext_hook=_read).decode


def framed(message: Request | Answer) -> bytes:
    """Return a message as it is sent."""
    return framing.with_length(_encode(message))
