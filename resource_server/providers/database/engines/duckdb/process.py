"""One worker process, as the engine sees it: statements in, rows out, by their numbers."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
from contextlib import suppress

import msgspec

from resource_server.conversion import framing, process
from resource_server.providers.database.engines.duckdb.messages import (
    MAX_MESSAGE_BYTES,
    Answer,
    Cancel,
    Open,
    Opened,
    Opening,
    OpenRefused,
    Run,
    RunFailed,
    RunResult,
    decode_answer,
    framed,
)

_MODULE = "resource_server.providers.database.engines.duckdb.worker"
_GRACE_S = 1.0
"""Time for a cancelled statement to end; then its worker is killed."""
_END_S = 5.0
_LAST_STATEMENT_S = 10.0
_FILE_S = 30.0
_FILE_BYTES_A_S = 4 * 1024 * 1024
"""Time to read one data file, and bytes of it a second beyond that."""


class WorkerLost(Exception):
    """The worker has ended, or was killed, before it answered."""


class WorkerProcess:
    """A worker with an open database. Use it in one event loop."""

    def __init__(self, grace_s: float = _GRACE_S) -> None:
        self._grace_s = grace_s
        self._channel, self.process = process.start(_MODULE)
        self._channel.setblocking(False)
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[RunResult | RunFailed]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self.is_lost = False
        self.opening: int | None = None
        """Place of the data table that is being read, or was when the worker ended."""

    async def open(self, opening: Open) -> Opened | OpenRefused:
        """Open the database.

        Raises:
            WorkerLost: the worker has failed.
        """
        try:
            reader, self._writer = await asyncio.open_connection(sock=self._channel)
            self._writer.write(framed(opening))
            answer = await self._answer(reader)
            while isinstance(answer, Opening):
                has_more = answer.place < len(opening.tables)
                self.opening = answer.place if has_more else None
                files = opening.tables[answer.place].files if has_more else ()
                within = _FILE_S + sum(file.size for file in files) / _FILE_BYTES_A_S
                answer = await self._answer(reader, within if has_more else None)
        except (OSError, EOFError, TimeoutError, msgspec.MsgspecError):
            self.is_lost = True
            raise WorkerLost from None
        if not isinstance(answer, Opened | OpenRefused):
            raise WorkerLost
        if isinstance(answer, Opened):
            self._reading = asyncio.create_task(self._read(reader))
        return answer

    async def _answer(self, reader: asyncio.StreamReader, within: float | None = None) -> Answer:
        async with asyncio.timeout(within):
            return decode_answer(await framing.receive_async(reader, MAX_MESSAGE_BYTES))

    async def run(self, job: Run) -> RunResult | RunFailed:
        """Run a statement; cancelling this stops it.

        Raises:
            WorkerLost: the worker has ended.
        """
        if self.is_lost or self._writer is None:
            raise WorkerLost
        id = next(self._ids)
        answer: asyncio.Future[RunResult | RunFailed] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        self._writer.write(framed(msgspec.structs.replace(job, id=id)))
        try:
            return await answer
        except asyncio.CancelledError:
            self._stop(id)
            raise

    @property
    def is_busy(self) -> bool:
        """Whether a statement is running."""
        return bool(self._waiting)

    def _stop(self, id: int) -> None:
        if id not in self._waiting or self._writer is None or self.is_lost:
            return
        ended: asyncio.Future[RunResult | RunFailed] = asyncio.get_running_loop().create_future()
        self._waiting[id] = ended
        self._writer.write(framed(Cancel(id)))
        ended.get_loop().call_later(self._grace_s, lambda: ended.done() or self.kill())

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                answer = decode_answer(await framing.receive_async(reader, MAX_MESSAGE_BYTES))
                if not isinstance(answer, RunResult | RunFailed):
                    break
                waiting = self._waiting.pop(answer.id, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except (OSError, EOFError, ValueError, ArithmeticError, msgspec.MsgspecError):
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the process; all its statements fail."""
        self.is_lost = True
        with suppress(OSError):
            self.process.kill()
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            if not each.done():
                each.set_exception(WorkerLost())
                each.exception()  # nobody may be waiting any more

    async def end_when_done(self) -> None:
        """Let the statements end that are running, then kill the process."""
        if self._waiting:
            await asyncio.wait(tuple(self._waiting.values()), timeout=_LAST_STATEMENT_S)
        await self.end()

    async def end(self) -> None:
        """Kill the process, and wait for its end."""
        self._close()
        if self._reading is not None:
            await asyncio.wait((self._reading,))
        await asyncio.to_thread(self._wait)

    def end_at_once(self) -> None:
        """Do as `end` in a loop that is closing."""
        self._close()
        self._wait()

    def _wait(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_S)

    def _close(self) -> None:
        self.kill()
        if self._reading is not None:
            self._reading.cancel()
        (self._writer or self._channel).close()
