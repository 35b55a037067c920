"""PostgreSQL with settings of a caller, by which the owner's row-level security decides.

Each statement sets them in its own read-only transaction, right before it runs, and the transaction
is rolled back after it: no connection has the settings of a caller between two statements.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from resource_server.providers.database.engines.contract import (
    CommitDetection,
    Engine,
    EngineName,
    Privilege,
    QueryEngine,
    Rows,
    Statement,
    ViewReads,
)
from resource_server.providers.database.engines.reflection import Table, TableInfo, TableName

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect

    from resource_server.providers.database.engines.server_base import ServerEngine

_BYPASSES: Final = (
    "SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = current_user AND (rolsuper OR rolbypassrls)"
)
_OPEN: Final = (
    "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
    " AND pg_catalog.has_table_privilege(c.oid, 'SELECT')"
    " AND NOT pg_catalog.row_security_active(c.oid)"
)
_CATALOG_S: Final = 5.0
_MANY: Final = 100_000


class SettingStatement(Statement):
    """A statement that runs under settings of its transaction."""

    settings: Sequence[tuple[str, str]] = ()


def settings_of(statement: Statement) -> Sequence[tuple[str, str]]:
    """Return the settings under which a statement runs."""
    return statement.settings if isinstance(statement, SettingStatement) else ()


class EngineWithSettings(Engine, QueryEngine):
    """The engine of a database, whose statements run under the settings of a caller."""

    def __init__(self, whole: ServerEngine, settings: Mapping[str, str]) -> None:
        self._whole = whole
        self._settings = tuple(settings.items())

    def _set(self, statement: Statement) -> Statement:
        found = SettingStatement(*statement)
        found.settings = self._settings
        return found

    @override
    async def run_own(
        self, statement: Statement, *, limit: int, within: float, slow: bool = False
    ) -> Rows:
        own = self._set(statement)
        return await self._whole.run_own(own, limit=limit, within=within, slow=slow)

    @override
    async def run_authored(self, statement: Statement, *, limit: int, within: float) -> Rows:
        return await self._whole.run_authored(self._set(statement), limit=limit, within=within)

    # -- what no setting changes

    @property
    @override
    def name(self) -> EngineName:
        return self._whole.name

    @property
    @override
    def dialect(self) -> Dialect:
        return self._whole.dialect

    @property
    @override
    def has_schemas(self) -> bool:
        return self._whole.has_schemas

    @property
    @override
    def open_timeout_s(self) -> float:
        return self._whole.open_timeout_s

    @override
    async def open(self) -> None:
        await self._whole.open()

    @override
    async def close(self) -> None:
        await self._whole.close()

    @override
    async def tables(self) -> Sequence[TableInfo]:
        return await self._whole.tables()

    @override
    async def unserved(self) -> Sequence[TableName] | None:
        return await self._whole.unserved()

    @override
    async def table(self, name: TableName) -> Table:
        return await self._whole.table(name)

    @override
    async def refusal(self, sql: str) -> str | None:
        return await self._whole.refusal(sql)

    @override
    async def check_authored(self, sql: str, parameters: Sequence[str]) -> Sequence[str] | None:
        return await self._whole.check_authored(sql, parameters)

    @override
    async def view_reads(self, names: Sequence[TableName]) -> Mapping[TableName, ViewReads]:
        return await self._whole.view_reads(names)

    @override
    async def estimate(self, name: TableName) -> int | None:
        return None  # it would count the rows of others

    @override
    async def schema_state(self, name: TableName | None = None) -> object:
        return await self._whole.schema_state(name)

    @override
    async def privileges(self) -> Sequence[Privilege]:
        return await self._whole.privileges()

    @property
    @override
    def commit_detection(self) -> CommitDetection:
        return self._whole.commit_detection

    @override
    def commits(self) -> AsyncGenerator[None, None]:
        return self._whole.commits()


async def bypass(engine: Engine) -> str | None:
    """Return why the settings of callers would decide nothing for this login, or None."""
    rows = await engine.run_own(Statement(_BYPASSES, ()), limit=1, within=_CATALOG_S)
    if not rows.rows:
        return None
    return (
        "settings: the login bypasses row-level security, as a superuser or by BYPASSRLS, so that "
        "every caller would see every row; use another login"
    )


async def open_tables(engine: Engine) -> frozenset[TableName]:
    """Return the tables without row-level security for this login: callers see all their rows."""
    rows = await engine.run_own(Statement(_OPEN, ()), limit=_MANY, within=_CATALOG_S)
    return frozenset([TableName(str(schema), str(name)) for schema, name in rows.rows])
