"""Requests of a session, passed on to the worker that has it.

Any worker accepts a connection. The id of a session determines its worker, which answers the
request over a socket that the two workers share.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast
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
"""Keys of an ASGI scope that are passed on."""
_LENGTH_BYTES = 4
_READ_BYTES = 1 << 16
_MAX_IDLE = 64
_READY = b"+"
_ASK, _WANTED = {"type": "ask"}, {"type": "wanted"}
"""What comes before the body of a client that waits until it is wanted, and the answer to it."""
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
        self._idle: Sequence[list[_WorkerLine]] = [[] for _ in range(self._workers.count)]
        """Lines to each other worker that no request uses."""
        self._lines = set[asyncio.Task[None]]()
        self._busy = set[asyncio.Task[Any]]()

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
            line = await self._line(home)
            limit = asyncio.timeout(None)
            sending = asyncio.create_task(self._send_request(scope, receive, line, limit))
            try:
                async with limit:
                    await line.wait_until_accepted()
                while message := await line.get():
                    if message == _WANTED:
                        line.is_wanted.set()
                        continue
                    has_begun = True
                    await send(message)
            finally:
                sending.cancel()
                self._let_go(home, line)
        if not has_begun:
            await _refuse(send)

    async def _send_request(
        self, scope: AsgiScope, receive: AsgiReceive, line: _WorkerLine, limit: asyncio.Timeout
    ) -> None:
        """Send a request; `limit` runs from its beginning, for which a client may take long."""
        line.hold({name: scope[name] for name in _SCOPE if name in scope})
        with suppress(OSError):
            if (b"expect", b"100-continue") in scope["headers"]:
                # To receive is to tell the client to go on, and the request may be refused.
                self._begin(limit)
                line.is_wanted.clear()
                await line.put(_ASK)
                await line.is_wanted.wait()
            while (message := await receive())["type"] != "http.disconnect":
                if limit.when() is None:
                    self._begin(limit)
                await line.put(message)
        if not line.is_answered:  # after a response it may serve another request
            line.close()

    def _begin(self, limit: asyncio.Timeout) -> None:
        limit.reschedule(asyncio.get_running_loop().time() + self._timing.worker_answer_s)

    async def _line(self, home: int) -> _WorkerLine:
        """Return a line to another worker.

        Raises:
            OSError: it does not answer.
        """
        idle = self._idle[home]
        while idle:
            if (line := idle.pop()).may_be_used:
                return line
            line.close()
        ours, theirs = socket.socketpair()
        with theirs:
            # How many are unanswered is bounded by the system: then it blocks.
            socket.send_fds(self._workers.mailboxes[home].inlet, [_READY], [theirs.fileno()])
        line = await _WorkerLine.over(ours)
        try:
            async with asyncio.timeout(self._timing.worker_answer_s):
                await line.wait_until_accepted()
        except BaseException:
            line.close()
            raise
        return line

    def _let_go(self, home: int, line: _WorkerLine) -> None:
        if line.may_be_used and len(self._idle[home]) < _MAX_IDLE:
            self._idle[home].append(line)
        else:
            line.close()

    # -- at the worker that has the session

    def open(self, tasks: set[asyncio.Task[None]], orphaned: Callable[[], None]) -> None:
        """Answer the requests that others pass on; `tasks` has those that an end waits for.

        `orphaned` is called when the parent has ended.
        """
        self._busy = tasks
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
                self._lines.add(task)
                task.add_done_callback(self._lines.discard)

    async def _answer(self, passed: socket.socket) -> None:
        line = await _WorkerLine.over(passed)
        task = cast("asyncio.Task[None]", asyncio.current_task())
        try:
            line.accept()
            while scope := await line.get():
                line.accept()  # a line that was kept may lead to a worker that hangs
                self._busy.add(task)
                await self._application(scope, line.receive, line.send)
                await line.end()
                self._busy.discard(task)
        finally:
            self._busy.discard(task)
            line.close()


class _WorkerLine:
    """A connection of two workers, for one request after the other.

    It carries ASGI messages, each after its length. An empty one follows a response.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._held = b""
        """Bytes to send with the next message."""
        self.is_answered = False
        """Whether the last part of a response has come."""
        self.is_wanted = asyncio.Event()
        """Set when the other side waits for the body of the request."""
        self._is_request_read = False
        self._is_idle = False
        """Whether nothing of the last request or response is on its way."""

    @property
    def may_be_used(self) -> bool:
        """Whether another request can be sent."""
        return self._is_idle and not self._reader.at_eof() and not self._writer.is_closing()

    @classmethod
    async def over(cls, connection: socket.socket) -> _WorkerLine:
        """Return the line over one end of a pair of sockets."""
        return cls(*await asyncio.open_unix_connection(sock=connection))

    def accept(self) -> None:
        """Confirm a new line, and each request on it."""
        self._writer.write(_READY)

    async def wait_until_accepted(self) -> None:
        """Wait until the other worker confirms.

        Raises:
            OSError: it has gone.
        """
        if await self._reader.read(1) != _READY:
            raise ConnectionResetError

    def hold(self, message: AsgiMessage) -> None:
        """Send a message together with the next."""
        self._is_idle = self.is_answered = False
        data = _encode(message)
        self._held += len(data).to_bytes(_LENGTH_BYTES, "big") + data

    async def put(self, message: AsgiMessage) -> None:
        """Send a message, as fast as the other side reads.

        Raises:
            OSError: it has gone.
        """
        self.hold(message)
        self._writer.write(self._held)
        self._held = b""
        await self._writer.drain()

    async def get(self) -> AsgiMessage | None:
        """Return the next message; None if the other side has gone."""
        try:
            length = await self._reader.readexactly(_LENGTH_BYTES)
            message = _decode(await self._reader.readexactly(int.from_bytes(length, "big")))
        except (asyncio.IncompleteReadError, OSError):
            self._is_idle = False
            return None
        self._is_idle = not message
        is_body = message.get("type") == "http.response.body"
        self.is_answered = self._is_idle or (is_body and not message.get("more_body", False))
        return message

    async def receive(self) -> AsgiMessage:
        """Return the next part of the request, as ASGI has it."""
        message = await self.get() or _DISCONNECT
        if message == _ASK:
            await self.put(_WANTED)
            message = await self.get() or _DISCONNECT
        self._is_request_read = not message.get("more_body", False)
        return message

    async def send(self, message: AsgiMessage) -> None:
        """Send a part of the response, or nothing if the client has gone, as ASGI has it."""
        if message["type"] == "http.response.start":
            self.hold(message)
        else:
            with suppress(OSError):
                await self.put(message)

    async def end(self) -> None:
        """Mark the end of a response.

        After an unread request, end the line and read the rest: unread bytes would reset it.
        """
        with suppress(OSError):
            if self._is_request_read:
                await self.put({})
            else:
                self._writer.write_eof()
                while await self._reader.read(_READ_BYTES):
                    pass
        self._is_request_read = False

    def close(self) -> None:
        """Close this end, after all sent bytes."""
        self._writer.close()


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
