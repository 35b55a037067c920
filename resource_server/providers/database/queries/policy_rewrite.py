"""Rewrites declared queries so that they read only exposed rows and columns.

A restricted table is shadowed by a common table expression of its name, with the rows that match
`where` and the columns that are neither hidden nor masked. The engine resolves names, so this holds
everywhere: in joins, subqueries and inline views. Names qualified with a schema would bypass the
expression and are refused. No condition of a query runs on a row that `where` hides.

Names are shadowed even if no such table exists yet, in case it is created after the rewrite. Views
and functions may read whatever their owner lets them; in DuckDB, functions that read are refused.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.contract import Engine, EngineName, Statement
from resource_server.providers.database.engines.duckdb import catalog, syntax
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries.sql_tokenizer import (
    EDGE,
    OURS,
    NameReference,
)
from resource_server.providers.database.reading.exposed_table import ExposedTableCache

_CATALOG_S = 5.0
"""Timeout of a catalog query for names."""
_MANY = 1_000_000
_MAIN = "main"
"""The schema of SQLite's tables, and of DuckDB's where no other is named."""

_PATH = "SELECT pg_catalog.unnest(pg_catalog.current_schemas(true))::text"
_TABLES = """
SELECT n.nspname::text, c.relname::text, wn.nspname::text, w.relname::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_class w ON c.relispartition AND w.oid = pg_catalog.pg_partition_root(c.oid)
LEFT JOIN pg_catalog.pg_namespace wn ON wn.oid = w.relnamespace
WHERE c.relname = ANY ($1::text[]) AND c.relkind IN ('r', 'p', 'f', 'v', 'm', 'S')"""

_FAILS = "SELECT 1 AS nothing FROM (SELECT 1 AS one) AS one WHERE (SELECT 1 UNION SELECT 2) = 1"
"""Fails when it is read: the subquery has two rows. (SQLite would use the first.)"""

_AFTER = frozenset(("from", "join", "only", "straight_join", "table"))
"""Words before the name of a table, and rarely before the name of a column."""
_BETWEEN = frozenset((*_AFTER, ",", "(", "in"))
"""Every word or sign that can precede the name of a table."""
_ELSEWHERE = frozenset(("select", "with", "values", "where", "group", "having", "order", "window"))
"""Words that begin a clause in which no comma precedes the name of a table."""
_HOMES: Mapping[EngineName, Sequence[str | None]] = {
    "postgresql": ("public",),
    "duckdb": ("main", None),
}
"""Schemas of unqualified names, as far as a statement alone can tell."""
_AMBIGUOUS = "which names several tables that differ only in case"
_END = f"\n{EDGE}"
_WITH = re.compile(r"\s*with\b(?:\s+(recursive)\b)?", re.IGNORECASE)
_SELECT = re.compile(r"\bselect\b", re.IGNORECASE)


class _Shadow(NamedTuple):
    """The replacement for the name of a table."""

    table: TableName | None
    """The table to read, or None if nothing may be read."""
    refused: str = ""
    """Reason why an existing table is refused, for the manifest's author."""


class _TableResolver(Protocol):
    """Resolves names to tables, on one engine in one state of its schema."""

    def shadow(self, name: str, *, likely: bool) -> _Shadow | None:
        """Return the replacement for an unqualified name, or None if it needs none.

        `likely`: the name is in the position of a table name, whether or not the table exists.
        """
        ...

    def restricted(self, schema: str, name: str, *, likely: bool) -> TableName | None:
        """Return the restricted table of a qualified name, or None; `likely` as in `shadow`."""
        ...


class QueryRewriter:
    """Confines declared queries to what the manifest exposes."""

    def __init__(self, engine: Engine, policy: Policy, exposed_tables: ExposedTableCache) -> None:
        self._engine = engine
        self._policy = policy
        self._exposed = exposed_tables
        self._database: str | None = None
        self._state: object = None
        self._known: dict[str, tuple[str, str | None]] = {}
        """Rewritten statements, each with the reason if it is refused."""

    async def sql(self, sql: str, references: Sequence[NameReference]) -> str:
        """Return the rewritten statement; `references` are its names.

        Raises:
            ValueError: it would read hidden data; the message is for the manifest's author.
        """
        if not self._policy.is_restricting:
            return sql
        # The sequence is a new object after every change of the schema.
        state = await self._exposed.infos()
        if state is not self._state:
            self._state, self._known = state, {}
        known = self._known
        if sql not in known:
            try:
                known[sql] = await self._write(sql, references), None
            except ValueError as error:
                known[sql] = "", str(error)
        written, refused = known[sql]
        if refused is not None:
            raise ValueError(refused)
        return written

    async def check(
        self, sql: str, references: Sequence[NameReference], order: Sequence[str]
    ) -> None:
        """Let the database prepare the rewritten statement; `order` are its parameters.

        Raises:
            ValueError: it is refused here or by the database; for the manifest's author.
        """
        await self._engine.check(await self.sql(sql, references), order)

    async def _write(self, sql: str, references: Sequence[NameReference]) -> str:
        if self._engine.name == "duckdb":
            await self._refuse_unseen(sql, references)
        names = await self._names(references)
        self._refuse_qualified(references, names)
        shadows = self._shadows(references, names)
        bodies: list[str] = []
        shown: list[str] = []
        for name, shadow in shadows.items():
            body = None if shadow.table is None else await self._body(shadow.table)
            if body is None:
                shown.append(self._expression(name, self._nothing(name)))
            elif body:
                ours = f"{OURS}{len(bodies)}"
                bodies.append(self._expression(ours, body))
                shown.append(self._expression(name, _select("*", self._quoted(ours))))
        if not shown:
            return sql
        if self._is_mysql:
            return self._joined(sql, references, bodies, shown)
        # Two levels, so that the manifest's conditions read the tables, not their shadows.
        inner = f"WITH {', '.join(shown)} {_around(EDGE + sql + _END)}"
        return f"WITH {', '.join(bodies)} {_around(inner)}" if bodies else inner

    def _joined(
        self, sql: str, references: Sequence[NameReference], bodies: list[str], shown: list[str]
    ) -> str:
        """Return a statement with the expressions added to its own WITH.

        MariaDB resolves names of an inner WITH to tables, not to the outer WITH.
        """
        if any(r.parts[0].lower() == "with" and r.before == "(" for r in references):
            raise ValueError(
                "has a WITH in parentheses and reads partly hidden tables; write WITH only at the "
                "beginning"
            )
        every = ", ".join([*bodies, *shown]).replace("%", "%%")
        begins = _WITH.match(sql)
        if begins is None:
            return f"WITH {every} {sql}"
        if begins[1] and any(len(_SELECT.findall(body)) > 1 for body in bodies):
            # A SELECT in `where` would read the shadows.
            raise ValueError(
                "is WITH RECURSIVE and reads a table whose `where` has a SELECT; "
                "use only one of them"
            )
        return f"{begins[0]} {every},{sql[begins.end() :]}"

    # -- resolving names

    @property
    def _is_mysql(self) -> bool:
        return self._engine.name in ("mysql", "mariadb")

    async def _names(self, references: Sequence[NameReference]) -> _TableResolver:
        if self._engine.name == "postgresql":
            path = [str(schema) for (schema,) in await self._ask(_PATH)]
            every = list({part for reference in references for part in reference.parts})
            wholes: dict[TableName, TableName] = {}
            for schema, name, whole_schema, whole in await self._ask(_TABLES, every):
                part = TableName(str(schema), str(name))
                wholes[part] = TableName(str(whole_schema), str(whole)) if whole else part
            return _InSchemas(self._policy, path, wholes)
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

    async def _refuse_unseen(self, sql: str, references: Sequence[NameReference]) -> None:
        """Refuse tables that DuckDB's parser finds and the tokenizer does not."""
        ((text,),) = await self._ask(syntax.PARSE, sql)
        try:
            parsed: Any = json.loads(text) if isinstance(text, str) else None
        except RecursionError:
            raise ValueError("is nested too deeply") from None
        if parsed is None:
            raise ValueError("is too long")
        if parsed["error"]:
            raise ValueError(str(parsed.get("error_message", "cannot be parsed")))
        seen = {reference.parts for reference in references}
        for path in syntax.tables(parsed):
            if path not in seen:
                raise ValueError(
                    f"reads {'.'.join(path)} in a spelling that is not understood; write plain "
                    "spaces and names"
                )

    def _refuse_qualified(self, references: Sequence[NameReference], names: _TableResolver) -> None:
        given = {reference.parts[-1].casefold() for reference in references}
        for reference in references:
            parts = reference.parts
            for schema, name in pairwise(parts):
                likely = reference.before in _BETWEEN and not reference.doubtful
                likely = likely and schema.casefold() not in given
                table = names.restricted(schema, name, likely=likely)
                if table is None:
                    continue
                rule = self._policy.rule(table) or "tables"
                if self._policy.of(table) is None:
                    raise ValueError(f"reads {schema}.{name}, which is hidden ({rule})")
                raise ValueError(
                    f"reads {schema}.{name}, which is partly hidden ({rule}); write {name} alone"
                )

    def _shadows(
        self, references: Sequence[NameReference], names: _TableResolver
    ) -> dict[str, _Shadow]:
        """Return the replacements of table names."""
        fold = str if self._engine.name == "postgresql" else str.casefold
        # Names that the engine does not distinguish have one replacement.
        same = str if self._engine.name in ("postgresql", "mysql") else str.casefold
        certain = [reference for reference in references if not reference.doubtful]
        defined = {fold(r.parts[0]) for r in certain if r.defines}
        read = {fold(r.parts[0]) for r in certain if r.before in _AFTER and len(r.parts) == 1}
        likely = {same(r.parts[0]) for r in certain if r.before in _BETWEEN}
        # MySQL accepts `from .orders`, too.
        likely |= {same(part) for r in certain if r.parts[0].lower() in _AFTER for part in r.parts}
        found: dict[str, _Shadow] = {}
        for name in {same(part): part for r in references for part in r.parts}.values():
            shadow = names.shadow(name, likely=same(name) in likely)
            if shadow is None:
                continue
            if fold(name) in defined:
                if shadow.table is not None or shadow.refused:
                    raise ValueError(f"defines {name}, which is also a table; choose another name")
            elif fold(name) in read and shadow.refused:
                raise ValueError(f"reads {name}, {shadow.refused}")
            else:
                found[name] = shadow
        return found

    # -- visible parts

    async def _body(self, name: TableName) -> str | None:
        """Return a SELECT of the visible part of a table, None if hidden, "" if not to shadow."""
        options = self._policy.of(name)
        if options is None:
            return None
        if not self._policy.restricts(name):
            return _select("*", await self._qualified(name))
        try:
            view = self._policy.view(await self._engine.table(name))
        except ResourceNotFound:
            return None
        if view.table.type == "virtual table" and options.where is None:
            # Its search arguments are no columns; the authorizer guards the columns.
            return ""
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
        match self._engine.name:
            case "postgresql" | "duckdb":
                return "OFFSET 0"
            case "sqlite":
                return "LIMIT -1"
            case "mysql" | "mariadb":
                return f"LIMIT {2**64 - 1}"

    async def _qualified(self, name: TableName) -> str:
        schema = name.schema if name.schema is not None else await self._home()
        return f"{self._quoted(schema)}.{self._quoted(name.name)}"

    def _quoted(self, name: str) -> str:
        quote = "`" if self._is_mysql else '"'
        return quote + name.replace(quote, quote * 2) + quote

    def _expression(self, name: str, select: str) -> str:
        """Return a common table expression, merged into its reader if nothing prevents it."""
        sqlite = self._engine.name == "sqlite" and sqlite3.sqlite_version_info >= (3, 35)
        merged = "NOT MATERIALIZED " if sqlite or self._engine.name == "postgresql" else ""
        return f"{self._quoted(name)} AS {merged}({select})"

    def _nothing(self, name: str) -> str:
        if self._engine.name == "sqlite":
            return _select("*", self._quoted(f"{name}, which is hidden"))
        return _FAILS


def scopes_of(
    references: Iterable[NameReference], policy: Policy, engine: EngineName
) -> frozenset[str]:
    """Return the scopes required by the tables after FROM and JOIN.

    Works from the names in a statement, without a connection. PostgreSQL's search path
    is unknown then, so unqualified names are assumed to be in `public`.
    """
    scopes = set[str]()
    among_tables = False
    for reference in references:
        parts, word = reference.parts, reference.parts[0].lower()
        follows = reference.before in _AFTER or (among_tables and reference.before in _BETWEEN)
        if follows and not reference.doubtful and word not in _ELSEWHERE:
            for home in _HOMES.get(engine, ()) or (None,):
                schema = (home, *parts)[-2] if engine in _HOMES else None
                options = policy.of(TableName(schema, parts[-1]))
                scopes.update(options.access.scopes if options else ())
        among_tables = word in _AFTER or (among_tables and word not in _ELSEWHERE)
    return frozenset(scopes)


def _select(columns: str, source: str) -> str:
    return f"SELECT {columns} FROM {source}"  # noqa: S608 - quoted, or the manifest's


def _around(sql: str) -> str:
    return _select("*", f"({sql}\n) AS q")


class _WithoutSchemas:
    """Resolves names on SQLite, MySQL, MariaDB and in data files.

    `homes` are the names of the schema of all tables.
    """

    def __init__(self, policy: Policy, homes: Iterable[str], tables: Iterable[TableName]) -> None:
        self._policy = policy
        self._homes = {home.casefold() for home in homes}
        self._tables: dict[str, list[TableName]] = {}
        for table in tables:
            self._tables.setdefault(table.name.casefold(), []).append(table)

    def shadow(self, name: str, *, likely: bool) -> _Shadow | None:
        tables = self._tables.get(name.casefold(), [])
        if not tables:
            return _Shadow(None) if likely and self._policy.may_restrict(name) else None
        if not any(map(self._policy.restricts, tables)):
            return None
        if len(tables) > 1:
            return _Shadow(None, _AMBIGUOUS)
        if self._policy.of(tables[0]) is None:
            return _Shadow(None, f"which is hidden ({self._policy.rule(tables[0])})")
        return _Shadow(tables[0])

    def restricted(self, schema: str, name: str, *, likely: bool) -> TableName | None:
        if schema.casefold() not in self._homes:
            return None
        tables = self._tables.get(name.casefold(), [])
        if not tables and likely and self._policy.may_restrict(name):
            return TableName(None, name)
        return next(filter(self._policy.restricts, tables), None)


class _InDuckdb:
    """Resolves names in a DuckDB file, which ignores case; `database` is its name in SQL."""

    def __init__(self, policy: Policy, database: str, tables: Iterable[TableName]) -> None:
        self._policy = policy
        self._database = database.casefold()
        self._tables: dict[str, list[TableName]] = {}
        for table in tables:
            self._tables.setdefault(table.name.casefold(), []).append(table)

    def shadow(self, name: str, *, likely: bool) -> _Shadow | None:
        tables = [t for t in self._tables.get(name.casefold(), []) if t.schema == _MAIN]
        if not tables:
            hidden = likely and self._policy.restricts(TableName(_MAIN, name))
            return _Shadow(None) if hidden else None
        if not any(map(self._policy.restricts, tables)):
            return None
        if len(tables) > 1:
            # DuckDB folds only ASCII.
            return _Shadow(None, _AMBIGUOUS)
        table = tables[0]
        if self._policy.of(table) is None:
            return _Shadow(None, f"which is hidden ({self._policy.rule(table)})")
        return _Shadow(table)

    def restricted(self, schema: str, name: str, *, likely: bool) -> TableName | None:
        folded = _MAIN if schema.casefold() == self._database else schema.casefold()
        for table in self._tables.get(name.casefold(), []):
            if str(table.schema).casefold() == folded and self._policy.restricts(table):
                return table
        table = TableName(folded, name)
        return table if likely and self._policy.restricts(table) else None


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

    def shadow(self, name: str, *, likely: bool) -> _Shadow | None:
        may_appear = False
        for schema in self._path:
            table = TableName(schema, name)
            if table in self._wholes:
                # A table created later in an earlier schema would take its place.
                return self._as_shown(table) if may_appear or self._restricts(table) else None
            may_appear = may_appear or self._restricts(table)
        others = [t for t in self._wholes if t.name == name and self._restricts(t)]
        if len(others) == 1:
            return self._as_shown(others[0])
        if others:
            return _Shadow(None, "which is in several schemas")
        return _Shadow(None) if may_appear and likely else None

    def restricted(self, schema: str, name: str, *, likely: bool) -> TableName | None:
        table = TableName(schema, name)
        there = table in self._wholes or likely
        return table if there and self._restricts(table) else None

    def _as_shown(self, table: TableName) -> _Shadow:
        whole = self._wholes[table]
        if whole != table and self._restricts(table):
            return _Shadow(
                None, f"a partition of {whole.name}, which is partly hidden; read {whole.name}"
            )
        if self._policy.of(table) is None:
            return _Shadow(None, f"which is hidden ({self._policy.rule(table)})")
        return _Shadow(table)

    def _restricts(self, table: TableName) -> bool:
        schema = table.schema or ""
        if schema.startswith("pg_") or schema == "information_schema":
            return False
        return self._policy.restricts(table) or self._policy.restricts(
            self._wholes.get(table, table)
        )
