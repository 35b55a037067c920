"""Exposed tables: reflected, reduced to what the manifest exposes, with their statements."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.database.addressing import key_codec
from resource_server.providers.database.engines.contract import (
    Engine,
    Rows,
    Statement,
    UnfitParameter,
)
from resource_server.providers.database.engines.reflection import (
    Column,
    Table,
    TableInfo,
    TableName,
)
from resource_server.providers.database.formats import values
from resource_server.providers.database.options import ReadLimits, TableOptions
from resource_server.providers.database.policy import Policy, TableView
from resource_server.runtime.eager import settle
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

if TYPE_CHECKING:
    from resource_server.providers.database.reading.statements import Statements

MAX_KEPT = 1024
"""Maximum number of tables whose reflection is cached."""

_CHANGE_MARK_S = 0.5
"""Timeout of a change mark; a slower one is no cheaper than reading the rows."""

_NO_LIMIT = 2**62
_UNTYPED = Column("", "", "any")


class ExposedTable:
    """One exposed table or view in one state of the schema."""

    def __init__(
        self, view: TableView, engine: Engine, limits: ReadLimits, change: str | None = None
    ) -> None:
        # Imported here: SQLAlchemy takes 100 ms to import, and a schema is read without it.
        from resource_server.providers.database.reading.statements import Statements

        self.view = view
        self._engine = engine
        self._limits = limits
        self._is_slow = not _is_quick(view)
        self.table: Table = view.table
        self.options: TableOptions = view.options
        self.change = change
        """The column of `change` in the manifest; may be hidden."""
        self.column_names: tuple[str, ...] = self.table.column_names
        self.columns: dict[str, Column] = {column.name: column for column in self.table.columns}
        self.key: tuple[Column, ...] = tuple(
            self.columns.get(name, _ROWID) for name in self.table.key
        )
        self.fingerprint = version_of(
            [(c.name, c.type, c.kind) for c in self.table.columns] + [self.table.key]
        )
        self.statements: Statements = Statements(
            engine.dialect, self.table, self.column_names, self.options.where
        )
        self._key_places = self._places(self.column_names)
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

    async def fetch(self, statement: Statement, limit: int) -> Rows:
        """Run one of its statements within the page timeout. Raises as `Engine.fetch`."""
        return await self._engine.fetch(
            statement, limit=limit, within=self._limits.timeout, slow=self._is_slow
        )

    async def fetch_by_key(self, statement: Statement, limit: int) -> Rows:
        """Run a statement that binds a key from a path, as `fetch`.

        Raises:
            ResourceNotFound: the key does not fit the types of its columns.
        """
        try:
            return await self.fetch(statement, limit)
        except UnfitParameter:
            raise ResourceNotFound from None

    async def page(
        self,
        limit: int,
        *,
        after: Sequence[object] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Rows:
        """Return rows as `Statements.page`, followed at the end by rows with NULL in their key.

        Rows with NULL in their key have no order, so no page can start after one of them. They
        all come in one page; if they do not fit, `more` is set.
        """
        rows = await self.fetch(self.statements.page(limit, after=after, columns=columns), limit)
        room = limit - len(rows.rows)
        statement = self.statements.without_key(room, columns=columns)
        if rows.more or room == 0 or statement is None:
            return rows
        others = await self.fetch(statement, room)
        if rows.rows and len(others.rows) == room:
            return Rows(rows.columns, rows.rows, more=True)
        return Rows(others.columns, [*rows.rows, *others.rows], others.more)

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
        places = self._key_places if columns is None else self._places(columns)
        return tuple([row[place] for place in places])

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
        Raises as `Engine.fetch`.
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
        return await self._engine.fetch(statement, limit=limit, within=within, slow=True)

    async def mark(self) -> object | None:
        """Return a value that differs after a change of rows, or None without a `change` column.

        Raises as `Engine.fetch`.
        """
        if self.change is None:
            return None
        found = await self._engine.fetch(
            self.statements.greatest(self.change), limit=1, within=_CHANGE_MARK_S, slow=True
        )
        return found.rows[0]

    def key_of(self, segments: Path) -> tuple[object, ...]:
        """Return the bindable values of a key, or of its first columns, from path segments.

        Raises:
            ResourceNotFound: no key is spelled this way.
        """
        columns = self.key[: len(segments)]
        values = [key_codec.decode_key(*pair) for pair in zip(segments, columns, strict=False)]
        if self._engine.name != "sqlite" and not all(map(key_codec.fits_column, values, columns)):
            raise ResourceNotFound
        return self.bound(values)

    def bound(self, key: Sequence[object]) -> tuple[object, ...]:
        """Return decoded key values in the form that the engine binds."""
        if self._engine.name != "sqlite":
            return tuple(key)
        return tuple(map(key_codec.storage_value, key))

    def segments(self, key: Sequence[object]) -> Path:
        """Return the canonical segments of a key from the driver.

        Raises:
            ValueError: the key cannot be addressed.
        """
        return tuple(
            [
                key_codec.encode_key(value, column)
                for value, column in zip(key, self.key, strict=True)
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


_ROWID = Column("rowid", "INTEGER", "integer", nullable=False)


class ExposedTableCache:
    """The exposed tables of one database, reflected on first use and cached."""

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        limits: ReadLimits,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._schema_cache_s = timing.schema_cache_s
        self._engine = engine
        self._limits = limits
        self._policy = policy
        self._known: OrderedDict[TableName, ExposedTable] = OrderedDict()
        self._infos: Sequence[TableInfo] | None = None
        self._state: object = None
        self._fresh_until = 0.0
        self._checking = asyncio.Lock()

    async def infos(self) -> Sequence[TableInfo]:
        """Return every exposed table, in the order of the engine."""
        await self._refresh()
        if self._infos is None:
            state = self._state
            every = await settle(self._engine.tables())
            infos = [info for info in every if self._policy.of(info.name) is not None]
            if self._state is not state:
                return infos  # possibly of an earlier schema: not cached
            self._infos = infos
        return self._infos

    def options(self, name: TableName) -> TableOptions:
        """Return the manifest's options for an exposed table."""
        return self._policy.of(name) or TableOptions()

    async def get(self, name: TableName) -> ExposedTable:
        """Return an exposed table.

        Raises:
            ResourceNotFound: there is no such table, or it is not exposed.
        """
        await self._refresh()
        known = self._known.get(name)
        if known is not None:
            self._known.move_to_end(name)
            return known
        if self._policy.of(name) is None:
            raise ResourceNotFound
        state = self._state
        try:
            table = await settle(self._engine.table(name))
        except InvalidParameter:
            # Servers refuse some names: too long, not Unicode, or with illegal characters.
            raise ResourceNotFound from None
        view = self._policy.view(table)
        exposed = ExposedTable(view, self._engine, self._limits, _change(view.options, table))
        if self._state is not state:
            return exposed  # possibly of an earlier schema: not cached
        self._known[name] = exposed
        if len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)
        return exposed

    async def _refresh(self) -> None:
        """Drop the caches if the schema has changed."""
        if time.monotonic() >= self._fresh_until:
            await settle(self._check_schema())

    async def _check_schema(self) -> None:
        async with self._checking:
            if time.monotonic() < self._fresh_until:
                return
            state = await self._engine.schema_state()
            if state != self._state:
                self._state = state
                self._known.clear()
                self._infos = None
            self._fresh_until = time.monotonic() + self._schema_cache_s

    async def state(self) -> object:
        """Check the schema now and return its state, which differs after a change."""
        self._fresh_until = 0.0
        await self._refresh()
        return self._state
