"""Declared queries of servers and DuckDB, confined to exposed rows and columns.

Each restricted table of a query is replaced by a subquery: the rows that match `where`, the columns
that are neither hidden nor masked. No condition of a query runs on a row that `where` hides.
Functions that may read tables are refused (`called_functions`), and so is the catalog. The
manifest's author is trusted to mean no harm: views may read whatever their owner lets them, and
functions are what they are declared to be. (On SQLite, the engine itself confines queries.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.contract import Engine, Statement
from resource_server.providers.database.engines.duckdb import catalog, syntax
from resource_server.providers.database.engines.reflection import TableName, quoted
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries import called_functions
from resource_server.providers.database.reading.exposed_table import ExposedTableCache

if TYPE_CHECKING:
    from resource_server.providers.database.queries.query_tree import QueryTree, TablePath

_CATALOG_S = 5.0
"""Timeout of a catalog query for names."""
_MANY = 1_000_000
_MAIN = "main"
"""DuckDB's schema where no other is named."""

_PATH = "SELECT pg_catalog.unnest(pg_catalog.current_schemas(true))::text"
_TABLES = """
SELECT n.nspname::text, c.relname::text, wn.nspname::text, w.relname::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_class w ON c.relispartition AND w.oid = pg_catalog.pg_partition_root(c.oid)
LEFT JOIN pg_catalog.pg_namespace wn ON wn.oid = w.relnamespace
WHERE c.relname = ANY ($1::text[]) AND c.relkind IN ('r', 'p', 'f', 'v', 'm', 'S')"""


_READABLE = """
SELECT n.nspname::text, c.relname::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND n.nspname !~ '^(pg_|information_schema$)'
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
  AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT')"""
_MYSQL_CATALOGS = frozenset(("information_schema", "mysql", "performance_schema", "sys"))


class Rewritten(NamedTuple):
    """A query that reads only what is exposed."""

    sql: str
    """SQL with placeholders."""
    order: tuple[str, ...]
    """Parameter names in placeholder order."""


class _TableResolver(Protocol):
    """Resolves names of tables, on one engine in one state of its schema."""

    def resolve(self, path: TablePath) -> TableName | None:
        """Return the table that a name means; None if it is none of the database's own.

        Raises:
            ValueError: it means several tables, or none; for the manifest's author.
        """
        ...


class QueryRewriter:
    """Confines declared queries to what the manifest exposes."""

    def __init__(self, engine: Engine, policy: Policy, exposed_tables: ExposedTableCache) -> None:
        self._engine = engine
        self._policy = policy
        self._exposed = exposed_tables
        self._database: str | None = None
        self._state: object = None
        self._is_hiding: bool | None = None
        self._known: dict[str, tuple[Rewritten | None, str | None]] = {}
        """Rewritten queries by text, each with the reason if it is refused."""

    async def rewritten(self, text: str) -> Rewritten | None:
        """Return a query that reads only what is exposed; None if it does so as it is.

        Args:
            text: its SQL as the author writes it, with parameters as :name.

        Raises:
            ValueError: it would read hidden data; the message is for the manifest's author.
        """
        if not self._policy.is_restricting:
            return None
        # The sequence is a new object after every change of the schema.
        state = await self._exposed.infos()
        if state is not self._state:
            self._state, self._known, self._is_hiding = state, {}, None
        known = self._known
        if text not in known:
            try:
                known[text] = await self._write(text), None
            except ValueError as error:
                known[text] = None, str(error)
        written, refused = known[text]
        if refused is not None:
            raise ValueError(refused)
        return written

    async def _write(self, text: str) -> Rewritten | None:
        # The import takes 0.15 s; a policy that restricts nothing does without it.
        from resource_server.providers.database.queries.query_tree import QueryTree

        tree = QueryTree(text, self._engine.name)
        function = await called_functions.reading(tree.functions(), self._engine.name, self._ask)
        if function is not None and await self._hides():
            raise ValueError(
                f"calls {function}(), which may read what is hidden; write its SQL in the query, "
                "or use a login that reads no more than is visible"
            )
        names = await self._names(tree.tables())
        sources: dict[TablePath, str] = {}
        if tree.is_recursive:
            # DuckDB takes the name of a recursive expression for a table in its first part.
            for name in tree.definitions():
                self._refuse_definition(name, await self._names([(name,)]))
        for path in tree.tables():
            if (source := await self._source(path, names, tree)) is not None:
                sources[path] = source
        if self._engine.name == "duckdb":
            await self._refuse_unseen(tree, sources)
        return Rewritten(*tree.replaced(sources)) if sources else None

    async def _source(self, path: TablePath, names: _TableResolver, tree: QueryTree) -> str | None:
        """Return the subquery that takes the place of a table, or None if the table stays.

        Raises:
            ValueError: as `rewritten`.
        """
        table = names.resolve(path)
        if table is None and self._is_catalog(path) and await self._hides():
            raise ValueError(f"reads {'.'.join(path)}, which may tell what is hidden")
        if table is None or not self._policy.restricts(table):
            return None
        body = await self._body(table)
        if body is None:
            rule = self._policy.rule(table) or "tables"
            raise ValueError(f"reads {'.'.join(path)}, which is hidden ({rule})")
        options = self._policy.of(table)
        where = options.where if options is not None else None
        for name in tree.definitions():
            if where and re.search(rf"\b{re.escape(name)}\b", where, re.IGNORECASE):
                raise ValueError(
                    f"defines {name}, a name in the `where` of {table.name}; choose another"
                )
        return f"({body})"

    def _refuse_definition(self, name: str, names: _TableResolver) -> None:
        try:
            table = names.resolve((name,))
        except ValueError:
            return
        if table is not None and self._policy.restricts(table):
            raise ValueError(f"defines {name}, which is also a table; choose another name")

    async def _hides(self) -> bool:
        """Return whether the login may read anything that the policy hides or masks."""
        if self._is_hiding is None:
            self._is_hiding = await self._may_read_hidden()
        return self._is_hiding

    async def _may_read_hidden(self) -> bool:
        if self._engine.name == "postgresql":
            found = await self._ask(_READABLE)
            tables = [TableName(str(schema), str(name)) for schema, name in found]
        else:
            tables = [info.name for info in await self._engine.tables()]
        for name in filter(self._policy.restricts, tables):
            options = self._policy.of(name)
            if options is None or options.where is not None:
                return True
            try:
                table = await self._engine.table(name)
            except ResourceNotFound:
                return True
            view = self._policy.view(table)
            if view.masked or len(view.table.columns) < len(table.columns):
                return True
        return False

    # -- resolving names

    def _is_catalog(self, path: TablePath) -> bool:
        """Return whether a table that is none of the database's own is of its catalog."""
        if self._engine.name == "postgresql":
            return True
        return self._is_mysql and path[0].casefold() in _MYSQL_CATALOGS

    @property
    def _is_mysql(self) -> bool:
        return self._engine.name in ("mysql", "mariadb")

    async def _names(self, paths: Iterable[TablePath]) -> _TableResolver:
        if self._engine.name == "postgresql":
            schemas = [str(schema) for (schema,) in await self._ask(_PATH)]
            wholes: dict[TableName, TableName] = {}
            every = [path[-1] for path in paths]
            for schema, name, whole_schema, whole in await self._ask(_TABLES, every):
                part = TableName(str(schema), str(name))
                wholes[part] = TableName(str(whole_schema), str(whole)) if whole else part
            return _InSchemas(self._policy, schemas, wholes)
        tables = [info.name for info in await self._engine.tables()]
        home = await self._home()
        if self._engine.name != "duckdb":
            return _WithoutSchemas(self._policy, (home,), tables)
        ((database,),) = await self._ask(catalog.DATABASE)
        if self._engine.has_schemas:
            return _InDuckdb(self._policy, str(database), tables)
        return _WithoutSchemas(self._policy, (home, str(database)), tables)

    async def _home(self) -> str:
        """Return the schema of all tables, for engines without schemas."""
        if not self._is_mysql:
            return _MAIN
        if self._database is None:
            ((database,),) = await self._ask("SELECT DATABASE()")
            self._database = str(database)
        return self._database

    async def _ask(self, sql: str, *parameters: object) -> Sequence[tuple[object, ...]]:
        statement = Statement(sql, parameters)
        return (await self._engine.fetch(statement, limit=_MANY, within=_CATALOG_S)).rows

    async def _refuse_unseen(self, tree: QueryTree, sources: Mapping[TablePath, str]) -> None:
        """Refuse restricted tables that only DuckDB's own parser finds."""
        (text, _) = tree.replaced(dict.fromkeys(sources, "(SELECT 1)"))
        ((serialized,),) = await self._ask(syntax.PARSE, text)
        try:
            parsed: Any = json.loads(serialized) if isinstance(serialized, str) else None
        except RecursionError:
            raise ValueError("is nested too deeply") from None
        if parsed is None:
            raise ValueError("is too long")
        if parsed["error"]:
            raise ValueError(str(parsed.get("error_message", "cannot be parsed")))
        seen = tree.tables() | {(name,) for name in tree.definitions()}
        for path in syntax.tables(parsed):
            if tuple([part.casefold() for part in path]) not in seen:
                raise ValueError(f"reads {'.'.join(path)} in a way that is not understood")

    # -- visible parts

    async def _body(self, name: TableName) -> str | None:
        """Return a SELECT of the visible part of a table, or None if it is hidden."""
        options = self._policy.of(name)
        if options is None:
            return None
        try:
            view = (await self._exposed.get(name)).view
        except ResourceNotFound:
            return None
        columns = [name for name in view.table.column_names if name not in view.masked]
        listed = ", ".join(map(self._quoted, columns)) or "1 AS nothing"
        body = _select(listed, await self._qualified(name))
        if options.where is None:
            return body
        return f"{body} WHERE ({options.where}\n) {self._barrier}"

    @property
    def _barrier(self) -> str:
        """A clause without effect that keeps the conditions of a query outside of the SELECT.

        An engine may otherwise run a query's condition first, on hidden rows, and its errors
        would reveal their values.
        """
        return f"LIMIT {2**64 - 1}" if self._is_mysql else "OFFSET 0"

    async def _qualified(self, name: TableName) -> str:
        schema = name.schema if name.schema is not None else await self._home()
        return f"{self._quoted(schema)}.{self._quoted(name.name)}"

    def _quoted(self, name: str) -> str:
        return quoted(name, self._engine.name)


def _select(columns: str, source: str) -> str:
    return f"SELECT {columns} FROM {source}"  # noqa: S608 - quoted, or the manifest's


class _WithoutSchemas:
    """Resolves names on MySQL, MariaDB and in data files.

    `homes` are the names of the schema of all tables.
    """

    def __init__(self, policy: Policy, homes: Iterable[str], tables: Iterable[TableName]) -> None:
        self._policy = policy
        self._homes = {home.casefold() for home in homes}
        self._tables = _by_folded_name(tables)

    def resolve(self, path: TablePath) -> TableName | None:
        if len(path) > 1 and path[-2].casefold() not in self._homes:
            return None
        return _only(self._policy, path, self._tables.get(_name(path).casefold(), ()))


class _InDuckdb:
    """Resolves names in a DuckDB file, which ignores case; `database` is its name in SQL."""

    def __init__(self, policy: Policy, database: str, tables: Iterable[TableName]) -> None:
        self._policy = policy
        self._database = database.casefold()
        self._tables = _by_folded_name(tables)

    def resolve(self, path: TablePath) -> TableName | None:
        schema = path[-2].casefold() if len(path) > 1 else _MAIN
        if schema == self._database and len(path) == 2:
            schema = _MAIN
        found = self._tables.get(_name(path).casefold(), ())
        return _only(self._policy, path, [t for t in found if str(t.schema).casefold() == schema])


class _InSchemas:
    """Resolves names on PostgreSQL.

    `path` is the search path. `wholes` maps every table that has one of the names to the table that
    it is a partition of, or to itself.
    """

    def __init__(
        self, policy: Policy, path: Sequence[str], wholes: Mapping[TableName, TableName]
    ) -> None:
        self._policy = policy
        self._path = path
        self._wholes = wholes

    def resolve(self, path: TablePath) -> TableName | None:
        schemas = self._path if len(path) == 1 else path[-2:-1]
        named = [TableName(schema, path[-1]) for schema in schemas]
        table = next((each for each in named if each in self._wholes), None)
        if table is None:
            raise _no_table(path)
        if table.schema is None or table.schema.startswith("pg_"):
            return None
        if table.schema == "information_schema":
            return None
        whole = self._wholes[table]
        if whole != table and (self._policy.restricts(whole) or self._policy.restricts(table)):
            raise ValueError(
                f"reads {'.'.join(path)}, a partition of {whole.name}, which is partly hidden; "
                f"read {whole.name}"
            )
        return table


def _by_folded_name(tables: Iterable[TableName]) -> Mapping[str, Sequence[TableName]]:
    found: dict[str, list[TableName]] = {}
    for table in tables:
        found.setdefault(table.name.casefold(), []).append(table)
    return found


def _only(policy: Policy, path: TablePath, tables: Sequence[TableName]) -> TableName:
    """Return the one table that a name means, where the engine ignores case or may do so."""
    if not tables:
        raise _no_table(path)
    exact = [table for table in tables if table.name == path[-1]]
    if len(tables) > 1 and any(map(policy.restricts, tables)):
        raise ValueError(
            f"reads {'.'.join(path)}, which names several tables that differ only in case"
        )
    return (exact or list(tables))[0]


def _name(path: TablePath) -> str:
    return path[len(path) - 1]


def _no_table(path: TablePath) -> ValueError:
    return ValueError(f"reads {'.'.join(path)}, and there is no such table")
