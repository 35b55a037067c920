"""Declared queries of servers, confined to exposed rows and columns.

Functions that may read tables are refused (`declared_functions`), and so is the catalog. The
manifest's author is trusted to mean no harm: views may read whatever their owner lets them, and
functions are what they are declared to be.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import override

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.queries import declared_functions
from resource_server.providers.database.queries.declared import DeclaredQuery
from resource_server.providers.database.queries.policy_rewrite import (
    QueryRewriter,
    Rewritten,
    no_table,
)

if TYPE_CHECKING:
    from resource_server.providers.database.queries.query_tree import TablePath

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


Resolver: TypeAlias = Callable[["TablePath"], TableName | None]
"""Returns the table that a name means, None if it is none of the database's own.

Raises ValueError, for the manifest's author, if it means several tables, or none.
"""


class ServerRewriter(QueryRewriter):
    """Confines declared queries of a server."""

    _hiding: tuple[object, bool] | None = None
    """The state of the schema, and whether the login may read then what is hidden."""

    @abstractmethod
    async def _resolver(self, paths: Iterable[TablePath]) -> Resolver:
        """Return what resolves these names of tables, in the present state of the schema."""

    @abstractmethod
    def _is_catalog(self, path: TablePath) -> bool:
        """Return whether a table that is none of the database's own is of its catalog."""

    @abstractmethod
    async def _readable(self) -> Sequence[TableName]:
        """Return the tables that the login may read."""

    @override
    async def _write(self, query: DeclaredQuery) -> Rewritten:
        # The import takes 0.15 s; a policy that restricts nothing does without it.
        from resource_server.providers.database.queries.query_tree import QueryTree

        tree = QueryTree(query.text, self._engine.name)
        function = await declared_functions.reading(
            tree.functions(), self._engine.name, self._run_own
        )
        if function is not None and await self._hides():
            raise ValueError(
                f"calls {function}(), which may read what is hidden; write its SQL in the query, "
                "or use a login that reads no more than is visible"
            )
        resolved = await self._resolver(tree.tables())
        sources: dict[TablePath, str] = {}
        for path in tree.tables():
            table, written = resolved(path), ".".join(path)
            if table is None and self._is_catalog(path) and await self._hides():
                raise ValueError(f"reads {written}, which may tell what is hidden")
            if table is not None and self._policy.restricts(table):
                sources[path] = f"({await self._body(table, written, tree.definitions())})"
        if not sources:
            return Rewritten(query.sql, query.order)
        return Rewritten(*tree.replaced(sources))

    async def _hides(self) -> bool:
        """Return whether the login may read anything that the policy hides or masks."""
        if self._hiding is None or self._hiding[0] is not self._state:
            self._hiding = self._state, await self._may_read_hidden()
        return self._hiding[1]

    async def _may_read_hidden(self) -> bool:
        for name in filter(self._policy.restricts, await self._readable()):
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


class PostgresRewriter(ServerRewriter):
    """Confines declared queries of PostgreSQL."""

    @override
    async def _resolver(self, paths: Iterable[TablePath]) -> Resolver:
        schemas = [str(schema) for (schema,) in await self._run_own(_PATH)]
        wholes: dict[TableName, TableName] = {}
        """Every table of these names, with the table that it is a partition of, or itself."""
        every = [path[-1] for path in paths]
        for schema, name, whole_schema, whole in await self._run_own(_TABLES, every):
            part = TableName(str(schema), str(name))
            wholes[part] = TableName(str(whole_schema), str(whole)) if whole else part

        def resolved(path: TablePath) -> TableName | None:
            named = [TableName(schema, path[-1]) for schema in path[-2:-1] or schemas]
            table = next((each for each in named if each in wholes), None)
            if table is None:
                raise no_table(path)
            if str(table.schema).startswith("pg_") or table.schema == "information_schema":
                return None
            whole = wholes[table]
            if whole != table and (self._policy.restricts(whole) or self._policy.restricts(table)):
                raise ValueError(
                    f"reads {'.'.join(path)}, a partition of {whole.name}, which is partly hidden; "
                    f"read {whole.name}"
                )
            return table

        return resolved

    @override
    def _is_catalog(self, path: TablePath) -> bool:
        return True

    @override
    async def _readable(self) -> Sequence[TableName]:
        return [
            TableName(str(schema), str(name)) for schema, name in await self._run_own(_READABLE)
        ]


class MysqlRewriter(ServerRewriter):
    """Confines declared queries of MariaDB and MySQL, which may ignore case."""

    _database: str | None = None

    @override
    async def _resolver(self, paths: Iterable[TablePath]) -> Resolver:
        tables = await self._readable()
        home = (await self._home()).casefold()

        def resolved(path: TablePath) -> TableName | None:
            if path[:-1] and path[-2].casefold() != home:
                return None
            name = path[-1]
            found = [each for each in tables if each.name.casefold() == name.casefold()]
            if not found:
                raise no_table(path)
            if found[1:] and any(map(self._policy.restricts, found)):
                raise ValueError(
                    f"reads {'.'.join(path)}, which names several tables that differ only in case"
                )
            return next((each for each in found if each.name == name), found[0])

        return resolved

    @override
    def _is_catalog(self, path: TablePath) -> bool:
        return path[0].casefold() in _MYSQL_CATALOGS

    @override
    async def _readable(self) -> Sequence[TableName]:
        return [info.name for info in await self._engine.tables()]

    @override
    async def _home(self) -> str:
        if self._database is None:
            ((database,),) = await self._run_own("SELECT DATABASE()")
            self._database = str(database)
        return self._database
