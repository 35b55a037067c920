"""A table as it may be seen: reflected, cut to what the manifest shows, with its statements."""

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
from resource_server.providers.database.policy.policy import Policy, TableView
from resource_server.runtime.eager import settle

if TYPE_CHECKING:
    from resource_server.providers.database.reading.statements import Statements

MAX_KEPT = 1024
"""Tables whose reflection is kept."""
_BELIEVED_S = 1.0
"""So long a schema is taken to be as it was."""

_MARK_S = 0.5
"""What takes longer is no cheaper than to look at the rows."""

_NO_LIMIT = 2**62
_UNTYPED = Column("", "", "any")


class ExposedTable:
    """One exposed table or view, of one state of the schema."""

    def __init__(
        self, view: TableView, engine: Engine, limits: ReadLimits, change: str | None = None
    ) -> None:
        # Imported here: SQLAlchemy takes a tenth of a second, and a schema can be read without.
        from resource_server.providers.database.reading.statements import Statements

        self.view = view
        self._engine = engine
        self._limits = limits
        self._is_slow = not _is_quick(view)
        self.table: Table = view.table
        self.options: TableOptions = view.options
        self.change = change
        """The column that tells of changes, which may be hidden."""
        self.columns: dict[str, Column] = {column.name: column for column in self.table.columns}
        self.key: tuple[Column, ...] = tuple(
            self.columns.get(name, _ROWID) for name in self.table.key
        )
        self.fingerprint = version_of(
            [(c.name, c.type, c.kind) for c in self.table.columns] + [self.table.key]
        )
        self.statements: Statements = Statements(
            engine.dialect, self.table, self.table.column_names, self.options.where
        )
        self._key_places = self._places(self.table.column_names)
        self.searched: tuple[str, ...] = view.searched(engine.name)
        """The columns by whose values rows are found."""

    @property
    def name(self) -> TableName:
        """The name of the table."""
        return self.table.name

    @property
    def has_rows(self) -> bool:
        """Whether rows may be read."""
        return self.options.rows

    async def fetch(self, statement: Statement, limit: int) -> Rows:
        """Run one of its statements, within the time of a page. Raises as `Engine.fetch`."""
        return await self._engine.fetch(
            statement, limit=limit, within=self._limits.timeout, slow=self._is_slow
        )

    async def fetch_by_key(self, statement: Statement, limit: int) -> Rows:
        """Run a statement that binds a key of a path, as `fetch`.

        Raises:
            ResourceNotFound: no row has it, for it does not fit its columns.
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
        """Return rows as `Statements.page` and, behind the last, those that have NULL in their key.

        These are in no order and nothing comes after one of them, so they come all at once: where
        they do not fit behind the others, there is `more`.
        """
        rows = await self.fetch(self.statements.page(limit, after=after, columns=columns), limit)
        room = limit - len(rows.rows)
        statement = self.statements.without_key(room, columns=columns)
        if rows.more or room == 0 or statement is None:
            return rows
        others = await self.fetch(statement, room)
        if rows.rows and len(others.rows) == room:
            return rows._replace(more=True)
        return others._replace(rows=[*rows.rows, *others.rows])

    def split(self, rows: Rows) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
        """Take rows of all columns apart: what is shown, masked, and their keys."""
        return self.shown(rows), [self.key_in(row) for row in rows.rows]

    def shown(self, rows: Rows, columns: Sequence[str] | None = None) -> list[tuple[object, ...]]:
        """Return the columns that were asked for, by default all, masked."""
        names = self.table.column_names if columns is None else tuple(columns)
        width = len(names)
        given = rows.rows
        if len(rows.columns) > width:
            given = [row[:width] for row in given]
        return self.view.mask(given, names)

    def key_in(
        self, row: tuple[object, ...], columns: Sequence[str] | None = None
    ) -> tuple[object, ...]:
        """Return the key in a row as it was fetched, with `columns` as in `shown`."""
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
        """Return keys of rows and the texts of what is searched, as `Statements.texts` has them.

        As much of each as a row shows; of rows whose keys begin with the segments `below`. Raises
        as `Engine.fetch`.
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
        """Return what differs after a change of its rows; None where no column tells.

        Raises: as `Engine.fetch`.
        """
        if self.change is None:
            return None
        found = await self._engine.fetch(
            self.statements.greatest(self.change), limit=1, within=_MARK_S, slow=True
        )
        return found.rows[0]

    def key_of(self, segments: Path) -> tuple[object, ...]:
        """Return what segments of a key, or of its first columns, mean, as the engine takes it.

        Raises:
            ResourceNotFound: no key is written so.
        """
        columns = self.key[: len(segments)]
        values = [key_codec.decode_key(*pair) for pair in zip(segments, columns, strict=False)]
        if self._engine.name != "sqlite" and not all(map(key_codec.fits_column, values, columns)):
            raise ResourceNotFound
        return self.bound(values)

    def bound(self, key: Sequence[object]) -> tuple[object, ...]:
        """Return decoded values of a key as the engine takes them."""
        if self._engine.name != "sqlite":
            return tuple(key)
        return tuple(map(key_codec.storage_value, key))

    def segments(self, key: Sequence[object]) -> Path:
        """Return the canonical segments of a key as the driver gave it.

        Raises:
            ValueError: it cannot be addressed.
        """
        return tuple(
            [
                key_codec.encode_key(value, column)
                for value, column in zip(key, self.key, strict=True)
            ]
        )


def _change(options: TableOptions, table: Table) -> str | None:
    """Return the column that tells of changes, as it is spelt in the database."""
    if options.change is None:
        return None
    written, names = options.change.column, table.column_names
    same = [name for name in names if name.casefold() == written.casefold()]
    if written in names:
        return written
    return same[0] if len(same) == 1 else None


def _is_quick(view: TableView) -> bool:
    """Tell whether rows by their key take no time: there is one, and nothing is computed."""
    computed = view.options.where or any(column.generated for column in view.table.columns)
    return bool(view.table.key) and view.table.type == "table" and not computed


def version_of(value: object) -> str:
    """Return what differs when a row, or whatever else was read, is something else."""
    try:
        encoded = _encode(value)
    except (UnicodeEncodeError, OverflowError):
        # Text that is not UTF-8, integers beyond 64 bit.
        encoded = repr(value).encode(errors="backslashreplace")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def _plain(value: object) -> object:
    return values.json_value(value, _UNTYPED, cell=_NO_LIMIT)


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode


_ROWID = Column("rowid", "INTEGER", "integer", nullable=False)


class ExposedTables:
    """The exposed tables of one database, reflected when they are asked for."""

    def __init__(self, engine: Engine, policy: Policy, limits: ReadLimits) -> None:
        self._engine = engine
        self._limits = limits
        self._policy = policy
        self._known: OrderedDict[TableName, ExposedTable] = OrderedDict()
        self._infos: Sequence[TableInfo] | None = None
        self._state: object = None
        self._believed_until = 0.0
        self._checking = asyncio.Lock()

    async def infos(self) -> Sequence[TableInfo]:
        """Return what is exposed, in the order of the engine."""
        await self._refresh()
        if self._infos is None:
            state = self._state
            every = await settle(self._engine.tables())
            infos = [info for info in every if self._policy.of(info.name) is not None]
            if self._state is not state:
                return infos  # perhaps as they were before: not to be kept
            self._infos = infos
        return self._infos

    def options(self, name: TableName) -> TableOptions:
        """Return what the manifest says of an exposed table."""
        return self._policy.of(name) or TableOptions()

    async def get(self, name: TableName) -> ExposedTable:
        """Return a table.

        Raises:
            ResourceNotFound: there is none, or it is not exposed.
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
            # Servers take not every text for a name: too long, no Unicode, of other characters.
            raise ResourceNotFound from None
        view = self._policy.view(table)
        exposed = ExposedTable(view, self._engine, self._limits, _change(view.options, table))
        if self._state is not state:
            return exposed  # perhaps as it was before: not to be kept
        self._known[name] = exposed
        if len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)
        return exposed

    async def _refresh(self) -> None:
        """Forget everything if the schema is another one."""
        if time.monotonic() >= self._believed_until:
            await settle(self._look())

    async def _look(self) -> None:
        async with self._checking:
            if time.monotonic() < self._believed_until:
                return
            state = await self._engine.schema_state()
            if state != self._state:
                self._state = state
                self._known.clear()
                self._infos = None
            self._believed_until = time.monotonic() + _BELIEVED_S

    async def state(self) -> object:
        """Look at the schema now; return what differs when it is another one."""
        self._believed_until = 0.0
        await self._refresh()
        return self._state
