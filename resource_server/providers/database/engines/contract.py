"""What an engine does for the provider: connect, reflect, run statements under limits, notice."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from resource_server.errors import InvalidParameter
from resource_server.providers.database.engines.reflection import Table, TableInfo, TableName
from resource_server.providers.database.queries.sql_tokenizer import EngineName

if TYPE_CHECKING:
    # Takes a tenth of a second to import; SQLite does without it until a statement is compiled.
    from sqlalchemy.engine.interfaces import Dialect

Lane: TypeAlias = Literal["hot", "slow"]
"""`hot`: a row or page by a key; `slow`: what may take long, so that it delays nobody else."""


class Statement(NamedTuple):
    """SQL in the engine's own words with its positional parameters."""

    sql: str
    parameters: tuple[object, ...] = ()


class Unfit(InvalidParameter):
    """What is bound is no value of the type that it is compared with."""

    def __init__(self) -> None:
        super().__init__("a value does not fit where it is used")


class Beginning(msgspec.Struct, frozen=True):
    """Stands in a row for a value that is larger than can be kept in memory."""

    data: str | bytes
    size: int
    """Of the whole value: characters of text, else bytes."""


class Rows(NamedTuple):
    """Rows as the driver gave them; `more` says that there are others after them."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    more: bool = False


class Privilege(msgspec.Struct, frozen=True):
    """Something the login may do and a reader need not; for the operator."""

    name: str
    """As in the database: `SUPERUSER`, `INSERT on public.orders`."""


class Gate(msgspec.Struct, frozen=True):
    """How commits are noticed, whatever they are of."""

    by: Literal["commits", "notify", "counters"]
    """`commits`: the database tells whether there were any; `notify`: triggers of its owner tell at
    once, and it does else; `counters`: of what was written anywhere on its server."""
    interval: float
    """Seconds between two looks; after a minute without a commit it may be one."""


class Engine(Protocol):
    """One database, opened for reading and nothing else. All methods may be called concurrently.

    Every method raises `ResourceBusy` (locked, overloaded, connection lost), `DeadlineExceeded`,
    and `MountUnavailable` where the database cannot be used at all: its message is for the
    operator and holds no path, URL or password.
    """

    @property
    def name(self) -> EngineName:
        """`sqlite`, `postgresql`, `mysql` or `mariadb`."""
        ...

    @property
    def dialect(self) -> Dialect:
        """What compiles and quotes statements for it."""
        ...

    @property
    def has_schemas(self) -> bool:
        """Whether tables lie in schemas that are part of their address."""
        ...

    async def open(self) -> None:
        """Connect and see whether it can be read. Whoever tries that closes it, come what may."""
        ...

    async def close(self) -> None:
        """Give up every connection; what still runs is stopped."""
        ...

    async def tables(self) -> Sequence[TableInfo]:
        """Return every table and view a user would count as one, ordered by schema and name.

        Internal, shadow and temporary tables and partitions are left out.
        """
        ...

    async def table(self, name: TableName) -> Table:
        """Return one table as reflected now, or from a cache that notices changes of the schema.

        Raises:
            ResourceNotFound: there is none of this name, or it is broken (a view on nothing).
        """
        ...

    async def fetch(
        self, statement: Statement, *, limit: int, within: float, lane: Lane = "hot"
    ) -> Rows:
        """Run one SELECT of ours and return at most `limit` rows, within so many seconds.

        Raises:
            Unfit: a value does not fit where it is bound.
        """
        ...

    async def query(self, statement: Statement, *, limit: int, within: float) -> Rows:
        """Run a query of the manifest's author, who may be wrong or worse, in the slow lane.

        Its SQL is one SELECT; that it cannot write is up to the engine.

        Raises:
            InvalidParameter: the database refuses it; the message says nothing of its SQL.
        """
        ...

    async def check(self, sql: str, parameters: Sequence[str]) -> Sequence[str] | None:
        """Prepare a query without running it; return its columns, or None where that is unknown.

        Raises:
            ValueError: it is refused; the message is for the manifest's author.
        """
        ...

    async def estimate(self, name: TableName) -> int | None:
        """Return about how many rows a table has, from statistics; None where there are none."""
        ...

    async def schema_state(self) -> object:
        """Return what differs when any table was made, changed or dropped."""
        ...

    async def privileges(self) -> Sequence[Privilege]:
        """Return what the login may do beyond reading."""
        ...

    @property
    def gate(self) -> Gate:
        """How `commits` notices them."""
        ...

    def commits(self) -> AsyncGenerator[None, None]:
        """Yield whenever something may have been committed, by whomever; polls while iterated.

        Yields once at the beginning, when it is certain that later commits will be noticed.
        """
        ...
