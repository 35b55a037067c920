"""What an operator should know of a database: rights, and options that cannot be meant so."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence

from resource_server.errors import ResourceError, ResourceNotFound
from resource_server.providers.database.engine import Engine
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries import Queries
from resource_server.providers.database.relation import Relation, Relations
from resource_server.providers.database.table import Table, TableName

_WORD = re.compile(r"\w+")


class Diagnosis:
    """Looks at one database as it is now. Problems are `(option, what is wrong)`, in any order."""

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        relations: Relations,
        queries: Queries,
        schemas: Sequence[str],
    ) -> None:
        self._engine = engine
        self._policy = policy
        self._relations = relations
        self._queries = queries
        self._schemas = schemas

    async def problems(self) -> Sequence[tuple[str, str]]:
        """Return what is wrong; of what cannot be told now, such as behind a lock, nothing."""
        names = [info.name for info in await self._engine.tables()]
        found = [
            ("", f"the login may do more than read: {privilege.name}")
            for privilege in await self._engine.privileges()
        ]
        found += [
            ("schemas", f"no table in schema '{schema}' that the login may read")
            for schema in self._schemas
            if not any(name.schema == schema for name in names)
        ]
        tables: list[Table] = []
        for name in names:
            if self._policy.of(name) is None:
                continue
            try:
                tables.append(await self._engine.table(name))
            except ResourceNotFound:
                found.append(("", f"'{name.name}' cannot be read: it is made of what is not there"))
        found += self._policy.problems(names, tables)
        for table in tables:
            found += [problem async for problem in self._of_table(table, names)]
        return [*found, *[problem async for problem in self._of_queries()]]

    async def _of_queries(self) -> AsyncIterator[tuple[str, str]]:
        for query in self._queries:
            try:
                refused = await self._queries.refusal(query)
            except ResourceError as error:
                refused = f"cannot be checked: {error}"
            if refused is not None:
                yield f"queries.{query}.sql", refused

    async def _of_table(
        self, table: Table, names: Sequence[TableName]
    ) -> AsyncIterator[tuple[str, str]]:
        rule = self._policy.rule(table.name)
        options = self._policy.of(table.name)
        if options is not None and options.where is not None:
            refused = await self._refusal(await self._relations.get(table.name))
            if refused is not None:
                yield f"{rule}.where", refused
        if table.type.endswith("view") and rule is None:
            words = {word.casefold() for word in _WORD.findall(table.ddl or "")}
            for name in names:
                if name.name.casefold() in words and self._policy.restricts(name):
                    yield (
                        "",
                        f"view '{table.name.name}' shows of '{name.name}' what "
                        f"{self._policy.rule(name)} keeps back; give the view an entry in tables",
                    )

    async def _refusal(self, relation: Relation) -> str | None:
        """Return why the database refuses the condition of a table."""
        counting = relation.statements.count()
        try:
            if self._engine.name != "sqlite":
                await self._engine.check(counting.sql, ())
            else:
                # There a check is of what queries may read, and conditions may read more.
                await relation.fetch(relation.statements.count(1), 1)
        except ValueError as error:
            return str(error)
        except ResourceNotFound:
            return "the database refuses it"
        except ResourceError:
            pass
        return None
