"""Host and Origin allowlists, and CORS for the origins that are allowed.

A web page can make a browser send requests to this machine under a host name of its own (DNS
rebinding), but cannot make the browser leave that name out of the headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from resource_server.transports.http.app.request import Headers, HttpError, HttpRequest

LOOPBACK_HOSTS = ("localhost:*", "127.0.0.1:*", "[::1]:*")
LOOPBACK_ORIGINS = tuple(
    f"{scheme}://{host}" for scheme in ("http", "https") for host in LOOPBACK_HOSTS
)

_ANY_PORT = ":*"
_PORT = re.compile(r":\d{1,5}\Z")
_REQUEST_HEADERS = (
    b"accept, authorization, content-type, last-event-id, mcp-method, mcp-name, "
    b"mcp-protocol-version, mcp-session-id"
)
_ARGUMENT_HEADERS = re.compile(rb"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+")
"""Names of further request headers, which depend on the tools."""
_EXPOSE = (b"access-control-expose-headers", b"mcp-session-id, www-authenticate, retry-after")
_VARY = (b"vary", b"Origin")


class HostAllowlist:
    """Refuses requests for foreign hosts, and from web pages that are not allowed.

    A host is written `files.example.org`, an origin `https://files.example.org`; with `:*` any
    port is allowed, or none.
    """

    def __init__(self, hosts: Iterable[str], origins: Iterable[str]) -> None:
        self._hosts = _Names((*LOOPBACK_HOSTS, *hosts))
        self._origins = _Names((*LOOPBACK_ORIGINS, *origins))
        self.check = lru_cache(maxsize=256)(self._check)
        """`_check`, remembering what it allows: most requests have the same headers."""

    def _check(self, host: bytes | None, origin: bytes | None) -> Headers:
        """Return the CORS headers for the response to a web page; none for other clients.

        Raises:
            HttpError: 421 for another host, 403 for another origin.
        """
        if host is None or host not in self._hosts:
            raise HttpError(421, "this server is not known by that name; see http.allowed_hosts")
        if origin is None:
            return ()
        if origin not in self._origins:
            reason = "web pages of this origin are not allowed; see http.allowed_origins"
            raise HttpError(403, reason)
        return ((b"access-control-allow-origin", origin.strip(b" \t")), _EXPOSE, _VARY)


class _Names:
    def __init__(self, allowed: Iterable[str]) -> None:
        names = [name.lower() for name in allowed]
        self._exact = frozenset(name for name in names if not name.endswith(_ANY_PORT))
        self._any_port = frozenset(
            name.removesuffix(_ANY_PORT) for name in names if name.endswith(_ANY_PORT)
        )

    def __contains__(self, header: bytes) -> bool:
        name = header.decode("latin-1").strip(" \t").lower()
        return name in self._exact or _PORT.sub("", name) in self._any_port


def preflight_headers(request: HttpRequest) -> Headers:
    """Return the methods and headers a web page may use, for the response to `OPTIONS`."""
    requested = request.headers.get(b"access-control-request-headers", b"").lower()
    allowed = b", ".join([_REQUEST_HEADERS, *_ARGUMENT_HEADERS.findall(requested)])
    return (
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", allowed),
        (b"access-control-max-age", b"600"),
    )
