"""Rows as documents: JSON, CSV and Markdown, each within a number of bytes.

* `json`: `{"rows": [{"id": 1, …}, …], "next": "<URI>", "more": true}`
* `columns`: `{"columns": ["id", …], "rows": [[1, …], …], "next": …, "more": …}`
* `csv`: RFC 4180 with a header. NULL and empty text are both empty fields (`""` where there is
  only one column, so that no line is empty). Blobs are base64, at most their first KiB. What is
  cut ends in `… [70000 characters]` or `… [4096 bytes]`. Arrays, composites and JSON are JSON.
  Text that a spreadsheet would take for a formula (`=1+1`, `@x`) is left as it is: to alter it
  would falsify data for everything else that reads CSV. Import it there as text.
* `markdown`: a table for people and models. NULL is `*NULL*`, a blob `*blob, 4096 bytes*`.

Values have the forms of `formats.values`. `next` is the page that goes on, null at the end. `more`
says whether rows follow; where `next` is null and `more` is true they
cannot be reached by paging. Columns of the same name are told apart: `id`, `id_2`.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast

import msgspec
from msgspec import Raw

from resource_server import uris
from resource_server.provider import Format
from resource_server.providers.database.engines.reflection import Column
from resource_server.providers.database.formats import markdown
from resource_server.providers.database.formats.values import (
    Blob,
    RowValues,
    TruncatedText,
    json_column,
    json_rows,
    json_value,
)

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

_encode = msgspec.json.Encoder().encode


class RowPage(NamedTuple):
    """Rows of a table or query, as the driver gave them."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[tuple[object, ...]]
    more: bool = False
    """Whether rows follow these."""
    next: Callable[[int], str | None] | None = None
    """Gives the URI of the page behind so many of these rows; called only where rows follow."""


class RenderedPage(NamedTuple):
    """A page in one format."""

    text: str
    mime_type: str
    rows: int
    """As many are in it: the first of the page."""
    more: bool
    """Whether rows follow them, in this page or behind it."""


class RenderedTable(NamedTuple):
    """Rows as data and for reading: the same ones, each value with the same beginning."""

    columns: Sequence[str]
    rows: Raw
    """A JSON array of arrays."""
    markdown: str
    more: bool
    """Whether there are other rows."""


def query_columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns of a result of which only the names are known."""
    return tuple([Column(name, "", "any") for name in names])


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names as Unicode, those that came before with a number behind: `id`, `id_2`."""
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

    A first row that does not fit by itself is given with its long values cut further than to
    `cell`; where that does not help (thousands of columns), it is given although it is larger.
    """
    writer = _WRITERS[format](page)
    head = writer.head()
    body, tail, written = _write(page, writer, max_bytes - len(head), cell)
    text = b"".join((head, body, tail)).decode()
    more = page.more or written < len(page.rows)
    return RenderedPage(text, FORMATS[format].mime_type, written, more)


def write_table(page: RowPage, *, max_bytes: int, cell: int) -> RenderedTable:
    """Return as many whole rows as fit into `max_bytes` in either form, and at least one."""
    count = len(page.rows)
    while True:
        more = page.more or count < len(page.rows)
        part = page._replace(rows=page.rows[:count], more=more)
        markdown = write_page(part, "markdown", max_bytes=max_bytes, cell=cell)
        data = _ColumnsWriter(part)
        body, _, written = _write(part, data, max_bytes - len(data.head()), cell)
        fitting = min(written, markdown.rows)
        if fitting == count:
            return RenderedTable(data.names, Raw(b"[%b]" % body), markdown.text, more)
        count = fitting


def _write(
    page: RowPage, writer: _Writer, max_bytes: int, cell: int
) -> tuple[bytes | memoryview, bytes, int]:
    """Return rows and the end behind them, and how many rows these are."""
    tail = _tail(page, writer, len(page.rows))
    room = max_bytes - len(tail)
    pieces, written = _fill(writer, page.rows, room, cell)
    drop = 1
    while written > 1:
        body = writer.separator.join(pieces) if len(pieces) > 1 else pieces[0]
        tail = _tail(page, writer, written)
        room = max_bytes - len(tail)
        if len(body) <= room:
            break
        # The end is longer than was reckoned with: the URI of another page.
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
    """Write rows as long as there is room: many at a time, and those at the end one by one."""
    pieces: list[bytes | memoryview] = []
    written, step, growth = 0, _FIRST_ROWS, 2
    while written < len(rows):
        some = rows[written : written + step]
        piece = writer.rows(some, cell)
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
    piece = writer.rows(row, cell)
    while len(piece) > room and cell > _SHORTEST_CELL:
        cell = max(cell // 2, _SHORTEST_CELL)
        piece = writer.rows(row, cell)
    return piece


def _tail(page: RowPage, writer: _Writer, written: int) -> bytes:
    more = page.more or written < len(page.rows)
    return writer.tail(page.next(written) if more and page.next else None, more)


def write_row(
    columns: Sequence[Column],
    row: RowValues,
    links: Mapping[str, str] | None = None,
    *,
    max_bytes: int,
    cell: int,
) -> str:
    """Return one row as a JSON object; `links` are URIs by column, in its member `_links`.

    A row over `max_bytes` is cut as a page's first row is. A column of the name `_links` keeps
    it: the links are `_links_2` then.
    """
    *names, links_name = unique_names([*[column.name for column in columns], "_links"])
    extra = {links_name: links} if links else {}
    while True:
        values = [
            json_value(value, column, cell=cell) for value, column in zip(row, columns, strict=True)
        ]
        encoded = _encode({**dict(zip(names, values, strict=True)), **extra})
        if len(encoded) <= max_bytes or cell <= _SHORTEST_CELL:
            return encoded.decode()
        cell = max(cell // 2, _SHORTEST_CELL)


class _Writer(Protocol):
    separator: bytes
    """Between what several calls of `rows` return."""

    def __init__(self, page: RowPage) -> None: ...

    def head(self) -> bytes: ...

    def rows(self, rows: Sequence[RowValues], cell: int) -> bytes | memoryview: ...

    def tail(self, next: str | None, more: bool) -> bytes: ...


class _JsonWriter:
    separator = b","

    def __init__(self, page: RowPage) -> None:
        self._columns = page.columns
        self.names = unique_names([column.name for column in page.columns])

    def head(self) -> bytes:
        return b'{"rows":['

    def rows(self, rows: Sequence[RowValues], cell: int) -> bytes | memoryview:
        values = json_rows(rows, self._columns, cell=cell)
        record = _record(self.names) if len(values) >= _STRUCT_ROWS else None
        if record is None:
            names = self.names
            return _inside(_encode([dict(zip(names, row, strict=True)) for row in values]))
        return _inside(_encode(list(starmap(record, values))))

    def tail(self, next: str | None, more: bool) -> bytes:
        return b'],"next":%b,"more":%b}' % (_encode(next), _encode(more))


def _inside(array: bytes) -> memoryview:
    """Return what is between the brackets, not copied."""
    return memoryview(array)[1:-1]


@functools.lru_cache(maxsize=128)
def _record(names: tuple[str, ...]) -> Callable[..., object] | None:
    """Return a class whose instances are encoded as objects with these members.

    They are made and encoded several times as fast as dicts. None where a name cannot be one of
    theirs (quotes, backslashes, control characters).
    """
    fields = [f"f{place}" for place in range(len(names))]
    try:
        rename = dict(zip(fields, names, strict=True))
        return msgspec.defstruct("Row", fields, rename=rename, gc=False)
    except ValueError:
        return None


class _ColumnsWriter(_JsonWriter):
    def head(self) -> bytes:
        return b'{"columns":%b,"rows":[' % _encode(self.names)

    def rows(self, rows: Sequence[RowValues], cell: int) -> bytes | memoryview:
        return _inside(_encode(json_rows(rows, self._columns, cell=cell)))


class _CsvWriter:
    separator = b""

    def __init__(self, page: RowPage) -> None:
        self._columns = page.columns
        self._empty = '""' if len(page.columns) == 1 else ""

    def head(self) -> bytes:
        names = unique_names([column.name for column in self._columns])
        return f"{','.join(map(self._quoted, names))}\r\n".encode()

    def rows(self, rows: Sequence[RowValues], cell: int) -> bytes:
        columns = [
            self._texts(json_column(values, column, cell=cell))
            for values, column in zip(zip(*rows, strict=True), self._columns, strict=True)
        ]
        return ("\r\n".join(map(",".join, zip(*columns, strict=True))) + "\r\n").encode()

    def tail(self, next: str | None, more: bool) -> bytes:
        return b""

    def _texts(self, values: Sequence[Any]) -> Sequence[str]:
        texts = _texts(values)
        if texts is None:
            return [self._text(value) for value in values]
        joined = "".join(texts)
        if self._empty or any(mark in joined for mark in ',"\r\n'):
            return [self._quoted(text) for text in texts]
        return texts

    def _text(self, value: object) -> str:
        match value:
            case None:
                return self._empty
            case Blob(base64=text, bytes=size):
                return text if value.truncated is msgspec.UNSET else f"{text}… [{size} bytes]"
            case TruncatedText(text=text, characters=count):
                return self._quoted(f"{text}… [{count} characters]")
            case _:
                return self._quoted(_text(value))

    def _quoted(self, text: str) -> str:
        if not text:
            return self._empty
        if '"' in text or "," in text or "\n" in text or "\r" in text:
            return '"' + text.replace('"', '""') + '"'
        return text


def _texts(values: Sequence[Any]) -> Sequence[str] | None:
    """Return the texts of a column that holds nothing but one type of plain values, else None."""
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


def _text(value: object) -> str:
    """Return the text of a value that is neither NULL nor cut nor a blob."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Raw):
        return bytes(value).decode()
    return cast("str", msgspec.to_builtins(value))


class _MarkdownWriter:
    separator = b""

    def __init__(self, page: RowPage) -> None:
        self._page = page

    def head(self) -> bytes:
        columns = self._page.columns
        names = unique_names([column.name for column in columns])
        numeric = [column.kind in {"integer", "real", "numeric"} for column in columns]
        title = markdown.heading(self._page.title)
        return f"{title}\n\n{markdown.table_head(names, numeric)}".encode()

    def rows(self, rows: Sequence[RowValues], cell: int) -> bytes:
        columns = [
            _markdown_cells(json_column(values, column, cell=cell))
            for values, column in zip(zip(*rows, strict=True), self._page.columns, strict=True)
        ]
        return markdown.table_rows(columns).encode()

    def tail(self, next: str | None, more: bool) -> bytes:
        if next is not None:
            return f"\nMore rows follow: <{next}>\n".encode()
        return b"\nMore rows follow, which are not shown.\n" if more else b""


def _markdown_cells(values: Sequence[Any]) -> Sequence[str]:
    texts = _texts(values)
    if texts is None:
        return list(map(_markdown_cell, values))
    joined = "".join(texts)
    if any(mark in joined for mark in markdown.SPECIAL):
        return list(map(markdown.escape, texts))
    return texts


def _markdown_cell(value: object) -> str:
    match value:
        case None:
            return "*NULL*"
        case Blob(bytes=size):
            return f"*blob, {size} bytes*"
        case TruncatedText(text=text, characters=count):
            return f"{markdown.escape(text)} *… {count} characters*"
        case _:
            return markdown.escape(_text(value))


_WRITERS: Mapping[FormatName, type[_Writer]] = {
    "json": _JsonWriter,
    "columns": _ColumnsWriter,
    "csv": _CsvWriter,
    "markdown": _MarkdownWriter,
}
