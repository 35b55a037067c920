"""PostgreSQL with settings of a caller, by which the owner's row-level security decides.

Each statement sets them in its own read-only transaction, right before it runs, and the transaction
is rolled back after it: no connection has the settings of a caller between two statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from resource_server.providers.database.engines.contract import Engine, Statement
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.engines.server_base import DriverConnection

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


async def apply_settings(connection: DriverConnection, statement: Statement) -> None:
    """Set what a statement runs under, until its transaction is rolled back."""
    if isinstance(statement, SettingStatement) and statement.settings:
        places = range(1, 2 * len(statement.settings), 2)
        calls = [f"pg_catalog.set_config(${at}, ${at + 1}, true)" for at in places]
        values = [text for setting in statement.settings for text in setting]
        await connection.fetch(f"SELECT {', '.join(calls)}", *values)


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
