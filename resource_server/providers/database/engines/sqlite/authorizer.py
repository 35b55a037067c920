"""Allow-list of what our own statements on a SQLite connection may access.

SQLite calls the authorizer for every access while it prepares a statement. Everything that is not
allowed here is denied, including actions that later versions of SQLite add.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Literal, Protocol, TypeAlias

from resource_server.providers.database.engines.contract import DIGEST, REAL_TEXT
from resource_server.providers.database.engines.reflection import folded
from resource_server.providers.database.engines.sqlite.schema_names import SqliteSchema

Role: TypeAlias = Literal["reader", "catalog"]
"""The purpose of a connection. `reader`: rows; `catalog`: our own statements on the schema."""


class Readable(Protocol):
    """Decides which columns statements may read."""

    def __call__(self, table: str, column: str, *, through: str | None = None) -> bool:
        """Return whether a statement may read a column of a table.

        Args:
            table: the table's name in the schema.
            column: the column's name; "" if the statement only counts rows, or reads a rowid that
                is no named column.
            through: the view that reads the column.
        """
        ...


def everything(table: str, column: str, *, through: str | None = None) -> bool:
    """Return True: a `Readable` without rules."""
    return True


FUNCTIONS = frozenset(
    """
    -> ->> abs acos acosh asin asinh atan atan2 atanh avg bm25 ceil ceiling char coalesce concat
    concat_ws cos cosh count cume_dist current_date current_time current_timestamp date datetime
    degrees dense_rank exp first_value floor glob group_concat hex highlight if ifnull iif instr
    json json_array json_array_length json_error_position json_extract json_group_array
    json_group_object json_insert json_object json_patch json_pretty json_quote json_remove
    json_replace json_set json_type json_valid jsonb jsonb_array jsonb_extract jsonb_group_array
    jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set
    julianday lag last_value lead length like likelihood likely ln log log10 log2 lower ltrim match
    max median min mod nth_value ntile nullif octet_length offsets percent_rank percentile
    percentile_cont percentile_disc pi pow power quote radians random rank replace round row_number
    rtrim sign sin sinh snippet soundex sqlite_version sqrt strftime string_agg substr substring
    subtype sum tan tanh time timediff total trim trunc typeof unicode unixepoch unhex unistr
    unistr_quote unlikely upper geopoly_area geopoly_bbox geopoly_blob geopoly_contains_point
    geopoly_json geopoly_overlap geopoly_within
    """.split()
)
"""Functions that read nothing but their arguments. Not allowed: `printf` and `format`, which in
SQLite 3.40 can write a billion characters without noticing an interrupt (3.2 s); `zeroblob` and
`randomblob`; functions that reveal the process, the connection or the pages of the file."""

EPONYMOUS = frozenset(("json_each", "json_tree"))
"""Table-valued functions that are allowed."""
_PRAGMAS: dict[Role, frozenset[str]] = {
    "reader": frozenset(("data_version", "schema_version")),
    "catalog": frozenset(
        """
        data_version encoding foreign_key_list index_list index_xinfo schema_version table_xinfo
        """.split()
    ),
}
_SCHEMA_TABLES = frozenset(("sqlite_master", "sqlite_schema", "sqlite_stat1"))


class Authorizer:
    """Authorizer of one connection, for its role and the schema it found when it was opened.

    `modules` are the names of all virtual table modules that the connection has.
    """

    def __init__(
        self, role: Role, schema: SqliteSchema, readable: Readable, modules: Iterable[str] = ()
    ) -> None:
        self._catalog = role == "catalog"
        self._pragmas = _PRAGMAS[role]
        self.tables = schema.entries.keys()
        """Names of the tables and views, without shadow tables."""
        self._shadows = schema.shadows
        self._spelling = {folded(name): name for name in (*self.tables, *self._shadows)}
        self._modules = frozenset(map(folded, modules)) - EPONYMOUS
        self._readable = readable

    def __call__(
        self, action: int, first: str | None, second: str | None, schema: str | None, by: str | None
    ) -> int:
        """Return SQLITE_OK or SQLITE_DENY; see `sqlite3.Connection.set_authorizer`."""
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            allowed = True
        elif action == sqlite3.SQLITE_READ:
            allowed = schema is None or folded(schema) == "main"
            allowed = allowed and self._may_read(first or "", second or "", by)
        elif action == sqlite3.SQLITE_FUNCTION:
            allowed = second in (DIGEST, REAL_TEXT) or folded(second or "") in FUNCTIONS
        elif action == sqlite3.SQLITE_PRAGMA:
            allowed = folded(first or "") in self._pragmas
            allowed = allowed and (second is None or self._catalog)
        else:
            allowed = False
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def _may_read(self, table: str, column: str, by: str | None) -> bool:
        if not column and table not in self.tables:
            # The spelling is the statement's, and the name may be an alias.
            table = self._spelling.get(folded(table), table)
        if self._catalog and table in _SCHEMA_TABLES:
            return True
        if table in self.tables:
            return self._catalog or self._is_readable(table, column, by)
        behind = self._shadows.get(table)
        if behind is not None:
            return self._catalog or self._is_readable(behind, "", by)
        name = folded(table)
        if name in EPONYMOUS:
            return True
        internal = name.startswith(("sqlite_", "pragma_")) or name in self._modules
        return not column and not internal

    def _is_readable(self, table: str, column: str, by: str | None) -> bool:
        return self._readable(table, column, through=by if by in self.tables else None)
