"""Sessions of Firebird, whose driver reads and stops in ways of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlalchemy as sa


def close_what_is_lost(made: sa.Engine) -> None:
    """Close connections that are lost: the dialect calls what the driver lacks, and says so."""

    def terminate(connection: Any) -> None:
        with suppress(Exception):
            connection.close()

    dialect: Any = made.dialect
    dialect.do_terminate = terminate


def begin_read_only(connection: Any) -> None:
    """Let the transactions of a connection of its driver read only, and wait for no other."""
    driver: Any = importlib.import_module("firebird.driver")
    isolation = driver.Isolation.READ_COMMITTED_RECORD_VERSION
    begin = driver.tpb(isolation, access_mode=driver.TraAccessMode.READ)
    connection.default_tpb = connection.main_transaction.default_tpb = begin


def stop_of(made: sa.Engine, connection: Any) -> Callable[[], None]:
    """Return what ends the statement that runs on a connection.

    The driver cannot, so another connection of the same login asks the server for it.
    """
    driver: Any = importlib.import_module("firebird.driver")
    number = connection.info.id
    write = driver.tpb(driver.Isolation.READ_COMMITTED_RECORD_VERSION)

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
