"""The pool of workers: at most two processes, started on need, that convert documents.

A worker ends after 100 documents, after any fault, and when it has had nothing to do for a while.
A document that crashes it, or takes too long, fails alone.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from resource_server.conversion import process, registry
from resource_server.conversion.messages import (
    MAX_PARTS,
    Begun,
    ConversionJob,
    Converted,
    Done,
    Failed,
    Refused,
    Unusable,
    send_job,
    take_answer,
)
from resource_server.conversion.text_window import WindowPlace
from resource_server.errors import (
    ConversionError,
    ConversionTooSlow,
    InvalidParameter,
    ResourceBusy,
)
from resource_server.provider.conversion import ConversionRequest, Part
from resource_server.runtime.document_range import Range

_log = logging.getLogger(__name__)

WORKERS = 2
_MAX_DOCUMENTS = 100
"""Documents of one worker."""
_TIME_S = 15.0
"""Maximum time of one document, with the start of a worker."""
_MODULE = "resource_server.conversion.worker"
_IDLE_S = 30.0
"""Time without work after which a worker ends."""
MAX_BYTES = 4 * 1024 * 1024
"""Maximum bytes of one result."""


class Conversion(msgspec.Struct, frozen=True):
    """A converted document, or some parts of it."""

    parts: tuple[Part, ...]
    is_cut: bool = False
    """Whether the last part is not whole, or others after it are missing."""
    place: WindowPlace = WindowPlace()
    """Where the text lies in that of the document."""

    @property
    def total(self) -> int | None:
        """Number of parts in the whole document, if known."""
        return next((part.total for part in reversed(self.parts) if part.total is not None), None)

    @property
    def size(self) -> int:
        """Characters or bytes of all parts."""
        return sum(len(part.data) for part in self.parts)


class PoolCounts(msgspec.Struct, frozen=True):
    """Numbers of a pool, for its operator."""

    converted: int
    failed: int
    refused: int
    """Documents that no worker was free for."""
    seconds: float
    """Time of all three, with the wait for a worker."""
    waiting: int
    """Documents that wait for a worker now."""
    workers: int
    """Processes now."""


class ConverterPool:
    """Converts documents in workers. Any thread may call any method; `convert` blocks."""

    def __init__(
        self, *, workers: int = WORKERS, time_s: float = _TIME_S, modules: Sequence[str] = ()
    ) -> None:
        """Prepare a pool; `modules` are folders of converters that are not installed."""
        self._modules = modules
        self._slots = threading.BoundedSemaphore(workers)
        self._lock = threading.Lock()
        self._idle: list[_ConversionWorker] = []
        self._time_s = time_s
        self._is_closed = False
        self._sweeper: threading.Timer | None = None
        self._converted = self._failed = self._refused = 0
        self._seconds = self._start_s = 0.0
        self._waiting = self._at_work = 0

    @property
    def processes(self) -> Sequence[int]:
        """Ids of the workers that wait for work."""
        with self._lock:
            return [worker.process.pid for worker in self._idle]

    @property
    def counts(self) -> PoolCounts:
        """The numbers so far, and of now."""
        with self._lock:
            return PoolCounts(
                converted=self._converted,
                failed=self._failed,
                refused=self._refused,
                seconds=self._seconds,
                waiting=self._waiting,
                workers=self._at_work + len(self._idle),
            )

    @property
    def is_worth_two(self) -> bool:
        """Whether a second worker pays: conversions have taken longer so far than a start."""
        return self._seconds > 2 * self._start_s > 0

    def convert(
        self,
        reference: str,
        fd: int,
        request: ConversionRequest,
        *,
        time_s: float | None = None,
        start: Range | None = None,
        is_one: bool = False,
    ) -> Conversion:
        """Return the parts of an open document, converted by the function `module:name`.

        With a `start`, the only part is a window of the joined text from there; with `is_one`, it
        is the first part.

        Raises:
            ConversionError: it cannot be converted, or not within `time_s`.
            InvalidParameter: it has nothing for one of the options.
            ResourceBusy: other documents have kept all workers busy for so long.
        """
        begun = time.monotonic()
        job = ConversionJob(reference, request, MAX_BYTES, start, is_one)
        try:
            found = self._convert(job, fd, begun, time_s)
        except (ConversionError, InvalidParameter):
            self._count(begun, failed=1)
            raise
        except ResourceBusy:
            self._count(begun, refused=1)
            raise
        self._count(begun, converted=1)
        return found

    def start(self, reference: str) -> None:
        """Start a worker of a converter, which the next document finds ready. Blocks."""
        job = ConversionJob(reference, None)
        with suppress(ConversionError, ResourceBusy), Path(os.devnull).open("rb") as nothing:
            self._convert(job, nothing.fileno(), time.monotonic(), None)

    def protections(self, reference: str) -> Sequence[str]:
        """Return what the kernel enforces on the workers of a converter. Blocks.

        Raises:
            ConversionError: the converter cannot be used; the message has the reason.
        """
        worker = _ConversionWorker(reference, self._modules)
        try:
            with Path(os.devnull).open("rb") as nothing:
                until = time.monotonic() + self._time_s
                worker.convert(ConversionJob(reference, None), nothing.fileno(), until)
            return worker.protections or ()
        finally:
            worker.end()

    def _convert(
        self, job: ConversionJob, fd: int, begun: float, time_s: float | None
    ) -> Conversion:
        time_s = self._time_s if time_s is None else min(time_s, self._time_s)
        with self._lock:
            self._waiting += 1
        is_free = self._slots.acquire(timeout=time_s)
        with self._lock:
            self._waiting -= 1
        if not is_free:
            raise ResourceBusy("other documents are being converted; try again")
        try:
            worker = self._worker(job.reference)
            is_fit = False
            try:
                result = worker.convert(job, fd, begun + time_s)
                is_fit = worker.is_fit
            except _Unconvertible as error:
                is_fit = worker.is_fit
                if error.is_refused:
                    raise InvalidParameter(str(error)) from None
                raise ConversionError(f"this document cannot be converted: {error}") from None
            finally:
                self._give_back(worker, is_fit=is_fit)
        finally:
            self._slots.release()
        return result

    def _count(
        self, begun: float, *, converted: int = 0, failed: int = 0, refused: int = 0
    ) -> None:
        with self._lock:
            self._converted += converted
            self._failed += failed
            self._refused += refused
            self._seconds += time.monotonic() - begun

    def _worker(self, reference: str) -> _ConversionWorker:
        with self._lock:
            if self._is_closed:
                raise ResourceBusy("the server is shutting down")
            for worker in reversed(self._idle):
                is_shared = registry.share_worker(reference, worker.reference)
                # One that was killed meanwhile is no fault of this document.
                if is_shared and worker.process.poll() is None:
                    self._idle.remove(worker)
                    self._at_work += 1
                    return worker
            # Two workers at most: one of another converter makes room.
            surplus = [worker for worker in self._idle if worker.process.poll() is not None]
            self._idle = [worker for worker in self._idle if worker not in surplus]
            if len(self._idle) >= WORKERS:
                surplus.append(self._idle.pop(0))
            self._at_work += 1
        for worker in surplus:
            worker.end()
        try:
            return _ConversionWorker(reference, self._modules)
        except BaseException:
            with self._lock:
                self._at_work -= 1
            raise

    def _give_back(self, worker: _ConversionWorker, *, is_fit: bool) -> None:
        with self._lock:
            self._at_work -= 1
            self._start_s = worker.start_s
            if is_fit and not self._is_closed:
                worker.idle_since = time.monotonic()
                self._idle.append(worker)
                if self._sweeper is None:
                    self._sweep_later()
                return
        worker.end()

    def _sweep_later(self) -> None:
        self._sweeper = threading.Timer(_IDLE_S, self._sweep)
        self._sweeper.daemon = True
        self._sweeper.start()

    def _sweep(self) -> None:
        """End workers that have had nothing to do."""
        with self._lock:
            self._sweeper = None
            begin = time.monotonic() - _IDLE_S
            ended = [worker for worker in self._idle if worker.idle_since <= begin]
            self._idle = [worker for worker in self._idle if worker.idle_since > begin]
            if self._idle and not self._is_closed:
                self._sweep_later()
        for worker in ended:
            worker.end()

    def close(self) -> None:
        """End all workers; those at work end with their documents."""
        with self._lock:
            self._is_closed = True
            workers, self._idle = self._idle, []
            sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:
            sweeper.cancel()
        for worker in workers:
            worker.end()


class _Unconvertible(Exception):
    """A document cannot be converted, for a reason; its worker can go on."""

    def __init__(self, reason: str, *, is_refused: bool = False) -> None:
        super().__init__(reason)
        self.is_refused = is_refused
        """Whether the reason is a URI parameter."""


def _error(answer: Failed | Refused | Unusable, job: ConversionJob) -> Exception:
    """Return the error for an answer without a result."""
    if isinstance(answer, Unusable):
        return ConversionError(f"its converter {answer.words}")
    if isinstance(answer, Failed) and answer.code:
        _log.warning("the converter %s failed: %s", job.reference, answer.code)
    # Without a parameter, only the document can be at fault.
    has_options = job.request is not None and bool(job.request.options)
    is_refused = isinstance(answer, Refused) and has_options
    return _Unconvertible(answer.words, is_refused=is_refused)


class _ConversionWorker:
    """One process."""

    def __init__(self, reference: str, modules: Sequence[str]) -> None:
        self.reference = reference
        self._documents = 0
        self._most = _MAX_DOCUMENTS
        self.idle_since = self.start_s = 0.0
        self.protections: Sequence[str] | None = None
        self._channel, self.process = process.start(_MODULE, *modules)

    @property
    def is_fit(self) -> bool:
        """Whether it may convert another document."""
        return self._documents < self._most

    def convert(self, job: ConversionJob, fd: int, until: float) -> Conversion:
        """Convert one document until a time of the monotonic clock.

        Raises:
            _Unconvertible: it cannot be converted; the worker goes on.
            ConversionError: the worker has failed; it must be ended.
        """
        self._documents += 1
        begun = time.monotonic()
        parts: list[Part] = []
        room = job.max_bytes
        try:
            self._channel.settimeout(max(until - begun, 0.001))
            send_job(self._channel, job, fd)
            while True:
                # Also between answers that are there already: a document may have many parts.
                if (left_s := until - time.monotonic()) <= 0:
                    raise TimeoutError
                self._channel.settimeout(left_s)
                answer = take_answer(self._channel)
                if isinstance(answer, Begun):
                    self.protections = answer.protections
                    self.start_s = time.monotonic() - begun
                    self._most = 1 if answer.is_for_one else _MAX_DOCUMENTS
                elif isinstance(answer, Converted):
                    parts.append(answer.part)
                    room -= len(parts[-1].data)
                    # A worker that a document has taken over keeps no limits.
                    if room < 0 or len(parts) > MAX_PARTS:
                        raise EOFError
                elif isinstance(answer, Done):
                    return Conversion(tuple(parts), answer.is_cut, answer.place)
                else:
                    raise _error(answer, job)
        except TimeoutError:
            raise ConversionTooSlow(
                f"this document cannot be converted: it takes longer than {until - begun:.1f} s"
            ) from None
        except (EOFError, OSError, ValueError, msgspec.MsgspecError):
            raise ConversionError(
                "this document cannot be converted: the converter failed, or reached its limits"
            ) from None

    def end(self) -> None:
        """Kill the process, and wait for its end."""
        with suppress(OSError):
            self.process.kill()
        self._channel.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)


@functools.lru_cache(maxsize=1)
def shared() -> ConverterPool:
    """Return the pool of this process."""
    pool = ConverterPool()
    atexit.register(pool.close)
    return pool
