"""Declared queries of DuckDB, confined like those of servers, by DuckDB's own parser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from resource_server.providers.database.engines.duckdb import catalog, syntax
from resource_server.providers.database.engines.reflection import TableName, folded, quoted
from resource_server.providers.database.queries.declared import DeclaredQuery
from resource_server.providers.database.queries.policy_rewrite import (
    QueryRewriter,
    Rewritten,
    no_table,
)

_PART: Final = rb"""(?:"(?:[^"]|"")*"|'(?:[^']|'')*'|[\w$\x80-\xff]+)"""
_DOT: Final = rb"(?:\s|/\*\*/)*\.(?:\s|/\*\*/)*"
_NAME: Final = re.compile(_PART + rb"(?:" + _DOT + _PART + rb")*")
"""The name of a table, in which a comment is `/**/`."""
_GAP: Final = r"(?:\s|/\*\*/)"
_WITH: Final = re.compile(rf"{_GAP}*with\b(?:{_GAP}+recursive\b)?", re.IGNORECASE)
_PARENTHESIS: Final = re.compile(rf"{_GAP}*\(")


class DuckdbRewriter(QueryRewriter):
    """Confines declared queries of a DuckDB file, or of data files."""

    @override
    async def _write(self, query: DeclaredQuery) -> Rewritten:
        resolved = await self._resolver()
        parsed = await self._parsed(query.sql)
        defined = syntax.definitions(parsed)
        bodies: dict[TableName, str] = {}
        """SELECTs of the visible part of each restricted table."""
        places: dict[int, tuple[TableName, str]] = {}
        """What the query reads at the places of names, each with its alias."""
        for node in syntax.tables(parsed):
            if self._policy.restricts(table := resolved(node)):
                path = syntax.table_path(node)
                bodies[table] = await self._body(table, ".".join(path), defined)
                alias = "" if node["alias"] else f" AS {quoted(path[-1])}"
                places[int(node["query_location"])] = table, alias
        if not bodies:
            return Rewritten(query.sql, query.order)
        names = _new_names(bodies, (query.sql, *bodies.values()))
        replaced = _replaced(
            query.sql, {place: f"{names[table]}{alias}" for place, (table, alias) in places.items()}
        )
        checked = await self._parsed(_defining(replaced, dict.fromkeys(names.values(), "SELECT 1")))
        if sorted(syntax.definitions(checked)) != sorted((*defined, *names.values())):
            raise ValueError("has a WITH in a place that is not understood")
        for node in syntax.tables(checked):
            if self._policy.restricts(resolved(node)):
                written = ".".join(syntax.table_path(node))
                # Such as `table orders`, where DuckDB does not give the place of the name.
                advice = f"write select * from {written}"  # noqa: S608 - a message
                raise ValueError(f"reads {written} in a way that is not understood; {advice}")
        sql = _defining(replaced, {names[table]: body for table, body in bodies.items()})
        return Rewritten(sql, query.order, {names[table]: table.name for table in bodies})

    async def _parsed(self, sql: str) -> Any:
        ((text,),) = await self._run_own(syntax.PARSE, sql)
        return syntax.parsed_statement(text)

    async def _resolver(self) -> Callable[[Mapping[str, Any]], TableName]:
        """Return what returns the table that a part of a parsed query reads."""
        ((database,),) = await self._run_own(catalog.DATABASE)
        tables: dict[tuple[str, ...], TableName] = {}
        for info in await self._engine.tables():
            schema = info.name.schema or await self._home()
            for path in syntax.table_paths(str(database), schema, info.name.name):
                tables[path] = info.name

        def resolved(node: Mapping[str, Any]) -> TableName:
            path = syntax.table_path(node)
            table = tables.get(tuple(map(folded, path)))
            if table is None:
                raise no_table(path)
            return table

        return resolved


def _new_names(tables: Iterable[TableName], texts: Sequence[str]) -> Mapping[TableName, str]:
    """Return a name for each table that occurs in none of these texts, nor in another name."""
    prefix = "visible"
    while any(prefix in text.lower() for text in texts):
        prefix += "_"
    return {table: f"{prefix}{place}_" for place, table in enumerate(tables)}


def _replaced(sql: str, names: Mapping[int, str]) -> str:
    """Return SQL with other names in the place of the names of tables at these bytes."""
    text = sql.encode()
    for place in sorted(names, reverse=True):
        found = _NAME.match(text, place) if place < len(text) else None
        if found is not None:
            text = text[:place] + names[place].encode() + text[found.end() :]
    return text.decode()


def _defining(sql: str, bodies: Mapping[str, str]) -> str:
    """Return SQL after common table expressions of these names.

    DuckDB names a column after the text of its expression, so a SELECT in the place of a table
    would show its condition in names of columns, and in keys of rows as values.
    """
    parts = [f"{name} AS NOT MATERIALIZED ({body}\n)" for name, body in bodies.items()]
    own = _WITH.match(sql)
    if own is not None:
        return f"{own[0]} {', '.join(parts)}, {sql[own.end() :]}"
    # DuckDB loses the WITH of a whole query in parentheses after another WITH.
    query = f"FROM ({sql}\n)" if _PARENTHESIS.match(sql) else sql
    return f"WITH {', '.join(parts)} {query}"
