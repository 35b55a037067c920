"""Search of a database: by the names of what it shows, and in the values that rows show."""

from __future__ import annotations

from collections.abc import Sequence

from resource_server.provider import Path
from resource_server.provider.search import Hit, SearchPage, SearchRequest
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
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.queries.declared import DeclaredQueries
from resource_server.providers.database.reading.exposed_table import ExposedTables
from resource_server.providers.database.reading.tree import DatabaseTree
from resource_server.providers.database.search.name_search import NameSearch, Placed, path_in
from resource_server.providers.database.search.row_search import RowSearch
from resource_server.runtime.eager import Turns
from resource_server.search.text_match import LineQuery

_LOOP_CHARACTERS = 64 * 1024
"""Documents of more than this leave the event loop to be looked through."""


class DatabaseSearch:
    """Searches one database."""

    def __init__(
        self, exposed_tables: ExposedTables, queries: DeclaredQueries, tree: DatabaseTree
    ) -> None:
        self._exposed = exposed_tables
        self._queries = queries
        self._tree = tree

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        """Return what is found; see `SupportsSearch.search`."""
        address = self._tree.address(below)
        tables = await self._tables(address)
        if request.where == "names":
            await self._find(address, below)
            names = NameSearch(self._exposed, self._queries, self._tree, request)
            return await names.found(
                address, below, tables, after=after, limit=limit, deadline=deadline
            )
        rows = RowSearch(self._exposed, self._tree, request, limit=limit, deadline=deadline)
        if isinstance(address, DefinitionAddress | PageAddress | CellAddress):
            return await self._in_document(request, below)
        await self._find(address, below)
        within = address.key if isinstance(address, RowAddress) else ()
        return await rows.found(self._with_rows(tables), below, within, after)

    async def _find(self, address: Address, below: Path) -> None:
        """Make sure that there is something to search in, by the shortest way.

        Raises:
            ResourceNotFound: there is not.
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

    async def _tables(self, address: Address) -> Sequence[Placed]:
        """Return the tables that are searched, in the order of their paths.

        What is not listed is, where it is asked for by its name.
        """
        if isinstance(address, QueriesAddress | QueryAddress):
            return ()
        turns = Turns()
        found: list[Placed] = []
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
        return sorted(found, key=path_in)

    def _with_rows(self, tables: Sequence[Placed]) -> Sequence[TableName]:
        """Return those in whose rows there is something to search."""
        named = [(info.name, self._exposed.options(info.name)) for _, info in tables]
        return [name for name, options in named if options.search and options.rows]

    async def _in_document(self, sought: SearchRequest, path: Path) -> SearchPage:
        """Look into a definition, a page or a single value as they are read."""
        document = await self._tree.document(path, {})
        data = None if document is None else document.content.data
        if document is None or not isinstance(data, str):
            return SearchPage(hits=(), looked_at=1)
        text, lines = data.encode("utf-8", "replace"), LineQuery(sought)
        if len(text) <= _LOOP_CHARACTERS and not sought.is_pattern:
            found = lines.found(text)
        else:
            # Imported here: not every search needs a thread.
            from anyio import to_thread

            found = await to_thread.run_sync(lines.found, text, abandon_on_cancel=True)
        return SearchPage(
            hits=[Hit(document.resource, found)] if found else (), looked_at=1, total=1
        )
