"""SQL for the owner of a database: the views of the policy, and a login that reads these alone.

The views are what callers' SQL runs against. They carry the manifest's hidden columns, masks and
conditions, so the database itself enforces them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Final

from resource_server.manifest.databases.owner_sql import (
    ExposedSchema,
    OwnedTable,
    comment_text,
    quoted_table,
    timeout_seconds,
)
from resource_server.providers.database.engines.reflection import (
    VIEWS,
    Column,
    backquoted,
    names_in_sql,
    quoted,
)
from resource_server.providers.database.engines.sql_login import DIGEST, HASH_KEY
from resource_server.providers.database.masks import REDACTED, MaskKind

_CODE_LENGTH: Final = 16
"""Characters of a code of `hash`: 64 bits."""
_NO_LIMIT: Final = 2**64 - 1
_WITH_DIGITS: Final = frozenset(("text", "integer", "numeric"))
"""Kinds of columns whose last characters `last4` shows."""


def policy_sql(exposed: ExposedSchema) -> str:
    """Return SQL for psql or mariadb that creates the views and their login; it can run again."""
    match exposed.engine:
        case "sqlite" | "duckdb":
            lines = iter(
                ("-- A file has no logins: write `sql: true`, and the server confines callers.",)
            )
        case "generic":
            lines = iter(("-- This engine takes no SQL of callers. Nothing to do.",))
        case "postgresql":
            lines = _postgresql(exposed)
        case _:
            lines = _mysql(exposed)
    title = f"-- {comment_text(exposed.mount)}: views of the policy, and a login that reads them\n"
    return title + "".join(f"{line}\n" for line in lines)


def _tables_by_view(exposed: ExposedSchema) -> Mapping[str, OwnedTable]:
    """Return the tables that have rows by the names of their views."""
    tables = [each for each in exposed.shown if each.view.options.rows]
    return dict(zip(names_in_sql([each.name for each in tables]), tables, strict=True))


def _is_whole(table: OwnedTable) -> bool:
    """Return whether callers see a table as it is; a view may leave out rows by itself."""
    options = table.view.options
    is_restricted = options.columns.covered or options.where is not None
    return not is_restricted and table.table.type not in VIEWS


def _masks(table: OwnedTable) -> Iterator[tuple[Column, MaskKind | None]]:
    """Yield the visible columns as they are in the database, with their masks."""
    columns = {column.name: column for column in table.table.columns}
    masks: dict[str, MaskKind] = {}
    for name, mask in table.view.options.columns.mask.items():
        masks[name.casefold()] = mask
    for name in table.view.table.column_names:
        yield columns[name], masks.get(name.casefold()) if name in table.view.masked else None


# -- PostgreSQL


def _postgresql(exposed: ExposedSchema) -> Iterator[str]:
    name = f"{exposed.mount[:59]}_sql"
    if name.startswith("pg_"):
        name = f"sql_of_{exposed.mount[:56]}"  # the prefix is reserved
    login = schema = quoted(name)
    key, digest = f"{schema}.{quoted(HASH_KEY)}", f"{schema}.{quoted(DIGEST)}"
    named = _tables_by_view(exposed)
    views = {f"{schema}.{quoted(view)}": each for view, each in named.items()}
    whole = [view for view, each in named.items() if _is_whole(each)]
    yield f"""\
-- Run with psql as the owner of the tables, who may create roles and schemas; set the password of
-- the login in psql: \\password {comment_text(login)}
-- Write its URL in the manifest: `sql: {{url: …}}`. Run this again when the manifest's `tables`
-- change, and for new tables and columns.
BEGIN;
SET LOCAL client_min_messages = warning;
DO $$ BEGIN
  CREATE ROLE {login} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT;
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;
ALTER ROLE {login} CONNECTION LIMIT 20;
ALTER ROLE {login} SET search_path = {schema};
ALTER ROLE {login} SET default_transaction_read_only = on;
ALTER ROLE {login} SET statement_timeout = '{timeout_seconds(exposed.limits)}s';
ALTER ROLE {login} SET lock_timeout = '500ms';
ALTER ROLE {login} SET idle_in_transaction_session_timeout = '5s';
GRANT CONNECT ON DATABASE {quoted(exposed.database)} TO {login};
CREATE SCHEMA IF NOT EXISTS {schema};
-- The views of the last time go; nothing of anybody else's does.
DO $$ DECLARE made record; BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n
      ON n.oid = c.relnamespace AND n.nspname = {_literal(name)})
    AND pg_catalog.to_regclass({_literal(digest)}) IS NULL THEN
    RAISE EXCEPTION 'the schema % holds something else', {_literal(name)};
  END IF;
  FOR made IN SELECT viewname FROM pg_catalog.pg_views WHERE schemaname = {_literal(name)} LOOP
    EXECUTE pg_catalog.format('DROP VIEW %I.%I', {_literal(name)}, made.viewname);
  END LOOP;
END $$;
-- The key of `hash`, which only the owner reads.
CREATE TABLE IF NOT EXISTS {key} (hash_key text NOT NULL);
INSERT INTO {key} SELECT {_literal(secrets.token_hex(32))}
  WHERE NOT EXISTS (SELECT FROM {key});
CREATE VIEW {digest} AS SELECT {_literal(exposed.digest)}::text AS digest,
  ARRAY[{", ".join(map(_literal, whole))}]::text[] AS whole;"""  # noqa: S608 - quoted
    for view, table in views.items():
        yield from _postgresql_view(view, table, key)
    yield f"""\
REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM PUBLIC, {login};
REVOKE ALL ON SCHEMA {schema} FROM PUBLIC;
GRANT USAGE ON SCHEMA {schema} TO {login};"""
    yield from (f"GRANT SELECT ON {view} TO {login};" for view in (digest, *views))
    yield """\
COMMIT;
-- What PUBLIC may do, this login may do: `resource-server check` names the first right that is too
-- many. Often this is the cure:
-- REVOKE ALL ON SCHEMA public FROM PUBLIC;"""


def _postgresql_view(view: str, table: OwnedTable, key: str) -> Iterator[str]:
    columns = [_postgresql_column(column, mask, key) for column, mask in _masks(table)]
    where = table.view.options.where
    # Without the option, conditions of a caller could run on hidden rows.
    barrier = "" if where is None else " WITH (security_barrier = true)"
    yield f"CREATE VIEW {view}{barrier} AS"
    yield f"  SELECT {', '.join(columns)}"
    if where is None:
        yield f"  FROM {quoted_table(table.name)};"
    else:
        yield f"  FROM {quoted_table(table.name)}"
        yield f"  WHERE ({where}"
        yield "  );"


def _postgresql_column(column: Column, mask: MaskKind | None, key: str) -> str:
    name = quoted(column.name)
    match mask:
        case None:
            return name
        case "hash":
            written = f"{name}::text"
            if column.kind == "blob":
                written = f"pg_catalog.encode({name}, 'hex')"
            elif column.kind == "numeric":
                written = f"pg_catalog.trim_scale({name}::numeric)::text"
            keyed = f"(SELECT hash_key FROM {key}) || '|' || {written}"  # noqa: S608 - quoted
            code = f"pg_catalog.sha256(pg_catalog.convert_to({keyed}, 'UTF8'))"
            masked = f"pg_catalog.left(pg_catalog.encode({code}, 'hex'), {_CODE_LENGTH})"
        case "last4" if column.kind in _WITH_DIGITS:
            masked = f"CASE WHEN pg_catalog.length({name}::text) >= 8"
            masked += f" THEN '…' || pg_catalog.right({name}::text, 4)"
            masked += f" WHEN {name} IS NOT NULL THEN '{REDACTED}' END"
        case _:
            masked = f"CASE WHEN {name} IS NOT NULL THEN '{REDACTED}' END"
    return f"{masked} AS {name}"


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# -- MariaDB and MySQL


def _mysql(exposed: ExposedSchema) -> Iterator[str]:
    database = backquoted(f"{exposed.database[:60]}_sql")
    login = f"{backquoted(f'{exposed.mount[:28]}_sql')}@`%`"
    bounds = "MAX_USER_CONNECTIONS 20"
    if exposed.engine == "mariadb":
        bounds += f" MAX_STATEMENT_TIME {timeout_seconds(exposed.limits)}"
    key, digest = f"{database}.{backquoted(HASH_KEY)}", f"{database}.{backquoted(DIGEST)}"
    views = {
        f"{database}.{backquoted(view)}": each for view, each in _tables_by_view(exposed).items()
    }
    yield f"""\
-- Run as a user who may create users and databases. The login is locked until it has a password:
-- ALTER USER {comment_text(login)} IDENTIFIED BY '…' ACCOUNT UNLOCK;
-- Write its URL in the manifest, with the database {comment_text(database)}: `sql: {{url: …}}`.
-- Run this again when the manifest's `tables` change, and for new tables and columns. Replace %
-- with the host that resource-server connects from, if it is fixed.
CREATE DATABASE IF NOT EXISTS {database} CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS {login} ACCOUNT LOCK;
ALTER USER {login} WITH {bounds};
REVOKE ALL PRIVILEGES, GRANT OPTION FROM {login};
-- The key of `hash`, which only the owner reads.
CREATE TABLE IF NOT EXISTS {key} (hash_key varchar(64) CHARACTER SET ascii NOT NULL);
INSERT INTO {key} SELECT {_literal(secrets.token_hex(32))} FROM DUAL
  WHERE NOT EXISTS (SELECT 1 FROM {key});
CREATE OR REPLACE SQL SECURITY DEFINER VIEW {digest} AS
  SELECT {_literal(exposed.digest)} AS digest;"""  # noqa: S608 - quoted
    for view, table in views.items():
        yield from _mysql_view(view, table, exposed, key)
    yield from (f"GRANT SELECT ON {view} TO {login};" for view in (digest, *views))


def _mysql_view(view: str, table: OwnedTable, exposed: ExposedSchema, key: str) -> Iterator[str]:
    columns = [_mysql_column(column, mask, key) for column, mask in _masks(table)]
    source = f"{backquoted(table.name.schema or exposed.database)}.{backquoted(table.name.name)}"
    where = table.view.options.where
    algorithm = "MERGE" if where is None else "TEMPTABLE"
    yield f"CREATE OR REPLACE ALGORITHM = {algorithm} SQL SECURITY DEFINER VIEW {view} AS"
    yield f"  SELECT {', '.join(columns)}"
    if where is None:
        yield f"  FROM {source};"
    else:
        yield f"  FROM {source}"
        yield f"  WHERE ({where}"
        # Without the limit, conditions of a caller could run on hidden rows.
        yield f"  ) LIMIT {_NO_LIMIT};"


def _mysql_column(column: Column, mask: MaskKind | None, key: str) -> str:
    name = backquoted(column.name)
    match mask:
        case None:
            return name
        case "hash":
            is_bytes = column.kind in ("text", "blob")
            written = f"HEX({name})" if is_bytes else f"CAST({name} AS CHAR)"
            keyed = f"CONCAT((SELECT hash_key FROM {key}), '|', {written})"  # noqa: S608 - quoted
            masked = f"LEFT(SHA2({keyed}, 256), {_CODE_LENGTH})"
        case "last4" if column.kind in _WITH_DIGITS:
            masked = f"CASE WHEN CHAR_LENGTH(CAST({name} AS CHAR)) >= 8"
            masked += f" THEN CONCAT('…', RIGHT(CAST({name} AS CHAR), 4))"
            masked += f" WHEN {name} IS NOT NULL THEN '{REDACTED}' END"
        case _:
            masked = f"CASE WHEN {name} IS NOT NULL THEN '{REDACTED}' END"
    return f"{masked} AS {name}"
