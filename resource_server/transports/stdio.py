"""MCP over standard input and output: one message a line, one client, until end of input.

Descriptors 0 and 1 are claimed at the start: whatever else prints in this process goes to standard
error, and whatever else reads finds nothing. A client that does not read its answers is not read
from either, so neither side's memory grows.
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
from typing import Any

from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.client_roots import RootsOffer
from resource_server.protocol.server import Server

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
_READ_BYTES = 64 * 1024
"""A larger buffer is mapped and unmapped by the allocator at every read, at 20 times the cost."""
_HIGH_WATER_BYTES = 1024 * 1024
_LINGER_S = 0.001
_SPIN_S = 0.000_05
"""Where there is another processor for the client."""
_DRAIN_S = 2.0
_FLUSH_S = 1.0
_TOO_LONG = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":'
    b'"Invalid request: message is longer than %d bytes"}}' % MAX_MESSAGE_BYTES
)


def claim() -> tuple[int, int]:
    """Take standard input and output for the protocol; return the descriptors to use instead."""
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
    """Serve one client on two descriptors until end of input, a broken pipe or SIGTERM or SIGINT.

    A second signal interrupts whatever still runs.

    At end of input, requests in flight may still finish, as long as one does within two seconds;
    at a signal they are cancelled. Answers already made are written either way, as long as the
    client takes them. `roots` is as `ClientConnection` has it.

    Raises:
        OSError: answers cannot be written, though somebody may wait for them.
    """
    lines = Lines(MAX_MESSAGE_BYTES)
    waiting: deque[bytes | None] = deque()
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
        # One chunk of input may ask for far more than the client is willing to read.
        while waiting and not output.is_full():
            line = waiting.popleft()
            if line is None:
                output.send(_TOO_LONG)
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


class Lines:
    """Bytes to lines, bounded: a line longer than `limit` bytes is given as None and not kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._length = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that `data` completes, without line ends; blank ones are left out."""
        *whole, rest = data.split(b"\n")
        lines: list[bytes | None] = []
        for part in whole:
            self._add(part, lines)
            if not self._skipping:
                line = b"".join(self._parts).strip()
                if line:
                    lines.append(line)
            self._parts.clear()
            self._length = 0
            self._skipping = False
        self._add(rest, lines)
        return lines

    def end(self) -> list[bytes | None]:
        """Return the last line, if it had no line end."""
        return self.feed(b"\n")

    def _add(self, part: bytes, lines: list[bytes | None]) -> None:
        if self._skipping or not part:
            return
        self._length += len(part)
        if self._length > self._limit:
            self._skipping = True
            self._parts.clear()
            lines.append(None)
        else:
            self._parts.append(part)


class _Input:
    """Reads a descriptor when it is readable, on the loop: pipes, sockets and terminals.

    `received` gets each chunk, and b"" once at the end of input. A client that asks one thing after
    the other is waited for on the spot for a millisecond, while `may_linger` says that nothing else
    is going on: a turn of the event loop costs a tenth of an answer.
    """

    def __init__(
        self, fd: int, received: Callable[[bytes], None], may_linger: Callable[[], bool]
    ) -> None:
        self._fd = fd
        self._received = received
        self._may_linger = may_linger
        self._spin_s = _SPIN_S if _processors() > 1 else 0.0
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._paused = True
        self.resume()

    def _readable(self) -> None:
        until = self._loop.time() + _LINGER_S
        self._read()
        while (
            not self._paused
            and not self._closed
            and self._may_linger()
            and self._loop.time() < until
            and (self._spins() or self._poll.poll(_LINGER_S * 1000))
        ):
            self._read()

    def _spins(self) -> bool:
        """Wait for a moment without falling asleep; say whether there is something to read.

        To be woken up costs more than most answers.
        """
        until = time.perf_counter() + self._spin_s
        while time.perf_counter() < until:
            if self._poll.poll(0):
                return True
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
    """Reads a descriptor in a thread: regular files, and everything on Windows."""

    def __init__(self, fd: int, received: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._received = received
        self._loop = asyncio.get_running_loop()
        self._wanted = threading.Event()
        self._asked = False
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
            with suppress(
                RuntimeError
            ):  # the loop has ended: so does this thread, with the process
                self._loop.call_soon_threadsafe(self._take, data)

    def _take(self, data: bytes) -> None:
        self._asked = False
        if not self._closed:
            self._received(data)

    def pause(self) -> None:
        pass  # each chunk is asked for

    def resume(self) -> None:
        if not self._asked:
            self._asked = True
            self._wanted.set()

    def close(self) -> None:
        self._closed = True


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _input(
    fd: int, received: Callable[[bytes], None], may_linger: Callable[[], bool]
) -> _Input | _ThreadInput:
    try:
        return _Input(fd, received, may_linger)
    except (
        AttributeError,
        NotImplementedError,
        OSError,
    ):  # EPERM: a regular file is always readable
        return _ThreadInput(fd, received)


class _Output:
    """Writes lines to a descriptor without ever blocking the loop."""

    def __init__(self, fd: int, *, emptied: Callable[[], None], closed: Callable[[], None]) -> None:
        self.room = asyncio.Event()
        """Set while the client has no more to read than it should be given at once."""
        self.room.set()
        self.failure: OSError | None = None
        """Why nothing more can be written, unless that is because nobody reads it."""
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
        """Tell whether the client has more to read than it should be given at once."""
        if self._length > _HIGH_WATER_BYTES:
            self.flush()
        return self._length > _HIGH_WATER_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether the client has taken everything that was sent."""
        return not self._backlog and not self._lines

    def hold(self) -> None:
        """Write nothing until the next `flush`, which is about to come."""
        self._scheduled = True

    def send(self, line: bytes) -> None:
        """Take one message; it is written soon, together with others of the same moment."""
        self._lines.append(line)
        self._length += len(line) + 1
        if self._length > _HIGH_WATER_BYTES:
            self.room.clear()
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what has been sent, as far as the client takes it at once."""
        self._scheduled = False
        if self._backlog or not self._lines:
            return  # with a backlog, `_writable` goes on as soon as there is room
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
            self._closed()  # there is nobody to tell
        self._backlog = self._backlog[written:]
        self._length -= written
        if self._length <= _HIGH_WATER_BYTES:
            self.room.set()

    async def drain(self, seconds: float) -> bool:
        """Wait until everything sent is written, at most so long.

        Returns whether there is more to write, and the client goes on reading.
        """
        self.flush()
        before = self._length
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        return 0 < self._length < before


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    is_stopping = False

    def signalled() -> None:
        nonlocal is_stopping
        if is_stopping:
            raise KeyboardInterrupt
        is_stopping = True
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        # Windows, and loops outside the main thread, have no signal handlers.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, signalled)


async def _first(*awaitables: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them has ended; cancel the others."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
