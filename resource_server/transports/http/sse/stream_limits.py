"""The limit of open event streams, shared fairly among their owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

from resource_server.transports.http.app.request import HttpError, shutting_down


class OwnerCounts:
    """Per-owner counts of a limited resource, for fair eviction."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def add(self, owner: str) -> None:
        """Count one more."""
        self._counts[owner] += 1

    def remove(self, owner: str) -> None:
        """Count one less."""
        self._counts[owner] -= 1
        if not self._counts[owner]:
            del self._counts[owner]

    def larger_than(self, owner: str) -> str | None:
        """Return the owner with the most, if that is at least two more than this owner has.

        With a difference of one, two owners would evict each other in turn.
        """
        largest = max(self._counts, key=self._counts.__getitem__, default=owner)
        return largest if self._counts[largest] > self._counts[owner] + 1 else None


class _Stream:
    __slots__ = ("end", "owner")

    def __init__(self, owner: str, end: Callable[[], None]) -> None:
        self.owner = owner
        self.end = end


class StreamLimiter:
    """Limits open streams to `max_streams`; at the limit, the owner with the most loses one."""

    def __init__(self, max_streams: int) -> None:
        self._max_streams = max_streams
        self._counts = OwnerCounts()
        # The oldest first.
        self._streams: dict[_Stream, None] = {}
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
        stream = _Stream(owner, end)
        self._streams[stream] = None
        self._counts.add(owner)
        try:
            yield
        finally:
            self._remove(stream)

    def close(self) -> None:
        """Refuse new streams."""
        self._is_closed = True

    def _make_room(self, owner: str) -> bool:
        """End the oldest stream of the owner with the most, if that is far more than this one's."""
        largest = self._counts.larger_than(owner)
        if largest is None:
            return False
        oldest = next(stream for stream in self._streams if stream.owner == largest)
        # Removed first, since it may be slow to end.
        self._remove(oldest)
        oldest.end()
        return True

    def _remove(self, stream: _Stream) -> None:
        if stream in self._streams:
            del self._streams[stream]
            self._counts.remove(stream.owner)
