"""The check of a manifest's query, by DuckDB's own parser, before it runs.

DuckDB has no privileges: a query could change tables that are in memory, or read tables through
functions that take their names as text. So only SELECTs of tables and views are run, and their
functions compute from their arguments alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from resource_server.providers.database.engines.duckdb import catalog, syntax

_MAX_APPROVED = 1024
_QUERIES = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
_SOURCES = frozenset(
    ("BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY", "TABLE_FUNCTION")
)
_HARMLESS = ("error", "gen_random_uuid", "random", "uuid", "uuidv4", "uuidv7")
"""Volatile functions that read nothing but their arguments."""
_TELLING = ("current_setting", "getvariable", "json_serialize_plan")
"""Functions that read the catalog or settings, and are not volatile."""
_VOLATILE = """
SELECT DISTINCT lower(function_name) FROM duckdb_functions()
WHERE function_type <> 'macro' AND (has_side_effects OR stability = 'VOLATILE')"""
_MACROS = """
SELECT lower(function_name), json_serialize_sql('SELECT ' || macro_definition)
FROM duckdb_functions() WHERE function_type = 'macro'"""
_FILE_SIGNS = frozenset("./\\*?[:")
_INTERNAL = "SELECT lower(view_name) FROM duckdb_views() WHERE internal"
_TABLES = f"SELECT lower(schema_name), lower(name) FROM {catalog.RELATIONS}"  # noqa: S608


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
        ((name,),) = database.execute(catalog.DATABASE).fetchall()
        self.database = str(name).lower()
        self.telling = _telling_functions(database)
        """Functions that may tell more than their arguments."""
        self.approved = set[str]()
        """Queries that were checked."""


def _telling_functions(database: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Return the functions that read tables, statistics, settings or the catalog.

    Among them are the macros that read tables, or call such a function.
    """
    volatile = {str(name) for (name,) in database.execute(_VOLATILE).fetchall()}
    found = (volatile - set(_HARMLESS)) | set(_TELLING)
    calls: dict[str, set[str]] = {}
    for name, text in database.execute(_MACROS).fetchall():
        called = calls.setdefault(str(name), set())
        try:
            parsed: Any = json.loads(str(text))
        except RecursionError:
            parsed = {"error": True}
        read = syntax.reads(parsed)
        if parsed["error"] or read.tables or read.is_anything:
            found.add(str(name))
        called |= read.functions
    while more := {name for name, called in calls.items() if called & found} - found:
        found |= more
    return frozenset(found)


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
    for name in defined:
        # Where it is not in scope, DuckDB would take it for the name of a file.
        if ("main", name) not in known.tables and _FILE_SIGNS & set(name):
            raise RefusedQuery(f"defines {name}, which could be a file; choose another name")
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
    function = str(node.get("function_name", "")).lower()
    if function in known.telling:
        raise RefusedQuery(f"calls {function}(), which may tell more than its arguments")
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
