"""Logins for the SQL of callers: they can read nothing but the views of the policy.

`resource-server sql --policy` prints the views and the login. The server does not trust that they
were made that way: it proves from the database's own catalog that the login has no right too many,
and that the views are those of the manifest.
"""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

from resource_server.errors import MountUnavailable
from resource_server.providers.database.engines.contract import (
    RefusedStatement,
    Rows,
    Statement,
    VisibleTable,
    VisibleTables,
)
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.engines.server_base import DriverConnection, ServerEngine

OWN: Final = "~"
"""Start of the names of our own tables beside the policy's views; callers cannot name them."""
HASH_KEY: Final = f"{OWN}key"
"""Table with the key of `hash` masks; only the owner reads it."""
DIGEST: Final = f"{OWN}policy"
"""View with the digest of the policy that the views are of."""
FORM: Final = 1
"""Version of the form of the views, as a part of that digest."""
ADVICE: Final = "run what `resource-server sql --policy` prints"

MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of a result in memory; it ends there, as it does after its last row."""
MAX_ROW_BYTES: Final = 1024 * 1024
"""Maximum bytes of a row as text: more than a result may have."""
_FLAT: Final = frozenset((type(None), bool, bytes, float, int, str))
"""Types of most values, which contain no others; those of asyncpg that do are `Record`."""
_PROOF_S: Final = 60.0
"""Time after which the rights of the login are proved again."""


class LoginViews(NamedTuple):
    """What a login finds beside its views, and their columns by their names, in order."""

    digest: str | None
    """The digest of the policy that the views were made for; None if there are none."""
    schema: str = ""
    columns: Iterable[tuple[str, str]] = ()
    whole: frozenset[str] = frozenset()
    """Views that show tables as they are."""


class SqlLogin(ServerEngine):
    """A login that can read nothing but the views of one policy. `digest` names the policy."""

    def __init__(self, url: str, digest: str) -> None:
        super().__init__(url, interval=1.0)
        self._digest = digest
        self._proved = -_PROOF_S
        self._visible = VisibleTables(())
        self._whole = frozenset[str]()

    async def open(self) -> None:
        """Connect and prove that the login reads the views of the policy, and nothing else.

        Raises:
            MountUnavailable: it does not; the message names the first right that is too many.
        """
        await super().open()
        await self._prove()

    async def visible(self) -> VisibleTables:
        """Return the views with their columns; callers see them as tables.

        Raises:
            MountUnavailable: as `open`.
        """
        if time.monotonic() - self._proved >= _PROOF_S:
            await self._prove()
        return self._visible

    async def rows(self, statement: Statement, *, limit: int, within: float) -> Rows:
        """Return the rows of a statement that `SqlTree` confined to the views.

        Raises:
            RefusedStatement: it fails, or costs too much.
        """

        async def work(connection: DriverConnection) -> Rows:
            return await self._answer(connection, statement, limit, within)

        return await self._run(work, within=within, author=True)

    async def _prove(self) -> None:
        excess = await self._excess()
        if excess is not None:
            raise _unproved(f"the login of `sql` has a right too many: {excess}; {ADVICE}")
        found = await self._policy_views()
        if found.digest != self._digest:
            are_missing = found.digest is None
            what = "there are no views of a policy" if are_missing else "the policy has changed"
            raise _unproved(f"sql: {what}; {ADVICE}")
        columns: dict[str, list[str]] = {}
        for view, column in found.columns:
            columns.setdefault(view, []).append(column)
        visible = VisibleTables(
            tuple(
                VisibleTable(TableName(None, view), tuple(names))
                for view, names in columns.items()
                if not view.startswith(OWN)
            ),
            schema=found.schema,
        )
        self._visible, self._whole = visible, found.whole
        self._proved = time.monotonic()

    @abstractmethod
    async def _excess(self) -> str | None:
        """Return the first right that the login should not have."""

    @abstractmethod
    async def _policy_views(self) -> LoginViews:
        """Return the views that the login finds."""

    @abstractmethod
    async def _answer(
        self, connection: DriverConnection, statement: Statement, limit: int, within: float
    ) -> Rows:
        """Run a caller's statement; keep at most `MAX_RESULT_BYTES` of its result."""


def _unproved(problem: str) -> MountUnavailable:
    told = "the login for it is not that of the policy"
    return MountUnavailable(problem, told=told, is_temporary=False)


def size_of(value: Any) -> int:
    """Return about how many bytes a value takes in memory, with those that it contains."""
    size = sys.getsizeof(value)
    if type(value) in _FLAT:
        return size
    if isinstance(value, list | tuple) or type(value).__name__ == "Record":
        size += sum(map(size_of, cast("Iterable[Any]", value)))
    return size


def row_too_large() -> RefusedStatement:
    """Return the refusal of a row that does not fit into a result."""
    return RefusedStatement(
        "a row has more than 1 MB; select fewer columns, or parts of values, as by left(…, 100)"
    )
