"""Spans of OpenTelemetry: one for each request of the protocol, where somebody collects them.

The attributes are those of the conventions for MCP, as far as they tell nothing of a resource.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextvars import Token
from typing import TYPE_CHECKING, NamedTuple

from resource_server.protocol import revisions
from resource_server.protocol.message import JsonRpcMessage
from resource_server.protocol.server import Server
from resource_server.transports.http.app.exchange import Exchange
from resource_server.transports.http.app.request import Request, Scope
from resource_server.transports.http.observability.target import target_of

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

_CARRIED = ("traceparent", "tracestate")


class _Open(NamedTuple):
    span: Span
    before: Token[Context]


class Tracing:
    """Begins a span when a message has come, and ends it when its answer has."""

    def __init__(self, server: Server) -> None:
        from opentelemetry import context, propagate, trace

        self._server = server
        self._context = context
        self._propagate = propagate
        self._trace = trace
        self._tracer = trace.get_tracer("resource_server", schema_url=None)
        self._open: dict[Exchange, _Open] = {}

    def asked(self, exchange: Exchange, request: Request, body: bytes) -> None:
        """Begin a span; what is done for the request is done within it."""
        attributes = {"mcp.method.name": exchange.method}
        revision = request.header(b"mcp-protocol-version")
        if revision in revisions.HANDSHAKE or revision in revisions.MODERN:
            attributes["mcp.protocol.version"] = revision
        target = target_of(self._server.catalog, exchange.decoded)
        if target is not None:
            attributes |= {"url.scheme": target.scheme, "resource_server.mount": target.mount}
        parent = self._propagate.extract(_carrier(request, exchange.decoded))
        span = self._tracer.start_span(
            exchange.method, parent, self._trace.SpanKind.SERVER, attributes
        )
        inside = self._trace.set_span_in_context(span, parent)
        self._open[exchange] = _Open(span, self._context.attach(inside))

    def ended(self, exchange: Exchange, scope: Scope) -> None:
        """End the span, if one has begun."""
        found = self._open.pop(exchange, None)
        if found is None:
            return
        span = found.span
        if exchange.is_over:
            span.set_attribute("http.response.status_code", exchange.status)
        problem = _problem(exchange)
        if exchange.code is not None:
            span.set_attribute("rpc.response.status_code", str(exchange.code))
        if problem is not None:
            span.set_attribute("error.type", problem)
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()
        self._context.detach(found.before)


def tracing_of(server: Server) -> Tracing | None:
    """Return what makes spans; None where nobody has said who collects them.

    Who has said it in this process has loaded the API; nobody else waits for that.
    """
    loaded = "opentelemetry.trace" in sys.modules
    if not loaded and "OTEL_PYTHON_TRACER_PROVIDER" not in os.environ:
        return None
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return Tracing(server)


def _carrier(request: Request, message: JsonRpcMessage | None) -> Mapping[str, str]:
    """Return which trace a request belongs to: what its `_meta` says, else its headers."""
    context = None if message is None else message.trace_context
    if context is not None:
        return context
    return {name: request.header(name.encode()) or "" for name in _CARRIED}


def _problem(exchange: Exchange) -> str | None:
    if exchange.code is not None:
        return str(exchange.code)
    if not exchange.is_over:
        return "gone"
    return str(exchange.status) if exchange.status >= 400 else None
