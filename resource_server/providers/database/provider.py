"""The built-in provider of databases: tables, rows and declared queries, read and never written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from resource_server.access import Access, allows, checked_restrictions
from resource_server.errors import (
    MountUnavailable,
    ResourceError,
    ResourceNotFound,
    ResourceServerError,
)
from resource_server.provider import (
    Change,
    Content,
    Interest,
    Link,
    MaybeAwaitable,
    Path,
    Provider,
    Resource,
    Template,
)
from resource_server.provider.search import SearchPage, SearchRequest
from resource_server.provider.tools import Tool, ToolRequest, ToolResult
from resource_server.providers.database.addressing.address import TableAddress, address_path
from resource_server.providers.database.change_detection import ChangeDetector
from resource_server.providers.database.engines.contract import Engine
from resource_server.providers.database.engines.factory import engine_name, make_engine
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.formats.pages import FORMATS
from resource_server.providers.database.options import Query, ReadLimits, TableOptions, WatchMode
from resource_server.providers.database.policy.diagnosis import Diagnosis
from resource_server.providers.database.policy.policy import Policy
from resource_server.providers.database.queries.declared import DeclaredQueries
from resource_server.providers.database.queries.policy_rewrite import QueryRewriter, scopes_of
from resource_server.providers.database.reading.documents import Documents
from resource_server.providers.database.reading.exposed_table import ExposedTables
from resource_server.providers.database.reading.path_completion import PathCompletion
from resource_server.providers.database.reading.tree import DatabaseTree
from resource_server.providers.database.search.database_search import DatabaseSearch
from resource_server.runtime import eager
from resource_server.runtime.eager import settle
from resource_server.runtime.option_types import Duration

logger = logging.getLogger(__name__)

_SETTLED_S = 2.0
"""After so long a database is not only asked once, and its queries are checked."""
_CLOSING_S = 2.0
"""For the query that is being checked."""


@dataclass
class Database:
    """Serves the tables and queries of one database. Its fields are a database's options."""

    url: str = field(repr=False)
    """Where it is: `sqlite:///shop.db`, relative to the manifest, or `postgresql://…`, `mysql://…`,
    `mariadb://…`."""
    tables: Mapping[str, TableOptions | Literal[False]] = field(
        default_factory=dict[str, TableOptions | Literal[False]]
    )
    """What is special about tables, by name or pattern; the first that fits counts. False hides."""
    schemas: tuple[str, ...] = ()
    """Which schemas are shown, of engines that have them; by default all."""
    queries: Mapping[str, Query] = field(default_factory=dict[str, Query])
    """Queries that are served as documents, by name."""
    limits: ReadLimits = field(default_factory=ReadLimits)
    """How much one read may return, and how long it may take."""
    watch: WatchMode = "auto"
    """How changes are noticed; `auto` takes what the engine offers."""
    interval: Duration | None = None
    """Between two looks, where changes have to be polled for; by default 50 ms (SQLite), 250 ms
    (PostgreSQL) or 1 s (MySQL, MariaDB)."""
    require_readonly_role: bool = False
    """Whether a login that may do more than read is refused."""

    def __post_init__(self) -> None:
        self._is_narrowed = False
        name = engine_name(self.url)
        self._policy = Policy(self.tables, name)
        self._queries = DeclaredQueries(self.queries, name, self.limits)
        rules = {f"tables.{name}.access": each.access for name, each in self.tables.items() if each}
        self._needed: dict[str, frozenset[str]] = {}
        """The scopes without which a query does not exist: its own, and those of its tables."""
        for query, each in self.queries.items():
            read = scopes_of(self._queries.get(query).references, self._policy, name)
            rules[f"queries.{query}.access"] = each.access
            rules[f"queries.{query}.sql"] = Access(
                scopes=tuple(read.difference(each.access.scopes))
            )
            self._needed[query] = read.union(each.access.scopes)
        self._restrictions = checked_restrictions(rules)
        self._link: Link | None = None
        self._closing = asyncio.Event()
        self._check: asyncio.Task[None] | None = None
        self._use(
            make_engine(
                self.url,
                readable=self._policy.readable,
                schemas=self.schemas,
                interval=self.interval,
                notify=self.watch == "notify",
            )
        )

    def _use(self, engine: Engine) -> None:
        """Read the database by an engine."""
        self._engine = engine
        self._exposed = ExposedTables(self._engine, self._policy, self.limits)
        self._queries.scope = QueryRewriter(self._engine, self._policy, self._exposed)
        self._completion = PathCompletion(self._engine, self._exposed)
        self._documents = Documents(
            self._engine, self._exposed, self._queries, self.limits, self._uri
        )
        self._tree = DatabaseTree(
            self._engine,
            self._exposed,
            self._queries,
            self.limits,
            self._documents,
            watched=self.watch != "off",
        )
        self._searches = DatabaseSearch(self._exposed, self._queries, self._tree)

    @property
    def engine(self) -> Engine:
        """What reads the database, for the operator's commands; open while this is entered."""
        return self._engine

    def _uri(self, path: Path, query: Mapping[str, str] | None = None) -> str:
        if self._link is None:
            raise ResourceServerError("a database that is not mounted has no URIs")
        return self._link(path, query)

    def linked(self, link: Link) -> None:
        """See `SupportsLinks.linked`."""
        self._link = link

    async def __aenter__(self) -> Self:
        try:
            await self._engine.open()
            await self._judge_login()
        except BaseException:
            # What was not entered is not left either.
            await self._engine.close()
            raise
        if self._queries and not self._is_narrowed:
            # Beside what is served: it needs the names of all tables.
            self._closing = asyncio.Event()
            self._check = asyncio.create_task(self._check_queries(self._closing))
        return self

    async def _judge_login(self) -> None:
        privileges = await self._engine.privileges()
        if not privileges:
            return
        named = ", ".join(privilege.name for privilege in privileges[:5])
        if self.require_readonly_role:
            raise MountUnavailable(f"the login may do more than read: {named}")
        if not self._is_narrowed:
            logger.warning("a database is read with a login that may do more: %s", named)

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        if self._check is not None:
            # Drivers do not like to be cancelled while they connect.
            await asyncio.wait((self._check,), timeout=_CLOSING_S)
            self._check.cancel()
        await self._engine.close()

    async def _check_queries(self, closing: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLED_S):
                await closing.wait()
        for name in self._queries:
            if closing.is_set():
                return
            with suppress(MountUnavailable, ResourceError):
                if await self._queries.refusal(name) is not None:
                    logger.warning("query %s is refused; `resource-server check` says why", name)

    @property
    def templates(self) -> Sequence[Template]:
        """The addresses of rows, pages, definitions and queries."""
        prefix = "{schema}/" if self._engine.has_schemas else ""
        return [*_templates(prefix), *self._queries.templates]

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return tables by name, rows in the order of their key. See `Provider.list`."""
        return await self._tree.children(parent, after, limit)

    async def walk(self, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return what is listed: tables with their documents, queries. See `SupportsWalk.walk`."""
        return await self._tree.walk(after or (), limit)

    async def metadata(self, path: Path) -> Resource:
        """Return what is known of a table, a row or a document. See `Provider.metadata`."""
        return await self._tree.resource(path)

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Return the current body of a document. See `Provider.read`."""
        document = await self._tree.document(path, query)
        if document is None:
            raise ResourceNotFound
        return [document.content]

    def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> MaybeAwaitable[tuple[Resource, Sequence[Content]]]:
        """Return metadata and content, of one statement. See `SupportsFetch.fetch`."""
        # At once where nothing has to be waited for, as for rows of SQLite.
        return eager.run(self._fetch(path, query))

    async def _fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        document = await self._tree.document(path, query)
        if document is None:
            return await settle(self._tree.resource(path)), ()
        return document.resource, [document.content]

    async def hides(self, *, limit: int) -> Sequence[tuple[Path, str]]:
        """Return the tables and columns that the manifest hides. See `SupportsHides`."""
        found: list[tuple[Path, str]] = []
        for info in await self._engine.tables():
            path = address_path(TableAddress(info.name))
            options, rule = self._policy.of(info.name), self._policy.rule(info.name) or ""
            if options is None:
                found.append((path, rule))
            else:
                hidden = options.columns.hide
                found += [((*path, column), f"{rule}.columns.hide") for column in hidden]
        return found[:limit]

    async def warnings(self) -> Sequence[tuple[str, str]]:
        """Return rights that are too many, options that fit nothing, and queries that are refused.

        See `SupportsWarnings`.
        """
        least = {
            query: QueryRewriter(self._engine, self.narrowed(needed)._policy, self._exposed)
            for query, needed in (self._needed.items() if self._restrictions else ())
        }
        diagnosis = Diagnosis(
            self._engine, self._policy, self._exposed, self._queries, self.schemas, least=least
        )
        return await diagnosis.problems()

    @property
    def restrictions(self) -> Mapping[str, frozenset[str]]:
        """What `access` of tables and queries says, and which tables queries name.

        See `SupportsAccess.restrictions`.
        """
        return self._restrictions

    def narrowed(self, scopes: frozenset[str]) -> Database:
        """Return the database without what needs other scopes. See `SupportsAccess.narrowed`."""
        narrowed = replace(
            self,
            tables={
                name: each if each and allows(each.access, scopes) else False
                for name, each in self.tables.items()
            },
            queries={
                name: each for name, each in self.queries.items() if self._needed[name] <= scopes
            },
        )
        # What is wrong with the whole has been said to the operator.
        narrowed._is_narrowed = True
        if self._engine.name != "sqlite":
            # That one is told which columns may be read; of servers all share the connections.
            narrowed._use(self._engine)
        return narrowed

    async def explain(self, path: Path) -> str:
        """Return what exposes or hides a table, a row or a document. See `SupportsExplain`."""
        table: TableName | None = None
        try:
            table = getattr(self._tree.address(path), "table", None)
            if table is not None and self._policy.of(table) is None:
                return f"hidden by {self._policy.rule(table)}: false"
            await self._tree.resource(path)
        except ResourceNotFound:
            options = None if table is None else self._policy.of(table)
            if table is None or options is None or options.where is None:
                return "not there"
            return f"not there, or kept out by {self._policy.rule(table)}.where"
        return f"exposed{self._whose(path, table)}"

    def _whose(self, path: Path, table: TableName | None) -> str:
        """Return which scopes are needed for what is exposed, and what says so."""
        rule = self._policy.rule(table) if table else f"queries.{path[-1]}" if path else ""
        options = [each for each in (f"{rule}.access", f"{rule}.sql") if each in self._restrictions]
        scopes = frozenset[str]().union(*(self._restrictions[each] for each in options))
        return f", to who has {', '.join(sorted(scopes))} ({', '.join(options)})" if scopes else ""

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        """Yield what commits may have changed. See `SupportsWatch.changes`."""
        watch = ChangeDetector(self._engine, self._exposed, self._tree)
        async with aclosing(watch.changes(interest)) as changes:
            async for change in changes:
                yield change

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        """Return tables, columns and queries by name, rows by values. See `SupportsSearch`."""
        return await self._searches.search(
            request, below=below, after=after, limit=limit, deadline=deadline
        )

    def tools(self) -> Sequence[Tool]:
        """Return the queries that may be called. See `SupportsTools.tools`."""
        return self._queries.tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> ToolResult:
        """Return the rows of a query. See `SupportsTools.call_tool`."""
        return await self._documents.call_query(name, arguments)

    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        """Return names of tables, keys of rows, values of parameters. See `SupportsComplete`."""
        match variable:
            case "table" | "schema":
                return await self._completion.names(variable, given)
            case "key" if "table" in given:
                return await self._completion.row_keys(value, given)
            case "format":
                return tuple(FORMATS)
            case _:
                return self._queries.complete(variable, value, given)


def _templates(prefix: str) -> Sequence[Template]:
    return (
        Template(
            f"{prefix}{{table}}/~rows{{?after,limit,columns,format}}",
            name="rows",
            title="Rows of a table",
            description="A page of rows in the order of the key; format: json, columns, csv or "
            "markdown; columns: names separated by commas",
            type="document",
        ),
        Template(
            f"{prefix}{{table}}/{{+key}}",
            name="row",
            title="A row by its key",
            description="One segment for each column of the key, as in orders/5",
            mime_type="application/json",
            type="document",
        ),
        Template(
            f"{prefix}{{table}}/~schema{{?format}}",
            name="schema",
            title="How a table is made",
            description="Columns, keys and indexes; format: markdown or json",
            mime_type="text/markdown",
            type="document",
        ),
    )


_: type[Provider] = Database
