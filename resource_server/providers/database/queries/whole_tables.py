"""Declared queries of engines whose SQL nothing here can rewrite: they read whole tables only.

Where the manifest hides or masks anything, a query names and reads only tables that are exposed
whole. The manifest's author is trusted to mean no harm: views, synonyms
and functions read what their owner lets them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from typing_extensions import override

from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.queries import sql_tokenizer
from resource_server.providers.database.queries.declared import DeclaredQuery
from resource_server.providers.database.queries.policy_rewrite import (
    QueryRewriter,
    Rewritten,
    no_table,
)

_SOURCES: Final = frozenset(("from", "join"))
_CLAUSES: Final = frozenset(
    """
    select where group having order window on using union except intersect limit fetch offset
    """.split()
)


class WholeTables(QueryRewriter):
    """Refuses the queries that may read what is hidden, and changes none."""

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
