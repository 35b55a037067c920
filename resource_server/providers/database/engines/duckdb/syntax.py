"""Parsed SQL, as DuckDB's `json_serialize_sql` gives it: its parts, and the tables it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

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
                is_anything |= function_of(node) not in FUNCTIONS
            case "SHOW_REF":
                is_anything = True
            case "COLUMN_REF":
                columns |= {name.lower() for name in _names(node)}
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


def tables(parsed: object) -> Iterator[tuple[str, ...]]:
    """Yield the parts of the name of every table, view and common table expression that is read."""
    for node in nodes(parsed):
        if node.get("type") == "BASE_TABLE":
            parts = (node.get("catalog_name"), node.get("schema_name"), node["table_name"])
            yield tuple(str(part) for part in parts if part)


def function_of(node: Mapping[str, Any]) -> str:
    """Return the name of the function of a `TABLE_FUNCTION`."""
    return str(node["function"].get("function_name", "")).lower()


def _names(node: Mapping[str, Any]) -> Sequence[str]:
    return [str(name) for name in node.get("column_names", ())]
