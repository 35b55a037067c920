"""The parent of workers: starts them, starts a dead one again, and ends with them.

It loads no manifest and runs no thread, so that each worker begins as a copy of a clean process.
uvicorn's own `Multiprocess` cannot do this: it imports the application in each process, restarts a
dead one without a pause, waits without a limit for the end, and leaves workers behind if it dies.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from types import FrameType
from typing import Final

from resource_server.runtime.rates import Backoff
from resource_server.runtime.timing import Timing
from resource_server.transports.http.workers.worker import Worker, Workers

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_END_MARGIN_S: Final = 5.0
"""Time of a worker for what has no timeout of its own at its end."""
_KILLED: Final = 1
_BY_SIGNAL: Final = 128


class _Place:
    """The place of one worker, which processes fill one after the other."""

    def __init__(self, number: int, timing: Timing) -> None:
        self.number = number
        self.process: ForkProcess | None = None
        self.starting: Connection | None = None
        """Can be read once the process accepts connections."""
        self.begun_at = math.inf
        """When the process accepted connections."""
        self.start_at = 0.0
        """When a process is to be started, if there is none."""
        self.backoff = Backoff(timing.worker_retry_s, timing.worker_retry_max_s)


class Parent:
    """Runs workers, each of which does what `serve` does, and returns its exit status.

    `started` is called once, when all have begun; `report` receives ends and restarts.
    """

    def __init__(
        self,
        count: int,
        listening: socket.socket,
        serve: Callable[[Worker], int],
        *,
        started: Callable[[], None],
        report: Callable[[str], None],
        timing: Timing,
    ) -> None:
        self._workers = Workers(count, listening)
        self._serve = serve
        self._started = started
        self._report = report
        self._timing = timing
        self._places = [_Place(number, timing) for number in range(count)]
        self._has_started = self._has_announced = False
        self._kill_at: float | None = None
        """Set once the server ends."""
        self._status = 0

    def run(self) -> int:
        """Run until a signal ends the workers, or the first cannot begin; return the status."""
        with _signals() as received:
            try:
                # Alone: a refusal would meet the others, too.
                self._start(self._places[0])
                while self._kill_at is None or any(self._running()):
                    self._wait(received)
                    for _ in _numbers(received):
                        self._end_all()
                    for place in self._places:
                        self._look_after(place)
                    self._announce()
            finally:
                os.close(self._workers.held_by_parent)
                for place in self._running():
                    self._end(place, self._end_s)
        return self._status

    @property
    def _end_s(self) -> float:
        timing = self._timing
        return timing.shutdown_timeout_s + timing.mount_close_s + _END_MARGIN_S

    def _running(self) -> Iterable[_Place]:
        return [place for place in self._places if place.process is not None]

    def _start(self, place: _Place) -> None:
        """Start a worker.

        Raises:
            OSError: the system has no room for a process.
        """
        context = multiprocessing.get_context("fork")
        starting, ready = context.Pipe(duplex=False)
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            process = context.Process(target=self._work, args=(place.number, ready, starting))
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            ready.close()
        place.process, place.starting, place.begun_at = process, starting, math.inf

    def _work(self, number: int, ready: Connection, starting: Connection) -> None:
        """Be a worker; runs in a process of its own."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # A terminal sends it to the parent, too, which sends SIGTERM.
        signal.signal(signal.SIGINT, _pass)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(self._workers.held_by_parent)
        starting.close()

        def tell() -> None:
            with ready, suppress(OSError):  # the parent has gone, and with it the server
                ready.send_bytes(b"+")

        raise SystemExit(self._serve(Worker(number, self._workers, tell)))

    def _wait(self, received: socket.socket) -> None:
        """Wait until something happens to a worker, or is to be done."""
        soonest = self._kill_at
        sources: list[socket.socket | Connection | int] = [received]
        for place in self._places:
            if place.process is not None:
                sources.append(place.process.sentinel)
                if place.starting is not None:
                    sources.append(place.starting)
            elif self._has_started and self._kill_at is None:
                soonest = place.start_at if soonest is None else min(soonest, place.start_at)
        wait(sources, None if soonest is None else max(soonest - time.monotonic(), 0))

    def _look_after(self, place: _Place) -> None:
        process, now = place.process, time.monotonic()
        if process is None:
            if self._has_started and self._kill_at is None and place.start_at <= now:
                self._start_again(place)
        elif not process.is_alive():
            self._ended(place, process.exitcode or 0)
        elif self._kill_at is not None:
            if now >= self._kill_at:
                self._end(place, 0)
        elif place.starting is not None and place.starting.poll():
            with suppress(EOFError):  # it is about to end
                place.starting.recv_bytes()
                self._has_started = True
                place.begun_at = now
            place.starting.close()
            place.starting = None

    def _announce(self) -> None:
        is_waiting = not self._has_started or any(place.starting for place in self._places)
        is_ending = self._kill_at is not None
        if not (is_waiting or is_ending or self._has_announced):
            self._has_announced = True
            self._started()

    def _start_again(self, place: _Place) -> None:
        try:
            self._start(place)
        except OSError as error:
            self._postpone(place, f"cannot be started: {error.strerror}")

    def _ended(self, place: _Place, code: int) -> None:
        """Note the end of a worker, and plan the start of the next one."""
        is_refused = not self._has_started
        if place.starting is not None:
            place.starting.close()
        place.process = place.starting = None
        status = _BY_SIGNAL - code if code < 0 else code
        if self._kill_at is not None:
            self._status = max(self._status, status)
        elif is_refused:
            self._status = status
            self._kill_at = time.monotonic()
        else:
            if time.monotonic() - place.begun_at > self._timing.worker_retry_max_s:
                place.backoff.reset()
            self._postpone(place, f"ended by signal {-code}" if code < 0 else f"ended with {code}")

    def _postpone(self, place: _Place, why: str) -> None:
        pause_s = place.backoff.next_s()
        place.start_at = time.monotonic() + pause_s
        self._report(f"worker {place.number + 1} {why}; the next one starts in {pause_s:g} s")

    def _end_all(self) -> None:
        """End the workers: by the first signal when they have finished, by others sooner."""
        # It would hold connections that nobody accepts.
        self._workers.listening.close()
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._end_s
        for place in self._running():
            if place.process is not None:
                place.process.terminate()

    def _end(self, place: _Place, patience_s: float) -> None:
        """Kill a worker unless it ends in time."""
        if (process := place.process) is None:
            return
        process.join(patience_s)
        if process.is_alive():
            self._report(f"worker {place.number + 1} did not end in time, and is killed")
            process.kill()
            process.join()
            self._status = self._status or _KILLED
        place.process = None


@contextmanager
def _signals() -> Generator[socket.socket]:
    """Give a socket on which the numbers of signals arrive, instead of what they do."""
    received, told = socket.socketpair()
    with received, told:
        received.setblocking(False)
        told.setblocking(False)
        before = {number: signal.signal(number, _pass) for number in _SIGNALS}
        signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
        try:
            yield received
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)


def _pass(_number: int, _frame: FrameType | None) -> None:
    """Do nothing at a signal; a program that is started does as before, unlike with `SIG_IGN`."""


def _numbers(received: socket.socket) -> bytes:
    with suppress(BlockingIOError):
        return received.recv(64)
    return b""
