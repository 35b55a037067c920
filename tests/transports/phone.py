"""A provider that asks the test for each content, for requests that end when the test says so.

Reading `PORT` connects to that port of this machine; what it is sent is the content, and if that is
nothing there is no such document.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from resource_server.errors import ResourceNotFound
from resource_server.provider import Content, Path, Provider, Resource, Template
from tests.transports.program import PATIENCE_S


@dataclass
class Phone:
    """See above."""

    templates = (Template("{port}", name="port"),)

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return nothing: the tests know the ports."""
        return []

    async def metadata(self, path: Path) -> Resource:
        """Describe anything."""
        return Resource(
            path=path, name="".join(path) or "phone", type="document" if path else "collection"
        )

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Ask, and wait for the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(path[0]))
        try:
            answer = (await reader.read()).decode()
        finally:
            writer.close()
        if not answer:
            raise ResourceNotFound
        return [Content(answer)]


class Callee:
    """Whom `test://phone/PORT` asks."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._calls: list[socket.socket] = []
        listening.settimeout(PATIENCE_S)

    @property
    def uri(self) -> str:
        return f"test://phone/{self._listening.getsockname()[1]}"

    def wait(self, calls: int = 1) -> None:
        """Wait for that many calls."""
        for _ in range(calls):
            call, _ = self._listening.accept()
            self._calls.append(call)

    def answer(self, text: str) -> None:
        """Answer all waiting calls."""
        for call in self._calls:
            call.sendall(text.encode())
        self.hang_up()

    def hang_up(self) -> None:
        """Answer nothing."""
        for call in self._calls:
            call.close()
        self._calls.clear()


@contextlib.contextmanager
def callee() -> Generator[Callee]:
    """Wait for calls."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        called = Callee(listening)
        try:
            yield called
        finally:
            called.hang_up()


_: type[Provider] = Phone
