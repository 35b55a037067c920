"""Who asks, and what they may see: set by a transport for each request, asked wherever it matters.

Nothing of a scope is checked on standard input and output, or without tokens: `EVERYBODY` may see
all that the manifest exposes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta

Scope: TypeAlias = Annotated[str, Meta(pattern=r"^[!#-\[\]-~]+$")]
"""A scope as tokens and challenges spell it (RFC 6749, 3.3): no spaces, quotes or backslashes."""

Scopes: TypeAlias = frozenset[str] | None
"""What somebody has; None is everything."""

MAX_SCOPES = 6
"""Different ones inside one mount: each combination that somebody has is a provider of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may see something; for others it does not exist."""

    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1)]
    """Of a token; all of them are needed."""


OPEN = Access(scopes=())
"""Everybody. Not None in options: one that was left empty is a mistake, and must not open it."""


class Caller(NamedTuple):
    """Who asks."""

    subject: str | None = None
    """The token's subject; None where there are no tokens."""
    scopes: Scopes = None
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


class _Acting:
    """As `contextmanager` would make it, in a third of the time: every request needs one."""

    __slots__ = ("_caller", "_token")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        self._token = _current.set(self._caller)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def acting(caller: Caller) -> AbstractContextManager[None]:
    """Do something for a caller; tasks that it begins are for them as well."""
    return _Acting(caller)


def allows(access: Access, scopes: frozenset[str]) -> bool:
    """Tell whether something may be seen with these scopes."""
    return scopes.issuperset(access.scopes)


def checked_restrictions(rules: Mapping[str, Access]) -> Mapping[str, frozenset[str]]:
    """Return what needs scopes, by option, and which.

    Raises:
        ValueError: these are more than `MAX_SCOPES`; names the option of the first too many.
    """
    found = {option: frozenset(each.scopes) for option, each in rules.items() if each.scopes}
    every = set[str]()
    for option, scopes in found.items():
        every |= scopes
        if len(every) > MAX_SCOPES:
            raise ValueError(
                f"{option}: more than {MAX_SCOPES} different scopes inside one mount; "
                "make another mount of what needs the others"
            )
    return found
