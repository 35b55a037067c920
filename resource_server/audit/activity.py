"""The activity: the last requests of this process, as a document that can be subscribed to."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from resource_server.audit.recorder import MAX_RECENT, Recorder
from resource_server.errors import InvalidParameter, NotACollection, ResourceNotFound
from resource_server.provider import (
    Change,
    Content,
    Interest,
    Path,
    Provider,
    Resource,
    Template,
    Truncation,
)

BASE: Final = "activity://server/"
"""Base URI of the mount."""
NAME: Final = "activity"
_RECENT: Final = ("recent",)
_PAGE: Final = 100
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_DESCRIPTION: Final = (
    f"The last {MAX_RECENT} requests that this process has answered, newest first: who read what, "
    "and what became of it. Reads of this document are in the record, and not here. Optional URI "
    f"parameters: limit (default {_PAGE}), before (a number, for older ones)"
)
_PAUSE_S: Final = 0.25
"""Minimum interval between two changes."""

_encode = msgspec.json.Encoder().encode


@dataclass
class Activity:
    """The provider. All instances are equal: each reload of the manifest makes one."""

    recorder: Recorder | None = field(default=None, init=False, compare=False, repr=False)
    """None in a process that records nothing."""
    _start: str = field(
        default_factory=lambda: secrets.token_hex(4), init=False, compare=False, repr=False
    )

    templates: Sequence[Template] = field(default=(), init=False, compare=False, repr=False)

    @property
    def parameters(self) -> frozenset[str]:
        """See `SupportsParameters`."""
        return frozenset(("limit", "before"))

    def metadata(self, path: Path) -> Resource:
        """Describe the collection, or its document."""
        if path == ():
            return Resource(path=(), name=NAME, title="Activity", type="collection")
        if path != _RECENT:
            raise ResourceNotFound
        count = 0 if self.recorder is None else self.recorder.count
        return Resource(
            path=path,
            name=path[-1],
            title="Last requests",
            description=_DESCRIPTION,
            mime_type="application/json",
            version=f"{self._start}-{count}",
        )

    def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """List the document."""
        if self.metadata(parent).type == "document":
            raise NotACollection
        found = [] if after is not None and after >= _RECENT else [self.metadata(_RECENT)]
        return found[:limit]

    def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Return a page of requests, newest first."""
        if self.metadata(path).type == "collection":
            raise ResourceNotFound
        unknown = query.keys() - self.parameters
        if unknown:
            raise InvalidParameter(f"unknown query parameter {min(unknown)!r}")
        limit = _number(query, "limit", _PAGE)
        before = _number(query, "before", 10**15)
        if not 1 <= limit <= MAX_RECENT:
            raise InvalidParameter(f"limit: expected 1 to {MAX_RECENT}")
        recent = () if self.recorder is None else reversed(self.recorder.recent)
        older = list(islice((pair for pair in recent if pair[0] < before), limit + 1))
        page, truncated = older[:limit], None
        if len(older) > limit:
            following = {"before": str(page[-1][0])}
            following |= {"limit": query["limit"]} if "limit" in query else {}
            truncated = Truncation("limit", "rows", next=following)
        rows = b",".join(_encode(entry) for _, entry in page)
        return (Content('{"rows":[' + rows.decode() + "]}", truncated=truncated, rows=len(page)),)

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        """Yield the document after requests, four times a second at most."""
        told = 0
        while True:
            added, _ = await interest.next(within=_PAUSE_S if interest.paths else None)
            for path in added:
                yield Change(path)
            if self.recorder is not None and self.recorder.count != told:
                told = self.recorder.count
                yield Change(_RECENT)


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise InvalidParameter(f"{name}: expected a number")
    return int(text)


_: type[Provider] = Activity
