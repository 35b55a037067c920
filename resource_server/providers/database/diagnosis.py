"""Diagnosis of a database for its operator: excess privileges and options without effect."""

from __future__ import annotations

import glob
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from resource_server.errors import ResourceError, ResourceNotFound, ResourceUnreadable
from resource_server.providers.database.engines.contract import Engine, EngineName
from resource_server.providers.database.engines.reflection import VIEWS, Table, TableName
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.private_columns import private_columns, yaml_name
from resource_server.providers.database.queries import sql_tokenizer
from resource_server.providers.database.queries.declared import Confinement, DeclaredQueries
from resource_server.providers.database.reading.exposed_table import ExposedTableCache

_REMEDY = "give the view an entry in tables, with `expose: true` or its own `columns` or `where`"
_WORD = re.compile(r"\w+")


class Diagnosis:
    """Checks one database in its current state. Problems are `(option, message)`, in any order.

    `least` maps restricted queries to the confinement of a caller with only the scopes that make
    the query visible.
    """

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        exposed_tables: ExposedTableCache,
        queries: DeclaredQueries,
        schemas: Sequence[str],
        *,
        least: Mapping[str, Confinement],
    ) -> None:
        self._engine = engine
        self._policy = policy
        self._exposed = exposed_tables
        self._queries = queries
        self._schemas = schemas
        self._least = least

    async def rules(self) -> Sequence[tuple[str, str]]:
        """Return the options that name nothing and would hide or restrict something."""
        names = [info.name for info in await self._engine.tables()]
        await self._exposed.infos()  # knows the tables that are not served
        found = [
            ("schemas", f"schema '{schema}' has no table that the login may read")
            for schema in self._schemas
            if not any(name.schema == schema for name in names)
        ]
        unused = [problem[:2] for problem, _ in self._policy.unused(names)]
        hidden = [problem[:2] for problem in self._policy.unprotected.values()]
        return list(dict.fromkeys([*found, *unused, *hidden]))

    async def problems(self) -> Sequence[tuple[str, str]]:
        """Return the problems found; checks that fail now, such as behind a lock, are skipped."""
        names = [info.name for info in await self._engine.tables()]
        found = [
            ("", f"the login may do more than read: {privilege.name}")
            for privilege in await self._engine.privileges()
        ]
        found += [("", each) for each in self._engine.left_out]
        if missing := " and ".join(self._engine.unenforced):
            found.append(
                ("", f"this system does not confine the process that reads it by {missing}")
            )
        if self._policy.hashes_change:
            found.append(
                (
                    "",
                    "masks of kind `hash` give other values after every start, and in every "
                    "replica; set `server.key`",
                )
            )
        found += await self.rules()
        found += [
            ("", f"view '{view.name}' is hidden: {reason}; {_REMEDY}")
            for view, reason in self._policy.refused.items()
        ]
        found += [
            (
                "",
                f"view '{view.name}' may show hidden or masked columns: its definition is not "
                f"shown to a login without SHOW VIEW; {_REMEDY}",
            )
            for view in self._policy.unexamined
            if self._policy.of(view) is not None
        ]
        tables: list[Table] = []
        for name in names:
            if self._policy.of(name) is None and name not in self._policy.unprotected:
                continue
            try:
                tables.append(await self._engine.table(name))
            except ResourceNotFound as error:
                is_there = isinstance(error, ResourceUnreadable)
                found.append(("", f"'{name.name}' {error if is_there else 'cannot be read'}"))
        found += [problem[:2] for problem in self._policy.problems(names, tables)]
        shown = [table for table in tables if self._policy.of(table.name) is not None]
        for table in shown:
            found += [problem async for problem in self._of_table(table)]
            found += self._of_names(table)
        found += self._of_views(shown, names)
        found += [problem async for problem in self._of_queries()]
        return list(dict.fromkeys(found))

    async def _of_queries(self) -> AsyncIterator[tuple[str, str]]:
        for query in self._queries:
            try:
                refused = await self._queries.refusal(query)
                if refused is None and (least := self._least.get(query)) is not None:
                    refused = await self._refusal_to_some(query, least)
            except ResourceError as error:
                refused = f"cannot be checked: {error}"
            if refused is not None:
                yield f"queries.{query}.sql", refused

    async def _refusal_to_some(self, query: str, least: Confinement) -> str | None:
        refused = await self._queries.refusal(query, least)
        if refused is None:
            return None
        return (
            f"is refused to some callers who can see it ({refused}); give it an `access` with "
            "the scopes of every table that it reads"
        )

    async def _of_table(self, table: Table) -> AsyncIterator[tuple[str, str]]:
        rule = self._policy.rule(table.name)
        options = self._policy.of(table.name)
        if options is not None and options.key and await self._is_repeated(table):
            yield (
                f"{rule}.key",
                f"several rows of '{table.name.name}' have the same key: a read by key "
                "returns one of them, and pages may omit the others; name columns that "
                "together are unique",
            )
        covered = () if options is None else options.columns.covered
        for column, told in _computed(table, self._engine.name, covered).items():
            yield (
                f"{rule}.columns",
                f"'{column}' of '{table.name.name}' is computed from '{told}', which is hidden or "
                "masked; hide it, too",
            )

    def _of_names(self, table: Table) -> Iterator[tuple[str, str]]:
        """Yield a warning if names of visible columns look secret, unless `expose: true` consents.

        Personal data alone is no warning, as most tables of people have it.
        """
        options = self._policy.of(table.name)
        if options is None or options.expose or not options.rows:
            return
        view = self._policy.view(table)
        found = private_columns(c for c in view.table.column_names if c in view.searchable)
        if not found.secret:
            return
        schema, name = table.name
        if table.type in VIEWS:
            option, ending = "expose: false", ", or hide them in the tables that it reads"
        elif private_columns(table.key).secret:
            option, ending = "expose: false", ", as URIs of rows contain them"
        else:
            written = [found.hide, *([found.mask] if found.personal else [])]
            option, ending = f"columns: {{{', '.join(written)}}}", ""
        pattern = yaml_name(glob.escape(name if schema is None else f"{schema}.{name}"))
        rule = self._policy.rule(table.name)
        remedy = (
            f"write `tables: {{{pattern}: {{{option}}}}}`"
            if rule is None
            else f"write `{option}` into {rule}"
        )
        yield (
            "",
            f"'{name}' serves columns whose names look secret, {', '.join(found.secret)}: {remedy}"
            f"{ending}; or `expose: true`, if callers may read them",
        )

    async def _is_repeated(self, table: Table) -> bool:
        """Return whether several rows share a key declared in the manifest; False if unknown."""
        exposed = await self._exposed.get(table.name)
        shown = exposed.table
        is_unique = table.key and set(table.key).issubset(shown.key)
        if shown.key_kind != "declared" or is_unique or not exposed.has_rows:
            return False
        try:
            return bool((await exposed.run_own(exposed.statements.repeated(), 1)).rows)
        except ResourceError:
            return False

    def _of_views(
        self, tables: Sequence[Table], names: Sequence[TableName]
    ) -> Iterator[tuple[str, str]]:
        """Yield views over restricted tables; the rules of a table do not apply to its views."""
        reads = {table.name: _mentioned(table, names) for table in tables if table.type in VIEWS}
        for view, read in reads.items():
            options = self._policy.of(view)
            for name in () if self._policy.consents(view) else read:
                if self._policy.restricts(name):
                    yield (
                        "",
                        f"view '{view.name}' shows data of '{name.name}' that "
                        f"{self._policy.rule(name)} hides; {_REMEDY}",
                    )
            held = options.access.scopes if options else ()
            for name in _behind(view, reads):
                of = self._policy.of(name)
                if lacking := sorted(set(of.access.scopes).difference(held) if of else ()):
                    yield (
                        "",
                        f"view '{view.name}' shows '{name.name}' to callers without "
                        f"{', '.join(lacking)} "
                        f"({self._policy.rule(name)}.access); give the view an `access`, too",
                    )


def _computed(table: Table, engine: EngineName, covered: Sequence[str]) -> Mapping[str, str]:
    """Return visible generated columns by the hidden or masked column that they reveal."""
    names = {name.casefold(): name for name in covered}
    if not names or not any(column.generated for column in table.columns):
        return {}
    try:
        computed = sql_tokenizer.computed(table.ddl or "", engine)
    except ValueError:
        return {}  # the tokenizer cannot read this DDL
    return {
        column: names[min(told)]
        for column, read in computed.items()
        if column.casefold() not in names and (told := read & names.keys())
    }


def _mentioned(view: Table, names: Sequence[TableName]) -> Sequence[TableName]:
    """Return the tables whose names occur in the definition of a view."""
    words = {word.casefold() for word in _WORD.findall(view.ddl or "")}
    return [name for name in names if name.name.casefold() in words and name != view.name]


def _behind(view: TableName, reads: Mapping[TableName, Sequence[TableName]]) -> Sequence[TableName]:
    """Return the tables and views that a view reads, directly or through other views."""
    found = [view]
    for name in found:
        found += [each for each in reads.get(name, ()) if each not in found]
    return found[1:]
