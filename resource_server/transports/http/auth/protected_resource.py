"""What the endpoint says of itself to who has no token yet (RFC 9728, RFC 6750)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from resource_server.transports.http.app.request import Refused, Request

_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_PUBLIC = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET"),
    (b"access-control-allow-headers", b"mcp-protocol-version"),
)
"""It is no secret, and whoever obtains tokens in a web page has to read it."""


class ProtectedResource(NamedTuple):
    """An endpoint that asks for tokens."""

    url: str
    """As its clients know it."""
    issuers: Sequence[str]
    """Who issues tokens for it; empty where they are given out by hand."""
    scopes: Sequence[str]
    """Required of every request."""
    more: Callable[[], frozenset[str]] = frozenset
    """Gives those without which some of what is served does not exist."""

    @property
    def paths(self) -> Sequence[str]:
        """Where its metadata is: below its own path, and where there can be only one."""
        return (self._path, _WELL_KNOWN) if self.issuers else ()

    @property
    def _path(self) -> str:
        return _WELL_KNOWN + urlsplit(self.url).path.rstrip("/")

    async def describe(self, request: Request) -> None:
        """Answer a request for its metadata."""
        if request.method not in ("GET", "HEAD", "OPTIONS"):
            raise Refused(405, "the method is not allowed here", [(b"allow", b"GET")])
        metadata = {
            "resource": self.url,
            "authorization_servers": list(self.issuers),
            "bearer_methods_supported": ["header"],
        }
        if supported := [*self.scopes, *sorted(self.more().difference(self.scopes))]:
            metadata["scopes_supported"] = supported
        body = msgspec.json.encode(metadata)
        await request.exchange.answer(200, body, headers=_PUBLIC, type=b"application/json")

    def refused(self, status: int, message: str, error: str = "") -> Refused:
        """Return the refusal of a request, which tells how to obtain a token that counts."""
        said = {"error": error, "error_description": message} if error else {}
        if self.scopes:
            said["scope"] = " ".join(self.scopes)
        if self.issuers:
            origin = urlsplit(self.url)
            said["resource_metadata"] = f"{origin.scheme}://{origin.netloc}{self._path}"
        # A challenge has to have a parameter.
        words = said or {"realm": "mcp"}
        challenge = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in words.items())
        return Refused(status, message, [(b"www-authenticate", challenge.encode())])
