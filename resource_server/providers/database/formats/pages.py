"""Pages of rows as JSON, CSV or Markdown, each within a limit of bytes.

* `json`: `{"rows": [{"id": 1, …}, …], "next": "<URI>", "more": true}`
* `columns`: `{"columns": ["id", …], "rows": [[1, …], …], "next": …, "more": …}`
* `csv`: RFC 4180 with a header. NULL and empty text are both empty fields (`""` in a single
  column, so that no line is empty). Blobs are base64, at most the first KiB. Truncated values
  begin with `[70000 characters: URI]` or `[4096 bytes: URI]`. Arrays, composites and JSON are JSON.
  Text that a spreadsheet would evaluate (`=1+1`, `@x`) is not altered, since that would falsify the
  data for every other reader of CSV; import it as text there.
* `markdown`: a table for people and models. NULL is `*NULL*`, a blob `*blob, 4096 bytes*`. Blobs
  and truncated texts link to the whole value.

Values have the forms of `formats.values`. `next` is the URI of the next page, null on the last.
`more` says whether rows follow; if `next` is null and `more` is true, paging cannot reach them.
A page that was reached backwards has `previous` if rows come before it, and takes some to follow.
Columns of the same name are numbered: `id`, `id_2`.
"""

from __future__ import annotations

import datetime
import functools
import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast

import msgspec
from msgspec import Raw, UnsetType

from resource_server import uris
from resource_server.provider import Format
from resource_server.providers.database.engines.reflection import Column
from resource_server.providers.database.formats.values import (
    NATIVE_TYPES,
    Blob,
    JsonText,
    RowValues,
    TruncatedText,
    exact,
    is_truncated,
    json_value,
    with_uri,
)
from resource_server.runtime import markdown
from resource_server.runtime.json_numbers import LARGEST_INTEGER, exact_integer

FormatName: TypeAlias = Literal["json", "columns", "csv", "markdown"]

FORMATS: Mapping[FormatName, Format] = {
    "json": Format("json", "application/json", "Rows as objects"),
    "columns": Format("columns", "application/json", "Rows as arrays, the columns named once"),
    "csv": Format("csv", "text/csv", "A header and rows; values as text"),
    "markdown": Format("markdown", "text/markdown", "A table for reading"),
}
"""The formats of pages by name; the first is the preferred one."""

_FIRST_ROWS = 128
_STRUCT_ROWS = 8
_SHORTEST_CELL = 16
"""Minimum characters to which a value is truncated."""
_NUMBERS_AND_TEXT = frozenset((int, float, str))

_encode = msgspec.json.Encoder().encode


CellUri: TypeAlias = Callable[[int, str], str | None]


class RowPage(msgspec.Struct, frozen=True):
    """Rows of a table or query, as returned by the driver."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[tuple[object, ...]]
    more: bool = False
    """Whether rows follow these."""
    next: Callable[[int], str | None] | None = None
    """Returns the URI of the page after this many rows; called only if rows follow."""
    cell_uri: CellUri | None = None
    """Returns the URI of the whole value of a row, by its place, in a column; None without one."""
    groupings: int | None = None
    """Number of the first columns, which group the rows of a summary."""
    condition: str = ""
    """The filters or parameters of the rows, for the title of a chart."""
    previous: str | None = None
    """URI of the page before, on one that was reached backwards."""


def from_row(page: RowPage, first: int, previous: str | None) -> RowPage:
    """Return a page without its first rows; `previous` is the URI of the page that ends there."""

    def next_uri(count: int) -> str | None:
        return page.next and page.next(first + count)

    def cell_uri(place: int, column: str) -> str | None:
        return page.cell_uri and page.cell_uri(first + place, column)

    return msgspec.structs.replace(
        page, rows=page.rows[first:], next=next_uri, cell_uri=cell_uri, previous=previous
    )


class RenderedPage(NamedTuple):
    """A page in one format."""

    text: str
    mime_type: str
    rows: int
    """Number of rows of the page that fit."""
    more: bool
    """Whether rows follow these, in the page or after it."""


class RenderedTable(NamedTuple):
    """The same rows twice: as structured data and as a Markdown table."""

    columns: Sequence[str]
    rows: Raw
    """A JSON array of arrays."""
    markdown: str
    more: bool
    """Whether there are more rows."""
    has_truncated: bool
    """Whether any value is truncated."""


def query_columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns of a query result: their names alone are known."""
    return tuple([Column(name, "", "any") for name in names])


@functools.lru_cache(maxsize=128)
def unique_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names as Unicode, repeated ones numbered: `id`, `id_2`."""
    shown = tuple(map(uris.display, names))
    if len(set(shown)) == len(shown):
        return shown
    taken = set(shown)
    seen: dict[str, int] = {}
    unique: list[str] = []
    for name in shown:
        count = seen.get(name, 0) + 1
        candidate = name if count == 1 else f"{name}_{count}"
        while count > 1 and candidate in taken:
            count += 1
            candidate = f"{name}_{count}"
        seen[name] = count
        taken.add(candidate)
        unique.append(candidate)
    return tuple(unique)


def write_page(page: RowPage, format: FormatName, *, max_bytes: int, cell: int) -> RenderedPage:
    """Return as many whole rows as fit into `max_bytes`, and at least one.

    If the first row alone does not fit, its long values are truncated below `cell` characters. If
    that does not suffice (thousands of columns), the row is returned anyway.
    """
    return _rendered(page, _WRITERS[format](page), max_bytes=max_bytes, cell=cell)


def _rendered(page: RowPage, writer: _Writer, *, max_bytes: int, cell: int) -> RenderedPage:
    head = writer.head()
    body, tail, written = _write(page, writer, max_bytes - len(head), cell)
    text = b"".join((head, body, tail)).decode()
    more = page.more or written < len(page.rows)
    return RenderedPage(text, FORMATS[writer.format].mime_type, written, more)


def write_table(page: RowPage, *, max_bytes: int, cell: int) -> RenderedTable:
    """Return as many whole rows as fit into `max_bytes` in either form, and at least one."""
    count = len(page.rows)
    while True:
        more = page.more or count < len(page.rows)
        part = msgspec.structs.replace(page, rows=page.rows[:count], more=more)
        table, data = _MarkdownWriter(part), _ColumnsWriter(part)
        data.forms = table.forms
        markdown = _rendered(part, table, max_bytes=max_bytes, cell=cell)
        body, _, written = _write(part, data, max_bytes - len(data.head()), cell)
        fitting = min(written, markdown.rows)
        if fitting == count:
            has_truncated = b'"truncated":true' in bytes(body)
            return RenderedTable(
                data.names, Raw(b"[%b]" % body), markdown.text, more, has_truncated
            )
        count = fitting


def _write(
    page: RowPage, writer: _Writer, max_bytes: int, cell: int
) -> tuple[bytes | memoryview, bytes, int]:
    """Return encoded rows, the tail of the document and the number of rows.

    Rows are encoded once, in batches; the encoded bytes are measured and joined.
    """
    tail = _tail(page, writer, len(page.rows))
    room = max_bytes - len(tail)
    pieces, written = _fill(writer, page.rows, room, cell)
    drop = 1
    while written > 1:
        body = writer.separator.join(pieces) if len(pieces) > 1 else pieces[0]
        if written < len(page.rows):
            tail = _tail(page, writer, written)
            room = max_bytes - len(tail)
        if len(body) <= room:
            break
        # The tail got longer: it has the URI of another page.
        pieces, written = _fill(writer, page.rows[: max(1, written - drop)], room, cell)
        drop *= 2
    else:
        tail = _tail(page, writer, min(1, len(page.rows)))
        body = _fit(writer, page.rows[:1], max_bytes - len(tail), cell)
        written = min(1, len(page.rows))
    return body, tail, written


def _fill(
    writer: _Writer, rows: Sequence[RowValues], room: int, cell: int
) -> tuple[list[bytes | memoryview], int]:
    """Encode rows until `room` is used up: in growing batches, towards the end one by one."""
    pieces: list[bytes | memoryview] = []
    written, step, growth = 0, _FIRST_ROWS, 2
    while written < len(rows):
        some = rows[written : written + step]
        piece = writer.rows(some, cell, written)
        if len(piece) <= room:
            room -= len(piece) + len(writer.separator)
            pieces.append(piece)
            written += len(some)
            step *= growth
        elif len(some) > 1:
            step, growth = max(1, min(step, len(some)) // 8), 1
        else:
            break
    return pieces, written


def _fit(writer: _Writer, row: Sequence[RowValues], room: int, cell: int) -> bytes | memoryview:
    if not row:
        return b""
    piece = writer.rows(row, cell, 0)
    while len(piece) > room and cell > _SHORTEST_CELL:
        cell = max(cell // 2, _SHORTEST_CELL)
        piece = writer.rows(row, cell, 0)
    return piece


def _tail(page: RowPage, writer: _Writer, written: int) -> bytes:
    more = page.more or written < len(page.rows)
    return writer.tail(page.next(written) if more and page.next else None, more)


def write_row(
    columns: Sequence[Column],
    row: RowValues,
    links: Mapping[str, str] | None = None,
    *,
    cell_uri: Callable[[str], str | None] | None = None,
    max_bytes: int,
    cell: int,
) -> str:
    """Return one row as a JSON object; `links` are URIs by column, in the member `_links`.

    `cell_uri` returns the URI of the whole value of a column, for a truncated one.

    A row over `max_bytes` is truncated like the first row of a page. If a column is named
    `_links`, the links are in `_links_2`.
    """
    *names, links_name = unique_names((*[column.name for column in columns], "_links"))
    extra = {links_name: links} if links else {}
    while True:
        values = [
            json_value(value, column, cell=cell) for value, column in zip(row, columns, strict=True)
        ]
        values = [exact(form) if type(form) is Raw else form for form in values]
        if cell_uri is not None:
            values = [
                with_uri(value, cell_uri(column.name)) if is_truncated(value) else value
                for value, column in zip(values, columns, strict=True)
            ]
        encoded = _encode({**dict(zip(names, values, strict=True)), **extra})
        if len(encoded) <= max_bytes or cell <= _SHORTEST_CELL:
            return encoded.decode()
        cell = max(cell // 2, _SHORTEST_CELL)


def json_columns(
    rows: Sequence[RowValues], columns: Sequence[Column], *, cell: int
) -> list[Sequence[Any]] | None:
    """Return the JSON forms of rows, column by column; None if every value is its own form."""
    if not rows or not columns:
        return None
    given = list(zip(*rows, strict=True))
    forms = [
        json_column(values, column, cell=cell)
        for values, column in zip(given, columns, strict=True)
    ]
    return None if all(map(operator.is_, forms, given)) else forms


def json_column(values: Sequence[Any], column: Column, *, cell: int) -> Sequence[Any]:
    """Return the JSON forms of one column; the same object if every value is its own form."""
    if not values:
        return values
    by_kind = column.kind in {"json", "boolean"}
    if not by_kind and (plain := _plain_at_once(values, cell)) is not None:
        return plain
    types: set[type] = set(map(type, values))
    special = types - NATIVE_TYPES
    if not special:
        return values
    if not by_kind and special <= _NUMBERS_AND_TEXT and _is_plain(values, types, cell):
        return values
    return [json_value(value, column, cell=cell) for value in values]


def _plain_at_once(values: Sequence[Any], cell: int) -> Sequence[Any] | None:
    """Return the forms of plain texts, or of integers of 64 bits; None is inconclusive.

    Several times as fast as checking each type, since a value of another type raises.
    """
    first = cast("type[object]", type(values[0]))
    try:
        if first is str:
            return values if _is_plain_text("".join(values), values, cell) else None
        if first is int:
            return _integers(values)
    except (TypeError, struct.error):
        pass
    return None


def _integers(values: Sequence[int]) -> Sequence[int | str]:
    try:
        struct.pack(f"{len(values)}i", *values)
    except struct.error:
        struct.pack(f"{len(values)}q", *values)
        if max(values) > LARGEST_INTEGER or min(values) < -LARGEST_INTEGER:
            return list(map(exact_integer, values))
    return values


def _is_plain(values: Sequence[Any], types: set[type], cell: int) -> bool:
    def of(one: type) -> Sequence[Any]:
        return values if len(types) == 1 else [value for value in values if type(value) is one]

    if int in types:
        integers = of(int)
        if max(integers) > LARGEST_INTEGER or min(integers) < -LARGEST_INTEGER:
            return False
    # The sum is finite only if each value is. An overflow of the sum costs time, nothing else.
    if float in types and not math.isfinite(sum(of(float))):
        return False
    if str not in types:
        return True
    texts = of(str)
    return _is_plain_text("".join(texts), texts, cell)


def _is_plain_text(joined: str, values: Sequence[str], cell: int) -> bool:
    if len(joined) > cell and max(map(len, values)) > cell:
        return False
    return joined.isascii() or uris.is_unicode(joined)


def _linked(
    page: RowPage,
    columns: Sequence[Sequence[Any]],
    first: int,
    needs_link: Callable[[object], bool] = is_truncated,
) -> list[Sequence[Any]]:
    """Return columns of forms, from the row `first` of the page on, with URIs of whole values."""
    cell_uri = page.cell_uri
    if cell_uri is None:
        return list(columns)
    return [
        [
            with_uri(form, cell_uri(place, column.name)) if needs_link(form) else form
            for place, form in enumerate(forms, first)
        ]
        # The types first: they are compared several times as fast.
        if not _LINKABLE.isdisjoint(map(type, forms)) and any(map(needs_link, forms))
        else forms
        for forms, column in zip(columns, page.columns, strict=True)
    ]


_LINKABLE = frozenset((Blob, TruncatedText))
"""Types of forms that may need a link to the whole value."""


class _Forms:
    """JSON forms of the rows of a page, kept for another writer of the same rows."""

    def __init__(self, page: RowPage) -> None:
        self._columns = page.columns
        self._kept: dict[tuple[int, int, int], list[Sequence[Any]] | None] = {}

    def of(self, rows: Sequence[RowValues], cell: int, first: int) -> list[Sequence[Any]] | None:
        """Return what `json_columns` does, for rows from the row `first` of the page on."""
        key = (first, len(rows), cell)
        if key not in self._kept:
            self._kept[key] = json_columns(rows, self._columns, cell=cell)
        return self._kept[key]


class _Writer(Protocol):
    format: FormatName
    separator: bytes
    """Bytes between the results of two calls of `rows`."""

    def __init__(self, page: RowPage) -> None: ...

    def head(self) -> bytes: ...

    def rows(self, rows: Sequence[RowValues], cell: int, first: int) -> bytes | memoryview:
        """Encode rows of the page, from its row `first` on."""
        ...

    def tail(self, next: str | None, more: bool) -> bytes: ...


class _JsonWriter:
    format: FormatName = "json"
    separator = b","

    def __init__(self, page: RowPage) -> None:
        self._page = page
        self.forms = _Forms(page)
        self.names = unique_names(tuple([column.name for column in page.columns]))

    def head(self) -> bytes:
        return b'{"rows":['

    def rows(self, rows: Sequence[RowValues], cell: int, first: int) -> bytes | memoryview:
        columns = self._forms(rows, cell, first)
        record = _record(self.names) if len(rows) >= _STRUCT_ROWS else None
        if record is None:
            names = self.names
            values = rows if columns is None else zip(*columns, strict=True)
            return _inside(_encode([dict(zip(names, row, strict=True)) for row in values]))
        records = starmap(record, rows) if columns is None else map(record, *columns)
        return _inside(_encode(list(records)))

    def _forms(
        self, rows: Sequence[RowValues], cell: int, first: int
    ) -> list[Sequence[Any]] | None:
        columns = self.forms.of(rows, cell, first)
        if columns is None:
            return None
        return [
            [exact(form) if type(form) is Raw else form for form in forms]
            if column.kind == "json"
            else forms
            for forms, column in zip(
                _linked(self._page, columns, first), self._page.columns, strict=True
            )
        ]

    def tail(self, next: str | None, more: bool) -> bytes:
        before = self._page.previous
        previous = b"" if before is None else b'"previous":%b,' % _encode(before)
        return b'],%b"next":%b,"more":%b}' % (previous, _encode(next), _encode(more))


def _inside(array: bytes) -> memoryview:
    """Return the content between the brackets without a copy."""
    return memoryview(array)[1:-1]


@functools.lru_cache(maxsize=128)
def _record(names: tuple[str, ...]) -> Callable[..., object] | None:
    """Return a class whose instances are encoded as objects with these members.

    Instances are created and encoded several times as fast as dicts. Returns None if a name cannot
    be a member (quotes, backslashes, control characters).
    """
    fields = [f"f{place}" for place in range(len(names))]
    try:
        rename = dict(zip(fields, names, strict=True))
        return msgspec.defstruct("Row", fields, rename=rename, gc=False)
    except ValueError:
        return None


class _ColumnsWriter(_JsonWriter):
    format: FormatName = "columns"

    def head(self) -> bytes:
        return b'{"columns":%b,"rows":[' % _encode(self.names)

    def rows(self, rows: Sequence[RowValues], cell: int, first: int) -> bytes | memoryview:
        columns = self._forms(rows, cell, first)
        return _inside(_encode(rows if columns is None else list(zip(*columns, strict=True))))


class _CsvWriter:
    format: FormatName = "csv"
    separator = b""

    def __init__(self, page: RowPage) -> None:
        self._page = page
        self._empty = '""' if len(page.columns) == 1 else ""

    def head(self) -> bytes:
        names = unique_names(tuple([column.name for column in self._page.columns]))
        return f"{','.join(map(self._quoted, names))}\r\n".encode()

    def rows(self, rows: Sequence[RowValues], cell: int, first: int) -> bytes:
        forms = [
            json_column(values, column, cell=cell)
            for values, column in zip(zip(*rows, strict=True), self._page.columns, strict=True)
        ]
        columns = map(self._texts, _linked(self._page, forms, first))
        return ("\r\n".join(map(",".join, zip(*columns, strict=True))) + "\r\n").encode()

    def tail(self, next: str | None, more: bool) -> bytes:
        return b""

    def _texts(self, values: Sequence[Any]) -> Sequence[str]:
        texts = _texts(values)
        if texts is None:
            return [self._cell(value) for value in values]
        joined = "".join(texts)
        if self._empty or any(mark in joined for mark in ',"\r\n'):
            return [self._quoted(text) for text in texts]
        return texts

    def _cell(self, value: object) -> str:
        match value:
            case None:
                return self._empty
            case Blob(base64=text, bytes=size):
                return f"[{_size(size, 'bytes', value.uri)}] {text}…" if value.truncated else text
            case TruncatedText(text=text, characters=count):
                return self._quoted(f"[{_size(count, 'characters', value.uri)}] {text}…")
            case _:
                return self._quoted(cell_text(value))

    def _quoted(self, text: str) -> str:
        if not text:
            return self._empty
        if '"' in text or "," in text or "\n" in text or "\r" in text:
            return '"' + text.replace('"', '""') + '"'
        return text


def _size(count: int, unit: str, uri: str | UnsetType) -> str:
    return f"{count} {unit}: {uri}" if uri else f"{count} {unit}"


def _texts(values: Sequence[Any]) -> Sequence[str] | None:
    """Return the texts of a column of plain values of one type, or None for any other column."""
    types = set(map(type, values))
    if len(types) != 1:
        return None
    write = _ONE_TYPE.get(types.pop())
    return None if write is None else write(values)


def _timestamps(values: Sequence[Any]) -> Sequence[str]:
    return cast("Sequence[str]", msgspec.to_builtins(values))


_ONE_TYPE: Mapping[type, Callable[[Sequence[Any]], Sequence[str]]] = {
    str: lambda values: values,
    int: lambda values: list(map(str, values)),
    float: lambda values: list(map(repr, values)),
    datetime.datetime: _timestamps,
    datetime.date: _timestamps,
    datetime.time: _timestamps,
}


def cell_text(value: object) -> str:
    """Return the text of a form other than NULL, a blob or truncated text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Raw):
        return bytes(value).decode()
    if isinstance(value, JsonText):
        return value.json
    return cast("str", msgspec.to_builtins(value))


class _MarkdownWriter:
    format: FormatName = "markdown"
    separator = b""

    def __init__(self, page: RowPage) -> None:
        self._page = page
        self.forms = _Forms(page)

    def head(self) -> bytes:
        columns = self._page.columns
        names = unique_names(tuple([column.name for column in columns]))
        numeric = tuple([column.kind in {"integer", "real", "numeric"} for column in columns])
        return _markdown_head(self._page.title, names, numeric)

    def rows(self, rows: Sequence[RowValues], cell: int, first: int) -> bytes:
        forms = self.forms.of(rows, cell, first)
        columns = _linked(
            self._page,
            list(zip(*rows, strict=True)) if forms is None else forms,
            first,
            _is_left_out,
        )
        return markdown.table_rows(list(map(_markdown_cells, columns))).encode()

    def tail(self, next: str | None, more: bool) -> bytes:
        if next is not None:
            return f"\nMore rows follow: <{next}>\n".encode()
        return b"\nMore rows follow, which are not shown.\n" if more else b""


@functools.lru_cache(maxsize=128)
def _markdown_head(title: str, names: tuple[str, ...], numeric: tuple[bool, ...]) -> bytes:
    return f"{markdown.heading(title)}\n\n{markdown.table_head(names, numeric)}".encode()


def _markdown_cells(values: Sequence[Any]) -> Sequence[str]:
    texts = _texts(values)
    if texts is None:
        return list(map(_markdown_cell, values))
    if texts is not values:
        return texts  # numbers and times, which hold no markup
    joined = "".join(texts)
    if any(mark in joined for mark in markdown.SPECIAL):
        return list(map(markdown.escape, texts))
    return texts


def _markdown_cell(value: object) -> str:
    match value:
        case None:
            return "*NULL*"
        case Blob(bytes=size, uri=uri):
            return _link(f"blob, {size} bytes", uri)
        case TruncatedText(text=text, characters=count, uri=uri):
            return f"{_link(f'{count} characters', uri)} {markdown.escape(text)}…"
        case _:
            return markdown.escape(cell_text(value))


def _is_left_out(form: object) -> bool:
    """Return whether a table for reading has not the whole value: truncated, or any blob."""
    return isinstance(form, Blob | TruncatedText)


def _link(text: str, uri: str | UnsetType) -> str:
    return f"[{text}](<{uri}>)" if uri else f"*{text}*"


_WRITERS: Mapping[FormatName, type[_Writer]] = {
    "json": _JsonWriter,
    "columns": _ColumnsWriter,
    "csv": _CsvWriter,
    "markdown": _MarkdownWriter,
}
