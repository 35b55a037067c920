"""The resource tree of a database: its collections, their children and every description."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from msgspec.structs import replace

from resource_server.errors import (
    DeadlineExceeded,
    NotACollection,
    ResourceBusy,
    ResourceError,
    ResourceNotFound,
)
from resource_server.provider import Path, Resource, ResourceType
from resource_server.providers.database.addressing.address import (
    SCHEMA,
    Address,
    DatabaseAddress,
    PageAddress,
    QueriesAddress,
    QueryAddress,
    RowAddress,
    SchemaAddress,
    TableAddress,
    address_path,
    parse_path,
)
from resource_server.providers.database.addressing.key_types import KeyType
from resource_server.providers.database.engines.contract import Engine
from resource_server.providers.database.engines.reflection import TableInfo, TableName
from resource_server.providers.database.options import ReadLimits
from resource_server.providers.database.queries.declared import DeclaredQueries
from resource_server.providers.database.reading.documents import Documents
from resource_server.providers.database.reading.exposed_table import (
    ExposedTable,
    ExposedTableCache,
    version_of,
)
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

_AT_LEAST = 10_000
"""Maximum number of rows counted when the engine has no estimate."""
_MAX_COUNTS = 1024
"""Maximum number of cached row counts."""


class DatabaseTree:
    """Lists and describes the exposed resources of a database."""

    def __init__(
        self,
        engine: Engine,
        exposed_tables: ExposedTableCache,
        queries: DeclaredQueries,
        limits: ReadLimits,
        documents: Documents,
        *,
        watched: bool,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._timing = timing
        self._engine = engine
        self._exposed = exposed_tables
        self._queries = queries
        self._limits = limits
        self._documents = documents
        self._watched = watched
        self.observers: set[Callable[[Path, str | None], None]] = set()
        """Called with each version that `resource` returns; None if there is no resource."""
        self._counts: dict[TableName, tuple[float, Mapping[str, Any]]] = {}

    def address(self, path: Path) -> Address:
        """Return the address of a path; raises `ResourceNotFound` if no resource can have it."""
        return parse_path(path, has_schemas=self._engine.has_schemas)

    # -- children

    async def children(self, path: Path, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the direct children of a collection, as `Provider.list`.

        Their paths begin with `path`, canonical or not.
        """
        found = await self._children(path, None if after is None else after[-1], limit)
        return [
            child if child.path[:-1] == path else replace(child, path=(*path, child.path[-1]))
            for child in found
        ]

    async def _children(self, path: Path, last: str | None, limit: int) -> Sequence[Resource]:
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
                return _after(self._query_documents(), last, limit)
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

    async def level(
        self, depth: int, type: ResourceType, after: Path, limit: int
    ) -> Sequence[Resource]:
        """Return listed resources, as `SupportsLevels.level`, without a query to any table."""
        every = self._walk(await self._exposed.infos(), after)
        members = (each for each in every if each.type == type and len(each.path) == depth)
        return [*islice(members, limit)]

    def _walk(self, infos: Sequence[TableInfo], after: Path) -> Iterator[Resource]:
        """Yield listed resources after a path; depth first order is the order of paths."""
        tables = sorted(
            [(address_path(TableAddress(info.name)), info) for info in infos], key=_first
        )
        schema: str | None = None
        for path, info in tables:
            listed: list[Resource] = []
            if self._engine.has_schemas and path[0] != schema:
                schema = path[0]
                listed.append(self.schema(schema))
            if (*path, SCHEMA) > after:
                listed += self._listed(info)
            yield from [resource for resource in listed if resource.path > after]
        if self._queries:
            listed = [self._query_collection(), *self._query_documents()]
            yield from [resource for resource in listed if resource.path > after]

    def _query_documents(self) -> Sequence[Resource]:
        """Describe the queries that are read as they are listed; the others are templates."""
        complete = [name for name in self._queries if self._queries.get(name).is_complete]
        return [self._documents.query_resource(name) for name in sorted(complete)]

    def _listed(self, info: TableInfo) -> list[Resource]:
        """Return a table and its documents if the table is listed."""
        options = self._exposed.options(info.name)
        if not options.listed:
            return []
        pages = [self._documents.page_resource(info.name, options)] if options.rows else []
        return [self.table(info), *pages, self._documents.definition_resource(info.name)]

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
        """Return the documents and rows of a table, or the values of its next key column."""
        found: list[Resource] = []
        if not within and (last is None or not self._is_row((*path, last))):
            documents = [await self._first_page(exposed)] if exposed.has_rows else []
            documents.append(await self._documents.definition(exposed.name))
            found = [each for each in documents if last is None or each.path[-1] > last]
            last = None
        if not exposed.has_rows or not exposed.key or len(found) >= limit:
            return found[:limit]
        bound = exposed.key_of(within)
        place = len(within)
        type = exposed.key_types[place]
        try:
            begin = None if last is None else type.decode(last)
        except ResourceNotFound:
            return found  # `last` is no key, so nothing follows it
        room = limit - len(found)
        fetch = exposed.fetch_by_key if within else exposed.run_own
        value = None if begin is None else type.bind(begin)
        if place < len(exposed.key) - 1:
            statement = exposed.statements.prefixes(room, within=bound, after=value)
            rows = await fetch(statement, room)
            held = [value for (value,) in rows.rows]
            found += [self._prefix((*path, segment)) for _, segment in _segments(held, type)]
        else:
            after = None if begin is None else (*bound, value)
            rows = await fetch(exposed.statements.page(room, within=bound, after=after), room)
            shown, keys = exposed.split(rows)
            held = [key[place] for key in keys]
            for index, segment in _segments(held, type):
                found.append(
                    self._documents.row_resource((*path, segment), version_of(shown[index]))
                )
        if held and begin is not None:
            exposed.check_progress([begin], [held[:1], held[-1:]], place=place)
        return found

    async def _first_page(self, exposed: ExposedTable) -> Resource:
        """Describe the `~rows` document, with a version if children are not single rows."""
        page = self._documents.page_resource(exposed.name, exposed.options)
        if len(exposed.key) == 1:
            return page
        try:
            document = await self._documents.read_page(PageAddress(exposed.name), {})
        except ResourceError:
            return page  # such as a timeout
        return document.resource

    def _is_row(self, path: Path) -> bool:
        try:
            return isinstance(self.address(path), RowAddress)
        except ResourceNotFound:
            return False

    # -- metadata

    async def resource(self, path: Path) -> Resource:
        """Describe a resource, as `Provider.metadata`."""
        try:
            resource = await self._resource(path)
        except ResourceNotFound:
            self._observed(path, None)
            raise
        self._observed(path, resource.version)
        return resource

    def _observed(self, path: Path, version: str | None) -> None:
        for observe in self.observers:
            observe(path, version)

    async def _resource(self, path: Path) -> Resource:
        address = self.address(path)
        match address:
            case DatabaseAddress():
                return self._database()
            case SchemaAddress(schema):
                await self._tables_of(schema)
                return self.schema(schema)
            case QueriesAddress() if self._queries:
                return await self._query_results()
            case QueryAddress(name) if not self._queries.get(name).is_complete:
                # Unreadable without its parameters, whatever is committed.
                return replace(self._documents.query_resource(name), version=version_of([name]))
            case TableAddress(table):
                return await self._table_state(await self._exposed.get(table))
            case RowAddress(table, key) if await self._is_prefix(table, key):
                return await self._prefix_state(table, key)
            case _:
                document = await self._documents.read(address, {})
                if document is None:
                    raise ResourceNotFound
                return document.resource

    async def _is_prefix(self, table: TableName, key: Path) -> bool:
        exposed = await self._exposed.get(table)
        return exposed.has_rows and len(key) < len(exposed.key)

    async def _prefix_state(self, table: TableName, key: Path) -> Resource:
        """Describe the collection of the rows whose keys begin with `key`.

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
                "key": list(exposed.table.key_names),
                "keyKind": exposed.table.key_kind,
                **(await self._count(exposed) if exposed.has_rows else {}),
            }
        }
        if self._watched and exposed.has_rows:
            # Without a key, only pages can be compared.
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
        if len(self._counts) > _MAX_COUNTS:
            self._counts.clear()
        self._counts[exposed.name] = (time.monotonic() + self._timing.row_count_cache_s, counted)
        return counted

    async def _counted(self, exposed: ExposedTable) -> Mapping[str, Any]:
        statements = exposed.statements
        try:
            rows = await self._engine.run_own(
                statements.count(), limit=1, within=self._timing.row_count_s, slow=True
            )
            return {"rowCount": rows.rows[0][0], "rowCountKind": "exact"}
        except ResourceBusy:  # the count is optional
            return {}
        except DeadlineExceeded:
            pass
        if exposed.options.where is None:
            estimate = await self._engine.estimate(exposed.name)
            if estimate is not None:
                return {"rowCount": estimate, "rowCountKind": "estimate"}
        try:
            rows = await self._engine.run_own(
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
        details: dict[str, Any] = {"engine": self._engine.product}
        if self._watched:
            detection = self._engine.commit_detection
            details["changes"] = {"gate": detection.by, "interval": detection.interval}
        return Resource(path=(), name=self._engine.product, type="collection", details=details)

    def schema(self, name: str) -> Resource:
        """Describe a schema."""
        path = address_path(SchemaAddress(name))
        return Resource(path=path, name=name, type="collection", title=f"Schema {name}")

    def table(self, info: TableInfo) -> Resource:
        """Describe a table for a listing."""
        options = self._exposed.options(info.name)
        return Resource(
            path=address_path(TableAddress(info.name)),
            name=info.name.name,
            type="collection",
            title=options.title,
            description=options.description or info.comment,
            listed=options.listed,
        )

    def _prefix(self, path: Path) -> Resource:
        return Resource(path=path, name=path[-1], type="collection", listed=False)

    async def _query_results(self) -> Resource:
        """Describe the collection of queries, with the version of all results in it."""
        versions: list[str | None] = []
        for name in self._queries:
            version = None
            if self._queries.get(name).is_complete:
                with suppress(ResourceError):  # such as a timeout: it cannot be read either
                    version = (await self._documents.query_result(name)).version
            versions.append(version)
        return replace(self._query_collection(), version=version_of(versions))

    def _query_collection(self) -> Resource:
        return Resource(
            path=address_path(QueriesAddress()), name="queries", type="collection", title="Queries"
        )


def _first(pair: tuple[Path, TableInfo]) -> Path:
    return pair[0]


def _after(found: Sequence[Resource], last: str | None, limit: int) -> Sequence[Resource]:
    """Return the resources after `last`, ordered by path."""
    ordered = sorted(found, key=lambda each: each.path)
    return [each for each in ordered if last is None or each.path[-1] > last][:limit]


def _segments(values: Sequence[object], type: KeyType) -> Iterator[tuple[int, str]]:
    """Yield the positions and segments of key values, except those too long for a URI."""
    for place, value in enumerate(values):
        try:
            yield place, type.segment(value)
        except ValueError:
            continue
