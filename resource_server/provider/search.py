"""The search contract: requests, hits, and the ability `SupportsSearch`.

Without this ability the server walks the mount and reads its documents. Implement it to search
faster than that, or in more than names and texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from resource_server.provider.core import MaybeAwaitable, Path, Resource

__all__ = ["Hit", "MatchedLine", "SearchPage", "SearchRequest", "SupportsSearch", "Where"]

Where: TypeAlias = Literal["names", "text"]


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A search by name or in text.

    In `names`, `text` is a part or a glob of the name, or of the path if it contains a slash; case
    is ignored and the best match comes first (`resource_server.search.name_match`). In `text`, the
    lines of documents are searched in the order of the listing; literal text ignores case
    (`resource_server.search.text_match`).
    """

    text: str
    """One line of 1 to 1,000 characters; a regular expression comes without its slashes."""
    where: Where
    is_pattern: bool = False
    """Whether `text` is a regular expression (RE2); only if `where` is `text`."""
    on_progress: Callable[[int], None] | None = None
    """Called, in any thread, with the number of resources examined since the last call."""

    def report_progress(self, count: int) -> None:
        """Report that `count` more resources were examined."""
        if self.on_progress is not None:
            self.on_progress(count)


class MatchedLine(msgspec.Struct, frozen=True):
    """A line that matches; in a database row, the number is that of the column."""

    number: int
    """Counted from 1."""
    text: str
    """The line without its end; a long one is shortened around the match."""


class Hit(msgspec.Struct, frozen=True):
    """A resource that matches."""

    resource: Resource
    lines: tuple[MatchedLine, ...] = ()
    """The first matching lines, in a search of text."""
    has_more_lines: bool = False
    """Whether more lines match."""


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the hits in a mount."""

    hits: Sequence[Hit]
    next: str | None = None
    """Opaque position of the next page, at most 16,384 characters; None at the end."""
    looked_at: int = 0
    """Number of resources examined for this page."""
    total: int | None = None
    """Total number of resources to examine, if known."""
    skipped: int = 0
    """Documents among those examined whose text could not be searched: too large, not readable, or
    not text."""


@runtime_checkable
class SupportsSearch(Protocol):
    """Searches its mount."""

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
