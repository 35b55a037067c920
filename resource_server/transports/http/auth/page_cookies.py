"""Signed cookies for pages: who has signed in, or is about to; the server keeps nothing."""

from __future__ import annotations

import time
from typing import Generic, Protocol, TypeVar

import msgspec

from resource_server.runtime.server_key import Seal
from resource_server.transports.http.app.request import Headers, HttpRequest

OPERATOR = "explorer.operator"
"""The scope of operators, for whom pages show what is hidden, and why."""
MAX_COOKIE = 4096
"""Maximum bytes of a cookie with its name: browsers drop a longer one, and say nothing."""


class _Expiring(Protocol):
    @property
    def expires(self) -> float | None:
        """In seconds since the epoch; None in no cookie."""
        ...


T = TypeVar("T", bound=_Expiring)


class SignInFailed(Exception):
    """Nobody is signed in; the text tells the person why."""

    def __init__(self, reason: str, status: int = 403) -> None:
        super().__init__(reason)
        self.status = status


class PageCookie(Generic[T]):
    """One cookie of one server, with contents of a type, which expire.

    `secret` signs it: as long as it is the same, a cookie is worth something. `has_tls` says that
    browsers come by TLS even if requests do not, since a proxy ends it.
    """

    def __init__(self, name: str, kind: type[T], secret: bytes, *, has_tls: bool) -> None:
        self._name = name
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._seal = Seal(secret)
        self._has_tls = has_tls

    def contents(self, request: HttpRequest) -> T | None:
        """Return what a request's cookie has; None without a valid one."""
        value = _cookies(request).get(self._name_for(request))
        if value is None or len(value) > MAX_COOKIE:
            return None
        try:
            contents = self._decode(self._seal.opened(value))
        except ValueError:  # also of another version
            return None
        return contents if (contents.expires or 0) > time.time() else None

    def issued(self, request: HttpRequest, contents: T) -> Headers:
        """Return the header that sets the cookie.

        Raises:
            SignInFailed: browsers would not keep it.
        """
        value = self._seal.sealed(msgspec.msgpack.encode(contents))
        if len(self._name_for(request)) + len(value) > MAX_COOKIE:
            raise SignInFailed("The token has more scopes or claims than a cookie has room for.")
        return self._set(request, value, int((contents.expires or 0) - time.time()))

    def cleared(self, request: HttpRequest) -> Headers:
        """Return the header that removes the cookie."""
        return self._set(request, "", 0)

    def _set(self, request: HttpRequest, value: str, seconds: int) -> Headers:
        secure = "; Secure" if self._is_secure(request) else ""
        path = f"{request.prefix}/"
        attributes = f"Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
        return ((b"set-cookie", f"{self._name_for(request)}={value}; {attributes}".encode()),)

    def _name_for(self, request: HttpRequest) -> str:
        """Return the name of the cookie; without TLS, other ports of the host share all cookies."""
        if self._is_secure(request):
            # Browsers take `__Host-` for the whole host only, which a parent application has.
            return f"__Secure-{self._name}" if request.prefix else f"__Host-{self._name}"
        port = (request.header(b"host") or "").rpartition(":")[2]
        return f"{self._name}-{port if port.isdigit() else 80}"

    def _is_secure(self, request: HttpRequest) -> bool:
        # Behind a trusted proxy, the scheme is the one that its client uses.
        return self._has_tls or request.scope["scheme"] == "https"


def _cookies(request: HttpRequest) -> dict[str, str]:
    """Return the cookies of a request; of two with one name, the first."""
    cookies: dict[str, str] = {}
    for pair in (request.header(b"cookie") or "").split(";"):
        name, equals, value = pair.strip(" \t").partition("=")
        if equals:
            cookies.setdefault(name, value)
    return cookies
