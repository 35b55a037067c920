"""Columns of texts, and the types that spell every one of their values as it is.

`00123`, `+4912`, `1_000` and `t` stay text, since numbers and booleans are spelt otherwise. `1.10`
is a decimal in a column with two digits after every point, else text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, Final, NamedTuple

import duckdb
import msgspec

from resource_server.conversion.formats import encodings, row_tables
from resource_server.providers.database.engines.duckdb.messages import ROW
from resource_server.providers.database.engines.reflection import quoted

STAGE: Final = '"~stage"'
"""Attached, compressing database of the texts while tables are made of them."""
_ROW_END: Final = "\x1e"
_CELL_END: Final = "\x1f"
_EMPTY: Final = "\x1d"
"""Begins an empty text, where nothing stands for NULL; and one that begins so itself."""
_MAX_ROWS: Final = 20_000
_MAX_CELLS: Final = 200_000
"""Rows and cells of one statement."""
_SAMPLE_ROWS: Final = 200
_COLUMNS_AT_ONCE: Final = 100
_UNFIT: Final = "\ufffd"

_SPELT: Final = "CAST(TRY_CAST({0} AS {1}) AS VARCHAR) = {0}"
_FITS: Final = "TRY_CAST({0} AS {1}) IS NOT NULL"
_NUMBER: Final = (
    "({0} <> '-0' AND isfinite(TRY_CAST({0} AS DOUBLE))"
    " AND CAST(TRY_CAST({0} AS DOUBLE) AS VARCHAR) IN ({0}, {0} || '.0'))"
)
_BY_SPELLING: Final[Mapping[str, tuple[str, re.Pattern[str]]]] = {
    "BIGINT": (_SPELT, re.compile(r"-?[0-9]{1,19}")),
    "DOUBLE": (_NUMBER, re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?")),
    "BOOLEAN": (_SPELT, re.compile(r"true|false")),
    "DATE": (f"(length({{0}}) = 10 AND {_SPELT})", re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
    "TIMESTAMP": (
        "(length({0}) >= 19"
        " AND CAST(TRY_CAST({0} AS TIMESTAMP) AS VARCHAR) = replace({0}, 'T', ' '))",
        re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]{8,}"),
    ),
    "TIME": (f"({{0}} < '24' AND {_SPELT})", re.compile(r"[0-9]{2}:[0-9:.]+")),
}
"""For each type, whether it spells a text as it is; and the form of such texts."""
_DECIMAL: Final = re.compile(r"-?[0-9]{1,18}\.([0-9]{1,18})")
_BY_KIND: Final[Mapping[frozenset[str], Mapping[str, str]]] = {
    frozenset(("number",)): {"BIGINT": _SPELT, "HUGEINT": _SPELT, "DOUBLE": _NUMBER},
    frozenset(("boolean",)): {"BOOLEAN": _FITS},
    frozenset(("date",)): {"DATE": _FITS},
    frozenset(("datetime",)): {"TIMESTAMP": _FITS},
    frozenset(("date", "datetime")): {"TIMESTAMP": _FITS},
    frozenset(("time",)): {"TIME": _FITS},
    frozenset(("nested",)): {"JSON": _FITS},
}
"""The same for values that have a type where they come from; others together are text."""
_KINDS: Final[Mapping[type, str]] = {
    **{bool: "boolean", int: "number", float: "number", list: "nested", dict: "nested"},
    **{date: "date", datetime: "datetime", time: "time"},
}


class TextColumn(NamedTuple):
    """A column of texts, and what its types may be."""

    name: str
    checks: Mapping[str, str]
    """The condition that a value is of a type, by candidates, the narrowest first."""


class TextRows(msgspec.Struct, frozen=True):
    """Rows of texts that DuckDB reads."""

    select: str
    columns: Sequence[TextColumn]
    rows: int
    """Number of rows, as their reader counts them."""
    notes: Sequence[str] = ()
    """What is unusual about them, for the operator."""
    is_loaded: bool = True


def sql_literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def stage_rows(
    database: duckdb.DuckDBPyConnection,
    table: str,
    names: Sequence[str],
    rows: Iterator[list[str]],
) -> TextRows:
    """Stage rows of texts, such as those of CSV; an empty text is NULL.

    `names` are those of the first columns.
    """
    stage = _Stage(database, table)
    samples: list[list[str]] = []
    for chunk in _chunks(rows, len(names)):
        samples = samples or chunk[:_SAMPLE_ROWS]
        stage.add(chunk)
    width = max(stage.width, len(names))
    return stage.texts(spelt_columns(row_tables.column_names(names, width, (ROW,)), samples))


def spelt_columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[TextColumn]:
    """Return columns with the types that they may have, by the form of their first texts."""
    sample = rows[:_SAMPLE_ROWS]
    return [
        TextColumn(name, _spelt_types([row[at] for row in sample if at < len(row)]))
        for at, name in enumerate(names)
    ]


def _spelt_types(cells: Iterable[str]) -> Mapping[str, str]:
    filled = [cell for cell in cells if cell]
    found = {
        type: check
        for type, (check, form) in _BY_SPELLING.items()
        if all(map(form.fullmatch, filled))
    }
    scales = {None if (fit := _DECIMAL.fullmatch(cell)) is None else len(fit[1]) for cell in filled}
    if len(scales) == 1 and (scale := scales.pop()) is not None:
        found[f"DECIMAL(38,{scale})"] = _SPELT
    return found


def stage_values(
    database: duckdb.DuckDBPyConnection,
    table: str,
    rows: Iterator[Sequence[Any]],
    names: Callable[[int], Sequence[str]],
    *,
    null: object = None,
) -> TextRows:
    """Stage rows of values that have types, such as those of JSON and sheets.

    Args:
        database: the connection, with `STAGE` attached.
        table: the name of the table in it.
        rows: the rows, each with a value for every column found so far.
        names: returns the names of a number of columns.
        null: the value that is NULL, besides None.
    """
    stage = _Stage(database, table)
    kinds: list[set[str]] = []
    for chunk in _chunks(rows, 1):
        columns: list[tuple[Any, ...]] = list(itertools.zip_longest(*chunk))
        columns = columns or [(None,) * len(chunk)]  # such as objects without names
        kinds += [set[str]() for _ in range(len(kinds), len(columns))]
        for at, column in enumerate(columns):
            kinds[at] |= {_KINDS.get(each, "text") for each in _types(column, null)}
        texts = [[spelt_text(value, null) for value in column] for column in columns]
        stage.add([list(row) for row in zip(*texts, strict=True)], has_empty=null is None)
    named = names(len(kinds))
    kinds += [set[str]() for _ in named[len(kinds) :]]  # no row has a value below these names
    found = [
        TextColumn(name, _BY_KIND.get(frozenset(kind), {}))
        for name, kind in zip(named, kinds, strict=True)
    ]
    return stage.texts(found)


def _chunks(rows: Iterator[Sequence[Any]], width: int) -> Iterator[list[Any]]:
    size = 1000
    while chunk := list(itertools.islice(rows, size)):
        width = max(width, len(chunk[-1]))
        size = max(1, min(_MAX_ROWS, _MAX_CELLS // max(width, 1)))
        yield chunk


def _types(column: Sequence[Any], null: object) -> set[type]:
    """Return the types of the values of a column that are not NULL."""
    found = set(map(type, column)) - {type(None)}
    is_null = null is not None and str in found
    if is_null and all(each == null for each in column if isinstance(each, str)):
        found.discard(str)
    return found


def spelt_text(value: Any, null: object) -> str:
    """Return the text of a value as its type spells it; nothing for NULL."""
    match value:
        case str():
            return "" if value == null else _EMPTY + value if value[:1] in ("", _EMPTY) else value
        case None:
            return ""
        case _:
            return row_tables.value_text(value)


class _Stage:
    """A table of texts in `STAGE`, which gets wider as longer rows come."""

    def __init__(self, database: duckdb.DuckDBPyConnection, table: str) -> None:
        self._database = database
        self._table = f"{STAGE}.main.{quoted(table)}"
        self._name = table
        self.width = 0
        self.rows = 0
        self._unread: int | None = None
        """Number of the first row with a character that could not be read."""

    def add(self, rows: list[list[str]], *, has_empty: bool = False) -> None:
        """Add rows; with `has_empty`, empty texts begin with `_EMPTY`."""
        self._widen(max(map(len, rows)))
        if any(len(row) != self.width for row in rows):
            rows = [[*row, *[""] * (self.width - len(row))] for row in rows]
        text = _ROW_END.join(map(_CELL_END.join, rows))
        if self._unread is None and _UNFIT in text:
            self._unread = self.rows + text[: text.index(_UNFIT)].count(_ROW_END) + 1
        self.rows += len(rows)
        places = range(1, self.width + 1)
        ends = text.count(_ROW_END), text.count(_CELL_END)
        if ends == (len(rows) - 1, len(rows) * (self.width - 1)):
            cell = "nullif(s[{0}], '')"
            if has_empty:
                cell = f"if(starts_with(s[{{0}}], chr(29)), substr(s[{{0}}], 2), {cell})"
            cells = ", ".join(map(cell.format, places))
            split = "SELECT string_split(unnest(string_split(?, chr(30))), chr(31)) AS s"
            insert = f"INSERT INTO {self._table} SELECT {cells} FROM ({split})"  # noqa: S608
            self._database.execute(insert, [encodings.sendable(text)])
            return
        values = [
            [None if cell == "" else encodings.sendable(cell) for cell in column]
            for column in zip(*rows, strict=True)
        ]
        if has_empty:
            values = [[cell and cell.removeprefix(_EMPTY) for cell in each] for each in values]
        listed = ", ".join("unnest(?)" for _ in places)
        self._database.execute(f"INSERT INTO {self._table} SELECT {listed}", values)

    def _widen(self, width: int) -> None:
        if not self.width and width:
            columns = ", ".join(f"c{at} VARCHAR" for at in range(width))
            self._database.execute(f"CREATE TABLE {self._table} ({columns})")
        elif width > self.width:
            for at in range(self.width, width):
                self._database.execute(f"ALTER TABLE {self._table} ADD COLUMN c{at} VARCHAR")
        self.width = max(self.width, width)

    def texts(self, columns: Sequence[TextColumn]) -> TextRows:
        """Return what was added, whose columns have these names and may have these types."""
        self._widen(len(columns))
        renamed = ", ".join(f"c{at} AS {quoted(each.name)}" for at, each in enumerate(columns))
        notes = () if self._unread is None else (f"row {self._unread}: a character is unreadable",)
        return TextRows(f"SELECT {renamed} FROM {self._table}", columns, self.rows, notes)  # noqa: S608


def united(parts: Sequence[TextRows]) -> TextRows:
    """Return the rows of several tables, whose columns go by name."""
    if not parts[1:]:
        return parts[0]
    checks: dict[bytes, TextColumn] = {}
    for column in itertools.chain.from_iterable(part.columns for part in parts):
        key = column.name.encode("utf-8", "surrogatepass").lower()
        known = checks.get(key, column)
        common = {type: check for type, check in known.checks.items() if type in column.checks}
        checks[key] = TextColumn(known.name, common)
    return TextRows(
        " UNION ALL BY NAME ".join(part.select for part in parts),
        list(checks.values()),
        sum(part.rows for part in parts),
        is_loaded=all(part.is_loaded for part in parts),
    )


def typed(database: duckdb.DuckDBPyConnection, texts: TextRows) -> str:
    """Return the expressions of the columns, each of the type that fits all of its texts."""
    found = [quoted(column.name) for column in texts.columns]
    left = {at: iter(column.checks.items()) for at, column in enumerate(texts.columns)}
    while left:
        tried = {at: check for at, checks in left.items() if (check := next(checks, None))}
        left = {at: checks for at, checks in left.items() if at in tried}
        for begin in range(0, len(tried), _COLUMNS_AT_ONCE):
            chosen = list(tried.items())[begin : begin + _COLUMNS_AT_ONCE]
            for at, type in _fitting(database, texts, chosen):
                del left[at]
                if type is not None:
                    name = quoted(texts.columns[at].name)
                    found[at] = f"CAST({name} AS {type}) AS {name}"
    return ", ".join(found)


def _fitting(
    database: duckdb.DuckDBPyConnection,
    texts: TextRows,
    tried: Sequence[tuple[int, tuple[str, str]]],
) -> Iterator[tuple[int, str | None]]:
    """Yield the columns whose texts are all of the type that is tried, or that have none."""
    names = [quoted(texts.columns[at].name) for at, _ in tried]
    counts = ", ".join(
        f"count({name}), count(*) FILTER (WHERE {check.format(name, type)})"
        for name, (_, (type, check)) in zip(names, tried, strict=True)
    )
    counted = f"SELECT {counts} FROM ({texts.select})"  # noqa: S608
    row: Iterator[int] = iter(database.execute(counted).fetchall()[0])
    for at, (type, _) in tried:
        held, fitting = next(row), next(row)
        if held == fitting:
            yield at, type if held else None
