"""Protected-resource metadata (RFC 9728), and the challenges that lead clients to it (RFC 6750)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from resource_server.transports.http.app.request import (
    HttpError,
    HttpRequest,
    endpoint_url,
    public_prefix,
)

_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_PUBLIC = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET"),
    (b"access-control-allow-headers", b"mcp-protocol-version"),
)
"""The metadata is public, and web pages that obtain tokens must read it."""


class ProtectedResource(NamedTuple):
    """An endpoint that requires tokens."""

    url: str | None
    """The endpoint's public URL; None if it is that of the request, below a parent application."""
    issuers: Sequence[str]
    """Issuers of its tokens; empty where all tokens are static."""
    scopes: Sequence[str]
    """The scopes required of every request."""
    mount_scopes: Callable[[], frozenset[str]] = frozenset
    """Returns the scopes without which some mounts are hidden."""

    @property
    def paths(self) -> Sequence[str]:
        """The paths of its metadata: the well-known one, with the endpoint's own path and alone."""
        return (self._path, _WELL_KNOWN) if self.issuers else ()

    @property
    def supported_scopes(self) -> list[str]:
        """The required scopes, then those of mounts."""
        return [*self.scopes, *sorted(self.mount_scopes().difference(self.scopes))]

    @property
    def _path(self) -> str:
        return _WELL_KNOWN + urlsplit(self.url or "").path.rstrip("/")

    @property
    def _address(self) -> str:
        """The URL of its metadata; below the prefix if there is one, as a proxy passes no other."""
        origin, prefix = urlsplit(self.url or ""), public_prefix(self.url)
        path = prefix + _WELL_KNOWN if prefix else self._path
        return f"{origin.scheme}://{origin.netloc}{path}"

    def at(self, request: HttpRequest) -> ProtectedResource:
        """Return the same with the URL by which a client addresses it, if it has no other."""
        return self if self.url else self._replace(url=endpoint_url(request, None))

    async def describe(self, request: HttpRequest) -> None:
        """Answer a request for its metadata."""
        if request.method not in ("GET", "HEAD", "OPTIONS"):
            raise HttpError(405, "the method is not allowed here", [(b"allow", b"GET")])
        metadata = {
            "resource": self.at(request).url,
            "authorization_servers": list(self.issuers),
            "bearer_methods_supported": ["header"],
        }
        if supported := self.supported_scopes:
            metadata["scopes_supported"] = supported
        body = msgspec.json.encode(metadata)
        await request.exchange.respond(200, body, headers=_PUBLIC, media_type=b"application/json")

    def refusal(self, status: int, message: str, error: str = "") -> HttpError:
        """Return the refusal of a request, with a challenge that tells how to obtain a token."""
        parameters = {"error": error, "error_description": message} if error else {}
        if self.scopes:
            parameters["scope"] = " ".join(self.scopes)
        if self.issuers and self.url:
            parameters["resource_metadata"] = self._address
        # A challenge must have a parameter.
        pairs = (parameters or {"realm": "mcp"}).items()
        challenge = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in pairs)
        return HttpError(status, message, [(b"www-authenticate", challenge.encode())])
