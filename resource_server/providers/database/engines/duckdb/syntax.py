"""Parsed SQL, as DuckDB's `json_serialize_sql` gives it: its parts, and the tables it reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from resource_server.providers.database.engines.reflection import folded

PARSE: Final = "SELECT json_serialize_sql($1)"
FUNCTIONS: Final = frozenset(
    (
        "generate_series",
        "json_each",
        "json_tree",
        "range",
        "repeat",
        "repeat_row",
        "unnest",
    )
)
"""Table functions that read nothing but their arguments."""


class Reads(NamedTuple):
    """The names in a SELECT, in lower case."""

    tables: frozenset[str]
    columns: frozenset[str]
    functions: frozenset[str]
    is_whole: bool
    """Whether it may read every column of its tables."""
    is_anything: bool
    """Whether it may read every table, by a function."""


def nodes(parsed: object) -> Iterator[Mapping[str, Any]]:
    """Yield every part of parsed SQL."""
    waiting: list[object] = [parsed]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            node = cast("dict[str, Any]", each)
            yield node
            waiting += node.values()
        elif isinstance(each, list):
            waiting += cast("list[object]", each)


def reads(parsed: object) -> Reads:
    """Return what a parsed SELECT may read."""
    tables = set[str]()
    columns = set[str]()
    functions = set[str]()
    is_whole = is_anything = False
    for node in nodes(parsed):
        match node.get("type"):
            case "BASE_TABLE":
                tables.add(str(node["table_name"]).lower())
            case "TABLE_FUNCTION":
                is_anything |= table_function(node) not in FUNCTIONS
            case "SHOW_REF":
                is_anything = True
            case "COLUMN_REF":
                columns |= {str(name).lower() for name in node.get("column_names", ())}
            case "STAR" | "PIVOT":
                is_whole = True
            case _:
                pass
        if "function_name" in node:
            functions.add(str(node["function_name"]).lower())
        columns |= {str(name).lower() for name in node.get("using_columns") or ()}
        is_whole |= node.get("ref_type") == "NATURAL"
    names = (frozenset(tables), frozenset(columns), frozenset(functions))
    return Reads(*names, is_whole, is_anything)


def tables(parsed: object) -> Iterator[Mapping[str, Any]]:
    """Yield every `BASE_TABLE` that is read, unless it certainly is a common table expression.

    Other names may be tables: that of an expression in itself, or in the first part of a recursive
    one, and those of later ones.
    """
    waiting: list[tuple[object, frozenset[str]]] = [(parsed, frozenset())]
    while waiting:
        each, defined = waiting.pop()
        if isinstance(each, list):
            waiting += [(item, defined) for item in cast("list[object]", each)]
        if not isinstance(each, dict):
            continue
        node = cast("dict[str, Any]", each)
        if node.get("type") == "BASE_TABLE":
            path = table_path(node)
            if path[1:] or folded(path[0]) not in defined:
                yield node
        parts = dict(node)
        for expression in parts.pop("cte_map", {}).get("map", ()):
            waiting.append((expression["value"], defined))
            defined |= {folded(expression["key"])}
        for part in ("left", "query"):  # of a recursive expression, and of a materialized one
            if "cte_name" in node and part in parts:
                waiting.append((parts.pop(part), defined))
        if "cte_name" in node:
            defined |= {folded(node["cte_name"])}
        waiting += [(part, defined) for part in parts.values()]


def definitions(parsed: object) -> Sequence[str]:
    """Return the name of each common table expression, folded."""
    return [
        folded(expression["key"])
        for node in nodes(parsed)
        for expression in node.get("cte_map", {}).get("map", ())
    ]


def parsed_statement(text: object) -> Any:
    """Return what `PARSE` gives, decoded.

    Raises:
        ValueError: it is no single SELECT; for its author.
    """
    if not isinstance(text, str):
        raise ValueError("is too long")  # noqa: TRY004 - for its author
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if found["error"]:
        told = str(found.get("error_message", "cannot be parsed"))
        if found.get("error_type") == "not implemented":
            told = "is not a SELECT; begin with select, with or values"
        raise ValueError("is nested too deeply" if "expression depth" in told else told)
    if len(found["statements"]) != 1:
        raise ValueError("holds more than one statement; write one")
    return found


def table_path(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parts of the name of a `BASE_TABLE`, as they are written."""
    parts = (node.get("catalog_name"), node.get("schema_name"), node["table_name"])
    return tuple(str(part) for part in parts if part)


def table_paths(database: str, schema: str, table: str) -> Iterator[tuple[str, ...]]:
    """Yield the ways to write the name of a table, folded."""
    for path in ((schema, table), (database, schema, table)):
        yield tuple(map(folded, path))
    if folded(schema) == "main":
        yield (folded(table),)
        yield folded(database), folded(table)


def table_function(node: Mapping[str, Any]) -> str:
    """Return the name of the function of a `TABLE_FUNCTION`, with the schema and catalog written.

    With a schema, it may be a macro of the file with the name of one of `FUNCTIONS`.
    """
    function = node["function"]
    parts = (function.get("catalog"), function.get("schema"), function.get("function_name"))
    return ".".join([str(part) for part in parts if part]).lower()
