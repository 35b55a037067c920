"""The names in a SQLite schema: tables, views, and the shadow tables behind virtual tables.

Read from `sqlite_schema`. `PRAGMA table_list` gives the same, but prepares all views for each view.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from resource_server.providers.database.engines.reflection import TableType
from resource_server.uris import is_unicode

_SHADOWS = {
    "fts3": ("content", "docsize", "segdir", "segments", "stat"),
    "fts4": ("content", "docsize", "segdir", "segments", "stat"),
    "fts5": ("config", "content", "data", "docsize", "idx"),
    "rtree": ("node", "parent", "rowid"),
    "rtree_i32": ("node", "parent", "rowid"),
    "geopoly": ("node", "parent", "rowid"),
}
"""SQLite's own modules that store data, each with the suffixes of its shadow tables."""

FULL_TEXT = frozenset(("fts3", "fts4", "fts5"))
"""Modules of full-text tables, whose text may be that of another table."""

VOCABULARIES = frozenset(("fts4aux", "fts5vocab"))
"""Modules whose tables show the words in a full-text table."""

MODULES = frozenset((*_SHADOWS, *VOCABULARIES))
"""Modules whose virtual tables may be read; no other module may run its code."""

_NAMES = """
SELECT name, type, CASE WHEN type = 'table' AND rootpage = 0 THEN sql END FROM main.sqlite_master
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
"""
_MAYBE_COMPUTED = """
SELECT name, sql FROM main.sqlite_master WHERE type = 'table' AND sql LIKE '%as%'
"""
_AS = re.compile(r"\bas\b", re.IGNORECASE)
_MODULE = re.compile(r"\bUSING\s+(?:\"([^\"]+)\"|\[([^\]]+)\]|`([^`]+)`|(\w+))", re.IGNORECASE)
_SOURCE = re.compile(
    r"""\s*\(\s*(?:"([^"]+)"|'([^']+)'|\[([^\]]+)\]|`([^`]+)`|(\w+))\s*(?:,\s*\w+\s*)?\)\s*"""
)
"""The arguments of a vocabulary: the name of its full-text table alone, or with a kind."""
_CONTENT = re.compile(
    r"""[(,]\s*content\s*=\s*(?:"([^"]*)"|'([^']*)'|\[([^\]]*)\]|`([^`]*)`|(\w+))\s*[,)]""",
    re.IGNORECASE,
)
"""The table whose text a full-text table shows."""
_CONTENT_KEY = re.compile(_CONTENT.pattern.replace("content", "content_rowid"), re.IGNORECASE)
_LITERALS = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\[[^\]]*\]",
    re.DOTALL,
)


class SchemaEntry(NamedTuple):
    """A table, view or virtual table."""

    name: str
    type: TableType
    module: str | None = None
    """The module of a virtual table, in lower case."""
    source: str | None = None
    """The table whose text a vocabulary or a full-text table shows, as written; "" if its name
    cannot be read, None if it shows its own or none."""


class SqliteSchema(NamedTuple):
    """All names in a schema."""

    entries: Mapping[str, SchemaEntry]
    """Tables and views by name, in order, without shadow tables."""
    shadows: Mapping[str, str]
    """Shadow tables, with the virtual table that each belongs to."""


def read_schema(connection: sqlite3.Connection) -> SqliteSchema:
    """Read the names in a schema, except those that are not UTF-8: no statement can hold them."""
    rows: list[tuple[str, str, str | None]] = connection.execute(_NAMES).fetchall()
    names = {row[0] for row in rows}
    found = [_entry(*row, names) for row in rows if is_unicode(row[0])]
    entries = {entry.name: entry for entry in found}
    shadows = {
        name: entry.name
        for entry in found
        for name in _shadows(entry, entries)
        if entries[name].type == "table"
    }
    return SqliteSchema({name: entries[name] for name in entries if name not in shadows}, shadows)


def computed_tables(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the tables that may have generated columns, whose expressions any read may run."""
    found: list[tuple[str, str]] = connection.execute(_MAYBE_COMPUTED).fetchall()
    return frozenset([name for name, sql in found if _AS.search(sql)])


def table_options(sql: str) -> frozenset[str]:
    """Return the table options of a CREATE TABLE: `STRICT`, `WITHOUT ROWID`."""
    _, _, tail = _LITERALS.sub(" ", sql).rpartition(")")
    return frozenset(" ".join(option.split()).upper() for option in tail.split(",")) - {""}


def content_key(sql: str) -> str:
    """Return the column by which a full-text table numbers the rows of the table of its text."""
    found = _CONTENT_KEY.search(sql)
    return next(filter(None, found.groups()), "rowid") if found else "rowid"


def _entry(name: str, type: str, sql: str | None, names: Collection[str]) -> SchemaEntry:
    if type == "view":
        return SchemaEntry(name, "view")
    if sql is None:
        return SchemaEntry(name, "table")
    # Search behind the table's own name, which may contain USING.
    found = _MODULE.search(sql, sql.find(name) + len(name) if name in sql else 0)
    module = next(filter(None, found.groups()), "").lower() if found else ""
    source: str | None = None
    if found and module in VOCABULARIES:
        arguments = _SOURCE.fullmatch(sql, found.end())
        source = next(filter(None, arguments.groups())) if arguments else ""
    elif found and module in FULL_TEXT:
        content = _CONTENT.search(sql, found.end())
        if content is not None:
            source = next(filter(None, content.groups()), None)
        elif f"{name}_content" not in names:
            source = ""
    return SchemaEntry(name, "virtual table", module, source)


def _shadows(entry: SchemaEntry, known: Mapping[str, SchemaEntry]) -> Iterable[str]:
    suffixes: Sequence[str] = _SHADOWS.get(entry.module or "", ())
    names = [f"{entry.name}_{suffix}" for suffix in suffixes]
    return [name for name in names if name in known]
