"""Search over all mounts, page by page: names first, best match first, then text.

Several words are searched in steps: documents with all of them on a line, then with all of them,
then with most of them. Of two words, one is enough only if nothing has both.

Each mount is searched in its own task with a deadline, so a mount that hangs only loses its own
hits. A page ends when it is full or its time is over; its cursor holds the position of each mount.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Literal, TypeAlias

import msgspec

from resource_server import uris
from resource_server.catalog import cursor, fallback_search
from resource_server.catalog.contract_guard import Progress
from resource_server.catalog.mount import CatalogEntry, Mount, log_failure
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    NotSearchable,
    ResourceServerError,
)
from resource_server.provider import Path
from resource_server.provider.search import (
    Hit,
    MatchedLine,
    SearchPage,
    SearchRequest,
    Together,
    Unsearched,
    Where,
)
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.search import ranking
from resource_server.search.coverage import FAILED, LATE
from resource_server.search.name_match import EXACT, OTHER, NameQuery, RankKey
from resource_server.search.path_glob import FileGlob
from resource_server.search.text_match import LineQuery, has_expressions

MAX_QUERY_LENGTH = 1000
"""Maximum characters of a query."""
_MAX_WORDS = 20
_MAX_NEXT_LENGTH = 16 * 1024
"""Maximum characters of a provider's own cursor."""
_MAX_GAPS = 40
_MAX_UNSEARCHED = 2**40
"""Resources that one entry of `unsearched` may stand for."""
_MAX_LINES = 20
"""Matching lines taken of one document, even if fewer were asked for."""
_MAX_LINE_LENGTH = 1000
_NAMES_SHARE = 4
"""A page has room for text too: names take at most this part of it."""
_CONCURRENT_MOUNTS = 8
"""Mounts searched by name at the same time, whose hits are ranked together."""
_EXPRESSION = re.compile(r"/(.+)/", re.DOTALL)

_ONE_OF_TWO = "Nothing has both words; this has one of them."

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"(?!\S)|(\S+)')
"""A phrase in quotes, or a word."""
_SPECIAL = re.compile(r'["\\]')
_ESCAPE = r"\\\g<0>"
_ESCAPED = re.compile(r'\\(["\\])')

_STOP_WORDS = frozenset(
    "a about an and any are as at be been by can could do does for from had has have how i if in "
    "is it its me my of on or our should that the their them there these they this those to was we "
    "were what when where which who why will with would you your".split()
)
"""Words that say nothing about what is sought."""

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A count of a cursor; with what is added to it, a cursor still holds it."""
_Step: TypeAlias = Literal["names", "text", "document", "most"]
"""What is searched one after the other; the last two are of several words."""


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a search, as in `SearchRequest`."""

    files: str | None = None
    match_case: bool | None = None
    context: int = 0
    after_line: int = 0
    quotes: bool = True
    """Whether matching lines are shown, and not only their number."""
    count: bool = False
    """Whether to count the matches after a full page, for a short time."""


class SearchHit(msgspec.Struct, frozen=True):
    """A resource that matches, with its first matching lines in a search of text."""

    entry: CatalogEntry
    lines: tuple[MatchedLine, ...] = ()
    matches: int = 0
    """Number of matching lines; 0 for a match by name only."""
    has_more_lines: bool = False
    """Whether more lines match after those in `lines`."""
    is_counted: bool = True
    """Whether `matches` are all of them."""
    best: int | None = None
    """Number of the line that says most, as in `Hit`."""
    tier: int = 2
    """Place in its page: names that match exactly, lines that define what is sought, the others."""
    base: str = ""
    """URI of its mount, with a final slash."""


class SearchGap(msgspec.Struct, frozen=True):
    """A resource, or several alike, that were not searched; see `Unsearched`."""

    uri: str
    name: str
    """Its path in its mount; the mount's name for all of it."""
    why: str
    by_itself: bool = False
    count: int = 1
    in_part: bool = False


class SearchResults(msgspec.Struct, frozen=True):
    """A page of search results; `next_cursor` is None on the last one.

    `where` is what was searched last, names or text, in which `looked_at` of `total` resources
    (None: not known) were searched so far. `stopped` marks a page that ended at its deadline.
    `unsearched` is what was not searched on this page, what a search alone gets further with first;
    `unsearched_count` the number of these on all pages, of which `missed` are among those looked
    at. `unavailable` names the mounts that failed, which are among them, too. `notes` say how the
    query was taken. `matches` are the names and lines
    that match, on all pages; `has_more`: there may be more of them.
    """

    hits: Sequence[SearchHit]
    next_cursor: str | None
    where: Where = "names"
    looked_at: int = 0
    total: int | None = None
    stopped: bool = False
    unsearched: Sequence[SearchGap] = ()
    unsearched_count: int = 0
    missed: int = 0
    unavailable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    matches: int = 0
    has_more: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether everything was searched, on this page and those before."""
        return self.next_cursor is None and not self.unsearched_count


class _MountCursor(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Where the search of one mount continues; None: at its beginning."""

    mount: str
    after: bytes | None = None

    @property
    def text(self) -> str | None:
        return None if self.after is None else self.after.decode("utf-8", "surrogateescape")


class _StepState(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Where a step continues: in the mounts with a cursor, then in those from `rest` on.

    `looked_at` and `total` count its resources; `total` covers the mounts that were begun, and is
    None once a mount reports no total.
    """

    step: _Step
    cursors: list[_MountCursor]
    rest: str | None
    looked_at: _Count = 0
    total: _Count | None = 0

    @property
    def is_done(self) -> bool:
        return not self.cursors and self.rest is None


class _SearchState(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Where a search continues: the steps that are left, and the matches on earlier pages."""

    steps: list[_StepState]
    passed: _Count = 0
    has_uncounted: bool = False
    """Whether there may have been more matches on those pages."""
    unsearched: _Count = 0
    """Number of resources on those pages that were not searched."""
    missed: _Count = 0


def parse_query(
    query: str, where: Where | None, options: SearchOptions
) -> dict[_Step, SearchRequest]:
    """Return the requests of a search, in the order they are made.

    Raises:
        InvalidParameter: the query cannot be used; gives the reason.
    """
    if len(query) > MAX_QUERY_LENGTH:
        raise InvalidParameter(
            f"the query has {len(query)} characters; at most {MAX_QUERY_LENGTH} are taken"
        )
    if uris.display(query) != query or any(end in query for end in "\0\r\n"):
        raise InvalidParameter("the query is not one line of text")
    expression = _EXPRESSION.fullmatch(query) if has_expressions() else None
    words, typed = [query.strip()], ""
    if not _EXPRESSION.fullmatch(query):
        words, typed = _words(query)
    if not any(words):
        raise InvalidParameter(
            "the query is empty; write words, a glob of a name, or a phrase in quotes"
        )
    if len(words) > _MAX_WORDS:
        raise InvalidParameter(
            f"the query has {len(words)} words; at most {_MAX_WORDS} are taken. "
            "Put a phrase in quotes"
        )
    names = SearchRequest(
        text=" ".join(words),
        where="names",
        words=tuple(words) if len(words) > 1 else (),
        match_case=options.match_case,
        files=options.files,
        after_line=options.after_line,
        context=options.context,
    )
    text = msgspec.structs.replace(names, where="text")
    if expression is not None:
        text = msgspec.structs.replace(text, text=expression[1], is_pattern=True)
    requests: dict[_Step, SearchRequest] = {}
    if where != "text":
        requests["names"] = names
    if where != "names":
        requests["text"] = text
        if len(words) > 1:
            text = msgspec.structs.replace(text, text=typed)
            requests["document"] = msgspec.structs.replace(text, together="document")
            requests["most"] = msgspec.structs.replace(text, together="most")
            # One of two words is sought only if there is nothing else.
            later: tuple[Together, ...] = ("document", "most")[: len(words) - 1]
            requests["text"] = msgspec.structs.replace(text, then=later)
    return requests


def phrase(text: str) -> str:
    """Return the query that finds a text as it stands."""
    return f'"{_SPECIAL.sub(_ESCAPE, text)}"'


def _words(query: str) -> tuple[list[str], str]:
    """Return the words and phrases of a query, each once, and all of it as one phrase.

    Where there are others, stop words are left out of the words.
    """
    found: dict[str, str] = {}
    telling: dict[str, str] = {}
    tokens: list[str] = []
    for token in _TOKEN.finditer(query):
        word = token[2] if token[1] is None else _ESCAPED.sub(r"\1", token[1])
        if not word.strip():
            continue
        tokens.append(word)
        folded = word.casefold()
        found.setdefault(folded, word)
        # In capitals it is another word, or SQL.
        is_plain = token[1] is None and not (word.isupper() and len(word) > 1)
        if not is_plain or folded not in _STOP_WORDS:
            telling.setdefault(folded, word)
    return [*(telling or found).values()], " ".join(tokens)


async def search_mounts(
    mounts: Sequence[Mount],
    query: str,
    *,
    below: Path | None,
    where: Where | None,
    after: str | None,
    size: int,
    options: SearchOptions,
    progress: Progress | None,
    walk_page: int = fallback_search.WALK_PAGE,
    timing: Timing = DEFAULT_TIMING,
) -> SearchResults:
    """Return a page of hits in `mounts`, or below a path of a single mount.

    Raises:
        InvalidParameter: the query or the cursor cannot be used.
        ResourceError: with `below`, what its mount raises.
    """
    requests = parse_query(query, where, options)
    place = "" if below is None else uris.join(mounts[0].base, below)
    kind = f"{options.match_case} {options.files or ''}"
    scope = "\0".join(("search", where or "", place, kind, query))
    if "text" in requests:
        LineQuery(requests["text"])  # validated once, whatever the mounts are
    files = None if options.files is None else FileGlob(options.files)
    if "names" in requests and not _is_usable(requests["names"], is_needed=where == "names"):
        del requests["names"]
    names = [mount.name for mount in mounts]
    if after is not None:
        state = cursor.unpack(after, _SearchState, scope=scope)
        _check_state(state, requests, names)
    else:
        rest = names[0] if names else None
        state = _SearchState([_StepState(step, [], rest) for step in requests])
    page_search = _PageSearch(
        mounts,
        requests,
        state,
        options,
        files=files,
        below=below,
        is_alone=below is not None and await _is_document(mounts[0], below),
        size=size,
        progress=progress,
        is_continued=bool(after),
        walk_page=walk_page,
        timing=timing,
    )
    page = await page_search.page()
    if "text" in requests and _EXPRESSION.fullmatch(query) and not has_expressions():
        note = "Searched as it stands: no engine of regular expressions is installed."
        page = msgspec.structs.replace(page, notes=(*page.notes, note))
    if not state.steps:
        return page
    return msgspec.structs.replace(page, next_cursor=cursor.pack(state, scope=scope))


async def _is_document(mount: Mount, path: Path) -> bool:
    try:
        await mount.start()
        return (await mount.provider.metadata(path)).type == "document"
    except ResourceServerError:
        return False  # the search reports the reason


def _is_usable(names: SearchRequest, *, is_needed: bool) -> bool:
    """Return whether names can be searched: a text to find may look like a glob of too many."""
    try:
        NameQuery.of(names)
    except InvalidParameter:
        if is_needed:
            raise
        return False
    return True


def _check_state(
    state: _SearchState, requests: Mapping[_Step, SearchRequest], names: Sequence[str]
) -> None:
    steps = [each.step for each in state.steps]
    is_valid = steps == [step for step in requests if step in steps] and bool(steps)
    for each in state.steps:
        begun = [mount_cursor.mount for mount_cursor in each.cursors]
        is_unique = len(set(begun)) == len(begun)
        is_valid = is_valid and is_unique and {*begun, each.rest} <= {*names, None}
        is_valid = is_valid and all(
            len(mount_cursor.text or "") <= _MAX_NEXT_LENGTH for mount_cursor in each.cursors
        )
    if not is_valid:
        raise InvalidParameter(cursor.INVALID)


class _PageSearch:
    """Searches one page; `state` becomes where the next one continues, without steps at the end."""

    def __init__(
        self,
        mounts: Sequence[Mount],
        requests: Mapping[_Step, SearchRequest],
        state: _SearchState,
        options: SearchOptions,
        *,
        files: FileGlob | None,
        below: Path | None,
        is_alone: bool,
        size: int,
        progress: Progress | None,
        is_continued: bool,
        walk_page: int,
        timing: Timing,
    ) -> None:
        self._state = state
        self._mounts = {mount.name: mount for mount in mounts}
        self._order = [mount.name for mount in mounts]
        self._requests = {
            step: msgspec.structs.replace(
                request,
                lines=size * options.quotes,
                then=() if is_alone else request.then,
                on_progress=self._count,
                count_s=timing.search_count_s if options.count else 0.0,
            )
            for step, request in requests.items()
        }
        self._options = options
        self._files = files
        self._below = below
        self._size = size
        self._progress = progress
        self._is_continued = is_continued
        self._walk_page = walk_page
        self._timing = timing
        self._is_alone = is_alone
        self._deadline = time.monotonic() + (timing.search_alone_s if is_alone else timing.search_s)
        self._hits: list[SearchHit] = []
        self._unavailable: list[str] = []
        self._notes: list[str] = []
        self._beyond: dict[tuple[_Step, str], tuple[int, bool]] = {}
        """By step and mount: the matches after this page, and whether those are all."""
        self._later: dict[tuple[str, Together], SearchPage] = {}
        """By mount and the way in which the words occur: first pages that are known already."""
        self._gave_way = set[str]()
        """Mounts whose text is searched further when those after them have had their turn."""
        self._rounds = 0
        self._gaps: list[SearchGap] = []
        self._looked_at = self._reported = 0

    async def page(self) -> SearchResults:
        """Return the page without its cursor."""
        state = self._state
        begun = last = state.steps[0]
        searches_text = any(self._is_of_text(step) for step in state.steps)
        for step in state.steps:
            if step is not begun and self._is_needless(step):
                continue
            limit = self._size
            if searches_text and not self._is_of_text(step):
                limit = max(limit // _NAMES_SHARE, 1)
            if len(self._hits) >= limit or not self._has_time():
                break
            last = step
            await self._search_step(step, limit)
            if not step.is_done and self._is_of_text(step):
                break  # the text beside names that are left is searched, too
        if last.step == "most" and self._has_two_words and self._hits:
            self._notes.insert(0, _ONE_OF_TWO)
        self._hits.sort(key=lambda hit: hit.tier)
        total = last.total if last.rest is None else None
        state.steps[:] = [
            step
            for step in state.steps
            if not (step.is_done or (step is not last and self._is_needless(step)))
        ]
        stopped = bool(state.steps) and not self._has_time()
        matches, has_more = await self._matches(is_counted=self._options.count and not stopped)
        state.unsearched += sum(gap.count for gap in self._gaps)
        state.missed += sum(gap.count for gap in self._gaps if not gap.in_part)
        return SearchResults(
            self._hits,
            None,
            where=self._requests[last.step].where,
            looked_at=last.looked_at if total is None else min(last.looked_at, total),
            total=total,
            stopped=stopped and len(self._hits) < self._size,
            unsearched=tuple(sorted(self._gaps, key=lambda gap: not gap.by_itself)),
            unsearched_count=state.unsearched,
            missed=state.missed,
            unavailable=tuple(self._unavailable),
            notes=tuple(dict.fromkeys(self._notes)),
            matches=matches,
            has_more=has_more,
        )

    @property
    def _has_two_words(self) -> bool:
        return "most" in self._requests and len(self._requests["most"].words) == 2

    def _is_needless(self, step: _StepState) -> bool:
        """Return whether a step is one for the case that nothing was found, and something was."""
        has_found = bool(self._hits) or self._state.passed > 0
        return step.step == "most" and self._has_two_words and has_found

    def _is_of_text(self, step: _StepState) -> bool:
        return self._requests[step.step].where == "text"

    def _has_time(self) -> bool:
        # At least one round, however late it is: every page makes progress.
        return not self._rounds or time.monotonic() < self._deadline

    async def _search_step(self, step: _StepState, limit: int) -> None:
        """Search until the page has `limit` hits, the time is over, or the step is done."""
        found = len(self._hits)
        while not step.is_done and len(self._hits) < limit and self._has_time():
            if self._is_alone and len(self._hits) > found:
                return  # a large document, which has more: the lines of a page are quoted
            cursors = self._next_cursors(step)
            # A round of names takes as many hits from each mount: it needs room for one of each.
            if self._hits and limit - len(self._hits) < len(cursors):
                return
            self._rounds += 1
            if self._is_of_text(step):
                await self._search_text(step, cursors[0])
            else:
                await self._search_names(step, cursors, limit - len(self._hits))

    def _next_cursors(self, step: _StepState) -> list[_MountCursor]:
        """Return the mounts to search next: several by name, but one by text.

        By text, a mount that has ended its page early gives way to those that follow.
        """
        if not self._is_of_text(step):
            while len(step.cursors) < _CONCURRENT_MOUNTS and step.rest is not None:
                self._begin(step)
            return step.cursors[:_CONCURRENT_MOUNTS]
        waiting = [each for each in step.cursors if each.mount not in self._gave_way]
        if not waiting and step.rest is not None:
            waiting = [self._begin(step)]
        if not waiting:
            self._gave_way.clear()
        return (waiting or step.cursors)[:1]

    def _begin(self, step: _StepState) -> _MountCursor:
        """Begin with the next mount."""
        begun = _MountCursor(step.rest or "")
        step.cursors.append(begun)
        following = self._order.index(begun.mount) + 1
        step.rest = self._order[following] if following < len(self._order) else None
        return begun

    # -- counting

    async def _matches(self, *, is_counted: bool) -> tuple[int, bool]:
        """Return the number of matches on all pages, and whether there may be more."""
        state = self._state
        here = sum(hit.matches or 1 for hit in self._hits)
        if self._unavailable or not all(hit.is_counted for hit in self._hits):
            state.has_uncounted = True
        has_more = state.has_uncounted
        beyond = 0
        until = min(time.monotonic() + self._timing.search_count_s, self._deadline)
        for step in state.steps:
            for mount_cursor in self._left_of(step):
                known = self._beyond.get((step.step, mount_cursor.mount))
                if known is None:
                    known = (0, False)
                    if is_counted and time.monotonic() < until:
                        known = await self._count_mount(step, mount_cursor, until)
                beyond += known[0]
                has_more = has_more or not known[1]
        passed, state.passed = state.passed, state.passed + here
        return passed + here + beyond, has_more

    def _left_of(self, step: _StepState) -> list[_MountCursor]:
        rest = [] if step.rest is None else self._order[self._order.index(step.rest) :]
        return [*step.cursors, *map(_MountCursor, rest)]

    async def _count_mount(
        self, step: _StepState, mount_cursor: _MountCursor, until: float
    ) -> tuple[int, bool]:
        """Count the matches of a mount that this page has not come to."""
        request = msgspec.structs.replace(
            self._requests[step.step], on_progress=None, count_s=until - time.monotonic()
        )
        task = asyncio.create_task(self._search_mount(request, mount_cursor, 1, until))
        done, _ = await asyncio.wait([task], timeout=until - time.monotonic())
        task.cancel()
        found = task.result() if done and not task.cancelled() else None
        if not isinstance(found, SearchPage):
            return 0, False
        hits = [hit for hit in found.hits if self._is_sought(hit)]
        counts = [_matches_of(hit) for hit in hits]
        return (
            found.beyond + sum(count or 1 for count, _ in counts),
            (found.next is None or found.is_counted) and all(is_all for _, is_all in counts),
        )

    def _is_sought(self, hit: Hit) -> bool:
        # A provider may not know of `files`.
        return self._files is None or self._files.matches(hit.resource.path)

    # -- hits

    async def _search_names(
        self, step: _StepState, cursors: Sequence[_MountCursor], room: int
    ) -> None:
        """Take as many hits from each mount as the page has room for, and rank them together."""
        cursors = cursors[:room]
        limit = room // len(cursors)
        pages = await self._search(step, cursors, limit)
        query = NameQuery.of(self._requests["names"])
        ranked: list[tuple[RankKey, SearchHit]] = []
        for mount_cursor, page in zip(cursors, pages, strict=True):
            for hit in self._take_hits(step, mount_cursor, page):
                path = hit.entry.resource.path
                rank = query.rank(path)
                ranked.append((query.key(path, OTHER if rank is None else rank), hit))
        # Mounts in their order where only the path tells.
        ranked.sort(key=lambda hit: hit[0][:3])
        self._hits += [
            msgspec.structs.replace(hit, tier=0) if key[:2] == (EXACT, False) else hit
            for key, hit in ranked
        ]

    async def _search_text(self, step: _StepState, mount_cursor: _MountCursor) -> None:
        limit = self._size - len(self._hits)
        (page,) = await self._search(step, [mount_cursor], limit)
        if page is not None and page.next is not None and len(page.hits) < limit:
            self._gave_way.add(mount_cursor.mount)
        self._hits += self._take_hits(step, mount_cursor, page)

    def _take_hits(
        self, step: _StepState, mount_cursor: _MountCursor, found: SearchPage | None
    ) -> list[SearchHit]:
        """Return the hits of a mount, and store where its search continues."""
        at = step.cursors.index(mount_cursor)
        if found is None:
            del step.cursors[at]
            return []
        if mount_cursor.after is None:
            if step.total is None or found.total is None:
                step.total = None
            else:
                step.total += found.total
        step.looked_at += found.looked_at
        mount = self._mounts[mount_cursor.mount]
        self._later |= {(mount.name, way): page for way, page in found.later.items()}
        if step.step in ("names", "text"):
            # The later steps come to the same documents again.
            self._gaps = [gap for gap in self._gaps if gap.count]
            self._gaps += [_gap(mount, each) for each in found.unsearched]
        if found.next is None:
            del step.cursors[at]
        else:
            step.cursors[at] = _MountCursor(mount_cursor.mount, _packed(found.next))
            self._beyond[step.step, mount.name] = found.beyond, found.is_counted
        return [self._hit(mount, hit) for hit in found.hits if self._is_sought(hit)]

    def _hit(self, mount: Mount, hit: Hit) -> SearchHit:
        limit = max(self._size, _MAX_LINES) * (2 * self._options.context + 1)
        lines = hit.lines[:limit]
        matches, is_counted = _matches_of(hit)
        return SearchHit(
            mount.entry(hit.resource),
            _clipped(lines),
            matches,
            has_more_lines=hit.has_more_lines or len(lines) < len(hit.lines),
            is_counted=is_counted,
            best=hit.best,
            tier=1 if hit.rank is not None and ranking.is_definition(hit.rank) else 2,
            base=mount.base,
        )

    async def _search(
        self, step: _StepState, cursors: Sequence[_MountCursor], limit: int
    ) -> list[SearchPage | None]:
        """Search several mounts, each in a task; None for one that fails or takes too long."""
        request = self._requests[step.step]
        tasks = [
            asyncio.create_task(self._search_mount(request, mount_cursor, limit, self._deadline))
            for mount_cursor in cursors
        ]
        try:
            await self._wait(tasks)
        finally:
            for task in tasks:
                # Not awaited: a task that hangs may not end even when it is cancelled.
                task.cancel()
        return [
            self._outcome(mount_cursor, task)
            for mount_cursor, task in zip(cursors, tasks, strict=True)
        ]

    async def _wait(self, tasks: Sequence[asyncio.Task[SearchPage | BaseException]]) -> None:
        until = self._deadline + self._timing.search_mount_grace_s
        while pending := [task for task in tasks if not task.done()]:
            left = until - time.monotonic()
            if left <= 0:
                return
            await asyncio.wait(pending, timeout=min(left, self._timing.search_progress_s))
            if self._is_alone:
                self._looked_at += 1  # progress of a single document is that of the clock
            if self._progress is not None and self._looked_at > self._reported:
                self._reported = self._looked_at
                self._progress(self._reported, None)

    async def _search_mount(
        self, request: SearchRequest, mount_cursor: _MountCursor, limit: int, deadline: float
    ) -> SearchPage | BaseException:
        """Return the page of one mount, or its error; a task's exception could get lost."""
        mount = self._mounts[mount_cursor.mount]
        known = self._later.get((mount.name, request.together))
        if known is not None and mount_cursor.after is None and len(known.hits) <= limit:
            return known
        search = partial(
            fallback_search.search_mount,
            mount,
            walk_page=self._walk_page,
            read_s=self._timing.search_read_s,
        )
        if mount.provider.searches(request.where):
            search = mount.provider.search
        below = self._below or ()
        try:
            await mount.start()
            found = await search(
                request,
                below=below,
                after=mount_cursor.text,
                limit=limit,
                deadline=deadline,
            )
            _check_found(found, mount_cursor, below, limit)
        except Exception as error:
            return error
        return found

    def _outcome(
        self, mount_cursor: _MountCursor, task: asyncio.Task[SearchPage | BaseException]
    ) -> SearchPage | None:
        error: BaseException = DeadlineExceeded(
            "the search has not ended in its time, which no option raises; search a smaller part"
        )
        if task.done() and not task.cancelled():
            outcome = task.result()
            if isinstance(outcome, SearchPage):
                return outcome
            error = outcome
        mount = self._mounts[mount_cursor.mount]
        if isinstance(error, NotSearchable) and "names" in self._requests:
            self._gaps.append(_gap(mount, Unsearched(self._below or (), str(error), in_part=True)))
            return None
        if self._below is not None or (self._is_continued and isinstance(error, InvalidParameter)):
            raise error
        log_failure(error, f"searching mount {mount_cursor.mount} failed")
        if mount.name not in self._unavailable:
            self._unavailable.append(mount.name)
            why = LATE if isinstance(error, DeadlineExceeded) else FAILED
            self._gaps.append(
                SearchGap(mount.base, f"mount {mount.name}", why, by_itself=True, in_part=True)
            )
        return None

    def _count(self, count: int) -> None:
        self._looked_at += count


def _matches_of(hit: Hit) -> tuple[int, bool]:
    """Return the number of matching lines, and whether those are all."""
    if hit.matches is not None:
        return hit.matches, hit.is_counted
    return sum(not line.is_context for line in hit.lines), not hit.has_more_lines


def _gap(mount: Mount, found: Unsearched) -> SearchGap:
    name = uris.display("/".join(found.path)) or mount.name
    why = uris.display(" ".join(found.why[:_MAX_LINE_LENGTH].split()))
    uri = uris.join(mount.base, found.path)
    return SearchGap(uri, name, why, found.by_itself, found.count, found.in_part)


def _packed(place: str | None) -> bytes | None:
    return None if place is None else place.encode("utf-8", "surrogateescape")


def _check_found(found: SearchPage, mount_cursor: _MountCursor, below: Path, limit: int) -> None:
    """Check that a provider's search keeps within its request and makes progress.

    Raises:
        ResourceServerError: it does not.
    """
    if len(found.hits) > limit:
        raise ResourceServerError("search() returned more than `limit` hits")
    if any(hit.resource.path[: len(below)] != below for hit in found.hits):
        raise ResourceServerError("search() returned a resource that is not below `below`")
    gaps = found.unsearched
    if len(gaps) > _MAX_GAPS or any(not 0 <= gap.count < _MAX_UNSEARCHED for gap in gaps):
        raise ResourceServerError("search() returned more in `unsearched` than it may")
    if any(gap.path[: len(below)] != below[: len(gap.path)] for gap in gaps):
        raise ResourceServerError("search() did not search a resource that is not below `below`")
    if found.next is not None and (
        found.next == mount_cursor.text or len(found.next) > _MAX_NEXT_LENGTH
    ):
        raise ResourceServerError("search() returned a `next` that is too long, or `after` again")
    _packed(found.next)


def _clipped(lines: Sequence[MatchedLine]) -> tuple[MatchedLine, ...]:
    return tuple(
        MatchedLine(line.number, uris.display(_shortened(line.text)), line.is_context)
        for line in lines
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_LINE_LENGTH else f"{text[:_MAX_LINE_LENGTH]}…"
