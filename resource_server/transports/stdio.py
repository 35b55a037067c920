"""The stdio transport: one client, one message per line, until end of input.

Descriptors 0 and 1 are claimed at the start: other output of this process goes to standard error,
and other readers find an empty input. While a client does not read its responses, its requests are
not read either, so memory stays bounded on both sides.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

from resource_server.errors import Interrupted
from resource_server.protocol import revisions
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.client_features.client_roots import RootsOffer
from resource_server.protocol.error_mapping import Fault, error_response
from resource_server.protocol.message import request_id_at_ends
from resource_server.protocol.server import Server

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Maximum bytes of one message."""
_READ_BYTES = 64 * 1024
"""The allocator would map and unmap a larger buffer for every read, at 20 times the cost."""
_HIGH_WATER_BYTES = 1024 * 1024
"""With more unread output than this, no further requests are read."""
_SPIN_S = 0.000_05
"""How long to poll for the next request without sleep, if there is a processor for the client: a
client that sends one read after the other is answered 1.5 times as often."""
_TURN_S = 0.001
"""How long requests are read so, before the event loop goes on."""
_DRAIN_S = 2.0
"""At end of input, requests in flight continue while one finishes within this time."""
_FLUSH_S = 1.0
"""At the end, output is written while the client reads some of it within this time."""
_END_BYTES = 1024
"""The bytes kept of each end of a longer message, to answer it by its id."""
_TOO_LONG = Fault(
    revisions.INVALID_REQUEST,
    f"Invalid request: message is longer than {MAX_MESSAGE_BYTES} bytes",
)


def claim() -> tuple[int, int]:
    """Claim standard input and output for the protocol; return the descriptors to use instead."""
    sys.stdout.flush()
    reader, writer = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return reader, writer


async def serve(
    server: Server,
    reader: int,
    writer: int,
    *,
    roots: RootsOffer | None = None,
) -> None:
    """Serve one client on two descriptors until end of input, a broken pipe, SIGTERM or SIGINT.

    At end of input, requests in flight continue while one finishes every two seconds; a signal
    cancels them. In both cases, finished responses are written while the client reads them.
    A second signal interrupts everything. `roots` is passed to `ClientConnection`.

    Raises:
        OSError: responses cannot be written, although the client may wait for them.
    """
    lines = LineSplitter(MAX_MESSAGE_BYTES)
    waiting: deque[bytes | LineEnds] = deque()
    at_end = False
    ended = asyncio.Event()
    stopped = asyncio.Event()

    def received(data: bytes) -> None:
        nonlocal at_end
        at_end = not data
        waiting.extend(lines.feed(data) if data else lines.end())
        work()

    def work() -> None:
        output.hold()
        # One chunk of requests may produce far more output than the client reads.
        while waiting and not output.is_full():
            line = waiting.popleft()
            if isinstance(line, LineEnds):
                output.send(error_response(request_id_at_ends(line.head, line.tail), _TOO_LONG))
                connection.miss()
            else:
                connection.receive(line, output.send, output.send)
        output.flush()
        if waiting:
            source.pause()
        elif at_end:
            ended.set()
        else:
            source.resume()

    output = _Output(writer, emptied=work, closed=stopped.set)
    connection = ClientConnection(server, push=output.send, room=output.room, roots=roots)
    source = _input(reader, received, lambda: connection.is_idle and output.is_empty)
    _on_signals(stopped.set)
    await _first(ended.wait(), stopped.wait())
    source.close()
    if not stopped.is_set():
        await _first(connection.drain(_DRAIN_S), stopped.wait())
    await connection.close()
    while await output.drain(_FLUSH_S) and not stopped.is_set():
        pass
    if output.failure is not None:
        raise output.failure


class LineEnds(NamedTuple):
    """Both ends of a line that is too long to be stored."""

    head: bytes
    tail: bytes


class LineSplitter:
    """Splits bytes into lines; of one longer than `limit` bytes, only its ends are stored."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> list[bytes | LineEnds]:
        """Return the lines that `data` completes, without line ends and blank lines."""
        *whole, rest = data.split(b"\n")
        lines: list[bytes | LineEnds] = []
        for part in whole:
            self._add(part)
            if self._length > self._limit:
                lines.append(LineEnds(*self._parts))
            elif line := b"".join(self._parts).strip():
                lines.append(line)
            self._parts.clear()
            self._length = 0
        self._add(rest)
        return lines

    def end(self) -> list[bytes | LineEnds]:
        """Return the last line, if it has no line end."""
        return self.feed(b"\n")

    def _add(self, part: bytes) -> None:
        if self._length > self._limit:
            self._parts[1] = (self._parts[1] + part)[-_END_BYTES:]
            return
        self._parts.append(part)
        self._length += len(part)
        if self._length > self._limit:
            line = b"".join(self._parts)
            self._parts[:] = line[:_END_BYTES], line[-_END_BYTES:]


class _StandardInput:
    """Reads pipes, sockets and terminals on the event loop.

    `received` gets each chunk, and b"" once at end of input. While `may_spin` returns True, the
    next request is awaited for a moment outside the event loop.
    """

    def __init__(
        self, fd: int, received: Callable[[bytes], None], may_spin: Callable[[], bool]
    ) -> None:
        self._fd = fd
        self._received = received
        self._may_spin = may_spin
        self._spin_s = _SPIN_S if _processors() > 1 else 0.0
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._paused = True
        self.resume()

    def _readable(self) -> None:
        turn_ends = time.perf_counter() + _TURN_S
        self._read()
        while self._finds_next(turn_ends):
            self._read()

    def _finds_next(self, turn_ends: float) -> bool:
        """Poll for a moment without sleeping; return whether there is input."""
        if self._paused or self._closed or not self._may_spin():
            return False
        now = time.perf_counter()
        until = min(now + self._spin_s, turn_ends)
        while now < until:
            if self._poll.poll(0):
                return True
            now = time.perf_counter()
        return False

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
        self._received(data)

    def pause(self) -> None:
        self._paused = True
        self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if self._paused and not self._closed:
            self._paused = False
            self._loop.add_reader(self._fd, self._readable)

    def close(self) -> None:
        self._closed = True
        self._loop.remove_reader(self._fd)


class _ThreadInput:
    """Reads in a thread: regular files, and all descriptors on Windows."""

    def __init__(self, fd: int, received: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._received = received
        self._loop = asyncio.get_running_loop()
        self._wanted = threading.Event()
        self._is_requested = False
        self._closed = False
        # A daemon: a read that never returns must not keep the process alive.
        threading.Thread(target=self._run, name="stdin", daemon=True).start()
        self.resume()

    def _run(self) -> None:
        data = b"-"
        while data:
            self._wanted.wait()
            self._wanted.clear()
            try:
                data = os.read(self._fd, _READ_BYTES)
            except OSError:
                data = b""
            with suppress(RuntimeError):  # the event loop has ended, and the process soon will
                self._loop.call_soon_threadsafe(self._take, data)

    def _take(self, data: bytes) -> None:
        self._is_requested = False
        if not self._closed:
            self._received(data)

    def pause(self) -> None:
        pass  # each chunk is requested by `resume`

    def resume(self) -> None:
        if not self._is_requested:
            self._is_requested = True
            self._wanted.set()

    def close(self) -> None:
        self._closed = True


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _input(
    fd: int, received: Callable[[bytes], None], may_spin: Callable[[], bool]
) -> _StandardInput | _ThreadInput:
    try:
        return _StandardInput(fd, received, may_spin)
    except (AttributeError, NotImplementedError, OSError):  # EPERM: a regular file
        return _ThreadInput(fd, received)


class _Output:
    """Writes lines to a descriptor without blocking the event loop."""

    def __init__(self, fd: int, *, emptied: Callable[[], None], closed: Callable[[], None]) -> None:
        self.room = asyncio.Event()
        """Set while unread output is below the high-water mark."""
        self.room.set()
        self.failure: OSError | None = None
        """Why writing failed; None if only the reader has gone."""
        self._fd = fd
        self._emptied = emptied
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._lines: list[bytes] = []
        self._length = 0
        self._backlog = memoryview(b"")
        self._scheduled = False
        self._idle = asyncio.Event()
        self._idle.set()
        kind = os.fstat(fd).st_mode
        if os.name != "nt" and (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
            os.set_blocking(fd, False)

    def is_full(self) -> bool:
        """Return whether unread output exceeds the high-water mark."""
        if self._length > _HIGH_WATER_BYTES:
            self.flush()
        return self._length > _HIGH_WATER_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether everything is written."""
        return not self._backlog and not self._lines

    def hold(self) -> None:
        """Write nothing until `flush`, which the caller is about to call."""
        self._scheduled = True

    def send(self, line: bytes) -> None:
        """Queue one message; it is written soon, together with its neighbours."""
        self._lines.append(line)
        self._length += len(line) + 1
        if self._length > _HIGH_WATER_BYTES:
            self.room.clear()
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write as much queued output as the client accepts now."""
        self._scheduled = False
        if self._backlog or not self._lines:
            return  # with a backlog, `_writable` continues
        self._lines.append(b"")
        self._backlog = memoryview(b"\n".join(self._lines))
        self._lines.clear()
        self._write()
        if self._backlog:
            self._idle.clear()
            self._loop.add_writer(self._fd, self._writable)

    def _writable(self) -> None:
        self._write()
        if self._backlog:
            return
        self._loop.remove_writer(self._fd)
        self.flush()
        if not self._backlog:
            self._idle.set()
            self._emptied()

    def _write(self) -> None:
        try:
            written = os.write(self._fd, self._backlog)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            if not isinstance(error, ConnectionError):
                self.failure = error
            written = len(self._backlog)
            self._closed()
        self._backlog = self._backlog[written:]
        self._length -= written
        if self._length <= _HIGH_WATER_BYTES:
            self.room.set()

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything is written, at most `timeout_s` seconds.

        Returns:
            Whether output is left and the client has read some of it meanwhile.
        """
        self.flush()
        before = self._length
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        return 0 < self._length < before


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    is_stopping = False

    def signalled() -> None:
        nonlocal is_stopping
        if is_stopping:
            raise Interrupted
        is_stopping = True
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        # Windows, and loops outside the main thread, have no signal handlers.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, signalled)


async def _first(*awaitables: Coroutine[Any, Any, object]) -> None:
    """Wait until one ends; cancel the others."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
