"""What a search did not look into, for `SearchPage.unsearched`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from resource_server.provider import Path
from resource_server.provider.search import Unsearched

NOT_TEXT = "not text"
NOT_READABLE = "not readable"
TOO_LARGE = "too large"
FAILED = "failed"
LATE = "took too long"

_MAX_ENTRIES = 20
"""Maximum resources that are named, and maximum reasons of the others."""
_OTHER_REASONS = "not searched for other reasons"


class Gaps:
    """Resources that were not searched: each that a search alone would, the others by reason."""

    def __init__(self, *, is_continued: bool = False, names_each: bool = False) -> None:
        """Collect those of a page; one that `is_continued` has the gaps of its window behind it.

        With `names_each`, the first ones are named, whatever their reason.
        """
        self._is_continued = is_continued
        self._names_each = names_each
        self._named: list[Unsearched] = []
        self._by_reason: dict[str, Unsearched] = {}

    def add(
        self,
        path: Path,
        why: str,
        *,
        by_itself: bool = False,
        count: int = 1,
        in_part: bool = False,
        is_late: bool = False,
    ) -> None:
        """Add a resource, or `count` of which `path` is the first.

        With `is_late`, time decided: an earlier page of the window may have searched it.
        """
        if self._is_continued and not is_late:
            return
        if (by_itself or self._names_each) and len(self._named) < _MAX_ENTRIES:
            self._named.append(Unsearched(path, why, by_itself, count, in_part))
            return
        if why not in self._by_reason and len(self._by_reason) >= _MAX_ENTRIES - 1:
            why = _OTHER_REASONS
        known = self._by_reason.get(why) or Unsearched(path, why, by_itself, 0, in_part)
        self._by_reason[why] = replace(known, count=known.count + count)

    def entries(self) -> Sequence[Unsearched]:
        """Return what was added, the resources that can be searched alone first."""
        return (*self._named, *self._by_reason.values())
