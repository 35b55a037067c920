"""The caller of the current request, and access rules by scope.

A transport sets the caller for each request. On stdio, and over HTTP without tokens, the caller is
`EVERYBODY`, for whom everything that the manifest exposes is visible.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Annotated, Any, NamedTuple, TypeAlias

from msgspec import Meta, Struct

Scope: TypeAlias = Annotated[str, Meta(pattern=r"^[!#-\[\]-~]+$")]
"""A scope of a token (RFC 6749, 3.3): without spaces, quotes and backslashes."""

Scopes: TypeAlias = frozenset[str] | None
"""The scopes of a caller; None satisfies every requirement."""

MAX_SCOPES = 6
"""Maximum different scopes in one mount: each combination of them needs its own provider."""


class Access(Struct, frozen=True, kw_only=True):
    """Access rule: hidden from callers without the scopes."""

    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1)]
    """Required scopes; a caller needs all of them."""


OPEN = Access(scopes=())
"""No required scopes. Options use it instead of None: an empty `access:` must not open a mount."""


class Caller(NamedTuple):
    """The sender of a request."""

    subject: str | None = None
    """Subject of the token; None without tokens."""
    scopes: Scopes = None
    """Scopes of the token; None satisfies every requirement."""
    expires: float | None = None
    """Expiry of the token, in seconds since the epoch."""
    claims: Mapping[str, Any] = {}
    """Verified claims of the token, as JSON values; never to be changed."""

    def may(self, required: frozenset[str]) -> bool:
        """Return whether the caller has all required scopes."""
        return self.scopes is None or required <= self.scopes


EVERYBODY = Caller()

_current: ContextVar[Caller] = ContextVar("caller", default=EVERYBODY)


def current() -> Caller:
    """Return the caller of the current request."""
    return _current.get()


class _Acting:
    """Context manager of `acting`; a third of the time of `contextmanager`, in every request."""

    __slots__ = ("_caller", "_token")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        self._token = _current.set(self._caller)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def acting(caller: Caller) -> AbstractContextManager[None]:
    """Set the caller for a block, and for tasks that are started in it."""
    return _Acting(caller)


def allows(access: Access, scopes: frozenset[str]) -> bool:
    """Return whether a rule makes something visible to callers with these scopes."""
    return scopes.issuperset(access.scopes)


def checked_restrictions(rules: Mapping[str, Access]) -> Mapping[str, frozenset[str]]:
    """Return the required scopes of the options that require any.

    Raises:
        ValueError: more than `MAX_SCOPES` different scopes; names the option that exceeds them.
    """
    found = {option: frozenset(each.scopes) for option, each in rules.items() if each.scopes}
    every = set[str]()
    for option, scopes in found.items():
        every |= scopes
        if len(every) > MAX_SCOPES:
            raise ValueError(
                f"{option}: more than {MAX_SCOPES} different scopes inside one mount; "
                "move the resources that need the others to another mount"
            )
    return found
