"""What Firebird, its driver and its dialect do in ways of their own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final, cast

import sqlalchemy as sa
from sqlalchemy.engine import Inspector
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.visitors import replacement_traverse
from sqlalchemy.types import TypeEngine

_SIZES: Final = (32, 256, 2048, 8000)
"""Bytes of casts to texts: few, since each is another statement."""


def prepare(made: sa.Engine) -> None:
    """Close connections that are lost, and let the transactions of others read only.

    The dialect would call what the driver lacks, and say so.
    """

    def terminate(connection: Any) -> None:
        with suppress(Exception):
            connection.close()

    dialect: Any = made.dialect
    dialect.do_terminate = terminate
    driver: Any = importlib.import_module("firebird.driver")
    isolation = driver.Isolation.READ_COMMITTED_RECORD_VERSION  # which waits for no other
    access = driver.TraAccessMode.READ
    read, write = driver.tpb(isolation, access_mode=access), driver.tpb(isolation)

    def begin_read_only(connection: Any, record: ConnectionPoolEntry) -> None:
        connection.default_tpb = connection.main_transaction.default_tpb = read
        record.info["stop"] = _stop_of(made, connection, write)

    listen(made, "connect", begin_read_only)


def _stop_of(made: sa.Engine, connection: Any, write: bytes) -> Callable[[], None]:
    """Return what ends the statement that runs on a connection.

    The driver cannot, so another connection of the same login asks the server for it.
    """
    number = connection.info.id

    def stop() -> None:
        other = made.raw_connection()
        try:
            session: Any = other.driver_connection
            other.detach()
            with session.transaction_manager(write) as transaction, transaction.cursor() as cursor:
                cursor.execute(
                    "DELETE FROM mon$statements WHERE mon$attachment_id = ? AND mon$state = 1",
                    (number,),
                )
        finally:
            other.close()

    return stop


def with_sizes(select: Any, values: Mapping[str, Any]) -> Any:
    """Return a statement whose parameters are as large as their values."""

    def replacement(element: Any, **_: Any) -> Any:
        if isinstance(element, sa.BindParameter) and element.key in values:
            bound = cast("sa.BindParameter[Any]", element)
            return sized(bound, values[bound.key])
        return None

    return cast("object", replacement_traverse(select, {}, replacement))


def sized(bound: sa.BindParameter[Any], value: object) -> sa.BindParameter[Any]:
    """Return a parameter that is cast to the size of its value.

    Without one, it is cast to four digits after the point, or to a BLOB, which no index finds.
    """
    type: TypeEngine[Any] = bound.type
    if isinstance(value, Decimal):
        if isinstance(type, sa.Numeric) and value.is_finite() and abs(value.adjusted()) < 50:
            whole, _, part = format(value.copy_abs(), "f").partition(".")
            part = part.rstrip("0")
            type = sa.Numeric(max(18, len(whole.lstrip("0")) + len(part)), len(part))
    elif isinstance(value, bytes):
        type = sa.VARBINARY(_size(value))
    elif isinstance(value, str) and isinstance(type, sa.Unicode):
        type = sa.Unicode(_size(value.encode("utf-8", "replace")))
    return sa.bindparam(bound.key, type_=type)


def _size(data: bytes) -> int | None:
    return next((size for size in _SIZES if size >= len(data)), None)


def with_scales(inspector: Inspector, table: str, columns: Sequence[Any]) -> Sequence[Any]:
    """Return columns, of which the dialect takes exact numbers of expressions as integers."""
    if not any(each["type"].__visit_name__ == "BIGINT" for each in columns):
        return columns
    names: Any = [sa.column(each["name"]) for each in columns]
    connection: Any = inspector.bind
    try:
        select: Any = sa.select(*names).select_from(sa.table(table)).where(sa.false())
        with connection.execute(select) as result:
            scales = [-int(each[5] or 0) for each in result.cursor.description]
    except DBAPIError as error:  # a view may be broken, or the login may not read it
        if error.connection_invalidated:
            raise
        return columns
    return [
        {**each, "type": sa.Numeric(18, scale)}
        if scale and each["type"].__visit_name__ == "BIGINT"
        else each
        for each, scale in zip(columns, scales, strict=True)
    ]
