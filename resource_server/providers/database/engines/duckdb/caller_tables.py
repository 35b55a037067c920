"""Tables of the SQL of callers: what a policy shows, copied, so that nothing else is there.

A view would be no barrier: DuckDB lets conditions of a caller, and statistics of hidden rows, pass
through it. Copies of the same visible rows are the same, whatever is hidden: in one order, and made
by one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import duckdb

from resource_server.providers.database.engines.duckdb import catalog, messages, value_readers
from resource_server.providers.database.engines.duckdb.messages import (
    NUMBERED,
    ROW,
    VISIBLE_BYTES,
    CallerTable,
    CallerTables,
)
from resource_server.providers.database.engines.reflection import quoted
from resource_server.providers.database.masks import Masker

SEARCH_PATH: Final = "SET search_path = 'memory.main'"
_STAGE: Final = "~stage"
_CHUNK_ROWS: Final = 4096
_PLAIN: Final = frozenset(
    """
    TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT BOOLEAN
    DECIMAL DATE TIME TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS UUID BLOB ENUM
    """.split()
)
"""Types whose values are equal if they compare as equal."""
_FAILURES: Final = (
    duckdb.OutOfMemoryException,
    duckdb.FatalException,
    duckdb.IOException,
    duckdb.InternalException,
)
"""Failures that are not of one table."""


class TooLarge(Exception):
    """What is visible does not fit into memory."""


def create(
    database: duckdb.DuckDBPyConnection, source: str, visible: CallerTables, *, is_database: bool
) -> bool:
    """Create the tables in `memory.main`, and close their source unless it is wholly visible.

    A table that cannot be read, such as a broken view, is left out.

    Args:
        database: a connection whose search path finds what conditions of the manifest name.
        source: the attached database that has the tables.
        visible: what callers may read.
        is_database: whether that is a database file; else data files.

    Returns:
        Whether they are copies; else views, and the source stays attached.

    Raises:
        TooLarge: the copies do not fit into memory.
        duckdb.Error: the source cannot be read.
    """
    types = _types(database, is_database=is_database)
    whole = {(each.schema, each.table) for each in visible.tables if each.columns is None}
    is_whole = whole.issuperset(types)
    for relation in visible.tables:
        selected = _select(source, relation, is_database=is_database)
        # Updates of hidden rows may move others; the lines of data files never move.
        is_table = types.get((relation.schema, relation.table)) == "table"
        is_ordered = is_database and not (is_table and relation.columns is None)
        try:
            if is_whole:
                database.execute(f"CREATE VIEW {_target(relation)} AS {selected}")
            else:
                _copy(database, selected, relation, visible.key, is_ordered=is_ordered)
        except duckdb.OutOfMemoryException:
            raise TooLarge from None
        except _FAILURES:
            raise
        except duckdb.Error:
            continue
    if not is_whole:
        database.execute(SEARCH_PATH)
        database.execute(f"DETACH {quoted(source)}")
        used = "SELECT sum(memory_usage_bytes) FROM duckdb_memory()"
        ((bytes_used,),) = database.execute(used).fetchall()
        if bytes_used > VISIBLE_BYTES:
            raise TooLarge
    return not is_whole


def _types(
    database: duckdb.DuckDBPyConnection, *, is_database: bool
) -> Mapping[tuple[str, str], str]:
    """Return the types of all tables and views, by schema and name."""
    listed = f"SELECT schema_name, name, type FROM {catalog.RELATIONS}"  # noqa: S608
    return {
        (schema, name): type
        for schema, name, type in database.execute(listed).fetchall()
        if is_database or schema != NUMBERED
    }


def _target(relation: CallerTable) -> str:
    return f"memory.main.{quoted(relation.name)}"


def _select(source: str, relation: CallerTable, *, is_database: bool) -> str:
    """Return a SELECT of the visible rows and columns, without masks."""
    columns = "*" if is_database else f"* EXCLUDE ({quoted(ROW)})"
    if relation.columns is not None:
        columns = ", ".join(map(quoted, relation.columns)) or "1 AS nothing"
    # Conditions on data files may name the number of a row.
    schema = relation.schema if is_database else NUMBERED
    table = f"{quoted(source)}.{quoted(schema)}.{quoted(relation.table)}"
    where = "" if relation.where is None else f" WHERE ({relation.where}\n)"
    return f"SELECT {columns} FROM {table}{where}"  # noqa: S608 - quoted


def _copy(
    database: duckdb.DuckDBPyConnection,
    selected: str,
    relation: CallerTable,
    key: bytes,
    *,
    is_ordered: bool,
) -> None:
    """Create the table of a relation, from the SELECT of its rows without masks."""
    described = database.execute(f"DESCRIBE {selected}").fetchall()
    types = {str(row[0]): str(row[1]) for row in described}
    maskers = {column: Masker(kind, key) for column, kind in relation.masks}
    if maskers:
        database.execute(f"ATTACH ':memory:' AS {quoted(_STAGE)}")
    try:
        if maskers:
            selected = _staged(database, selected, types, maskers)
        order = ""
        if is_ordered:
            shown = {name: "VARCHAR" if name in maskers else types[name] for name in types}
            order = f" ORDER BY {', '.join(_order(shown))}"
        sql = f"CREATE TABLE {_target(relation)} AS SELECT * FROM ({selected}){order}"  # noqa: S608
        database.execute(sql)
    finally:
        if maskers:
            database.execute(f"DETACH {quoted(_STAGE)}")


def _order(types: dict[str, str]) -> Iterator[str]:
    """Yield expressions by which only the same rows are equal."""
    for name, type in types.items():
        column = quoted(name)
        if type.partition("(")[0] in _PLAIN and not type.endswith("]"):
            yield column
        elif type == "VARCHAR":  # its collation may take texts for the same
            yield f"encode({column})"
        else:
            yield f"CAST({column} AS VARCHAR)"
            yield f"hash({column})"  # of a UNION, whose members may have the same text


def _staged(
    database: duckdb.DuckDBPyConnection,
    selected: str,
    types: dict[str, str],
    maskers: dict[str, Masker],
) -> str:
    """Mask values as in other answers, by the same code; return a SELECT of the masked rows."""
    stage = f"{quoted(_STAGE)}.main"
    database.execute(f"CREATE TABLE {stage}.shown AS {selected}")
    readers = [value_readers.reader(types[name]) for name in maskers]
    read = ", ".join(
        quoted(name) if reader is None else reader.select(quoted(name))
        for name, reader in zip(maskers, readers, strict=True)
    )
    places = range(len(maskers))
    columns = ", ".join(f"m{place} VARCHAR" for place in places)
    database.execute(f"CREATE TABLE {stage}.masked ({columns})")
    inserting = database.cursor()
    rows = database.execute(f"SELECT {read} FROM {stage}.shown")  # noqa: S608
    while chunk := rows.fetchmany(_CHUNK_ROWS):
        masked = [
            [_masked(row[place], reader, masker) for row in chunk]
            for place, reader, masker in zip(places, readers, maskers.values(), strict=True)
        ]
        listed = ", ".join(["unnest(?)"] * len(masked))
        inserting.execute(f"INSERT INTO {stage}.masked SELECT {listed}", masked)
    inserting.close()
    names = list(maskers)
    shown = ", ".join(
        f"m{names.index(name)} AS {quoted(name)}" if name in maskers else f"shown.{quoted(name)}"
        for name in types
    )
    return f"SELECT {shown} FROM {stage}.shown POSITIONAL JOIN {stage}.masked"  # noqa: S608


def _masked(value: object, reader: value_readers.ValueReader | None, masker: Masker) -> str | None:
    if reader is not None and isinstance(value, str):
        value = reader.read(value)
    return masker(messages.travelled(value))
