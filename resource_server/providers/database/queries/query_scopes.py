"""The scopes that a declared query requires by the tables that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from resource_server.providers.database.engines.contract import EngineName
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries.sql_tokenizer import NameReference

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
