"""The caller of the current request, access rules by scope, and the claims that decide on rows.

A transport sets the caller for each request. On stdio, and over HTTP without tokens, the caller is
`EVERYBODY`, for whom everything that the manifest exposes is visible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Annotated, Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct

Scope: TypeAlias = Annotated[str, Meta(pattern=r"^[!#-\[\]-~]+$")]
"""A scope of a token (RFC 6749, 3.3): without spaces, quotes and backslashes."""

Scopes: TypeAlias = frozenset[str] | None
"""The scopes of a caller; None satisfies every requirement."""

MAX_SCOPES = 6
"""Maximum different scopes in one mount: each combination of them needs its own provider."""


WHOLE = ""
"""Name of all claims together, but those that differ with every token."""
_OF_ONE_TOKEN = frozenset("exp iat jti nbf".split())
_MAX_TEXT = 4096
_MAX_ITEMS = 1000
_MAX_WHOLE_BYTES = 64 * 1024
_MAX_INTEGER = 2**63
_PART = re.compile(r'"(?>[^"]|"")+"|[^".\s]+')
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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


class Rights(NamedTuple):
    """What decides what a caller sees: equal for callers who see the same."""

    scopes: Scopes = None
    claims: str = "{}"
    """Values of the claims that mounts use, by name, as JSON. None is a claim that the token lacks
    or that has no usable value; without tokens, claims that the manifest lacks are left out."""


EVERYTHING = Rights()
"""The rights of callers without tokens, where no claim decides."""


def claim_name(parts: Iterable[str]) -> str:
    """Return the name of a claim inside others: `org.id`, or `"https://example.org/id"`."""
    return ".".join(
        part if _PLAIN.fullmatch(part) else f'"{part.replace(chr(34), chr(34) * 2)}"'
        for part in parts
    )


def claim_path(name: str) -> tuple[str, ...]:
    """Return the parts of a claim's name.

    Raises:
        ValueError: it is no such name.
    """
    parts: list[str] = []
    place = 0
    while (found := _PART.match(name, place)) is not None:
        parts.append(found[0][1:-1].replace('""', '"') if found[0][0] == '"' else found[0])
        place = found.end()
        if place == len(name):
            return tuple(parts)
        if name[place] != ".":
            break
        place += 1
    raise ValueError('expected the name of a claim, such as sub, org.id or "name: odd".id')


def usable_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return the value of a claim: text, a number, a boolean or a list of them, not too large.

    `WHOLE` gives all claims as JSON text. None if there is no such value.
    """
    if name == WHOLE:
        return _whole(claims)
    value: object = claims
    for part in claim_path(name):
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, object]", value).get(part)
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return list(items) if len(items) <= _MAX_ITEMS and all(map(_is_usable, items)) else None
    return value if _is_usable(value) else None


def _is_usable(value: object) -> bool:
    match value:
        case bool():
            return True
        case int():
            return -_MAX_INTEGER <= value < _MAX_INTEGER
        case float():
            return value - value == 0  # finite
        case str():
            # No database holds the others, or none in a literal.
            return len(value) <= _MAX_TEXT and "\0" not in value and _is_unicode(value)
        case _:
            return False


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _whole(claims: Mapping[str, Any]) -> str | None:
    lasting = {name: value for name, value in claims.items() if name not in _OF_ONE_TOKEN}
    try:
        text = msgspec.json.encode(lasting, order="sorted").decode()
    except (OverflowError, RecursionError, TypeError, ValueError):
        return None
    is_usable = bool(lasting) and len(text) <= _MAX_WHOLE_BYTES and "\\u0000" not in text
    return text if is_usable else None
