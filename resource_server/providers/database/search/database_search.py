"""Search in a database: names of tables, columns and queries, and visible row values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from resource_server import uris
from resource_server.errors import ResourceNotFound
from resource_server.provider import Path, Resource
from resource_server.provider.search import Hit, MatchedLine, SearchPage, SearchRequest
from resource_server.providers.database.addressing.address import (
    Address,
    CellAddress,
    DatabaseAddress,
    DefinitionAddress,
    PageAddress,
    QueriesAddress,
    QueryAddress,
    RowAddress,
    SchemaAddress,
    TableAddress,
    address_path,
)
from resource_server.providers.database.addressing.key_codec import encode_text
from resource_server.providers.database.engines.reflection import Column, TableInfo, TableName
from resource_server.providers.database.queries.declared import DeclaredQueries
from resource_server.providers.database.reading.documents import Documents
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from resource_server.providers.database.reading.tree import DatabaseTree
from resource_server.providers.database.search.row_search import RowSearch
from resource_server.runtime.eager import Turns
from resource_server.search.name_match import NameQuery
from resource_server.search.text_match import MAX_LINES, LineQuery
from resource_server.search.top_k import TopK, to_path

_LOOP_CHARACTERS = 64 * 1024
"""Maximum characters of a document searched in the event loop; longer ones use a thread."""

_COLUMNS = "~columns"
"""Prefix of a continuation inside the search for columns; no path begins with it."""


_WITH_COLUMNS = (DatabaseAddress, SchemaAddress, TableAddress, DefinitionAddress)
TableAtPath: TypeAlias = tuple[Path, TableInfo]
"""A table and its path."""
_Named: TypeAlias = tuple[Path, Callable[[], Resource]]


class DatabaseSearch:
    """Searches one database."""

    def __init__(
        self,
        exposed_tables: ExposedTableCache,
        queries: DeclaredQueries,
        tree: DatabaseTree,
        documents: Documents,
    ) -> None:
        self._exposed = exposed_tables
        self._queries = queries
        self._tree = tree
        self._documents = documents

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        """Return one page of results, as `SupportsSearch.search`."""
        address = self._tree.address(below)
        tables = await self._tables(address)
        if request.where == "names":
            await self._find(address, below)
            names = _NameSearch(self._exposed, self._queries, self._tree, self._documents, request)
            return await names.found(
                address, below, tables, after=after, limit=limit, deadline=deadline
            )
        rows = RowSearch(self._exposed, self._documents, request, limit=limit, deadline=deadline)
        if isinstance(address, DefinitionAddress | PageAddress | CellAddress):
            return await self._in_document(request, below)
        await self._find(address, below)
        within = address.key if isinstance(address, RowAddress) else ()
        return await rows.found(self._with_rows(tables), below, within, after)

    async def _find(self, address: Address, below: Path) -> None:
        """Check cheaply that the address exists.

        Raises:
            ResourceNotFound: it does not.
        """
        match address:
            case DatabaseAddress():
                pass
            case QueryAddress(name):
                self._queries.get(name)
            case TableAddress(table) | DefinitionAddress(table):
                await self._exposed.get(table)
            case _:
                await self._tree.resource(below)

    async def _tables(self, address: Address) -> Sequence[TableAtPath]:
        """Return the tables to search, ordered by path.

        An unlisted table is searched only if the address names it.
        """
        if isinstance(address, QueriesAddress | QueryAddress):
            return ()
        turns = Turns()
        found: list[TableAtPath] = []
        for info in await self._exposed.infos():
            match address:
                case DatabaseAddress():
                    is_meant = self._exposed.options(info.name).listed
                case SchemaAddress(schema):
                    is_meant = info.name.schema == schema
                    is_meant = is_meant and self._exposed.options(info.name).listed
                case _:
                    is_meant = info.name == address.table
            if is_meant:
                found.append((address_path(TableAddress(info.name)), info))
            await turns.others()
        return sorted(found, key=_path_in)

    def _with_rows(self, tables: Sequence[TableAtPath]) -> Sequence[TableName]:
        """Return the tables with searchable rows."""
        named = [(info.name, self._exposed.options(info.name)) for _, info in tables]
        return [name for name, options in named if options.search and options.rows]

    async def _in_document(self, sought: SearchRequest, path: Path) -> SearchPage:
        """Search the text of a definition, a page or a single value."""
        document = await self._documents.read(self._tree.address(path), {})
        data = None if document is None else document.content.data
        if document is None or not isinstance(data, str):
            return SearchPage(hits=(), looked_at=1)
        text, lines = data.encode("utf-8", "replace"), LineQuery(sought)
        if len(text) <= _LOOP_CHARACTERS and not sought.is_pattern:
            found = lines.matches(text)
        else:
            # Imported here: not every search needs a thread.
            from anyio import to_thread

            found = await to_thread.run_sync(lines.matches, text, abandon_on_cancel=True)
        return SearchPage(
            hits=[Hit(document.resource, found)] if found else (), looked_at=1, total=1
        )


class _NameSearch:
    """One search for names in progress.

    All names except those of columns are in memory. Columns need the reflection of every table, so
    they come last, table by table, and the deadline may pass in between.
    """

    def __init__(
        self,
        exposed_tables: ExposedTableCache,
        queries: DeclaredQueries,
        tree: DatabaseTree,
        documents: Documents,
        sought: SearchRequest,
    ) -> None:
        self._exposed = exposed_tables
        self._queries = queries
        self._tree = tree
        self._documents = documents
        self._sought = sought
        self._names = NameQuery(sought.text)
        self._turns = Turns()
        self._hits: list[Hit] = []
        self._looked_at = 0

    async def found(
        self,
        address: Address,
        below: Path,
        tables: Sequence[TableAtPath],
        *,
        after: str | None,
        limit: int,
        deadline: float,
    ) -> SearchPage:
        """Return one page of results among these tables and the rest of the address."""
        place = to_path(after or "") if (after or "").startswith(_COLUMNS) else None
        following: str | None = None
        if place is None:
            best = TopK[Hit](self._names, after, limit)
            await self._add_names(best, address, tables)
            self._hits, following = best.page(None)
        if following is None and isinstance(address, _WITH_COLUMNS):
            following = await self._find_columns(tables, place or (_COLUMNS,), limit, deadline)
        return SearchPage(
            hits=[_spelled(hit, below) for hit in self._hits],
            next=following,
            looked_at=self._looked_at,
            total=self._looked_at if after is None and following is None else None,
        )

    async def _add_names(
        self, best: TopK[Hit], address: Address, tables: Sequence[TableAtPath]
    ) -> None:
        for path, describe in sorted(self._named(address, tables), key=_path_in):
            if path > best.start:
                rank = self._names.rank(path)
                if rank is not None:
                    best.add(path, rank, Hit(describe()))
                self._saw()
            await self._turns.others()

    def _named(self, address: Address, tables: Sequence[TableAtPath]) -> Iterator[_Named]:
        if isinstance(address, DatabaseAddress):
            for schema in dict.fromkeys(info.name.schema for _, info in tables):
                if schema is not None:
                    yield address_path(SchemaAddress(schema)), partial(self._tree.schema, schema)
        if isinstance(address, DatabaseAddress | SchemaAddress):
            for path, info in tables:
                yield path, partial(self._tree.table, info)
        if isinstance(address, DatabaseAddress | QueriesAddress | QueryAddress):
            for query in [address.name] if isinstance(address, QueryAddress) else self._queries:
                yield (
                    address_path(QueryAddress(query)),
                    partial(self._documents.query_resource, query),
                )

    async def _find_columns(
        self, tables: Sequence[TableAtPath], after: Path, limit: int, deadline: float
    ) -> str | None:
        """Search the columns table by table; return where to continue, or None at the end."""
        has_got_on = False
        for path, info in tables:
            place = (_COLUMNS, *path)
            if place <= after:
                continue
            if len(self._hits) == limit or (has_got_on and time.monotonic() >= deadline):
                return "/".join(after)
            with suppress(ResourceNotFound):  # dropped meanwhile, or broken
                await self._look_at(info.name, place)
            self._saw()
            after, has_got_on = place, True
            await self._turns.others()
        return None

    async def _look_at(self, table: TableName, place: Path) -> None:
        lines: list[MatchedLine] = []
        columns = (await self._exposed.get(table)).table.columns
        for number, column in enumerate(columns, 1):
            with suppress(ValueError):  # not Unicode
                if self._names.rank((*place, encode_text(column.name))) is not None:
                    lines.append(_line(number, column))
        if lines:
            self._hits.append(
                Hit(self._documents.definition_resource(table), tuple(lines[:MAX_LINES]))
            )

    def _saw(self) -> None:
        self._looked_at += 1
        self._sought.report_progress(1)


def _path_in(placed: tuple[Path, object]) -> Path:
    """Return the path of a pair, as a sort key."""
    return placed[0]


def _line(number: int, column: Column) -> MatchedLine:
    return MatchedLine(number, " ".join(uris.display(f"{column.name} {column.type}").split()))


def _spelled(hit: Hit, below: Path) -> Hit:
    """Return a hit whose path begins with `below` as spelled by the client."""
    path = hit.resource.path
    if path[: len(below)] == below:
        return hit
    return replace(hit, resource=replace(hit.resource, path=(*below, *path[len(below) :])))
