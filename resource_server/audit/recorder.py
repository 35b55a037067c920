"""The recorder: takes lines from the event loop, and writes them in a thread of its own."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import msgspec

from resource_server import __version__
from resource_server.audit.chain import FIRST, Chain
from resource_server.audit.entry import AuditEntry, AuditEvent, AuditLine, encoded_line, moment
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger(__name__)

MAX_WAITING: Final = 8192
"""Lines that wait to be written; further ones are dropped."""
MAX_RECENT: Final = 1000
"""Lines that are kept for the activity."""
_FULL: Final = MAX_WAITING * 3 // 4
"""Lines that wait when requests are refused: those in flight still add theirs."""
_BATCH: Final = 256
_TURN: Final = 16
"""Lines that are encoded before the event loop has its turn."""
_PAUSE_S: Final = 0.000_1
_CLOSE_S: Final = 2.0

_decode = msgspec.json.Decoder(AuditEntry).decode


class Sink(Protocol):
    """Where lines go. Used by one thread."""

    @property
    def problem(self) -> str | None:
        """What does not work, although lines are written."""
        ...

    def look(self) -> AuditEvent | None:
        """Return what others have done to the record since the last write."""
        ...

    def write(self, lines: bytes) -> None:
        """Append lines. Raises `OSError` if no line is written."""
        ...

    def close(self) -> None:
        """Write nothing more."""
        ...


class StandardError:
    """Standard error as the place of the record."""

    problem = None

    def look(self) -> None:
        """Nothing happens to it."""

    def write(self, lines: bytes) -> None:
        """Write lines; blocks while nobody reads."""
        left = memoryview(lines)
        while left:
            left = left[os.write(2, left) :]

    def close(self) -> None:
        """Leave it open for the log."""


class RecordCounts(msgspec.Struct, frozen=True):
    """What a recorder has done."""

    written: int = 0
    dropped: int = 0
    failing: int = 0
    """Recorders that cannot write now."""


class Recorder:
    """Records lines in a chain. `record` never blocks.

    Args:
        sink: Where lines go.
        last: Hash of the last line there.
        tail: The last lines there, for the activity.
        refuses: Whether requests are refused while no line can be written.

    Raises:
        OSError: nothing can be written; from the constructor.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        last: str = FIRST,
        tail: Sequence[bytes] = (),
        refuses: bool = False,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._sink = sink
        self._chain = Chain(last)
        self._refuses = refuses
        self._timing = timing
        self._waiting = deque[AuditLine]()
        self._events = list[AuditEvent]()
        """What others have done to the record, and no line tells yet."""
        self._wanted = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._written = 0
        self._dropped = 0
        self._why = ""
        """Why the last line was dropped."""
        self._told_dropped = 0
        """Dropped lines that the record tells of."""
        self._told_problem: str | None = None
        self.problem: str | None = None
        """Why nothing can be written now."""
        self.recent = deque[tuple[int, AuditEntry]](
            enumerate(_entries(tail), start=1), maxlen=MAX_RECENT
        )
        """The last requests, oldest first, each with its number."""
        self.count = self.recent[-1][0] if self.recent else 0
        """Number of the last request in `recent`."""
        self._write([AuditEvent(time=moment(time.time()), event="started", server=__version__)])

    @property
    def refusal(self) -> str | None:
        """Why requests are refused now; None if they are not."""
        if not self._refuses:
            return None
        if self.problem is not None:
            return f"the record of reads cannot be written ({self.problem}), and none goes without"
        return "the record of reads is behind" if len(self._waiting) > _FULL else None

    @property
    def refuses_now(self) -> bool:
        """Whether requests are refused because nothing can be written."""
        return self._refuses and self.problem is not None

    @property
    def counts(self) -> RecordCounts:
        """What it has done so far."""
        return RecordCounts(self._written, self._dropped, int(self.problem is not None))

    def record(self, entry: AuditEntry, *, is_shown: bool = True) -> None:
        """Take one line; the activity shows it if `is_shown`."""
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append(entry)
        else:
            self._dropped += 1
            self._why = self.problem or "more requests than could be written"
        if not self._wanted.is_set():
            self._wanted.set()
        if self._thread is None:
            # Not in the constructor: a server may be made before its process forks.
            self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
            self._thread.start()
        if is_shown:
            self.count += 1
            self.recent.append((self.count, entry))

    def close(self) -> None:
        """Write what waits, then a last line; gives up after two seconds. Blocks."""
        if self._closing.is_set():
            return
        self._waiting.append(AuditEvent(time=moment(time.time()), event="ended"))
        self._closing.set()
        self._wanted.set()
        if self._thread is None:
            self._run()
            return
        self._thread.join(_CLOSE_S)
        if self._thread.is_alive():
            logger.error("%d lines of the record of reads are not written", len(self._waiting))

    # -- in the thread

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            # One write for many lines: a thread that wakes for each delays the event loop.
            self._closing.wait(self._timing.audit_settle_s)
            self._wanted.clear()
            is_last = self._closing.is_set()
            try:
                self._write_waiting()
            except Exception as error:  # the thread must not end
                self._failed(error)
                if not is_last:
                    self._wanted.set()
                    self._closing.wait(self._timing.audit_retry_s)
            if is_last:
                break
        if self._waiting:
            logger.error("%d lines of the record of reads are not written", len(self._waiting))
        self._sink.close()

    def _write_waiting(self) -> None:
        while self._waiting:
            count = min(len(self._waiting), _BATCH)
            lines = [self._waiting[at] for at in range(count)]
            dropped = self._dropped
            lost = dropped - self._told_dropped if count == len(self._waiting) else 0
            if lost:  # behind the lines that were taken before
                now, why = moment(time.time()), self._why
                lines.append(AuditEvent(time=now, event="dropped", lines=lost, why=why))
                logger.warning("%d requests have no line in the record of reads: %s", lost, why)
            self._write(lines)
            self._told_dropped += lost
            for _ in range(count):
                self._waiting.popleft()
            self._written += count
            if self.problem is not None:
                logger.warning("the record of reads is written again")
                self.problem = None
        if self._sink.problem != self._told_problem:
            self._told_problem = self._sink.problem
            if self._told_problem is not None:
                logger.warning("the record of reads is not rotated: %s", self._told_problem)

    def _write(self, lines: Sequence[AuditLine]) -> None:
        event = self._sink.look()
        if event is not None:
            # Kept until it is written, since the sink tells it once.
            self._events.append(event)
            if event.event != "torn":
                logger.warning("another program has changed the record of reads: %s", event.event)
        last = self._chain.last
        try:
            data: list[bytes] = []
            for number, line in enumerate((*self._events, *lines), start=1):
                data.append(self._chain.add(encoded_line(line)))
                if number % _TURN == 0:
                    # The event loop would wait for up to 5 ms until this thread is interrupted.
                    time.sleep(_PAUSE_S)
            self._sink.write(b"".join(data))
        except BaseException:
            self._chain.last = last
            raise
        self._events.clear()

    def _failed(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        problem = reason.lower()
        if problem != self.problem:
            outcome = "requests are refused" if self._refuses else "requests have no line"
            logger.error("the record of reads cannot be written: %s; %s", problem, outcome)
        self.problem = problem


def _entries(tail: Sequence[bytes]) -> Iterator[AuditEntry]:
    for line in tail[-MAX_RECENT:]:
        try:
            yield _decode(line)
        except msgspec.DecodeError:
            continue  # an event, or a line of another version
