"""What the command line says beside its output: one line a message, on standard error."""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue

from resource_server.cli import streams
from resource_server.manifest.wording import printable


def shown(text: str) -> str:
    """Return text for one line of a terminal: control and bidirectional characters escaped."""
    return text if text.isprintable() else printable(text, longest=len(text))


def note(text: str, *, prefix: bool = True) -> None:
    """Print one line on standard error, after what has been printed and logged so far."""
    with suppress(OSError):
        sys.stdout.flush()
    for handler in logging.root.handlers:
        handler.flush()
    try:
        sys.stderr.write(f"resource-server: {shown(text)}\n" if prefix else f"{shown(text)}\n")
    except OSError:  # nobody can be told: the exit status still says it
        streams.discard(sys.stderr)


def failed(*lines: str, prefix: bool = True, status: int = 1) -> int:
    """Print why the command failed, and return its exit status."""
    for line in lines:
        note(line, prefix=prefix)
    return status


class _OneLine(logging.Formatter):
    """`resource-server: warning: …`, whatever the message holds; details only where asked for."""

    def format(self, record: logging.LogRecord) -> str:
        line = shown(f"resource-server: {record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info and logging.root.level <= logging.DEBUG:
            return f"{line}\n{self.formatException(record.exc_info)}"
        return line


_MAX_WAITING = 1000
_LAST_LINES_S = 1.0


class _Unhurried(logging.Handler):
    """Writes in a thread, so that nobody waits for whoever does not read; drops what is too much.

    Past the buffers of `sys.stderr`, whose lock could not be had any more at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines = SimpleQueue[bytes]()
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        # To begin a thread would wait for ever when the interpreter is about to end.
        if self._lines.qsize() >= _MAX_WAITING or sys.is_finalizing():
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, daemon=True)
            self._thread.start()
        self._is_idle.clear()
        self._lines.put(f"{self.format(record)}\n".encode(errors="backslashreplace"))

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            with suppress(OSError):
                while line:
                    line = line[os.write(sys.stderr.fileno(), line) :]
            if self._lines.empty():
                self._is_idle.set()

    def flush(self) -> None:
        self._is_idle.wait(_LAST_LINES_S)


def log_to_stderr(verbosity: int, *, waits: bool = True) -> None:
    """Log to standard error: warnings, with 1 also what went by, with 2 every detail.

    Unless it `waits`, logging never blocks, and loses what nobody reads.
    """
    handler = logging.StreamHandler() if waits else _Unhurried()
    handler.setFormatter(_OneLine())
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    logging.basicConfig(handlers=[handler], level=level, force=True)
