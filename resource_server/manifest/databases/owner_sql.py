"""SQL for the owner of a database: a read-only login, and triggers that notify."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from resource_server.manifest.databases.database_url import parse_database_url
from resource_server.manifest.wording import printable
from resource_server.provider import Path
from resource_server.providers.database.addressing import address
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.options import ReadLimits
from resource_server.providers.database.policy.policy import Policy
from resource_server.providers.database.provider import Database
from resource_server.runtime.eager import settle

_PAGE = 1000


class ExposedTables(NamedTuple):
    """What is exposed of a database."""

    mount: str
    engine: str
    """`sqlite`, `postgresql`, `mysql` or `mariadb`."""
    database: str
    tables: Sequence[TableName]
    """In the order of the database, views as well."""
    limits: ReadLimits
    views: frozenset[TableName] = frozenset()
    """Those of the tables that no trigger can be put on."""
    columns: Mapping[TableName, Sequence[str]] = {}
    """The columns that are shown, of tables that hide some."""


def is_database(provider: object) -> TypeGuard[Database]:
    """Whether a provider is one of those that `exposed_tables` takes."""
    return isinstance(provider, Database)


async def exposed_tables(mount: str, database: Database) -> ExposedTables:
    """Return what the database of a mount exposes now; it is opened for that.

    Raises:
        MountUnavailable: it cannot be opened.
    """
    url = parse_database_url(database.url)
    if url.engine == "sqlite":  # nobody has rights to it that could be given
        return ExposedTables(mount, url.engine, "", (), database.limits)
    # Whoever may give rights has more than a reader needs.
    database = dataclasses.replace(database, require_readonly_role=False)
    async with database:
        engine = database.engine
        names = [table async for table in _exposed_tables(database)]
        types = {info.name: info.type for info in await engine.tables()}
        policy = Policy(database.tables, engine.name)
        columns: dict[TableName, Sequence[str]] = {}
        for name in names:
            options = policy.of(name)
            if options is not None and options.columns.hide:
                columns[name] = policy.view(await engine.table(name)).table.column_names
        return ExposedTables(
            mount=mount,
            engine=engine.name,
            database=url.database,
            tables=names,
            limits=database.limits,
            views=frozenset(table for table in names if "view" in types.get(table, "table")),
            columns=columns,
        )


async def _exposed_tables(database: Database, parent: Path = ()) -> AsyncIterator[TableName]:
    """Yield the tables that clients see, in order."""
    after: Path | None = None
    while True:
        page = await settle(database.list(parent, after=after, limit=_PAGE))
        for resource in page:
            match address.parse_address(resource.path, has_schemas=database.engine.has_schemas):
                case address.TableAddress(table):
                    yield table
                case address.SchemaAddress():
                    async for table in _exposed_tables(database, resource.path):
                        yield table
                case _:
                    pass
        if len(page) < _PAGE:
            return
        after = page[-1].path


_WITHOUT_HIDDEN = "-- To withhold hidden columns from it too, unless a filter or query needs them:"


def role_sql(exposed: ExposedTables) -> str:
    """Return the SQL, to be run as it is by psql or mariadb; it may be run again."""
    match exposed.engine:
        case "sqlite":
            lines = iter(
                ("-- A SQLite file has no logins: it is opened read-only. Nothing to do.",)
            )
        case "postgresql":
            lines = _postgresql_role(exposed)
        case _:
            lines = _mysql_role(exposed)
    return f"-- {comment_text(exposed.mount)}: a login that reads what is exposed\n" + "".join(
        f"{line}\n" for line in lines
    )


def comment_text(text: str) -> str:
    """Return text for one line of a comment."""
    return printable(text, longest=len(text))


def double_quoted(name: str) -> str:
    """Return an identifier of PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


def quoted_table(name: TableName) -> str:
    """Return the name of a PostgreSQL table, quoted."""
    return ".".join(double_quoted(part) for part in name if part is not None)


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _seconds(limits: ReadLimits) -> int:
    """How long the server may work on a statement: longer than this server waits for it."""
    return math.ceil(max(limits.timeout, limits.query_timeout)) + 5


def _postgresql_role(exposed: ExposedTables) -> Iterator[str]:
    name = f"{exposed.mount[:56]}_reader"
    if name.startswith("pg_"):
        # Reserved.
        name = f"reader_of_{exposed.mount[:53]}"
    login, database = double_quoted(name), double_quoted(exposed.database)
    schemas = dict.fromkeys(table.schema for table in exposed.tables if table.schema is not None)
    yield "-- Run it with psql as the owner of the tables, who may create roles; then give it a"
    yield f"-- password in psql: \\password {login}"
    yield "BEGIN;"
    yield "DO $$ BEGIN"
    yield f"  CREATE ROLE {login} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT;"
    yield "EXCEPTION WHEN duplicate_object THEN NULL;"
    yield "END $$;"
    yield f"ALTER ROLE {login} CONNECTION LIMIT 20;"
    yield f"ALTER ROLE {login} SET default_transaction_read_only = on;"
    yield f"ALTER ROLE {login} SET statement_timeout = '{_seconds(exposed.limits)}s';"
    yield f"ALTER ROLE {login} SET lock_timeout = '500ms';"
    yield f"ALTER ROLE {login} SET idle_in_transaction_session_timeout = '5s';"
    yield f"GRANT CONNECT ON DATABASE {database} TO {login};"
    for schema in schemas:
        yield f"GRANT USAGE ON SCHEMA {double_quoted(schema)} TO {login};"
        yield f"REVOKE ALL ON ALL TABLES IN SCHEMA {double_quoted(schema)} FROM {login};"
    for table in exposed.tables:
        yield f"GRANT SELECT ON TABLE {quoted_table(table)} TO {login};"
    yield "COMMIT;"
    yield "-- What everybody may do, this login may too. If nobody else needs these rights:"
    yield f"-- REVOKE TEMPORARY ON DATABASE {comment_text(database)} FROM PUBLIC;"
    yield from (
        f"-- REVOKE CREATE ON SCHEMA {comment_text(double_quoted(s))} FROM PUBLIC;" for s in schemas
    )
    yield "-- As a superuser, to bound what it writes to disk for sorting:"
    yield f"-- ALTER ROLE {login} SET temp_file_limit = '256MB';"
    for table, columns in exposed.columns.items():
        names = ", ".join(map(double_quoted, columns))
        yield from _only_columns(quoted_table(table), names, login)


def _mysql_role(exposed: ExposedTables) -> Iterator[str]:
    login = f"{_backquoted(f'{exposed.mount[:25]}_reader')}@`%`"
    bounds = "MAX_USER_CONNECTIONS 20"
    if exposed.engine == "mariadb":
        bounds += f" MAX_STATEMENT_TIME {_seconds(exposed.limits)}"
    yield "-- Run it as a user who may create users. The login is locked until it has a password:"
    yield f"-- ALTER USER {login} IDENTIFIED BY '…' ACCOUNT UNLOCK;"
    yield "-- In the place of % the host may stand that this server connects from."
    yield f"CREATE USER IF NOT EXISTS {login} ACCOUNT LOCK;"
    yield f"ALTER USER {login} WITH {bounds};"
    yield f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM {login};"
    for table in exposed.tables:
        yield f"GRANT SELECT ON {_of_database(exposed, table)} TO {login};"
    for table, columns in exposed.columns.items():
        names = ", ".join(map(_backquoted, columns))
        yield from _only_columns(_of_database(exposed, table), names, login)


def _only_columns(table: str, columns: str, login: str) -> Iterator[str]:
    yield _WITHOUT_HIDDEN
    yield comment_text(f"-- REVOKE SELECT ON {table} FROM {login};")  # noqa: S608
    yield comment_text(f"-- GRANT SELECT ({columns}) ON {table} TO {login};")


def _of_database(exposed: ExposedTables, table: TableName) -> str:
    return f"{_backquoted(table.schema or exposed.database)}.{_backquoted(table.name)}"


CHANNEL = "resource_server"
"""What the server listens on."""
_TRIGGER = "resource_server_notify"


def notify_sql(exposed: ExposedTables) -> str:
    """Return the SQL, to be run as it is by psql; it may be run again."""
    match exposed.engine:
        case "postgresql":
            lines = _postgresql_triggers(exposed)
        case "sqlite":
            lines = iter(("-- A SQLite file is watched for commits. Nothing to do.",))
        case _:
            lines = iter(("-- This engine cannot notify; its counters are polled. Nothing to do.",))
    return f"-- {comment_text(exposed.mount)}: changes are told at once\n" + "".join(
        f"{line}\n" for line in lines
    )


def _postgresql_triggers(exposed: ExposedTables) -> Iterator[str]:
    tables = [table for table in exposed.tables if table not in exposed.views]
    if not tables:
        yield "-- No table is exposed, and a view has no triggers of this kind. Nothing to do."
        return
    function = f"{double_quoted(tables[0].schema or 'public')}.{_TRIGGER}"
    yield "-- Run it with psql as the owner of the tables; the manifest then says `watch: notify`."
    yield "-- It tells that something was committed, not what: whoever may connect may listen."
    yield "BEGIN;"
    yield "SET LOCAL client_min_messages = warning;"
    yield f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger"
    yield "LANGUAGE plpgsql SET search_path = pg_catalog AS $$"
    yield "BEGIN"
    yield f"  PERFORM pg_notify('{CHANNEL}', '');"
    yield "  RETURN NULL;"
    yield "END $$;"
    for table in tables:
        yield f"DROP TRIGGER IF EXISTS {_TRIGGER} ON {quoted_table(table)};"
        yield f"CREATE TRIGGER {_TRIGGER} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE"
        yield f"  ON {quoted_table(table)} FOR EACH STATEMENT EXECUTE FUNCTION {function}();"
    yield "COMMIT;"
    for view in sorted(exposed.views):
        yield (
            f"-- {comment_text(quoted_table(view))} is a view: "
            "changes to the tables that it reads are notified"
        )
    yield f"-- To undo it: DROP FUNCTION {comment_text(function)}() CASCADE;"
