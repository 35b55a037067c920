"""The access log on standard error, beside what is said to people."""

from __future__ import annotations

import logging

from resource_server.transports.http.observability import access_log


class _Lines(logging.Formatter):
    """Lines of the access log as they are; the others as they were."""

    def __init__(self, others: logging.Formatter | None) -> None:
        super().__init__()
        self._others = others or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        if record.name == access_log.__name__:
            return record.getMessage()
        return self._others.format(record)


def to_stderr() -> None:
    """Let the access log through to wherever messages go."""
    for handler in logging.root.handlers:
        handler.setFormatter(_Lines(handler.formatter))
    logging.getLogger(access_log.__name__).setLevel(logging.INFO)
