"""The search contract: requests, hits, and the ability `SupportsSearch`.

Without this ability the server walks the mount and reads its documents. Implement it to search
faster than that, or in more than names and texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from resource_server.provider.core import MaybeAwaitable, Path, Resource

Where: TypeAlias = Literal["names", "text"]
Together: TypeAlias = Literal["line", "document", "most"]
"""How several words have to occur: all on one line; all in the document, but not on one line; or
most of them, but not all (one of two)."""


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A search by name or in text.

    In `names`, each word is a part or a glob of the name, or of the path if it contains a slash;
    the best match comes first (`resource_server.search.name_match`). In `text`, the lines of
    documents are searched (`resource_server.search.text_match`), and the best documents of those
    that a page comes by are first (`resource_server.search.ranking`).
    """

    text: str
    """One line of 1 to 1,000 characters; a regular expression comes without its slashes. With
    `words`, the phrase that they were typed as."""
    where: Where
    is_pattern: bool = False
    """Whether `text` is a regular expression (RE2); only if `where` is `text`."""
    words: tuple[str, ...] = ()
    """Several words or phrases to find instead of `text`; empty if there is only one."""
    together: Together = "line"
    """How `words` have to occur in a document; a search in `names` needs all of them."""
    then: tuple[Together, ...] = ()
    """What the requests that follow have in `together` instead. A search that reads all documents
    can answer them from the same pass, in `SearchPage.later`."""
    match_case: bool | None = None
    """None: an expression matches case, words do not."""
    files: str | None = None
    """A glob that the paths of hits match (`resource_server.search.path_glob.FileGlob`)."""
    lines: int = 5
    """Matching lines to quote in a page of documents: up to five per document, or the rest of these
    if that is more. 0: only their number is shown."""
    after_line: int = 0
    """Number of the line after which lines are quoted; all are counted."""
    context: int = 0
    """Lines to quote before and after each matching line."""
    count_s: float = 0.0
    """Seconds to go on for after a full page, for better matches than those of the page, and to
    count the others (`SearchPage.beyond`)."""
    on_progress: Callable[[int], None] | None = None
    """Called, in any thread, with the number of resources examined since the last call."""

    def report_progress(self, count: int) -> None:
        """Report that `count` more resources were examined."""
        if self.on_progress is not None:
            self.on_progress(count)


class MatchedLine(msgspec.Struct, frozen=True):
    """A line that matches, or one beside it; in a database row, the number is the column's."""

    number: int
    """Counted from 1."""
    text: str
    """The line without its end; a long one is shortened around the match."""
    is_context: bool = False
    """Whether the line is quoted only because a line beside it matches."""


class Hit(msgspec.Struct, frozen=True):
    """A resource that matches."""

    resource: Resource
    lines: tuple[MatchedLine, ...] = ()
    """The first matching lines, in a search of text, and the line `best`."""
    has_more_lines: bool = False
    """Whether more lines match after those in `lines`."""
    matches: int | None = None
    """Number of matching lines; None if all are in `lines`."""
    is_counted: bool = True
    """Whether `matches` are all of them."""
    best: int | None = None
    """Number of a line among `lines` that says most, such as a definition; if it is the last one,
    others may match before it that are not among them."""
    rank: int | None = None
    """How well the text matches, the best least (`resource_server.search.ranking`)."""


class Unsearched(msgspec.Struct, frozen=True):
    """A visible resource that was not searched, or only in part."""

    path: Path
    why: str
    """In a few plain words, after its name: `3.1 GB: its first 4 GiB were searched`, `not text`."""
    by_itself: bool = False
    """Whether a search of this resource alone gets further."""
    count: int = 1
    """Number of resources that this stands for, `path` being the first; 0 for one that the next
    page continues within."""
    in_part: bool = False
    """Whether what is below it was searched otherwise: of a table, all but some columns."""


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the hits in a mount.

    Without `unsearched`, everything that was examined was searched.
    """

    hits: Sequence[Hit]
    next: str | None = None
    """Opaque position of the next page, at most 16,384 characters; None at the end."""
    looked_at: int = 0
    """Number of resources examined for this page."""
    total: int | None = None
    """Total number of resources to examine, if known."""
    unsearched: Sequence[Unsearched] = ()
    """What was not searched of those examined, or of the columns of a table: at most 40 entries
    below `below`, or `below` itself (`resource_server.search.coverage.Gaps` collects them)."""
    beyond: int = 0
    """Matches counted after this page: names, or lines."""
    is_counted: bool = False
    """Whether `beyond` are all matches after this page."""
    later: Mapping[Together, SearchPage] = {}
    """First pages of the requests that `SearchRequest.then` announces, where they are known. Each
    has at most as many hits as those before it leave room for, or one."""


@runtime_checkable
class SupportsSearch(Protocol):
    """Searches its mount; with `searches_text = False`, names only: the server reads documents."""

    def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> MaybeAwaitable[SearchPage]:
        """Return the next hits below a collection, or in one document, from the position `after`.

        Returns at most `limit` hits, in the same order each time while nothing changes. At the
        `deadline` (a time of `time.monotonic()`) the page ends with the hits so far and a position
        to continue; each page makes some progress, even after the deadline. Only readable documents
        match by text. Resources that are not `listed` match only if `below` is not `listed` either.

        Raises:
            ResourceNotFound: `below` names no exposed resource.
            InvalidParameter: the pattern or `after` is invalid.
        """
        ...
