"""Tables that the rules of the policy would not protect in the present schema.

A rule that names something that is not there hides nothing. What it was to protect is then not
served: the table whose column `hide` or `mask` misses or whose `where` the database refuses, or
everything, if an entry may mean a table whose name is near.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.contract import Engine
from resource_server.providers.database.engines.reflection import Table, TableName
from resource_server.providers.database.policy import WITHHELD, Policy, Problem, Rule, lacking
from resource_server.runtime.eager import settle
from resource_server.runtime.near_name import sentences

_MAX_REFLECTED = 500
"""Maximum tables of a pattern in which its columns are looked for; `check` looks into all."""
_MANY_NAMES = 500
"""Number of tables from which near names are looked for in a thread."""


async def unprotected_tables(
    engine: Engine, policy: Policy, names: Sequence[TableName]
) -> Mapping[TableName, Problem]:
    """Return the tables that the rules would not protect, each with the first problem.

    `names` are all tables. Raises as `Engine.table`, but for tables that cannot be read.
    """
    found: dict[TableName, Problem] = {}
    if not all(decided for _, decided in policy.decided(names)):
        policy.unserved = await engine.unserved()
    few = len(names) < _MANY_NAMES
    unused = policy.unused(names) if few else await asyncio.to_thread(policy.unused, names)
    for problem, fitting in unused:
        if problem.stops:
            return dict.fromkeys(names, problem)
        found |= dict.fromkeys(fitting, problem)
    for rule, decided in policy.decided(names):
        async for problem, tables in _problems(engine, policy, rule, decided, names):
            found = {**dict.fromkeys(tables, problem), **found}
    return found


async def _problems(
    engine: Engine,
    policy: Policy,
    rule: Rule,
    names: Sequence[TableName],
    every: Sequence[TableName],
) -> AsyncIterator[tuple[Problem, Sequence[TableName]]]:
    options = rule.options
    tables: list[Table] = []
    is_short = rule.expression is None or len(names) <= _MAX_REFLECTED
    if any(rule.covered.values()) and is_short:
        tables = [table async for table in _reflected(engine, names)]
        for problem, stopped in lacking(rule, tables) if tables else ():
            yield problem, stopped
    if options is None or options.where is None:
        return
    for name in names:
        refused = await _refusal(engine, name, options.where)
        if refused is None and rule.condition is not None:
            read = policy.read_by_claims(name, every)
            others = [each async for each in _reflected(engine, read)]
            table = await settle(engine.table(name))
            refused = rule.condition.problem(table, others, policy.dialect)
        if refused is None and rule.compared:
            columns = [each.casefold() for each in (await settle(engine.table(name))).column_names]
            texts = [each for each in rule.compared if each.casefold() in columns]
            refused = f'"{texts[0]}" is text here; write `{texts[0]}`' if texts else None
        if refused is not None:
            text = sentences(f"of '{name.name}': {refused}", WITHHELD[0])
            yield Problem(f"tables.{rule.pattern}.where", text), [name]


async def _reflected(engine: Engine, names: Sequence[TableName]) -> AsyncIterator[Table]:
    for name in names:
        try:
            yield await settle(engine.table(name))
        except ResourceNotFound:  # broken, such as a view of a missing table
            continue


async def _refusal(engine: Engine, name: TableName, where: str) -> str | None:
    """Return why the database refuses the condition of a table, or None."""
    # Other dialects have no LIMIT.
    end = "AND 1 = 0" if engine.name == "generic" else "LIMIT 0"
    sql = f"SELECT 1 FROM {engine.sql_name(name)} WHERE ({where}\n) {end}"  # noqa: S608 - quoted
    return await engine.refusal(sql)
