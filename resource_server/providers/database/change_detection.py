"""Change detection: turns commits into changes of subscribed rows and documents.

A commit only means that something may have changed. The detector then reads subscribed rows again,
one statement per table, and reports those that differ. All other subscribed paths are reported as
possible changes, for the server to compare. A table with a `change` column is skipped while the
greatest value of that column and the row count stay the same. Without subscriptions the database
gets no queries.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import TypeAlias

from resource_server.errors import MountUnavailable, ResourceError, ResourceNotFound
from resource_server.provider import Change, Interest, Path
from resource_server.providers.database.addressing.address import (
    CellAddress,
    PageAddress,
    RowAddress,
    SummaryAddress,
    TableAddress,
    address_path,
)
from resource_server.providers.database.engines.contract import Engine
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.reading.exposed_table import (
    ExposedTable,
    ExposedTableCache,
    version_of,
)
from resource_server.providers.database.reading.tree import DatabaseTree
from resource_server.runtime.eager import wait_through

_ROWS_AT_ONCE = 500
"""Maximum number of rows compared by one statement."""
_BUSY_RETRY_S = 0.05
"""Delay before another attempt at a busy database; doubles up to `_BUSY_RETRY_MAX_S`."""
_BUSY_RETRY_MAX_S = 1.0
_UNAVAILABLE_RETRY_S = 5.0
"""Delay before another attempt at an unavailable database."""

_OfRows: TypeAlias = TableAddress | PageAddress | SummaryAddress | RowAddress | CellAddress
"""Addresses that show rows of one table."""


class ChangeDetector:
    """Detects the changes of one database while `changes` is iterated."""

    def __init__(
        self, engine: Engine, exposed_tables: ExposedTableCache, tree: DatabaseTree
    ) -> None:
        self._engine = engine
        self._exposed = exposed_tables
        self._tree = tree
        self._versions: dict[Path, str | None] = {}
        """Last versions of subscribed rows, seen here or by the server; None for a missing row."""
        self._marks: dict[TableName, object] = {}
        """Change marks of tables with a `change` column, as of the last commit handled."""
        self._busy_retry_s = _BUSY_RETRY_S
        self._asked: set[Path] = set()
        """Newly subscribed paths that were not reported since."""
        self._has_committed = False
        self._is_armed = False
        self._news = asyncio.Event()
        self._gate: asyncio.Task[None] | None = None
        self._state: object = None
        """Last seen state of the schema."""

    async def changes(self, interest: Interest) -> AsyncGenerator[Change]:
        """Yield possible changes, as `SupportsWatch.changes`."""
        following = asyncio.create_task(self._follow(interest))
        self._tree.observers.add(self._described)
        self._exposed.variation_observers.add(self._news.set)
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
                        self._retry_in(_UNAVAILABLE_RETRY_S)
                # Also what was listed before this watch, or read while the schema changed.
                # A change of hidden tables is not reported, so that it reveals nothing.
                if self._exposed.take_variation():
                    yield Change((), "tree")
                asked, self._asked = self._asked, set()
                await self._mark_tables(asked)
                for path in asked:
                    yield Change(path)
        finally:
            self._tree.observers.discard(self._described)
            self._exposed.variation_observers.discard(self._news.set)
            gate, self._gate = self._gate, None
            await self._end(following, gate)

    async def _open_gate(self, *, wanted: bool) -> None:
        """Start or stop watching for commits; raise the error of a watch that failed."""
        if self._gate is not None and (not wanted or self._gate.done()):
            self._is_armed = False
            if wanted:
                self._gate.result()
            await self._end(self._gate)
            self._gate = None
        if wanted and self._gate is None:
            self._gate = asyncio.create_task(self._watch_commits())

    async def _committed(self, paths: Iterable[Path]) -> AsyncGenerator[Change]:
        try:
            state = await self._exposed.state()
            if state != self._state:
                await self._exposed.infos()  # notes what differs
        except ResourceError:  # such as a lock, or a connection that is lost again and again
            self._retry_in(self._busy_retry_s)
            self._busy_retry_s = min(self._busy_retry_s * 2, _BUSY_RETRY_MAX_S)
            return
        self._busy_retry_s = _BUSY_RETRY_S
        is_altered = state != self._state
        if is_altered:
            self._state = state
            # The columns may have changed: compare every row anew.
            self._versions.clear()
        async with aclosing(self._confirm(paths, is_altered=is_altered)) as found:
            async for change in found:
                yield change

    def _retry_in(self, seconds: float) -> None:
        """Handle the last commit again after a delay."""
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
        """Report a row again if the server has seen another version than this detector.

        The row may have changed and changed back in between; otherwise that would go unnoticed.
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
        """Cancel tasks and wait for their end, even if this call is cancelled meanwhile."""
        ending = [task for task in tasks if task is not None]
        for task in ending:
            task.cancel()
        await wait_through(asyncio.gather(*ending, return_exceptions=True))

    async def _confirm(self, paths: Iterable[Path], *, is_altered: bool) -> AsyncGenerator[Change]:
        """Yield changes of rows with a new version, and of every other subscribed path.

        If the schema `is_altered`, change marks do not save the comparison.
        """
        tables: dict[TableName, dict[Path, _OfRows]] = {}
        for path in paths:
            address = self._address_of_rows(path)
            if address is None:
                yield Change(path)
            else:
                tables.setdefault(address.table, {})[path] = address
        marks, self._marks = self._marks, {}
        for table, subscribed in tables.items():
            # Before the rows: a commit in between then changes the next mark.
            mark = await self._mark(table)
            if is_altered or mark is None or mark != marks.get(table):
                moved = mark is not None and mark != marks.get(table, mark)
                differing = self._differing(table, subscribed, moved=moved)
                async with aclosing(differing) as found:
                    async for change in found:
                        yield change
            # Paths subscribed since are reported anyway, whatever the mark.
            if mark is not None:
                self._marks[table] = mark

    async def _mark_tables(self, paths: Iterable[Path]) -> None:
        """Take the change marks of tables with their first subscribed paths."""
        addresses = map(self._address_of_rows, paths)
        tables = {address.table for address in addresses if address is not None}
        for table in tables - self._marks.keys():
            mark = await self._mark(table)
            if mark is not None:
                self._marks[table] = mark

    def _address_of_rows(self, path: Path) -> _OfRows | None:
        """Return what rows a path shows, if any."""
        with suppress(ResourceNotFound):
            address = self._tree.address(path)
            if isinstance(address, _OfRows):
                return address
        return None

    async def _mark(self, table: TableName) -> object | None:
        """Return the change mark of a table, or None without one."""
        try:
            return await (await self._exposed.get(table)).mark()
        except ResourceError:
            return None

    async def _differing(
        self, table: TableName, subscribed: Mapping[Path, _OfRows], *, moved: bool
    ) -> AsyncGenerator[Change]:
        """Yield changes as `_confirm`; if the mark has `moved`, some row has certainly changed."""
        exposed = None
        with suppress(ResourceNotFound):
            exposed = await self._exposed.get(table)
        # A hidden column may change alone, and then nothing visible has changed.
        moved = moved and exposed is not None and exposed.change in exposed.view.searchable
        rows: dict[Path, Path] = {}
        for path, address in subscribed.items():
            # A path may have only the first columns of the key.
            if isinstance(address, RowAddress) and not _is_prefix(address, exposed):
                rows[address.key] = path
            elif moved and isinstance(address, TableAddress):
                # A child changed: with too many to compare, report the table instead.
                yield Change(address_path(PageAddress(table)))
            else:
                yield Change(path)
        try:
            present = await _present(exposed, rows)
        except ResourceError:
            # Such as a lock: the server reads each row itself.
            for path in rows.values():
                self._versions.pop(path, None)
                yield Change(path)
            return
        # Some row came back under another spelling of its key, so a missing row may be that one.
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
    """Return the versions of the existing rows among `wanted`, by key."""
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
        rows = await exposed.run_own(exposed.statements.rows(some), len(some))
        for values, held in zip(*exposed.split(rows), strict=True):
            with suppress(ValueError):
                found[exposed.segments(held)] = version_of(values)
    return found
