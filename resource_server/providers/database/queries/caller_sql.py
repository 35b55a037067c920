"""SQL of callers: one SELECT against what the policy shows, as the tool `query_database`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from resource_server import access
from resource_server.errors import InvalidParameter, ResourceBusy
from resource_server.provider import Link
from resource_server.provider.tools import Tool
from resource_server.providers.database.addressing.address import DefinitionAddress, address_path
from resource_server.providers.database.engines.contract import (
    EngineName,
    RefusedStatement,
    Rows,
    Statement,
)
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.options import ReadLimits
from resource_server.providers.database.queries import parameters, sql_tokenizer
from resource_server.providers.database.queries.declared import (
    TOOL_RESULT,
    check_select,
    positional,
)
from resource_server.providers.database.queries.parameters import echo
from resource_server.providers.database.queries.visible_sql import VisibleSql
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from resource_server.runtime.near_name import did_you_mean
from resource_server.runtime.rate_limit import RateLimiter
from resource_server.runtime.timing import Timing

TOOL_NAME: Final = "query_database"
_MAX_CHARACTERS: Final = 100_000
"""Maximum characters of a statement."""
_MAX_KEPT: Final = 256
"""Parsed statements that are kept, each of at most `_MAX_KEPT_CHARACTERS`."""
_MAX_KEPT_CHARACTERS: Final = 10_000
_MAX_PARAMETERS: Final = 200
_BURST: Final = 30
"""Statements of one caller without a wait between them."""
_MAX_NAMED: Final = 3
"""Maximum tables named in a refusal."""


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
            },
            "required": ["sql"],
            "additionalProperties": False,
        },
        output_schema=TOOL_RESULT,
    )


class CallerSql:
    """Runs the SQL of callers on one database."""

    def __init__(
        self,
        sql: VisibleSql,
        exposed_tables: ExposedTableCache,
        limits: ReadLimits,
        *,
        link: Link,
        timing: Timing,
    ) -> None:
        self._sql = sql
        self._name: EngineName = "sqlite"
        self._exposed = exposed_tables
        self._limits = limits
        self._link = link
        self._parsed: dict[str, tuple[str, Sequence[str]]] = {}
        """Statements as `_parse` returned them."""
        self._rates = RateLimiter(1 / timing.statement_interval_s, _BURST)

    async def run(self, sql: str, given: Mapping[str, Any], limit: int | None) -> Rows:
        """Return the rows of a statement.

        Raises:
            InvalidParameter: a parameter is unknown, missing or unusable, or the statement is
                refused; with near names.
            ResourceBusy: the caller has sent too many statements.
        """
        wait_s = self._rates.take(access.current().subject)
        if wait_s:
            raise ResourceBusy(f"too many statements; wait {max(wait_s, 0.1):.1f} s")
        statement = self._statement(sql, given)
        most = min(limit or self._limits.rows, self._limits.max_rows)
        try:
            return await self._sql.rows(statement, limit=most, within=self._limits.query_timeout)
        except RefusedStatement as error:
            raise InvalidParameter(await self._advised(error, sql)) from None

    def _statement(self, sql: str, given: Mapping[str, Any]) -> Statement:
        text, order = self._parsed.get(sql) or self._parse(sql)
        used = set(order)
        problems = [f"there is no :{echo(name)} in the SQL" for name in given if name not in used]
        problems += [f":{name} has no value" for name in used if name not in given]
        if problems:
            raise InvalidParameter("; ".join(sorted(problems)[:5]))
        if len(order) > _MAX_PARAMETERS:
            raise InvalidParameter(f"more than {_MAX_PARAMETERS} parameters")
        return Statement(text, tuple([self._value(name, given[name]) for name in order]))

    def _parse(self, sql: str) -> tuple[str, Sequence[str]]:
        """Return SQL with placeholders, and the parameter names in placeholder order."""
        if len(sql) > _MAX_CHARACTERS:
            raise InvalidParameter(f"sql: more than {_MAX_CHARACTERS} characters")
        try:
            sql.encode()
            tokens = sql_tokenizer.statement(sql, self._name)
            check_select(tokens)
        except UnicodeEncodeError:
            raise InvalidParameter("sql: is not Unicode") from None
        except ValueError as error:
            raise InvalidParameter(f"sql: {error}") from None
        found = positional(tokens, self._name)
        if len(sql) <= _MAX_KEPT_CHARACTERS:
            if len(self._parsed) == _MAX_KEPT:
                self._parsed.clear()
            self._parsed[sql] = found
        return found

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
        try:
            str(value).encode()
        except UnicodeEncodeError:
            raise InvalidParameter(f":{name} is not Unicode") from None
        return parameters.driver_value(value, self._name)

    async def _advised(self, error: RefusedStatement, sql: str) -> str:
        """Return the refusal with near names, and the tables that the statement names."""
        visible = {table.name.name for table in (await self._sql.visible()).tables}
        if error.table is not None:
            return f"{error}{did_you_mean(error.table, visible)}"
        if error.column is None:
            return str(error)
        folded = {name.casefold(): name for name in visible}
        tokens = sql_tokenizer.statement(sql, self._name)
        words = [token.identifier.casefold() for token in tokens if token.identifier is not None]
        named = list(dict.fromkeys(folded[word] for word in words if word in folded))[:_MAX_NAMED]
        columns: list[str] = []
        for name in named:
            columns += (await self._exposed.get(TableName(None, name))).column_names
        tables = [DefinitionAddress(TableName(None, name)) for name in named]
        listed = ", ".join(self._link(address_path(table)) for table in tables)
        near = did_you_mean(error.column, columns)
        return f"{error}{near}" + (f" (columns: {listed})" if listed else "")
