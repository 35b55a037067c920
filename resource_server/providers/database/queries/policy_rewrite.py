"""Declared queries of servers and DuckDB, confined to exposed rows and columns.

Each restricted table of a query is replaced by a subquery: the rows that match `where`, the columns
that are neither hidden nor masked. No condition of a query runs on a row that `where` hides.
(On SQLite, the engine itself confines queries.)
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from typing_extensions import override

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.contract import Engine, Statement
from resource_server.providers.database.engines.reflection import TableName, quoted
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries import sql_tokenizer
from resource_server.providers.database.queries.declared import DeclaredQuery
from resource_server.providers.database.reading.exposed_table import ExposedTableCache

_CATALOG_S: Final = 5.0
"""Timeout of a catalog query for names."""
_MANY: Final = 1_000_000
_SOURCES: Final = frozenset(("from", "join"))
_CLAUSES: Final = frozenset(
    """
    select where group having order window on using union except intersect limit fetch offset
    """.split()
)


class Rewritten(NamedTuple):
    """A query that reads only what is exposed."""

    sql: str
    """SQL with placeholders."""
    order: tuple[str, ...]
    """Parameter names in placeholder order."""
    tables: Mapping[str, str] = {}
    """Tables of the query, by the names that take their place in the SQL."""

    def column_name(self, name: str) -> str:
        """Return the name of a column of the result, with the query's own names of tables."""
        for written, table in self.tables.items():
            name = name.replace(written, table)
        return name


class QueryRewriter(ABC):
    """Confines declared queries to what the manifest exposes."""

    def __init__(self, engine: Engine, policy: Policy, exposed_tables: ExposedTableCache) -> None:
        self._engine = engine
        self._policy = policy
        self._exposed = exposed_tables
        self._state: object = None
        self._known: dict[str, Rewritten | ValueError] = {}
        """Rewritten queries by their SQL, or the refusal of one."""

    async def rewritten(self, query: DeclaredQuery) -> Rewritten:
        """Return a query that reads only what is exposed.

        Raises:
            ValueError: it would read hidden data; the message is for the manifest's author.
        """
        if not self._policy.is_restricting:
            return Rewritten(query.sql, query.order)
        # The sequence is a new object after every change of the schema.
        state = await self._exposed.infos()
        if state is not self._state:
            self._state, self._known = state, {}
        known = self._known
        if query.sql not in known:
            try:
                known[query.sql] = await self._write(query)
            except ValueError as error:
                known[query.sql] = error
        match known[query.sql]:
            case Rewritten() as found:
                return found
            case refused:
                raise ValueError(*refused.args)

    @abstractmethod
    async def _write(self, query: DeclaredQuery) -> Rewritten:
        """Rewrite a query, which may need no change. Raises as `rewritten`."""

    async def _home(self) -> str:
        """Return the schema of tables whose names have none."""
        return "main"

    async def _run_own(self, sql: str, *parameters: object) -> Sequence[tuple[object, ...]]:
        statement = Statement(sql, parameters)
        return (await self._engine.run_own(statement, limit=_MANY, within=_CATALOG_S)).rows

    async def _body(self, name: TableName, written: str, defined: Iterable[str]) -> str:
        """Return a SELECT of the visible part of a restricted table.

        Args:
            name: the table.
            written: its name in the query.
            defined: the names of the common table expressions of the query.

        Raises:
            ValueError: it is hidden, or its condition means something else in the query.
        """
        options = self._policy.of(name)
        hidden = f"reads {written}, which is hidden ({self._policy.rule(name) or 'tables'})"
        if options is None:
            raise ValueError(hidden)
        try:
            view = (await self._exposed.get(name)).view
        except ResourceNotFound:
            raise ValueError(hidden) from None
        for each in defined:
            if options.where and re.search(rf"\b{re.escape(each)}\b", options.where, re.IGNORECASE):
                raise ValueError(
                    f"defines {each}, a name in the `where` of {name.name}; choose another"
                )
        engine = self._engine.name
        visible = [each for each in view.table.column_names if each not in view.masked]
        columns = ", ".join(quoted(each, engine) for each in visible) or "1 AS nothing"
        schema = name.schema if name.schema is not None else await self._home()
        table = f"{quoted(schema, engine)}.{quoted(name.name, engine)}"
        body = f"SELECT {columns} FROM {table}"  # noqa: S608 - quoted
        where = view.options.where  # with the values of the caller's claims
        if where is None:
            return body
        # The limit has no effect but to keep the conditions of the query outside. An engine may
        # otherwise run one first, on hidden rows, and its errors would reveal their values.
        barrier = f"LIMIT {2**64 - 1}" if engine in ("mysql", "mariadb") else "OFFSET 0"
        return f"{body} WHERE ({where}\n) {barrier}"


class WholeTables(QueryRewriter):
    """Refuses the queries that may read what is hidden, and changes none.

    For engines whose SQL nothing here can rewrite. Where the manifest hides or masks anything, a
    query names and reads only tables that are exposed whole. The manifest's author is trusted to
    mean no harm: views, synonyms and functions read what their owner lets them.
    """

    @override
    async def _write(self, query: DeclaredQuery) -> Rewritten:
        tables = [info.name for info in await self._engine.tables()]
        tokens = sql_tokenizer.statement(query.text, self._engine.name)
        self._check_names(tokens, tables)
        self._check_sources(tokens, tables)
        return Rewritten(query.sql, query.order)

    def _check_names(
        self, tokens: Sequence[sql_tokenizer.SqlToken], tables: Sequence[TableName]
    ) -> None:
        """Refuse a query that has the name of a restricted table anywhere."""
        names = {name.casefold() for token in tokens if (name := token.identifier) is not None}
        for table in filter(self._policy.restricts, tables):
            if table.name.casefold() in names:
                is_hidden = self._policy.of(table) is None
                raise ValueError(
                    f"reads {table.name}, which is {'' if is_hidden else 'partly '}hidden "
                    f"({self._policy.rule(table)}); queries of this engine read whole tables only: "
                    "let a view of the database show the rest"
                )

    def _check_sources(
        self, tokens: Sequence[sql_tokenizer.SqlToken], tables: Sequence[TableName]
    ) -> None:
        """Refuse a query that reads something else than exposed tables and its own subqueries."""
        known = {table.name.casefold() for table in tables if self._policy.of(table) is not None}
        found = sql_tokenizer.references(tokens, self._engine.name)
        words = [each.text.lower() for each in tokens if each.kind != "space"]
        known |= {name for name, word in pairwise(words) if word == "as"}
        is_source = False
        for each in found:
            word = each.parts[0].lower()
            is_table = each.before in _SOURCES or (is_source and each.before == ",")
            is_known = each.parts[-1].casefold() in known or word in ("lateral", "select")
            if is_table and not is_known:
                raise no_table(each.parts)
            if word in _CLAUSES or word in _SOURCES:
                is_source = word in _SOURCES


def no_table(path: Sequence[str]) -> ValueError:
    """Return the error of a name that no table has."""
    return ValueError(f"reads {'.'.join(path)}, and there is no such table")
