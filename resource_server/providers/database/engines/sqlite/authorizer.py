"""What a statement may do on a SQLite connection: read what may be read, and nothing else.

SQLite asks for every access while it prepares a statement. Whatever is not allowed here is refused,
what later versions of SQLite add included.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Literal, Protocol, TypeAlias

from resource_server.providers.database.engines.sqlite.schema_names import Schema
from resource_server.providers.database.queries.sql_tokenizer import OURS

Role: TypeAlias = Literal["reader", "catalog", "watcher"]
"""`reader`: rows; `catalog`: our own statements about the schema; `watcher`: commits only."""


class Readable(Protocol):
    """Decides which columns may be read."""

    def __call__(
        self, table: str, column: str, *, in_query: bool = False, through: str | None = None
    ) -> bool:
        """Return whether a statement may read a column of a table.

        Args:
            table: its name in the schema.
            column: "" where only rows are counted, or a rowid is read that no column is named for.
            in_query: it is the SQL of a manifest's author; else it is our own, as that is which
                stands for a table in an author's.
            through: the view that reads it. None as well for queries that have a WITH, since
                SQLite does not tell its tables from views of the same name.
        """
        ...


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
"""Functions that read their arguments and nothing else. Left out are `printf` and `format`, which
in SQLite 3.40 fill a billion characters without being interrupted; `zeroblob` and `randomblob`;
and what tells of the process, the connection or the pages of the file."""

_EPONYMOUS = frozenset(("json_each", "json_tree"))
"""Table-valued functions; the names of all others are those of no table."""
_PRAGMAS: dict[Role, frozenset[str]] = {
    "reader": frozenset(("data_version", "schema_version")),
    "watcher": frozenset(("data_version", "schema_version")),
    "catalog": frozenset(
        """
        data_version foreign_key_list index_list index_xinfo schema_version table_xinfo
        """.split()
    ),
}
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_SCHEMA_TABLES = frozenset(("sqlite_master", "sqlite_schema", "sqlite_stat1"))


class Authorizer:
    """Decides for one connection, by its role and the schema as it was when it was opened.

    `modules` are the names of all kinds of virtual tables there are on the connection.
    """

    def __init__(
        self, role: Role, schema: Schema, readable: Readable, modules: Iterable[str] = ()
    ) -> None:
        self._catalog = role == "catalog"
        self._pragmas = _PRAGMAS[role]
        self.tables = schema.relations.keys()
        """The tables and views there are, those behind virtual tables aside."""
        self._shadows = schema.shadows
        self._spelt = {folded(name): name for name in (*self.tables, *self._shadows)}
        self._modules = frozenset(map(folded, modules)) - _EPONYMOUS
        self._readable = readable
        self.direct = False
        """Whether a statement is only prepared: then nothing but itself asks, and a table behind a
        virtual table is refused. While it runs, virtual tables ask for theirs."""
        self.in_query = False
        """Whether a statement is the SQL of a manifest's author."""
        self.views = True
        """Whether a name that reads something is that of a view, if there is one."""

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
            allowed = folded(second or "") in FUNCTIONS
        elif action == sqlite3.SQLITE_PRAGMA:
            allowed = folded(first or "") in self._pragmas
            allowed = allowed and (second is None or self._catalog)
        else:
            allowed = False
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def _may_read(self, table: str, column: str, by: str | None) -> bool:
        if not column and table not in self.tables:
            # As it is spelt in the statement, and perhaps a name that only the statement gives.
            table = self._spelt.get(folded(table), table)
        if self._catalog and table in _SCHEMA_TABLES:
            return True
        if table in self.tables:
            return self._catalog or self._ask(table, "" if column == "ROWID" else column, by)
        behind = self._shadows.get(table)
        if behind is not None:
            return self._catalog or (not self.direct and self._ask(behind, "", by))
        name = folded(table)
        if name in _EPONYMOUS:
            return True
        internal = name.startswith(("sqlite_", "pragma_")) or name in self._modules
        return not column and not internal

    def _ask(self, table: str, column: str, by: str | None) -> bool:
        through = by if self.views and by in self.tables else None
        in_query = self.in_query and not (by or "").startswith(OURS)
        return self._readable(table, column, in_query=in_query, through=through)


def folded(name: str) -> str:
    """Return a name as SQLite compares it: only the case of ASCII letters does not matter."""
    return name.lower() if name.isascii() else name.translate(_LOWER)
