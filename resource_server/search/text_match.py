"""Matching of lines in text, by words or by a regular expression.

A word matches as a part of a line, in any case unless the request says otherwise. Of several words,
the lines with most of them match. An expression is one of RE2, which takes linear time whatever is
written; it is matched against each line. Text is UTF-8 of any length. It is searched in slices of
at most 64 KiB, between which `check` may raise.

A line longer than a slice is split into slices that overlap by 4 KiB. Longer matches in such a line
may be missed; `^` and `$` still match at the ends of the line.
"""

from __future__ import annotations

import copy
import importlib
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from resource_server.errors import InvalidParameter
from resource_server.provider import Path, Resource
from resource_server.provider.search import Hit, MatchedLine, SearchRequest, Together
from resource_server.runtime import extras
from resource_server.search.ranking import BEST, PART, PROSE, DocumentRanker, LineRank, LineRanker

MAX_LINES = 5
"""Matching lines quoted per document, even if others have many."""
MAX_COUNTED = 10_000
"""Matching lines counted of one document; it may have more."""
MAX_LINE_LENGTH = 200
"""Maximum characters quoted of a line."""

_MAX_BEFORE = 60
"""Maximum characters quoted before the match."""
_SLICE = 64 * 1024
"""Bytes searched at a time; RE2 may take a second for as many, and cannot be interrupted."""
_OVERLAP = 4096
"""Bytes shared by the slices of a long line: no shorter match is missed."""
_MAX_MEMORY = 512 * 1024
"""Memory limit of one compiled expression. To compile one that just fits takes 3 ms without the
GIL being released; with RE2's default of 8 MiB it takes 250 ms."""
_MULTI_LINE = "(?m)"

Check: TypeAlias = Callable[[], None]
Keep: TypeAlias = Mapping[Together, int]
"""How many lines to quote of a document, by the way in which the words occur in it."""
_Fold: TypeAlias = Callable[[bytes], bytes]
Find: TypeAlias = Callable[[bytes, int, int], int]
"""Returns where the first match between two positions begins, or -1."""


class Matches(msgspec.Struct, frozen=True):
    """The matching lines of one document."""

    lines: tuple[MatchedLine, ...]
    """The first ones and the best one, with the lines around them, ordered by number."""
    count: int
    """Number of matching lines, at most `MAX_COUNTED`."""
    shown: int
    """Number of matching lines in `lines`."""
    has_more: bool = False
    """Whether more lines match after those, or between the last two."""
    best: int | None = None
    """Number of the line that defines a word or is a heading; None if all are prose."""
    rank: int = 0
    """Rank of the document (`ranking`)."""
    together: Together = "line"
    """How the words of the request occur."""

    @property
    def is_counted(self) -> bool:
        """Whether `count` are all."""
        return self.count < MAX_COUNTED

    def first(self, count: int, context: int) -> Matches:
        """Return the matches with the first `count` lines of `lines`, and those around them."""
        numbers = [line.number for line in self.lines if not line.is_context][: max(count, 0)]
        last = numbers[-1] if numbers else -context
        lines = [
            line if line.number <= last else msgspec.structs.replace(line, is_context=True)
            for line in self.lines
            if line.number <= last + context
        ]
        has_more = self.has_more or self.shown > len(numbers)
        return msgspec.structs.replace(
            self, lines=tuple(lines), shown=len(numbers), has_more=has_more
        )

    def after(self, earlier: Matches, lines_before: int) -> Matches:
        """Return the matches of `earlier` text together with these, of text that follows it."""
        lines = [
            msgspec.structs.replace(line, number=line.number + lines_before) for line in self.lines
        ]
        best = None if self.best is None else self.best + lines_before
        ranks = [each.rank for each in (earlier, self) if each.count]
        return Matches(
            (*earlier.lines, *lines),
            min(earlier.count + self.count, MAX_COUNTED),
            earlier.shown + self.shown,
            earlier.has_more or self.has_more,
            earlier.best or (best if best in [line.number for line in lines] else None),
            min(ranks, default=0),
            self.together,
        )

    def hit(self, resource: Resource) -> Hit:
        """Return the hit of a document."""
        return Hit(
            resource,
            self.lines,
            self.has_more,
            self.count,
            self.is_counted,
            best=self.best,
            rank=self.rank,
        )


NO_MATCHES = Matches((), 0, 0)
_NO_LINE: tuple[LineRank, int] = (PART, PROSE, 2), 0


class _Term(Protocol):
    """A word or an expression. Positions are those of the whole data."""

    def first(self, data: bytes, begin: int, end: int, /) -> int:
        """Return where the first match begins, or -1."""
        ...

    def lines(self, data: bytes, begin: int, end: int) -> Iterator[int]:
        """Yield where the first match in each matching line begins."""
        ...

    def count(self, data: bytes, /) -> int:
        """Return about how often it matches in a small document."""
        ...


class LineQuery:
    """A search query for lines.

    Raises:
        InvalidParameter: not a valid regular expression; gives the reason.
    """

    def __init__(self, request: SearchRequest) -> None:
        self._ends_lines = request.is_pattern and "$" in request.text
        self._terms: Sequence[_Term]
        if request.is_pattern:
            find = _expression(request.text, ignores_case=request.match_case is False)
            self._terms = (_Expression(find),)
        else:
            # A long word is rare: it rules out most documents.
            words = sorted(request.words or (request.text,), key=len, reverse=True)
            fold: _Fold = _Folding() if len(words) > 1 else bytes.lower
            exactly = bool(request.match_case)
            self._terms = [_word(word, fold, exactly=exactly) for word in words]
        is_ascii = request.text.isascii() and all(map(str.isascii, request.words))
        self.is_ascii = is_ascii and not request.is_pattern
        """Whether what is sought has the same bytes in nearly every encoding."""
        self._ranker = LineRanker(request)
        self._together: Together = request.together
        self._context = request.context
        self.after_line = request.after_line

    def after(self, line: int) -> LineQuery:
        """Return this query for text in which lines are quoted after a line."""
        query = copy.copy(self)
        query.after_line = max(line, 0)
        return query

    def may_be_in(
        self, data: bytes, check: Check | None = None, ways: Collection[Together] = ()
    ) -> bool:
        """Return whether a line may match; `data` need not be text.

        `ways` are those in which the words may occur, by default that of the request.
        """
        data = self._with_ends(data)
        if len(self._terms) == 1:
            return _is_in(self._terms[0], data, check)
        most = self._may_miss if "most" in (ways or (self._together,)) else 0
        for term in self._terms:
            most -= not _is_in(term, data, check)
            if most < 0:
                return False
        return True

    def matches(
        self,
        data: bytes,
        check: Check | None = None,
        keep: int | Keep = MAX_LINES,
        path: Path = (),
    ) -> Matches:
        """Return the matching lines: `keep` of them, their number, and the rank of the document.

        Those kept are the first ones. If none of these is the best and that is not prose, it is
        kept instead of the last. The words occur as in the request, or in a way that is in `keep`.
        """
        ways: Keep = {self._together: keep} if isinstance(keep, int) else keep
        data = self._with_ends(data)
        ranker = self._ranker.document(path)
        kept = _Kept(max(ways.values()), _start_of_line(data, self.after_line), ranker)
        together, missing = self._together, 0
        if len(self._terms) == 1:
            count = self._with_term(data, check, kept)
        else:
            together, count, missing = self._with_words(data, check, kept, ways)
        if not count:
            return NO_MATCHES
        kept.limit(ways[together])
        place = None if self.after_line else kept.keep_best()
        best = None if place is None else 1 + _count_newlines(data, 0, place)
        lines = _quoted_lines(data, kept.places, self._context)
        rank = ranker.rank(data, *kept.best, missing)
        return Matches(lines, count, len(kept.places), kept.has_more, best, rank, together)

    def _with_ends(self, data: bytes) -> bytes:
        """Return the data with Unix line endings if it matters: `$` matches before these only."""
        is_other = self._ends_lines and data.find(b"\r\n", 0, _SLICE) >= 0
        return _with_newlines(data) if is_other else data

    @property
    def _may_miss(self) -> int:
        """How many words a document may lack that has most of them."""
        return (max(len(self._terms), 3) - 1) // 2

    def _with_term(self, data: bytes, check: Check | None, kept: _Kept) -> int:
        """Keep the first matching lines; return the number of all."""
        begin = 0
        # The lines to keep may begin after those that are counted.
        while begin < len(data) and (kept.count < MAX_COUNTED or not kept.has_more):
            end, following = _slice(data, begin, check)
            at = -1
            for at in self._terms[0].lines(data, begin, end):
                kept.add(data, at)
            if at >= 0 and following < end:
                # The rest belongs to a long line that matches already.
                following = _next_newline(data, at) + 1 or len(data)
            begin = following
        return min(kept.count, MAX_COUNTED)

    def _with_words(
        self, data: bytes, check: Check | None, kept: _Kept, ways: Collection[Together]
    ) -> tuple[Together, int, int]:
        """Keep the first lines with all words, or those with most; as `_with_most`."""
        if "line" in ways and len(data) <= _SLICE:
            count = self._with_all(data, kept)
            if count or len(ways) == 1:
                return "line", count, 0
        return self._with_most(data, check, kept, ways)

    def _with_all(self, data: bytes, kept: _Kept) -> int:
        """Keep the first lines with all words of a small document; return the number of all."""
        rarest, *others = sorted(self._terms, key=lambda term: term.count(data))
        for at in rarest.lines(data, 0, len(data)):
            begin = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end + 1
            first = at
            for term in others:
                place = term.first(data, begin, end)
                if place < 0:
                    break
                first = min(first, place)
            else:
                kept.add(data, first)
        return min(kept.count, MAX_COUNTED)

    def _with_most(
        self, data: bytes, check: Check | None, kept: _Kept, ways: Collection[Together]
    ) -> tuple[Together, int, int]:
        """Keep the lines with most words, if these occur in one of the ways that are sought.

        Returns how they occur, the number of these lines, and of the words missing in the document
        or on them.
        """
        most = present = 0
        lines: dict[int, _Kept] = {}
        """By the words in them."""
        for at, found in self._lines_with_words(data, check):
            present |= found
            if found.bit_count() > most:
                most = found.bit_count()
                lines.clear()
            if found.bit_count() == most:
                lines.setdefault(found, kept.empty()).add(data, at)
        every = len(self._terms)
        missing = every - present.bit_count()
        together: Together = "line" if most == every else "most" if missing else "document"
        if together not in ways or missing > self._may_miss:
            return together, 0, 0
        # Of lines with one word each, those of the rarest word say most.
        best = [min(lines.values(), key=_count_of)] if most == 1 else [*lines.values()]
        kept.take(best)
        return together, min(sum(map(_count_of, best)), MAX_COUNTED), missing + every - most

    def _lines_with_words(self, data: bytes, check: Check | None) -> Iterator[tuple[int, int]]:
        """Yield where each line with a word first matches, and a bit for each word in it."""
        begin = 0
        opened: tuple[int, int] | None = None
        """A line that is longer than the slice."""
        while begin < len(data):
            end, following = _slice(data, begin, check)
            lines: dict[int, tuple[int, int]] = {} if opened is None else {begin: opened}
            for place, term in enumerate(self._terms):
                for at in term.lines(data, begin, end):
                    start = data.rfind(b"\n", begin, at) + 1 or begin
                    first, found = lines.get(start, (at, 0))
                    lines[start] = (min(first, at), found | 1 << place)
            opened = lines.pop(begin, None) if following < end else None
            yield from [lines[start] for start in sorted(lines)]
            begin = following


def lines_to_keep(request: SearchRequest) -> int:
    """Return how many lines of the first document to quote."""
    return max(request.lines, MAX_LINES)


class _Kept:
    """Where the lines to quote match: at most `limit` of them, from `begin` on, and the best."""

    def __init__(self, limit: int, begin: int, ranker: DocumentRanker) -> None:
        self.places: list[int] = []
        self.count = 0
        """Number of places that were offered."""
        self.has_more = False
        """Whether there were more from `begin` on."""
        self.best: tuple[LineRank, int] = _NO_LINE
        """The best line, and where it matches."""
        self._limit = limit
        self._begin = begin
        self._ranker = ranker

    def empty(self) -> _Kept:
        """Return the same without places."""
        return _Kept(self._limit, self._begin, self._ranker)

    def add(self, data: bytes, at: int) -> None:
        """Keep the next place, if it is one to keep."""
        self.count += 1
        if self.best[0] != BEST:
            line = self._ranker.line(data, at, self.best[0])
            if line is not None:
                self.best = line, at
        if at < self._begin:
            return
        if len(self.places) < self._limit:
            self.places.append(at)
        else:
            self.has_more = True

    def take(self, others: Sequence[_Kept]) -> None:
        """Keep the first places of others, and the best line of all."""
        places = sorted(at for each in others for at in each.places)
        self.places = places[: self._limit]
        self.has_more = len(places) > self._limit or any(each.has_more for each in others)
        self.best = min(each.best for each in others)

    def limit(self, limit: int) -> None:
        """Keep only the first places."""
        self.has_more = self.has_more or len(self.places) > limit
        del self.places[limit:]

    def keep_best(self) -> int | None:
        """Keep the best line, if necessary instead of the last, and return its place.

        Returns None if it is prose.
        """
        (_, where, _), at = self.best
        if where == PROSE:
            return None
        if at not in self.places:
            self.places[-1:] = [at]
        return at


def _count_of(kept: _Kept) -> int:
    return kept.count


def _start_of_line(data: bytes, passed: int) -> int:
    """Return where the line after `passed` lines begins."""
    at = 0
    for _ in range(passed):
        newline = data.find(b"\n", at)
        if newline < 0:
            return len(data)
        at = newline + 1
    return at


def _is_in(term: _Term, data: bytes, check: Check | None) -> bool:
    begin = 0
    if len(data) <= _SLICE:
        return term.first(data, 0, len(data)) >= 0
    while begin < len(data):
        end, following = _slice(data, begin, check)
        if term.first(data, begin, end) >= 0:
            return True
        begin = following
    return False


def _slice(data: bytes, begin: int, check: Check | None) -> tuple[int, int]:
    """Return the end of the slice from `begin` on, and where the next one begins.

    A slice consists of whole lines, or of a part of one. Then the next one begins before its end.
    """
    size = len(data)
    if size <= _SLICE:
        return size, size
    if check is not None:
        check()
    end = min(begin + _SLICE, size)
    if end == size:
        return end, end
    newline = data.rfind(b"\n", begin, end)
    return (end, end - _OVERLAP) if newline < 0 else (newline + 1, newline + 1)


def _word(text: str, fold: _Fold, *, exactly: bool) -> _Term:
    if exactly:
        return _Bytes(text.encode(), None)
    return _Bytes(text.lower().encode(), fold) if text.isascii() else _Letters(text)


class _Folding:
    """The data in lower case: for several words, once."""

    def __init__(self) -> None:
        self._last = b"", b""

    def __call__(self, data: bytes) -> bytes:
        if data is not self._last[0]:
            self._last = data, data.lower()
        return self._last[1]


class _Bytes:
    """A word of bytes that are alike in the data, apart from the case of ASCII letters."""

    def __init__(self, part: bytes, fold: _Fold | None) -> None:
        self._part = part
        self._fold = fold

    def first(self, data: bytes, begin: int, end: int) -> int:
        if begin == 0 and end == len(data):
            return (data if self._fold is None else self._fold(data)).find(self._part)
        at = self._piece(data, begin, end).find(self._part)
        return at if at < 0 else begin + at

    def lines(self, data: bytes, begin: int, end: int) -> Iterator[int]:
        piece, part = self._piece(data, begin, end), self._part
        at = piece.find(part)
        while at >= 0:
            yield begin + at
            newline = piece.find(b"\n", at)
            at = -1 if newline < 0 else piece.find(part, newline)

    def count(self, data: bytes) -> int:
        return self._piece(data, 0, len(data)).count(self._part)

    def _piece(self, data: bytes, begin: int, end: int) -> bytes:
        is_whole = begin == 0 and end == len(data)
        if self._fold is not None and is_whole:
            return self._fold(data)
        piece = data if is_whole else data[begin:end]
        return piece if self._fold is None else piece.lower()


class _Letters:
    """A word with letters beyond ASCII, in any case, composed or not."""

    def __init__(self, text: str) -> None:
        self._part = _folded(text)

    def first(self, data: bytes, begin: int, end: int) -> int:
        return next(self.lines(data, begin, end), -1)

    def count(self, data: bytes) -> int:
        return _folded(data.decode("utf-8", "ignore")).count(self._part)

    def lines(self, data: bytes, begin: int, end: int) -> Iterator[int]:
        part = self._part
        # A slice may begin or end within a character.
        if part not in _folded(data[begin:end].decode("utf-8", "ignore")):
            return
        for line in data[begin:end].split(b"\n"):
            text = line.decode("utf-8", "ignore")
            at = _folded(text).find(part)
            if at >= 0:
                # Folding may change lengths: the position is then approximate.
                yield begin + min(len(text[:at].encode()), len(line))
            begin += len(line) + 1


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


class _Expression:
    def __init__(self, find: Find) -> None:
        self.first = find

    def count(self, data: bytes) -> int:
        return int(self.first(data, 0, len(data)) >= 0)

    def lines(self, data: bytes, begin: int, end: int) -> Iterator[int]:
        at = self.first(data, begin, end)
        while at >= 0:
            yield at
            newline = data.find(b"\n", at, end)
            at = -1 if newline < 0 else self.first(data, newline + 1, end)


def _expression(text: str, *, ignores_case: bool = False) -> Find:
    compiled = _compile(text, ignores_case=ignores_case)

    def find(data: bytes, begin: int, end: int) -> int:
        match = compiled.search(data, begin, end)
        if match is None:
            return -1
        at = match.start()
        # After the last newline there is no line, or one that belongs to the next slice.
        return -1 if at == end and data[at - 1 : at] in (b"", b"\n") else at

    return find


def has_expressions() -> bool:
    """Return whether the engine of regular expressions is installed."""
    return extras.is_installed("re2")


def _compile(text: str, *, ignores_case: bool) -> Any:
    try:
        # Imported here: most searches have no expression. The module has no types.
        re2: Any = importlib.import_module("re2")
    except ImportError:
        raise InvalidParameter(
            "this server cannot search by regular expressions; search for a part of a line, or "
            f"{extras.operator_hint('regex')}"
        ) from None
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    options.case_sensitive = not ignores_case
    try:
        return re2.compile(_MULTI_LINE + text, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace").replace(_MULTI_LINE, "")
        raise InvalidParameter(
            f"not a regular expression of RE2, which has no look-around and no back-references: "
            f"{reason}"
        ) from None
    finally:
        # RE2 caches the last 128 expressions, of any caller.
        re2.purge()


def _with_newlines(data: bytes) -> bytes:
    """Return the text with Unix line endings."""
    pieces: list[bytes] = []
    begin = 0
    while begin < len(data):
        end = begin + _SLICE
        if data[end - 1 : end] == b"\r":
            end += 1
        pieces.append(data[begin:end].replace(b"\r\n", b"\n"))
        begin = end
    return b"".join(pieces)


def _count_newlines(data: bytes, begin: int, end: int) -> int:
    # In steps: `count` does not release the GIL.
    return sum(
        data.count(b"\n", start, min(start + _SLICE, end)) for start in range(begin, end, _SLICE)
    )


def _next_newline(data: bytes, begin: int) -> int:
    for start in range(begin, len(data), _SLICE):
        at = data.find(b"\n", start, start + _SLICE)
        if at >= 0:
            return at
    return -1


def _quoted_lines(data: bytes, kept: Sequence[int], context: int) -> tuple[MatchedLine, ...]:
    """Return the lines at these positions, and as many before and after each."""
    lines: dict[int, MatchedLine] = {}
    number, counted = 1, 0
    for at in kept:
        number += _count_newlines(data, counted, at)
        counted = at
        for distance, start in _beside(data, at, context) if context else ():
            if number + distance not in lines:
                text = _quoted(data, start)
                lines[number + distance] = MatchedLine(number + distance, text, is_context=True)
        lines[number] = MatchedLine(number, _quoted(data, at))
    return tuple(lines.values()) if not context else tuple(map(lines.__getitem__, sorted(lines)))


def _beside(data: bytes, at: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield the distance and start of the lines before and after the one at a position."""
    start = data.rfind(b"\n", 0, at) + 1
    for distance in range(-1, -count - 1, -1):
        if start == 0:
            break
        start = data.rfind(b"\n", 0, start - 1) + 1
        yield distance, start
    for distance in range(1, count + 1):
        at = data.find(b"\n", at) + 1
        if at == 0 or at == len(data):
            break
        yield distance, at


def _quoted(data: bytes, at: int) -> str:
    """Return the line in which a match begins, truncated around it if it is long."""
    most = MAX_LINE_LENGTH * 4  # that many characters, at their longest in UTF-8
    before = data.rfind(b"\n", max(0, at - most), at)
    begins = before >= 0 or at <= most
    after = data.find(b"\n", at, at + most)
    ends = after >= 0 or at + most >= len(data)
    head = data[before + 1 if begins else at - most : at].decode("utf-8", "ignore")
    tail = data[at : after if after >= 0 else at + most].decode("utf-8", "ignore")
    if ends:
        tail = tail.removesuffix("\r")
    if begins and len(head) + len(tail) <= MAX_LINE_LENGTH:
        return head + tail
    kept = head[max(0, len(head) - _MAX_BEFORE) :] if len(head) > _MAX_BEFORE else head
    rest = tail[: MAX_LINE_LENGTH - len(kept)]
    front = "…" if not begins or len(kept) < len(head) else ""
    back = "…" if not ends or len(rest) < len(tail) else ""
    return f"{front}{kept}{rest}{back}"
