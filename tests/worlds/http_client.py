"""A client that sends any bytes over HTTP, and judges what comes back."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.worlds.harness import Violation
from tests.worlds.http_grammar import Connection, Request, is_plain
from tests.worlds.ledger import INTERNAL_ERROR

_PATIENCE_S = 20.0
_QUIET_S = 0.25
"""Longer than an open stream is silent that has something to say."""
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]*\r\n")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*)\r\n")
_OURS = frozenset((500, 502, 504))
"""Statuses by which a server says that it has failed."""
_LIMIT = 1 << 26
_QUESTION = re.compile(rb'"(elicitation/create|sampling/createMessage|roots/list)"')
_LISTEN = b'"subscriptions/listen"'


@dataclass(frozen=True)
class Response:
    """One response, or what has come of a stream that goes on."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_complete: bool = True

    @property
    def messages(self) -> Iterator[dict[str, Any]]:
        """The JSON-RPC messages in it."""
        kind = self.headers.get("content-type", "")
        texts: Sequence[bytes] = ()
        if kind.startswith("application/json"):
            texts = [self.body]
        elif kind == "text/event-stream":
            lines = self.body.split(b"\n")
            texts = [line[6:] for line in lines if line.startswith(b"data: {")]
        for text in texts:
            message = json.loads(text)
            yield from message if isinstance(message, list) else [message]


class Client:
    """Opens one connection after the other; remembers the last session."""

    def __init__(self, port: int, patience_s: float = _PATIENCE_S) -> None:
        self._port = port
        self._patience_s = patience_s
        self.session = "none"
        self.sessions: list[str] = []
        self.received = 0

    async def run(self, connection: Connection) -> None:
        """Send everything, and take what comes until the connection's end.

        Raises:
            Violation: something is not answered, not HTTP, or an error of the server's own.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=_LIMIT)
        sending = asyncio.create_task(self._send(writer, connection))
        try:
            if connection.end == "abort":
                await sending
            elif is_plain(connection) and connection.end == "wait":
                await self._take_each(reader, connection.requests)
            else:
                await self._take_any(
                    reader, is_ended=connection.end == "half", is_damaged=bool(connection.damage)
                )
        except asyncio.IncompleteReadError as error:
            raise Violation(f"the connection ended in {error.partial[:200]!r}") from None
        except TimeoutError:
            raise Violation("neither an answer nor the end of the connection") from None
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            if connection.end == "abort":
                writer.transport.abort()
            writer.close()

    async def ask(self, request: Request) -> Response:
        """Return the response to one request on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=_LIMIT)
        try:
            writer.write(request.encoded(self.session))
            async with asyncio.timeout(self._patience_s):
                head = await self._head(reader)
                if head is None:
                    raise Violation(f"not answered: {request!r}")
                return await self._body(reader, *head, owed=True)
        except TimeoutError:
            raise Violation(f"not answered: {request!r}") from None
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, connection: Connection) -> None:
        data = connection.encoded(self.session)
        try:
            for start in range(0, len(data), connection.write_bytes):
                writer.write(data[start : start + connection.write_bytes])
                await writer.drain()
                await asyncio.sleep(0)
            if connection.end == "half":
                writer.write_eof()
        except OSError:
            pass  # refused before it was read

    async def _take_each(self, reader: asyncio.StreamReader, requests: Sequence[Request]) -> None:
        """Take one response to each request, in their order; a stream that stays is the last."""
        for request in requests:
            async with asyncio.timeout(_PATIENCE_S):
                head = await self._head(reader)
            if head is None:
                raise Violation(f"the connection ended before the answer to {request!r}")
            owed = request.id is not None and _LISTEN not in request.body
            response = await self._body(reader, *head, owed=owed)
            self._judge(response)
            if request.id is not None:
                _judge_answer(request, response)
            if not response.is_complete or response.headers.get("connection") == "close":
                return

    async def _take_any(
        self, reader: asyncio.StreamReader, *, is_ended: bool, is_damaged: bool
    ) -> None:
        """Take whatever comes until it ends, as it must if the client has sent its end.

        A stream may go on, since such a client still reads. It is cut off if what follows its
        request is no request, since a refusal cannot stand in it.
        """
        wait_s = _PATIENCE_S if is_ended else _QUIET_S
        head: tuple[int, dict[str, str]] | None = None
        while True:
            try:
                head = None
                async with asyncio.timeout(wait_s):
                    head = await self._head(reader)
                if head is None:
                    return
                async with asyncio.timeout(_PATIENCE_S):
                    response = await self._body(reader, *head, owed=False)
                self._judge(response)
                if not response.is_complete:
                    return
            except TimeoutError:
                if is_ended:
                    raise
                return
            except asyncio.IncompleteReadError:
                is_stream = head is not None and "transfer-encoding" in head[1]
                if is_ended or (is_damaged and is_stream):
                    return
                raise
            except ConnectionError:
                return

    async def _head(self, reader: asyncio.StreamReader) -> tuple[int, dict[str, str]] | None:
        """Read status and headers; None at the end."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise
            return None
        except ConnectionError:
            return None  # it ended while more was sent
        status = _STATUS.match(head)
        if status is None:
            raise Violation(f"not HTTP: {head[:200]!r}")
        lines = head[status.end() : -2]
        found = list(_HEADER.finditer(lines))
        if b"".join(match[0] for match in found) != lines:
            raise Violation(f"not headers: {lines!r}")
        headers = {match[1].decode().lower(): match[2].decode("latin-1") for match in found}
        if len(headers) != len(found):
            raise Violation(f"a header twice: {lines!r}")
        if int(status[1]) == 100:
            return await self._head(reader)
        return int(status[1]), headers

    async def _body(
        self, reader: asyncio.StreamReader, status: int, headers: dict[str, str], *, owed: bool
    ) -> Response:
        """Read a body; a stream on which nothing is owed, only until it is silent."""
        if headers.get("transfer-encoding") == "chunked":
            body, is_complete = await _chunked(reader, owed=owed)
            return Response(status, headers, body, is_complete)
        length = int(headers.get("content-length", "0"))
        async with asyncio.timeout(_PATIENCE_S):
            return Response(status, headers, await reader.readexactly(length))

    def _judge(self, response: Response) -> None:
        self.received += 1
        if response.status in _OURS:
            raise Violation(f"an internal error: {response!r}")
        try:
            messages = list(response.messages)
        except ValueError:
            raise Violation(f"not JSON: {response!r}") from None
        for message in messages:
            error: dict[str, Any] = message.get("error", {})
            if error.get("code") == INTERNAL_ERROR:
                raise Violation(f"an internal error: {message!r}")
        session = response.headers.get("mcp-session-id")
        if session is not None:
            self.session = session
            self.sessions.append(session)


async def _chunked(reader: asyncio.StreamReader, *, owed: bool) -> tuple[bytes, bool]:
    """Return the body, and whether it has ended.

    A stream that owes nothing, or that waits for the person, is left once it is silent.
    """
    parts: list[bytes] = []
    until = time.monotonic() + _PATIENCE_S
    while True:
        is_waiting = owed and not _QUESTION.search(b"".join(parts))
        wait_s = until - time.monotonic() if is_waiting else _QUIET_S
        try:
            async with asyncio.timeout(wait_s):
                size = int(await reader.readuntil(b"\r\n"), 16)
                part = await reader.readexactly(size + 2)
        except TimeoutError:
            return b"".join(parts), False
        except ValueError:
            raise Violation("not a chunk") from None
        if part[-2:] != b"\r\n":
            raise Violation(f"not the end of a chunk: {part[-20:]!r}")
        if not size:
            return b"".join(parts), True
        parts.append(part[:-2])


def _judge_answer(request: Request, response: Response) -> None:
    answers = [each for each in response.messages if "method" not in each]
    ids = [each.get("id") for each in answers]
    if not response.is_complete:
        may_last = _LISTEN in request.body or _QUESTION.search(response.body)
        if ids or not may_last:
            raise Violation(f"a stream that does not end: {request!r}: {response!r}")
    elif ids != [request.id] and not (response.status >= 400 and ids == [None]):
        raise Violation(f"answered with ids {ids}: {request!r}: {response!r}")
