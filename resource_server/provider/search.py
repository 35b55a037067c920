"""What is looked for and what was found; the contract of a provider that searches by itself.

Without it the server walks a mount and reads its documents. Whoever has a faster way, or more to
look into than names and texts, implements `SupportsSearch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from resource_server.provider.core import MaybeAwaitable, Path, Resource

__all__ = ["Hit", "MatchedLine", "SearchPage", "SearchRequest", "SupportsSearch", "Where"]

Where: TypeAlias = Literal["names", "text"]


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for, in one of the two places, and who wants to know how far it got.

    In `names`: a part of the name or a glob of it, with a slash of the path; in any case, best
    first (`resource_server.search.name_match`). In `text`: in the lines of documents, in their
    order in the listing; in any case, if it is literal (`resource_server.search.text_match`).
    """

    text: str
    """One line, never empty, at most 1,000 characters; of an expression without its slashes."""
    where: Where
    is_pattern: bool = False
    """Whether `text` is a regular expression (RE2), not literal; only in `text`."""
    on_progress: Callable[[int], None] | None = None
    """What to call now and then, in any thread, with how many more resources were looked at."""

    def report_progress(self, count: int) -> None:
        """Tell whoever waits that so many more resources were looked at."""
        if self.on_progress is not None:
            self.on_progress(count)


class MatchedLine(msgspec.Struct, frozen=True):
    """A line that matches; of a row of a database the number is that of the column."""

    number: int
    """From 1 on."""
    text: str
    """Without its end, cut around the match where it is long."""


class Hit(msgspec.Struct, frozen=True):
    """A resource that was found."""

    resource: Resource
    lines: tuple[MatchedLine, ...] = ()
    """The first that match, where text was looked through."""


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """What one search of a mount found within its limits."""

    hits: Sequence[Hit]
    next: str | None = None
    """Where to go on, opaque, at most 16,384 characters; None: all was searched."""
    looked_at: int = 0
    """How many resources were looked at this time."""
    total: int | None = None
    """Of how many, where that is known."""


@runtime_checkable
class SupportsSearch(Protocol):
    """Searches its mount by itself."""

    def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> MaybeAwaitable[SearchPage]:
        """Return what is found below a collection (or in one document), from `after` on.

        At most `limit` hits, each time the same of what has not changed. Stops at `deadline` (of
        `time.monotonic()`) with what it has, and says where to go on; but gets on by something each
        time, however late it is. What may not be read is not found by its text. What is not
        `listed` is found only where `below` is not either.

        Raises:
            ResourceNotFound: nothing that may be shown has the path `below`.
            InvalidParameter: the pattern is none, or `after` cannot be used.
        """
        ...
