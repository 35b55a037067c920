"""Exposed tables: reflected, reduced to what the manifest exposes, with their statements."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice, product
from typing import TYPE_CHECKING, NamedTuple, NoReturn
from weakref import WeakValueDictionary

import msgspec

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    ResourceNotFound,
    ResourceServerError,
    ResourceUnreadable,
)
from resource_server.provider import Path
from resource_server.providers.database.addressing.key_types import (
    Direction,
    KeyType,
    comes_after,
    follows,
)
from resource_server.providers.database.addressing.page_cursor import (
    decode_cursor,
    decode_position,
    encode_cursor,
    encode_row_count,
)
from resource_server.providers.database.engines.causes import UNFIT
from resource_server.providers.database.engines.contract import (
    Engine,
    Rows,
    Statement,
    UnfitParameter,
    ViewReads,
)
from resource_server.providers.database.engines.reflection import (
    VIEWS,
    Column,
    Table,
    TableInfo,
    TableName,
    WordIndex,
)
from resource_server.providers.database.formats import values
from resource_server.providers.database.options import ReadLimits, TableOptions, ViewMode
from resource_server.providers.database.policy import Policy, TableView
from resource_server.providers.database.reading.selection import EVERYTHING, Order, Selection
from resource_server.providers.database.unprotected_tables import unprotected_tables
from resource_server.runtime.eager import settle
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

if TYPE_CHECKING:
    from resource_server.providers.database.reading.statements import Statements
    from resource_server.providers.database.reading.summary import Aggregate

MAX_KEPT = 1024
"""Maximum number of tables whose reflection is cached."""

_log = logging.getLogger(__name__)

_SORT_RETRY_S = 60.0
"""Time after which rows that took too long to sort are sorted again."""
_CHANGE_MARK_S = 0.5
"""Timeout of a change mark; a slower one is no cheaper than reading the rows."""

_EXAMINED = (*VIEWS, "virtual table")
"""Types of tables that may show columns of others: a vocabulary has the words of its text."""
_NO_LIMIT = 2**62
_MAX_READINGS = 64
"""Maximum keys that one address may mean."""
_UNTYPED = Column("", "", "any")


class TablePage(NamedTuple):
    """Rows of a table: first those with a key, in its order, then those without one."""

    rows: Rows
    keyed: int
    """Number of rows with a key."""
    skipped: int = 0
    """Rows without a key on the pages before."""
    can_continue: bool = True
    """Whether another page can follow one of the rows without a key: they are too many to sort if
    not."""


class ExposedTable:
    """One exposed table or view in one state of the schema."""

    def __init__(
        self, view: TableView, engine: Engine, limits: ReadLimits, change: str | None = None
    ) -> None:
        # Imported here: SQLAlchemy takes 100 ms to import, and a schema is read without it.
        if engine.name == "generic":
            from resource_server.providers.database.reading.core_statements import (
                CoreStatements as Statements,
            )
        else:
            from resource_server.providers.database.reading.statements import Statements

        self.view = view
        self._engine = engine
        self._limits = limits
        self.max_text: int = limits.cell
        """Characters of a text that a row shows, and that are searched."""
        self._is_slow = not _is_quick(view)
        self.table: Table = view.table
        self.options: TableOptions = view.options
        self.change = change
        """The column of `change` in the manifest; may be hidden."""
        self.column_names: tuple[str, ...] = self.table.column_names
        self.columns: dict[str, Column] = {column.name: column for column in self.table.columns}
        self.key: tuple[Column, ...] = self.table.key_columns
        self.key_types: tuple[KeyType, ...] = tuple(
            [column.key_type for column in self.key if column.key_type is not None]
        )
        self.fingerprint = version_of(
            [(c.name, c.type, c.kind) for c in self.table.columns]
            + [self.table.key]
            # The order of their pages depends on it.
            + ([view.order_key] if view.masked and not self.table.key else [])
        )
        self.statements: Statements = Statements(
            engine.dialect,
            self.table,
            self.column_names,
            self.options.where,
            masked=view.masked,
            order_key=view.order_key,
        )
        self._unsorted_until = 0.0
        """Until then, rows without a key are not sorted, since it took too long."""
        self._key_places = self._places(self.column_names)
        self._key_ordering = self._ordering_by(())
        self._is_masked = bool(view.masked)
        self.searched: tuple[str, ...] = view.searched(engine.name)
        """The columns that search looks into."""

    @property
    def name(self) -> TableName:
        """The name of the table."""
        return self.table.name

    @property
    def has_rows(self) -> bool:
        """Whether rows may be read."""
        return self.options.rows

    async def run_own(self, statement: Statement, limit: int, *, slow: bool = False) -> Rows:
        """Run one of its statements within the page timeout. Raises as `Engine.run_own`."""
        try:
            return await self._engine.run_own(
                statement, limit=limit, within=self._limits.timeout, slow=slow or self._is_slow
            )
        except ResourceUnreadable as error:
            _log.warning("table %s %s", self.name.name, error)
            raise
        except DeadlineExceeded:
            raise self._limits.exceeded("timeout") from None

    async def fetch_selected(self, statement: Statement, limit: int, selection: Selection) -> Rows:
        """Run a statement with the filters and the order of a client.

        Raises:
            DeadlineExceeded: names the index that would help.
            InvalidParameter: a value does not fit where it is used.
        """
        if selection == EVERYTHING:
            return await self.run_own(statement, limit)
        is_indexed = self._is_indexed(selection)
        try:
            return await self.run_own(statement, limit, slow=not is_indexed)
        except DeadlineExceeded:
            if is_indexed:
                raise
            columns = ", ".join(selection.indexed)
            helpful = f"an index of {self.name.name} on ({columns}) would help"
            raise self._limits.exceeded("timeout", helpful) from None

    def _is_indexed(self, selection: Selection) -> bool:
        """Return whether an index or the key begins with the columns of a selection."""
        wanted = tuple(selection.indexed)
        indexes = [index.columns for index in self.table.indexes if not index.partial]
        return any(each[: len(wanted)] == wanted for each in (self.table.key, *indexes))

    async def fetch_by_key(self, statement: Statement, limit: int) -> Rows:
        """Run a statement that binds a key from a path, as `run_own`.

        Raises:
            ResourceNotFound: the key does not fit the types of its columns.
        """
        try:
            return await self.run_own(statement, limit)
        except UnfitParameter:
            raise ResourceNotFound from None

    async def page(
        self,
        limit: int,
        *,
        after: Sequence[object] | int | None = None,
        columns: Sequence[str] | None = None,
        selection: Selection = EVERYTHING,
    ) -> TablePage:
        """Return rows in the order of their key, followed by those without one.

        `after` is a position, as decoded from a cursor. With an order, all rows are in this order.
        """
        wanted = (columns, selection)
        if isinstance(after, int):
            return await self._without_key([], limit, skip=after, wanted=wanted)
        if not self.key or (selection.order and not self.statements.every_row_has_key):
            return await self._without_key([], limit, skip=0, wanted=wanted)
        types, directions = self._ordering(selection)
        bound = None if after is None else _bound(after, types)
        statement = self.statements.page(limit, after=bound, columns=columns, selection=selection)
        rows = await self.fetch_selected(statement, limit, selection)
        if after is not None:
            ends = [
                self.position_of(row, columns, selection)
                for row in (*rows.rows[:1], *rows.rows[-1:])
            ]
            if not all(follows(end, after, types, directions) for end in ends):
                self._refuse_order()
        if rows.more or len(rows.rows) == limit or selection.order:
            return TablePage(rows, len(rows.rows))
        room = limit - len(rows.rows)
        page = await self._without_key(rows.rows, room, skip=0, wanted=wanted)
        return page if page.rows.columns else TablePage(rows, len(rows.rows))

    async def page_until(
        self,
        limit: int,
        until: Sequence[object] | int,
        *,
        columns: Sequence[str] | None = None,
        selection: Selection = EVERYTHING,
    ) -> TablePage:
        """Return the last rows up to a position, with the row there, in the order of `page`."""
        wanted = (columns, selection)
        has_keys = bool(self.key) and (not selection.order or self.statements.every_row_has_key)
        last, bound = TablePage(Rows((), ()), 0), None
        types, directions = self._ordering(selection, is_backward=True)
        if isinstance(until, int) or not has_keys:
            passed = until if isinstance(until, int) else limit
            skip = max(0, passed - limit)
            last = await self._without_key([], passed - skip, skip=skip, wanted=wanted)
            limit -= len(last.rows.rows)
            if skip or not has_keys or selection.order or limit <= 0:
                return last
        else:
            bound = _bound(until, types)
        statement = self.statements.page(
            limit, after=bound, columns=columns, selection=selection, is_backward=True
        )
        rows = await self.fetch_selected(statement, limit, selection)
        if not isinstance(until, int):
            for row in (*rows.rows[:1], *rows.rows[-1:]):
                end = self.position_of(row, columns, selection)
                is_before = follows(until, end, types, directions)
                if is_before and not follows(end, until, types, directions):
                    self._refuse_order()
        keyed = rows.rows[::-1]
        return TablePage(
            Rows(rows.columns or last.rows.columns, [*keyed, *last.rows.rows], rows.more),
            len(keyed),
            last.skipped,
            last.can_continue,
        )

    async def _without_key(
        self,
        before: Sequence[tuple[object, ...]],
        limit: int,
        *,
        skip: int,
        wanted: tuple[Sequence[str] | None, Selection],
    ) -> TablePage:
        """Return rows that have no key, after the rows `before`; all rows if there is an order."""
        columns, selection = wanted
        ordered = self.statements.without_key(
            limit, skip=skip, is_ordered=True, columns=columns, selection=selection
        )
        if ordered is None:
            return TablePage(Rows((), before), len(before))
        found: Rows | None = None
        must_sort = bool(skip or selection.order)
        may_sort = self.statements.orders_every_row and time.monotonic() >= self._unsorted_until
        if must_sort or may_sort:
            try:
                found = await self.fetch_selected(ordered, limit, selection)
            except (DeadlineExceeded, InvalidParameter):
                if must_sort:
                    raise
                self._unsorted_until = time.monotonic() + _SORT_RETRY_S
        can_continue = found is not None
        if found is None:
            first = self.statements.without_key(limit, columns=columns, selection=selection)
            found = await self.fetch_selected(first or ordered, limit, selection)
        rows = Rows(found.columns, [*before, *found.rows], found.more)
        return TablePage(rows, len(before), skip, can_continue)

    async def summary(
        self,
        by: Sequence[str],
        aggregates: Sequence[Aggregate],
        limit: int,
        *,
        skip: int,
        selection: Selection,
    ) -> Rows:
        """Return groups of rows, as `Statements.summary`. Raises as `fetch_selected`."""
        statement = self.statements.summary(by, aggregates, limit, skip=skip, selection=selection)
        try:
            return await self.fetch_selected(statement, limit, selection)
        except UnfitParameter:
            if not any(each.function in ("sum", "avg") for each in aggregates):
                raise
            raise InvalidParameter("a sum is larger than the database can compute") from None
        except ResourceNotFound as error:
            # Such as a sum beyond 64 bits in SQLite.
            is_there = isinstance(error, ResourceUnreadable)
            why = str(error).removeprefix("cannot be read") if is_there else ""
            raise InvalidParameter(f"the database cannot compute this summary{why}") from None

    def _ordering(
        self, selection: Selection, *, is_backward: bool = False
    ) -> tuple[Sequence[KeyType], Sequence[Direction]]:
        """Return the types and directions of a position in the order of a selection."""
        if not selection.order and not is_backward:
            return self._key_ordering
        return self._ordering_by(selection.order, is_backward=is_backward)

    def _ordering_by(
        self, order: Sequence[Order], *, is_backward: bool = False
    ) -> tuple[Sequence[KeyType], Sequence[Direction]]:
        terms = self.statements.terms(order, is_backward=is_backward)
        by_name = {column.name: column for column in (*self.table.columns, *self.key)}
        found = [(by_name[term.column].key_type, term) for term in terms]
        types = [type for type, _ in found if type is not None]
        return types, [Direction(term.is_descending, term.nulls_first) for _, term in found]

    def position_of(
        self, row: tuple[object, ...], columns: Sequence[str] | None, selection: Selection
    ) -> tuple[object, ...]:
        """Return the position of a fetched row: the values of the order, then of the key."""
        if not selection.order:
            return self.key_in(row, columns)
        names = self.column_names if columns is None else columns
        selected = self.statements.selected(names, selection.order)
        terms = self.statements.terms(selection.order)
        return tuple([row[selected.index(term.column)] for term in terms])

    def split(self, rows: Rows) -> tuple[Sequence[tuple[object, ...]], list[tuple[object, ...]]]:
        """Split rows of all columns into their visible values, masked, and their keys."""
        return self.shown(rows), [self.key_in(row) for row in rows.rows]

    def shown(
        self, rows: Rows, columns: Sequence[str] | None = None
    ) -> Sequence[tuple[object, ...]]:
        """Return the values of `columns` (default: all), masked."""
        names = self.column_names if columns is None else tuple(columns)
        width = len(names)
        given = rows.rows
        if len(rows.columns) > width:
            given = [row[:width] for row in given]
        return self.view.mask(given, names) if self._is_masked else given

    def key_in(
        self, row: tuple[object, ...], columns: Sequence[str] | None = None
    ) -> tuple[object, ...]:
        """Return the key of a fetched row; `columns` as in `shown`."""
        places = self._key_places
        if columns is not None and columns is not self.column_names:
            places = self._places(columns)
        return tuple([row[place] for place in places])

    def check_progress(
        self, after: Sequence[object], keys: Iterable[Sequence[object]], *, place: int = 0
    ) -> None:
        """Check that the first and last key of a page come after the key that the page follows.

        All are the values of the key's columns from `place` on.

        Raises:
            InvalidParameter: it does not, so the pages would have no end.
        """
        types = self.key_types[place : place + len(after)]
        if not all(comes_after(key, after, types) for key in keys):
            self._refuse_order()

    def _refuse_order(self) -> NoReturn:
        _log.warning("the rows of table %s are not in the order of their pages", self.name.name)
        raise InvalidParameter(
            "the next page does not come after this one: the database orders the rows of this"
            " table otherwise; read the table in one page"
        )

    def cursor_after(self, key: Sequence[object]) -> str:
        """Return the cursor of the page after a key.

        Raises:
            ValueError: the key has NULL, or is too long.
        """
        return encode_cursor(key, self.key_types, fingerprint=self.fingerprint)

    def cursor_key(self, cursor: str) -> tuple[object, ...]:
        """Return the key in a cursor, in the driver's classes.

        Raises:
            InvalidParameter: not a cursor of this table, or of an earlier schema.
        """
        return decode_cursor(cursor, self.key_types, fingerprint=self.fingerprint)

    def cursor_after_row(
        self,
        page: TablePage,
        count: int,
        columns: Sequence[str] | None,
        selection: Selection = EVERYTHING,
    ) -> str | None:
        """Return the cursor after this many rows of a page; None if no page can follow them."""
        fingerprint = self._fingerprint_in(selection)
        if count > page.keyed:
            passed = page.skipped + count - page.keyed
            return encode_row_count(passed, fingerprint=fingerprint) if page.can_continue else None
        position = self.position_of(page.rows.rows[count - 1], columns, selection)
        types, _ = self._ordering(selection)
        nullable = len(selection.order)
        try:
            return encode_cursor(position, types, fingerprint=fingerprint, nullable=nullable)
        except ValueError:  # such as a key that is too long
            return None

    def position(self, cursor: str, selection: Selection = EVERYTHING) -> tuple[object, ...] | int:
        """Return the position in a cursor: values as of `position_of`, or a number of rows.

        Raises:
            InvalidParameter: not a cursor of this table and order, or of an earlier schema.
        """
        fingerprint = self._fingerprint_in(selection)
        types, _ = self._ordering(selection)
        nullable = len(selection.order)
        return decode_position(cursor, types, fingerprint=fingerprint, nullable=nullable)

    def _fingerprint_in(self, selection: Selection) -> str:
        """Return the fingerprint of cursors in the order of a selection."""
        if not selection.order:
            return self.fingerprint
        return version_of([self.fingerprint, selection.order])

    def _places(self, columns: Sequence[str]) -> Sequence[int]:
        selected = self.statements.selected(columns)
        return [selected.index(column.name) for column in self.key]

    async def texts(
        self,
        limit: int,
        *,
        containing: str | None,
        after: Sequence[object] | None,
        below: Path,
        within: float,
    ) -> Rows:
        """Return keys of rows and the texts of the searched columns, as `Statements.texts`.

        Texts are truncated to the cell limit. Only rows whose keys begin with the segments `below`.
        Raises as `Engine.run_own`.
        """
        statement = self.statements.texts(
            limit,
            self.searched,
            containing=containing,
            max_characters=self._limits.cell,
            after=after,
            within=self.key_of(below),
        )
        within = min(within, self._limits.query_timeout)
        return await self._engine.run_own(statement, limit=limit, within=within, slow=True)

    async def candidates_among_next(
        self,
        count: int,
        limit: int,
        patterns: Sequence[str],
        *,
        has_every: bool,
        after: Sequence[object],
        below: Path,
        within: float,
    ) -> tuple[tuple[object, ...], Rows] | None:
        """Return those of the next `count` rows that may match, and the key of the last of these.

        As `Statements.candidates`. Returns None if there are fewer rows, or more than `limit` may
        match. Raises as `Engine.run_own`.
        """
        deadline = time.monotonic() + within
        prefix = self.key_of(below)
        statement = self.statements.key_at(count - 1, after=after, within=prefix)
        last = await self._engine.run_own(statement, limit=1, within=within, slow=True)
        if not last.rows:
            return None
        rows = await self.candidates(
            limit,
            patterns,
            has_every=has_every,
            after=after,
            until=self.bound(last.rows[0]),
            below=below,
            within=max(deadline - time.monotonic(), 0.0),
        )
        return None if rows.more or len(rows.rows) == limit else (last.rows[0], rows)

    async def candidates(
        self,
        limit: int,
        patterns: Sequence[str],
        *,
        has_every: bool,
        after: Sequence[object] | None,
        below: Path,
        within: float,
        until: Sequence[object] | None = None,
        query: str | None = None,
        index: WordIndex | None = None,
    ) -> Rows:
        """Return the next rows that may match; by a full-text index if there is a query of it.

        As `Statements.candidates`. Raises as `Engine.run_own`.
        """
        statement = self.statements.candidates(
            limit,
            self.searched,
            patterns,
            has_every=has_every,
            max_characters=self._limits.cell,
            after=after,
            until=until,
            query=query,
            index=index,
            within=self.key_of(below),
        )
        return await self._engine.run_own(statement, limit=limit, within=within, slow=True)

    async def row_count(self, within: float) -> int:
        """Return the number of rows. Raises as `Engine.run_own`."""
        statement = self.statements.count()
        found = await self._engine.run_own(statement, limit=1, within=within, slow=True)
        return int(str(found.rows[0][0]))

    async def count(self, *, after: Sequence[object], until: Sequence[object], below: Path) -> int:
        """Return the number of rows from one key to another. Raises as `Engine.run_own`."""
        statement = self.statements.count_between(
            self.bound(after), self.bound(until), within=self.key_of(below)
        )
        (found,) = (await self.run_own(statement, 1, slow=True)).rows[0]
        return int(str(found))

    async def mark(self) -> object | None:
        """Return a value that differs after a change of rows, or None without a `change` column.

        Raises as `Engine.run_own`.
        """
        if self.change is None:
            return None
        found = await self._engine.run_own(
            self.statements.greatest(self.change), limit=1, within=_CHANGE_MARK_S, slow=True
        )
        return found.rows[0]

    def key_of(self, segments: Path) -> tuple[object, ...]:
        """Return the bindable values of a key, or of its first columns, from path segments.

        Raises:
            ResourceNotFound: no key is spelled this way.
        """
        return tuple(
            [
                type.bind(type.decode(segment))
                for type, segment in zip(self.key_types, segments, strict=False)
            ]
        )

    async def row(self, segments: Path) -> Rows:
        """Return the row whose key has these segments, or is shown as they are.

        Raises:
            ResourceNotFound: no row has this key.
        """
        key = self.key_of(segments)
        try:
            found = await self.run_own(self.statements.rows([key]), 1)
        except UnfitParameter:
            raise await self._missing(key) from None
        if not found.rows:
            readings = [
                map(type.bind, type.readings(segment))
                for type, segment in zip(self.key_types, segments, strict=True)
            ]
            if others := [*islice(product(*readings), 1, _MAX_READINGS)]:
                found = await self.fetch_by_key(self.statements.rows(others), 1)
        if not found.rows:
            raise ResourceNotFound
        return found

    async def _missing(self, key: Sequence[object]) -> ResourceNotFound:
        """Return the error of a key that does not fit, unless its row is there and cannot be read.

        A database tells no value of a row from that of a key; so the key is read alone.
        """
        with suppress(ResourceServerError):
            least = self.statements.prefixes(1, within=key[:-1], first=key[-1])
            if [*(await self.run_own(least, 1)).rows] == [(key[-1],)]:
                return ResourceUnreadable(UNFIT.after("cannot be read"))
        return ResourceNotFound()

    def bound(self, key: Sequence[object]) -> tuple[object, ...]:
        """Return a key, or its first values, in the form that the driver binds."""
        return _bound(key, self.key_types)

    def segments(self, key: Sequence[object]) -> Path:
        """Return the canonical segments of a key from the driver.

        Raises:
            ValueError: the key cannot be addressed.
        """
        return tuple([type.segment(value) for type, value in zip(self.key_types, key, strict=True)])

    async def with_key_of_rows(self) -> ExposedTable:
        """Return the table with its first key without NULL in the shown rows.

        SQLite allows NULL in a primary key. Rows with it have no address if there is no other key,
        or if the table cannot be read in time.

        Raises:
            ResourceBusy: the database is locked or overloaded.
        """
        table, options = self.table, self.options
        statement = self.statements.without_key(1, columns=())
        if not self.key or not table.other_keys or statement is None or not self.has_rows:
            return self
        try:
            if not (await self.run_own(statement, 1)).rows:
                return self
        except (DeadlineExceeded, InvalidParameter, ResourceNotFound):
            return self
        view = self.view
        table = table.with_key(table.other_keys)
        other = TableView(table, options, view.maskers, view.order_key)
        return await ExposedTable(other, self._engine, self._limits, self.change).with_key_of_rows()


def _bound(key: Sequence[object], types: Sequence[KeyType]) -> tuple[object, ...]:
    """Return a position in the form that the driver binds."""
    return tuple(
        [
            None if value is None else type.bind(value)
            for type, value in zip(types, key, strict=False)
        ]
    )


def _change(options: TableOptions, table: Table) -> str | None:
    """Return the `change` column of the manifest, as spelled in the database."""
    if options.change is None:
        return None
    written, names = options.change.column, table.column_names
    same = [name for name in names if name.casefold() == written.casefold()]
    if written in names:
        return written
    return same[0] if len(same) == 1 else None


def _is_quick(view: TableView) -> bool:
    """Return whether reads by key are fast: the table has a key and computes nothing."""
    computed = view.options.where or any(column.generated for column in view.table.columns)
    return bool(view.table.key) and view.table.type == "table" and not computed


def version_of(value: object) -> str:
    """Return a digest of a value that was read: a row, rows or a text."""
    try:
        encoded = _encode(value)
    except (UnicodeEncodeError, OverflowError):
        # Text that is not UTF-8, or integers beyond 64 bits.
        encoded = repr(value).encode(errors="backslashreplace")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def _plain(value: object) -> object:
    return values.json_value(value, _UNTYPED, cell=_NO_LIMIT)


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode


class ExposedTableCache:
    """The exposed tables of one database, reflected on first use and cached."""

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        limits: ReadLimits,
        timing: Timing = DEFAULT_TIMING,
        views: ViewMode = "refuse",
    ) -> None:
        self._refuses_views = views == "refuse" and policy.is_restricting
        self._names = frozenset[TableName]()
        """The tables that were examined, if the policy has rules."""
        self.is_reporting = True
        """Whether tables that become unprotected are logged."""
        self._schema_cache_s = timing.schema_cache_s
        self._engine = engine
        self._limits = limits
        self._policy = policy
        self._known: OrderedDict[TableName, ExposedTable] = OrderedDict()
        self.variation_observers: set[Callable[[], None]] = set()
        """Called when other tables are returned by `infos` than before."""
        self._given: Sequence[TableInfo] | None = None
        """The exposed tables as last returned; None until then."""
        self._has_varied = False
        self._infos: Sequence[TableInfo] | None = None
        self._state: object = None
        self._fresh_until = 0.0
        self._checking = WeakValueDictionary[TableName | None, asyncio.Lock]()

    async def infos(self) -> Sequence[TableInfo]:
        """Return every exposed table, in the order of the engine."""
        await self._refresh()
        if self._infos is None:
            state = self._state
            every = await settle(self._engine.tables())
            infos = [info for info in every if self._policy.of(info.name) is not None]
            if self._state is not state:
                return self._noted(infos)  # possibly of an earlier schema: not cached
            self._infos = infos
        return self._noted(self._infos)

    def _noted(self, infos: Sequence[TableInfo]) -> Sequence[TableInfo]:
        before, self._given = self._given, infos
        if before is not None and before is not infos and before != infos:
            self._has_varied = True
            for observe in self.variation_observers:
                observe()
        return infos

    @property
    def known(self) -> Collection[TableName]:
        """The exposed tables that were read or listed lately."""
        return {*self._known, *(info.name for info in self._given or ())}

    def take_variation(self) -> bool:
        """Return whether `infos` has varied since the last call: a listing may be out of date."""
        has_varied, self._has_varied = self._has_varied, False
        return has_varied

    def options(self, name: TableName) -> TableOptions:
        """Return the manifest's options for an exposed table."""
        return self._policy.of(name) or TableOptions()

    async def get(self, name: TableName) -> ExposedTable:
        """Return an exposed table.

        Raises:
            ResourceNotFound: there is no such table, or it is not exposed.
        """
        await self._refresh(name)
        known = self._known.get(name)
        if known is not None:
            self._known.move_to_end(name)
            return known
        if self._policy.has_rules and name not in self._names:
            await self.state()  # a new table
        if self._policy.of(name) is None:
            raise ResourceNotFound
        state = self._state
        try:
            table = await settle(self._engine.table(name))
        except InvalidParameter:
            # Servers refuse some names: too long, not Unicode, or with illegal characters.
            raise ResourceNotFound from None
        if self._policy.lacking(table) is not None:
            raise ResourceNotFound  # altered since the last check of the schema
        others = self._policy.read_by_claims(name, self._names)
        named = [await settle(self._engine.table(each)) for each in others]
        view = self._policy.view(table, named)
        exposed = ExposedTable(view, self._engine, self._limits, _change(view.options, table))
        exposed = await settle(exposed.with_key_of_rows())
        if self._state is not state:
            return exposed  # possibly of an earlier schema: not cached
        self._known[name] = exposed
        if len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)
        return exposed

    async def _refresh(self, name: TableName | None = None) -> None:
        """Drop the caches if the schema has changed, at least that of a table."""
        if time.monotonic() >= self._fresh_until:
            await settle(self._check_schema(name))

    async def _check_schema(self, name: TableName | None) -> None:
        # A table whose file is being read again keeps no other waiting.
        async with self._checking.setdefault(name, asyncio.Lock()):
            if time.monotonic() < self._fresh_until:
                return
            state = await self._engine.schema_state(name)
            if state != self._state:
                if self._policy.has_rules:
                    await self._examine()
                self._state = state
                self._known.clear()
                self._infos = None
            self._fresh_until = time.monotonic() + self._schema_cache_s

    async def _examine(self) -> None:
        """Hide the tables that the rules do not protect, and views that show hidden columns."""
        every = await settle(self._engine.tables())
        before = self._policy.unprotected
        found = await unprotected_tables(self._engine, self._policy, [i.name for i in every])
        self._policy.unprotected = found
        # At the start, the mount reports what is wrong.
        if self._state is not None and self.is_reporting:
            for problem in dict.fromkeys(found[name] for name in found if name not in before):
                _log.warning("%s: %s", problem.option, problem.message)
        if self._refuses_views:
            # Views of no hidden column are served, whatever rows they show; copies are not.
            shows = self._policy.hides_columns or self._policy.claims
            types = _EXAMINED if shows else _EXAMINED[-1:]
            views = [info for info in every if info.type in types]
            reads: Mapping[TableName, ViewReads] = {}
            if views:
                reads = await self._engine.view_reads([info.name for info in views])
            self._policy.refuse_views({info.name: info.type for info in views}, reads)
        self._names = frozenset([info.name for info in every])

    @property
    def known_state(self) -> object:
        """The state of the schema when it was last checked; None before."""
        return self._state

    async def state(self) -> object:
        """Check the schema now and return its state, which differs after a change."""
        self._fresh_until = 0.0
        await self._refresh()
        return self._state
