"""The `http` section of the manifest: for `serve --http`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from resource_server.duration import Duration
from resource_server.provider import ByteSize


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How much clients may ask for."""

    body: ByteSize = ByteSize(4 * 1024 * 1024)
    """Of one request."""
    sessions: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    """At once."""
    session_idle: Duration = Duration(30 * 60)
    """After so long without a request or stream a session ends."""
    streams: Annotated[int, Meta(ge=1, le=1_000_000)] = 2000
    """At once: clients that wait to be told of changes."""
    rate: Annotated[float, Meta(gt=0)] | None = None
    """Requests a second of one subject, or of one address where there are no tokens."""
    burst: Annotated[int, Meta(ge=1)] = 400
    """Requests at once, before `rate` counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """How the server is reached over HTTP, and by whom."""

    url: str | None = None
    """Public address of the endpoint, where it is not the one that is listened on."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which the server may be addressed, besides this machine's own; `name:*` with any
    port."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages that may ask: `https://app.example.org`."""
    limits: HttpLimits = HttpLimits()
    """How much clients may ask for."""
