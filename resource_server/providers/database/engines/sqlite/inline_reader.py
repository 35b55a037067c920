"""Short reads of a SQLite file inside the event loop, which are ten times as fast as in a thread.

Reads that may take longer are left to the workers: many steps and large values are cut short, and
after one slow read (a lock, a slow disk) the event loop reads nothing for a while.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Literal

from resource_server.errors import MountUnavailable, ResourceBusy
from resource_server.providers.database.engines.contract import (
    OutdatedPolicy,
    RefusedStatement,
    Rows,
    Statement,
)
from resource_server.providers.database.engines.sqlite.connection import (
    SchemaChanged,
    SqliteConnection,
    StatementInterrupted,
    StatementRefused,
)
from resource_server.providers.database.engines.sqlite.database_file import (
    DatabaseFile,
    FileIdentity,
)

_MAX_ROWS = 1024
_MAX_STEPS = 25_000
"""Virtual machine steps after which a statement is stopped, about a millisecond; SQLite counts on
from one statement to the next, so it may run twice as many."""
_SLOW_S = 0.005
"""A slower read was waiting for a disk or something unforeseen."""
_REST_S = 0.25
"""Pause of inline reads after one that was too slow."""


class InlineReader:
    """A connection for the event loop, opened in a thread by the first read.

    `connect` opens it for the file with this identity; it waits for no lock. `clock` counts
    seconds.
    """

    def __init__(
        self,
        file: DatabaseFile,
        connect: Callable[[FileIdentity], SqliteConnection],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._clock = clock
        self._open_connection = connect
        self._connection: SqliteConnection | None = None
        self._identity: FileIdentity | None = None
        self._opening: asyncio.Task[None] | None = None
        self._rests_until = 0.0
        self._alarms = 0

    def select(self, statement: Statement, limit: int) -> Rows | Literal["hot", "slow"]:
        """Return the rows of a statement, or which workers should run it: hot or slow."""
        if limit > _MAX_ROWS or self._clock() < self._rests_until:
            return "hot"
        connection = self._connection
        if connection is None or not (self._is_same_file() and connection.log.is_current()):
            self._reopen()
            return "hot"
        self._alarms = 0
        begun = self._clock()
        try:
            rows = connection.at_once(statement, limit)
        except sqlite3.OperationalError as error:
            self._rest()
            # A text that is not UTF-8 has no error code.
            code = getattr(error, "sqlite_errorcode", None)
            return "slow" if code == sqlite3.SQLITE_INTERRUPT else "hot"
        except sqlite3.DataError:
            return "hot"  # a large value
        except (sqlite3.Error, sqlite3.Warning, MemoryError, OverflowError, ValueError):
            # The schema may have changed since the connection was opened.
            self._reopen()
            return "hot"
        except (SchemaChanged, RefusedStatement):
            self._reopen()
            return "hot"
        if not connection.is_unchanged():
            return "hot"
        if self._clock() - begun > _SLOW_S:
            self._rest()
        return rows or "hot"

    def close(self) -> None:
        """Close the connection, and open no other."""
        self._rests_until = math.inf
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_same_file(self) -> bool:
        try:
            return self._identity is not None and self._file.is_current(self._identity)
        except MountUnavailable:
            return False

    def _rest(self) -> None:
        self._rests_until = self._clock() + _REST_S

    def _reopen(self) -> None:
        if self._opening is None or self._opening.done():
            self.close()
            self._rest()
            self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        # Here, where the first connection takes longer than the import.
        from anyio import to_thread

        opened = Future[SqliteConnection]()
        try:
            identity = self._file.identify()
            await to_thread.run_sync(self._connect, identity, opened, abandon_on_cancel=True)
        except (
            MountUnavailable,
            OutdatedPolicy,
            ResourceBusy,
            StatementInterrupted,
            StatementRefused,
        ):
            # The workers report the reason.
            self._rest()
        except asyncio.CancelledError:
            # The thread goes on, or has just finished: nothing else would close its connection.
            opened.add_done_callback(_close)
            raise
        else:
            self._connection, self._identity = opened.result(), identity

    def _connect(self, identity: FileIdentity, opened: Future[SqliteConnection]) -> None:
        connection = self._open_connection(identity)
        connection.database.set_progress_handler(self._alarm, _MAX_STEPS)
        opened.set_result(connection)

    def _alarm(self) -> bool:
        # The first call may come at any step, since SQLite counts on between statements.
        self._alarms += 1
        return self._alarms > 1


def _close(opened: Future[SqliteConnection]) -> None:
    opened.result().close()
