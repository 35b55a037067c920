"""Cookies of people who have signed in to pages: signed, without a token, for pages only."""

from __future__ import annotations

import hmac
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from hashlib import sha256

import msgspec

from resource_server.access import Caller
from resource_server.runtime.server_key import ServerKey
from resource_server.transports.http.app.request import HttpRequest

LIFETIME_S = 12 * 3600
"""How long a person stays signed in, if the token does not expire before."""
MAX_COOKIE = 8 * 1024

_PURPOSE = "explorer cookie"


class _Contents(msgspec.Struct, array_like=True):
    subject: str | None
    scopes: frozenset[str] | None
    expires: float


class PageCookies:
    """Issues and reads the cookies of one server.

    `tokens` are its static tokens: without one of them, the cookies of before are worth nothing.
    """

    def __init__(self, key: ServerKey, tokens: Iterable[str], *, is_secure: bool) -> None:
        secret = hmac.new(key.derived(_PURPOSE), digestmod=sha256)
        for token in sorted(tokens):
            secret.update(sha256(token.encode()).digest())
        self._secret = secret.digest()
        self._is_secure = is_secure

    def caller(self, request: HttpRequest) -> Caller | None:
        """Return the caller whom a request's cookie names; None without a valid one."""
        value = _cookies(request).get(self._name(request))
        if value is None or len(value) > MAX_COOKIE:
            return None
        encoded, _, signature = value.partition(".")
        if not hmac.compare_digest(self._signature(encoded), signature.encode("latin-1")):
            return None
        contents = msgspec.msgpack.decode(urlsafe_b64decode(encoded), type=_Contents)
        if contents.expires <= time.time():
            return None
        return Caller(contents.subject, contents.scopes, contents.expires)

    def issued(self, request: HttpRequest, caller: Caller) -> bytes:
        """Return the value of `Set-Cookie` for a caller."""
        until = time.time() + LIFETIME_S
        expires = min(until, caller.expires or until)
        contents = _Contents(caller.subject, caller.scopes, expires)
        encoded = urlsafe_b64encode(msgspec.msgpack.encode(contents)).decode()
        value = f"{encoded}.{self._signature(encoded).decode()}"
        return self._set(request, value, int(expires - time.time()))

    def cleared(self, request: HttpRequest) -> bytes:
        """Return the value of `Set-Cookie` that removes the cookie."""
        return self._set(request, "", 0)

    def _set(self, request: HttpRequest, value: str, seconds: int) -> bytes:
        secure = "; Secure" if self._is_secure else ""
        attributes = f"Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
        return f"{self._name(request)}={value}; {attributes}".encode()

    def _name(self, request: HttpRequest) -> str:
        """Return the name of the cookie; without TLS, other ports of the host share all cookies."""
        if self._is_secure:
            return "__Host-explorer"
        port = (request.header(b"host") or "").rpartition(":")[2]
        return f"explorer-{port if port.isdigit() else 80}"

    def _signature(self, encoded: str) -> bytes:
        digest = hmac.new(self._secret, encoded.encode("latin-1"), sha256).digest()
        return urlsafe_b64encode(digest)


def _cookies(request: HttpRequest) -> dict[str, str]:
    """Return the cookies of a request; of two with one name, the first."""
    cookies: dict[str, str] = {}
    for pair in (request.header(b"cookie") or "").split(";"):
        name, equals, value = pair.strip(" \t").partition("=")
        if equals:
            cookies.setdefault(name, value)
    return cookies
