"""Declared queries of DuckDB, confined like those of servers, by DuckDB's own parser."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from typing_extensions import override

from resource_server.providers.database.engines.duckdb import catalog, syntax
from resource_server.providers.database.engines.reflection import TableName, quoted
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


class DuckdbRewriter(QueryRewriter):
    """Confines declared queries of a DuckDB file, or of data files."""

    @override
    async def _write(self, query: DeclaredQuery) -> Rewritten:
        resolved = await self._resolver()
        parsed = await self._parsed(query.sql)
        defined = syntax.definitions(parsed)
        sources: dict[int, tuple[str, str]] = {}
        """SELECTs in the place of tables, by the places of their names, each with its alias."""
        for node in syntax.tables(parsed):
            if self._policy.restricts(table := resolved(node)):
                path = syntax.table_path(node)
                body = await self._body(table, ".".join(path), defined)
                alias = "" if node["alias"] else f" AS {quoted(path[-1])}"
                sources[int(node["query_location"])] = body, alias
        visible = {place: ("SELECT 1", alias) for place, (_, alias) in sources.items()}
        for node in syntax.tables(await self._parsed(_replaced(query.sql, visible))):
            if self._policy.restricts(resolved(node)):
                written = ".".join(syntax.table_path(node))
                raise ValueError(f"reads {written} in a way that is not understood")
        return Rewritten(_replaced(query.sql, sources), query.order)

    async def _parsed(self, sql: str) -> Any:
        ((text,),) = await self._ask(syntax.PARSE, sql)
        return syntax.parsed_statement(text)

    async def _resolver(self) -> Callable[[Mapping[str, Any]], TableName]:
        """Return what returns the table that a part of a parsed query reads."""
        ((database,),) = await self._ask(catalog.DATABASE)
        tables: dict[tuple[str, ...], TableName] = {}
        for info in await self._engine.tables():
            schema = info.name.schema or await self._home()
            for path in syntax.table_paths(str(database), schema, info.name.name):
                tables[path] = info.name

        def resolved(node: Mapping[str, Any]) -> TableName:
            path = syntax.table_path(node)
            table = tables.get(tuple(map(syntax.folded_name, path)))
            if table is None:
                raise no_table(path)
            return table

        return resolved


def _replaced(sql: str, sources: Mapping[int, tuple[str, str]]) -> str:
    """Return SQL with SELECTs in the place of the names of tables at these bytes."""
    text = sql.encode()
    for place in sorted(sources, reverse=True):
        name = _NAME.match(text, place) if place < len(text) else None
        if name is not None:
            body, alias = sources[place]
            text = text[:place] + f"({body}){alias}".encode() + text[name.end() :]
    return text.decode()
