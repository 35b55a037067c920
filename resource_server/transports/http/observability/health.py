"""Endpoints for operators: `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from resource_server.access import Caller
from resource_server.catalog.mount import Mount
from resource_server.protocol.server import Server
from resource_server.runtime.extras import operator_hint
from resource_server.transports.http.app.request import HttpError, HttpRequest
from resource_server.transports.http.app.sessions import Sessions
from resource_server.transports.http.observability.metrics import (
    Counts,
    MetricsSource,
    RequestMetrics,
    conversion_counts,
    encode_metrics,
)
from resource_server.transports.http.sse.stream_limits import StreamLimiter

if TYPE_CHECKING:
    from resource_server.transports.http.workers.other_workers import OtherWorkers
    from resource_server.transports.http.workers.worker import Worker

Authenticate: TypeAlias = Callable[[HttpRequest], Awaitable[Caller]]
"""Returns the caller, by the token of a request; raises `HttpError` without a valid one."""

_ANONYMOUS = Caller(scopes=frozenset())


class OperatorEndpoints:
    """Answers operators; shows each caller only visible mounts."""

    def __init__(
        self,
        server: Server,
        sessions: Sessions,
        streams: StreamLimiter,
        *,
        check: Callable[[HttpRequest], object],
        authenticate: Authenticate,
        public_metrics: bool,
        worker: Worker | None = None,
    ) -> None:
        self.requests = RequestMetrics()
        self._others = None if worker is None else _others(worker, self.requests)
        self._server = server
        self._sessions = sessions
        self._streams = streams
        self._check = check
        """Raises `HttpError` for a request that a foreign web page made a browser send."""
        self._authenticate = authenticate
        self._public_metrics = public_metrics

    async def healthz(self, request: HttpRequest) -> None:
        """Answer 200: the server runs."""
        _check_method(request)
        await request.exchange.respond(200, b"ok\n", media_type=b"text/plain")

    async def readyz(self, request: HttpRequest) -> None:
        """Answer 200 if all mounts that the caller sees are up, else 503; wait for none of them.

        Mounts hidden from the caller count neither in the status nor in the numbers.
        """
        _check_method(request)
        mounts = self._server.catalog.mounts
        down = [mount for mount in mounts if mount.problem is not None]
        for mount in down:
            mount.start_in_background()  # no other request may come until the server is ready
        elsewhere = set(self._counts().down)
        down = [mount for mount in mounts if mount.name in elsewhere]
        # Without a valid token: only numbers, of the mounts visible to everybody.
        caller = None
        with suppress(HttpError):
            self._check(request)
            caller = await self._authenticate(request)
        visible, missing = (_visible(caller or _ANONYMOUS, each) for each in (mounts, down))
        recorder = self._server.recorder
        refuses = recorder is not None and recorder.refuses_now
        body: dict[str, Any] = {
            "ready": not missing and not refuses,
            "mounts": len(visible),
            "up": len(visible) - len(missing),
        }
        if caller is not None:
            body["unavailable"] = [mount.name for mount in missing]
            if recorder is not None and recorder.problem is not None:
                body["audit"] = recorder.problem
        data = msgspec.json.encode(body)
        status = 503 if missing or refuses else 200
        await request.exchange.respond(status, data, media_type=b"application/json")

    async def metrics(self, request: HttpRequest) -> None:
        """Answer programs of this machine, and others if the manifest allows it.

        Raises:
            HttpError: the client is not allowed, or needs a token.
        """
        _check_method(request)
        is_local = request.is_local
        if is_local:
            self._check(request)
        elif not self._public_metrics:
            raise HttpError(404, "not found")
        try:
            caller = await self._authenticate(request)
        except HttpError:
            if not is_local or b"authorization" in request.headers:
                raise
            # Local programs need no token; but one of them may be a proxy that adds no headers.
            caller = _ANONYMOUS
        mounts = _visible(caller, self._server.catalog.mounts)
        indexes = [
            state
            for mount in mounts
            if (state := mount.provider.index_state) is not None and caller.may(mount.inner_access)
        ]
        fleet = self._sessions.fleet
        health = None if fleet is None else (fleet.store.is_up, fleet.store.replicas)
        source = MetricsSource(
            self._counts(), mounts, health, indexes, is_alone=self._others is None
        )
        try:
            data, media_type = encode_metrics(source, request.header(b"accept") or "")
        except ImportError:  # an application that is mounted in another needs no package for HTTP
            hint = operator_hint("http")
            raise HttpError(501, f"the metrics need another package; {hint}") from None
        await request.exchange.respond(200, data, media_type=media_type.encode())

    def publish(self) -> None:
        """Show other workers what this one has counted, and what it cannot serve."""
        if self._others is not None:
            for mount in self._server.catalog.mounts:
                if mount.problem is not None:
                    mount.start_in_background()  # the others report it as missing
            self._counts()

    def _counts(self) -> Counts:
        mounts = self._server.catalog.mounts
        own = Counts(
            requests=list(self.requests.by_labels.items()),
            sent_bytes=self.requests.sent.bytes,
            events=self.requests.sent.events,
            sessions=len(self._sessions),
            streams=len(self._streams),
            conversions=conversion_counts(),
            down=[mount.name for mount in mounts if mount.problem is not None],
            storage={
                mount.name: counts
                for mount in mounts
                if (counts := mount.provider.storage_counts) is not None
            },
            record=None if self._server.recorder is None else self._server.recorder.counts,
        )
        return own if self._others is None else self._others.added(own)


def _others(worker: Worker, requests: RequestMetrics) -> OtherWorkers:
    # Imported here: most servers are one process.
    from resource_server.transports.http.workers.other_workers import OtherWorkers

    return OtherWorkers(worker, requests)


def _check_method(request: HttpRequest) -> None:
    if request.method not in ("GET", "HEAD"):
        raise HttpError(405, "the method is not allowed here", [(b"allow", b"GET, HEAD")])


def _visible(caller: Caller, mounts: Sequence[Mount]) -> Sequence[Mount]:
    return [mount for mount in mounts if caller.may(mount.access)]
