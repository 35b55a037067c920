"""Reflection of MariaDB and MySQL tables: `information_schema` queries and their results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from resource_server.providers.database.engines.mysql.key_types import key_type
from resource_server.providers.database.engines.reflection import (
    Column,
    ColumnKind,
    ForeignKey,
    FoundKey,
    Index,
    Key,
    Table,
    TableInfo,
    TableName,
    TableType,
    WordIndex,
    best_first,
    quoted,
)

_KINDS: dict[str, ColumnKind] = {
    "tinyint": "integer",
    "smallint": "integer",
    "mediumint": "integer",
    "int": "integer",
    "bigint": "integer",
    "year": "integer",
    "bit": "integer",
    "float": "real",
    "double": "real",
    "decimal": "numeric",
    "char": "text",
    "varchar": "text",
    "tinytext": "text",
    "text": "text",
    "mediumtext": "text",
    "longtext": "text",
    "enum": "text",
    "set": "text",
    "binary": "blob",
    "varbinary": "blob",
    "tinyblob": "blob",
    "blob": "blob",
    "mediumblob": "blob",
    "longblob": "blob",
    "date": "date",
    "time": "time",
    "datetime": "datetime",
    "timestamp": "datetime",
    "uuid": "uuid",
    "json": "json",
}
"""By `data_type`. BOOLEAN is stored as `tinyint(1)`."""

TABLES = """
SELECT table_name, table_type, table_comment FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'VIEW')"""

TABLE_NAMED = TABLES + " AND table_name = %s AND BINARY table_name = %s"

TABLE = """
SELECT table_type, table_comment, engine, EXISTS (
    SELECT 1 FROM information_schema.column_privileges p WHERE p.table_schema = DATABASE()
    AND p.table_name = t.table_name AND p.privilege_type = 'SELECT')
FROM information_schema.tables t
WHERE table_schema = DATABASE() AND table_name = %s AND BINARY table_name = %s
AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'VIEW')"""

COLUMNS = """
SELECT column_name, column_type, data_type, is_nullable, column_default, extra, column_comment,
    character_octet_length, collation_name
FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = %s
ORDER BY ordinal_position"""

INDEXES = """
SELECT index_name, column_name, non_unique, sub_part, index_type FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name = %s
ORDER BY index_name, seq_in_index"""

FOREIGN_KEYS = """
SELECT constraint_name, column_name, referenced_table_schema = DATABASE(),
    referenced_table_name, referenced_column_name
FROM information_schema.key_column_usage
WHERE table_schema = DATABASE() AND table_name = %s AND referenced_table_name IS NOT NULL
ORDER BY constraint_name, ordinal_position"""

VIEW = """
SELECT view_definition FROM information_schema.views
WHERE table_schema = DATABASE() AND table_name = %s"""

VIEW_DEFINITIONS = """
SELECT table_name, view_definition, table_schema FROM information_schema.views
WHERE table_schema = DATABASE()"""

ESTIMATE = """
SELECT table_rows FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = %s AND table_type <> 'VIEW'"""

_STATE_COLUMNS = {
    "tables": "table_name, table_type, table_comment",
    "columns": "table_name, column_name, ordinal_position, column_type, is_nullable,"
    " IFNULL(column_default, '\\n'), column_key, extra, column_comment,"
    " IFNULL(collation_name, ''), generation_expression",
    "views": "table_name, view_definition",
    "statistics": "table_name, index_name, seq_in_index, column_name, non_unique,"
    " IFNULL(sub_part, ''), index_comment",
    "key_column_usage": "table_name, constraint_name, column_name, ordinal_position,"
    " IFNULL(referenced_table_name, ''), IFNULL(referenced_column_name, '')",
    "check_constraints": "constraint_name, check_clause",
}
"""The columns of each view that describe the schema."""

HAS_CHECKS = """
SELECT 1 FROM information_schema.tables
WHERE table_schema = 'information_schema' AND table_name = 'CHECK_CONSTRAINTS'"""


def schema_state_query(*, checks: bool) -> str:
    """Return the query for a checksum of the schema.

    Args:
        checks: whether there is a view of CHECK constraints; MySQL before 8.0.16 has none.
    """
    return " UNION ALL ".join(
        f"""
SELECT '{view}', COUNT(*), SUM(CAST(CONV(LEFT(MD5(CONCAT_WS('\\n', {columns})), 15), 16, 10)
    AS UNSIGNED))
FROM information_schema.{view}
WHERE {"constraint" if view == "check_constraints" else "table"}_schema = DATABASE()"""  # noqa: S608
        for view, columns in _STATE_COLUMNS.items()
        if checks or view != "check_constraints"
    )


GRANTS = "SHOW GRANTS"

OTHER_DATABASES = """
SELECT schema_name FROM information_schema.schemata
WHERE schema_name NOT IN ('information_schema', 'performance_schema', DATABASE())
ORDER BY schema_name"""

NO_VIEWS = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_type <> 'VIEW' ORDER BY table_name"""

HAS_VIEW = """
SELECT 1 FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = %s AND table_type = 'VIEW'"""

VIEW_COLUMNS = """
SELECT c.table_name, c.column_name FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = DATABASE() AND t.table_type = 'VIEW'
ORDER BY c.table_name, c.ordinal_position"""

_DEFINING = """'Com_create_table', 'Com_alter_table', 'Com_drop_table', 'Com_rename_table',
    'Com_create_view', 'Com_drop_view', 'Com_create_index', 'Com_drop_index'"""

DEFINITIONS = f"""
SHOW GLOBAL STATUS WHERE Variable_name IN ({_DEFINING})"""
"""How many statements have begun that define tables and views."""

COUNTERS = f"""
SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_write', 'Handler_update', 'Handler_delete',
    'Com_commit', 'Com_xa_commit', 'Com_truncate', 'Com_load', {_DEFINING}, 'Innodb_lsn_current',
    'Innodb_redo_log_current_lsn', 'Innodb_os_log_written', 'Handler_commit')"""
"""What moves with writes and commits. When a definition ends that has waited for a lock, only the
log of InnoDB moves."""

_UNIQUE_ENGINES = frozenset(
    ("innodb", "myisam", "aria", "memory", "archive", "rocksdb", "tokudb", "ndbcluster")
)
"""Storage engines that keep unique indexes for a whole table; MERGE and SPIDER do not."""
_WIDE = re.compile("ucs2|utf16|utf32")
"""Collations in which an index of Aria on a CHAR column does not find shorter values."""
MAX_SORT_BYTES = 4096
"""Bytes of a value that count in an order without an index."""
_ENUMERATED = re.compile(r"(?:enum|set)\((.*)\)", re.DOTALL)
_QUOTED = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPE = re.compile(r"''|\\(.)", re.DOTALL)
_ESCAPED = {"0": "\0", "n": "\n", "r": "\r"}
"""Characters that the catalog writes with a backslash; `\\` and others stand for themselves."""
_GENERATED = re.compile(r"\b(?:VIRTUAL|STORED|PERSISTENT)\b")
_GRANT = re.compile(r"GRANT (.+?) ON (?:(?:TABLE|FUNCTION|PROCEDURE) )?(\S+) TO ", re.DOTALL)
_COLUMN_LIST = re.compile(r" \([^)]*\)")
_COUNTER = re.compile(r"^(\) .*?) AUTO_INCREMENT=\d+", re.MULTILINE)
"""A part of SHOW CREATE TABLE that changes with the rows."""
_JSON_COLUMN = re.compile(r"^ +`((?:[^`]|``)+)` .* CHECK \(json_valid\(`\1`\)\),?$", re.MULTILINE)
_READING = frozenset(("SELECT", "USAGE", "SHOW VIEW", "SHOW DATABASES", "EXECUTE", "PROCESS"))


def show_create_table(name: str) -> str:
    """Return the query for a table's CREATE statement."""
    return f"SHOW CREATE TABLE {quoted(name, 'mysql').replace('%', '%%')}"


def mysql_table_info(row: Sequence[Any]) -> TableInfo:
    """Return the table that a row of `TABLES` describes."""
    name, type_, comment = row
    return TableInfo(TableName(None, name), _type(type_), _comment(type_, comment))


def mysql_table(
    name: TableName,
    row: Sequence[Any],
    *,
    columns: Sequence[Sequence[Any]],
    indexes: Sequence[Sequence[Any]],
    foreign_keys: Iterable[Sequence[Any]],
    view_definition: str | None,
    create_statement: str | None,
) -> Table:
    """Build a table from the rows of the queries above."""
    # MariaDB marks a JSON column by a CHECK constraint, which `information_schema` shows only to
    # logins that may read every table.
    json = {found.replace("``", "`") for found in _JSON_COLUMN.findall(create_statement or "")}
    all_columns = tuple(_column(one, json) for one in columns)
    lengths = {one[0]: one[7] or 0 for one in columns}
    short = {name for name, length in lengths.items() if int(length) <= MAX_SORT_BYTES}
    all_indexes, whole = _indexes(indexes, short)
    words: dict[str, list[str]] = {}
    for index, column, *_, type_ in indexes:
        if type_ == "FULLTEXT":
            words.setdefault(index, []).append(column)
    engine = str(row[2]).lower()
    unique = all_indexes if engine in _UNIQUE_ENGINES else ()
    if engine == "aria":
        lost = {one[0] for one in columns if one[2] == "char" and _WIDE.match(str(one[8]))}
        unique = tuple(index for index in unique if lost.isdisjoint(index.columns))
    return Table(
        name,
        _type(row[0]),
        all_columns,
        foreign_keys=_foreign_keys(foreign_keys),
        indexes=all_indexes,
        words=tuple(WordIndex(tuple(names)) for names in words.values()),
        comment=_comment(row[0], row[1]),
        ddl=view_definition or _COUNTER.sub(r"\1", create_statement or "") or None,
        unread=None if row[3] else (),
    ).with_key(_keys(unique, whole, all_columns))


def _type(text: str) -> TableType:
    return "view" if text == "VIEW" else "table"


def _comment(type_: str, text: str | None) -> str | None:
    # A view's comment is the word VIEW, or why the view is broken.
    return None if type_ == "VIEW" else text or None


def _column(row: Sequence[Any], json: set[str]) -> Column:
    name, type_, data_type, nullable, default, extra, comment, _, collation = row
    generated = _GENERATED.search(extra.upper()) is not None
    kind: ColumnKind = _KINDS.get(data_type, "other")
    if type_.startswith("tinyint(1)"):
        kind = "boolean"
    elif name in json:
        kind = "json"
    match = _ENUMERATED.match(type_)
    values = tuple(map(_unescaped, _QUOTED.findall(match[1]))) if match else ()
    if generated or default == "NULL":
        default = None
    if "auto_increment" in extra.lower():
        default = "auto_increment"
    return Column(
        name,
        "json" if name in json else type_,
        kind,
        nullable == "YES",
        default,
        generated,
        comment or None,
        values,
        key_type(data_type, type_, values, collation=collation or "", is_json=name in json),
    )


def _unescaped(text: str) -> str:
    """Return a value of an enumeration as stored."""
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]) if found[1] else "'", text)


def _indexes(rows: Iterable[Sequence[Any]], short: set[str]) -> tuple[tuple[Index, ...], set[str]]:
    """Return the indexes, and the names of those that make whole values unique and ordered.

    A hash index orders nothing, and sorting without an index compares only the beginning of a
    value; so all its columns must be `short`.
    """
    names: dict[str, list[str | None]] = {}
    unique: dict[str, bool] = {}
    prefixes: set[str] = set()
    for name, column, non_unique, prefix, type_ in rows:
        names.setdefault(name, []).append(column)
        unique[name] = not int(non_unique)
        if prefix is not None or (type_ != "BTREE" and column not in short):
            prefixes.add(name)
    found = tuple(Index(name, tuple(columns), unique[name]) for name, columns in names.items())
    return found, set(names) - prefixes


def _keys(indexes: Iterable[Index], whole: set[str], columns: Iterable[Column]) -> list[Key]:
    """Return the primary key, then unique ones, shortest first, of columns without NULL."""
    usable = {column.name for column in columns if not column.nullable and column.is_address}
    found: list[FoundKey] = []
    for index in indexes:
        names = tuple(name for name in index.columns if name is not None)
        complete = index.name in whole and len(names) == len(index.columns)
        if index.unique and complete and usable.issuperset(names):
            found.append(FoundKey(index.name == "PRIMARY", index.name, names))
    return best_first(found)


def _foreign_keys(rows: Iterable[Sequence[Any]]) -> tuple[ForeignKey, ...]:
    """Return the foreign keys to tables of this database; other tables have no address."""
    found: dict[str, tuple[str, list[str], list[str]]] = {}
    for name, column, here, referred_table, referred in rows:
        if not here:
            continue
        _, columns, others = found.setdefault(name, (referred_table, [], []))
        columns.append(column)
        others.append(referred)
    return tuple(
        ForeignKey(tuple(columns), TableName(None, referred), tuple(others))
        for referred, columns, others in found.values()
    )


def mysql_privileges(grants: Iterable[str], database: str) -> list[str]:
    """Return the privileges beyond reading among a login's grants, as `INSERT on shop.*`."""
    found: dict[str, None] = {}
    for grant in grants:
        match = _GRANT.match(grant)
        if match is None:
            continue
        where = match[2].replace("`", "").replace("\\_", "_")
        if where.split(".")[0] not in {"*", database}:
            continue
        for privilege in _COLUMN_LIST.sub("", match[1]).split(", "):
            if privilege not in _READING:
                found[privilege if where == "*.*" else f"{privilege} on {where}"] = None
        if "WITH GRANT OPTION" in grant:
            found["GRANT OPTION" if where == "*.*" else f"GRANT OPTION on {where}"] = None
    return list(found)


def beyond_views(grants: Iterable[str], database: str) -> str | None:
    """Return the first grant of a login that is none to read a table of this database."""
    for grant in grants:
        match = _GRANT.match(grant)
        if match is None:
            return "a role" if "ROLE" in grant or " ON " not in grant else "a proxy of another user"
        right, where = match[1], match[2].replace("`", "").replace("\\_", "_")
        is_read = right == "SELECT" and where.startswith(f"{database}.") and where[-2:] != ".*"
        if "WITH GRANT OPTION" in grant or not (is_read or (right, where) == ("USAGE", "*.*")):
            return f"{right} on {where}"
    return None
