"""Callers whom other programs have authenticated: Starlette's users, the official SDK's tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from resource_server.access import Caller


class Token(Protocol):
    """A verified token, as the official SDK and FastMCP have it."""

    @property
    def client_id(self) -> str: ...  # noqa: D102 - this and the others are the SDK's
    @property
    def scopes(self) -> list[str]: ...  # noqa: D102
    @property
    def expires_at(self) -> int | None: ...  # noqa: D102
    @property
    def subject(self) -> str | None: ...  # noqa: D102
    @property
    def claims(self) -> Mapping[str, Any] | None: ...  # noqa: D102


def named(caller: Caller) -> Caller:
    """Return a caller whom a program has made; a name without scopes has none, and is its `sub`.

    Only a caller without a name, `EVERYBODY`, has all scopes by leaving them out.
    """
    if caller.subject is None:
        return caller
    claims = {"sub": caller.subject, **caller.claims}
    return caller._replace(scopes=caller.scopes or frozenset(), claims=claims)


def caller_of_token(token: Token) -> Caller:
    """Return the caller of a token: its subject at its issuer, or without one its client."""
    claims = token.claims or {}
    named = token.subject or token.client_id
    # Issuers name their subjects independently, and clients are no subjects.
    issuer = claims.get("iss") if token.subject else "client"
    subject = f"{issuer}#{named}" if issuer else named
    return Caller(subject, frozenset(token.scopes), token.expires_at, {"sub": named, **claims})


def caller_of_scope(scope: Mapping[str, Any]) -> Caller | None:
    """Return the caller whom Starlette's authentication middleware, or one like it, has set."""
    user = scope.get("user")
    if not getattr(user, "is_authenticated", False):
        return None
    if (token := getattr(user, "access_token", None)) is not None:
        return caller_of_token(token)
    # Callers without a name would be one caller.
    subject = _attribute_text(user, "identity") or _attribute_text(user, "display_name")
    if subject is None:
        return None
    scopes: Sequence[str] = getattr(scope.get("auth"), "scopes", ())
    claims: Mapping[str, Any] = getattr(user, "claims", None) or {}
    return Caller(subject, frozenset(scopes), None, {"sub": subject, **claims})


def _attribute_text(user: object, name: str) -> str | None:
    try:
        value = getattr(user, name, None)
    except NotImplementedError:  # optional in Starlette's users
        return None
    return value if isinstance(value, str) and value else None
