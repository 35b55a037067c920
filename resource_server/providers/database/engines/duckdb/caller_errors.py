"""Errors of callers' statements: DuckDB's first line, which has names and values that they see."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import duckdb

from resource_server.providers.database.engines.duckdb.messages import RunFailed
from resource_server.providers.database.engines.duckdb.parsed_query import RefusedQuery

_MAX_CHARACTERS: Final = 300
_MISSING: Final = re.compile(r"Catalog Error: (.+?) with name (.+?) does not exist!")
_COLUMN: Final = re.compile(r'Binder Error: Referenced column "(.+?)" (?:was )?not found')
_COLUMN_OF: Final = re.compile(r'Binder Error: .*does not have a column named "(.+?)"')
_TOLD: Final = (
    duckdb.BinderException,
    duckdb.ParserException,
    duckdb.SyntaxException,
    duckdb.ConversionException,
    duckdb.OutOfRangeException,
    duckdb.InvalidInputException,
    duckdb.TypeMismatchException,
)
"""Mistakes of a statement, or values that do not fit it."""


def refusal(id: int, error: Exception, paths: Iterable[str]) -> RunFailed:
    """Return the answer to a statement that failed, without the paths of files."""
    match error:
        case RefusedQuery(table=str(table)):
            return RunFailed(id, "refused", f"no such table: {table}", table=table)
        case RefusedQuery(function=str(function)):
            return RunFailed(id, "refused", f"no such function: {function}")
        case RefusedQuery():
            return RunFailed(id, "refused", f"sql: {error}"[:_MAX_CHARACTERS])
        case _:
            pass
    line = str(error).partition("\n")[0]
    if found := _MISSING.match(line):
        if found[1] == "Table":
            return RunFailed(id, "refused", f"no such table: {found[2]}", table=found[2])
        return RunFailed(id, "refused", f"no such function or type: {found[2].lower()}")
    if found := (_COLUMN.match(line) or _COLUMN_OF.match(line)):
        return RunFailed(id, "refused", f"no such column: {found[1]}", column=found[1])
    if not isinstance(error, _TOLD) or any(path in line for path in paths):
        return RunFailed(id, "refused")
    return RunFailed(id, "refused", line.partition(": ")[2][:_MAX_CHARACTERS])
