"""The access log: one line of JSON per request, without its contents or token."""

from __future__ import annotations

import hashlib
import logging
import time
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.errors import ResourceServerError
from resource_server.protocol.message import JsonRpcMessage
from resource_server.protocol.server import Server
from resource_server.protocol.tools.registry import TOOL_NAME
from resource_server.transports.http.app.request import AsgiScope, Exchange, HttpRequest

logger = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode


class AccessLog:
    """Logs each request when it has ended; the JSON is the whole message of the log record."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def received(self, exchange: Exchange, request: HttpRequest, body: bytes) -> None:
        """Look up the requested mount and tool."""
        exchange.tool = _tool(exchange.decoded)
        target = target_of(self._server.catalog, exchange.decoded)
        exchange.mount = None if target is None else target.mount

    def finished(self, exchange: Exchange, scope: AsgiScope) -> None:
        """Log the request."""
        client = scope.get("client")
        subject = exchange.caller.subject
        line: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "address": client[0] if client else None,
            "subject": None if subject is None else subject_digest(subject),
            "method": exchange.method,
            "mount": exchange.mount,
            "tool": exchange.tool,
            # None if the client disconnected before the end of the response.
            "status": exchange.status if exchange.is_complete else None,
            "code": exchange.error_code,
            "ms": round((time.perf_counter() - exchange.started_at) * 1000, 3),
            "bytes": exchange.sent_bytes,
        }
        logger.info("%s", _encode(line).decode())


def _tool(message: JsonRpcMessage | None) -> str | None:
    """Return the name of the called tool; None without one, or if no tool can have the name."""
    if message is None or message.method != "tools/call":
        return None
    name = message.param("name")
    return name if isinstance(name, str) and TOOL_NAME.fullmatch(name) else None


def subject_digest(subject: str) -> str:
    """Return the pseudonym of a subject in logs, the same in all replicas."""
    return hashlib.sha256(subject.encode()).hexdigest()[:16]


class Target(NamedTuple):
    """The part of a requested URI that operators may see: its mount, not its resource."""

    mount: str
    scheme: str


def target_of(catalog: Catalog, message: JsonRpcMessage | None) -> Target | None:
    """Return the mount of the requested URI; None without a URI, or if no mount serves it."""
    uri = None if message is None else message.param("uri")
    if not isinstance(uri, str):
        return None
    try:
        mount, _, _ = catalog.route(uri)
    except ResourceServerError:
        return None
    return Target(mount.name, uris.parse(mount.base).scheme)
