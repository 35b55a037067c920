"""The tree of a database: what its collections hold, and what may be known of each resource."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from resource_server.errors import (
    DeadlineExceeded,
    NotACollection,
    ResourceBusy,
    ResourceError,
    ResourceNotFound,
)
from resource_server.provider import Content, Format, Path, Resource
from resource_server.providers.database.addressing import key_codec
from resource_server.providers.database.addressing.address import (
    SCHEMA,
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
    parse_address,
)
from resource_server.providers.database.engines.contract import Engine
from resource_server.providers.database.engines.reflection import TableInfo, TableName
from resource_server.providers.database.formats.pages import FORMATS
from resource_server.providers.database.options import ReadLimits
from resource_server.providers.database.queries.declared import DeclaredQueries
from resource_server.providers.database.reading.documents import Documents
from resource_server.providers.database.reading.exposed_table import (
    ExposedTable,
    ExposedTables,
    version_of,
)
from resource_server.runtime.eager import settle

_COUNT_S = 0.02
"""For an exact count; what takes longer is estimated."""
_AT_LEAST = 10_000
"""Rows that are counted where there is not even an estimate."""
_COUNTED_S = 1.0
"""So long a count is believed."""
_JSON = "application/json"
_PAGE_FORMATS = tuple(format for name, format in FORMATS.items() if name != "json")
_DEFINITION_FORMATS = (Format("json", _JSON, "All of it, exactly"),)


class DescribedDocument(NamedTuple):
    """A document with what is known of it, of the same moment."""

    resource: Resource
    content: Content


class DatabaseTree:
    """Lists and describes what a database shows."""

    def __init__(
        self,
        engine: Engine,
        exposed_tables: ExposedTables,
        queries: DeclaredQueries,
        limits: ReadLimits,
        documents: Documents,
        *,
        watched: bool,
    ) -> None:
        self._engine = engine
        self._exposed = exposed_tables
        self._queries = queries
        self._limits = limits
        self._documents = documents
        self._watched = watched
        self.observers: set[Callable[[Path, str | None], None]] = set()
        """Told of each version that `resource` gives; None where there is nothing, or an error."""
        self._counts: dict[TableName, tuple[float, Mapping[str, Any]]] = {}

    def address(self, path: Path) -> Address:
        """Return what a path names; raises `ResourceNotFound` where it can be nothing."""
        return parse_address(path, has_schemas=self._engine.has_schemas)

    # -- children

    async def children(self, path: Path, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the direct children of a collection, as `Provider.list`."""
        last = None if after is None else after[-1]
        match self.address(path):
            case DatabaseAddress():
                if self._engine.has_schemas:
                    found = [self.schema(name) for name in await self._schemas()]
                else:
                    found = [self.table(info) for info in await self._exposed.infos()]
                if self._queries:
                    found.append(self._query_collection())
                return _after(found, last, limit)
            case SchemaAddress(schema):
                return _after(await self._tables_of(schema), last, limit)
            case QueriesAddress() if self._queries:
                return _after([self.query(name) for name in self._queries], last, limit)
            case TableAddress(table):
                return await self._rows(await self._exposed.get(table), (), path, last, limit)
            case RowAddress(table, key):
                exposed = await self._exposed.get(table)
                if not exposed.has_rows or len(key) > len(exposed.key):
                    raise ResourceNotFound
                if len(key) == len(exposed.key):
                    await self._documents.row(table, key)
                    raise NotACollection
                return await self._rows(exposed, key, path, last, limit)
            case _:
                await self.resource(path)
                raise NotACollection

    async def walk(self, after: Path, limit: int) -> Sequence[Resource]:
        """Return what is listed, as `SupportsWalk.walk`; nothing is asked of any table.

        Depth first is the order of the paths.
        """
        infos = await self._exposed.infos()
        tables = sorted(
            [(address_path(TableAddress(info.name)), info) for info in infos], key=_first
        )
        found: list[Resource] = []
        schema: str | None = None
        for path, info in tables:
            listed: list[Resource] = []
            if self._engine.has_schemas and path[0] != schema:
                schema = path[0]
                listed.append(self.schema(schema))
            if (*path, SCHEMA) > after:
                listed += self._listed(info)
            found += [resource for resource in listed if resource.path > after]
            if len(found) >= limit:
                return found[:limit]
        if self._queries:
            queries = [self.query(name) for name in sorted(self._queries)]
            listed = [self._query_collection(), *queries]
            found += [resource for resource in listed if resource.path > after]
        return found[:limit]

    def _listed(self, info: TableInfo) -> list[Resource]:
        """Return a table and its documents, if they are listed."""
        options = self._exposed.options(info.name)
        if not options.listed:
            return []
        pages = [self._page(info.name)] if options.rows else []
        return [self.table(info), *pages, self.definition(info.name)]

    async def _schemas(self) -> Sequence[str]:
        infos = await self._exposed.infos()
        return list(dict.fromkeys(info.name.schema or "" for info in infos))

    async def _tables_of(self, schema: str) -> list[Resource]:
        infos = await self._exposed.infos()
        found = [self.table(info) for info in infos if info.name.schema == schema]
        if not found:
            raise ResourceNotFound
        return found

    async def _rows(
        self, exposed: ExposedTable, within: Path, path: Path, last: str | None, limit: int
    ) -> Sequence[Resource]:
        """Return the documents of a table and then its rows, or the values of the next column."""
        found: list[Resource] = []
        if not within and (last is None or not self._is_row((*path, last))):
            documents = [await self._first_page(exposed)] if exposed.has_rows else []
            documents.append(self.definition(exposed.name))
            found = [each for each in documents if last is None or each.path[-1] > last]
            last = None
        if not exposed.has_rows or not exposed.key or len(found) >= limit:
            return found[:limit]
        columns = exposed.key
        bound = exposed.key_of(within)
        place = len(within)
        try:
            begin = None if last is None else key_codec.decode_key(last, columns[place])
        except ResourceNotFound:
            return found  # no key comes after what is none
        if last is not None and begin is None:
            return found  # nor after NULL
        room = limit - len(found)
        fetch = exposed.fetch_by_key if within else exposed.fetch
        if place < len(columns) - 1:
            value = None if begin is None else exposed.bound([begin])[0]
            statement = exposed.statements.prefixes(room, within=bound, after=value)
            rows = await fetch(statement, room)
            for (held,) in rows.rows:
                segment = _segment(held, exposed, place)
                if segment is not None:
                    found.append(self._prefix((*path, segment)))
            return found
        after = None if begin is None else (*bound, *exposed.bound([begin]))
        rows = await fetch(exposed.statements.page(room, within=bound, after=after), room)
        for values, held in zip(*exposed.split(rows), strict=True):
            segment = _segment(held[place], exposed, place)
            if segment is not None:
                found.append(self.row((*path, segment), version_of(values)))
        return found

    async def _first_page(self, exposed: ExposedTable) -> Resource:
        """Return the document of the rows; with a version where no child is a row by itself."""
        page = self._page(exposed.name)
        if len(exposed.key) == 1:
            return page
        try:
            read = await self._documents.read_page(PageAddress(exposed.name), {})
        except ResourceError:
            return page  # too slow, say
        return replace(page, version=read.version)

    def _is_row(self, path: Path) -> bool:
        try:
            return isinstance(self.address(path), RowAddress)
        except ResourceNotFound:
            return False

    # -- what is known

    async def resource(self, path: Path) -> Resource:
        """Return what is known of a resource, as `Provider.metadata`."""
        version = None
        try:
            resource = await self._resource(path)
            version = resource.version
            return resource
        finally:
            for observe in self.observers:
                observe(path, version)

    async def _resource(self, path: Path) -> Resource:
        match self.address(path):
            case DatabaseAddress():
                return self._database()
            case SchemaAddress(schema):
                await self._tables_of(schema)
                return self.schema(schema)
            case QueriesAddress() if self._queries:
                return self._query_collection()
            case QueryAddress(name) if not self._queries.get(name).is_complete:
                # Nothing is there to be read without its parameters, and no commit changes that.
                return replace(self.query(name), version=version_of([name]))
            case TableAddress(table):
                return await self._table_state(await self._exposed.get(table))
            case RowAddress(table, key) if await self._is_prefix(table, key):
                return await self._prefix_state(table, key)
            case _:
                described = await self.document(path, {})
                if described is None:
                    raise ResourceNotFound
                return described.resource

    async def document(self, path: Path, query: Mapping[str, str]) -> DescribedDocument | None:
        """Return a document with what is known of it; None for a collection, there or not."""
        documents = self._documents
        match self.address(path):
            case RowAddress(table, key) as row if not await self._is_prefix(table, key):
                found, key = await documents.read_row(row, query)
                resource = self.row(address_path(RowAddress(table, key)), found.version)
                if found.links:
                    resource = replace(resource, details={"links": found.links})
            case PageAddress(table) as page:
                found = await documents.read_page(page, query)
                resource = self._page(table)
            case DefinitionAddress(table) as definition:
                found = await settle(documents.read_definition(definition, query))
                resource = self.definition(table)
            case CellAddress() as cell:
                found = await settle(documents.read_cell(cell, query))
                resource = self._cell(cell, found.content.mime_type)
            case QueryAddress(name):
                found = await settle(documents.read_query(name, query))
                resource = self.query(name)
            case _:
                return None
        if not query.keys() <= {"format"}:
            # Of something else than what is there without a query.
            return DescribedDocument(resource, found.content)
        return DescribedDocument(replace(resource, version=found.version), found.content)

    async def _is_prefix(self, table: TableName, key: Path) -> bool:
        exposed = await self._exposed.get(table)
        return exposed.has_rows and len(key) < len(exposed.key)

    async def _prefix_state(self, table: TableName, key: Path) -> Resource:
        """Return the collection of the rows whose keys begin so.

        Raises:
            ResourceNotFound: there is no such row.
        """
        exposed = await self._exposed.get(table)
        first = exposed.statements.page(1, within=exposed.key_of(key))
        rows = await exposed.fetch_by_key(first, 1)
        if not rows.rows:
            raise ResourceNotFound
        segments = exposed.segments(exposed.key_in(rows.rows[0]))[: len(key)]
        return self._prefix(address_path(RowAddress(table, segments)))

    async def _table_state(self, exposed: ExposedTable) -> Resource:
        info = TableInfo(exposed.name, exposed.table.type, exposed.table.comment)
        details: dict[str, Any] = {
            "table": {
                "type": exposed.table.type,
                "key": list(exposed.table.key),
                "keyKind": exposed.table.key_kind,
                **(await self._count(exposed) if exposed.has_rows else {}),
            }
        }
        if self._watched and exposed.has_rows:
            # Without a key there are only pages to compare.
            details["changes"] = {"precision": "row" if exposed.key else "table"}
            if exposed.change in exposed.columns:
                details["changes"]["column"] = exposed.change
        return replace(self.table(info), details=details)

    async def _count(self, exposed: ExposedTable) -> Mapping[str, Any]:
        now = time.monotonic()
        known = self._counts.get(exposed.name)
        if known is not None and now < known[0]:
            return known[1]
        counted = await self._counted(exposed)
        if len(self._counts) > 1024:
            self._counts.clear()
        self._counts[exposed.name] = (time.monotonic() + _COUNTED_S, counted)
        return counted

    async def _counted(self, exposed: ExposedTable) -> Mapping[str, Any]:
        statements = exposed.statements
        try:
            rows = await self._engine.fetch(statements.count(), limit=1, within=_COUNT_S, slow=True)
            return {"rowCount": rows.rows[0][0], "rowCountKind": "exact"}
        except ResourceBusy:  # a table can be described without
            return {}
        except DeadlineExceeded:
            pass
        if exposed.options.where is None:
            estimate = await self._engine.estimate(exposed.name)
            if estimate is not None:
                return {"rowCount": estimate, "rowCountKind": "estimate"}
        try:
            rows = await self._engine.fetch(
                statements.count(_AT_LEAST),
                limit=1,
                within=self._limits.timeout,
                slow=True,
            )
        except (DeadlineExceeded, ResourceBusy):
            return {}
        return {"rowCount": rows.rows[0][0], "rowCountKind": "atLeast"}

    # -- resources

    def _database(self) -> Resource:
        details: dict[str, Any] = {"engine": self._engine.name}
        if self._watched:
            detection = self._engine.commit_detection
            details["changes"] = {"gate": detection.by, "interval": detection.interval}
        return Resource(path=(), name=self._engine.name, type="collection", details=details)

    def schema(self, name: str) -> Resource:
        """Describe a schema."""
        path = address_path(SchemaAddress(name))
        return Resource(path=path, name=name, type="collection", title=f"Schema {name}")

    def table(self, info: TableInfo) -> Resource:
        """Describe a table as listings do."""
        options = self._exposed.options(info.name)
        return Resource(
            path=address_path(TableAddress(info.name)),
            name=info.name.name,
            type="collection",
            title=options.title,
            description=options.description or info.comment,
            listed=options.listed,
        )

    def _page(self, table: TableName) -> Resource:
        return Resource(
            path=address_path(PageAddress(table)),
            name=f"{table.name} rows",
            title=f"Rows of {self._exposed.options(table).title or table.name}",
            mime_type=_JSON,
            formats=_PAGE_FORMATS,
        )

    def definition(self, table: TableName) -> Resource:
        """Describe the document of a table's definition."""
        return Resource(
            path=address_path(DefinitionAddress(table)),
            name=f"{table.name} schema",
            title=f"Schema of {self._exposed.options(table).title or table.name}",
            mime_type="text/markdown",
            formats=_DEFINITION_FORMATS,
        )

    def _prefix(self, path: Path) -> Resource:
        return Resource(path=path, name=path[-1], type="collection", listed=False)

    def row(self, path: Path, version: str) -> Resource:
        """Describe a row."""
        name = "/".join(path[1:] if not self._engine.has_schemas else path[2:])
        return Resource(path=path, name=name, mime_type=_JSON, version=version, listed=False)

    def _cell(self, address: CellAddress, mime_type: str | None) -> Resource:
        return Resource(path=address_path(address), name=address.column, mime_type=mime_type)

    def _query_collection(self) -> Resource:
        return Resource(
            path=address_path(QueriesAddress()), name="queries", type="collection", title="Queries"
        )

    def query(self, name: str) -> Resource:
        """Describe the document of a query."""
        declared = self._queries.get(name)
        return Resource(
            path=address_path(QueryAddress(name)),
            name=name,
            title=declared.title,
            description=declared.description,
            mime_type=_JSON,
            formats=_PAGE_FORMATS,
        )


def _first(pair: tuple[Path, TableInfo]) -> Path:
    return pair[0]


def _after(found: Sequence[Resource], last: str | None, limit: int) -> Sequence[Resource]:
    """Return those that come after `last` in the order of their paths."""
    ordered = sorted(found, key=lambda each: each.path)
    return [each for each in ordered if last is None or each.path[-1] > last][:limit]


def _segment(value: object, exposed: ExposedTable, place: int) -> str | None:
    try:
        return key_codec.encode_key(value, exposed.key[place])
    except ValueError:
        return None  # no URI is long enough
