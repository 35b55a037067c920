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
from resource_server.providers.database.addressing import address as addresses
from resource_server.providers.database.addressing import keys
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
    path_of,
)
from resource_server.providers.database.engines.contract import Engine
from resource_server.providers.database.engines.reflection import TableInfo, TableName
from resource_server.providers.database.formats.pages import FORMATS
from resource_server.providers.database.options import Limits
from resource_server.providers.database.queries.declared import Queries
from resource_server.providers.database.reading.documents import Documents
from resource_server.providers.database.reading.relation import Relation, Relations, version_of
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


class Described(NamedTuple):
    """A document with what is known of it, of the same moment."""

    resource: Resource
    content: Content


class Tree:
    """Lists and describes what a database shows."""

    def __init__(
        self,
        engine: Engine,
        relations: Relations,
        queries: Queries,
        limits: Limits,
        documents: Documents,
        *,
        watched: bool,
    ) -> None:
        self._engine = engine
        self._relations = relations
        self._queries = queries
        self._limits = limits
        self._documents = documents
        self._watched = watched
        self.observers: set[Callable[[Path, str | None], None]] = set()
        """Told of each version that `resource` gives; None where there is nothing, or an error."""
        self._counts: dict[TableName, tuple[float, Mapping[str, Any]]] = {}

    def address(self, path: Path) -> Address:
        """Return what a path names; raises `ResourceNotFound` where it can be nothing."""
        return addresses.parse(path, has_schemas=self._engine.has_schemas)

    # -- children

    async def children(self, path: Path, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the direct children of a collection, as `Provider.list`."""
        last = None if after is None else after[-1]
        match self.address(path):
            case DatabaseAddress():
                if self._engine.has_schemas:
                    found = [self.schema(name) for name in await self._schemas()]
                else:
                    found = [self.table(info) for info in await self._relations.infos()]
                if self._queries:
                    found.append(self._query_collection())
                return _after(found, last, limit)
            case SchemaAddress(schema):
                return _after(await self._tables_of(schema), last, limit)
            case QueriesAddress() if self._queries:
                return _after([self.query(name) for name in self._queries], last, limit)
            case TableAddress(table):
                return await self._rows(await self._relations.get(table), (), path, last, limit)
            case RowAddress(table, key):
                relation = await self._relations.get(table)
                if not relation.has_rows or len(key) > len(relation.key):
                    raise ResourceNotFound
                if len(key) == len(relation.key):
                    await self._documents.row(table, key)
                    raise NotACollection
                return await self._rows(relation, key, path, last, limit)
            case _:
                await self.resource(path)
                raise NotACollection

    async def walk(self, after: Path, limit: int) -> Sequence[Resource]:
        """Return what is listed, as `SupportsWalk.walk`; nothing is asked of any table.

        Depth first is the order of the paths.
        """
        infos = await self._relations.infos()
        tables = sorted([(path_of(TableAddress(info.name)), info) for info in infos], key=_first)
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
        options = self._relations.options(info.name)
        if not options.listed:
            return []
        pages = [self._page(info.name)] if options.rows else []
        return [self.table(info), *pages, self.definition(info.name)]

    async def _schemas(self) -> Sequence[str]:
        infos = await self._relations.infos()
        return list(dict.fromkeys(info.name.schema or "" for info in infos))

    async def _tables_of(self, schema: str) -> list[Resource]:
        infos = await self._relations.infos()
        found = [self.table(info) for info in infos if info.name.schema == schema]
        if not found:
            raise ResourceNotFound
        return found

    async def _rows(
        self, relation: Relation, within: Path, path: Path, last: str | None, limit: int
    ) -> Sequence[Resource]:
        """Return the documents of a table and then its rows, or the values of the next column."""
        found: list[Resource] = []
        if not within and (last is None or not self._is_row((*path, last))):
            documents = [await self._first_page(relation)] if relation.has_rows else []
            documents.append(self.definition(relation.name))
            found = [each for each in documents if last is None or each.path[-1] > last]
            last = None
        if not relation.has_rows or not relation.key or len(found) >= limit:
            return found[:limit]
        columns = relation.key
        bound = relation.key_of(within)
        place = len(within)
        try:
            begin = None if last is None else keys.decode(last, columns[place])
        except ResourceNotFound:
            return found  # no key comes after what is none
        if last is not None and begin is None:
            return found  # nor after NULL
        room = limit - len(found)
        fetch = relation.fetch_by_key if within else relation.fetch
        if place < len(columns) - 1:
            value = None if begin is None else relation.bound([begin])[0]
            statement = relation.statements.prefixes(room, within=bound, after=value)
            rows = await fetch(statement, room)
            for (held,) in rows.rows:
                segment = _segment(held, relation, place)
                if segment is not None:
                    found.append(self._prefix((*path, segment)))
            return found
        after = None if begin is None else (*bound, *relation.bound([begin]))
        rows = await fetch(relation.statements.page(room, within=bound, after=after), room)
        for values, held in zip(*relation.split(rows), strict=True):
            segment = _segment(held[place], relation, place)
            if segment is not None:
                found.append(self.row((*path, segment), version_of(values)))
        return found

    async def _first_page(self, relation: Relation) -> Resource:
        """Return the document of the rows; with a version where no child is a row by itself."""
        page = self._page(relation.name)
        if len(relation.key) == 1:
            return page
        try:
            read = await self._documents.read_page(PageAddress(relation.name), {})
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
                return await self._table_state(await self._relations.get(table))
            case RowAddress(table, key) if await self._is_prefix(table, key):
                return await self._prefix_state(table, key)
            case _:
                described = await self.document(path, {})
                if described is None:
                    raise ResourceNotFound
                return described.resource

    async def document(self, path: Path, query: Mapping[str, str]) -> Described | None:
        """Return a document with what is known of it; None for a collection, there or not."""
        documents = self._documents
        match self.address(path):
            case RowAddress(table, key) as row if not await self._is_prefix(table, key):
                found, key = await documents.read_row(row, query)
                resource = self.row(path_of(RowAddress(table, key)), found.version)
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
            return Described(resource, found.content)
        return Described(replace(resource, version=found.version), found.content)

    async def _is_prefix(self, table: TableName, key: Path) -> bool:
        relation = await self._relations.get(table)
        return relation.has_rows and len(key) < len(relation.key)

    async def _prefix_state(self, table: TableName, key: Path) -> Resource:
        """Return the collection of the rows whose keys begin so.

        Raises:
            ResourceNotFound: there is no such row.
        """
        relation = await self._relations.get(table)
        first = relation.statements.page(1, within=relation.key_of(key))
        rows = await relation.fetch_by_key(first, 1)
        if not rows.rows:
            raise ResourceNotFound
        segments = relation.segments(relation.key_in(rows.rows[0]))[: len(key)]
        return self._prefix(path_of(RowAddress(table, segments)))

    async def _table_state(self, relation: Relation) -> Resource:
        info = TableInfo(relation.name, relation.table.type, relation.table.comment)
        details: dict[str, Any] = {
            "table": {
                "type": relation.table.type,
                "key": list(relation.table.key),
                "keyKind": relation.table.key_kind,
                **(await self._count(relation) if relation.has_rows else {}),
            }
        }
        if self._watched and relation.has_rows:
            # Without a key there are only pages to compare.
            details["changes"] = {"precision": "row" if relation.key else "table"}
            if relation.change in relation.columns:
                details["changes"]["column"] = relation.change
        return replace(self.table(info), details=details)

    async def _count(self, relation: Relation) -> Mapping[str, Any]:
        now = time.monotonic()
        known = self._counts.get(relation.name)
        if known is not None and now < known[0]:
            return known[1]
        counted = await self._counted(relation)
        if len(self._counts) > 1024:
            self._counts.clear()
        self._counts[relation.name] = (time.monotonic() + _COUNTED_S, counted)
        return counted

    async def _counted(self, relation: Relation) -> Mapping[str, Any]:
        statements = relation.statements
        try:
            rows = await self._engine.fetch(
                statements.count(), limit=1, within=_COUNT_S, lane="slow"
            )
            return {"rowCount": rows.rows[0][0], "rowCountKind": "exact"}
        except ResourceBusy:  # a table can be described without
            return {}
        except DeadlineExceeded:
            pass
        if relation.options.where is None:
            estimate = await self._engine.estimate(relation.name)
            if estimate is not None:
                return {"rowCount": estimate, "rowCountKind": "estimate"}
        try:
            rows = await self._engine.fetch(
                statements.count(_AT_LEAST),
                limit=1,
                within=self._limits.timeout,
                lane="slow",
            )
        except (DeadlineExceeded, ResourceBusy):
            return {}
        return {"rowCount": rows.rows[0][0], "rowCountKind": "atLeast"}

    # -- resources

    def _database(self) -> Resource:
        details: dict[str, Any] = {"engine": self._engine.name}
        if self._watched:
            gate = self._engine.gate
            details["changes"] = {"gate": gate.by, "interval": gate.interval}
        return Resource(path=(), name=self._engine.name, type="collection", details=details)

    def schema(self, name: str) -> Resource:
        """Describe a schema."""
        path = path_of(SchemaAddress(name))
        return Resource(path=path, name=name, type="collection", title=f"Schema {name}")

    def table(self, info: TableInfo) -> Resource:
        """Describe a table as listings do."""
        options = self._relations.options(info.name)
        return Resource(
            path=path_of(TableAddress(info.name)),
            name=info.name.name,
            type="collection",
            title=options.title,
            description=options.description or info.comment,
            listed=options.listed,
        )

    def _page(self, table: TableName) -> Resource:
        return Resource(
            path=path_of(PageAddress(table)),
            name=f"{table.name} rows",
            title=f"Rows of {self._relations.options(table).title or table.name}",
            mime_type=_JSON,
            formats=_PAGE_FORMATS,
        )

    def definition(self, table: TableName) -> Resource:
        """Describe the document of a table's definition."""
        return Resource(
            path=path_of(DefinitionAddress(table)),
            name=f"{table.name} schema",
            title=f"Schema of {self._relations.options(table).title or table.name}",
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
        return Resource(path=path_of(address), name=address.column, mime_type=mime_type)

    def _query_collection(self) -> Resource:
        return Resource(
            path=path_of(QueriesAddress()), name="queries", type="collection", title="Queries"
        )

    def query(self, name: str) -> Resource:
        """Describe the document of a query."""
        declared = self._queries.get(name)
        return Resource(
            path=path_of(QueryAddress(name)),
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


def _segment(value: object, relation: Relation, place: int) -> str | None:
    try:
        return keys.encode(value, relation.key[place])
    except ValueError:
        return None  # no URI is long enough
