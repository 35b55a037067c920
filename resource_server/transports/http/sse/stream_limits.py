"""The limit of open event streams, shared fairly among their owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import NamedTuple

from resource_server.transports.http.app.request import HttpError, shutting_down


def larger_owner(owner: str, owners: Iterable[str]) -> str | None:
    """Return the owner that occurs most, if that is at least two times more than this one does.

    With a difference of one, two owners would evict each other in turn.
    """
    counts = Counter(owners)
    largest = max(counts, key=counts.__getitem__, default=owner)
    return largest if counts[largest] > counts[owner] + 1 else None


class _Stream(NamedTuple):
    owner: str
    end: Callable[[], None]


class StreamLimiter:
    """Limits open streams to `max_streams`; at the limit, the owner with the most loses one."""

    def __init__(self, max_streams: int) -> None:
        self._max_streams = max_streams
        # The oldest first.
        self._streams: dict[object, _Stream] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._streams)

    @contextmanager
    def slot(self, owner: str, end: Callable[[], None]) -> Generator[None]:
        """Count a stream while this is entered; `end` is called to make room for another.

        Raises:
            HttpError: there are too many, or the server shuts down.
        """
        if self._is_closed:
            raise shutting_down()
        if len(self._streams) >= self._max_streams and not self._make_room(owner):
            raise HttpError(503, "there are too many streams", [(b"retry-after", b"60")])
        key = object()
        self._streams[key] = _Stream(owner, end)
        try:
            yield
        finally:
            self._streams.pop(key, None)

    def close(self) -> None:
        """Refuse new streams."""
        self._is_closed = True

    def _make_room(self, owner: str) -> bool:
        """End the oldest stream of the owner with the most, if that is far more than this one's."""
        largest = larger_owner(owner, (each.owner for each in self._streams.values()))
        if largest is None:
            return False
        key = next(key for key, each in self._streams.items() if each.owner == largest)
        # Removed first, since it may be slow to end.
        self._streams.pop(key).end()
        return True
