"""The access log: one line of JSON a request, without what was asked for or by which token."""

from __future__ import annotations

import hashlib
import logging
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from resource_server.protocol.server import Server
from resource_server.transports.http.app.exchange import Exchange
from resource_server.transports.http.app.request import Request, Scope
from resource_server.transports.http.observability.target import target_of

logger = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode


class AccessLog:
    """Logs each request when it has ended; a line is the whole message of its record."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def asked(self, exchange: Exchange, request: Request, body: bytes) -> None:
        """Take note of which mount is asked."""
        target = target_of(self._server.catalog, exchange.decoded)
        exchange.mount = None if target is None else target.mount

    def ended(self, exchange: Exchange, scope: Scope) -> None:
        """Log what became of a request."""
        client = scope.get("client")
        subject = exchange.caller.subject
        line: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "address": client[0] if client else None,
            "subject": None if subject is None else digest(subject),
            "method": exchange.method,
            "mount": exchange.mount,
            # Nobody has waited for the end of the answer.
            "status": exchange.status if exchange.is_over else None,
            "code": exchange.code,
            "ms": round((time.perf_counter() - exchange.begun) * 1000, 3),
            "bytes": exchange.sent,
        }
        logger.info("%s", _encode(line).decode())


def digest(subject: str) -> str:
    """Return what stands for a subject: the same for the same one, in all replicas."""
    return hashlib.sha256(subject.encode()).hexdigest()[:16]
