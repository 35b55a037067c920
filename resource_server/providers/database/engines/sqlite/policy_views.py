"""The views of one SQLite connection in which only a policy exists.

What the policy restricts has two views in the temporary schema: an inner one with a random name of
128 bits, from which alone the table may be read, and one on top with the table's own name. A hidden
table has a view that fails like a missing table. Unrestricted tables are found in the file.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

from resource_server.providers.database.engines.contract import Masker, VisibleTable, VisibleTables
from resource_server.providers.database.engines.reflection import folded, quoted
from resource_server.providers.database.engines.sqlite.schema_names import (
    VOCABULARIES,
    SqliteSchema,
)
from resource_server.providers.database.queries import sql_tokenizer

_BARRIER: Final = "LIMIT -1"
"""Keeps the conditions of a statement outside of a view: they would run on hidden rows."""


def random_name() -> str:
    """Return a name that no statement can guess."""
    return f"v{secrets.token_hex(16)}"


class PolicyViews:
    """What statements find under the names of tables; `make` creates it.

    Args:
        schema: the names in the file.
        policy: what is visible.
        encoding: that of text in the file.
    """

    def __init__(self, schema: SqliteSchema, policy: VisibleTables, encoding: str) -> None:
        self._schema = schema
        self._encoding = encoding
        visible = {table.name.name: table for table in policy.tables}
        entries = schema.entries
        whole = {folded(name) for name, table in visible.items() if table.columns is None}
        for name, entry in entries.items():
            # Its words are those of another table, hidden rows and columns included.
            if entry.module in VOCABULARIES and folded(entry.source or "") not in whole:
                visible.pop(name, None)
        self._restricted = {n: table for n, table in visible.items() if table.columns is not None}
        self.unrestricted = visible.keys() & entries.keys() - self._restricted.keys()
        """Tables and views that are read as they are in the file."""
        self.is_everything = self.unrestricted.issuperset(entries)
        """Whether nothing in the file is hidden."""
        self.file = "main" if self.is_everything else random_name()
        """The name of the file in SQL, which statements may know only if nothing is hidden."""
        self.nowhere = random_name()
        """The name of a schema that there is not."""
        self.inner: set[str] = set()
        self.read_by_conditions: set[str] = set()
        """Tables that conditions of the manifest name; a name of SQL that reads them."""
        self.public: set[str] = set()
        self.masks: set[str] = set()

    @property
    def unspoken(self) -> Sequence[str]:
        """The random names, which no statement, answer or error may have."""
        file = () if self.is_everything else (self.file,)
        return [*self.inner, *self.masks, self.nowhere, *file]

    def make(self, database: sqlite3.Connection) -> None:
        """Create the views and the functions that mask values."""
        database.execute("BEGIN").close()
        for name in (*self._schema.entries, *self._schema.shadows):
            if name in self.unrestricted:
                continue
            table = self._restricted.get(name)
            # A table that is not in the policy, such as a new one, is hidden.
            sql = self._missing(name) if table is None else self._top(database, table)
            database.execute(f"CREATE TEMP VIEW {quoted(name)} AS {sql}").close()
            self.public.add(name)
        database.execute("COMMIT").close()

    def _missing(self, name: str) -> str:
        """Return a SELECT that fails like one of a table that is not there."""
        return f"SELECT * FROM {quoted(self.nowhere)}.{quoted(name)}"  # noqa: S608 - quoted

    def _top(self, database: sqlite3.Connection, table: VisibleTable) -> str:
        inner = random_name()
        self.inner.add(inner)
        columns = [
            self._column(database, name, table.masks.get(name)) for name in table.columns or ()
        ]
        source = f"{quoted(self.file)}.{quoted(table.name.name)}"
        where = "" if table.where is None else f" WHERE ({table.where}\n) {_BARRIER}"
        body = f"SELECT {', '.join(columns) or '1 AS nothing'} FROM {source}{where}"  # noqa: S608
        named = self._named_in(table.where)
        body = f"WITH {', '.join(named)} {body}" if named else body
        database.execute(f"CREATE TEMP VIEW {quoted(inner)} AS {body}").close()
        listed = ", ".join(map(quoted, table.columns or ())) or "1 AS nothing"
        return f"SELECT {listed} FROM temp.{quoted(inner)}"  # noqa: S608 - quoted

    def _named_in(self, condition: str | None) -> Sequence[str]:
        """Return a common table expression for each table of the file that a condition names."""
        if condition is None:
            return ()
        tokens = sql_tokenizer.statement(condition, "sqlite")
        words = {folded(token.identifier) for token in tokens if token.identifier is not None}
        found = [name for name in self._schema.entries if folded(name) in words]
        self.read_by_conditions.update(found)
        return [
            f"{quoted(name)} AS (SELECT * FROM {quoted(self.file)}.{quoted(name)})"  # noqa: S608
            for name in found
        ]

    def _column(self, database: sqlite3.Connection, name: str, masker: Masker | None) -> str:
        column = quoted(name)
        if masker is None:
            return column
        function = random_name()
        self.masks.add(function)
        masked = _masked(masker, self._encoding)
        database.create_function(function, 2, masked, deterministic=True)
        # As bytes: text in no encoding could not be given to the function.
        value = f"CASE typeof({column}) WHEN 'text' THEN CAST({column} AS BLOB) ELSE {column} END"
        return f"CAST({quoted(function)}(typeof({column}), {value}) AS TEXT) AS {column}"


def _masked(masker: Masker, encoding: str) -> Callable[[str, object], bytes | None]:
    """Return the SQL function of a mask, whose result is the bytes of text in this encoding."""
    codec, errors = ("utf-8", "surrogateescape")
    if encoding != "UTF-8":
        codec, errors = encoding.lower(), "surrogatepass"

    def mask(kind: str, value: object) -> bytes | None:
        if kind == "text" and isinstance(value, bytes):
            value = value.decode(codec, errors)
        shown = masker(value)
        return None if shown is None else shown.encode(codec, errors)

    return mask
