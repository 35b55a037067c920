"""What those who run the server ask: whether it lives, whether it is ready, and how it does."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from resource_server.access import Caller
from resource_server.catalog.mount import Mount
from resource_server.errors import ResourceBusy
from resource_server.protocol.server import Server
from resource_server.transports.http.app.request import Refused, Request
from resource_server.transports.http.app.sessions import Sessions
from resource_server.transports.http.observability.tallies import Tallies
from resource_server.transports.http.sse.stream_limits import Streams

Authenticate: TypeAlias = Callable[[Request], Awaitable[Caller]]
"""Returns who asks, by the token of a request; raises `Refused` where there is none that counts."""

_NOBODY = Caller(scopes=frozenset())
_FORWARDED = (b"x-forwarded-for", b"forwarded", b"x-real-ip", b"via")


class Operation:
    """Answers operators. Mounts are named to those who may see them, and to nobody else."""

    def __init__(
        self,
        server: Server,
        sessions: Sessions,
        streams: Streams,
        *,
        check: Callable[[Request], object],
        authenticate: Authenticate,
        tells_others: bool,
    ) -> None:
        self.tallies = Tallies()
        self._server = server
        self._sessions = sessions
        self._streams = streams
        self._check = check
        """Raises `Refused` for what a web page of somebody else has made a browser ask."""
        self._authenticate = authenticate
        self._tells_others = tells_others
        self._starting: dict[Mount, asyncio.Task[None]] = {}

    async def healthy(self, request: Request) -> None:
        """Answer `/healthz`: whoever reads the answer knows."""
        _only_read(request)
        await request.exchange.answer(200, b"ok\n", type=b"text/plain")

    async def ready(self, request: Request) -> None:
        """Answer `/readyz`: 200 if all mounts are up, else 503. Waits for none of them.

        What it says of mounts is of those that exist for who asks.
        """
        _only_read(request)
        mounts = self._server.catalog.mounts
        down = [mount for mount in mounts if mount.problem is not None]
        for mount in down:
            self._start(mount)
        # Who may not be told which they are is told how many everybody sees.
        caller = None
        with suppress(Refused):
            self._check(request)
            caller = await self._authenticate(request)
        seen, missing = (_visible(caller or _NOBODY, some) for some in (mounts, down))
        body: dict[str, Any] = {
            "ready": not down,
            "mounts": len(seen),
            "up": len(seen) - len(missing),
        }
        if caller is not None:
            body["unavailable"] = [mount.name for mount in missing]
        data = msgspec.json.encode(body)
        await request.exchange.answer(503 if down else 200, data, type=b"application/json")

    def _start(self, mount: Mount) -> None:
        """Try a mount once more: nobody else does, if no request comes before it is ready."""
        if mount in self._starting or mount.retry_in_s:
            return

        async def start() -> None:
            with suppress(ResourceBusy):  # logged there
                await mount.start()

        task = self._starting[mount] = asyncio.create_task(start())
        task.add_done_callback(lambda _: self._starting.pop(mount, None))

    async def measured(self, request: Request) -> None:
        """Answer `/metrics`: to programs of this machine, and to others where the manifest says so.

        It names the mounts that exist for who asks.

        Raises:
            Refused: it is neither, or has no token where one is needed.
        """
        _only_read(request)
        # Imported here: a server that nobody measures does without.
        from resource_server.transports.http.observability import metrics

        is_here = _is_here(request)
        if is_here:
            self._check(request)
        elif not self._tells_others:
            raise Refused(404, "not found")
        try:
            caller = await self._authenticate(request)
        except Refused:
            if not is_here or b"authorization" in request.headers:
                raise
            # A program of this machine needs no token; but it may be a proxy that does not say so.
            caller = _NOBODY
        mounts = _visible(caller, self._server.catalog.mounts)
        state = metrics.State(self.tallies, len(self._sessions), len(self._streams), mounts)
        data, kind = metrics.encoded(state, request.header(b"accept") or "")
        await request.exchange.answer(200, data, type=kind.encode())

    async def close(self) -> None:
        """Try nothing any more."""
        starting = list(self._starting.values())
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)


def _only_read(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise Refused(405, "the method is not allowed here", [(b"allow", b"GET, HEAD")])


def _visible(caller: Caller, mounts: Sequence[Mount]) -> Sequence[Mount]:
    """Return the mounts that exist for a caller."""
    return [mount for mount in mounts if caller.may(mount.access)]


def _is_here(request: Request) -> bool:
    """Tell whether a program of this machine asks, and not a proxy there for somebody."""
    if any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.address).is_loopback
    except ValueError:
        return False
