"""Manifest options of a database: tables, columns, queries and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from resource_server.access import OPEN, Access
from resource_server.provider import ByteSize
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.runtime.option_types import Duration

Mask: TypeAlias = Literal["hash", "redact", "last4"]
WatchMode: TypeAlias = Literal["auto", "notify", "poll", "off"]


def _check_names(option: str, names: tuple[str, ...]) -> None:
    seen = set[str]()
    for name in names:
        if not name:
            raise ValueError(f"{option}: '' is no name of a column")
        if name in seen:
            raise ValueError(f"{option}: '{name}' is given twice")
        seen.add(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions:
    """What is shown of the columns of a table."""

    hide: tuple[str, ...] = ()
    """Columns that are as if they did not exist."""
    mask: Mapping[str, Mask] = field(default_factory=dict[str, Mask])
    """Columns shown as something else: a keyed hash, nothing, or their last four characters."""

    def __post_init__(self) -> None:
        _check_names("hide", self.hide)
        _check_names("mask", tuple(self.mask))
        for name in self.hide:
            if name in self.mask:
                raise ValueError(f"mask: '{name}' is hidden, so there is nothing to mask")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeHint:
    """How a change of a table is found cheaply.

    After a commit the greatest value of the column and the number of rows are compared with what
    they were, in one statement, and the rows only where either has moved. So a change that moves
    neither is told half a minute late: one that leaves the column as it was, two within what the
    column can tell apart (a second, of `CURRENT_TIMESTAMP` in SQLite and MySQL), a value that is
    committed after a greater one (`now()` of a long transaction).
    """

    column: str
    """Grows with every change of a row, as `updated_at` does; has an index."""

    def __post_init__(self) -> None:
        _check_names("column", (self.column,))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """One table or view, or all that a pattern names."""

    title: str | None = None
    """Name for people."""
    description: str | None = None
    """What it holds, instead of the comment in the database."""
    key: tuple[str, ...] = ()
    """Columns that address a row, where the database declares none."""
    columns: ColumnOptions = ColumnOptions()
    """What is hidden or masked."""
    where: str | None = None
    """An SQL condition; rows for which it does not hold are as if they did not exist."""
    rows: bool = True
    """False shows the table and its schema, and no rows."""
    search: tuple[str, ...] = ()
    """Columns by whose values rows are found, as far as they are shown."""
    change: ChangeHint | None = None
    """How to notice changes cheaply."""
    listed: bool = True
    """False keeps it out of the global listing."""
    access: Access = OPEN
    """Who may see it, and the queries that read it; a view of it needs its own."""

    def __post_init__(self) -> None:
        _check_names("key", self.key)
        _check_names("search", self.search)
        if self.where is not None and not self.where.strip():
            raise ValueError("where: is empty; leave it out, or write an SQL condition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query of the manifest's author, served as a document."""

    sql: str
    """One SELECT, with named parameters as `:country`."""
    title: str | None = None
    """Name for people."""
    description: str | None = None
    """What it answers."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])
    """By name, without the colon; every one in the SQL, and no other."""
    rows: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    """Rows at most; by default those of a page."""
    tool: bool = True
    """Whether models may call it as a tool, too."""
    access: Access = OPEN
    """Who may see it."""

    def __post_init__(self) -> None:
        if not self.sql.strip():
            raise ValueError("sql: is empty; write one SELECT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """How much one read may return, and how long it may take."""

    rows: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Of a page, unless the client asks for more."""
    max_rows: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """Of a page, whatever the client asks for."""
    bytes: ByteSize = ByteSize(1024 * 1024)
    """Of a page, a row or the result of a query; `~cell` has a value whole."""
    cell: ByteSize = ByteSize(64 * 1024)
    """Of one value in a row; longer ones are cut, and whole under `~cell`."""
    timeout: Duration = Duration(2)
    """Of a page or row."""
    query_timeout: Duration = Duration(10)
    """Of a query of the manifest."""

    def __post_init__(self) -> None:
        for name in ("timeout", "query_timeout"):
            if not getattr(self, name):
                raise ValueError(f"{name}: nothing is read in no time; write one such as 2s")
