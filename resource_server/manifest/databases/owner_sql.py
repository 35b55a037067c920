"""SQL for the owner of a database: a read-only login, and triggers that notify."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import NamedTuple, TypeGuard

from resource_server.manifest.databases.database_url import parse_database_url
from resource_server.manifest.wording import printable
from resource_server.provider import Path
from resource_server.providers.database.addressing import address
from resource_server.providers.database.engines.reflection import (
    Table,
    TableName,
    backquoted,
    quoted,
)
from resource_server.providers.database.options import ReadLimits
from resource_server.providers.database.policy import Policy, TableView
from resource_server.providers.database.provider import Database
from resource_server.runtime.eager import settle

_PAGE = 1000


class OwnedTable(NamedTuple):
    """A table or view, as it is and as the policy shows it."""

    table: Table
    view: TableView

    @property
    def name(self) -> TableName:
        """Its name."""
        return self.table.name


class ExposedSchema(NamedTuple):
    """The exposed tables of a database, for its owner."""

    mount: str
    engine: str
    """`sqlite`, `postgresql`, `mysql`, `mariadb`, `duckdb` or `generic`."""
    database: str
    tables: Sequence[TableName]
    """Tables and views, in the order of the database."""
    limits: ReadLimits
    views: frozenset[TableName] = frozenset()
    """The views, which cannot have these triggers."""
    has_claims: bool = False
    """Whether callers with other claims see other rows, which no view of the policy shows."""
    shown: Sequence[OwnedTable] = ()
    """The same tables in detail."""
    digest: str = ""
    """Digest of the policy."""
    mistakes: Sequence[tuple[str, str]] = ()
    """Options that name nothing, each with the problem."""


def is_database(provider: object) -> TypeGuard[Database]:
    """Return whether `exposed_tables` accepts a provider."""
    return isinstance(provider, Database)


async def exposed_tables(mount: str, database: Database) -> ExposedSchema:
    """Return what the database of a mount exposes now, opening the database to find out.

    Raises:
        MountUnavailable: the database cannot be opened.
    """
    url = parse_database_url(database.url)
    if url.is_file:  # a file has no privileges to grant
        return ExposedSchema(mount, url.engine, "", (), database.limits)
    # The owner has more privileges than a reader, and the login for callers may not be there yet.
    database = dataclasses.replace(database, require_readonly_role=False, sql=False)
    async with database:
        engine = database.engine
        # What depends on claims of callers is there, whoever they are.
        claims = dict.fromkeys(database.claims)
        shown = database.with_claims(claims) if claims else database
        names = [table async for table in _exposed_tables(shown)]
        types = {info.name: info.type for info in await engine.tables()}
        policy = Policy(database.tables, engine.name).with_claims(claims)
        tables = [await engine.table(name) for name in names]
        return ExposedSchema(
            mount=mount,
            engine=engine.name,
            database=url.database,
            tables=names,
            limits=database.limits,
            views=frozenset(table for table in names if "view" in types.get(table, "table")),
            shown=[OwnedTable(table, policy.view(table)) for table in tables],
            digest=database.policy_digest,
            has_claims=bool(claims),
            mistakes=await database.warnings(thorough=False),
        )


async def _exposed_tables(database: Database, parent: Path = ()) -> AsyncIterator[TableName]:
    """Yield the visible tables, in order."""
    after: Path | None = None
    while True:
        page = await settle(database.list(parent, after=after, limit=_PAGE))
        for resource in page:
            match address.parse_path(resource.path, has_schemas=database.engine.has_schemas):
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


_WITHOUT_HIDDEN = "-- To deny it hidden columns as well, unless a filter or query needs them:"


def role_sql(exposed: ExposedSchema) -> str:
    """Return SQL for psql or mariadb that creates a read-only login; it can be run again."""
    match exposed.engine:
        case "sqlite" | "duckdb":
            lines = iter(("-- A file has no logins; it is opened read-only. Nothing to do.",))
        case "generic":
            lines = _any_role(exposed)
        case "postgresql":
            lines = _postgresql_role(exposed)
        case _:
            lines = _mysql_role(exposed)
    return f"-- {comment_text(exposed.mount)}: a login that reads the exposed tables\n" + "".join(
        f"{line}\n" for line in lines
    )


def comment_text(text: str) -> str:
    """Return text that is safe in a comment of one line."""
    return printable(text, longest=len(text))


def quoted_table(name: TableName) -> str:
    """Return the quoted name of a PostgreSQL table."""
    return ".".join(quoted(part) for part in name if part is not None)


def timeout_seconds(limits: ReadLimits) -> int:
    """Return the statement timeout for the login, longer than our own."""
    return math.ceil(max(limits.timeout, limits.query_timeout)) + 5


def _postgresql_role(exposed: ExposedSchema) -> Iterator[str]:
    name = f"{exposed.mount[:56]}_reader"
    if name.startswith("pg_"):
        # The prefix is reserved.
        name = f"reader_of_{exposed.mount[:53]}"
    login, database = quoted(name), quoted(exposed.database)
    schemas = dict.fromkeys(table.schema for table in exposed.tables if table.schema is not None)
    yield "-- Run with psql as the owner of the tables, who may create roles; then set the password"
    yield f"-- of the login in psql: \\password {login}"
    yield "BEGIN;"
    yield "DO $$ BEGIN"
    yield f"  CREATE ROLE {login} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT;"
    yield "EXCEPTION WHEN duplicate_object THEN NULL;"
    yield "END $$;"
    yield f"ALTER ROLE {login} CONNECTION LIMIT 20;"
    yield f"ALTER ROLE {login} SET default_transaction_read_only = on;"
    yield f"ALTER ROLE {login} SET statement_timeout = '{timeout_seconds(exposed.limits)}s';"
    yield f"ALTER ROLE {login} SET lock_timeout = '500ms';"
    yield f"ALTER ROLE {login} SET idle_in_transaction_session_timeout = '5s';"
    yield f"GRANT CONNECT ON DATABASE {database} TO {login};"
    for schema in schemas:
        yield f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {login};"
        yield f"REVOKE ALL ON ALL TABLES IN SCHEMA {quoted(schema)} FROM {login};"
    for table in exposed.tables:
        yield f"GRANT SELECT ON TABLE {quoted_table(table)} TO {login};"
    yield "COMMIT;"
    yield "-- The login inherits the privileges of PUBLIC. If nobody else needs these:"
    yield f"-- REVOKE TEMPORARY ON DATABASE {comment_text(database)} FROM PUBLIC;"
    yield from (
        f"-- REVOKE CREATE ON SCHEMA {comment_text(quoted(s))} FROM PUBLIC;" for s in schemas
    )
    yield "-- As a superuser, to limit its temporary files on disk:"
    yield f"-- ALTER ROLE {login} SET temp_file_limit = '256MB';"
    for each in exposed.shown:
        if each.view.options.columns.hide:
            names = ", ".join(map(quoted, each.view.table.column_names))
            yield from _only_columns(quoted_table(each.name), names, login)


def _any_role(exposed: ExposedSchema) -> Iterator[str]:
    yield "-- Databases create logins in different ways. Create one that may only read, and grant"
    yield "-- it these, written as in standard SQL:"
    for table in exposed.tables:
        yield comment_text(f"-- GRANT SELECT ON {quoted_table(table)} TO reader;")


def _mysql_role(exposed: ExposedSchema) -> Iterator[str]:
    login = f"{backquoted(f'{exposed.mount[:25]}_reader')}@`%`"
    bounds = "MAX_USER_CONNECTIONS 20"
    if exposed.engine == "mariadb":
        bounds += f" MAX_STATEMENT_TIME {timeout_seconds(exposed.limits)}"
    yield "-- Run as a user who may create users. The login is locked until it has a password:"
    yield f"-- ALTER USER {login} IDENTIFIED BY '…' ACCOUNT UNLOCK;"
    yield "-- Replace % with the host that resource-server connects from, if it is fixed."
    yield f"CREATE USER IF NOT EXISTS {login} ACCOUNT LOCK;"
    yield f"ALTER USER {login} WITH {bounds};"
    yield f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM {login};"
    for table in exposed.tables:
        yield f"GRANT SELECT ON {_of_database(exposed, table)} TO {login};"
    for each in exposed.shown:
        if each.view.options.columns.hide:
            names = ", ".join(map(backquoted, each.view.table.column_names))
            yield from _only_columns(_of_database(exposed, each.name), names, login)


def _only_columns(table: str, columns: str, login: str) -> Iterator[str]:
    yield _WITHOUT_HIDDEN
    yield comment_text(f"-- REVOKE SELECT ON {table} FROM {login};")  # noqa: S608
    yield comment_text(f"-- GRANT SELECT ({columns}) ON {table} TO {login};")


def _of_database(exposed: ExposedSchema, table: TableName) -> str:
    return f"{backquoted(table.schema or exposed.database)}.{backquoted(table.name)}"


CHANNEL = "resource_server"
"""Channel of PostgreSQL that the server listens on."""
_TRIGGER = "resource_server_notify"


def notify_sql(exposed: ExposedSchema) -> str:
    """Return SQL for psql that creates triggers for `watch: notify`; it can be run again."""
    match exposed.engine:
        case "postgresql":
            lines = _postgresql_triggers(exposed)
        case "sqlite" | "duckdb":
            lines = iter(("-- A file needs no triggers: commits are detected. Nothing to do.",))
        case _:
            lines = iter(("-- This engine cannot notify: its counters are polled. Nothing to do.",))
    return f"-- {comment_text(exposed.mount)}: triggers that notify of changes\n" + "".join(
        f"{line}\n" for line in lines
    )


def _postgresql_triggers(exposed: ExposedSchema) -> Iterator[str]:
    tables = [table for table in exposed.tables if table not in exposed.views]
    if not tables:
        yield "-- No table is exposed, and views cannot have these triggers. Nothing to do."
        return
    function = f"{quoted(tables[0].schema or 'public')}.{_TRIGGER}"
    yield "-- Run with psql as the owner of the tables; then write `watch: notify` in the manifest."
    yield "-- A notification says that something was committed, not what: any login may listen."
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
    yield f"-- To undo: DROP FUNCTION {comment_text(function)}() CASCADE;"
