"""Manifest options of a database: tables, columns, queries and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

from resource_server.access import OPEN, Access, Scope
from resource_server.buckets.location import check_endpoint
from resource_server.errors import DeadlineExceeded
from resource_server.provider import ByteSize
from resource_server.providers.database.masks import MaskKind
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.runtime.option_types import Duration, OptionChecks, check_options

ViewMode: TypeAlias = Literal["refuse", "warn"]
WatchMode: TypeAlias = Literal["auto", "notify", "poll", "off"]


def _check_names(option: str, names: tuple[str, ...]) -> None:
    seen = set[str]()
    for name in names:
        if not name:
            raise ValueError(f"{option}: '' is not a column name")
        if name in seen:
            raise ValueError(f"{option}: '{name}' is given twice")
        seen.add(name)


def _check_sql(sql: str | None, advice: str) -> None:
    if sql is not None and not sql.strip():
        raise ValueError(f"is empty; {advice}")


def _check_timeout(timeout: Duration) -> None:
    if not timeout:
        raise ValueError("a timeout of 0 allows no reads; write one such as 2s")


class ColumnOptions(Struct, frozen=True, kw_only=True):
    """Visibility of a table's columns."""

    hide: tuple[str, ...] = ()
    """Columns to hide, as if they did not exist."""
    mask: Mapping[str, MaskKind] = {}
    """Columns to mask: with a keyed hash, `***`, or the last four characters of each value."""

    option_checks: ClassVar[OptionChecks] = {
        "hide": lambda names: _check_names("hide", names),
        "mask": lambda masks: _check_names("mask", tuple(masks)),
    }

    @property
    def covered(self) -> tuple[str, ...]:
        """The columns that are hidden or masked."""
        return (*self.hide, *self.mask)

    def __post_init__(self) -> None:
        check_options(self)
        for name in self.hide:
            if name in self.mask:
                raise ValueError(f"mask: '{name}' is hidden, so there is nothing to mask")


class ChangeHint(Struct, frozen=True, kw_only=True):
    """A column that makes changes of a table cheap to detect.

    After a commit, one statement compares the greatest value of the column and the row count with
    the previous ones; rows are read only if either differs. A change that affects neither is
    noticed up to half a minute late: an update that does not touch the column, a second change
    within the column's resolution (a second for `CURRENT_TIMESTAMP` in SQLite and MySQL), or a
    value committed after a greater one (`now()` in a long transaction).
    """

    column: str
    """A column that grows with every change of a row, such as `updated_at`; has an index."""

    option_checks: ClassVar[OptionChecks] = {
        "column": lambda name: _check_names("column", (name,)),
    }

    def __post_init__(self) -> None:
        check_options(self)


class TableOptions(Struct, frozen=True, kw_only=True):
    """Options of one table or view, or of all that a pattern matches."""

    title: str | None = None
    """Name for people."""
    description: str | None = None
    """Description, instead of the comment in the database."""
    key: tuple[str, ...] = ()
    """Columns that address a row, if the database declares no key."""
    columns: ColumnOptions = ColumnOptions()
    """Columns to hide or mask."""
    expose: bool | None = None
    """False hides it, as `false` in place of the entry does. True consents to all that a view
    shows, whatever the entries of its tables hide, and to columns whose names look secret."""
    optional: bool = False
    """Whether the table may come later, with a migration. Otherwise an entry that no table matches
    is a mistake; if it hides anything and a table has a name like it, nothing is served."""
    where: str | None = None
    """An SQL condition; rows that do not match are hidden. `owner = :claims.sub` is by a claim of
    the caller."""
    rows: bool = True
    """False exposes the table and its schema, but no rows."""
    search: tuple[str, ...] | bool = True
    """Columns that search looks into; by default those of text. Hidden and masked ones are
    skipped."""
    change: ChangeHint | None = None
    """A column for cheap change detection."""
    listed: bool = True
    """False keeps it out of the global listing."""
    access: Access = OPEN
    """Scopes required for the table and queries that read it; views need their own."""

    option_checks: ClassVar[OptionChecks] = {
        "key": lambda names: _check_names("key", names),
        "search": lambda given: given is not True and _check_names("search", given or ()),
        "where": lambda sql: _check_sql(sql, "leave it out, or write an SQL condition"),
    }

    def __post_init__(self) -> None:
        check_options(self)


class Query(Struct, frozen=True, kw_only=True):
    """A query of the manifest's author, served as a document."""

    sql: str
    """One SELECT, with named parameters such as `:country`, and claims of the caller such as
    `:claims.sub`."""
    title: str | None = None
    """Name for people."""
    description: str | None = None
    """Description of its result."""
    parameters: Mapping[str, Parameter] = {}
    """Parameters by name without the colon; exactly those in the SQL."""
    rows: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    """Maximum number of rows; the default is that of a page."""
    tool: bool = True
    """Whether models may also call it as a tool."""
    access: Access = OPEN
    """Scopes required for the query."""

    option_checks: ClassVar[OptionChecks] = {
        "sql": lambda sql: _check_sql(sql, "write one SELECT"),
    }

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerSqlOptions:
    """How callers may send SQL of their own."""

    url: str | None = field(default=None, repr=False)
    """PostgreSQL, MySQL and MariaDB: a login that can read nothing but the views that
    `resource-server sql --policy` prints, such as `postgresql://shop_sql:…@host/shop`."""
    scopes: tuple[Scope, ...] = ()
    """Required scopes; a caller needs all of them."""

    def __post_init__(self) -> None:
        if self.url is None and not self.scopes:
            raise ValueError("is empty; write true, `url` or `scopes`")

    @property
    def access(self) -> Access:
        """The scopes as a rule."""
        return Access(scopes=self.scopes)


class StorageOptions(Struct, frozen=True, kw_only=True):
    """The object storage of data files, `files:s3://…`."""

    endpoint: str | None = None
    """URL of a service that is not Amazon's."""
    region: str | None = None
    """Region of the bucket; by default, that of the environment or the profile."""
    profile: str | None = None
    """Profile of the configuration files of AWS, which have its keys."""
    anonymous: bool = False
    """Whether requests carry no credentials, for public buckets."""
    max_size: ByteSize = ByteSize(1024**3)
    """Maximum bytes of all data files together: they are fetched whole."""

    option_checks: ClassVar[OptionChecks] = {"endpoint": check_endpoint}

    def __post_init__(self) -> None:
        check_options(self)


class ReadLimits(Struct, frozen=True, kw_only=True):
    """Limits of one read."""

    rows: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Default number of rows of a page."""
    max_rows: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """Maximum number of rows of a page."""
    bytes: ByteSize = ByteSize(1024 * 1024)
    """Maximum bytes of a page, row or query result; `~cell` has a value whole."""
    cell: ByteSize = ByteSize(64 * 1024)
    """Maximum characters of one value in a row; `~cell` has a longer value whole."""
    timeout: Duration = Duration(2)
    """Timeout of a page or row."""
    query_timeout: Duration = Duration(10)
    """Timeout of a declared query."""

    option_checks: ClassVar[OptionChecks] = {
        "timeout": _check_timeout,
        "query_timeout": _check_timeout,
    }

    def __post_init__(self) -> None:
        check_options(self)

    def exceeded(
        self, option: Literal["timeout", "query_timeout"], help: str = ""
    ) -> DeadlineExceeded:
        """Return the error of a statement that has taken longer than an option says."""
        return DeadlineExceeded.of_option(f"limits.{option}", getattr(self, option), help)
