"""From commits to changes: whether anything was committed, and which rows that concerns.

A commit of whatever only opens the gate. Rows that somebody subscribes to are then read again,
those of one table by one statement, and told of where they differ; everything else that is
subscribed to is suggested to the server, which compares. A table whose manifest names a column for
it (`change`) is passed over as long as that has not moved. While nobody is interested nothing is
asked of the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TypeAlias

from resource_server.errors import MountUnavailable, ResourceError, ResourceNotFound
from resource_server.provider import Change, Interest, Path
from resource_server.providers.database.addressing.address import (
    CellAddress,
    PageAddress,
    RowAddress,
    TableAddress,
    address_path,
)
from resource_server.providers.database.engines.contract import Engine
from resource_server.providers.database.engines.reflection import TableInfo, TableName
from resource_server.providers.database.reading.exposed_table import (
    ExposedTable,
    ExposedTables,
    version_of,
)
from resource_server.providers.database.reading.tree import DatabaseTree

_ROWS_AT_ONCE = 500
_AGAIN_S = 0.05
"""After so long it is looked again at a database that was busy."""
_AWAY_S = 5.0
"""And at one that was not there, unless it is noticed sooner that it is back."""

_OfRows: TypeAlias = TableAddress | PageAddress | RowAddress | CellAddress
"""What shows rows of one table."""


class ChangeDetector:
    """The watch over one database, for as long as `changes` is iterated."""

    def __init__(self, engine: Engine, exposed_tables: ExposedTables, tree: DatabaseTree) -> None:
        self._engine = engine
        self._exposed = exposed_tables
        self._tree = tree
        self._versions: dict[Path, str | None] = {}
        """Of rows subscribed to, as seen last, here or by the server; None where there was none."""
        self._marks: dict[TableName, object] = {}
        """Of tables with a column that tells of changes, as of the last commit that was told."""
        self._asked: set[Path] = set()
        """Paths that came, and have not been suggested since."""
        self._has_committed = False
        self._is_armed = False
        self._news = asyncio.Event()
        self._gate: asyncio.Task[None] | None = None
        self._state: object = None
        """Of the schema, as last seen."""
        self._infos: Sequence[TableInfo] = ()
        """What is shown of that."""
        self._ending: set[asyncio.Task[None]] = set()

    async def changes(self, interest: Interest) -> AsyncGenerator[Change]:
        """Yield what may have changed, as `SupportsWatch.changes`."""
        following = asyncio.create_task(self._follow(interest))
        self._tree.observers.add(self._described)
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                await self._open_gate(wanted=bool(interest.paths) or interest.listing)
                if not self._is_armed:
                    continue
                if self._has_committed:
                    self._has_committed = False
                    try:
                        async with aclosing(self._committed(set(interest.paths))) as found:
                            async for change in found:
                                yield change
                    except MountUnavailable:
                        self._look_again(_AWAY_S)
                asked, self._asked = self._asked, set()
                for path in asked:
                    yield Change(path)
        finally:
            self._tree.observers.discard(self._described)
            gate, self._gate = self._gate, None
            await self._end(following, gate)

    async def _open_gate(self, *, wanted: bool) -> None:
        """Watch for commits, or no longer; raise what ended the watch if it has ended by itself."""
        if self._gate is not None and (not wanted or self._gate.done()):
            self._is_armed = False
            if wanted:
                self._gate.result()
            await self._end(self._gate)
            # Not before: if the watch ends meanwhile, it waits for this, too.
            self._gate = None
        if wanted and self._gate is None:
            self._gate = asyncio.create_task(self._watch_commits())

    async def _committed(self, paths: Iterable[Path]) -> AsyncGenerator[Change]:
        try:
            state = await self._exposed.state()
            tables = self._infos if state == self._state else await self._exposed.infos()
        except ResourceError:
            self._look_again(_AGAIN_S)  # locked, say
            return
        if state != self._state:
            is_first = self._state is None
            before, self._state, self._infos = self._infos, state, tables
            # Rows of other columns: whatever they were, they are looked at.
            self._versions.clear()
            self._marks.clear()
            # Of tables that are hidden nobody is told, not even that there is something.
            if tables != before and not is_first:
                yield Change((), "tree")
        async with aclosing(self._confirm(paths)) as found:
            async for change in found:
                yield change

    def _look_again(self, seconds: float) -> None:
        """Look later; that something was committed is not forgotten."""
        self._has_committed = True
        asyncio.get_running_loop().call_later(seconds, self._news.set)

    async def _follow(self, interest: Interest) -> None:
        while True:
            came, went = await interest.next()
            for path in went:
                self._versions.pop(path, None)
            self._asked |= came
            self._news.set()

    def _described(self, path: Path, version: str | None) -> None:
        """Look again at a row that the server has seen otherwise: it may have been so for a moment.

        Else what it was before and is afterwards would be the same, and nobody would be told.
        """
        if path in self._versions and self._versions[path] != version:
            self._versions[path] = version
            self._asked.add(path)
            self._news.set()

    async def _watch_commits(self) -> None:
        try:
            async with aclosing(self._engine.commits()) as commits:
                async for _ in commits:
                    self._is_armed = self._has_committed = True
                    self._news.set()
        finally:
            self._news.set()

    async def _end(self, *tasks: asyncio.Task[None] | None) -> None:
        """End tasks of ours. To be cancelled meanwhile is no matter for them."""
        ending = {task for task in tasks if task is not None}
        # A second time would end how a task lets go of its connection. Whether this is the first
        # time `cancelling()` does not tell: it counts a time limit of the task's own, too.
        for task in ending - self._ending:
            self._ending.add(task)
            task.cancel()
        if ending:
            await asyncio.wait(ending)
        self._ending -= ending
        for task in ending:
            if not task.cancelled():
                task.exception()

    async def _confirm(self, paths: Iterable[Path]) -> AsyncGenerator[Change]:
        """Yield changes of rows that differ from what they were, and of everything else."""
        tables: dict[TableName, dict[Path, _OfRows]] = {}
        for path in paths:
            address = None
            with suppress(ResourceNotFound):
                address = self._tree.address(path)
            if isinstance(address, _OfRows):
                tables.setdefault(address.table, {})[path] = address
            else:
                yield Change(path)
        marks, self._marks = self._marks, {}
        for table, subscribed in tables.items():
            # Before its rows: what is committed in between moves the next one.
            mark = await self._mark(table)
            if mark is None or mark != marks.get(table):
                moved = mark is not None and table in marks
                differing = self._differing(table, subscribed, moved=moved)
                async with aclosing(differing) as found:
                    async for change in found:
                        yield change
            # Paths that came since are suggested anyway, whatever it was before.
            if mark is not None:
                self._marks[table] = mark

    async def _mark(self, table: TableName) -> object | None:
        """Return what differs after a change of a table's rows; None where nothing tells."""
        try:
            return await (await self._exposed.get(table)).mark()
        except ResourceError:
            return None

    async def _differing(
        self, table: TableName, subscribed: Mapping[Path, _OfRows], *, moved: bool
    ) -> AsyncGenerator[Change]:
        """Yield changes as `_confirm`; some row is another one for certain if the mark `moved`."""
        exposed = None
        with suppress(ResourceNotFound):
            exposed = await self._exposed.get(table)
        rows: dict[Path, Path] = {}
        for path, address in subscribed.items():
            # Of a key of several columns, a path may name but the first of them.
            if isinstance(address, RowAddress) and not _is_prefix(address, exposed):
                rows[address.key] = path
            elif moved and isinstance(address, TableAddress):
                # Of a child: where there are too many to be compared, this tells of the table.
                yield Change(address_path(PageAddress(table)))
            else:
                yield Change(path)
        try:
            present = await _present(exposed, rows)
        except ResourceError:
            # Locked, say: the server looks at each until it can.
            for path in rows.values():
                self._versions.pop(path, None)
                yield Change(path)
            return
        # A row that is spelt otherwise by now is one of those that are not under their own key.
        astray = not present.keys() <= rows.keys()
        for key, path in rows.items():
            version = present.get(key)
            unsure = (astray and version is None) or path not in self._versions
            if unsure or self._versions[path] != version:
                self._versions[path] = version
                yield Change(path)


def _is_prefix(address: RowAddress, exposed: ExposedTable | None) -> bool:
    return exposed is not None and len(address.key) < len(exposed.key)


async def _present(exposed: ExposedTable | None, wanted: Iterable[Path]) -> Mapping[Path, str]:
    """Return the versions of the rows that there are of a table, by their keys."""
    found: dict[Path, str] = {}
    if exposed is None:
        return found
    bound: list[tuple[object, ...]] = []
    for key in wanted:
        if len(key) == len(exposed.key):
            with suppress(ResourceNotFound):
                bound.append(exposed.key_of(key))
    for start in range(0, len(bound), _ROWS_AT_ONCE):
        some = bound[start : start + _ROWS_AT_ONCE]
        rows = await exposed.fetch(exposed.statements.rows(some), len(some))
        for values, held in zip(*exposed.split(rows), strict=True):
            with suppress(ValueError):
                found[exposed.segments(held)] = version_of(values)
    return found
