"""Connections for the statements of one policy: in threads, and one for the event loop.

A quick statement whose steps are all short is read inline the next time, until it is slow; see
`inline_reader.py`.
"""

from __future__ import annotations

from typing import Final

from resource_server.providers.database.engines.contract import Rows, Statement, VisibleTables
from resource_server.providers.database.engines.sqlite.authorizer import Readable
from resource_server.providers.database.engines.sqlite.connection import SqliteConnection
from resource_server.providers.database.engines.sqlite.database_file import DatabaseFile
from resource_server.providers.database.engines.sqlite.inline_reader import InlineReader
from resource_server.providers.database.engines.sqlite.policy_connection import PolicyConnection
from resource_server.providers.database.engines.sqlite.workers import WorkerPool
from resource_server.runtime.eager import settle

_MAX_QUICK: Final = 256
"""Quick statements that are remembered."""


class PolicyWorkers:
    """Runs the statements of one policy: at most `size` at a time, while `max_waiting` wait."""

    def __init__(
        self,
        file: DatabaseFile,
        policy: VisibleTables,
        readable: Readable,
        *,
        size: int,
        max_waiting: int,
    ) -> None:
        self.policy = policy
        self._pool = WorkerPool(file, readable, size=size, max_waiting=max_waiting, policy=policy)
        self._inline = InlineReader(
            file,
            lambda identity: PolicyConnection(file, identity, policy, busy_timeout_s=0.0),
        )
        self._quick = set[str]()

    async def run(self, statement: Statement, *, limit: int, within: float) -> Rows:
        """Return the rows of a statement. See `SqlEngine.run_confined`."""
        sql = statement.sql
        if sql in self._quick:
            found = self._inline.select(statement, limit)
            if isinstance(found, Rows):
                return found
            if found == "slow":
                self._quick.discard(sql)
        rows, is_quick = await settle(
            self._pool.run(
                lambda connection: _confined(connection).run_confined(statement, limit), within
            )
        )
        if is_quick:
            if len(self._quick) == _MAX_QUICK:
                self._quick.clear()
            self._quick.add(sql)
        return rows

    async def check(self, statement: Statement, within: float) -> None:
        """Prepare a statement without running it. See `PolicyEngine.check_confined`."""
        await self._pool.run(lambda connection: _confined(connection).check(statement), within)

    async def close(self, within: float) -> None:
        """Stop running statements and close all connections."""
        self._inline.close()
        await self._pool.close(within)

    async def close_when_idle(self, within: float) -> None:
        """Close all connections after the last statement has ended."""
        self._inline.close()
        await self._pool.close_when_idle(within)


def _confined(connection: SqliteConnection) -> PolicyConnection:
    assert isinstance(connection, PolicyConnection)  # noqa: S101 - the pool's own
    return connection
