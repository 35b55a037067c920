"""Declared queries for tests of their SQL and parameters."""

from __future__ import annotations

from collections.abc import Mapping

from resource_server.providers.database.engines.contract import EngineName
from resource_server.providers.database.options import Query, ReadLimits
from resource_server.providers.database.queries.declared import DeclaredQuery
from resource_server.providers.database.queries.parameters import Parameter

ENGINES: tuple[EngineName, ...] = ("sqlite", "postgresql", "mysql", "mariadb")


INTEGER = Parameter(type="integer")


def declared(
    sql: str,
    parameters: Mapping[str, Parameter] | None = None,
    engine: EngineName = "sqlite",
    *,
    rows: int | None = None,
    limits: ReadLimits | None = None,
) -> DeclaredQuery:
    query = Query(sql=sql, parameters=parameters or {}, rows=rows)
    return DeclaredQuery("q", query, engine, limits or ReadLimits())
