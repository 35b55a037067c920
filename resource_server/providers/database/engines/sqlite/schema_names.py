"""The tables and views of a SQLite schema by name, from `sqlite_schema` alone.

`PRAGMA table_list` would say the same, but prepares every view again for every view.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from resource_server.providers.database.engines.reflection import TableType

_SHADOWS = {
    "fts3": ("content", "docsize", "segdir", "segments", "stat"),
    "fts4": ("content", "docsize", "segdir", "segments", "stat"),
    "fts5": ("config", "content", "data", "docsize", "idx"),
    "rtree": ("node", "parent", "rowid"),
    "rtree_i32": ("node", "parent", "rowid"),
    "geopoly": ("node", "parent", "rowid"),
}
"""Modules that are part of SQLite, with the tables that each keeps its data in."""

MODULES = frozenset((*_SHADOWS, "fts4aux", "fts5vocab"))
"""Modules whose virtual tables are read; no other may run its code."""

_NAMES = """
SELECT name, type, CASE WHEN type = 'table' AND rootpage = 0 THEN sql END FROM main.sqlite_master
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
"""
_MODULE = re.compile(r"\bUSING\s+(?:\"([^\"]+)\"|\[([^\]]+)\]|`([^`]+)`|(\w+))", re.IGNORECASE)
_LITERALS = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\[[^\]]*\]",
    re.DOTALL,
)


class Relation(NamedTuple):
    """What a name in the schema stands for."""

    name: str
    type: TableType
    module: str | None = None
    """Of a virtual table, in lower case."""


class Schema(NamedTuple):
    """All names of a schema: what users count as tables, in order, and what lies behind them."""

    relations: Mapping[str, Relation]
    shadows: Mapping[str, str]
    """The tables of virtual tables, and to which each belongs."""


def read_schema(connection: sqlite3.Connection) -> Schema:
    """Return the names of a schema. Those that are not UTF-8 cannot be asked for: left out."""
    rows: list[tuple[str, str, str | None]] = connection.execute(_NAMES).fetchall()
    every = [_relation(*row) for row in rows if is_text(row[0])]
    relations = {relation.name: relation for relation in every}
    shadows = {
        name: relation.name
        for relation in every
        for name in _shadows(relation, relations)
        if relations[name].type == "table"
    }
    return Schema({name: relations[name] for name in relations if name not in shadows}, shadows)


def quoted(name: str) -> str:
    """Return an identifier as it is written in SQL."""
    return '"' + name.replace('"', '""') + '"'


def table_options(sql: str) -> frozenset[str]:
    """Return what stands behind the columns in a CREATE TABLE: `STRICT`, `WITHOUT ROWID`."""
    _, _, tail = _LITERALS.sub(" ", sql).rpartition(")")
    return frozenset(" ".join(option.split()).upper() for option in tail.split(",")) - {""}


def _relation(name: str, type: str, sql: str | None) -> Relation:
    if type == "view":
        return Relation(name, "view")
    if sql is None:
        return Relation(name, "table")
    # The table's own name may hold anything, so what follows it is looked at.
    found = _MODULE.search(sql, sql.find(name) + len(name) if name in sql else 0)
    module = next(filter(None, found.groups()), "") if found else ""
    return Relation(name, "virtual table", module.lower())


def _shadows(relation: Relation, known: Mapping[str, Relation]) -> Iterable[str]:
    suffixes: Sequence[str] = _SHADOWS.get(relation.module or "", ())
    names = [f"{relation.name}_{suffix}" for suffix in suffixes]
    return [name for name in names if name in known]


def is_text(name: str) -> bool:
    """Return whether a name is UTF-8, so that a statement can hold it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
