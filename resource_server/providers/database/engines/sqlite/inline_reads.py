"""Short reads of a SQLite file in the event loop: a thread takes ten times as long to answer.

Whatever might take longer than that is left to the lanes: statements of many steps or large values
are stopped, and nothing waits for a lock or a slow disk twice.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from concurrent.futures import Future

from resource_server.errors import MountUnavailable, ResourceBusy
from resource_server.providers.database.engines.contract import Lane, Rows, Statement
from resource_server.providers.database.engines.sqlite.authorizer import Readable
from resource_server.providers.database.engines.sqlite.connection import (
    Connection,
    Interrupted,
    Refused,
)
from resource_server.providers.database.engines.sqlite.database_file import DatabaseFile, Identity

_MOST_ROWS = 1024
_MOST_COLUMNS = 128
_COLUMN_BYTES = 2 * 1024 * 1024
"""Of all rows of a statement; a single value has its share of them."""
_STEPS = 25_000
"""Of SQLite's virtual machine, about a millisecond; as many to twice as many may be run."""
_SLOW = 0.005
"""Seconds; what took longer waited for the disk, or for something else nobody foresaw."""
_REST = 0.25
"""Seconds in which nothing is read here, after something that should not have been."""


class Quick:
    """A connection for the event loop, opened in a thread when there is a use for it."""

    def __init__(self, file: DatabaseFile, readable: Readable) -> None:
        self._file = file
        self._readable = readable
        self._connection: Connection | None = None
        self._identity: Identity | None = None
        self._opening: asyncio.Task[None] | None = None
        self._rests_until = 0.0
        self._alarms = 0

    def select(self, statement: Statement, limit: int) -> Rows | Lane:
        """Return the rows of a statement, or the lane in which it should be run instead."""
        if limit > _MOST_ROWS or time.monotonic() < self._rests_until:
            return "hot"
        connection = self._connection
        if connection is None or not (self._is_still() and connection.log.is_still()):
            self._reopen()
            return "hot"
        self._alarms = 0
        begun = time.monotonic()
        try:
            rows = _select(connection.database, statement, limit)
        except sqlite3.OperationalError as error:
            self._rest()
            # None of text that is not UTF-8.
            code = getattr(error, "sqlite_errorcode", None)
            return "slow" if code == sqlite3.SQLITE_INTERRUPT else "hot"
        except (sqlite3.Error, sqlite3.Warning, MemoryError, OverflowError, ValueError):
            # The schema may be another one now, and the connection knows only what it was.
            self._reopen()
            return "hot"
        if time.monotonic() - begun > _SLOW:
            self._rest()
        return rows or "hot"

    def close(self) -> None:
        """Close the connection."""
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_still(self) -> bool:
        try:
            return self._identity is not None and self._file.is_still(self._identity)
        except MountUnavailable:
            return False

    def _rest(self) -> None:
        self._rests_until = time.monotonic() + _REST

    def _reopen(self) -> None:
        if self._opening is None or self._opening.done():
            self.close()
            self._rest()
            self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        # Imported here, where the first connection takes longer than that.
        from anyio import to_thread

        opened = Future[Connection]()
        try:
            identity = self._file.identify()
            await to_thread.run_sync(self._connect, identity, opened, abandon_on_cancel=True)
        except (MountUnavailable, ResourceBusy, Refused, Interrupted):
            # Whoever asks the lanes is told why.
            self._rest()
        except asyncio.CancelledError:
            # The thread goes on, or has just come back: nobody else would close what it opens.
            opened.add_done_callback(_close)
            raise
        else:
            self._connection, self._identity = opened.result(), identity

    def _connect(self, identity: Identity, opened: Future[Connection]) -> None:
        connection = Connection(self._file, identity, "reader", self._readable, patience=0.0)
        connection.database.set_progress_handler(self._alarm, _STEPS)
        opened.set_result(connection)

    def _alarm(self) -> bool:
        # The steps of a statement count on from one run to the next, so the first comes anytime.
        self._alarms += 1
        return self._alarms > 1


def _close(opened: Future[Connection]) -> None:
    opened.result().close()


def _select(database: sqlite3.Connection, statement: Statement, limit: int) -> Rows | None:
    """Return the rows; None where they may be too much.

    Values are not counted, which would take as long as to fetch them.
    """
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _COLUMN_BYTES // limit)
    cursor = database.execute(*statement)
    columns = tuple([column[0] for column in cursor.description or ()])
    if len(columns) > _MOST_COLUMNS:
        return None
    rows = cursor.fetchmany(limit)
    more = cursor.fetchone() is not None
    cursor.close()
    return Rows(columns, rows, more)
