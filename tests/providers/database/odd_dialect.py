"""A dialect of SQLAlchemy that nothing knows, on SQLite, whose driver does all that drivers may do.

Rows with these texts have other values; statements with these words block, or lose the connection.
"""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections import OrderedDict
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError


class Printable:
    def __str__(self) -> str:
        return "of its own"


class Text(str):
    __slots__ = ()


class Pair(NamedTuple):
    a: int
    b: int


class Number(int):
    pass


ODD: dict[str, tuple[Any, object]] = {
    "nan": (Decimal("NaN"), "NaN"),
    "infinite": (float("-inf"), "-Infinity"),
    "exact": (Decimal("1.10"), "1.10"),
    "view": (memoryview(b"\x00\xff"), {"$blob": "AP8=", "bytes": 2}),
    "array": (bytearray(b"\x00\xff"), {"$blob": "AP8=", "bytes": 2}),
    "uuid": (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "tuple": ((1, "x", None), [1, "x", None]),
    "list": ([1, [2.5, datetime(2026, 1, 2, tzinfo=UTC)]], [1, [2.5, "2026-01-02T00:00:00Z"]]),
    "mapping": (OrderedDict(a=1), {"a": 1}),
    "named": (Pair(1, 2), [1, 2]),
    "naive": (datetime.fromisoformat("2026-01-02T03:04"), "2026-01-02T03:04:00"),
    "aware": (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T01:00:00Z"),
    "time": (time(1, 2, tzinfo=UTC), "01:02:00Z"),
    "span": (timedelta(hours=-1), "-01:00:00"),
    "text": (Text("é"), "é"),
    "number": (Number(7), 7),
    "large": (2**70, str(2**70)),
    "surrogate": ("a\udcff", {"$blob": "Yf8=", "bytes": 2}),
    "own": (Printable(), "of its own"),
    "unprintable": (Unprintable(), "[Unprintable]"),
}
"""What the driver returns for a text, and what pages show."""
UNREADABLE = {
    "odd:bytes": UnicodeDecodeError("utf-8", b"secret", 0, 1, "invalid start byte"),
    "odd:year": sqlite3.DataError("date too large (after year 10K): 'secret'"),
}
"""Texts that the driver takes for what it cannot read, by what it raises."""
LOST = "lost"
BLOCKED = threading.Event()
"""Set at the end of a test, to release the threads that block."""


class OddDialect(SQLiteDialect_pysqlite):
    name = "odd"
    supports_statement_cache = True

    def on_connect(self) -> Any:
        before = super().on_connect()

        def prepare(connection: Any) -> None:
            if before is not None:
                before(connection)
            connection.row_factory = _odd_row

        return prepare

    def do_execute(self, cursor: Any, statement: Any, parameters: Any, context: Any = None) -> None:
        if "blocks" in statement and "sqlite_master" not in statement and "PRAGMA" not in statement:
            BLOCKED.wait()
        if "loses" in statement and "sqlite_master" not in statement and "PRAGMA" not in statement:
            cursor.connection.close()
            raise self.loaded_dbapi.OperationalError(LOST)
        super().do_execute(cursor, statement, parameters, context)

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return LOST in str(e)

    def get_schema_names(self, connection: Any, **options: Any) -> list[str]:
        return [f"schema_{number}" for number in range(5000)]


def _odd_row(cursor: object, row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(_odd, row))


def _odd(value: Any) -> Any:
    if value in UNREADABLE:
        raise UNREADABLE[value]
    found = ODD.get(value.removeprefix("odd:")) if isinstance(value, str) else None
    return found[0] if found is not None and str(value).startswith("odd:") else value


registry.register("odd", __name__, "OddDialect")
registry.register("odd.pysqlite", __name__, "OddDialect")
