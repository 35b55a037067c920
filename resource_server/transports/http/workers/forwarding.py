"""Requests of a session, passed on to the worker that has it.

Any worker accepts a connection. The id of a session says which worker has it: there, the request
is answered as if it had come there. For each, the other worker is handed a new socket.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qs

import msgspec

from resource_server.protocol import error_mapping, revisions
from resource_server.protocol.error_mapping import Fault
from resource_server.runtime.timing import Timing
from resource_server.transports.http.app.application import Application
from resource_server.transports.http.app.legacy import POST_PATH
from resource_server.transports.http.app.request import (
    AsgiMessage,
    AsgiReceive,
    AsgiScope,
    AsgiSend,
)
from resource_server.transports.http.workers.worker import Worker

_SCOPE = (
    "type", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path",
    "headers", "client", "server",
)  # fmt: skip
"""What a worker is told of a request."""
_LENGTH_BYTES = 4
_READ_BYTES = 1 << 16
_READY = b"+"
_DISCONNECT = {"type": "http.disconnect"}

# A body may be of a class of its own.
_encode = msgspec.msgpack.Encoder(enc_hook=bytes).encode
_decode = msgspec.msgpack.Decoder(dict[str, Any]).decode


class Forwarding:
    """An ASGI application that answers the requests of this worker, and passes on the others'."""

    def __init__(self, application: Application, worker: Worker, timing: Timing) -> None:
        self._application = application
        self._workers = worker.workers
        self._number = worker.number
        self._timing = timing
        self._tasks = set[asyncio.Task[None]]()

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answer one request, here or by the worker that has its session."""
        session_id = _session_id(scope)
        home = None if session_id is None else self._workers.home_of(session_id)
        if home is None or home == self._number:
            await self._application(scope, receive, send)
        else:
            await self._forward(home, scope, receive, send)

    async def _forward(
        self, home: int, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend
    ) -> None:
        has_begun = False
        with suppress(OSError):
            async with self._line(home) as line:
                await line.put({name: scope[name] for name in _SCOPE if name in scope})
                sending = asyncio.create_task(_send_request(receive, line))
                try:
                    while (message := await line.get()) is not None:
                        has_begun = True
                        await send(message)
                finally:
                    sending.cancel()
        if not has_begun:
            await _refuse(send)

    @asynccontextmanager
    async def _line(self, home: int) -> AsyncGenerator[_Line]:
        """Connect to another worker.

        Raises:
            OSError: it does not answer.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            # Its number of unanswered requests is bounded by the system: then it blocks.
            socket.send_fds(self._workers.mailboxes[home].inlet, [_READY], [theirs.fileno()])
        line = await _Line.over(ours)
        try:
            async with asyncio.timeout(self._timing.worker_answer_s):
                if not await line.is_accepted():
                    raise ConnectionResetError
            yield line
        finally:
            line.close()

    # -- at the worker that has the session

    def open(self, tasks: set[asyncio.Task[None]], orphaned: Callable[[], None]) -> None:
        """Answer the requests that others pass on; `tasks` are those that an end waits for.

        `orphaned` is called when the parent has ended.
        """
        self._tasks = tasks
        loop = asyncio.get_running_loop()
        mailbox, life = self._workers.mailboxes[self._number].outlet, self._workers.life

        def end() -> None:
            loop.remove_reader(life)
            orphaned()

        loop.add_reader(mailbox, self._take, mailbox)
        loop.add_reader(life, end)

    def _take(self, mailbox: socket.socket) -> None:
        with suppress(BlockingIOError):
            _, descriptors, _, _ = socket.recv_fds(mailbox, 1, 1)
            for descriptor in descriptors:
                task = asyncio.create_task(self._answer(socket.socket(fileno=descriptor)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, passed: socket.socket) -> None:
        line = await _Line.over(passed)
        try:
            await line.accept()
            scope = await line.get()
            if scope is not None:
                await self._application(scope, line.receive, line.send)
                await line.end()
        finally:
            line.close()


class _Line:
    """A connection of two workers, for one request: messages, each after its length."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, connection: socket.socket) -> _Line:
        """Return the line over one end of a pair of sockets."""
        return cls(*await asyncio.open_unix_connection(sock=connection))

    async def accept(self) -> None:
        """Say that somebody answers."""
        self._writer.write(_READY)

    async def is_accepted(self) -> bool:
        """Return whether somebody answers, once that is known."""
        return await self._reader.read(1) == _READY

    async def put(self, message: Any) -> None:
        """Send a message, as fast as the other side reads.

        Raises:
            OSError: it has gone.
        """
        data = _encode(message)
        self._writer.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
        await self._writer.drain()

    async def get(self) -> AsgiMessage | None:
        """Return the next message; None if the other side has gone."""
        try:
            length = await self._reader.readexactly(_LENGTH_BYTES)
            return _decode(await self._reader.readexactly(int.from_bytes(length, "big")))
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def receive(self) -> AsgiMessage:
        """Return the next part of the request, as ASGI has it."""
        return await self.get() or _DISCONNECT

    async def send(self, message: AsgiMessage) -> None:
        """Send a part of the response, or nothing if the client has gone, as ASGI has it."""
        with suppress(OSError):
            await self.put(message)

    async def end(self) -> None:
        """Say that nothing follows, and read what is left: unread, it would reset the line."""
        with suppress(OSError):
            self._writer.write_eof()
            while await self._reader.read(_READ_BYTES):
                pass

    def close(self) -> None:
        """Close this end, after what was sent."""
        self._writer.close()


async def _send_request(receive: AsgiReceive, line: _Line) -> None:
    with suppress(OSError):
        while (message := await receive())["type"] != "http.disconnect":
            await line.put(message)
    line.close()


def _session_id(scope: AsgiScope) -> str | None:
    """Return the id of the session that a request names, of whichever revision."""
    if scope["type"] != "http":
        return None
    for name, value in scope["headers"]:
        if name == b"mcp-session-id":
            return str(value.decode("latin-1").strip(" \t"))
    if scope["path"].endswith(POST_PATH):
        [session_id, *_] = parse_qs(scope["query_string"].decode("latin-1")).get("session", [None])
        return session_id
    return None


async def _refuse(send: AsgiSend) -> None:
    fault = Fault(revisions.BUSY, "the worker that has the session does not answer; try again")
    body = error_mapping.error_response(None, fault)
    headers = [
        (b"content-length", b"%d" % len(body)),
        (b"content-type", b"application/json"),
        (b"retry-after", b"1"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
