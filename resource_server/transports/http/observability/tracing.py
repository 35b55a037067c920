"""OpenTelemetry spans, one per MCP request, if an SDK is configured to collect them.

The attributes are those of the semantic conventions for MCP that name no resource.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextvars import Token
from typing import TYPE_CHECKING, NamedTuple

from resource_server.protocol import revisions
from resource_server.protocol.server import Server
from resource_server.transports.http.app.request import AsgiScope, Exchange, HttpRequest
from resource_server.transports.http.observability.access_log import target_of

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span


class _ActiveSpan(NamedTuple):
    span: Span
    context_token: Token[Context]


class Tracing:
    """Starts a span when a message has come, and ends it with its response."""

    def __init__(self, server: Server) -> None:
        from opentelemetry import context, propagate, trace

        self._server = server
        self._context = context
        self._propagate = propagate
        self._trace = trace
        self._tracer = trace.get_tracer("resource_server", schema_url=None)
        self._active: dict[Exchange, _ActiveSpan] = {}

    def received(self, exchange: Exchange, request: HttpRequest, body: bytes) -> None:
        """Start a span, which encloses everything done for the request."""
        attributes = {"mcp.method.name": exchange.method}
        revision = request.header(b"mcp-protocol-version")
        if revision in revisions.HANDSHAKE or revision in revisions.MODERN:
            attributes["mcp.protocol.version"] = revision
        target = target_of(self._server.catalog, exchange.decoded)
        if target is not None:
            attributes |= {"url.scheme": target.scheme, "resource_server.mount": target.mount}
        parent = self._propagate.extract(_trace_context(request))
        span = self._tracer.start_span(
            exchange.method, parent, self._trace.SpanKind.SERVER, attributes
        )
        inside = self._trace.set_span_in_context(span, parent)
        self._active[exchange] = _ActiveSpan(span, self._context.attach(inside))

    def finished(self, exchange: Exchange, scope: AsgiScope) -> None:
        """End the span, if one was started."""
        active = self._active.pop(exchange, None)
        if active is None:
            return
        span = active.span
        if exchange.is_complete:
            span.set_attribute("http.response.status_code", exchange.status)
        if exchange.error_code is not None:
            span.set_attribute("rpc.response.status_code", str(exchange.error_code))
        error_type = _error_type(exchange)
        if error_type is not None:
            span.set_attribute("error.type", error_type)
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()
        self._context.detach(active.context_token)


def tracing_of(server: Server) -> Tracing | None:
    """Return the tracing; None unless this process or its environment configures a collector.

    A process that does has loaded the API already; no other start waits for that.
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


def _trace_context(request: HttpRequest) -> Mapping[str, str]:
    """Return the client's trace context: in `_meta` of the message, or else in its headers."""
    message = request.exchange.decoded
    context = None if message is None else message.trace_context
    if context is not None:
        return context
    return {name: request.header(name.encode()) or "" for name in ("traceparent", "tracestate")}


def _error_type(exchange: Exchange) -> str | None:
    if exchange.error_code is not None:
        return str(exchange.error_code)
    if not exchange.is_complete:
        return "gone"
    return str(exchange.status) if exchange.status >= 400 else None
