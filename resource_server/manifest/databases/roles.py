"""The SQL of a login that may read the exposed tables of a database, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator

from resource_server.manifest.databases.exposed import Exposed
from resource_server.manifest.wording import printable
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.options import ReadLimits

_WITHOUT_HIDDEN = "-- To withhold hidden columns from it too, unless a filter or query needs them:"


def role(exposed: Exposed) -> str:
    """Return the SQL, to be run as it is by psql or mariadb; it may be run again."""
    match exposed.engine:
        case "sqlite":
            lines = iter(
                ("-- A SQLite file has no logins: it is opened read-only. Nothing to do.",)
            )
        case "postgresql":
            lines = _postgresql(exposed)
        case _:
            lines = _mysql(exposed)
    return f"-- {shown(exposed.mount)}: a login that reads what is exposed\n" + "".join(
        f"{line}\n" for line in lines
    )


def shown(text: str) -> str:
    """Return text for one line of a comment."""
    return printable(text, longest=len(text))


def double_quoted(name: str) -> str:
    """Return an identifier of PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


def of_schema(name: TableName) -> str:
    """Return the name of a PostgreSQL table, quoted."""
    return ".".join(double_quoted(part) for part in name if part is not None)


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _seconds(limits: ReadLimits) -> int:
    """How long the server may work on a statement: longer than this server waits for it."""
    return math.ceil(max(limits.timeout, limits.query_timeout)) + 5


def _postgresql(exposed: Exposed) -> Iterator[str]:
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
        yield f"GRANT SELECT ON TABLE {of_schema(table)} TO {login};"
    yield "COMMIT;"
    yield "-- What everybody may do, this login may too. If nobody else needs these rights:"
    yield f"-- REVOKE TEMPORARY ON DATABASE {shown(database)} FROM PUBLIC;"
    yield from (
        f"-- REVOKE CREATE ON SCHEMA {shown(double_quoted(s))} FROM PUBLIC;" for s in schemas
    )
    yield "-- As a superuser, to bound what it writes to disk for sorting:"
    yield f"-- ALTER ROLE {login} SET temp_file_limit = '256MB';"
    for table, columns in exposed.columns.items():
        names = ", ".join(map(double_quoted, columns))
        yield from _only_columns(of_schema(table), names, login)


def _mysql(exposed: Exposed) -> Iterator[str]:
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
    yield shown(f"-- REVOKE SELECT ON {table} FROM {login};")  # noqa: S608
    yield shown(f"-- GRANT SELECT ({columns}) ON {table} TO {login};")


def _of_database(exposed: Exposed, table: TableName) -> str:
    return f"{_backquoted(table.schema or exposed.database)}.{_backquoted(table.name)}"
