"""The page of a table: rows to sort and filter by links, facets, and a page for each row."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from resource_server import uris
from resource_server.explorer import results
from resource_server.explorer.addresses import page_address, with_parameters
from resource_server.explorer.markup import escaped_html, trusted
from resource_server.explorer.page import Page
from resource_server.explorer.results import DocumentContent, ResourceMetadata, written
from resource_server.protocol.in_process_client import ErrorReply

ROWS = "~rows"
OPERATORS = {
    "eq": "=",
    "ne": "≠",
    "lt": "<",
    "le": "≤",
    "gt": ">",
    "ge": "≥",
    "like": "like",
    "in": "in",
    "null": "is null",
}
"""Operators of filters, as people read them."""

_CELLS, _SCHEMA, _SUMMARY = "~cell", "~schema", "~summary"
_WHERE = "where."
_FIRST: Mapping[str, str | None] = {"after": None, "until": None}
"""Changes of a URI's parameters that lead to the first page."""
_CELL = 200
"""Characters of a value, at most; the page of the row has the whole."""
_MAX_FIELDS = 200_000
"""Characters of all values on the page of a row, at most."""
_PAGE = 50
"""Rows of a page without `limit`."""
_NUMBERS = frozenset(("integer", "decimal", "real", "number"))
_MAX_COLUMNS = 100
"""Columns of a page, at most."""
_MAX_FACETS = 4
_MAX_COUNTED = 20
"""Columns that are counted to find those with few values."""
_MAX_FACET_VALUE = 100
"""Characters of a facet's values; a column with longer ones has none."""
_MAX_GROUPS = 8
"""Values of a facet; a column with more has none."""
_MAX_FACETED_ROWS = 20_000
"""Rows of a table that is counted by its facets without being asked to."""
_MAX_LABELS = 100
"""Rows of another table whose names a page shows, for each foreign key."""
_LABELS = ("name", "title", "label", "full_name", "email")
"""Columns that name a row, the best first."""


class TableColumn(NamedTuple):
    """A column as its heading shows it."""

    name: str
    type: str = ""
    kind: str = "text"
    """The kind of its values: integer, text and others."""
    is_key: bool = False
    refers_to: str | None = None
    """URI of the table that a foreign key of this column alone refers to."""
    referred: str | None = None
    """The column of that table; None for its key."""
    can_sort: bool = True
    """Whether rows may be ordered by it."""
    can_filter: bool = True
    """Whether they may be filtered by it: not by a masked column."""

    @property
    def is_number(self) -> bool:
        """Whether values are numbers, which end at the right."""
        return self.kind in _NUMBERS

    @property
    def style(self) -> str:
        """The class of its text."""
        return "number" if self.is_number else ""


class Cell(NamedTuple):
    """A value as the page shows it."""

    text: str
    style: str = ""
    link: str | None = None
    """URI of the resource behind it."""
    label: str | None = None
    """Name of the row behind it."""


class AppliedFilter(NamedTuple):
    """A condition on a column, and the URI without it."""

    column: str
    operator: str
    value: str
    without: str


class Facet(NamedTuple):
    """The values of a column with their numbers of rows."""

    column: str
    values: Sequence[tuple[str, int, str, bool]]
    """Value, rows, URI with this filter or without it, whether it is filtered by."""
    summary: str
    """URI of its counts, as a table with a chart."""


class _Schema(NamedTuple):
    columns: Mapping[str, TableColumn]
    key: Sequence[str]
    table: str
    """URI of the table; empty for the result of a query."""


async def show_table(
    page: Page, uri: str, found: ResourceMetadata | None, table: ResourceMetadata | None
) -> Response:
    """Return the page of rows: of a table, or of a declared query's result.

    Without `found`, the metadata is the rows' own, which come with them.

    Raises:
        ErrorReply: the rows cannot be read.
    """
    query = uris.parse(uri).query
    # A count takes neither.
    is_rows = table is not None and "count" not in query
    asked = uri
    if is_rows and "limit" not in query:
        asked = with_parameters(uri, {"limit": str(_PAGE)})
    schema = await _schema(page, table)
    if "columns" not in query and len(schema.columns) > _MAX_COLUMNS:
        asked = with_parameters(asked, {"columns": listed(islice(schema.columns, _MAX_COLUMNS))})
    (content, *_) = await results.contents(page.client, _as_columns(asked, is_rows=is_rows))
    data = msgspec.json.decode(content.text or "{}")
    names: list[str] = data["columns"][:_MAX_COLUMNS]
    data["rows"] = [row[:_MAX_COLUMNS] for row in data["rows"]]
    columns = [
        schema.columns.get(name) or _inferred(name, at, data) for at, name in enumerate(names)
    ]
    facets, referred = await asyncio.gather(
        _facets(page, uri, table, schema), _referred_rows(page, columns, data["rows"])
    )
    return page.render(
        "table.html",
        uri=uri,
        resource=found or _of_rows(content, uri),
        table=table,
        crumbs=page.crumbs(uri),
        columns=[(column, *_sorting(uri, query, column.name)) for column in columns],
        rows=_rows_html(data["rows"], columns, schema, referred, page.root),
        row_count=len(data["rows"]),
        filters=list(_filters(uri, query)),
        facets=facets,
        count=_count(table, query),
        next_uri=_next(uri, data),
        previous_uri=_previous(uri, query, data) if is_rows else None,
        first_uri=with_parameters(uri, _FIRST) if query.keys() & _FIRST else None,
        exports=_exports(content),
        chart=content.format("svg"),
        operators=OPERATORS,
        can_sort=table is not None,
        all_columns=list(schema.columns.values()),
        masked=[each.name for each in schema.columns.values() if not each.can_filter],
        shown_columns=names,
        has_more_columns=len(names) < max(len(data["columns"]), len(schema.columns)),
        other_columns=_other_columns(uri, names, schema),
    )


def _of_rows(content: DocumentContent, uri: str) -> ResourceMetadata:
    """Return the metadata of rows; their formats are exports of the page."""
    return msgspec.structs.replace(content, uri=uri.partition("?")[0], meta={})


def _other_columns(uri: str, names: Sequence[str], schema: _Schema) -> str | None:
    """Return the URI of the same rows with their key and the columns that follow these."""
    known = list(schema.columns)
    at = known.index(names[-1]) + 1 if names and names[-1] in known else len(known)
    if at == len(known):
        return None
    following = [*schema.key, *(each for each in known[at:] if each not in schema.key)]
    return with_parameters(uri, {"columns": listed(following[:_MAX_COLUMNS])})


async def show_row(
    page: Page, uri: str, content: DocumentContent, table: ResourceMetadata
) -> Response:
    """Return the page of one row: a line for each column, with links along its foreign keys."""
    values: dict[str, Any] = msgspec.json.decode(content.text or "{}")
    # A column may have the name, too.
    links = content.details.get("links", {})
    if isinstance(values.get("_links"), dict):
        del values["_links"]
    schema = await _schema(page, table)
    room = max(_CELL, _MAX_FIELDS // max(len(values), 1))
    fields = [
        (
            schema.columns.get(name) or TableColumn(name),
            _field(uri, name, value, room),
            links.get(name),
        )
        for name, value in values.items()
    ]
    return page.render(
        "row.html", uri=uri, resource=content, crumbs=page.crumbs(uri), fields=fields
    )


def _field(uri: str, name: str, value: Any, room: int) -> Cell:
    """Return a value of a row, with a link to the whole if it is longer than a field has room."""
    cell = _cell(value)
    if len(cell.text) <= room:
        return cell
    whole = uris.join(f"{uri.partition('?')[0]}/", [_CELLS, uris.encode_text(name)])
    label = cell.label or f"{len(cell.text):,} characters"
    return Cell(f"{cell.text[:room]}…", cell.style, cell.link or whole, label)


async def _schema(page: Page, table: ResourceMetadata | None) -> _Schema:
    if table is None:
        return _Schema({}, (), "")
    (content, *_) = await results.contents(page.client, f"{table.uri}/{_SCHEMA}?format=json")
    schema: dict[str, Any] = msgspec.json.decode(content.text or "{}")
    key_facts: dict[str, Any] = schema.get("key") or {}
    key: Sequence[str] = key_facts.get("columns", ())
    referred = {
        each["columns"][0]: (each["uri"], next(iter(each.get("referred", ())), None))
        for each in schema.get("foreignKeys", ())
        if len(each["columns"]) == 1 and "uri" in each
    }
    columns = {
        each["name"]: TableColumn(
            each["name"],
            each.get("type", ""),
            each.get("kind", "text"),
            each["name"] in key,
            *referred.get(each["name"], (None, None)),
            # In an order, a name has no comma and does not begin with its sign.
            can_sort=each.get("sortable", True)
            and "," not in each["name"]
            and each["name"][:1] not in ("", "-"),
            can_filter=each.get("filterable", True),
        )
        for each in schema.get("columns", ())
    }
    return _Schema(columns, key, table.uri)


def _inferred(name: str, at: int, data: Mapping[str, Any]) -> TableColumn:
    """Return a column of a query's result, whose type only its values show."""
    values = [row[at] for row in data["rows"] if row[at] is not None]
    is_number = bool(values) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in values
    )
    return TableColumn(name, kind="number" if is_number else "text")


def _as_columns(uri: str, *, is_rows: bool) -> str:
    changes: dict[str, str | None] = {"format": "columns"}
    if is_rows:
        changes["cell"] = str(_CELL)
    return with_parameters(uri, changes)


def _sorting(uri: str, query: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the order by a column (`ascending`, `descending` or none), and the URI of the next."""
    now = query.get("sort", "")
    order = "ascending" if now == name else "descending" if now == f"-{name}" else ""
    then = f"-{name}" if order == "ascending" else None if order else name
    return order, with_parameters(uri, {"sort": then, **_FIRST})


def listed(values: Iterable[str]) -> str:
    """Return a list as a parameter of a URI has it: a line of CSV."""
    return ",".join(
        '"' + each.replace('"', '""') + '"' if set(each) & set(',"\r\n') or not each else each
        for each in values
    )


def with_filter(uri: str, column: str, operator: str, value: str) -> str:
    """Return the URI of rows with one filter more.

    Raises:
        ResourceError: the URI is malformed.
    """
    parameter = f"{_WHERE}{column}" if operator == "eq" else f"{_WHERE}{column}.{operator}"
    value = "true" if operator == "null" and not value else value
    return with_parameters(uri, {parameter: value, **_FIRST})


def _filters(uri: str, query: Mapping[str, str]) -> Iterator[AppliedFilter]:
    for parameter, value in query.items():
        if parameter.startswith(_WHERE):
            column, dot, operator = parameter.removeprefix(_WHERE).rpartition(".")
            if not dot or operator not in OPERATORS:
                column, operator = parameter.removeprefix(_WHERE), "eq"
            without = with_parameters(uri, {parameter: None, **_FIRST})
            yield AppliedFilter(column, OPERATORS[operator], value, without)


async def _facets(
    page: Page, uri: str, table: ResourceMetadata | None, schema: _Schema
) -> Sequence[Facet]:
    """Count the values of columns with few, under the filters of the page."""
    facts: Mapping[str, Any] = {} if table is None else table.details.get("table", {})
    if facts.get("rowCount") is None or facts["rowCount"] > _MAX_FACETED_ROWS:
        return ()
    names = [
        column.name
        for column in schema.columns.values()
        if column.kind in ("text", "boolean", "enum") and column.can_sort and not column.is_key
    ]
    counted = await asyncio.gather(
        *(_facet(page, uri, schema, name) for name in names[:_MAX_COUNTED])
    )
    return [facet for facet in counted if facet is not None][:_MAX_FACETS]


async def _facet(page: Page, uri: str, schema: _Schema, name: str) -> Facet | None:
    query = uris.parse(uri).query
    others = {
        parameter: value
        for parameter, value in query.items()
        if parameter.startswith(_WHERE) and parameter != f"{_WHERE}{name}"
    }
    counted = {**others, "by": name, "sort": "-count"}
    summary = f"{schema.table}/{_SUMMARY}"
    # By place: a column may be called `count`, too.
    asked = {**counted, "limit": str(_MAX_GROUPS + 1), "format": "columns"}
    try:
        (content, *_) = await results.contents(page.client, uris.with_query(summary, asked))
    except ErrorReply:
        return None
    groups = msgspec.json.decode(content.text or "{}").get("rows", ())
    if not 2 <= len(groups) <= _MAX_GROUPS or len(groups) == sum(count for _, count in groups):
        return None
    values = [None if value is None else written(value) for value, _ in groups]
    if any(len(value or "") > _MAX_FACET_VALUE for value in values):
        return None
    shown = [
        _facet_value(uri, query, name, value, count)
        for value, (_, count) in zip(values, groups, strict=True)
    ]
    return Facet(name, shown, uris.with_query(summary, counted))


def _facet_value(
    uri: str, query: Mapping[str, str], name: str, value: str | None, rows: int
) -> tuple[str, int, str, bool]:
    """Return a value as `Facet.values` has it; None is NULL."""
    parameter, wanted = f"{_WHERE}{name}", value
    if value is None:
        parameter, wanted = f"{parameter}.null", "true"
    is_chosen = query.get(parameter) == wanted
    link = with_parameters(uri, {**_FIRST, parameter: None if is_chosen else wanted})
    return "null" if value is None else value, rows, link, is_chosen


class _Referred(NamedTuple):
    """The rows of another table that a foreign key leads to."""

    is_key: bool
    """Whether the foreign key refers to the key of the table, which is in the URIs of its rows."""
    labels: Mapping[str, str]
    """Names of the rows, by their keys."""


async def _referred_rows(
    page: Page, columns: Sequence[TableColumn], rows: Sequence[Sequence[Any]]
) -> Mapping[str, _Referred]:
    """Return the rows that foreign keys refer to, by column."""
    places = [at for at, column in enumerate(columns) if column.refers_to is not None]
    found = await asyncio.gather(
        *(
            _referred(page, columns[at], {str(row[at]) for row in rows if row[at] is not None})
            for at in places
        )
    )
    return {columns[at].name: each for at, each in zip(places, found, strict=True)}


async def _referred(page: Page, column: TableColumn, keys: set[str]) -> _Referred:
    table = column.refers_to or ""
    try:
        schema = await _schema(page, await results.metadata(page.client, table))
        is_key = column.referred is None or list(schema.key) == [column.referred]
        name = next((each for each in _LABELS if each in schema.columns), None)
        if not is_key or not keys or len(schema.key) != 1 or name in (None, schema.key[0]):
            return _Referred(is_key, {})
        asked = {
            f"{_WHERE}{schema.key[0]}.in": listed(sorted(keys)[:_MAX_LABELS]),
            "columns": listed([schema.key[0], name or ""]),
            "limit": str(_MAX_LABELS),
            "format": "columns",
            "cell": "60",
        }
        (content, *_) = await results.contents(
            page.client, uris.with_query(f"{table}/{ROWS}", asked)
        )
    except ErrorReply:
        return _Referred(column.referred is None, {})
    rows = msgspec.json.decode(content.text or "{}")["rows"]
    return _Referred(
        True, {str(key): _cell(label).text for key, label in rows if label is not None}
    )


def _rows_html(
    rows: Sequence[Sequence[Any]],
    columns: Sequence[TableColumn],
    schema: _Schema,
    referred: Mapping[str, _Referred],
    root: str,
) -> Markup:
    """Return the rows of the table; a template takes ten times as long."""
    names = [column.name for column in columns]
    keys = [names.index(name) for name in schema.key] if set(schema.key) <= set(names) else []
    row_uris = [_address(schema.table, [row[at] for at in keys]) if keys else None for row in rows]
    plan = [(column, column.style, column.is_key or column.name in referred) for column in columns]
    texts: list[str] = []
    tags: list[tuple[str, str]] = []
    for row, uri in zip(rows, row_uris, strict=True):
        for value, (column, style, has_links) in zip(row, plan, strict=True):
            if has_links:
                cell = _linked(value, column, uri, referred.get(column.name))
            elif isinstance(value, str):  # without a cell, it takes half the time
                texts.append(value)
                tags.append(_tags(style))
                continue
            else:
                cell = _cell(value, style)
            texts.append(cell.text)
            tags.append(_link_tags(cell, root) if cell.link else _tags(cell.style))
    cells = iter(
        [
            f"{before}{text}{after}"
            for (before, after), text in zip(tags, escaped_html(texts), strict=True)
        ]
    )
    return trusted(
        "\n".join(
            [
                f'<tr data-key="{html.escape(uri or str(number))}">'
                f"{''.join(islice(cells, len(columns)))}</tr>"
                for number, uri in enumerate(row_uris)
            ]
        )
    )


def _linked(
    value: Any, column: TableColumn, row_uri: str | None, referred: _Referred | None
) -> Cell:
    """Return a cell with its link: to its row from the key, else along a foreign key."""
    text, style, link, label = _cell(value, column.style)
    if referred is not None and value is not None:
        label = referred.labels.get(str(value), label)
        link = _referred_address(column, value, is_key=referred.is_key)
    return Cell(text, style, (row_uri or link) if column.is_key else link, label)


def _referred_address(column: TableColumn, value: Any, *, is_key: bool) -> str | None:
    """Return the URI of the row, or of the rows, that a value of a foreign key leads to."""
    if is_key:
        return _address(column.refers_to or "", [value])
    query = {f"{_WHERE}{column.referred}": written(value)}
    return uris.with_query(f"{column.refers_to}/{ROWS}", query)


@cache
def _tags(style: str) -> tuple[str, str]:
    return (f'<td class="{style}">' if style else "<td>", "</td>")


def _link_tags(cell: Cell, root: str) -> tuple[str, str]:
    before, after = _tags(cell.style)
    address = html.escape(f"{root}{page_address(cell.link or '')}")
    name = f" <small><bdi>{escaped_html([cell.label])[0]}</bdi></small>" if cell.label else ""
    return f'{before}<a href="{address}">', f"</a>{name}{after}"


def _cell(value: Any, style: str = "") -> Cell:
    """Return a value; `style` is that of text in its column."""
    if isinstance(value, str):
        return Cell(value, style)
    if value is None:
        return Cell("null", "null")
    match value:
        case bool():
            style = "json"
        case int() | float():
            style = "number"
        case {"truncated": True, "$text": str(beginning), "characters": int(characters)}:
            return Cell(f"{beginning}…", "", value.get("uri"), f"{characters:,} characters")
        case _:
            style = "json"
    return Cell(msgspec.json.encode(value).decode(), style)


def _address(table: str, key: Sequence[Any]) -> str | None:
    """Return the URI of a row; None if its key is NULL, or too long for a page."""
    segments: list[str] = []
    for value in key:
        if value is None or isinstance(value, dict):
            return None
        segments.append(uris.encode_text(written(value)))
    return uris.join(f"{table}/", segments)


def _count(table: ResourceMetadata | None, query: Mapping[str, str]) -> str | None:
    """Return the number of rows for people; None if it is not known, or of the filters only."""
    facts: Mapping[str, Any] = {} if table is None else table.details.get("table", {})
    count = facts.get("rowCount")
    if count is None or any(name.startswith(_WHERE) for name in query):
        return None
    number = f"{count:,} row" if count == 1 else f"{count:,} rows"
    words = {"estimate": "about ", "atLeast": "at least "}
    return words.get(facts.get("rowCountKind", ""), "") + number


def _next(uri: str, data: Mapping[str, Any]) -> str | None:
    """Return the URI of the next page, with the parameters of this one."""
    following = data.get("next")
    if following is None:
        return None
    after = uris.parse(following).query.get("after")
    return None if after is None else with_parameters(uri, {"after": after, "until": None})


def _previous(uri: str, query: Mapping[str, str], data: Mapping[str, Any]) -> str | None:
    """Return the URI of the page before: it ends with the row that this one follows."""
    until = query.get("after")
    if until is None:
        if "previous" not in data:
            return None
        until = uris.parse(data["previous"]).query["until"]
    return with_parameters(uri, {"after": None, "until": until})


def _exports(content: DocumentContent) -> Sequence[tuple[str, str]]:
    """Return the names and URIs of the whole page in formats to download."""
    shown = [("json", with_parameters(content.uri, {"format": None, "cell": None}))]
    shown += [
        (each.name, with_parameters(each.uri, {"cell": None}))
        for each in content.formats
        if each.name not in ("columns", "json")
    ]
    return shown
