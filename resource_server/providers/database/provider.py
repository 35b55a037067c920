"""The built-in database provider: tables, rows and declared queries, read-only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from resource_server.access import OPEN, Access, allows, checked_restrictions
from resource_server.errors import (
    IN_CHECK,
    MountUnavailable,
    ResourceError,
    ResourceNotFound,
    ResourceServerError,
    ResourceUnreadable,
    RuleUnmatched,
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
    ResourceType,
    Template,
)
from resource_server.provider.search import SearchPage, SearchRequest
from resource_server.provider.tools import Tool, ToolRequest, ToolResult
from resource_server.providers.database import recorded, row_claims
from resource_server.providers.database.addressing.address import (
    QUERY,
    TableAddress,
    address_path,
    parse_path,
)
from resource_server.providers.database.change_detection import ChangeDetector
from resource_server.providers.database.database_search import DatabaseSearch
from resource_server.providers.database.diagnosis import Diagnosis
from resource_server.providers.database.engines.contract import (
    Engine,
    EngineName,
    PolicyEngine,
    QueryEngine,
    SqlEngine,
)
from resource_server.providers.database.engines.factory import (
    dialect_name,
    engine_name,
    make_engine,
    make_sql_login,
    with_settings,
)
from resource_server.providers.database.engines.postgres import settings as row_security
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.engines.sql_login import FORM, SqlLogin
from resource_server.providers.database.formats import charts, pages
from resource_server.providers.database.formats.pages import FORMATS
from resource_server.providers.database.options import (
    CallerSqlOptions,
    Query,
    ReadLimits,
    StorageOptions,
    TableOptions,
    ViewMode,
    WatchMode,
)
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries.callers.caller_sql import (
    DIALECTS,
    TOOL_NAME,
    CallerSql,
    ConfinedSql,
    sql_tool,
)
from resource_server.providers.database.queries.confinement import (
    ConfinedByEngine,
    ConfinedByRewriting,
    EngineConfinedSql,
    rewriter_for,
)
from resource_server.providers.database.queries.declared import Confinement, DeclaredQueries
from resource_server.providers.database.reading.documents import (
    PAGE_PARAMETERS,
    SUMMARY_PARAMETERS,
    UNTIL,
    Documents,
)
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from resource_server.providers.database.reading.path_completion import NAMING, PathCompletion
from resource_server.providers.database.reading.selection import FILTERS, is_filter
from resource_server.providers.database.reading.tree import DatabaseTree
from resource_server.runtime import eager
from resource_server.runtime.eager import settle
from resource_server.runtime.option_types import Duration
from resource_server.runtime.server_key import ServerKey
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger(__name__)

_CLOSING_S = 2.0
"""Timeout for the query check to end when the database is closed."""


@dataclass
class Database:
    """Serves the tables and queries of one database. Its fields are the manifest options."""

    url: str = field(repr=False)
    """`sqlite:///shop.db` or `duckdb:///sales.duckdb`, relative to the manifest, or
    `postgresql://…`, `mysql://…`, `mariadb://…`; or of another database by its dialect of
    SQLAlchemy, `oracle+oracledb://…`; or data files as tables, `files:data/*.parquet` or
    `files:s3://bucket/*.parquet`, all as one with `?table=orders`."""
    tables: Mapping[str, TableOptions | Literal[False]] = field(
        default_factory=dict[str, TableOptions | Literal[False]]
    )
    """Options of tables by name or pattern; the first match counts. False hides a table."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """PostgreSQL: settings of each read by claims of the caller, for row-level security:
    `{request.jwt.claims: claims}` is all claims as JSON, `{app.user: claims.sub}` one of them."""
    schemas: tuple[str, ...] = ()
    """Schemas to expose, on engines that have schemas; the default is all, and on other dialects
    the default one, without its name in addresses."""
    queries: Mapping[str, Query] = field(default_factory=dict[str, Query])
    """Queries served as documents, by name."""
    sql: bool | CallerSqlOptions = False
    """Whether callers may send SQL of their own, by the tool `query_database`: one SELECT, for
    which only what `tables` shows exists. Database servers need a login for it."""
    limits: ReadLimits = field(default_factory=ReadLimits)
    """Limits of one read."""
    watch: WatchMode = "auto"
    """How changes are detected; `auto` uses the best way of the engine."""
    interval: Duration | None = None
    """Polling interval for changes; the default is 50 ms (SQLite), 250 ms (PostgreSQL, DuckDB),
    1 s (MySQL, MariaDB), 2 s (other dialects) or 60 s (data files in object storage). SQLite files
    whose events the system reports are polled once a second."""
    storage: StorageOptions | None = None
    """The object storage of data files, `files:s3://…`."""
    views: ViewMode = "refuse"
    """Whether a view that shows a hidden or masked column of its tables is hidden, or only
    reported by `check`. An entry in `tables` with `expose: true` or a policy consents to it."""
    require_readonly_role: bool = False
    """Whether to refuse a login that may do more than read."""
    timing: Timing = field(default=DEFAULT_TIMING, init=False)

    def __post_init__(self) -> None:
        self._is_narrowed = self._is_of_claims = False
        name = engine_name(self.url)
        self._claim_of = row_claims.claims_of_settings(self.settings, name)
        self._policy = self._policy_of(self.tables)
        self._queries = DeclaredQueries(self.queries, name, self.limits, self._policy.dialect)
        self._queries.read_by(self._policy)
        rules = {f"tables.{name}.access": each.access for name, each in self.tables.items() if each}
        self._needed: dict[str, frozenset[str]] = {}
        """Scopes that make a query visible: its own and those of its tables."""
        of_rows = self._policy.claims | self._policy.needed
        self.claims: frozenset[str] = of_rows | self._queries.claims
        """Names of the claims by which rows are shown. See `SupportsClaims.claims`."""
        absent = dict.fromkeys(self.claims)
        of_all, shown = self._queries.with_claims(absent), self._policy.with_claims(absent)
        for query, each in self.queries.items():
            read = of_all.get(query).scopes(shown)
            rules[f"queries.{query}.access"] = each.access
            rules[f"queries.{query}.sql"] = Access(
                scopes=tuple(read.difference(each.access.scopes))
            )
            self._needed[query] = read.union(each.access.scopes)
        self._sql_login: SqlLogin | None = None
        self._sql_access = OPEN
        if self.sql:
            rules["sql"] = self._sql_access = self._check_sql(name)
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
                storage=self.storage,
            )
        )

    def _check_sql(self, name: EngineName) -> Access:
        """Return the scopes that SQL needs, and make the login for it that a server needs."""
        given = self.sql if isinstance(self.sql, CallerSqlOptions) else None
        scopes = given.scopes if given is not None else ()
        if name == "generic":
            raise ValueError(
                "sql: this engine takes no SQL of callers; leave it out (SQLite, PostgreSQL, "
                "MySQL, MariaDB and DuckDB take it, by URLs without another driver)"
            )
        if name in ("sqlite", "duckdb"):
            if given is not None and given.url is not None:
                raise ValueError("sql.url: a file needs no login; write `sql: true` or `scopes`")
            return Access(scopes=scopes)
        if self._policy.claims or self.settings:
            raise ValueError(
                "sql: the views of a database server show the same rows to every caller, and "
                "`tables` or `settings` filter rows by claims; leave `sql` out, or serve what is "
                "the same for all by another entry of `databases`"
            )
        if given is None or given.url is None:
            raise ValueError(
                "sql: a database server needs a login that reads the views of the policy alone; "
                "write `sql: {url: …}` with the one that `resource-server sql --policy` prints"
            )
        self._sql_login = make_sql_login(given.url, self.policy_digest)
        # The views of a server show the same to every caller.
        tables = [each.access.scopes for each in self.tables.values() if each]
        every = dict.fromkeys(scope for each in (scopes, *tables) for scope in each)
        return Access(scopes=tuple(every))

    def _use(self, engine: Engine) -> None:
        """Read the database through an engine."""
        self._engine = engine
        self._exposed = ExposedTableCache(
            self._engine, self._policy, self.limits, self.timing, self.views
        )
        self._queries.confinement = self._confinement(self._policy)
        self._completion = PathCompletion(self._engine, self._exposed, self.timing)
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
            timing=self.timing,
        )
        self._caller_sql: CallerSql | None = None
        visible: ConfinedSql | None = self._sql_login
        if visible is None and isinstance(engine, SqlEngine):
            visible = EngineConfinedSql(engine, self._policy, self._exposed, is_author=False)
        if self.sql and visible is not None:
            self._caller_sql = CallerSql(
                visible,
                engine.name,
                self._exposed,
                self.limits,
                link=self._uri,
                timing=self.timing,
            )
        self._search = DatabaseSearch(self._exposed, self._queries, self._tree, self._documents)

    def _confinement(self, policy: Policy) -> Confinement | None:
        """Return what confines the declared queries to a policy."""
        engine = self._engine
        if isinstance(engine, QueryEngine):
            rewriter = rewriter_for(self._engine, policy, self._exposed)
            return ConfinedByRewriting(engine, rewriter)
        if isinstance(engine, PolicyEngine):
            sql = EngineConfinedSql(engine, policy, self._exposed, is_author=True)
            return ConfinedByEngine(self._engine, engine, policy, sql)
        return None

    @property
    def engine(self) -> Engine:
        """The engine, for the operator's commands; open while this provider is entered."""
        return self._engine

    @property
    def sql_login(self) -> SqlLogin | None:
        """The login for callers' SQL, if the database is on a server and takes SQL."""
        return self._sql_login

    @property
    def policy_digest(self) -> str:
        """A digest of the options that the policy's views carry."""
        return self._policy.digest(FORM, self.schemas, self.views)

    @property
    def call_timeout_s(self) -> float:
        """See `SupportsTimeout`: it includes the manifest's timeout of a statement."""
        return self.timing.call_s + max(self.limits.timeout, self.limits.query_timeout)

    @property
    def start_timeout_s(self) -> float:
        """Timeout of a start: large data files are read, and slow servers asked, to the end."""
        return self._engine.open_timeout_s

    def _uri(self, path: Path, query: Mapping[str, str] | None = None) -> str:
        if self._link is None:
            raise ResourceServerError("a database that is not mounted has no URIs")
        return self._link(path, query)

    def mounted(self, link: Link, key: ServerKey) -> None:
        """See `SupportsMount.mounted`."""
        self._link, self._policy.key = link, key

    async def __aenter__(self) -> Self:
        try:
            await self._engine.open()
            await self._check_login()
            await self._check_rules()
            await self._open_sql_login()
        except BaseException:
            # `__aexit__` does not run after a failed `__aenter__`.
            await self._close_engines()
            raise
        if self._queries and not self._is_narrowed:
            # In the background: it needs the names of all tables.
            self._closing = asyncio.Event()
            self._check = asyncio.create_task(self._of_nobody.check_queries(self._closing))
        return self

    async def _check_login(self) -> None:
        if self.settings and (problem := await row_security.bypass(self._engine)) is not None:
            raise MountUnavailable(problem)
        privileges = await self._engine.privileges()
        if not privileges:
            return
        named = ", ".join(privilege.name for privilege in privileges[:5])
        if self.require_readonly_role:
            raise MountUnavailable(f"the login may do more than read: {named}")
        if not self._is_narrowed:
            logger.warning("the database login may do more than read: %s", named, extra=IN_CHECK)

    async def _check_rules(self) -> None:
        """Refuse to start if an entry of `tables` may mean a table with another name."""
        if not self._policy.has_rules:
            return
        with suppress(ResourceError):  # such as a lock; the first request checks again
            await self._exposed.infos()
        if (problem := self._policy.stopped) is not None:
            raise RuleUnmatched(problem.message, option=problem.option)

    async def _open_sql_login(self) -> None:
        if self._sql_login is None or not self.sql:
            return
        try:
            await self._sql_login.open()
        except (MountUnavailable, ResourceError) as error:
            if not self._is_narrowed:  # each statement tries again
                logger.warning("callers cannot send SQL: %s", error, extra=IN_CHECK)

    async def _close_engines(self) -> None:
        try:
            if self._sql_login is not None and self.sql:
                await self._sql_login.close()
        finally:
            await self._engine.close()

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        try:
            if self._check is not None:
                # Drivers misbehave when they are cancelled while they connect.
                await asyncio.wait((self._check,), timeout=_CLOSING_S)
        finally:
            if self._check is not None:
                self._check.cancel()
            await self._close_engines()

    async def check_queries(self, closing: asyncio.Event) -> None:
        """Log the queries that are refused, a while after the start and until `closing`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.timing.query_check_delay_s):
                await closing.wait()
        for name in self._queries:
            if closing.is_set():
                return
            with suppress(MountUnavailable, ResourceError):
                if await self._queries.refusal(name) is not None:
                    logger.warning(
                        "query %s is refused; `resource-server check` says why",
                        name,
                        extra=IN_CHECK,
                    )

    @property
    def parameters(self) -> frozenset[str]:
        """URI parameters of pages and summaries. See `SupportsParameters`."""
        return frozenset((*PAGE_PARAMETERS, UNTIL, *SUMMARY_PARAMETERS))

    @property
    def templates(self) -> Sequence[Template]:
        """URI templates of rows, pages, definitions and queries."""
        prefix = "{schema}/" if self._engine.has_schemas else ""
        return [*_templates(prefix), *self._queries.templates]

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return tables by name and rows in key order. See `Provider.list`."""
        return await self._tree.children(parent, after, limit)

    async def level(
        self, depth: int, type: ResourceType, *, after: Path | None, limit: int
    ) -> Sequence[Resource]:
        """Return the listed resources of one level. See `SupportsLevels.level`."""
        return await self._tree.level(depth, type, after or (), limit)

    async def metadata(self, path: Path) -> Resource:
        """Describe a table, a row or a document. See `Provider.metadata`."""
        return await self._tree.resource(path)

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Return the current body of a document. See `Provider.read`."""
        document = await self._documents.read(self._tree.address(path), query)
        if document is None:
            raise ResourceNotFound
        return [document.content]

    def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> MaybeAwaitable[tuple[Resource, Sequence[Content]]]:
        """Return metadata and content from one statement. See `SupportsFetch.fetch`."""
        # Finishes inline if nothing has to be awaited, as for rows of SQLite.
        return eager.run(self._fetch(path, query))

    async def _fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        address = parse_path(path, has_schemas=self._engine.has_schemas)
        document = await self._documents.read(address, query)
        if document is None:
            return await settle(self._tree.resource(path)), ()
        return document.resource, [document.content]

    async def hides(self, *, limit: int) -> Sequence[tuple[Path, str]]:
        """Return the tables and columns that the manifest hides. See `SupportsCheck`."""
        found: list[tuple[Path, str]] = []
        await self._exposed.infos()  # knows the views that are refused
        for info in await self._engine.tables():
            path = address_path(TableAddress(info.name))
            options, rule = self._policy.of(info.name), self._policy.rule(info.name) or ""
            if info.name in self._policy.unprotected:
                continue  # by no rule, but since one does not hold
            if options is None:
                lacks = self._policy.row_claims(info.name) and rule != "views"
                found.append((path, f"{rule}.where" if lacks else rule))
            elif options.columns.hide:
                with suppress(ResourceNotFound):
                    every = (await settle(self._engine.table(info.name))).column_names
                    shown = (await self._exposed.get(info.name)).column_names
                    hidden = [column for column in every if column not in shown]
                    found += [((*path, column), f"{rule}.columns.hide") for column in hidden]
        return found[:limit]

    async def warnings(self, *, thorough: bool = True) -> Sequence[tuple[str, str]]:
        """Return options that match nothing, and if `thorough` all that may be wrong.

        See `SupportsCheck`.
        """
        if self.claims and not self._is_of_claims:
            return await self._of_nobody.warnings(thorough=thorough)
        needed = self._needed.items() if self._restrictions else ()
        least = {
            query: confinement
            for query, scopes in needed
            for policy in [self._policy_of(self._tables_within(scopes))]
            if (confinement := self._confinement(policy.with_claims(self._policy.values)))
        }
        diagnosis = Diagnosis(
            self._engine, self._policy, self._exposed, self._queries, self.schemas, least=least
        )
        if not thorough:
            return await diagnosis.rules()
        problem = None if self._caller_sql is None else await self._caller_sql.problem()
        found = [] if problem is None else [("sql", problem)]
        return [*found, *await self._open_tables(), *await diagnosis.problems()]

    async def _open_tables(self) -> Sequence[tuple[str, str]]:
        """Return warnings of tables that row-level security does not protect."""
        if not self.settings:
            return ()
        every = await row_security.open_tables(self._engine)
        shown = [info.name.name for info in await self._exposed.infos() if info.name in every]
        text = "shows all rows to every caller: it has no row-level security for this login"
        return [("", f"'{name}' {text} (`settings`)") for name in shown]

    @property
    def restrictions(self) -> Mapping[str, frozenset[str]]:
        """Required scopes by option, including those of the tables that queries name.

        See `SupportsAccess.restrictions`.
        """
        return self._restrictions

    def narrowed(self, scopes: frozenset[str]) -> Database:
        """Return the database as a caller with these scopes sees it.

        See `SupportsAccess.narrowed`.
        """
        queries = {
            name: each for name, each in self.queries.items() if self._needed[name] <= scopes
        }
        sql = self.sql
        if not allows(self._sql_access, scopes):
            sql = False
        narrowed = replace(self, tables=self._tables_within(scopes), queries=queries, sql=sql)
        narrowed.become_part_of(self, self._policy.key)
        return narrowed

    def with_claims(self, values: Mapping[str, Any]) -> Database:
        """Return the database as callers with these claims see it; it shares all connections.

        See `SupportsClaims.with_claims`.
        """
        part = copy(self)
        part.show_to(values)
        return part

    def show_to(self, values: Mapping[str, Any]) -> None:
        """Become the part for callers with these claims."""
        self._is_of_claims, self._check = True, None
        self._policy = self._policy.with_claims(values)
        self._queries = self._queries.with_claims(values)
        texts = {
            name: row_claims.setting_text(claim, values.get(claim))
            for name, claim in self._claim_of.items()
        }
        self._use(with_settings(self._engine, texts))
        self._report_nothing()

    @property
    def _of_nobody(self) -> Database:
        """The database as callers see it who lack every claim, to be checked."""
        return self.with_claims(dict.fromkeys(self.claims)) if self.claims else self

    def become_part_of(self, whole: Database, key: ServerKey) -> None:
        """Share key and connections of the whole database, which alone reports its problems."""
        self._policy.key = key
        if whole.engine.name != "sqlite":
            # A SQLite connection holds the readable columns in its authorizer: it is not shared.
            self._sql_login = whole.sql_login
            self._use(whole.engine)
        self._report_nothing()

    def _report_nothing(self) -> None:
        self._is_narrowed, self._exposed.is_reporting = True, False

    def _tables_within(self, scopes: frozenset[str]) -> Mapping[str, TableOptions | Literal[False]]:
        return {
            name: each
            if not each or allows(each.access, scopes)
            else TableOptions(expose=False, optional=each.optional)
            for name, each in self.tables.items()
        }

    def _policy_of(self, tables: Mapping[str, TableOptions | Literal[False]]) -> Policy:
        needed = frozenset(self._claim_of.values())
        dialect = dialect_name(self.url)
        return Policy(tables, engine_name(self.url), needed=needed, dialect=dialect)

    async def explain(self, path: Path) -> str:
        """Return the option that exposes or hides a resource. See `SupportsCheck`."""
        table: TableName | None = None
        try:
            table = getattr(self._tree.address(path), "table", None)
            await self._exposed.infos()  # knows the views that are refused
            if table is not None and (reason := self._policy.refused.get(table)):
                return f"hidden by views: {reason}"
            if table is not None and (problem := self._policy.unprotected.get(table)):
                return f"hidden, since {problem.option} does not hold: {problem.message}"
            if table and (lacking := self._policy.lacks_claims(table)):
                names = ", ".join(each or "claims" for each in lacking)
                by = self._by_claims(table)
                return f"hidden{by} from callers without tokens: `server.claims` has no {names}"
            if table is not None and self._policy.of(table) is None:
                return f"hidden by {self._policy.rule(table)}: false"
            await self._tree.resource(path)
        except ResourceUnreadable as error:
            return str(error)
        except ResourceNotFound:
            lacking = self._queries.lacks_claims(path[-1]) if path[:1] == (QUERY,) else ()
            if lacking:
                names = ", ".join(lacking)
                return f"hidden from callers without tokens: `server.claims` has no {names}"
            options = None if table is None else self._policy.of(table)
            if table is None or options is None or options.where is None:
                return "does not exist"
            return f"does not exist, or is hidden by {self._policy.rule(table)}.where"
        by = self._by_claims(table) if table is not None else ""
        if table is None and self._policy.claims:
            every = [each.name for each in await self._exposed.infos()]
            below = [n for n in every if address_path(TableAddress(n))[: len(path)] == path]
            names = [name.name for name in below if self._policy.row_claims(name)]
            more = f" and {len(names) - 9} more" if len(names) > 9 else ""
            by = f", with rows by claims in {', '.join(names[:9])}{more}" if names else ""
        return f"exposed{by}{self._required_scopes(path, table)}"

    def _by_claims(self, table: TableName) -> str:
        """Return by which claims a table has rows, and by which option."""
        by: list[str] = []
        if claims := self._policy.row_claims(table):
            by.append(f", rows by {', '.join(claims)} ({self._policy.rule(table)}.where)")
        if needed := sorted(self._policy.needed):
            names = ", ".join(each or "all claims" for each in needed)
            by.append(f", rows by {names} (settings)")
        return "".join(by)

    def _required_scopes(self, path: Path, table: TableName | None) -> str:
        """Return the scopes that an exposed resource requires, with the options behind them."""
        rule = self._policy.rule(table) if table else f"queries.{path[-1]}" if path else ""
        options = [each for each in (f"{rule}.access", f"{rule}.sql") if each in self._restrictions]
        scopes = frozenset[str]().union(*(self._restrictions[each] for each in options))
        if not scopes:
            return ""
        return f", to callers with {', '.join(sorted(scopes))} ({', '.join(options)})"

    @property
    def watched_by(self) -> str | None:
        """How changes are found, for the operator, if it depends on the source."""
        return getattr(self._engine, "watched_by", None)

    @property
    def storage_counts(self) -> tuple[int, int, int] | None:
        """The numbers of requests to object storage, of failed ones and of bytes, if it has any."""
        return getattr(self._engine, "storage_counts", None)

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        """Yield the resources that a commit may have changed. See `SupportsWatch.changes`."""
        detector = ChangeDetector(self._engine, self._exposed, self._tree)
        async with aclosing(detector.changes(interest)) as changes:
            async for change in changes:
                yield change

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        """Return tables, columns and queries by name, rows by values. See `SupportsSearch`."""
        return await self._search.search(
            request, below=below, after=after, limit=limit, deadline=deadline
        )

    def tools(self) -> Sequence[Tool]:
        """Return the queries that models may call, and SQL. See `SupportsTools.tools`."""
        found = list(self._queries.tools)
        if self._caller_sql is not None:
            uri = f", {self._link(())}" if self._link is not None else ""
            found.append(sql_tool(f"{DIALECTS[self._engine.name]}{uri}"))
        return found

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> MaybeAwaitable[ToolResult]:
        """Return the rows of a query or a statement. See `SupportsTools.call_tool`."""
        return eager.run(self._call_tool(name, arguments, request))

    async def _call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> ToolResult:
        if name == TOOL_NAME and self._caller_sql is not None:
            given, limit = arguments.get("parameters", {}), arguments.get("limit")
            found = await self._caller_sql.run(arguments["sql"], given, limit)
            page = pages.RowPage(
                "Result", pages.query_columns(found.columns), found.rows, found.more
            )
            if "format" in arguments:
                return await self._documents.chart_result(page, budget=request.budget)
            return self._documents.table_result(page, budget=request.budget)
        return await self._documents.call_query(name, arguments, budget=request.budget)

    def recorded_address(
        self, path: Path, query: Mapping[str, str], *, served: bool
    ) -> tuple[Path, Mapping[str, str]]:
        """Return an address without values. See `SupportsRecord.recorded_address`."""
        return recorded.recorded_address(
            path,
            query,
            served=served,
            has_schemas=self._engine.has_schemas,
            is_known=self._is_known,
        )

    def _is_known(self, name: TableName | str) -> bool:
        """Return whether a name is that of a query, a table, or a schema (without a table)."""
        if isinstance(name, str):
            return name in self._queries
        known = {*self._exposed.known, *(TableName(None, each) for each in self.tables)}
        if not name.name:
            return name.schema in {each.schema for each in known}
        return name in known or TableName(None, name.name) in known

    def recorded_call(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Return the SQL of a caller without values. See `SupportsRecord.recorded_call`."""
        if tool != TOOL_NAME:
            return None
        return recorded.recorded_statement(str(arguments.get("sql")), self._engine.name)

    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        """Return table names, row keys or parameter values. See `SupportsComplete`."""
        match variable:
            case "table" | "schema":
                return await self._completion.names(variable, given)
            case "key" if "table" in given:
                return await self._completion.row_keys(value, given)
            case "format":
                has_rows = "table" in given and "by" not in given
                return (*FORMATS, *(() if has_rows else charts.FORMATS))
            case _ if "table" in given and is_filter(variable):
                return await self._completion.values(variable, given)
            case _ if "table" in given and variable in NAMING:
                return await self._completion.columns(variable, value, given)
            case _:
                return self._queries.complete(variable, value, given)


def _templates(prefix: str) -> Sequence[Template]:
    return (
        Template(
            f"{prefix}{{table}}/~rows",
            name="rows",
            title="Rows of a table",
            description="A page of rows in the order of the key. Optional URI parameters: "
            "where.COLUMN or where.COLUMN.OPERATOR (eq, ne, lt, le, gt, ge, in, like, null); sort "
            "(names separated by commas, -name descending); count (only the number of rows); "
            "limit; after (a cursor); columns (names separated by commas); cell (characters of a "
            "value, at most); format (json, columns, csv or markdown), as in "
            "orders/~rows?where.status=paid&sort=-total&limit=20",
            type="document",
            optional=(*PAGE_PARAMETERS, FILTERS),
        ),
        Template(
            f"{prefix}{{table}}/~summary",
            name="summary",
            title="Groups of rows of a table",
            description="Counts, sums and other aggregates. Optional URI parameters: by (at most "
            "three columns), sum, min, max, avg (columns), where.COLUMN, sort (columns of the "
            "summary), limit, after, format (that of rows, or as a chart "
            f"{', '.join(charts.FORMATS)}), as in "
            "orders/~summary?by=country&sum=total&sort=-sum.total",
            type="document",
            optional=(*SUMMARY_PARAMETERS, FILTERS),
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
            f"{prefix}{{table}}/~schema",
            name="schema",
            title="Schema of a table",
            description="Columns, keys and indexes. Optional URI parameter: format (markdown or "
            "json)",
            mime_type="text/markdown",
            type="document",
            optional=("format",),
        ),
    )


_: type[Provider] = Database
