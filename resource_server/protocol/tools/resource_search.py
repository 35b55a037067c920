"""The tool `search_resources`: names and lines that match, and the number of all matches."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec

from resource_server import uris
from resource_server.catalog.federated_search import SearchGap, SearchOptions, SearchResults
from resource_server.catalog.tree_listing import common_base
from resource_server.protocol import content_blocks
from resource_server.protocol.call import Call, Result
from resource_server.protocol.tools.budget import characters
from resource_server.protocol.tools.results import tool_result
from resource_server.provider.search import MatchedLine, Where

_DEFAULT_LIMIT = 100
_DEFAULT_UNQUOTED = 300
"""The same without lines: these resources take fewer characters than so many lines."""
_SEARCHED: dict[Where, str] = {"names": "names", "text": "documents"}
_MAX_GAPS = 3
"""Entries of what was not searched that a result names."""
_MAX_LINE_DIGITS = 9
"""A cursor of so few digits is the number of a line; one of the catalog is longer."""

_encode = msgspec.json.Encoder().encode


class SearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Arguments of `search_resources`."""

    query: str
    uri: str | None = None
    where: Literal["names", "text"] | None = msgspec.field(default=None, name="in")
    files: str | None = None
    context: Annotated[int, msgspec.Meta(ge=0, le=5)] | None = None
    case: bool | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    show: Literal["lines", "files", "counts"] | None = None
    cursor: str | None = None

    @property
    def quotes(self) -> bool:
        """Whether matching lines are shown."""
        return self.show in (None, "lines")

    @property
    def counts(self) -> bool:
        """Whether the numbers of matching lines are shown alone; names have none."""
        return self.show == "counts" and self.where != "names"


async def search_resources(call: Call, arguments: SearchArguments) -> Result:
    """Find resources by name or by lines of their text.

    Raises:
        InvalidParameter: the query, `files` or `cursor` cannot be used.
    """
    limit = arguments.limit or (_DEFAULT_LIMIT if arguments.quotes else _DEFAULT_UNQUOTED)
    budget = call.server.toolbox.settings.budget
    while True:
        page = _ResultsPage(arguments, await _search(call, arguments, limit))
        page.show(limit, budget)
        if page.is_cut_short:
            limit = page.lines
            continue
        if page.fits(budget) or limit == 1:
            break
        # A cursor continues after a whole page only: search again for a shorter one.
        limit = page.shorter(budget)
    return tool_result(call, [content_blocks.text_block(page.text())], page.json())


async def _search(call: Call, arguments: SearchArguments, limit: int) -> SearchResults:
    # Some models send an empty string for an optional argument.
    after = arguments.cursor or None
    where = "text" if arguments.counts else arguments.where
    after_line = _line_number(after)
    if after_line is not None:
        after, where = None, "text"
    return await call.server.catalog.search(
        arguments.query,
        uri=arguments.uri or None,
        where=where,
        after=after,
        limit=limit,
        options=SearchOptions(
            files=arguments.files or None,
            match_case=arguments.case,
            context=(arguments.context or 0) * arguments.quotes,
            quotes=arguments.quotes,
            after_line=after_line or 0,
            count=True,
        ),
        progress=call.progress,
    )


def _line_number(cursor: str | None) -> int | None:
    """Return the line that a cursor goes on after; None for a cursor of the catalog."""
    if cursor is None or not cursor.isascii() or not cursor.isdigit():
        return None
    return int(cursor) if len(cursor) <= _MAX_LINE_DIGITS else None


class _File:
    """A resource of the page: found by its name, by lines, or by both."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.is_named = False
        """Whether its name matches."""
        self.matches = 0
        """Number of its matching lines."""
        self.is_counted = True
        """Whether those are all."""
        self.lines: Sequence[MatchedLine] = ()
        self.has_more = False
        """Whether more lines match after those."""
        self.best: int | None = None
        """Number of the line that says most; if it is the last one, others may be before it."""
        self.goes_on = False
        """Whether an earlier call has shown that line."""
        self.shown: Sequence[MatchedLine] = ()
        self.count = 0
        """Number of the matching lines among `shown`."""

    @property
    def offered(self) -> int:
        """Number of the matching lines that can be shown."""
        return sum(not line.is_context for line in self.lines)

    def show(self, count: int, context: int) -> None:
        """Show `count` matching lines, the first and the best, each with the lines around it."""
        numbers = [line.number for line in self.lines if not line.is_context]
        first = numbers[:count]
        if self.best in numbers[count:] and not self.goes_on:
            first[-1:] = [self.best]
        self.count = len(first)
        # Not shown for itself, a line that matches is only context, too.
        self.shown = [
            line if line.number in first else msgspec.structs.replace(line, is_context=True)
            for line in self.lines
            if any(abs(line.number - number) <= context for number in first)
        ]

    @property
    def next(self) -> str | None:
        """The cursor of the other lines; None if there are none, or if none was shown."""
        shown = [line.number for line in self.shown if not line.is_context]
        if not shown or not (self.has_more or self.count < self.offered):
            return None
        numbers = [line.number for line in self.lines if not line.is_context]
        if self.has_more and numbers[-1] == self.best:
            del numbers[-1]
        # After the last line before which every one was shown.
        last = 0
        for number, one in zip(numbers, shown, strict=False):
            if number != one:
                break
            last = number
        return str(last)

    @property
    def number(self) -> str:
        """The number of matching lines as text."""
        return str(self.matches) if self.is_counted else f"{self.matches}+"

    def text(self) -> str:
        """Return the URI with the number of matches, then the lines."""
        if not self.matches:
            return self.uri
        count = self.number
        if self.next is not None:
            count += f", {self.count} shown, cursor={self.next}"
        elif not self.shown:
            count += ", 0 shown"
        rows = [f"{self.uri} ({count})"]
        has_context = any(line.is_context for line in self.shown)
        before = None
        for line in self.shown:
            if has_context and before is not None and line.number > before + 1:
                rows.append("--")
            rows.append(f"{line.number}{'-' if line.is_context else ':'} {line.text}")
            before = line.number
        return "\n".join(rows)

    def json(self, base: str) -> dict[str, Any]:
        """Return the same as an object, with the path below `base`."""
        members: dict[str, Any] = {"path": self.uri.removeprefix(base)}
        if self.matches != self.count:
            members["matches"] = self.matches
        if self.matches:
            members["lines"] = [
                (line.number, line.text, "-") if line.is_context else (line.number, line.text)
                for line in self.shown
            ]
        if self.next is not None:
            members["next"] = self.next
        return members


class _ResultsPage:
    """A page of results in both forms, with as many lines as fit."""

    def __init__(self, arguments: SearchArguments, found: SearchResults) -> None:
        self._arguments = arguments
        self._found = found
        self._quotes = arguments.quotes
        self._context = arguments.context or 0
        files: dict[str, _File] = {}
        for hit in found.hits:
            uri = uris.readable(hit.entry.uri)
            file = files.setdefault(uri, _File(uri))
            if hit.matches:
                # A large document may have several hits, one for each part of it.
                file.lines, file.matches = (*file.lines, *hit.lines), file.matches + hit.matches
                file.has_more, file.is_counted = hit.has_more_lines, hit.is_counted
                file.best = hit.best
                file.goes_on = _line_number(arguments.cursor) is not None
            else:
                file.is_named = True
        self._files = [*files.values()]
        self._base = _base(found)

    def show(self, limit: int, budget: int) -> None:
        """Show at most `limit` matches, alike many of each file, within the budget if possible.

        Shows at least one line per file, even over the budget.
        """
        if not self._quotes:
            return
        offered = [file.offered for file in self._files]
        room = max(limit - sum(file.is_named for file in self._files), sum(map(bool, offered)))
        most = _largest(
            1, max(offered, default=1), lambda count: sum(min(n, count) for n in offered) <= room
        )
        spare = room - sum(min(n, most) for n in offered)
        for file, count in zip(self._files, offered, strict=True):
            more = spare > 0 and count > most
            spare -= more
            file.show(most + more, self._context)
        if not self.fits(budget):
            _largest(1, most, lambda count: self._fits(count, budget))

    def fits(self, budget: int) -> bool:
        """Return whether both forms are within the budget."""
        return self._size() <= budget

    @property
    def lines(self) -> int:
        """Number of the matching lines that are shown."""
        return sum(file.count for file in self._files)

    @property
    def is_cut_short(self) -> bool:
        """Whether the next page of the only document searched would pass over lines."""
        is_alone = self._found.next_cursor is not None and len(self._files) == 1
        file = self._files[0] if is_alone else None
        asked = uris.readable(self._arguments.uri or "")
        return file is not None and file.uri == asked and 0 < file.count < file.offered

    def shorter(self, budget: int) -> int:
        """Return about how many hits are within the budget, at most 3/4 of those found."""
        hits = len(self._found.hits)
        return max(1, min(hits * 3 // 4, hits * budget // self._size()))

    def _size(self) -> int:
        return max(len(self.text()), characters(self.json()))

    def _fits(self, count: int, budget: int) -> bool:
        """Show `count` lines of each file; return whether they are within the budget."""
        for file in self._files:
            file.show(count, self._context)
        return self.fits(budget)

    @property
    def _shown(self) -> int:
        return sum(
            (file.count if self._quotes else file.matches) + file.is_named for file in self._files
        )

    @property
    def _next(self) -> str | None:
        """The cursor of the next page, or of the other lines of the only document searched."""
        if self._found.next_cursor is not None or len(self._files) != 1:
            return self._found.next_cursor
        asked = self._arguments.uri
        file = self._files[0]
        return file.next if asked and uris.readable(asked) == file.uri else None

    def json(self) -> bytes:
        """Return the structured content."""
        found = self._found
        members: dict[str, Any] = {
            "matches": found.matches,
            "shown": self._shown,
            "complete": found.is_complete,
        }
        if found.has_more:
            members["atLeast"] = True
        members["base"] = self._base
        if self._quotes:
            members["files"] = [file.json(self._base) for file in self._files]
        else:
            counts = {file.uri.removeprefix(self._base): file.matches for file in self._files}
            members |= {"counts": counts} if self._arguments.counts else {"files": [*counts]}
        if self._next is not None:
            members["next"] = self._next
        if found.stopped:
            members |= {"stopped": True, "lookedAt": found.looked_at}
            members |= {} if found.total is None else {"total": found.total}
        if self._gaps:
            members["unsearched"] = [self._gap_json(gap) for gap in self._gaps]
            members["unsearchedCount"] = found.unsearched_count
        if found.notes:
            members["notes"] = found.notes
        return _encode(members)

    def _gap_json(self, gap: SearchGap) -> dict[str, Any]:
        """Return what was not searched as an object; without lines, as short as in the text."""
        members: dict[str, Any] = {"uri": uris.readable(gap.uri), "why": gap.why}
        if gap.count < 2:
            return members
        if not self._quotes:
            del members["uri"]
        return {**members, "count": gap.count}

    @property
    def _gaps(self) -> Sequence[SearchGap]:
        return self._found.unsearched[:_MAX_GAPS]

    def text(self) -> str:
        """Return the files with their lines, and what is left out."""
        return "\n".join([self._head(), *self._rows(), *self._notices()])

    def _rows(self) -> Sequence[str]:
        """Return the files with their lines, or their paths below the base that is named first."""
        if self._quotes or not self._files:
            return [file.text() for file in self._files]
        head = "1 resource" if len(self._files) == 1 else f"{len(self._files)} resources"
        head += f" below {self._base}"
        paths = [file.uri.removeprefix(self._base) for file in self._files]
        if not self._arguments.counts:
            return [f"{head}:", *paths]
        counted = zip(paths, self._files, strict=True)
        return [
            f"{head} (path, matching lines):",
            *(f"{path} {file.number}" for path, file in counted),
        ]

    def _head(self) -> str:
        """Return the first line: the number of matches, and what was not searched."""
        found = self._found
        count = "1 match" if found.matches == 1 else f"{found.matches} matches"
        if self._files:
            head = f"at least {count}" if found.has_more else count
            last = "the last " if self._arguments.cursor and self._next is None else ""
            head += "" if self._shown == found.matches else f", {last}{self._shown} shown"
        elif self._next is not None:
            head = "Nothing yet"
        elif found.matches:
            head = "No more matches"
        elif found.unsearched_count:
            head = count
        else:
            head = "Nothing was found."
            if len(self._arguments.query.split()) > 1:
                head += " Nothing has most of these words: try fewer of them."
            return head
        if found.stopped or found.unsearched_count or self._gaps:
            head += self._coverage()
        return head

    def _coverage(self) -> str:
        """Return how many documents were searched, and which were not, with the call for them."""
        found, gaps = self._found, self._gaps
        searched = max(found.looked_at - found.missed, 0)
        total = found.looked_at if found.next_cursor is None else found.total
        said = str(searched) if total is None else f"{searched} of {total}"
        is_one = max(total or 0, found.looked_at) < 2
        said = "" if is_one else f" in {said} {_SEARCHED[found.where]}"
        if found.stopped and self._files:
            said += " so far"
        named = [_gap_text(gap) for gap in gaps]
        others = found.unsearched_count - sum(gap.count for gap in gaps)
        if others:
            named.append(f"{others} others" if gaps else f"{others}, named on earlier pages")
        if named:
            said += f"; not searched: {', '.join(named)}"
        if gaps and gaps[0].by_itself:
            again = self._again(uri=uris.readable(gaps[0].uri), cursor=None)
            said += f". Search {'it' if len(named) == 1 else 'the first'} by {again}"
        return said

    def _notices(self) -> list[str]:
        notices = list(self._found.notes)
        cut = [file for file in self._files if file.next is not None]
        if cut and cut[0].next != self._next:
            again = self._again(uri=cut[0].uri, cursor=cut[0].next)
            notices.append(f"For the other lines of a file, call again as with {again}")
        if self._next is not None:
            again = self._again(cursor=self._next)
            notices.append(f"There is more: call again with {again}")
        return notices

    def _again(self, **changes: str | None) -> str:
        """Return the arguments of the call that goes on."""
        return _encode(msgspec.structs.replace(self._arguments, **changes)).decode()


def _base(found: SearchResults) -> str:
    """Return the URI with which those of all hits begin, or else of as many as possible."""
    bases = Counter(uris.readable(hit.base) for hit in found.hits)
    return common_base([*bases]) or "".join(base for base, _ in bases.most_common(1))


def _gap_text(gap: SearchGap) -> str:
    return f"{gap.name} ({gap.why})" if gap.count < 2 else f"{gap.count} {gap.why}"


def _largest(least: int, most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number that fits, tried last; `least` if none does."""
    found = least + bisect_left(range(least + 1, most + 1), True, key=lambda n: not fits(n))
    fits(found)
    return found
