"""Who asks, and what they may see: set by a transport for each request, asked wherever it matters.

Nothing of a scope is checked on standard input and output, or without tokens: `EVERYBODY` may see
all that the manifest exposes.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Caller(NamedTuple):
    """Who asks."""

    subject: str | None = None
    """The token's subject; None where there are no tokens."""
    scopes: frozenset[str] | None = None
    """What the token allows; None allows everything."""
    expires: float | None = None
    """When the token ends, in seconds since the epoch."""

    def may(self, required: frozenset[str]) -> bool:
        """Tell whether they have all these scopes."""
        return self.scopes is None or required <= self.scopes


EVERYBODY = Caller()

_current: ContextVar[Caller] = ContextVar("caller", default=EVERYBODY)


def current() -> Caller:
    """Return who asks for what is being done now."""
    return _current.get()


@contextmanager
def acting(caller: Caller) -> Generator[None]:
    """Do something for a caller; tasks that it begins are for them as well."""
    token = _current.set(caller)
    try:
        yield
    finally:
        _current.reset(token)
