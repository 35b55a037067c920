"""How many clients wait at once to be told of changes."""

from __future__ import annotations

from resource_server.transports.http.request import Refused


class Streams:
    """Counts streams, at most `most` at once: `with streams:` is one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __enter__(self) -> None:
        """Begin one.

        Raises:
            Refused: there are too many.
        """
        if self._count >= self._most:
            raise Refused(503, "there are too many streams", [(b"retry-after", b"60")])
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1
