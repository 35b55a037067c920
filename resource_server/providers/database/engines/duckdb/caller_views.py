"""Callers' SQL in the worker: views of the policy in a connection that has nothing else.

Its search path is the temporary schema, which has these views alone, and the parsed statement names
no schema. So what a policy hides cannot be named.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Final

import duckdb

from resource_server.providers.database.engines.duckdb import parsed_query
from resource_server.providers.database.engines.duckdb.data_tables import quoted
from resource_server.providers.database.engines.duckdb.messages import (
    Failed,
    MaskKind,
    PolicyView,
    Run,
    SqlViews,
)
from resource_server.providers.database.engines.duckdb.parsed_query import KnownTables

SEARCH_PATH: Final = "SET search_path = 'temp.main'"
_BARRIER: Final = "LIMIT 9223372036854775807"
"""Keeps the conditions of a caller outside of a view: they would run on hidden rows."""
_CODE_LENGTH: Final = 16
_MISSING: Final = re.compile(r"Catalog Error: (.+?) with name (.+?) does not exist!")
_COLUMN: Final = re.compile(r'Binder Error: Referenced column "(.+?)" (?:not found|was not found)')
_COLUMN_OF: Final = re.compile(r'Binder Error: .*does not have a column named "(.+?)"')
_TOLD: Final = (duckdb.BinderException, duckdb.ParserException, duckdb.SyntaxException)
"""Mistakes of a statement; the first line of the message has names and types of it alone."""
_VALUES: Final = (
    duckdb.ConversionException,
    duckdb.OutOfRangeException,
    duckdb.InvalidInputException,
    duckdb.TypeMismatchException,
)
"""Wrong values, which may be those of a row that a condition of the manifest hides."""


class CallerConnection:
    """A connection for the statements of callers."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, known: KnownTables) -> None:
        self.connection = connection
        self._known = known
        self._made: SqlViews | None = None
        self._names: Sequence[str] = ()

    def prepare(self, sql: str, policy: SqlViews) -> None:
        """Check a statement and make the views that it may read.

        Raises:
            RefusedQuery: it names something else.
            duckdb.Error: it cannot be parsed.
        """
        if policy != self._made:
            self._made = None
            for name in self._names:
                self.connection.execute(f"DROP VIEW IF EXISTS temp.main.{quoted(name)}")
            self._names = [view.name for view in policy.views]
            for view in policy.views:
                # A table that is gone by now has no view.
                with contextlib.suppress(duckdb.CatalogException, duckdb.BinderException):
                    self._make(view, policy.key)
            self._made = policy
        visible = {name.lower() for name in self._names}
        parsed_query.check_caller(self.connection, sql, self._known, visible)

    def _make(self, view: PolicyView, key: str) -> None:
        source = self._source(view.schema, view.table)
        columns = "*"
        if view.columns is not None:
            listed = [_column(name, view.masks.get(name), key) for name in view.columns]
            columns = ", ".join(listed) or "1 AS nothing"
        named = [
            f"{quoted(name)} AS (SELECT * FROM {self._source(schema, name)})"  # noqa: S608
            for schema, name in sorted(self._known.tables)
            if name in view.named
        ]
        begun = f"WITH {', '.join(named)} " if named else ""
        where = "" if view.where is None else f" WHERE ({view.where}\n) {_BARRIER}"
        body = f"{begun}SELECT {columns} FROM {source}{where}"  # noqa: S608 - quoted
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(view.name)} AS {body}")

    def _source(self, schema: str, table: str) -> str:
        return f"{quoted(self._known.database)}.{quoted(schema)}.{quoted(table)}"


def _column(name: str, mask: MaskKind | None, key: str) -> str:
    column = quoted(name)
    text = f"{column}::VARCHAR"
    if mask is None:
        return column
    if mask == "hash":
        return f"left(sha256('{key}|' || {text}), {_CODE_LENGTH}) AS {column}"
    masked = f"WHEN {column} IS NOT NULL THEN '***' END AS {column}"
    if mask == "redact":
        return f"CASE {masked}"
    shown = f"regexp_full_match(typeof({column}), 'VARCHAR|.*INT.*|DECIMAL.*')"
    return f"CASE WHEN {shown} AND length({text}) >= 8 THEN '…' || right({text}, 4) {masked}"


def refusal(job: Run, error: Exception) -> Failed | None:
    """Return the answer to a caller's statement that failed, with its own names alone."""
    if isinstance(error, parsed_query.RefusedQuery):
        return Failed(job.id, "refused", str(error), table=error.table)
    line = str(error).partition("\n")[0]
    if found := _MISSING.match(line):
        if found[1] == "Table":
            return Failed(job.id, "refused", f"no such table: {found[2]}", table=found[2])
        return Failed(job.id, "refused", f"no such function or type: {found[2].lower()}")
    if found := (_COLUMN.match(line) or _COLUMN_OF.match(line)):
        return Failed(job.id, "refused", f"no such column: {found[1]}", column=found[1])
    told = line.partition(": ")[2]
    if isinstance(error, _TOLD):
        return Failed(job.id, "refused", told)
    if isinstance(error, _VALUES):
        told = re.split(r"['\"(\d]", told, maxsplit=1)[0].strip()
        return Failed(job.id, "refused", told or "a value does not fit")
    return None
