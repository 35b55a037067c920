"""The check of a manifest's query, by DuckDB's own parser, before it runs.

DuckDB has no privileges: a query could change tables that are in memory, or read tables through
functions that take their names as text. So only SELECTs of tables and views are run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from resource_server.providers.database.engines.duckdb import syntax

_MAX_APPROVED = 1024
_QUERIES = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
_SOURCES = frozenset(
    ("BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY", "TABLE_FUNCTION")
)
_INTERNAL = "SELECT lower(view_name) FROM duckdb_views() WHERE internal"
_TABLES = """
SELECT lower(schema_name), lower(table_name) FROM duckdb_tables()
WHERE NOT internal AND database_name = current_database()
UNION ALL SELECT lower(schema_name), lower(view_name) FROM duckdb_views()
WHERE NOT internal AND database_name = current_database()"""


class RefusedQuery(Exception):
    """A query is refused; the message is for the manifest's author."""


class KnownTables:
    """The tables and views that a query may name."""

    def __init__(self, database: duckdb.DuckDBPyConnection, *, schema: str | None = None) -> None:
        """Read the names; with `schema`, only its tables may be named."""
        found = database.execute(_TABLES).fetchall()
        self.tables = {
            (str(each), str(name)) for each, name in found if schema is None or each == schema
        }
        self.internal = {str(name) for (name,) in database.execute(_INTERNAL).fetchall()}
        ((name,),) = database.execute("SELECT lower(current_database())").fetchall()
        self.database = str(name)
        self.approved = set[str]()
        """Queries that were checked."""


def check(connection: duckdb.DuckDBPyConnection, sql: str, known: KnownTables) -> None:
    """Check that a query only reads tables and views.

    Raises:
        RefusedQuery: it does not.
        duckdb.Error: it cannot be parsed.
    """
    if sql in known.approved:
        return
    ((text,),) = connection.execute(syntax.PARSE, [sql]).fetchall()
    try:
        parsed: Any = json.loads(str(text))
    except RecursionError:
        raise RefusedQuery("is nested too deeply") from None
    if parsed["error"]:
        raise RefusedQuery(str(parsed.get("error_message", "cannot be parsed")))
    if len(parsed["statements"]) != 1:
        raise RefusedQuery("holds more than one statement; write one")
    nodes = list(syntax.nodes(parsed))
    defined = {str(name).lower() for node in nodes for name in _defined(node)}
    for name in defined & known.internal:
        raise RefusedQuery(f"defines {name}, which DuckDB has already; choose another name")
    for node in nodes:
        _check_node(node, defined, known)
    if len(known.approved) >= _MAX_APPROVED:
        known.approved.clear()
    known.approved.add(sql)


def _defined(node: Mapping[str, Any]) -> Sequence[str]:
    """Return the common table expressions that a part of a query defines."""
    if "cte_map" not in node:
        return ()
    names = [each["key"] for each in node["cte_map"].get("map", ())]
    return [*names, node["cte_name"]] if node.get("cte_name") else names


def _check_node(node: Mapping[str, Any], defined: set[str], known: KnownTables) -> None:
    kind = str(node.get("type"))
    if "cte_map" in node and kind not in _QUERIES:
        raise RefusedQuery("is not a SELECT; begin with select, with or values")
    if "sample" not in node or "cte_map" in node or "select_list" in node:
        return
    if kind not in _SOURCES:
        raise RefusedQuery("reads something that is no table; write SELECT … FROM a table")
    if kind == "TABLE_FUNCTION":
        name = syntax.function_of(node)
        if name not in syntax.FUNCTIONS:
            raise RefusedQuery(f"calls {name}(), which may read more than tables")
    if kind == "BASE_TABLE":
        _check_table(node, defined, known)


def _check_table(node: Mapping[str, Any], defined: set[str], known: KnownTables) -> None:
    catalog, schema, name = (
        str(node.get(part) or "").lower() for part in ("catalog_name", "schema_name", "table_name")
    )
    if not schema and not catalog and (name in defined or ("main", name) in known.tables):
        return
    if catalog in ("", known.database) and (schema or "main", name) in known.tables:
        return
    if not catalog and schema == known.database and ("main", name) in known.tables:
        return
    written = ".".join(filter(None, (catalog, schema, name)))
    raise RefusedQuery(f"reads {written}, and there is no such table")
