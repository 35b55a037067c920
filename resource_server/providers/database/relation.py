"""A table as it may be seen: reflected, cut to what the manifest shows, with its statements."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from resource_server.errors import ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.database import keys, values
from resource_server.providers.database.engine import Engine, Lane, Rows, Statement
from resource_server.providers.database.options import Limits, TableOptions
from resource_server.providers.database.policy import Policy, View
from resource_server.providers.database.table import Column, Table, TableInfo, TableName

if TYPE_CHECKING:
    from resource_server.providers.database.statements import Statements

MAX_KEPT = 1024
"""Tables whose reflection is kept."""
_BELIEVED_S = 1.0
"""So long a schema is taken to be as it was."""

_NO_LIMIT = 2**62
_UNTYPED = Column("", "", "any")


class Relation:
    """One exposed table or view, of one state of the schema."""

    def __init__(self, view: View, engine: Engine, limits: Limits) -> None:
        # Imported here: SQLAlchemy takes a tenth of a second, and a schema can be read without.
        from resource_server.providers.database.statements import Statements

        self.view = view
        self._engine = engine
        self._limits = limits
        # What has no key may take long.
        self._lane: Lane = "hot" if view.table.key and view.table.type == "table" else "slow"
        self.table: Table = view.table
        self.options: TableOptions = view.options
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
            statement, limit=limit, within=self._limits.timeout, lane=self._lane
        )

    def split(
        self, rows: Rows, columns: Sequence[str] | None = None
    ) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
        """Take rows as `Statements.page` selects them apart: what is shown, masked, and their keys.

        `columns` are those that were asked for; by default all.
        """
        names = self.table.column_names if columns is None else tuple(columns)
        width = len(names)
        shown = self.view.mask([row[:width] for row in rows.rows], names)
        return shown, [row[width:] for row in rows.rows]

    def key_of(self, segments: Path) -> tuple[object, ...]:
        """Return what segments of a key, or of its first columns, mean, as the engine takes it.

        Raises:
            ResourceNotFound: no key is written so.
        """
        pairs = zip(segments, self.key, strict=False)
        return self.bound([keys.decode(segment, column) for segment, column in pairs])

    def bound(self, key: Sequence[object]) -> tuple[object, ...]:
        """Return decoded values of a key as the engine takes them."""
        if self._engine.name != "sqlite":
            return tuple(key)
        return tuple(map(keys.storage_value, key))

    def segments(self, key: Sequence[object]) -> Path:
        """Return the canonical segments of a key as the driver gave it.

        Raises:
            ValueError: it cannot be addressed.
        """
        return tuple(
            [keys.encode(value, column) for value, column in zip(key, self.key, strict=True)]
        )


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


class Relations:
    """The exposed tables of one database, reflected when they are asked for."""

    def __init__(self, engine: Engine, policy: Policy, limits: Limits) -> None:
        self._engine = engine
        self._limits = limits
        self._policy = policy
        self._known: OrderedDict[TableName, Relation] = OrderedDict()
        self._infos: Sequence[TableInfo] | None = None
        self._state: object = None
        self._believed_until = 0.0
        self._checking = asyncio.Lock()

    async def infos(self) -> Sequence[TableInfo]:
        """Return what is exposed, in the order of the engine."""
        await self._refresh()
        if self._infos is None:
            every = await self._engine.tables()
            self._infos = [info for info in every if self._policy.of(info.name) is not None]
        return self._infos

    def options(self, name: TableName) -> TableOptions:
        """Return what the manifest says of an exposed table."""
        return self._policy.of(name) or TableOptions()

    async def get(self, name: TableName) -> Relation:
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
        view = self._policy.view(await self._engine.table(name))
        relation = Relation(view, self._engine, self._limits)
        self._known[name] = relation
        if len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)
        return relation

    async def _refresh(self) -> None:
        """Forget everything if the schema is another one."""
        if time.monotonic() < self._believed_until:
            return
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
