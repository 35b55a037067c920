"""Callers' SQL without a rate limit, as the tool `query_database` runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from resource_server.errors import ResourceError
from resource_server.providers.database.engines.contract import Engine, SqlEngine
from resource_server.providers.database.engines.sql_login import SqlLogin
from resource_server.providers.database.options import ReadLimits, TableOptions
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries.callers.caller_sql import CallerSql, ConfinedSql
from resource_server.providers.database.queries.confinement import EngineConfinedSql
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from resource_server.runtime.timing import Timing


def caller_sql(
    engine: Engine,
    tables: Mapping[str, TableOptions | Literal[False]],
    *,
    login: SqlLogin | None = None,
    limits: ReadLimits | None = None,
) -> CallerSql:
    """Return what answers callers; statements run on the login, or on the engine itself."""
    limits = limits or ReadLimits()
    timing = Timing(statement_interval_s=1e-6, schema_cache_s=0.0)
    policy = Policy(tables, engine.name)
    exposed = ExposedTableCache(engine, policy, limits, timing, "refuse")
    visible: ConfinedSql | None = login
    if visible is None:
        assert isinstance(engine, SqlEngine)
        visible = EngineConfinedSql(engine, policy, exposed, is_author=False)
    return CallerSql(
        visible,
        engine.name,
        exposed,
        limits,
        link=lambda path, query=None: "/".join(path),
        timing=timing,
    )


async def answer(callers: CallerSql, sql: str, given: Mapping[str, Any] | None = None) -> Any:
    """Return all that a caller gets for a statement."""
    try:
        found = await callers.run(sql, given or {}, 50)
    except ResourceError as error:
        return type(error).__name__, str(error)
    return found.columns, [tuple(row) for row in found.rows], found.more
