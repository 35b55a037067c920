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
from typing import Any, Final

from resource_server.errors import MountUnavailable
from resource_server.providers.database.engines.contract import (
    RefusedStatement,
    Rows,
    SqlPolicy,
    Statement,
)
from resource_server.providers.database.engines.server_base import ServerEngine
from resource_server.providers.database.queries.statement_gate import OWN

HASH_KEY: Final = f"{OWN}key"
"""Table with the key of `hash` masks; only the owner reads it."""
DIGEST: Final = f"{OWN}policy"
"""View with the digest of the policy that the views are of."""
ADVICE: Final = "run what `resource-server sql --policy` prints"

MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of a result in memory."""
MAX_ROW_BYTES: Final = 16 * 1024 * 1024
_PROOF_S: Final = 60.0
"""Time after which the rights of the login are proved again."""


class SqlLogin(ServerEngine):
    """A login that can read nothing but the views of one policy. `digest` names the policy."""

    def __init__(self, url: str, digest: str) -> None:
        super().__init__(url, interval=1.0)
        self._digest = digest
        self._proved = -_PROOF_S

    async def open(self) -> None:
        """Connect and prove that the login reads the views of the policy, and nothing else.

        Raises:
            MountUnavailable: it does not; the message names the first right that is too many.
        """
        await super().open()
        await self._prove()

    async def ask(
        self, statement: Statement, policy: SqlPolicy, *, limit: int, within: float
    ) -> Rows:
        """Run a caller's statement. See `SqlEngine.ask`; the views stand in for `policy`.

        The caller has checked what it names: see `check_names`.
        """
        del policy
        if time.monotonic() - self._proved >= _PROOF_S:
            await self._prove()
        return await self.query(statement, limit=limit, within=within)

    async def _prove(self) -> None:
        excess = await self._excess()
        if excess is not None:
            raise MountUnavailable(f"the login of `sql` has a right too many: {excess}; {ADVICE}")
        found = await self._policy_digest()
        if found != self._digest:
            what = "there are no views of a policy" if found is None else "the policy has changed"
            raise MountUnavailable(f"sql: {what}; {ADVICE}")
        self._proved = time.monotonic()

    @abstractmethod
    async def _excess(self) -> str | None:
        """Return the first right that the login should not have."""

    @abstractmethod
    async def _policy_digest(self) -> str | None:
        """Return the digest of the policy that the views were made for."""


def size_of(rows: Iterable[tuple[Any, ...]]) -> int:
    """Return about how many bytes rows take in memory."""
    return sum(sys.getsizeof(value) for row in rows for value in row)


def too_large() -> RefusedStatement:
    """Return the refusal of a result that does not fit into memory."""
    return RefusedStatement("the result is too large; select fewer columns or shorter values")
