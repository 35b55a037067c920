"""The `Engine` protocol: connections, reflection, statements under limits, commit detection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from resource_server.errors import InvalidParameter
from resource_server.providers.database.engines.reflection import (
    Table,
    TableInfo,
    TableName,
    names_in_sql,
    quoted,
)
from resource_server.providers.database.masks import Masker

if TYPE_CHECKING:
    # The import takes 0.1 s; SQLite does without it until a statement is compiled.
    from sqlalchemy.engine.interfaces import Dialect

EngineName: TypeAlias = Literal["sqlite", "postgresql", "mysql", "mariadb", "duckdb", "generic"]


ViewReads: TypeAlias = frozenset[tuple[TableName, str]]
"""Tables and views with their columns: "*" for all of them, "" for none, such as by `count(*)`."""


class Statement(NamedTuple):
    """SQL in the engine's dialect, with positional parameters."""

    sql: str
    parameters: tuple[object, ...] = ()
    core: tuple[Any, Mapping[str, object]] | None = None
    """Instead of SQL, a SELECT of SQLAlchemy and its values by name, for the generic engine."""


DIGEST = "resource_server_digest"
"""SQL function of SQLite connections: the digest of a value with a secret, both arguments; NULL of
NULL."""


REAL_TEXT = "resource_server_real"
"""SQL function of SQLite connections: the text of a real as pages show it."""


class RawText(bytes):
    """SQLite text that is not UTF-8, as a parameter: its bytes, which the statement casts."""


class UnfitParameter(InvalidParameter):
    """A bound value does not fit the type it is compared with."""

    def __init__(self) -> None:
        super().__init__("a value does not fit where it is used")


class TruncatedValue(msgspec.Struct, frozen=True):
    """The start of a value that is too large for memory; replaces the value in its row."""

    data: str | bytes
    size: int
    """Size of the whole value: characters of text, else bytes."""


class Rows(NamedTuple):
    """Rows as the driver returned them; `more` if the result continues."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    more: bool = False


class Privilege(msgspec.Struct, frozen=True):
    """A privilege of the login that reading does not need; shown to the operator."""

    name: str
    """As the database writes it: `SUPERUSER`, `INSERT on public.orders`."""


class VisibleTable(NamedTuple):
    """What SQL may read of one exposed table or view, under its own name."""

    name: TableName
    columns: tuple[str, ...] | None = None
    """The visible columns, in order; None for all of them, without masks and condition."""
    masks: Mapping[str, Masker] = {}
    """Functions that mask values, by column."""
    where: str | None = None
    """The manifest's condition, in the engine's SQL, without parentheses around it."""


class VisibleTables(NamedTuple):
    """What SQL may read: the same object until the schema or policy changes."""

    tables: tuple[VisibleTable, ...]
    """All other tables and views do not exist for the statements."""
    is_author: bool = False
    """Whether the statements are the manifest's; those of callers never keep them waiting."""
    schema_state: object = None
    """The `Engine.schema_state` that it fits, or None for any."""
    schema: str | None = None
    """The schema of the tables, which callers do not write."""
    owner: Hashable = None
    """The callers whose policy it is; another one of the same replaces it."""

    @property
    def by_name(self) -> Mapping[str, VisibleTable]:
        """The tables by their names in callers' SQL, in order."""
        names = names_in_sql([each.name for each in self.tables])
        return dict(zip(names, self.tables, strict=True))


class OutdatedPolicy(Exception):
    """The schema has changed since the policy was made."""


class RefusedStatement(InvalidParameter):
    """A statement is refused; the message has only names that are visible or the statement's.

    `table` or `column` is a name of the statement that nothing visible has, as it is written there.
    """

    def __init__(
        self, message: str, *, table: str | None = None, column: str | None = None
    ) -> None:
        super().__init__(message)
        self.table = table
        self.column = column


class CommitDetection(msgspec.Struct, frozen=True):
    """How an engine notices commits."""

    by: Literal["commits", "notify", "counters", "reads"]
    """`commits`: polls a version that every commit changes; `notify`: receives notifications from
    the owner's triggers, and polls rarely; `counters`: polls the server's counters of writes;
    `reads`: tells of a possible commit at every poll, so that what is subscribed is read again."""
    interval: float
    """Seconds between two polls; may grow to a second after a minute without a commit."""


class Engine(Protocol):
    """One database, opened read-only. All methods may be called concurrently.

    Names say whose statement runs: `run_own` trusts it, `run_authored` and `run_confined` do not.

    Engines inherit from it, and from it what a file without logins and a single source has.

    Every method raises `ResourceBusy` (locked, overloaded, connection lost), `DeadlineExceeded`,
    `ResourceUnreadable` for what is there and cannot be read, and `MountUnavailable` if the
    database cannot be used at all: its message is for the operator, and may name host, port and
    user, never a password or a path.
    """

    @property
    def name(self) -> EngineName:
        """`sqlite`, `postgresql`, `mysql`, `mariadb`, `duckdb` or `generic`."""
        ...

    @property
    def product(self) -> str:
        """What the database is, for people and models."""
        return self.name

    @property
    def dialect(self) -> Dialect:
        """SQLAlchemy's dialect, which compiles and quotes statements."""
        ...

    @property
    def has_schemas(self) -> bool:
        """Whether a table's address includes its schema."""
        return False

    def sql_name(self, name: TableName) -> str:
        """Return the quoted name of a table."""
        return ".".join(quoted(part, self.name) for part in name if part)

    @property
    def open_timeout_s(self) -> float:
        """Seconds that `open` and the checks after it may take."""
        return 10.0

    _users = 0
    """Number of openers: the whole database, and each part of it for some callers."""

    async def open(self) -> None:
        """Connect and check that the database can be read. `close` it even if this fails.

        Raises:
            MountUnavailable: it cannot.
        """
        self._users += 1
        await self._connect_and_check()

    async def _connect_and_check(self) -> None:
        """Do so, for each opener; raises as `open`."""
        ...

    async def close(self) -> None:
        """Stop running statements and close all connections, unless others use the engine."""
        self._users = max(self._users - 1, 0)
        if not self._users:
            await self._close_everything()

    async def _close_everything(self) -> None:
        """Do so, for the last user."""
        ...

    async def tables(self) -> Sequence[TableInfo]:
        """Return the tables and views of the users, ordered by schema and name.

        Excludes internal, shadow and temporary tables, and partitions.
        """
        ...

    async def unserved(self) -> Sequence[TableName] | None:
        """Return what `tables` leaves out, such as tables that the login may not read.

        None if the server does not tell.
        """
        return None

    async def table(self, name: TableName) -> Table:
        """Reflect one table, or return it from a cache that notices schema changes.

        Raises:
            ResourceNotFound: no such table.
            ResourceUnreadable: a broken one, such as a view on a missing table, or one that the
                login may not read.
        """
        ...

    async def run_own(
        self, statement: Statement, *, limit: int, within: float, slow: bool = False
    ) -> Rows:
        """Run one of our own SELECTs and return at most `limit` rows.

        May be stepped without a task: whatever waits in it is awaited through `settle`.

        Args:
            statement: the SELECT and its parameters.
            limit: maximum rows.
            within: timeout in seconds.
            slow: it may take long, so it must not delay reads by key.

        Raises:
            UnfitParameter: a value does not fit the type it is compared with.
        """
        ...

    async def refusal(self, sql: str) -> str | None:
        """Return why the database refuses a statement of the manifest's author, or None.

        The reason is all that the operator sees.
        """
        ...

    async def view_reads(self, names: Sequence[TableName]) -> Mapping[TableName, ViewReads]:
        """Return the columns that each of these views reads; of views that it cannot examine, none.

        MariaDB and MySQL show definitions only to logins with the privilege SHOW VIEW.
        """
        ...

    async def estimate(self, name: TableName) -> int | None:
        """Return a table's row count from statistics, or None without statistics."""
        ...

    async def schema_state(self, name: TableName | None = None) -> object:
        """Return a value that changes whenever a table is created, altered or dropped.

        With `name`, it may predate changes of other tables.
        """
        ...

    async def privileges(self) -> Sequence[Privilege]:
        """Return the login's privileges beyond reading."""
        return ()

    @property
    def left_out(self) -> Sequence[str]:
        """What is wrong with data files, or lacking in a database, for its operator."""
        return ()

    @property
    def unenforced(self) -> Sequence[str]:
        """Protections of a process of the engine's own that this system does not enforce."""
        return ()

    @property
    def commit_detection(self) -> CommitDetection:
        """How `commits` notices them."""
        ...

    def commits(self) -> AsyncGenerator[None, None]:
        """Yield after every possible commit, by any connection; polls while it is iterated.

        Yields once at the start, as soon as every later commit is certain to be noticed.
        """
        ...


@runtime_checkable
class QueryEngine(Protocol):
    """An engine that runs the manifest's queries as they are: what confines them is in them."""

    async def run_authored(self, statement: Statement, *, limit: int, within: float) -> Rows:
        """Run a query of the manifest, whose author may be mistaken or malicious.

        The caller has checked that it is one SELECT; the engine ensures that it cannot write.

        Raises:
            InvalidParameter: the database refuses it; the message does not quote its SQL.
        """
        ...

    async def check_authored(self, sql: str, parameters: Sequence[str]) -> Sequence[str] | None:
        """Prepare a query without running it; return its columns, or None if they are unknown.

        Raises:
            ValueError: the database refuses it; the message is for the manifest's author.
        """
        ...


@runtime_checkable
class SqlEngine(Protocol):
    """An engine that confines SQL to a policy."""

    async def run_confined(
        self, statement: Statement, policy: VisibleTables, *, limit: int, within: float
    ) -> Rows:
        """Run a statement, for which only `policy` exists; may be stepped like `Engine.run_own`.

        Raises:
            RefusedStatement: it is no SELECT, reads what is not visible, or fails.
            OutdatedPolicy: the policy is of another schema.
        """
        ...


@runtime_checkable
class PolicyEngine(SqlEngine, Protocol):
    """An engine that confines the manifest's queries, too, as they are written."""

    async def check_confined(self, statement: Statement, policy: VisibleTables) -> None:
        """Prepare a statement without running it; its parameters are of no account.

        Raises:
            RefusedStatement: as `run_confined`, unless only a run shows it.
            OutdatedPolicy: the policy is of another schema.
        """
        ...
