"""A SQLite connection for the SQL of callers, in which only the policy exists.

The file is attached to an empty database under a random name of 128 bits, so no statement can name
its tables. What the policy restricts has two views in the temporary schema: an inner one with a
random name, from which alone the table may be read, and one on top with the table's own name. A
hidden table has a view that fails like a missing table. Unrestricted tables are found in the file.

The authorizer cannot tell a view from a common table expression of the same name, so names prove
nothing but the random ones. None of these is in an answer, an error or a catalogue that callers
reach.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

from resource_server.providers.database.engines.contract import (
    RefusedStatement,
    Rows,
    SqlPolicy,
    Statement,
    VisibleTable,
)
from resource_server.providers.database.engines.sqlite.authorizer import (
    EPONYMOUS,
    FUNCTIONS,
    folded,
)
from resource_server.providers.database.engines.sqlite.connection import (
    SchemaChanged,
    SqliteConnection,
    StatementRefused,
    errors_explained,
    escaped,
    hardened,
    limit_statements,
)
from resource_server.providers.database.engines.sqlite.database_file import (
    DatabaseFile,
    FileIdentity,
)
from resource_server.providers.database.engines.sqlite.schema_names import (
    MODULES,
    SqliteSchema,
    quoted,
    read_schema,
)
from resource_server.providers.database.masks import Masker
from resource_server.providers.database.queries import sql_tokenizer

_BARRIER: Final = "LIMIT -1"
"""Keeps the conditions of a caller outside of a view: they would run on hidden rows."""
_INTERNAL: Final = ("sqlite_", "pragma_")
_INTERNAL_TABLE: Final = re.compile(r"(?:sqlite_(?!version\b)|pragma_)\w*", re.IGNORECASE)
_MISSING_TABLE: Final = re.compile(r"no such (?:table|view): (.+)", re.DOTALL)
_MISSING_COLUMN: Final = re.compile(r"no such column: (.+)", re.DOTALL)
_PROHIBITED: Final = re.compile(r"access to (.+) is prohibited", re.DOTALL)
_FUNCTION: Final = re.compile(r"not authorized to use function: (.+)", re.DOTALL)


class PolicyConnection(SqliteConnection):
    """A connection whose statements come from callers."""

    def __init__(self, file: DatabaseFile, identity: FileIdentity, policy: SqlPolicy) -> None:
        with errors_explained():
            uri = file.uri(identity)
            self._name = _random_name()
            self._version: object = None
            schema, encoding = _examine(uri)
            self.database = hardened(":memory:", attached=(uri, self._name), encoding=encoding)
            try:
                views = _Views(self.database, self._name, schema, policy, encoding)
                views.make()
                self.database.execute("PRAGMA query_only = 1").close()
                modules = [name for (name,) in self.database.execute("PRAGMA module_list")]
                self._warm_modules(schema)
                self._authorizer = _PolicyAuthorizer(views, schema, modules)
                limit_statements(self.database)
                self.database.set_authorizer(self._authorizer)
                self._version = self.versions()[0]
                self.log = file.log()
            except BaseException:
                self.database.close()
                raise

    def versions(self) -> tuple[int, int]:
        """Return the versions of the schema and the data, as this connection sees them."""
        name = quoted(self._name)
        (schema,) = self.database.execute(f"PRAGMA {name}.schema_version").fetchone()
        (data,) = self.database.execute(f"PRAGMA {name}.data_version").fetchone()
        return schema, data

    def ask(self, statement: Statement, limit: int) -> Rows:
        """Run a caller's statement.

        Raises:
            RefusedStatement: SQLite refuses it; the message has no name that the caller lacks.
            SchemaChanged: the views are those of an earlier schema.
        """
        if found := _INTERNAL_TABLE.search(statement.sql):
            raise _no_table(found[0])  # whether or not the file has it
        if self.has_new_schema():
            raise SchemaChanged
        sql = f"SELECT * FROM ({statement.sql}\n) LIMIT {limit + 1:d}"  # noqa: S608 - confined
        try:
            self._authorizer.direct, self._authorizer.denied = True, ""
            try:
                self.database.execute(f"EXPLAIN {sql}", statement.parameters).close()
            finally:
                self._authorizer.direct = False
            return self.select(sql, statement.parameters, limit)
        except sqlite3.Error as error:
            refused = self.explained(error)
            if isinstance(refused, StatementRefused):
                raise self._refused(str(refused)) from None
            raise
        except sqlite3.Warning:
            raise RefusedStatement("write one statement") from None

    def _refused(self, message: str) -> RefusedStatement:
        """Return the refusal that a message of SQLite stands for."""
        own = f"{self._name}."
        if found := _MISSING_TABLE.fullmatch(message):
            return _no_table(found[1].removeprefix(f"{self._authorizer.nowhere}."))
        if found := _MISSING_COLUMN.fullmatch(message):
            name = found[1].removeprefix(own)
            return RefusedStatement(f"no such column: {name}", column=name.rpartition(".")[2])
        if found := _PROHIBITED.fullmatch(message):
            table = found[1].removeprefix(own).removeprefix("main.").removeprefix("temp.")
            return _no_table(table.partition(".")[0])
        if found := _FUNCTION.fullmatch(message):
            return RefusedStatement(f"no such function: {found[1]}")
        if message == "not authorized":
            return _no_table(self._authorizer.denied)
        if self._name in message or self._authorizer.names_any(message):
            return RefusedStatement("the database refuses this statement")
        return RefusedStatement(message)

    def _warm_modules(self, schema: SqliteSchema) -> None:
        """Connect virtual tables before the authorizer forbids it."""
        virtual = [
            f"{quoted(self._name)}.{quoted(name)}"
            for name, entry in schema.entries.items()
            if entry.module in MODULES
        ]
        for name in ("json_each('[]')", "json_tree('[]')", *virtual):
            try:
                self.database.execute(f"SELECT 1 FROM {name} LIMIT 0").close()  # noqa: S608
            except sqlite3.OperationalError:
                continue


class _Views:
    """The views of one connection."""

    def __init__(
        self,
        database: sqlite3.Connection,
        name: str,
        schema: SqliteSchema,
        policy: SqlPolicy,
        encoding: str,
    ) -> None:
        self._database = database
        self.schema = name
        """The random name of the attached file."""
        self.nowhere = _random_name()
        """The name of a schema that there is not."""
        self._file = schema
        self._policy = policy
        self._encoding = encoding
        self.inner: set[str] = set()
        self.read_by_conditions: set[str] = set()
        """Tables that conditions of the manifest name; a name of SQL that reads them."""
        self.public: set[str] = set()
        self.masks: set[str] = set()
        self.unrestricted = {
            table.name.name for table in policy.tables if table.columns is None
        } & schema.entries.keys()

    def make(self) -> None:
        """Create the views and the functions that mask values."""
        restricted = {t.name.name: t for t in self._policy.tables if t.columns is not None}
        for name in (*self._file.entries, *self._file.shadows):
            if name in self.unrestricted:
                continue
            table = restricted.get(name)
            # A table that is not in the policy, such as a new one, is hidden.
            sql = self._missing(name) if table is None else self._top(table)
            self._database.execute(f"CREATE TEMP VIEW {quoted(name)} AS {sql}").close()
            self.public.add(name)

    def _missing(self, name: str) -> str:
        """Return a SELECT that fails like one of a table that is not there."""
        return f"SELECT * FROM {quoted(self.nowhere)}.{quoted(name)}"  # noqa: S608 - quoted

    def _top(self, table: VisibleTable) -> str:
        inner = _random_name()
        self.inner.add(inner)
        columns = [self._column(name, table.masks.get(name)) for name in table.columns or ()]
        source = f"{quoted(self.schema)}.{quoted(table.name.name)}"
        where = "" if table.where is None else f" WHERE ({table.where}\n) {_BARRIER}"
        body = f"SELECT {', '.join(columns) or '1 AS nothing'} FROM {source}{where}"  # noqa: S608
        named = self._named_in(table.where)
        body = f"WITH {', '.join(named)} {body}" if named else body
        self._database.execute(f"CREATE TEMP VIEW {quoted(inner)} AS {body}").close()
        listed = ", ".join(map(quoted, table.columns or ())) or "1 AS nothing"
        return f"SELECT {listed} FROM temp.{quoted(inner)}"  # noqa: S608 - quoted

    def _named_in(self, condition: str | None) -> Sequence[str]:
        """Return a common table expression for each table of the file that a condition names."""
        if condition is None:
            return ()
        tokens = sql_tokenizer.statement(condition, "sqlite")
        words = {folded(token.identifier) for token in tokens if token.identifier is not None}
        found = [name for name in self._file.entries if folded(name) in words]
        self.read_by_conditions.update(found)
        return [
            f"{quoted(name)} AS (SELECT * FROM {quoted(self.schema)}.{quoted(name)})"  # noqa: S608
            for name in found
        ]

    def _column(self, name: str, masker: Masker | None) -> str:
        column = quoted(name)
        if masker is None:
            return column
        function = _random_name()
        self.masks.add(function)
        masked = _masked(masker, self._encoding)
        self._database.create_function(function, 2, masked, deterministic=True)
        # As bytes: text in no encoding could not be given to the function.
        value = f"CASE typeof({column}) WHEN 'text' THEN CAST({column} AS BLOB) ELSE {column} END"
        return f"CAST({quoted(function)}(typeof({column}), {value}) AS TEXT) AS {column}"


class _PolicyAuthorizer:
    """Allow-list of what the statements of callers may access."""

    def __init__(self, views: _Views, schema: SqliteSchema, modules: list[str]) -> None:
        self._views = views
        self._shadows = schema.shadows
        file_views = {name for name, entry in schema.entries.items() if entry.type == "view"}
        self._readers = views.inner | views.read_by_conditions | file_views
        self._modules = frozenset(map(folded, modules)) - EPONYMOUS
        self._public = frozenset(map(folded, views.public))
        self.direct = False
        """Whether a statement is only being prepared: then no access is a virtual table's own."""
        self.denied = ""
        """The name that was denied last."""

    @property
    def nowhere(self) -> str:
        """The name of the schema that missing tables are in."""
        return self._views.nowhere

    def names_any(self, message: str) -> bool:
        """Return whether a message has a random name."""
        views = self._views
        return any(name in message for name in (*views.inner, *views.masks, views.nowhere))

    def __call__(
        self, action: int, first: str | None, second: str | None, schema: str | None, by: str | None
    ) -> int:
        """Return SQLITE_OK or SQLITE_DENY; see `sqlite3.Connection.set_authorizer`."""
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            allowed = True
        elif action == sqlite3.SQLITE_READ:
            allowed = self._may_read(first or "", second or "", schema, by)
        elif action == sqlite3.SQLITE_FUNCTION:
            is_mask = second in self._views.masks and by in self._views.inner
            allowed = is_mask or folded(second or "") in FUNCTIONS
        elif action == sqlite3.SQLITE_PRAGMA:
            # A caller's statement is a subquery, and the table-valued forms are denied above.
            versions = (first or "").lower() in ("schema_version", "data_version")
            allowed = versions and second is None and schema == self._views.schema
        else:
            allowed = False
        if not allowed:
            self.denied = first or ""
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def _may_read(self, table: str, column: str, schema: str | None, by: str | None) -> bool:
        name = folded(table)
        if name.startswith(_INTERNAL) or name in self._modules:
            return False
        if schema == self._views.schema:
            if table in self._shadows:
                return not self.direct
            return table in self._views.unrestricted or by in self._readers
        if name in EPONYMOUS:
            return True
        if schema is None:
            return not column  # rows of what the statement names, which is never the file's own
        if folded(schema) == "temp":
            return table in self._views.inner or name in self._public
        return False


def _examine(uri: str) -> tuple[SqliteSchema, str]:
    """Return the names in a file, and the encoding of its text."""
    database = hardened(uri)
    try:
        database.text_factory = escaped
        (encoding,) = database.execute("PRAGMA encoding").fetchone()
        return read_schema(database), str(encoding)
    finally:
        database.close()


def _random_name() -> str:
    return f"v{secrets.token_hex(16)}"


def _no_table(written: str) -> RefusedStatement:
    # In one spelling: SQLite has that of the statement or that of a hidden table.
    name = folded(written).removeprefix("temp.")
    return RefusedStatement(f"no such table: {name}", table=name)


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
