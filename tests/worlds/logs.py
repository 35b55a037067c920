"""The server's log of one case: whatever it logs as an error violates the property."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from tests.worlds.harness import Violation

_LOGGER = logging.getLogger("resource_server")


class _Errors(logging.Handler):
    """Keeps the text of errors; warnings are of the world, which is hostile."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@contextmanager
def no_errors() -> Generator[None]:
    """Keep the log from standard error; at the end, there must be no error in it."""
    errors = _Errors()
    _LOGGER.addHandler(errors)
    _LOGGER.propagate = False
    try:
        yield
    finally:
        _LOGGER.removeHandler(errors)
        _LOGGER.propagate = True
    if errors.texts:
        raise Violation("logged as an error: " + "\n".join(errors.texts))
