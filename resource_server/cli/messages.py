"""What the command line says beside its output: one line a message, on standard error."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from resource_server.cli import streams
from resource_server.manifest.wording import printable


def shown(text: str) -> str:
    """Return text for one line of a terminal: control and bidirectional characters escaped."""
    return text if text.isprintable() else printable(text, longest=len(text))


def note(text: str, *, prefix: bool = True) -> None:
    """Print one line on standard error, after what has been printed so far."""
    with suppress(OSError):
        sys.stdout.flush()
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


def log_to_stderr(verbosity: int) -> None:
    """Log to standard error: warnings, with 1 also what went by, with 2 every detail."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    logging.basicConfig(handlers=[handler], level=level, force=True)
