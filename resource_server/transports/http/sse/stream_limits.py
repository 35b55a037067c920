"""How many clients wait at once to be told of changes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from resource_server.transports.http.app.request import Refused, closing
from resource_server.transports.http.sse.shares import Shares


class _Stream:
    __slots__ = ("end", "owner")

    def __init__(self, owner: str, end: Callable[[], None]) -> None:
        self.owner = owner
        self.end = end


class Streams:
    """All streams, at most `most`. Where there is no place for one, whoever has most loses one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._shares = Shares()
        # In the order in which they began.
        self._streams: dict[_Stream, None] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._streams)

    @contextmanager
    def using(self, owner: str, end: Callable[[], None]) -> Generator[None]:
        """Count a stream while this is entered; `end` is called where another one needs its place.

        Raises:
            Refused: there are too many, or there may be no more.
        """
        if self._is_closed:
            raise closing()
        if len(self._streams) >= self._most and not self._make_room(owner):
            raise Refused(503, "there are too many streams", [(b"retry-after", b"60")])
        stream = _Stream(owner, end)
        self._streams[stream] = None
        self._shares.add(owner)
        try:
            yield
        finally:
            self._remove(stream)

    def close(self) -> None:
        """Let no more begin."""
        self._is_closed = True

    def _make_room(self, owner: str) -> bool:
        """End the oldest stream of who has most, if these are far more than an owner has."""
        richer = self._shares.richer(owner)
        if richer is None:
            return False
        oldest = next(stream for stream in self._streams if stream.owner == richer)
        # At once: it may take a while to end.
        self._remove(oldest)
        oldest.end()
        return True

    def _remove(self, stream: _Stream) -> None:
        if stream in self._streams:
            del self._streams[stream]
            self._shares.remove(stream.owner)
