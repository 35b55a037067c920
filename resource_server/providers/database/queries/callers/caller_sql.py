"""SQL of callers: one SELECT against what the policy shows, as the tool `query_database`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Protocol

from resource_server import access
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceError,
)
from resource_server.provider import Link
from resource_server.provider.tools import Tool
from resource_server.providers.database.addressing.address import (
    DefinitionAddress,
    PageAddress,
    address_path,
)
from resource_server.providers.database.engines.contract import (
    EngineName,
    RefusedStatement,
    Rows,
    Statement,
    VisibleTables,
)
from resource_server.providers.database.engines.reflection import TableName, folded
from resource_server.providers.database.engines.slots import Slots
from resource_server.providers.database.formats import charts
from resource_server.providers.database.options import ReadLimits
from resource_server.providers.database.queries import parameters, sql_tokenizer
from resource_server.providers.database.queries.declared import (
    TOOL_RESULT,
    check_select,
    positional,
)
from resource_server.providers.database.queries.parameters import echo
from resource_server.providers.database.queries.sql_tokenizer import SqlToken
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from resource_server.runtime.near_name import did_you_mean
from resource_server.runtime.rates import RateLimiter
from resource_server.runtime.timing import Timing
from resource_server.uris import is_unicode

TOOL_NAME: Final = "query_database"
DIALECTS: Final[Mapping[EngineName, str]] = {
    "sqlite": "SQLite",
    "postgresql": "PostgreSQL",
    "mariadb": "MariaDB",
    "mysql": "MySQL",
    "duckdb": "DuckDB",
}
"""What a model knows the engines by."""
_MAX_CHARACTERS: Final[Mapping[EngineName, int]] = {"sqlite": 100_000, "duckdb": 20_000}
"""Maximum characters of a statement where the engine parses it; elsewhere, `SqlTree` says."""
_MAX_DEPTH: Final = 300
"""Maximum parentheses inside of each other on DuckDB, whose time and memory grow faster."""
_MAX_PARTS: Final = 64
"""Maximum parts of a name on DuckDB, for the same reason."""
_MAX_INLINE: Final = 2_000
"""Maximum characters of a statement that is parsed inline; a thread parses longer ones."""
_MAX_KEPT: Final = 256
"""Parsed statements that are kept, each of at most `_MAX_KEPT_CHARACTERS`."""
_MAX_KEPT_CHARACTERS: Final = 10_000
_MAX_PARAMETERS: Final = 200
_BURST: Final = 30
"""Statements of one caller without a wait between them."""
_CHECK_S: Final = 60.0
"""Time for the check of the operator."""
_PARSERS: Final = 2
"""Maximum threads that parse."""
_MAX_NAMED: Final = 3
"""Maximum tables named in a refusal."""
_NAME: Final = re.compile(r'"[^"]*"|`[^`]*`|\[[^\]]*\]|\w+')


_CHART: Final = {"enum": ["png"], "description": "A chart"}


def sql_tool(title: str) -> Tool:
    """Return the definition of the tool; `title` is what a model knows of the database."""
    return Tool(
        name=TOOL_NAME,
        title="Query a database",
        description=f"Rows of one SELECT ({title}). Columns of a table: …/~schema.",
        input_schema={
            "type": "object",
            "properties": {
                "sql": {"type": "string", "description": "With :name for parameters"},
                "parameters": {"type": "object"},
                "limit": {"type": "integer", "minimum": 1, "description": "Rows; default 100"},
                **({"format": _CHART} if charts.has_pictures() else {}),
            },
            "required": ["sql"],
            "additionalProperties": False,
        },
        output_schema=TOOL_RESULT,
    )


class ConfinedSql(Protocol):
    """Runs statements for which only a policy exists."""

    async def visible(self) -> VisibleTables:
        """Return what statements see; the same object while it is the same."""
        ...

    async def rows(self, statement: Statement, *, limit: int, within: float) -> Rows:
        """Return the rows of a statement.

        Raises:
            RefusedStatement: it reads what is not visible, or fails.
        """
        ...


class CallerSql:
    """Runs the SQL of callers on one database."""

    def __init__(
        self,
        sql: ConfinedSql,
        name: EngineName,
        exposed_tables: ExposedTableCache,
        limits: ReadLimits,
        *,
        link: Link,
        timing: Timing,
    ) -> None:
        self._sql = sql
        self._name: EngineName = name
        self._exposed = exposed_tables
        self._limits = limits
        self._link = link
        self._parsed: dict[str, tuple[str, Sequence[str]]] = {}
        """Statements as `_parse` returned them."""
        self._written: dict[tuple[str, str, int], Statement] = {}
        """Statements as `_confined` returned them for `_written_for`, by its other arguments."""
        self._written_for: VisibleTables | None = None
        self._rates = RateLimiter(1 / timing.statement_interval_s, _BURST)
        self._parsing = Slots(_PARSERS)

    async def run(self, sql: str, given: Mapping[str, Any], limit: int | None) -> Rows:
        """Return the rows of a statement.

        Raises:
            InvalidParameter: a parameter is unknown, missing or unusable, or the statement is
                refused; with near names.
            ResourceBusy: the caller has sent too many statements.
            MountUnavailable: the login of `sql` is refused, or is not that of the policy.
        """
        wait_s = self._rates.take(access.current().subject)
        if wait_s:
            raise ResourceBusy(f"too many statements; wait {max(wait_s, 0.1):.1f} s")
        most = min(limit or self._limits.rows, self._limits.max_rows)
        try:
            visible = await self._sql.visible()
        except MountUnavailable as error:
            told = f"SQL of callers cannot be run: {error.told}"
            raise MountUnavailable(str(error), told=told, is_temporary=error.is_temporary) from None
        try:
            statement = await self._statement(sql, given, visible, most)
            return await self._sql.rows(statement, limit=most, within=self._limits.query_timeout)
        except DeadlineExceeded:
            raise self._limits.exceeded("query_timeout") from None
        except RefusedStatement as error:
            raise InvalidParameter(await self._advised(error, sql, visible)) from None

    async def problem(self) -> str | None:
        """Return why no statement is answered, or None, for the operator."""
        try:
            await self._sql.visible()
            await self._sql.rows(Statement("SELECT 1"), limit=1, within=_CHECK_S)
        except (ResourceError, MountUnavailable) as error:
            return str(error)
        return None

    async def _statement(
        self, sql: str, given: Mapping[str, Any], visible: VisibleTables, most: int
    ) -> Statement:
        if not is_unicode(sql):
            raise InvalidParameter("sql: is not Unicode")
        if self._name in _MAX_CHARACTERS:
            return self._as_written(sql, given)
        if len(sql) <= _MAX_INLINE:
            return self._kept(sql, given, visible, most)
        await self._parsing.acquire()
        try:
            return await asyncio.to_thread(self._confined, sql, given, visible, most)
        finally:
            self._parsing.release()

    def _as_written(self, sql: str, given: Mapping[str, Any]) -> Statement:
        """Return a statement for an engine that parses and confines it by itself."""
        text, order = self._parsed.get(sql) or self._parse(sql)
        values = self._values(order, given)
        return Statement(text, tuple([values[name] for name in order]))

    def _parse(self, sql: str) -> tuple[str, Sequence[str]]:
        """Return SQL with placeholders, and the parameter names in placeholder order."""
        most = _MAX_CHARACTERS[self._name]
        if len(sql) > most:
            raise InvalidParameter(f"sql: has more than {most} characters")
        try:
            tokens = sql_tokenizer.statement(sql, self._name)
            check_select(tokens, self._name)
            if self._name == "duckdb":
                _check_nesting(tokens)
        except ValueError as error:
            raise InvalidParameter(f"sql: {error}") from None
        parsed = positional(tokens, self._name)
        if len(sql) <= _MAX_KEPT_CHARACTERS:
            if len(self._parsed) >= _MAX_KEPT:
                self._parsed.clear()
            self._parsed[sql] = parsed
        return parsed

    def _kept(
        self, sql: str, given: Mapping[str, Any], visible: VisibleTables, most: int
    ) -> Statement:
        """Return what `_confined` returns, which takes a millisecond unless it was kept."""
        if visible is not self._written_for or len(self._written) >= _MAX_KEPT:
            self._written.clear()
            self._written_for = visible
        # Text tells values apart that are equal in different types.
        key = (sql, repr(given), most)
        if key not in self._written:
            statement = self._confined(sql, given, visible, most)
            if len(key[1]) > _MAX_INLINE:
                return statement
            self._written[key] = statement
        return self._written[key]

    def _confined(
        self, sql: str, given: Mapping[str, Any], visible: VisibleTables, most: int
    ) -> Statement:
        """Return a statement for what is visible, written anew."""
        from resource_server.providers.database.queries.callers.sql_tree import SqlTree

        try:
            tree = SqlTree(sql, self._name)
        except ValueError as error:
            raise InvalidParameter(f"sql: {error}") from None
        tables = {name: table.columns or () for name, table in visible.by_name.items()}
        values = self._values(tree.parameters, given)
        # MariaDB ignores an order, and refuses equal names, in a subquery with a limit around it.
        rows = most + 1 if self._name in ("mysql", "mariadb") else None
        return tree.confined(tables, values, schema=visible.schema, rows=rows)

    def _values(self, used: Sequence[str], given: Mapping[str, Any]) -> Mapping[str, object]:
        """Return the value of each parameter, as the driver binds it."""
        problems = [f"there is no :{echo(name)} in the SQL" for name in given if name not in used]
        problems += [f":{name} has no value" for name in used if name not in given]
        if problems:
            raise InvalidParameter("; ".join(sorted(problems)[:5]))
        if len(used) > _MAX_PARAMETERS:
            raise InvalidParameter(f"more than {_MAX_PARAMETERS} parameters")
        return {name: self._value(name, given[name]) for name in used}

    def _value(self, name: str, value: object) -> object:
        if value is None:
            return None
        is_text = isinstance(value, str)
        if not isinstance(value, str | bool | int | float):
            raise InvalidParameter(f":{name} must be text, a number, true, false or null")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InvalidParameter(f":{name} is not a number of 64 bits")
        if is_text and "\0" in value:
            raise InvalidParameter(f":{name} has a NUL")
        if not is_unicode(str(value)):
            raise InvalidParameter(f":{name} is not Unicode")
        return parameters.driver_value(value, self._name)

    async def _advised(self, error: RefusedStatement, sql: str, visible: VisibleTables) -> str:
        """Return the refusal with near names, and the tables that the statement names."""
        tables = {folded(name): table for name, table in visible.by_name.items()}
        if error.table is not None:
            table = tables.get(folded(error.table))
            if table is None:
                return f"{error}{did_you_mean(error.table, visible.by_name)}"
            exposed = await self._exposed_as(table.name) or table.name
            page = self._link(address_path(PageAddress(exposed)))
            return f"the table {error.table} cannot be read; a read of {page} gives the cause"
        if error.column is None:
            return str(error)
        names = dict.fromkeys(folded(name.strip('"`[]')) for name in _NAME.findall(sql))
        named = [tables[name] for name in names if name in tables][:_MAX_NAMED]
        columns: list[str] = []
        links: list[str] = []
        for table in named:
            exposed = await self._exposed_as(table.name)
            shown = table.columns
            if exposed is not None:
                links.append(self._link(address_path(DefinitionAddress(exposed))))
                shown = shown or (await self._exposed.get(exposed)).column_names
            columns += shown or ()
        near = did_you_mean(error.column, columns)
        return f"{error}{near}" + (f" (columns: {', '.join(links)})" if links else "")

    async def _exposed_as(self, name: TableName) -> TableName | None:
        """Return the only exposed table of a name; views of the policy have no schema."""
        infos = await self._exposed.infos()
        found = [info.name for info in infos if name in (info.name, (None, info.name.name))]
        return found[0] if len(found) == 1 else None


def _check_nesting(tokens: Sequence[SqlToken]) -> None:
    """Refuse a statement for which DuckDB's parser or binder has no limit.

    Raises:
        ValueError: it is nested too deeply; for its author.
    """
    opened = accumulate((token.kind == "open") - (token.kind == "close") for token in tokens)
    if max(opened, default=0) > _MAX_DEPTH:
        raise ValueError("is nested too deeply: write fewer parentheses inside of each other")
    names = sql_tokenizer.references(tokens, "duckdb")
    if any(len(name.parts) > _MAX_PARTS for name in names):
        raise ValueError(f"has a name of more than {_MAX_PARTS} parts")
