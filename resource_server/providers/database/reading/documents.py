"""Documents of a database: pages, rows, single values, table definitions and query results."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import combinations, islice
from typing import Any, NamedTuple, TypeAlias, cast

from resource_server import uris
from resource_server.errors import DeadlineExceeded, InvalidParameter, ResourceNotFound
from resource_server.provider import Content, Format, Link, Path, Resource, Truncation
from resource_server.provider.tools import MediaBlock, TextBlock, ToolResult
from resource_server.providers.database.addressing.address import (
    Address,
    CellAddress,
    DefinitionAddress,
    PageAddress,
    QueryAddress,
    RowAddress,
    SummaryAddress,
    TableAddress,
    address_path,
)
from resource_server.providers.database.addressing.page_cursor import (
    INVALID_CURSOR,
    decode_row_count,
    encode_row_count,
)
from resource_server.providers.database.engines.contract import Engine, Rows
from resource_server.providers.database.engines.reflection import Column, ForeignKey, TableName
from resource_server.providers.database.formats import charts, pages
from resource_server.providers.database.formats.pages import FORMATS, FormatName
from resource_server.providers.database.formats.table_schema import schema_json, schema_markdown
from resource_server.providers.database.formats.values import CellDocument, whole_cell
from resource_server.providers.database.options import ReadLimits, TableOptions
from resource_server.providers.database.queries import parameters
from resource_server.providers.database.queries.declared import DeclaredQueries, ParameterReader
from resource_server.providers.database.reading.exposed_table import (
    ExposedTable,
    ExposedTableCache,
    version_of,
)
from resource_server.providers.database.reading.selection import (
    WHERE,
    is_filter,
    is_sortable,
    parse_list,
    parse_selection,
)
from resource_server.providers.database.reading.summary import AGGREGATES, parse_summary
from resource_server.runtime.eager import settle
from resource_server.runtime.extras import operator_hint

_JSON = "application/json"
_PAGE_FORMATS = tuple(format for name, format in FORMATS.items() if name != "json")
_DEFINITION_FORMATS = (Format("json", _JSON, "Complete, for programs"),)
_COUNT = Column("count", "", "integer")
_NextQuery: TypeAlias = Callable[[int], dict[str, str] | None]
"""Returns the URI parameters of the page after a number of rows."""
_MAX_SPELLINGS = 8
"""Maximum keys that one with plain slashes may mean."""
_MARGIN = 256
"""Characters of a query's result around its rows."""
_CELL = "~cell"
"""URI parameter of one value of a query's result: no parameter of SQL has such a name."""
REST = "Values that end early have more: select a part of them, such as substr(note, 10001, 10000)."
"""The way to the rest of a value without an address."""
UNTIL = "until"
"""URI parameter of a page that ends with the row of a cursor, for people who go back."""
PAGE_PARAMETERS = ("after", "limit", "columns", "cell", "sort", "count", "format")
"""URI parameters of pages, besides filters."""
SUMMARY_PARAMETERS = ("by", *AGGREGATES, "sort", "after", "limit", "format")
"""URI parameters of summaries, besides filters."""


class FetchedDocument(NamedTuple):
    """A document and its resource, both from the same read."""

    resource: Resource
    content: Content


class TableRow(NamedTuple):
    """One row: its visible values, masked, and the canonical segments of its key."""

    exposed: ExposedTable
    values: tuple[object, ...]
    key: Path

    @property
    def version(self) -> str:
        """Digest of the visible values."""
        return version_of(self.values)


class Documents:
    """Reads and describes the documents of one database."""

    def __init__(
        self,
        engine: Engine,
        exposed_tables: ExposedTableCache,
        queries: DeclaredQueries,
        limits: ReadLimits,
        link: Link,
    ) -> None:
        self._engine = engine
        self._exposed = exposed_tables
        self._queries = queries
        self._limits = limits
        self._link = link

    async def read(self, address: Address, query: Mapping[str, str]) -> FetchedDocument | None:
        """Return a document, or None if the address is of a collection, existing or not.

        Only the document without URI parameters has a version.

        Raises:
            ResourceNotFound: there is no such document, or it is hidden.
            InvalidParameter: a URI parameter is unknown or its value cannot be used.
        """
        match address:
            case RowAddress(table, key):
                exposed = await self._exposed.get(table)
                if exposed.has_rows and len(key) < len(exposed.key):
                    return None
                return await self._read_row(address, query)
            case PageAddress():
                return await self.read_page(address, query)
            case SummaryAddress():
                return await settle(self._read_summary(address, query))
            case DefinitionAddress():
                return await settle(self._read_definition(address, query))
            case CellAddress():
                return await settle(self._read_cell(address, query))
            case QueryAddress(name):
                return await self._read_query(name, query)
            case _:
                return None

    # -- rows

    async def row(self, table: TableName, key: Path) -> TableRow:
        """Return a row by its key; a key with slashes may be written in several segments.

        Raises:
            ResourceNotFound: no row has this key.
        """
        exposed = await self._exposed.get(table)
        if not exposed.has_rows or not exposed.key or len(key) < len(exposed.key):
            raise ResourceNotFound
        found = await _only_row(exposed, key)
        held = exposed.segments(exposed.key_in(found.rows[0]))
        return TableRow(exposed, exposed.shown(found)[0], held)

    async def _read_row(self, address: RowAddress, query: Mapping[str, str]) -> FetchedDocument:
        """Return a row as a JSON object with links to the rows that it references."""
        _refuse_unknown(query, ())
        row = await self.row(address.table, address.key)
        links = await self._links(row)
        text = pages.write_row(
            row.exposed.table.columns,
            row.values,
            links,
            cell_uri=functools.partial(self._cell_uri, address.table, row.key),
            max_bytes=self._limits.bytes,
            cell=self._limits.cell,
        )
        resource = self.row_resource(
            address_path(RowAddress(address.table, row.key)), row.version, links
        )
        return FetchedDocument(resource, Content(text, "application/json", rows=1))

    async def _read_cell(self, address: CellAddress, query: Mapping[str, str]) -> FetchedDocument:
        """Return one value of a row, whole."""
        _refuse_unknown(query, ())
        row = await self.row(address.table, address.key)
        names = row.exposed.column_names
        if address.column not in names:
            raise ResourceNotFound
        value = row.values[names.index(address.column)]
        cell = await _whole(value, row.exposed.columns[address.column])
        resource = Resource(
            path=address_path(CellAddress(address.table, row.key, address.column)),
            name=address.column,
            mime_type=cell.mime_type,
            version=version_of([value]),
        )
        return FetchedDocument(resource, Content(cell.data, cell.mime_type))

    def _cell_uris(
        self, exposed: ExposedTable, found: Rows, columns: Sequence[str]
    ) -> pages.CellUri | None:
        """Return the function for the URIs of whole values in fetched rows, if rows have any."""
        if not exposed.key:
            return None

        def cell_uri(place: int, column: str) -> str | None:
            key = exposed.key_in(found.rows[place], columns)
            if None in key:
                return None
            try:
                return self._cell_uri(exposed.name, exposed.segments(key), column)
            except ValueError:
                return None

        return cell_uri

    def _cell_uri(self, table: TableName, key: Path, column: str) -> str | None:
        """Return the URI of one whole value, or None if no URI can have its address."""
        try:
            return self._link(address_path(CellAddress(table, key, column)))
        except ValueError:
            return None

    async def _links(self, row: TableRow) -> Mapping[str, str]:
        """Return the URIs of the referenced rows, by column and, if ambiguous, table."""
        links: dict[str, str] = {}
        names = row.exposed.column_names
        values = dict(zip(names, row.values, strict=True))
        foreign_keys = row.exposed.table.foreign_keys
        uses = Counter(foreign.columns for foreign in foreign_keys)
        for foreign in foreign_keys:
            path = await self._referred(foreign, values)
            if path is not None:
                name = ", ".join(foreign.columns)
                if uses[foreign.columns] > 1:
                    name += f" ({'.'.join(filter(None, foreign.table))})"
                links[name] = self._link(path)
        return links

    async def _referred(self, foreign: ForeignKey, values: Mapping[str, object]) -> Path | None:
        """Return the path of the referenced row, or None if it has no address."""
        held = [values.get(column) for column in foreign.columns]
        if None in held:
            return None
        try:
            target = await self._exposed.get(foreign.table)
            given = dict(zip(foreign.referred or target.table.key, held, strict=True))
            if not target.has_rows or not target.key or not given.keys() >= {*target.table.key}:
                return None
            key = target.segments([given[column.name] for column in target.key])
            return address_path(RowAddress(foreign.table, key))
        except (ResourceNotFound, ValueError):
            return None

    # -- pages

    async def read_page(self, address: PageAddress, query: Mapping[str, str]) -> FetchedDocument:
        """Return a page of rows, from a cursor on: in key order, then those without a key."""
        exposed = await self._exposed.get(address.table)
        if not exposed.has_rows:
            raise ResourceNotFound
        _refuse_unknown(query, (*PAGE_PARAMETERS, UNTIL), filters=True)
        if "count" in query:
            return await settle(self._read_count(address, exposed, query))
        format = format_of(query)
        limit = self._limit(query)
        columns = _columns(exposed, query)
        selection = parse_selection(exposed.view, query)
        given, until, first = query.get("after"), query.get(UNTIL), 0
        if until is None:
            after = None if given is None else exposed.position(given, selection)
            fetched = await exposed.page(
                limit + 1, after=after, columns=columns, selection=selection
            )
        elif given is not None:
            raise InvalidParameter("a page begins after a row, or ends with one; leave out one")
        else:
            end = exposed.position(until, selection)
            fetched = await exposed.page_until(limit + 1, end, columns=columns, selection=selection)
            count = len(fetched.rows.rows)
            # The row before those on the page is where the page before it ends.
            first = max(count - limit, min(count - 1, int(fetched.rows.more)), 0)
        found = fetched.rows
        shown = exposed.shown(found, columns)
        more = found.more or len(shown) > limit
        path = address_path(address)

        def neighbour(parameter: str) -> _NextQuery:
            @functools.cache
            def query_of(passed: int) -> dict[str, str] | None:
                if not passed:
                    return None
                token = exposed.cursor_after_row(fetched, passed, columns, selection)
                return None if token is None else _beside(query, parameter, token)

            return query_of

        next_query, asked, cell = neighbour("after"), query.get("limit"), self._cell(query)
        page = pages.RowPage(
            exposed.options.title or address.table.name,
            [exposed.columns[name] for name in columns],
            shown[:limit] if until is None else shown,
            more if until is None else bool(shown),
            self._next_uri(path, query, next_query),
            self._cell_uris(exposed, found, columns),
        )
        if until is not None:
            previous = self._next_uri(path, query, neighbour(UNTIL))
            page, first = self._end_of(page, first, previous, format, cell)
            next_query = _shifted(next_query, first)
        # Subscribers watch the page without parameters by its version, others by their content.
        version = version_of([*shown, more]) if query.keys() <= {"format"} else None
        resource = self.page_resource(address.table, exposed.options, version)
        return self._written(resource, page, format, next_query, asked, cell=cell)

    def _end_of(
        self,
        page: pages.RowPage,
        first: int,
        previous: Callable[[int], str | None],
        format: str,
        cell: int | None,
    ) -> tuple[pages.RowPage, int]:
        """Return the rows of a page from `first` on, or the last of them that fit, and the first.

        Rows are taken to follow, since the reader came from there.
        """
        limits, name = self._limits, cast("FormatName", format)
        while True:
            part = pages.from_row(page, first, previous(first))
            written = pages.write_page(part, name, max_bytes=limits.bytes, cell=cell or limits.cell)
            if written.rows == len(part.rows):
                return part, first
            first += len(part.rows) - written.rows

    def _next_uri(
        self, path: Path, query: Mapping[str, str], next_query: _NextQuery
    ) -> Callable[[int], str | None]:
        """Return the function for the URI of the page after a number of rows."""

        def next_uri(count: int) -> str | None:
            following = next_query(count)
            if following is None:
                return None
            kept = {"format": query["format"]} if "format" in query else {}
            return self._link(path, {**following, **kept})

        return next_uri

    def _written(
        self,
        resource: Resource,
        page: pages.RowPage,
        format: str,
        next_query: _NextQuery | None = None,
        asked: str | None = None,
        *,
        cell: int | None = None,
    ) -> FetchedDocument:
        """Return the document of rows within the limits; `asked` is the number asked for."""
        if format in charts.FORMATS:
            written = charts.write_chart(page, max_bytes=self._limits.bytes)
        else:
            name, cell = cast("FormatName", format), cell or self._limits.cell
            written = pages.write_page(page, name, max_bytes=self._limits.bytes, cell=cell)
        truncated = None
        if written.more:
            following = None if next_query is None else next_query(written.rows)
            is_whole = asked is not None and written.rows == int(asked)
            truncated = Truncation("requested" if is_whole else "limit", "rows", next=following)
        return FetchedDocument(
            resource, Content(written.text, written.mime_type, truncated, rows=written.rows)
        )

    # -- counts and groups

    async def _read_count(
        self, address: PageAddress, exposed: ExposedTable, query: Mapping[str, str]
    ) -> FetchedDocument:
        """Return the number of rows that match, as a page of one row."""
        if query["count"] not in ("", "true"):
            raise InvalidParameter("count has no value; write ~rows?count")
        for name in ("after", UNTIL, "limit", "columns", "cell", "sort"):
            if name in query:
                raise InvalidParameter(f"count counts all rows that match; leave out {name}")
        selection = parse_selection(exposed.view, query)
        found = await exposed.summary((), (), 1, skip=0, selection=selection)
        title = f"Rows of {exposed.options.title or address.table.name}"
        page = pages.RowPage(title, [_COUNT], found.rows)
        return self._written(
            self.page_resource(address.table, exposed.options), page, format_of(query)
        )

    async def _read_summary(
        self, address: SummaryAddress, query: Mapping[str, str]
    ) -> FetchedDocument:
        """Return groups of rows with their counts, sums and other aggregates."""
        exposed = await self._exposed.get(address.table)
        if not exposed.has_rows:
            raise ResourceNotFound
        _refuse_unknown(query, SUMMARY_PARAMETERS, filters=True)
        format, limit = format_of(query, has_charts=True), self._limit(query)
        if format in charts.FORMATS:
            limit = min(limit, charts.MAX_MARKS) if "limit" in query else charts.MAX_MARKS
        summary = parse_summary(exposed.view, query)
        given = query.get("after")
        fingerprint = version_of([exposed.fingerprint, summary.by, summary.selection.order])
        skip = 0 if given is None else decode_row_count(given, fingerprint=fingerprint)
        if skip is None:
            raise InvalidParameter(INVALID_CURSOR)
        found = await exposed.summary(
            summary.by, summary.aggregates, limit + 1, skip=skip, selection=summary.selection
        )
        more = found.more or len(found.rows) > limit

        @functools.cache
        def next_query(count: int) -> dict[str, str] | None:
            token = encode_row_count(skip + count, fingerprint=fingerprint)
            return _beside(query, "after", token) if count else None

        path = address_path(address)
        title = f"Summary of {exposed.options.title or address.table.name}"
        columns = summary.columns(exposed.columns)
        rows = [summary.row(each, columns) for each in found.rows[:limit]]
        page = pages.RowPage(
            title,
            columns,
            rows,
            more,
            self._next_uri(path, query, next_query),
            groupings=len(summary.by),
            condition=_condition({k: v for k, v in query.items() if is_filter(k)}),
        )
        version = None if query else version_of(rows)
        resource = self.summary_resource(address.table, exposed.options, version)
        written = self._written(resource, page, format, next_query, query.get("limit"))
        return await _drawn(written, format)

    def _limit(self, query: Mapping[str, str]) -> int:
        given = query.get("limit")
        if given is None:
            return min(self._limits.rows, self._limits.max_rows)
        if not (given.isascii() and given.isdigit() and len(given) < 9 and int(given) > 0):
            raise InvalidParameter("limit must be a number of rows, at least 1")
        return min(int(given), self._limits.max_rows)

    def _cell(self, query: Mapping[str, str]) -> int:
        """Return the maximum characters of a value, which `cell` may lower."""
        given = query.get("cell")
        if given is None:
            return self._limits.cell
        if not (given.isascii() and given.isdigit() and len(given) < 9 and int(given) >= 16):
            raise InvalidParameter("cell must be a number of characters, at least 16")
        return min(int(given), self._limits.cell)

    # -- definitions

    async def _read_definition(
        self, address: DefinitionAddress, query: Mapping[str, str]
    ) -> FetchedDocument:
        """Return the definition of a table as Markdown or JSON."""
        _refuse_unknown(query, ("format",))
        exposed = await self._exposed.get(address.table)
        options = exposed.options
        links = await self._table_links(exposed)
        format = query.get("format", "markdown")
        if format not in ("markdown", "json"):
            raise InvalidParameter("format must be markdown or json")
        described = {"title": options.title, "description": options.description}
        columns = exposed.table.columns
        unsortable = [each.name for each in columns if not is_sortable(exposed.view, each)]
        masked = exposed.view.masked
        text = schema_json(exposed.table, links, unsortable=unsortable, masked=masked, **described)
        # Its version is that of all of it: Markdown leaves out the DDL.
        resource = self.definition_resource(address.table, version_of(text))
        if format == "json":
            return FetchedDocument(resource, Content(text, "application/json"))
        shown = schema_markdown(exposed.table, links, **described)
        return FetchedDocument(resource, Content(shown, "text/markdown"))

    async def definition(self, table: TableName) -> Resource:
        """Describe the `~schema` document of a table with its version."""
        document = await settle(self._read_definition(DefinitionAddress(table), {}))
        return document.resource

    async def _table_links(self, exposed: ExposedTable) -> Mapping[TableName, str]:
        links: dict[TableName, str] = {}
        visible = {info.name for info in await self._exposed.infos()}
        for foreign in exposed.table.foreign_keys:
            if foreign.table in visible:
                links[foreign.table] = self._link(address_path(TableAddress(foreign.table)))
        return links

    # -- queries

    async def _read_query(self, name: str, query: Mapping[str, str]) -> FetchedDocument:
        """Return the result of a declared query."""
        format = format_of(query, has_charts=True)
        given = {key: value for key, value in query.items() if key not in ("format", _CELL)}
        page = await self._result(name, given, parameters.value_from_text)
        if _CELL in query:
            return await self._query_cell(name, page, query)
        shown = ([column.name for column in page.columns], page.rows, page.more)
        version = version_of(shown) if not given else None
        written = self._written(self.query_resource(name, version), page, format)
        return await _drawn(written, format)

    async def _query_cell(
        self, name: str, page: pages.RowPage, query: Mapping[str, str]
    ) -> FetchedDocument:
        """Return one value of a query's result, whole: `~cell=1/note` is that of its first row."""
        names = [column.name for column in page.columns]
        place, _, column = query[_CELL].partition("/")
        number = int(place) if place.isascii() and place.isdigit() and len(place) < 9 else 0
        if "format" in query or column not in names or not 0 < number <= len(page.rows):
            raise InvalidParameter(
                f"{_CELL} must be the number of a row and a column of the result, such as "
                f"1/{names[0]}, without format"
            )
        value = page.rows[number - 1][names.index(column)]
        cell = await _whole(value, page.columns[names.index(column)])
        path = address_path(QueryAddress(name))
        resource = Resource(path=path, name=column, mime_type=cell.mime_type)
        return FetchedDocument(resource, Content(cell.data, cell.mime_type))

    async def query_result(self, name: str) -> Resource:
        """Describe the document of a query that needs no parameters, with its version."""
        return (await settle(self._read_query(name, {}))).resource

    async def call_query(
        self, name: str, arguments: Mapping[str, Any], *, budget: int
    ) -> ToolResult:
        """Return the rows of a query as structured data and as a Markdown table.

        As many whole rows as `budget` characters have room for, in either form, and at least one.

        Raises:
            ResourceNotFound: no query of this name is a tool.
            InvalidParameter: names every argument that cannot be used.
        """
        if not self._queries.get(name).is_tool:
            raise ResourceNotFound
        page = await self._result(name, arguments, parameters.value_from_json)
        return self.table_result(page, budget=budget)

    def table_result(self, page: pages.RowPage, *, budget: int) -> ToolResult:
        """Return rows as structured data and as a Markdown table; as `call_query`."""
        room = max(1, min(self._limits.bytes, budget - _MARGIN))
        table = pages.write_table(page, max_bytes=room, cell=self._limits.cell)
        structured: dict[str, Any] = {"columns": table.columns, "rows": table.rows}
        if table.more:
            structured["truncated"] = True
        if page.cell_uri is not None or not table.has_truncated:
            return ToolResult([TextBlock(table.markdown)], structured)
        structured["note"] = REST
        return ToolResult([TextBlock(f"{table.markdown}\n{REST}\n")], structured)

    async def chart_result(self, page: pages.RowPage, *, budget: int) -> ToolResult:
        """Return rows as structured data and as the picture of their chart."""
        chart = charts.write_chart(page, max_bytes=self._limits.bytes)
        picture = await _picture(Content(chart.text), "png")
        shown = "all" if not chart.more else "the first"
        line = f"[A chart of {shown} {chart.rows} rows; their numbers: the same without format]"
        if not charts.has_numbers(page):
            first = "all" if not page.more else "the first"
            counted = "how often each value of the first column occurs"
            line = f"[A chart of {counted} in {first} {len(page.rows)} rows]"
        block = MediaBlock(cast("bytes", picture.data), "image/png")
        structured = self.table_result(page, budget=budget).structured
        return ToolResult([block, TextBlock(line)], structured)

    async def _result(
        self, name: str, given: Mapping[str, Any], read: ParameterReader
    ) -> pages.RowPage:
        declared = self._queries.get(name)
        try:
            found = await self._queries.rows(name, given, read, within=self._limits.query_timeout)
        except DeadlineExceeded:
            raise self._limits.exceeded("query_timeout") from None
        columns = pages.query_columns(pages.unique_names(tuple(found.columns)))
        texts = {key: parameters.parameter_text(value) for key, value in given.items()}
        path = address_path(QueryAddress(name))

        def cell_uri(place: int, column: str) -> str | None:
            try:
                return self._link(path, {**texts, _CELL: f"{place + 1}/{column}"})
            except ValueError:
                return None

        return pages.RowPage(
            declared.title,
            columns,
            found.rows,
            found.more,
            cell_uri=cell_uri,
            condition=_condition(texts),
        )

    # -- resources

    def page_resource(
        self, table: TableName, options: TableOptions, version: str | None = None
    ) -> Resource:
        """Describe the `~rows` document of a table."""
        return Resource(
            path=address_path(PageAddress(table)),
            name=f"{table.name} rows",
            title=f"Rows of {options.title or table.name}",
            mime_type=_JSON,
            formats=_PAGE_FORMATS,
            version=version,
        )

    def summary_resource(
        self, table: TableName, options: TableOptions, version: str | None = None
    ) -> Resource:
        """Describe the `~summary` document of a table."""
        return Resource(
            path=address_path(SummaryAddress(table)),
            name=f"{table.name} summary",
            title=f"Summary of {options.title or table.name}",
            mime_type=_JSON,
            formats=(*_PAGE_FORMATS, *charts.offered()),
            version=version,
            listed=False,
        )

    def definition_resource(self, table: TableName, version: str | None = None) -> Resource:
        """Describe the `~schema` document of a table."""
        return Resource(
            path=address_path(DefinitionAddress(table)),
            name=f"{table.name} schema",
            title=f"Schema of {self._exposed.options(table).title or table.name}",
            mime_type="text/markdown",
            formats=_DEFINITION_FORMATS,
            version=version,
        )

    def row_resource(
        self, path: Path, version: str, links: Mapping[str, str] | None = None
    ) -> Resource:
        """Describe a row; `links` are the URIs of the rows that it references, by column."""
        return Resource(
            path=path,
            name="/".join(path[2:] if self._engine.has_schemas else path[1:]),
            mime_type=_JSON,
            version=version,
            listed=False,
            details={"links": links} if links else None,
        )

    def query_resource(self, name: str, version: str | None = None) -> Resource:
        """Describe the document of a declared query."""
        declared = self._queries.get(name)
        return Resource(
            path=address_path(QueryAddress(name)),
            name=name,
            title=declared.title,
            description=declared.description,
            mime_type=_JSON,
            formats=(*_PAGE_FORMATS, *charts.offered()),
            version=version,
        )


async def _only_row(exposed: ExposedTable, segments: Path) -> Rows:
    """Return the row of a key, or the only one whose key may be written in more segments.

    Raises:
        ResourceNotFound: there is none, or there are several.
    """
    if len(segments) == len(exposed.key):
        return await exposed.row(segments)
    found: list[Rows] = []
    breaks = combinations(range(1, len(segments)), len(exposed.key) - 1)
    for places in islice(breaks, _MAX_SPELLINGS):
        parts = zip((0, *places), (*places, len(segments)), strict=True)
        key = tuple([uris.encode_text("/".join(segments[first:last])) for first, last in parts])
        with suppress(ResourceNotFound):
            found.append(await exposed.row(key))
    if len(found) != 1:
        raise ResourceNotFound
    return found[0]


async def _whole(value: object, column: Column) -> CellDocument:
    # Imported here: most databases never need a thread for this.
    from anyio import to_thread

    return await to_thread.run_sync(whole_cell, value, column, abandon_on_cancel=True)


async def _drawn(document: FetchedDocument, format: str) -> FetchedDocument:
    """Return a chart as a picture where that is its format."""
    if format not in charts.FORMATS or format == charts.VEGA_LITE.name:
        return document
    return FetchedDocument(document.resource, await _picture(document.content, format))


async def _picture(specification: Content, format: str) -> Content:
    from anyio import to_thread

    return await to_thread.run_sync(charts.draw, specification, format, abandon_on_cancel=True)


def format_of(query: Mapping[str, str], *, has_charts: bool = False) -> str:
    """Return the requested format.

    Raises:
        InvalidParameter: there is no such format, or its packages are not installed.
    """
    given = query.get("format", "json")
    names = (*FORMATS, *(charts.FORMATS if has_charts else ()))
    if given not in names:
        raise InvalidParameter(f"format must be one of {', '.join(names)}")
    if given in charts.FORMATS and given not in [each.name for each in charts.offered()]:
        raise InvalidParameter(
            f"this server makes no pictures of charts; {operator_hint('charts')}, and "
            f"format={charts.VEGA_LITE.name} needs none"
        )
    return given


def _condition(given: Mapping[str, str]) -> str:
    """Return filters or parameters as text for a person: `status=paid, total.gt=9`."""
    return ", ".join(f"{name.removeprefix(WHERE)}={value}" for name, value in given.items())


def _columns(exposed: ExposedTable, query: Mapping[str, str]) -> Sequence[str]:
    names = exposed.column_names
    given = query.get("columns")
    if given is None:
        return names
    wanted = tuple(dict.fromkeys(parse_list(given, "columns") or [""]))
    for name in wanted:
        if name not in names:
            raise InvalidParameter(
                f"no column {name[:40]!r}; columns are separated by commas, as in CSV"
            )
    return wanted


def _beside(query: Mapping[str, str], parameter: str, cursor: str) -> dict[str, str]:
    """Return the URI parameters of the next page or the one before, but its format."""
    left_out = ("after", UNTIL, "format")
    kept = {name: value for name, value in query.items() if name not in left_out}
    return {parameter: cursor, **kept}


def _shifted(next_query: _NextQuery, first: int) -> _NextQuery:
    return lambda count: next_query(first + count)


def _refuse_unknown(
    query: Mapping[str, str], known: Sequence[str], *, filters: bool = False
) -> None:
    for name in query:
        if name not in known and not (filters and is_filter(name)):
            named = [*known, "where.COLUMN"] if filters else known
            takes = f"; the parameters are {', '.join(named)}" if known else ""
            raise InvalidParameter(f"unknown query parameter {name[:40]!r}{takes}")
