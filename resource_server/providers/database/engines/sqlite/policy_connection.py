"""A SQLite connection in which only a policy exists, for SQL of callers and of the manifest.

If anything is hidden, the file is attached to an empty database under a random name of 128 bits, so
no statement can name its tables. What the policy restricts has two views in the temporary schema:
an inner one with another random name, from which alone the table may be read, and one on top with
the table's own name. A hidden table has a view that fails like a missing table. Unrestricted tables
are found in the file.

The authorizer cannot tell a view from a common table expression of the same name, so names prove
nothing but the random ones. None of these is in an answer, an error or a catalogue that statements
reach.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from resource_server.providers.database.engines.contract import (
    Masker,
    OutdatedPolicy,
    RefusedStatement,
    Rows,
    Statement,
    VisibleTable,
    VisibleTables,
)
from resource_server.providers.database.engines.reflection import folded, quoted
from resource_server.providers.database.engines.sqlite.authorizer import EPONYMOUS, FUNCTIONS
from resource_server.providers.database.engines.sqlite.connection import (
    SchemaChanged,
    SqliteConnection,
    StatementRefused,
    busy_timeout,
    errors_explained,
    hardened,
    limit_statements,
    surrogate_text,
    warm_modules,
)
from resource_server.providers.database.engines.sqlite.database_file import (
    DatabaseFile,
    FileIdentity,
    schema_state,
)
from resource_server.providers.database.engines.sqlite.schema_names import (
    VOCABULARIES,
    SqliteSchema,
    computed_tables,
    read_schema,
)
from resource_server.providers.database.queries import sql_tokenizer

_MAX_PROVED: Final = 256
"""Statements that are known to read only what is visible."""
_MAX_PROVED_CHARACTERS: Final = 10_000
"""Longer ones are proved each time."""
_QUICK_S: Final = 0.002
"""Time of a statement that the event loop may run."""
_SHORT: Final = frozenset(
    "abs avg coalesce count ifnull iif length max min nullif round sum total typeof".split()
)
"""Functions that take no longer than a comparison of their arguments."""
_ENDS_WITH_LIMIT: Final = re.compile(r"\blimit\s+\S+\s*\Z", re.IGNORECASE)
_INTERNAL: Final = ("sqlite_", "pragma_")
_INTERNAL_TABLE: Final = re.compile(r"(?:sqlite_(?!version\b)|pragma_)\w*", re.IGNORECASE)
_MISSING_TABLE: Final = re.compile(r"no such (?:table|view): (.+)", re.DOTALL)
_MISSING_COLUMN: Final = re.compile(r"no such column: (.+)", re.DOTALL)
_PROHIBITED: Final = re.compile(r"access to (.+) is prohibited", re.DOTALL)
_FUNCTION: Final = re.compile(r"not authorized to use function: (.+)", re.DOTALL)
_ERRORS: Final = (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError)
_BARRIER: Final = "LIMIT -1"
"""Keeps the conditions of a statement outside of a view: they would run on hidden rows."""


class PolicyConnection(SqliteConnection):
    """A connection whose statements see a policy and nothing else.

    Raises:
        OutdatedPolicy: the policy is of another schema.
    """

    def __init__(
        self,
        file: DatabaseFile,
        identity: FileIdentity,
        policy: VisibleTables,
        *,
        busy_timeout_s: float | None = None,
    ) -> None:
        self._file, self._identity = file, identity
        self._is_author = policy.is_author
        self._proved: dict[str, _Proof] = {}
        """Statements whose every access the authorizer has allowed, in the same schema."""
        self._version: object = None
        with errors_explained():
            uri, busy_timeout_s = file.uri(identity), busy_timeout(file, busy_timeout_s)
            self.database = hardened(uri, busy_timeout_s)
            try:
                schema, computed, encoding = self._examine()
                self._views = views = _PolicyViews(schema, policy, encoding)
                if not views.is_everything:
                    self.database.close()
                    self.database = hardened(
                        ":memory:", busy_timeout_s, attached=(uri, views.file), encoding=encoding
                    )
                self.database.execute("PRAGMA query_only = 0").close()
                views.make(self.database)
                self.database.execute("PRAGMA query_only = 1").close()
                modules = [name for (name,) in self.database.execute("PRAGMA module_list")]
                warm_modules(self.database, schema, views.file)
                self._authorizer = _PolicyAuthorizer(views, schema, computed, modules)
                limit_statements(self.database)
                self.database.set_authorizer(self._authorizer)
                fitting = (None, schema_state(self._version, identity))
                if policy.schema_state not in fitting or not file.is_current(identity):
                    raise OutdatedPolicy
                self.log = file.log(identity)
            except BaseException:
                self.database.close()
                raise

    def _examine(self) -> tuple[SqliteSchema, frozenset[str], str]:
        """Return the names in the file, its tables with expressions, and its encoding."""
        self.database.text_factory = surrogate_text
        # First, so that any later change of the schema is noticed.
        (self._version,) = self.database.execute("PRAGMA schema_version").fetchone()
        (encoding,) = self.database.execute("PRAGMA encoding").fetchone()
        schema, computed = read_schema(self.database), computed_tables(self.database)
        self.database.text_factory = str
        return schema, computed, str(encoding)

    def schema_version(self) -> int:
        """Return the version of the schema, as this connection sees it."""
        name = quoted(self._views.file)
        (version,) = self.database.execute(f"PRAGMA {name}.schema_version").fetchone()
        return version

    def run_confined(self, statement: Statement, limit: int) -> tuple[Rows, bool]:
        """Return the rows of a statement, and whether `at_once` may run it the next time.

        Raises:
            RefusedStatement: SQLite refuses it; the message has no name that is not visible.
            SchemaChanged: the views are those of an earlier schema.
        """
        try:
            proof = self._prove(statement)
            begun = time.monotonic()
            rows = self.select(proof.written(limit), statement.parameters, limit)
            is_quick = proof.is_plain and time.monotonic() - begun < _QUICK_S
            self._check_schema()
        except _ERRORS as error:
            raise self._refusal(error) from None
        return proof.named(rows), is_quick

    def at_once(self, statement: Statement, limit: int) -> Rows | None:
        """Return the rows of a plain statement. See `SqliteConnection.at_once`."""
        proof = self._prove(statement)
        if not proof.is_plain:
            return None
        rows = super().at_once(Statement(proof.written(limit), statement.parameters), limit)
        self._check_schema()
        return None if rows is None else proof.named(rows)

    def check(self, statement: Statement) -> None:
        """Prepare a statement without running it. Raises as `run_confined`."""
        try:
            self._prove(statement)
        except _ERRORS as error:
            raise self._refusal(error) from None

    def _check_schema(self) -> None:
        """Check that the schema has been the same all the time, after a statement."""
        if self.schema_version() != self._version:
            raise SchemaChanged

    def _prove(self, statement: Statement) -> _Proof:
        """Let SQLite prepare a statement as a subquery, whose accesses are all its own."""
        sql = statement.sql
        known = self._proved.get(sql)
        if known is not None:
            return known
        if not self._is_author and (found := _INTERNAL_TABLE.search(sql)):
            raise _no_table(found[0])  # whether or not the file has it
        authorizer = self._authorizer
        authorizer.is_direct, authorizer.is_plain, authorizer.denied = True, True, ""
        try:
            self.database.execute(f"EXPLAIN {_wrapped(sql, 1)}", statement.parameters).close()
        finally:
            authorizer.is_direct = False
        proof = _Proof(sql, is_plain=authorizer.is_plain)
        if len(sql) <= _MAX_PROVED_CHARACTERS:
            if len(self._proved) == _MAX_PROVED:
                self._proved.clear()
            self._proved[sql] = proof
        return proof

    def _refusal(self, error: Exception) -> Exception:
        """Return what is raised for an error of a statement."""
        if isinstance(error, RefusedStatement):
            return error
        if self.has_new_schema():
            return SchemaChanged()
        if isinstance(error, sqlite3.Warning):
            return RefusedStatement("write one statement")
        explained = self.explained(error)
        return self._refused(str(error)) if isinstance(explained, StatementRefused) else explained

    def _refused(self, message: str) -> RefusedStatement:
        """Return the refusal that a message of SQLite stands for."""
        own = f"{self._views.file}."
        if found := _MISSING_TABLE.fullmatch(message):
            return _no_table(found[1].removeprefix(f"{self._views.nowhere}."))
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
        if any(name in message for name in self._views.unspoken):
            return RefusedStatement("the database refuses this statement")
        return RefusedStatement(message)


class _Proof:
    """A statement that is proved to be a subquery of visible tables."""

    def __init__(self, sql: str, *, is_plain: bool) -> None:
        self._sql = sql
        self.is_plain = is_plain
        """Whether all its steps are short."""
        self._has_limit = _ENDS_WITH_LIMIT.search(sql) is not None
        self._columns: tuple[str, ...] | None = None

    def written(self, limit: int) -> str:
        """Return the SQL that gives at least its first `limit` rows and one more."""
        # Around its own LIMIT, another would only copy each row.
        return _wrapped(self._sql, limit + 1) if self._columns is None else self._sql

    def named(self, rows: Rows) -> Rows:
        """Return its rows under the names that they have in a subquery."""
        if self._columns is not None:
            return Rows(self._columns, rows.rows, rows.more)
        if self._has_limit:
            self._columns = rows.columns
        return rows


class _PolicyAuthorizer:
    """Allow-list of what statements may access."""

    def __init__(
        self,
        views: _PolicyViews,
        schema: SqliteSchema,
        computed: Iterable[str],
        modules: Iterable[str],
    ) -> None:
        self._views = views
        self._shadows = schema.shadows
        file_views = {name for name, entry in schema.entries.items() if entry.type == "view"}
        self._readers = views.inner | views.read_by_conditions | file_views
        self._modules = frozenset(map(folded, modules)) - EPONYMOUS
        self._eponymous = EPONYMOUS - set(map(folded, schema.entries))
        virtual = [name for name, entry in schema.entries.items() if entry.module is not None]
        self._running_code = {*virtual, *computed}
        """Tables whose reads take any time."""
        self._public = frozenset(map(folded, views.public))
        self.is_direct = False
        """Whether a statement is only being prepared: then no access is a virtual table's own."""
        self.is_plain = True
        """Whether a statement has only short functions, and reads nothing but stored values."""
        self.denied = ""
        """The name that was denied last."""

    def __call__(
        self, action: int, first: str | None, second: str | None, schema: str | None, by: str | None
    ) -> int:
        """Return SQLITE_OK or SQLITE_DENY; see `sqlite3.Connection.set_authorizer`."""
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            allowed = True
        elif action == sqlite3.SQLITE_READ:
            allowed = self._may_read(first or "", second or "", schema, by)
        elif action == sqlite3.SQLITE_FUNCTION:
            name = folded(second or "")
            is_mask = second in self._views.masks and by in self._views.inner
            allowed = is_mask or name in FUNCTIONS
            self.is_plain = self.is_plain and (is_mask or name in _SHORT)
        elif action == sqlite3.SQLITE_PRAGMA:
            # Ours, or of a full-text table: others are subqueries, and functions denied above.
            is_version = (first or "").lower() in ("schema_version", "data_version")
            allowed = is_version and second is None and schema == self._views.file
        else:
            allowed = False
        if not allowed:
            self.denied = first or ""
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def _may_read(self, table: str, column: str, schema: str | None, by: str | None) -> bool:
        name = folded(table)
        if name.startswith(_INTERNAL) or name in self._modules:
            return False
        if name in self._eponymous:
            self.is_plain = False
            return True
        if table in self._running_code:
            self.is_plain = False
        if schema == self._views.file:
            if table in self._shadows:
                return not self.is_direct
            if not column and not self._views.is_everything:
                return True  # rows of what one of our views names; nothing else has this name
            return table in self._views.unrestricted or by in self._readers
        if schema is None:
            return not column  # rows of what the statement names, which is never the file's own
        if folded(schema) == "temp":
            return table in self._views.inner or name in self._public
        return False


def _wrapped(sql: str, limit: int) -> str:
    return f"SELECT * FROM ({sql}\n) LIMIT {limit:d}"  # noqa: S608 - confined


def _no_table(written: str) -> RefusedStatement:
    # In one spelling: SQLite has that of the statement or that of a hidden table.
    name = folded(written).removeprefix("temp.")
    return RefusedStatement(f"no such table: {name}", table=name)


def _random_name() -> str:
    """Return a name that no statement can guess."""
    return f"v{secrets.token_hex(16)}"


class _PolicyViews:
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
        self.file = "main" if self.is_everything else _random_name()
        """The name of the file in SQL, which statements may know only if nothing is hidden."""
        self.nowhere = _random_name()
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
        inner = _random_name()
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
        function = _random_name()
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
