"""The check of a query of the manifest or of a caller, by DuckDB's own parser, before it runs.

DuckDB has no privileges: a query could change tables that are in memory, read settings and files,
or read tables through functions that take their names as text. So only SELECTs of known tables and
views are run, and their functions compute from their arguments alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import duckdb

from resource_server.providers.database.engines.duckdb import catalog, syntax
from resource_server.providers.database.engines.duckdb.messages import RunFailed
from resource_server.providers.database.engines.reflection import folded

_QUERIES = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
_SOURCES = frozenset(
    ("BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY", "TABLE_FUNCTION")
)
_HARMLESS = ("error", "gen_random_uuid", "random", "uuid", "uuidv4", "uuidv7")
"""Volatile functions that read nothing but their arguments."""
_CATALOG_READERS = ("current_setting", "getvariable", "json_serialize_plan")
"""Functions that read the catalog or settings, and are not volatile."""
_OF_THE_PROCESS: Final = frozenset(
    (
        "txid_current",  # counts what was done, to what is hidden as well
        # On a deep structure they end the process, with the statements of others.
        "cast_to_type",
        "from_json",
        "from_json_strict",
        "json_contains",
        "json_deserialize_sql",
        "json_transform",
        "json_transform_strict",
        "variant_group_array",
        "variant_group_object",
    )
)
"""Functions that callers do not have, though they read nothing but their arguments."""
_VARIANT: Final = "variant"
"""The type that ends the process, as those functions do, if a deep structure is cast to it."""
_VOLATILE = """
SELECT DISTINCT lower(function_name) FROM duckdb_functions()
WHERE function_type <> 'macro' AND (has_side_effects OR stability = 'VOLATILE')"""
_MACROS = """
SELECT lower(function_name), json_serialize_sql('SELECT ' || macro_definition)
FROM duckdb_functions() WHERE function_type = 'macro'"""
_TABLES = f"SELECT schema_name, name FROM {catalog.RELATIONS}"  # noqa: S608
_MAX_CHARACTERS: Final = 300
_MISSING: Final = re.compile(r"Catalog Error: (.+?) with name (.+?) does not exist!")
_COLUMN: Final = re.compile(r'Binder Error: Referenced column "(.+?)" (?:was )?not found')
_COLUMN_OF: Final = re.compile(r'Binder Error: .*does not have a column named "(.+?)"')
_MISTAKES: Final = (
    duckdb.BinderException,
    duckdb.ParserException,
    duckdb.SyntaxException,
    duckdb.ConversionException,
    duckdb.OutOfRangeException,
    duckdb.InvalidInputException,
    duckdb.TypeMismatchException,
)
"""Mistakes of a statement, or values that do not fit it."""


class RefusedQuery(Exception):
    """A query is refused; the message is for the manifest's author."""

    def __init__(
        self, message: str, *, table: str | None = None, function: str | None = None
    ) -> None:
        super().__init__(message)
        self.table = table
        """The table that it names, if there is no such table."""
        self.function = function
        """The function that it may not call."""


class KnownTables:
    """The tables and views that a query may name, and the functions that it may not call."""

    def __init__(
        self, database: duckdb.DuckDBPyConnection, paths: Iterable[tuple[str, ...]]
    ) -> None:
        """Take the ways to write the names of tables, folded."""
        self.paths = frozenset(paths)
        self.refused_functions = _refused_functions(database)
        self.refuses_variant = False

    @classmethod
    def for_authors(
        cls, database: duckdb.DuckDBPyConnection, *, schema: str | None = None
    ) -> KnownTables:
        """Return the tables of the open database; with `schema`, only its own."""
        ((name,),) = database.execute(catalog.DATABASE).fetchall()
        paths: list[tuple[str, ...]] = []
        for each, table in database.execute(_TABLES).fetchall():
            if schema in (None, each):
                paths += syntax.table_paths(name, each, table)
        return cls(database, paths)

    @classmethod
    def for_callers(cls, database: duckdb.DuckDBPyConnection, tables: Iterable[str]) -> KnownTables:
        """Return tables whose names stand alone."""
        known = cls(database, [(folded(table),) for table in tables])
        known.refused_functions |= _OF_THE_PROCESS
        known.refuses_variant = True
        return known


def _refused_functions(database: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Return the functions that read tables, statistics, settings or the catalog.

    Among them are the macros that read tables, or call such a function.
    """
    volatile = {str(name) for (name,) in database.execute(_VOLATILE).fetchall()}
    found = (volatile - set(_HARMLESS)) | set(_CATALOG_READERS)
    calls: dict[str, set[str]] = {}
    for name, text in database.execute(_MACROS).fetchall():
        called = calls.setdefault(str(name), set())
        try:
            read = syntax.reads(syntax.parsed_statement(text))
        except ValueError:
            found.add(str(name))
            continue
        if read.tables or read.is_anything:
            found.add(str(name))
        called |= read.functions
    while more := {name for name, called in calls.items() if called & found} - found:
        found |= more
    return frozenset(found)


def parsed(connection: duckdb.DuckDBPyConnection, sql: str) -> object:
    """Parse a SELECT.

    Raises:
        RefusedQuery: it is none, or cannot be parsed.
    """
    ((text,),) = connection.execute(syntax.PARSE, [sql]).fetchall()
    try:
        return syntax.parsed_statement(text)
    except ValueError as error:
        raise RefusedQuery(str(error)) from None


def check(query: object, known: KnownTables) -> None:
    """Check that a parsed query only reads tables and views.

    Raises:
        RefusedQuery: it does not.
    """
    for node in syntax.nodes(query):
        _check_node(node, known)
    for table in syntax.tables(query):
        path = syntax.table_path(table)
        if tuple(map(folded, path)) not in known.paths:
            written = ".".join(path)
            raise RefusedQuery(f"reads {written}, and there is no such table", table=written)


def _check_node(node: Mapping[str, Any], known: KnownTables) -> None:
    kind = str(node.get("type"))
    function = str(node.get("function_name", "")).lower()
    if function in known.refused_functions:
        told = f"calls {function}(), which may tell more than its arguments"
        raise RefusedQuery(told, function=function)
    if known.refuses_variant:
        _check_type(node)
    if "cte_map" in node and kind not in _QUERIES:
        raise RefusedQuery("changes data; write only SELECTs")
    if "sample" not in node or "cte_map" in node or "select_list" in node:
        return
    if kind not in _SOURCES:
        raise RefusedQuery("reads something that is no table; write SELECT … FROM a table")
    if kind == "TABLE_FUNCTION":
        name = syntax.table_function(node)
        if name not in syntax.FUNCTIONS:
            raise RefusedQuery(f"calls {name}(), which may read more than tables", function=name)


def _check_type(node: Mapping[str, Any]) -> None:
    # DuckDB before 1.5 writes the type itself, and others the name of one.
    name = str(node.get("type_name") or node.get("id", "")).lower()
    if name == _VARIANT:
        raise RefusedQuery("has the type VARIANT, which is not available; write JSON")
    if "type_name" in node and node.get("schema"):
        raise RefusedQuery("has a type with a schema, which is not available; write its definition")


def refusal(id: int, error: Exception, paths: Iterable[str]) -> RunFailed:
    """Return the answer to a statement that failed, without the paths of files.

    The first line of DuckDB's errors has names and values that callers see.
    """
    match error:
        case RefusedQuery(table=str(table)):
            return RunFailed(id, "refused", f"no such table: {table}", table=table)
        case RefusedQuery(function=str(function)):
            return RunFailed(id, "refused", f"no such function: {function}")
        case RefusedQuery():
            return RunFailed(id, "refused", f"sql: {error}"[:_MAX_CHARACTERS])
        case _:
            pass
    line = str(error).partition("\n")[0]
    if found := _MISSING.match(line):
        if found[1] == "Table":
            return RunFailed(id, "refused", f"no such table: {found[2]}", table=found[2])
        return RunFailed(id, "refused", f"no such function or type: {found[2].lower()}")
    if found := (_COLUMN.match(line) or _COLUMN_OF.match(line)):
        return RunFailed(id, "refused", f"no such column: {found[1]}", column=found[1])
    if not isinstance(error, _MISTAKES) or any(path in line for path in paths):
        return RunFailed(id, "refused")
    return RunFailed(id, "refused", line.partition(": ")[2][:_MAX_CHARACTERS])
