"""Search in a database: names of tables, columns and queries, and visible row values.

Rows are searched in their columns of text, in key order. The engine filters with LIKE on a part of
the text that all engines compare alike; the final match is decided here, so that all engines find
the same. Where few rows match, one statement passes over many, or an index of trigrams finds them.
An index of words misses parts of words, so it only finds rows that there is no time to search. For
a regular expression all texts are fetched, because the syntaxes of engines differ and some
expressions can run for years.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from resource_server import uris
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    NotSearchable,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.provider import Path, Resource
from resource_server.provider.search import Hit, MatchedLine, SearchPage, SearchRequest
from resource_server.providers.database.addressing.address import (
    Address,
    CellAddress,
    DatabaseAddress,
    DefinitionAddress,
    PageAddress,
    QueriesAddress,
    QueryAddress,
    RowAddress,
    SchemaAddress,
    SummaryAddress,
    TableAddress,
    address_path,
)
from resource_server.providers.database.engines.contract import Rows
from resource_server.providers.database.engines.reflection import (
    Column,
    TableInfo,
    TableName,
    WordIndex,
)
from resource_server.providers.database.policy import TEXTS
from resource_server.providers.database.queries.declared import DeclaredQueries
from resource_server.providers.database.reading.documents import Documents
from resource_server.providers.database.reading.exposed_table import (
    ExposedTable,
    ExposedTableCache,
    version_of,
)
from resource_server.providers.database.reading.like_patterns import (
    like_patterns,
    trigram_query,
    word_query,
)
from resource_server.providers.database.reading.tree import DatabaseTree
from resource_server.runtime.eager import Turns
from resource_server.search.coverage import Gaps
from resource_server.search.name_match import NameQuery
from resource_server.search.path_glob import FileGlob
from resource_server.search.text_match import MAX_LINES, LineQuery, lines_to_keep
from resource_server.search.top_k import INVALID, TopK, to_path

_LOOP_CHARACTERS = 64 * 1024
"""Maximum characters of texts searched in the event loop; longer ones use a thread."""

_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")

_COLUMNS = "~columns"
"""Prefix of a continuation inside the search for columns; no path begins with it."""

_LEAST_S = 0.8
"""Minimum time for the first rows, however late a search begins."""
_SHARE = 4
"""A page of a whole database ends after this part of its time: other mounts wait for theirs."""
_FIRST_ROWS, _MOST_ROWS = 64, 1024
"""Initial and maximum number of rows that one statement returns."""
_FIRST_PASSED, _LEAST_PASSED, _MOST_PASSED = 2**14, 2**12, 2**20
"""Initial, minimum and maximum number of rows that one statement passes over."""
_PASSING_S = 0.5
"""Timeout of such a statement; where it is too slow, fewer rows are next."""
_QUICK_S, _LONG_S = 0.05, 0.2
"""A faster statement is followed by one with more rows, a slower one by one with fewer."""
_LARGE = 2 * 1024 * 1024
"""Characters of one statement's texts above which the next one has fewer rows."""
_DESCRIBED_AT_ONCE = 32
_MAX_NAMED = 10
"""Maximum tables named in a message, with their searched columns."""
_MAX_COLUMNS = 5
"""Maximum columns of a table that are named as not searched."""
_TOO_SLOW = "takes too long"
_WHOLE_WORDS = "only for whole words in its full-text index of "
_HAS_DIGIT = re.compile(r"\d").search
_FILTER = "a filter finds text in one: …/~rows?where.COLUMN.like=%25text%25"

_WITH_COLUMNS = (DatabaseAddress, SchemaAddress, TableAddress, DefinitionAddress)
TableAtPath: TypeAlias = tuple[Path, TableInfo]
"""A table and its path."""
_Named: TypeAlias = tuple[Path, Callable[[], Resource]]
_Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class DatabaseSearch:
    """Searches one database."""

    exposed: ExposedTableCache
    queries: DeclaredQueries
    tree: DatabaseTree
    documents: Documents

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        """Return one page of results, as `SupportsSearch.search`, spelt below as the client did."""
        address = await self._canonical(self.tree.address(below))
        place = address_path(address)
        page = await self._search(
            request, address, place, after=after, limit=limit, deadline=deadline
        )
        return _respelt(page, len(place), below)

    async def _canonical(self, address: Address) -> Address:
        """Return an address with the key of its row as it is, however it was written."""
        if isinstance(address, RowAddress | CellAddress):
            width = len((await self.exposed.get(address.table)).key)
            if len(address.key) >= width:  # else it is a group of rows
                row = await self.documents.row(address.table, address.key)
                return replace(address, key=row.key)
        return address

    async def _search(
        self,
        request: SearchRequest,
        address: Address,
        below: Path,
        *,
        after: str | None,
        limit: int,
        deadline: float,
    ) -> SearchPage:
        tables = await self._tables(address)
        if request.where == "names":
            await self._find(address, below)
            names = _NameSearch(self, request)
            return await names.found(address, tables, after=after, limit=limit, deadline=deadline)
        if isinstance(address, DefinitionAddress | PageAddress | SummaryAddress | CellAddress):
            return await self._in_document(request, below)
        await self._find(address, below)
        within = address.key if isinstance(address, RowAddress) else ()
        found = [info.name for _, info in tables if self.exposed.options(info.name).rows]
        if isinstance(address, TableAddress | RowAddress):
            await self._check_columns(address.table)
        rows = _RowSearch(
            self.exposed,
            self.documents,
            request,
            limit=limit,
            deadline=deadline,
            is_shared=isinstance(address, DatabaseAddress | SchemaAddress),
        )
        page = await rows.found(found, within, after)
        return replace(page, unsearched=rows.gaps.entries())

    async def _check_columns(self, table: TableName) -> None:
        """Check that some column of a table is searched.

        Raises:
            NotSearchable: none is; names those of other tables that are.
        """
        exposed = await self.exposed.get(table)
        if not exposed.searched:
            named = await self._searched_columns()
            rest = f"those that can be: {named}" if named else _FILTER
            raise NotSearchable(f"no column of {uris.display(table.name)} can be searched; {rest}")

    async def _searched_columns(self) -> str:
        """Return the searched columns, by table; nothing if there is none."""
        named: list[str] = []
        for info in await self.exposed.infos():
            options = self.exposed.options(info.name)
            if options.search and options.rows and options.listed:
                with suppress(ResourceNotFound):  # dropped meanwhile, or refused
                    searched = (await self.exposed.get(info.name)).searched
                    if searched:
                        named.append(f"{info.name.name} ({', '.join(searched)})")
            if len(named) == _MAX_NAMED:
                break
        return uris.display(", ".join(named))

    async def _find(self, address: Address, below: Path) -> None:
        """Check cheaply that the address exists.

        Raises:
            ResourceNotFound: it does not.
        """
        match address:
            case DatabaseAddress():
                pass
            case QueryAddress(name):
                self.queries.get(name)
            case TableAddress(table) | DefinitionAddress(table):
                await self.exposed.get(table)
            case _:
                await self.tree.resource(below)

    async def _tables(self, address: Address) -> Sequence[TableAtPath]:
        """Return the tables to search, ordered by path.

        An unlisted table is searched only if the address names it.
        """
        if isinstance(address, QueriesAddress | QueryAddress):
            return ()
        turns = Turns()
        found: list[TableAtPath] = []
        for info in await self.exposed.infos():
            match address:
                case DatabaseAddress():
                    is_meant = self.exposed.options(info.name).listed
                case SchemaAddress(schema):
                    is_meant = info.name.schema == schema
                    is_meant = is_meant and self.exposed.options(info.name).listed
                case _:
                    is_meant = info.name == address.table
            if is_meant:
                found.append((address_path(TableAddress(info.name)), info))
            await turns.others()
        return sorted(found, key=_path_in)

    async def _in_document(self, sought: SearchRequest, path: Path) -> SearchPage:
        """Search the text of a definition, a page or a single value."""
        document = await self.documents.read(self.tree.address(path), {})
        data = None if document is None else document.content.data
        if document is None or not isinstance(data, str):
            return SearchPage(hits=(), looked_at=1)
        text, lines = data.encode("utf-8", "replace"), LineQuery(sought)
        keep = lines_to_keep(sought)
        if len(text) <= _LOOP_CHARACTERS and not sought.is_pattern:
            found = lines.matches(text, keep=keep)
        else:
            # Imported here: not every search needs a thread.
            from anyio import to_thread

            found = await to_thread.run_sync(
                lines.matches, text, None, keep, abandon_on_cancel=True
            )
        hits = [found.hit(document.resource)] if found.count else ()
        return SearchPage(hits=hits, looked_at=1, total=1)


class _NameSearch:
    """One search for names in progress.

    All names except those of columns are in memory. Columns need the reflection of every table, so
    they come last, table by table, and the deadline may pass in between.
    """

    def __init__(self, database: DatabaseSearch, sought: SearchRequest) -> None:
        self._database = database
        self._sought = sought
        self._names = NameQuery.of(sought)
        self._turns = Turns()
        self._hits: list[Hit] = []
        self._looked_at = 0

    async def found(
        self,
        address: Address,
        tables: Sequence[TableAtPath],
        *,
        after: str | None,
        limit: int,
        deadline: float,
    ) -> SearchPage:
        """Return one page of results among these tables and the rest of the address."""
        place = to_path(after or "") if (after or "").startswith(_COLUMNS) else None
        following: str | None = None
        beyond = 0
        if place is None:
            best = TopK[Hit](self._names.key, after, limit)
            await self._add_names(best, address, tables)
            self._hits, following, beyond = best.page(None)
        if following is None and isinstance(address, _WITH_COLUMNS):
            following = await self._find_columns(tables, place or (_COLUMNS,), limit, deadline)
        return SearchPage(
            hits=self._hits,
            next=following,
            looked_at=self._looked_at,
            total=self._looked_at if after is None and following is None else None,
            beyond=beyond,
        )

    async def _add_names(
        self, best: TopK[Hit], address: Address, tables: Sequence[TableAtPath]
    ) -> None:
        for path, describe in sorted(self._resources_below(address, tables), key=_path_in):
            if path > best.start:
                rank = self._names.rank(path)
                if rank is not None:
                    best.add(path, rank, lambda describe=describe: Hit(describe()))
                self._saw()
            await self._turns.others()

    def _resources_below(self, address: Address, tables: Sequence[TableAtPath]) -> Iterator[_Named]:
        tree, queries = self._database.tree, self._database.queries
        if isinstance(address, DatabaseAddress):
            for schema in dict.fromkeys(info.name.schema for _, info in tables):
                if schema is not None:
                    yield address_path(SchemaAddress(schema)), partial(tree.schema, schema)
        if isinstance(address, DatabaseAddress | SchemaAddress):
            for path, info in tables:
                yield path, partial(tree.table, info)
        if isinstance(address, DatabaseAddress | QueriesAddress | QueryAddress):
            for query in [address.name] if isinstance(address, QueryAddress) else queries:
                yield (
                    address_path(QueryAddress(query)),
                    partial(self._database.documents.query_resource, query),
                )

    async def _find_columns(
        self, tables: Sequence[TableAtPath], after: Path, limit: int, deadline: float
    ) -> str | None:
        """Search the columns table by table; return where to continue, or None at the end."""
        has_got_on = False
        for path, info in tables:
            place = (_COLUMNS, *path)
            if place <= after:
                continue
            if len(self._hits) == limit or (has_got_on and time.monotonic() >= deadline):
                return "/".join(after)
            with suppress(ResourceNotFound):  # dropped meanwhile, or broken
                await self._look_at(info.name, place)
            self._saw()
            after, has_got_on = place, True
            await self._turns.others()
        return None

    async def _look_at(self, table: TableName, place: Path) -> None:
        lines: list[MatchedLine] = []
        columns = (await self._database.exposed.get(table)).table.columns
        for number, column in enumerate(columns, 1):
            with suppress(ValueError):  # not Unicode
                if self._names.rank((*place, uris.encode_text(column.name))) is not None:
                    lines.append(_line(number, column))
        if lines:
            resource = self._database.documents.definition_resource(table)
            shown = tuple(lines[:MAX_LINES])
            self._hits.append(Hit(resource, shown, len(lines) > MAX_LINES, len(lines)))

    def _saw(self) -> None:
        self._looked_at += 1
        self._sought.report_progress(1)


def _path_in(placed: tuple[Path, object]) -> Path:
    """Return the path of a pair, as a sort key."""
    return placed[0]


def _line(number: int, column: Column) -> MatchedLine:
    return MatchedLine(number, " ".join(uris.display(f"{column.name} {column.type}").split()))


def _respelt(page: SearchPage, place: int, below: Path) -> SearchPage:
    """Return a page whose paths begin with `below` in the place of so many segments."""

    def path(found: Path) -> Path:
        return (*below, *found[place:]) if len(found) >= place else below[: len(found)]

    hits = [
        replace(hit, resource=replace(hit.resource, path=path(hit.resource.path)))
        for hit in page.hits
    ]
    gaps = [replace(gap, path=path(gap.path)) for gap in page.unsearched]
    return replace(page, hits=hits, unsearched=gaps)


class _Match(NamedTuple):
    key: _Key
    lines: tuple[MatchedLine, ...]


class _Pace:
    """How many rows the next statement returns, or passes over."""

    def __init__(
        self,
        patterns: Sequence[str] | None,
        query: str | None,
        words: tuple[str, WordIndex] | None = None,
    ) -> None:
        self.patterns = patterns
        """LIKE patterns of rows that may match; None if there are none to pass over others with."""
        self.query = query
        """The query of an index that finds these rows; None if there is no such."""
        self.index: WordIndex | None = None
        """This index, if it is one of words."""
        self.words = words
        """The query of an index of words, with the index, for rows that there is no time for."""
        self.is_told = False
        """Whether the result says that only this index was asked."""
        self.count = _FIRST_ROWS
        self.passed = _FIRST_PASSED
        self.is_passing = False
        self._can_pass = patterns is not None

    def adapt(self, seconds: float, size: int) -> None:
        """Take more rows after a quick statement, fewer after a slow one."""
        if self.is_passing:
            self.passed = min(self.passed * 4, _MOST_PASSED) if seconds < _LONG_S else self.passed
        elif seconds > _LONG_S or size > _LARGE:
            self.count = max(self.count // 4, 1)
        elif seconds < _QUICK_S:
            can_pass = self._can_pass and self.query is None
            self.is_passing = self.count == _MOST_ROWS and can_pass
            self.count = min(self.count * 4, _MOST_ROWS)

    def shorten(self) -> None:
        """Pass over fewer rows: those were too many, or too many of them may match."""
        self.passed //= 4
        if self.passed < _LEAST_PASSED:
            # At the end of the table, or where most rows may match.
            self._can_pass = self.is_passing = False


class _RowSearch:
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
        is_shared: bool,
    ) -> None:
        self._exposed = exposed_tables
        self._documents = documents
        self._sought = sought
        self._lines = LineQuery(sought)
        self._files = None if sought.files is None else FileGlob(sought.files)
        self._words = () if sought.is_pattern else sought.words or (sought.text,)
        self._has_every = sought.together != "most"
        self._containing: str | None = None
        """A part of the text of each column that matches."""
        if self._words and sought.together == "line":
            self._containing = max(self._words, key=len)
        self._limit = limit
        now = time.monotonic()
        if is_shared:
            deadline = now + (deadline - now) / _SHARE
        self._is_shared = is_shared
        self._until = max(deadline, now + _LEAST_S)
        self._is_cancelled = False
        self._has_got_on = False
        self._within: Path = ()
        self._hits: list[Hit] = []
        self._looked_at = self._beyond = 0
        sought_texts = (sought.text, *sought.words)
        self._may_be_number = sought.is_pattern or any(map(_HAS_DIGIT, sought_texts))
        self.gaps = Gaps(names_each=True)
        """Tables that were begun and not searched whole."""
        self._is_counting = False
        """Whether the page is full, and the other matches are counted."""

    async def found(
        self, tables: Sequence[TableName], within: Path, after: str | None
    ) -> SearchPage:
        """Return one page of results; `within` are key segments if there is a single table."""
        self._within = within
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
            page = SearchPage(hits=self._hits, next=following, looked_at=self._looked_at)
            if following is not None and len(self._hits) == self._limit:
                return await self._with_count(page, tables)
        finally:
            self._is_cancelled = True
        return page

    async def _with_count(self, page: SearchPage, tables: Sequence[TableName]) -> SearchPage:
        """Return a full page with the number of the matches after it, within the time left."""
        self._is_counting = True
        self._sought = replace(self._sought, on_progress=None)
        self._until = min(time.monotonic() + self._sought.count_s, self._until)
        is_counted = False
        first, cursor = _begin(tables, page.next)
        with suppress(DeadlineExceeded, ResourceBusy):
            for table in tables[first:]:
                if self._is_over() or await self._look_into(table, cursor) is not None:
                    break
                cursor = None
            else:
                is_counted = True
        if is_counted and not self._beyond:
            return replace(page, next=None, looked_at=self._looked_at, is_counted=True)
        return replace(page, beyond=self._beyond, is_counted=is_counted)

    @property
    def _is_enough(self) -> bool:
        return self._is_over() or (len(self._hits) >= self._limit and not self._is_counting)

    def _is_over(self) -> bool:
        return self._is_cancelled or time.monotonic() >= self._until

    async def _look_into(self, table: TableName, cursor: str | None) -> str | None:
        """Search the rows of a table; return where to continue, or None at its end."""
        following: str | None = None
        until = self._until
        try:
            exposed = await self._exposed.get(table)
            gap = self._gap_of(exposed)
            if exposed.searched:
                following = await self._rows_of(exposed, cursor)
        except ResourceNotFound:
            gap = "cannot be read"  # dropped meanwhile, or refused: `check` reports why
        except DeadlineExceeded:
            if self._is_counting or not self._is_shared:
                raise
            # The other tables are searched without it.
            gap = None
            self._add_gap(table, _TOO_SLOW if cursor is None else f"its rest {_TOO_SLOW}")
        finally:
            self._until = until
        if gap and cursor is None and not self._is_counting:
            self._add_gap(table, gap)
        return following

    def _add_gap(self, table: TableName, why: str) -> None:
        self._saw(1)
        path = address_path(TableAddress(table))
        is_slow = why.endswith(_TOO_SLOW) or _WHOLE_WORDS in why
        self.gaps.add(path, why, by_itself=is_slow, in_part=True)

    def _gap_of(self, exposed: ExposedTable) -> str | None:
        """Return what is not searched of a table and may hold what is sought, in words."""
        if exposed.options.search in (False, ()):
            return "search is off"
        if exposed.view.is_copy and exposed.options.search is True:
            return None  # its text is searched where it comes from
        if not exposed.key:
            return "its rows have no key"
        names = [
            column.name
            for column in exposed.table.columns
            if column.name not in exposed.searched
            and (column.kind in TEXTS or (self._may_be_number and column.kind != "blob"))
        ]
        if not names:
            return None
        more = f" and {n} more" if (n := len(names) - _MAX_COLUMNS) > 0 else ""
        shown = ", ".join(names[:_MAX_COLUMNS])
        return f"{'columns' if len(names) > 1 else 'column'} {shown}{more}"

    async def _rows_of(self, exposed: ExposedTable, cursor: str | None) -> str | None:
        held = None if cursor is None else exposed.cursor_key(cursor)
        pace, before = await self._pace_of(exposed), self._looked_at
        # Where an earlier page has begun, matches are likely few.
        pace.is_passing = held is not None and pace.patterns is not None and pace.query is None
        while True:
            begun = time.monotonic()
            try:
                last, rows = await self._following(exposed, held, pace)
            except (DeadlineExceeded, ResourceBusy):
                if self._turns_to_words(pace):
                    continue
                if not self._has_got_on or self._is_counting:
                    raise
                return _place(exposed, held)
            seconds, size = time.monotonic() - begun, _size(rows, len(exposed.key))
            done, matches = await self._matching(exposed, rows, size)
            await self._describe(exposed, matches)
            held = await self._reached(exposed, held, (last, pace.passed), rows.rows, done=done)
            is_whole = done == len(rows.rows)
            if is_whole and last is None and done < pace.count and not rows.more:
                if pace.query is not None and pace.index is None and cursor is None:
                    await self._count_others(exposed, self._looked_at - before)
                return None
            if self._is_enough and not self._turns_to_words(pace):
                return _place(exposed, held)
            pace.adapt(seconds, size)

    async def _reached(
        self,
        exposed: ExposedTable,
        held: _Key | None,
        end: tuple[_Key | None, int],
        rows: Sequence[tuple[object, ...]],
        *,
        done: int,
    ) -> _Key | None:
        """Return the last key that was passed, after `done` of the rows returned after `held`.

        With the key `end`, they are those that may match of so many rows up to this key.
        """
        last, passed = end
        if last is None or done < len(rows):
            is_passing = last is not None
            last = tuple(rows[done - 1][: len(exposed.key)]) if done else held
            passed = done
            if is_passing and held is not None and last is not None and done:
                passed = await exposed.count(after=held, until=last, below=self._within)
        self._saw(passed)
        if held is not None and last is not None and last is not held:
            exposed.check_progress(held, [last])
        return last

    def _turns_to_words(self, pace: _Pace) -> bool:
        """Let an index of words find the rest of the rows, if there is one; return whether."""
        is_full = self._is_counting or len(self._hits) >= self._limit
        if pace.words is None or is_full or self._is_cancelled:
            return False
        (pace.query, pace.index), pace.words = pace.words, None
        pace.count = _MOST_ROWS
        self._until = time.monotonic() + _PASSING_S
        return True

    async def _words_of(self, exposed: ExposedTable) -> tuple[str, WordIndex] | None:
        """Return the full-text index of most columns that are all searched, with its query."""
        if not self._is_shared or self._is_counting:
            return None  # a search of the table alone has the time for parts of words
        for index in sorted(exposed.table.words, key=lambda each: -len(each.columns)):
            with suppress(ResourceNotFound):
                holder = TableName(None, index.table) if index.table else exposed.name
                shown = (await self._exposed.get(holder)).view.searchable
                query = word_query(self._words, index, has_every=self._has_every)
                if query and set(index.columns) <= shown.intersection(exposed.searched):
                    return query, index
        return None

    async def _pace_of(self, exposed: ExposedTable) -> _Pace:
        names, query = exposed.searched, None
        if not self._words:
            return _Pace(None, None)
        if set(names) <= set(exposed.table.trigrams):
            query = trigram_query(self._words, names, has_every=self._has_every)
        patterns = like_patterns(self._words, len(names), has_every=self._has_every)
        return _Pace(patterns, query, await self._words_of(exposed) if patterns else None)

    async def _count_others(self, exposed: ExposedTable, seen: int) -> None:
        """Count the rows that an index has passed over, if this is quick."""
        if self._is_counting or self._within:
            return
        with suppress(DeadlineExceeded, ResourceBusy):
            count = await exposed.row_count(min(self._left, _PASSING_S))
            self._saw(max(count - seen, 0))

    async def _following(
        self, exposed: ExposedTable, held: _Key | None, pace: _Pace
    ) -> tuple[_Key | None, Rows]:
        """Return the next rows; of many that are passed over, those that may match, and the end."""
        if pace.query is not None and pace.patterns is not None:
            try:
                rows = await exposed.candidates(
                    pace.count,
                    pace.patterns,
                    has_every=self._has_every,
                    after=None if held is None else exposed.bound(held),
                    below=self._within,
                    within=min(self._left, _PASSING_S),
                    query=pace.query,
                    index=pace.index,
                )
            except (DeadlineExceeded, InvalidParameter, ResourceNotFound, MountUnavailable):
                # Too slow, as most rows may match; or the index is damaged.
                pace.query = pace.index = None
            else:
                if pace.index is not None and not pace.is_told:
                    self._add_gap(exposed.name, _of_words(pace.index, is_rest=held is not None))
                    pace.is_told = True
                return None, rows
        while held is not None and pace.patterns is not None and pace.is_passing:
            with suppress(DeadlineExceeded, InvalidParameter):
                found = await exposed.candidates_among_next(
                    pace.passed,
                    _MOST_ROWS,
                    pace.patterns,
                    has_every=self._has_every,
                    after=exposed.bound(held),
                    below=self._within,
                    within=min(self._left, _PASSING_S),
                )
                if found is not None:
                    return found
            pace.shorten()
        return None, await self._texts(exposed, held, pace.count)

    @property
    def _left(self) -> float:
        """The seconds left; enough for a first statement, whatever came before it."""
        is_first = not (self._has_got_on or self._is_counting)
        return max(self._until - time.monotonic(), _LEAST_S if is_first else 0.0)

    def _saw(self, count: int) -> None:
        self._has_got_on = self._has_got_on or count > 0
        self._looked_at += count
        self._sought.report_progress(count)

    async def _texts(self, exposed: ExposedTable, held: _Key | None, count: int) -> Rows:
        """Return keys and searched texts of up to `count` rows; with `more` if fewer fit."""
        after = None if held is None else exposed.bound(held)
        try:
            return await exposed.texts(
                count,
                containing=self._containing,
                after=after,
                below=self._within,
                within=self._left,
            )
        except InvalidParameter:
            if count > 1:
                return _and_more(await self._texts(exposed, held, 1))
            # A value is too large for the engine: fetch the key alone.
            within = exposed.key_of(self._within)
            keys = exposed.statements.page(1, after=after, within=within, columns=())
        try:
            return _and_more(await exposed.run_own(keys, 1))
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
            is_full = len(self._hits) + len(found) == self._limit and not self._is_counting
            if is_full or (done and self._is_over()):
                return done, found
            lines = self._lines_of(columns, row[width:], exposed.max_text)
            if lines and self._has_address(exposed, row[:width]):
                found.append(_Match(row[:width], lines))
        return len(rows.rows), found

    def _lines_of(
        self, columns: Sequence[tuple[int, str]], texts: Sequence[object], most: int
    ) -> tuple[MatchedLine, ...]:
        """Return the columns that match in `most` characters, each as a line with its name."""
        given = [
            # Not every dialect can truncate them.
            (number, name, text[:most].encode("utf-8", "surrogateescape"))
            for (number, name), text in zip(columns, texts, strict=False)
            if isinstance(text, str)
        ]
        if self._sought.words:
            # The row is the document, and each of its columns a line.
            data = b"\n".join([text.translate(_ONE_LINE) for _, _, text in given])
            matches = self._lines.matches(data, keep=len(given)).lines
            return tuple(_column_line(*given[each.number - 1][:2], each.text) for each in matches)
        found = [(number, name, self._lines.matches(text, keep=1)) for number, name, text in given]
        return tuple(
            _column_line(number, name, each.lines[0].text)
            for number, name, each in found
            if each.count
        )

    def _has_address(self, exposed: ExposedTable, key: _Key) -> bool:
        """Return whether a row is one to find: its key fits into a URI, its path into `files`."""
        try:
            path = address_path(RowAddress(exposed.name, exposed.segments(key)))
        except ValueError:
            return False
        return self._files is None or self._files.matches(path)

    async def _describe(self, exposed: ExposedTable, matches: Sequence[_Match]) -> None:
        """Add matching rows to the hits, in their current state; only count them on a full page."""
        if self._is_counting:
            self._beyond += sum(len(match.lines) for match in matches)
            return
        for start in range(0, len(matches), _DESCRIBED_AT_ONCE):
            some = matches[start : start + _DESCRIBED_AT_ONCE]
            statement = exposed.statements.rows([exposed.bound(match.key) for match in some])
            rows = await exposed.run_own(statement, len(some))
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
        resource = self._documents.row_resource(path, version_of(values))
        self._hits.append(Hit(resource, lines, matches=len(lines)))


def _of_words(index: WordIndex, *, is_rest: bool) -> str:
    return f"{'its rest ' if is_rest else ''}{_WHOLE_WORDS}{', '.join(index.columns)}"


def _column_line(number: int, name: str, text: str) -> MatchedLine:
    return MatchedLine(number, f"{' '.join(uris.display(name).split())}: {text}")


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
        return f"{mark}.{exposed.cursor_after(held)}"
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
