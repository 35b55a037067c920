"""Logging to standard error: one line per record, without blocking the server."""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue

from resource_server.cli.console import escaped
from resource_server.errors import IN_CHECK

_ACCESS_LOG = "resource_server.transports.http.observability.access_log"
"""Named here, since stdio does not import its module."""
_MAX_QUEUED_RECORDS = 1000
_FLUSH_TIMEOUT_S = 1.0


class _OneLineFormatter(logging.Formatter):
    """`resource-server: warning: …` on one line; tracebacks only at debug level.

    Lines of the access log stay as they are.
    """

    def format(self, record: logging.LogRecord) -> str:
        if record.name == _ACCESS_LOG:
            return record.getMessage()
        line = escaped(f"resource-server: {record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info and logging.root.level <= logging.DEBUG:
            return f"{line}\n{self.formatException(record.exc_info)}"
        return line


class _NonblockingHandler(logging.Handler):
    """Writes from a thread, so that a reader who stops reading blocks nobody; drops the excess.

    It bypasses the buffer of `sys.stderr`, whose lock may be held for ever at exit.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines = SimpleQueue[bytes]()
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        # Starting a thread while the interpreter exits would wait for ever.
        if self._lines.qsize() >= _MAX_QUEUED_RECORDS or sys.is_finalizing():
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
        self._is_idle.wait(_FLUSH_TIMEOUT_S)


def log_to_stderr(verbosity: int, *, blocking: bool = True, reports: bool = False) -> None:
    """Log warnings to standard error; from verbosity 1 information, from 2 every detail.

    Unless `blocking`, logging never waits for the reader and drops records past its queue. A
    command that `reports` the warnings of providers itself leaves them out at verbosity 0.
    """
    handler = logging.StreamHandler() if blocking else _NonblockingHandler()
    if reports and verbosity == 0:
        handler.addFilter(lambda record: not IN_CHECK.keys() <= vars(record).keys())
    handler.setFormatter(_OneLineFormatter())
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    logging.basicConfig(handlers=[handler], level=level, force=True)


def enable_access_log() -> None:
    """Let the lines of the HTTP access log through."""
    logging.getLogger(_ACCESS_LOG).setLevel(logging.INFO)
