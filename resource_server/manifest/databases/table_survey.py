"""Survey of a database for its starter manifest: tables, keys and row counts."""

from __future__ import annotations

import time
from collections.abc import Sequence

from resource_server.errors import DeadlineExceeded, ResourceError, ResourceNotFound
from resource_server.manifest import sources
from resource_server.manifest.databases.database_url import DatabaseUrl
from resource_server.manifest.starter import (
    MAX_TABLES,
    RowCount,
    SurveyedDatabase,
    SurveyedTable,
    database_manifest,
)
from resource_server.providers.database.engines.contract import Engine, SqlEngine, Statement
from resource_server.providers.database.engines.reflection import VIEWS, Table, TableInfo
from resource_server.providers.database.provider import Database

VARIABLE = "DATABASE_URL"
"""Environment variable for a URL with a password, which the manifest must not contain."""
_COUNT_S = 0.25
"""Timeout for counting the rows of one table; then statistics give an estimate."""
_ALL_COUNTS_S = 5.0
"""Time budget for counting all tables."""
_SEARCHED = ("public", "main")
"""Schemas in which engines look for a table without one."""


async def starter_manifest(url: DatabaseUrl) -> str:
    """Return the text of a manifest for a database; a SQLite file is named relative to it.

    Raises:
        MountUnavailable, ResourceError: the database cannot be read.
    """
    name, title = sources.database_name(url)
    base = f"{url.engine}://{name}/..."
    if url.is_file:
        written = url.relative()
        note = f"relative to this file; URIs are {base}"
    elif url.secrets:
        written, note = f"${{{VARIABLE}}}", f"contains a password; URIs are {base}"
    else:
        written, note = url.text.replace("${", "$${"), f"URIs are {base}"
    async with Database(url=url.text) as database:
        found, schemas = await survey_tables(database.engine)
        example = _example(database.engine, found)
    takes_sql = isinstance(database.engine, SqlEngine)
    return database_manifest(
        SurveyedDatabase(name, title, written, note, found, schemas, example, takes_sql=takes_sql)
    )


async def survey_tables(engine: Engine) -> tuple[list[SurveyedTable], list[str]]:
    """Return the tables of a database in order, and its schemas if it has any.

    Only the first `MAX_TABLES` are inspected; the others have just a name.
    """
    infos = await engine.tables()
    enough = time.monotonic() + _ALL_COUNTS_S
    found: list[SurveyedTable] = []
    for info in infos[:MAX_TABLES]:
        table = await _table(engine, info)
        rows = (
            None if table is None else await _rows(engine, table, is_late=time.monotonic() > enough)
        )
        found.append(SurveyedTable(_name(info), table, rows))
    found += [SurveyedTable(_name(info), None) for info in infos[MAX_TABLES:]]
    schemas = dict.fromkeys(info.name.schema for info in infos)
    return found, [schema for schema in schemas if schema is not None]


def _name(info: TableInfo) -> str:
    """Return the name of a table in a manifest."""
    schema, name = info.name
    return name if schema is None else f"{schema}.{name}"


def _example(engine: Engine, found: Sequence[SurveyedTable]) -> str | None:
    """Return a table as SQL names it, preferably not a view, which a policy may hide."""
    tables = [each.table for each in found if each.table is not None]
    if not tables:
        return None

    def rank(table: Table) -> tuple[bool, bool]:
        return table.type in VIEWS, table.name.schema not in (None, *_SEARCHED)

    schema, name = min(tables, key=rank).name
    quote = engine.dialect.identifier_preparer.quote
    # Queries name a table with a policy without its schema.
    if schema is None or schema in _SEARCHED:
        return quote(name)
    return f"{quote(schema)}.{quote(name)}"


async def _table(engine: Engine, info: TableInfo) -> Table | None:
    try:
        return await engine.table(info.name)
    except ResourceNotFound:
        return None


async def _rows(engine: Engine, table: Table, *, is_late: bool) -> RowCount | None:
    if not is_late:
        statement = Statement(f"SELECT count(*) FROM {engine.sql_name(table.name)}")  # noqa: S608
        try:
            counted = await engine.run_own(statement, limit=1, within=_COUNT_S, slow=True)
            return RowCount(int(str(counted.rows[0][0])))
        except DeadlineExceeded:
            pass
        except ResourceError:
            return None
    estimate = await engine.estimate(table.name)
    return None if estimate is None else RowCount(estimate, about=True)
