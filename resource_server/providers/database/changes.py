"""From commits to changes: whether anything was committed, and which rows that concerns.

A commit of whatever only opens the gate. Rows that somebody subscribes to are then read again,
those of one table by one statement, and told of where they differ; everything else that is
subscribed to is suggested to the server, which compares. While nobody is interested nothing is
asked of the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress

from resource_server.errors import ResourceNotFound
from resource_server.provider import Change, Interest, Path
from resource_server.providers.database.address import RowAddress
from resource_server.providers.database.engine import Engine
from resource_server.providers.database.relation import Relations, version_of
from resource_server.providers.database.table import TableName
from resource_server.providers.database.tree import Tree

_ROWS_AT_ONCE = 500


class Watch:
    """The watch over one database, for as long as `changes` is iterated."""

    def __init__(self, engine: Engine, relations: Relations, tree: Tree) -> None:
        self._engine = engine
        self._relations = relations
        self._tree = tree
        self._versions: dict[Path, str | None] = {}
        """Of rows subscribed to, as last seen; None where there was none."""
        self._asked: set[Path] = set()
        """Paths that came, and have not been suggested since."""
        self._has_committed = False
        self._is_armed = False
        self._news = asyncio.Event()
        self._gate: asyncio.Task[None] | None = None
        self._state: object = None
        """Of the schema, as last seen."""

    async def changes(self, interest: Interest) -> AsyncGenerator[Change]:
        """Yield what may have changed, as `SupportsWatch.changes`."""
        following = asyncio.create_task(self._follow(interest))
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                await self._open_gate(wanted=bool(interest.paths) or interest.listing)
                if not self._is_armed:
                    continue
                if self._has_committed:
                    self._has_committed = False
                    async with aclosing(self._committed(set(interest.paths))) as found:
                        async for change in found:
                            yield change
                asked, self._asked = self._asked, set()
                for path in asked:
                    yield Change(path)
        finally:
            await _end(following)
            await self._open_gate(wanted=False)

    async def _open_gate(self, *, wanted: bool) -> None:
        """Watch for commits, or no longer; raise what ended the watch if it has ended by itself."""
        if self._gate is not None and (not wanted or self._gate.done()):
            gate, self._gate, self._is_armed = self._gate, None, False
            if wanted:
                gate.result()
            await _end(gate)
        if wanted and self._gate is None:
            self._gate = asyncio.create_task(self._watch_commits())

    async def _committed(self, paths: Iterable[Path]) -> AsyncGenerator[Change]:
        state = await self._relations.state()
        if state != self._state:
            known, self._state = self._state, state
            if known is not None:
                yield Change((), "tree")
        async with aclosing(self._confirm(paths)) as found:
            async for change in found:
                yield change

    async def _follow(self, interest: Interest) -> None:
        while True:
            came, went = await interest.next()
            for path in went:
                self._versions.pop(path, None)
            self._asked |= came
            self._news.set()

    async def _watch_commits(self) -> None:
        try:
            async for _ in self._engine.commits():
                self._is_armed = self._has_committed = True
                self._news.set()
        finally:
            self._news.set()

    async def _confirm(self, paths: Iterable[Path]) -> AsyncGenerator[Change]:
        """Yield changes of rows that differ from what they were, and of everything else."""
        rows: dict[TableName, dict[Path, Path]] = {}
        for path in paths:
            address = None
            with suppress(ResourceNotFound):
                address = self._tree.address(path)
            if isinstance(address, RowAddress):
                rows.setdefault(address.table, {})[address.key] = path
            else:
                yield Change(path)
        for table, wanted in rows.items():
            present = await self._present(table, wanted)
            for key, path in wanted.items():
                version = present.get(key)
                if path not in self._versions or self._versions[path] != version:
                    self._versions[path] = version
                    yield Change(path)

    async def _present(self, table: TableName, wanted: Iterable[Path]) -> Mapping[Path, str]:
        """Return the versions of the rows that there are of a table, by their keys."""
        found: dict[Path, str] = {}
        try:
            relation = await self._relations.get(table)
        except ResourceNotFound:
            return found
        bound: list[tuple[object, ...]] = []
        for key in wanted:
            if len(key) == len(relation.key):
                with suppress(ResourceNotFound):
                    bound.append(relation.key_of(key))
        for start in range(0, len(bound), _ROWS_AT_ONCE):
            some = bound[start : start + _ROWS_AT_ONCE]
            rows = await relation.fetch(relation.statements.rows(some), len(some))
            for values, held in zip(*relation.split(rows), strict=True):
                with suppress(ValueError):
                    found[relation.segments(held)] = version_of(values)
        return found


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task
