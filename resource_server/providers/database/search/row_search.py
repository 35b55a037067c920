"""Search in row values: the columns that the manifest names for search, in key order.

The engine filters with LIKE on a part of the text that all engines compare alike; the final match
is decided here, so that all engines find the same. For a regular expression all texts are fetched,
because the syntaxes of engines differ and some expressions can run for years.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from resource_server import uris
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.provider import Path
from resource_server.provider.search import Hit, MatchedLine, SearchPage, SearchRequest
from resource_server.providers.database.addressing import key_codec
from resource_server.providers.database.addressing.address import RowAddress, address_path
from resource_server.providers.database.engines.contract import Rows
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.reading.documents import Documents
from resource_server.providers.database.reading.exposed_table import (
    ExposedTable,
    ExposedTableCache,
    version_of,
)
from resource_server.search.text_match import MAX_LINES, LineQuery
from resource_server.search.top_k import INVALID

_LEAST_S = 0.4
"""Minimum time for the first rows, however late a search begins."""
_FIRST_ROWS, _MOST_ROWS = 64, 1024
"""Initial and maximum number of rows of one statement."""
_QUICK_S, _LONG_S = 0.05, 0.2
"""A faster statement is followed by one with more rows, a slower one by one with fewer."""
_LARGE = 2 * 1024 * 1024
"""Characters of one statement's texts above which the next one has fewer rows."""
_DESCRIBED_AT_ONCE = 32
_LOOP_CHARACTERS = 64 * 1024
"""Maximum characters of texts searched in the event loop; longer ones use a thread."""

_Key: TypeAlias = tuple[object, ...]


class _Match(NamedTuple):
    key: _Key
    lines: tuple[MatchedLine, ...]


class RowSearch:
    """One search of rows in progress.

    Raises:
        InvalidParameter: the regular expression cannot be used.
    """

    def __init__(
        self,
        exposed_tables: ExposedTableCache,
        documents: Documents,
        sought: SearchRequest,
        *,
        limit: int,
        deadline: float,
    ) -> None:
        self._exposed = exposed_tables
        self._documents = documents
        self._sought = sought
        self._lines = LineQuery(sought)
        self._containing = None if sought.is_pattern else sought.text
        self._limit = limit
        self._until = max(deadline, time.monotonic() + _LEAST_S)
        self._is_cancelled = False
        self._has_got_on = False
        self._below: Path = ()
        self._within: Path = ()
        self._hits: list[Hit] = []
        self._looked_at = 0

    async def found(
        self, tables: Sequence[TableName], below: Path, within: Path, after: str | None
    ) -> SearchPage:
        """Return one page of results; `within` are key segments if there is a single table."""
        self._below, self._within = below, within
        first, cursor = _begin(tables, after)
        following: str | None = None
        try:
            for at, table in enumerate(tables[first:], first):
                following = await self._look_into(table, cursor)
                if following is None and self._is_enough and at + 1 < len(tables):
                    following = _mark(tables[at + 1])
                if following is not None:
                    break
                self._has_got_on, cursor = True, None
        finally:
            self._is_cancelled = True
        return SearchPage(hits=self._hits, next=following, looked_at=self._looked_at)

    @property
    def _is_enough(self) -> bool:
        return len(self._hits) >= self._limit or self._is_over()

    def _is_over(self) -> bool:
        return self._is_cancelled or time.monotonic() >= self._until

    async def _look_into(self, table: TableName, cursor: str | None) -> str | None:
        """Search the rows of a table; return where to continue, or None at its end."""
        try:
            exposed = await self._exposed.get(table)
            if exposed.key and exposed.searched:
                return await self._rows_of(exposed, cursor)
        except ResourceNotFound:
            pass  # dropped meanwhile, or refused: `check` reports why
        return None

    async def _rows_of(self, exposed: ExposedTable, cursor: str | None) -> str | None:
        held = None if cursor is None else _decoded(cursor, exposed)
        count = _FIRST_ROWS
        while True:
            begun = time.monotonic()
            try:
                rows = await self._texts(exposed, held, count)
            except (DeadlineExceeded, ResourceBusy):
                if not self._has_got_on:
                    raise
                return _place(exposed, held)
            seconds, size = time.monotonic() - begun, _size(rows, len(exposed.key))
            done, matches = await self._matching(exposed, rows, size)
            await self._describe(exposed, matches)
            self._saw(done)
            if done:
                held = tuple(rows.rows[done - 1][: len(exposed.key)])
            if done == len(rows.rows) < count and not rows.more:
                return None
            if self._is_enough:
                return _place(exposed, held)
            if seconds > _LONG_S or size > _LARGE:
                count = max(count // 4, 1)
            elif seconds < _QUICK_S:
                count = min(count * 4, _MOST_ROWS)

    def _saw(self, count: int) -> None:
        self._has_got_on = self._has_got_on or count > 0
        self._looked_at += count
        self._sought.report_progress(count)

    async def _texts(self, exposed: ExposedTable, held: _Key | None, count: int) -> Rows:
        """Return keys and searched texts of up to `count` rows; with `more` if fewer fit."""
        after = None if held is None else exposed.bound(held)
        left = max(self._until - time.monotonic(), 0.0)
        try:
            return await exposed.texts(
                count, containing=self._containing, after=after, below=self._within, within=left
            )
        except InvalidParameter:
            if count > 1:
                return _and_more(await self._texts(exposed, held, 1))
            # A value is too large for the engine: fetch the key alone.
            within = exposed.key_of(self._within)
            keys = exposed.statements.page(1, after=after, within=within, columns=())
        try:
            return _and_more(await exposed.fetch(keys, 1))
        except InvalidParameter:
            # The value is not the reason: the table cannot be read. Skip it.
            raise ResourceNotFound from None

    async def _matching(
        self, exposed: ExposedTable, rows: Rows, size: int
    ) -> tuple[int, Sequence[_Match]]:
        """Return the number of rows searched before the deadline or limit, and the matches."""
        if not size:
            return len(rows.rows), ()
        if size <= _LOOP_CHARACTERS and not self._sought.is_pattern:
            return self._match(exposed, rows)
        # Imported here: not every search needs a thread.
        from anyio import to_thread

        return await to_thread.run_sync(self._match, exposed, rows, abandon_on_cancel=True)

    def _match(self, exposed: ExposedTable, rows: Rows) -> tuple[int, Sequence[_Match]]:
        names, width = exposed.table.column_names, len(exposed.key)
        columns = [(names.index(name) + 1, name) for name in exposed.searched]
        found: list[_Match] = []
        for done, row in enumerate(rows.rows):
            if len(self._hits) + len(found) == self._limit or (done and self._is_over()):
                return done, found
            lines = [
                line
                for (number, name), text in zip(columns, row[width:], strict=False)
                if (line := self._line(number, name, text)) is not None
            ]
            if lines:
                found.append(_Match(row[:width], tuple(lines[:MAX_LINES])))
        return len(rows.rows), found

    def _line(self, number: int, name: str, text: object) -> MatchedLine | None:
        if not isinstance(text, str):
            return None
        lines = self._lines.matches(text.encode("utf-8", "surrogateescape"))
        if not lines:
            return None
        label = " ".join(uris.display(name).split())
        return MatchedLine(number, f"{label}: {lines[0].text}")

    async def _describe(self, exposed: ExposedTable, matches: Sequence[_Match]) -> None:
        """Add matching rows to the hits, in their current state."""
        for start in range(0, len(matches), _DESCRIBED_AT_ONCE):
            some = matches[start : start + _DESCRIBED_AT_ONCE]
            statement = exposed.statements.rows([exposed.bound(match.key) for match in some])
            rows = await exposed.fetch(statement, len(some))
            shown, held = exposed.split(rows)
            present = dict(zip(held, shown, strict=True))
            for key, lines in some:
                # Deleted meanwhile, or its key is too long for a URI.
                with suppress(KeyError, ValueError):
                    self._add(exposed, key, present[key], lines)

    def _add(
        self,
        exposed: ExposedTable,
        key: _Key,
        values: tuple[object, ...],
        lines: tuple[MatchedLine, ...],
    ) -> None:
        path = address_path(RowAddress(exposed.name, exposed.segments(key)))
        # Begins with `below` as spelled by the client.
        path = (*self._below, *path[len(self._below) :])
        self._hits.append(Hit(self._documents.row_resource(path, version_of(values)), lines))


def _size(rows: Rows, width: int) -> int:
    return sum([len(text) for row in rows.rows for text in row[width:] if isinstance(text, str)])


def _and_more(rows: Rows) -> Rows:
    return Rows(rows.columns, rows.rows, more=bool(rows.rows))


def _mark(table: TableName) -> str:
    return version_of(list(table))


def _place(exposed: ExposedTable, held: _Key | None) -> str | None:
    """Return where to continue in a table, or None if its key is too long for a cursor."""
    mark = _mark(exposed.name)
    if held is None:
        return mark
    try:
        return f"{mark}.{key_codec.encode_cursor(key_codec.PageCursor(exposed.fingerprint, held))}"
    except ValueError:
        return None


def _begin(tables: Sequence[TableName], after: str | None) -> tuple[int, str | None]:
    """Return the index of the table to continue with, and the cursor in it."""
    if after is None:
        return 0, None
    mark, _, cursor = after.partition(".")
    marks = list(map(_mark, tables))
    if mark not in marks:
        raise InvalidParameter(INVALID)
    return marks.index(mark), cursor or None


def _decoded(cursor: str, exposed: ExposedTable) -> _Key:
    return key_codec.decode_cursor(
        cursor, fingerprint=exposed.fingerprint, columns=len(exposed.key)
    ).key
