"""Listens on an address, by uvicorn, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable
from typing import NamedTuple

import uvicorn

from resource_server.manifest.http import Http
from resource_server.protocol.server import Server
from resource_server.transports.http.application import PATH, Application

_DRAIN_S = 10
_KEEP_ALIVE_S = 75
_BACKLOG = 2048


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """Where clients on this machine find the endpoint."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{PATH}"


def parse_address(text: str) -> Address:
    """Return an address written `127.0.0.1:8000`, `[::1]:8000`, `localhost:8000` or `:8000`.

    Raises:
        ValueError: it is none.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 address stands in brackets: [::1]:8000")
    if not colon or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError("expected an address and a port, as 127.0.0.1:8000")
    return Address(host or "127.0.0.1", int(port))


async def serve(
    server: Server, options: Http, address: Address, *, started: Callable[[Address], None]
) -> None:
    """Serve until SIGTERM or SIGINT: then nothing new is accepted, and what runs may end.

    Raises:
        OSError: the address cannot be listened on.
    """
    listening = _bound(address)
    actual = Address(address.host, listening.getsockname()[1])
    application = Application(server, options)
    config = uvicorn.Config(
        application,
        http="auto",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_DRAIN_S,
        backlog=_BACKLOG,
        lifespan="off",
    )
    runner = _Runner(config, application)
    started(actual)
    with contextlib.closing(listening):
        await runner.serve(sockets=[listening])


class _Runner(uvicorn.Server):
    """Ends streams first, which would otherwise keep the server until its patience ends."""

    def __init__(self, config: uvicorn.Config, application: Application) -> None:
        super().__init__(config)
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        closing = asyncio.ensure_future(self._application.close())
        await super().shutdown(sockets)
        await closing


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With its protocol named, or answers would be sent only when more follows (TCP_NODELAY).
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
    except BaseException:
        listening.close()
        raise
    return listening
