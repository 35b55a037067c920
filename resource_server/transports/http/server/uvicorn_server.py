"""Listens on an address, by uvicorn, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
import time
from collections.abc import Callable, Generator
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit
from types import FrameType
from typing import NamedTuple, NoReturn

import uvicorn

from resource_server.manifest.http import Http
from resource_server.protocol.server import Server
from resource_server.runtime.rate_limit import RateLimiter
from resource_server.transports.http.app.application import PATH, Application
from resource_server.transports.http.app.exchange import Witness
from resource_server.transports.http.auth.authenticator import Authenticator
from resource_server.transports.http.auth.protected_resource import ProtectedResource
from resource_server.transports.http.observability.access_log import AccessLog
from resource_server.transports.http.observability.tracing import tracing_of
from resource_server.transports.http.server.http_connection import Config, Peer
from resource_server.transports.http.server.tls import Certificate
from resource_server.transports.http.server.write_backlog import Backlog

_DRAIN_S = 10
_KEEP_ALIVE_S = 75
_BACKLOG = 2048
_MAX_FILES = 65536
_OTHER_FILES = 512
"""Files that are no connections of clients: what is read and watched, and to databases."""


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int
    scheme: str = "http"

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
        return f"{self.scheme}://{self._written}:{self.port}{PATH}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """By which hosts it may be addressed: its own, if it is not one that stands for all."""
        stands_for_all = not self.host.strip("0.:")  # 0.0.0.0, ::
        return () if stands_for_all else (f"{self._written}:*",)

    @property
    def _written(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


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
    server: Server,
    options: Http,
    address: Address,
    *,
    started: Callable[[Address], None],
    certificate: Certificate | None = None,
    proxies: str | None = None,
    legacy: bool = False,
    logs_access: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT: then nothing new is accepted, and what runs may end.

    `proxies` are believed whose requests they forward, by `X-Forwarded-For`: addresses and
    networks with commas, or `*`. With `legacy`, clients of 2024-11-05 find their transport as well.
    With `logs_access` each request is logged, see `access_log`.

    Raises:
        OSError: the address cannot be listened on.
        ValueError: the certificate cannot be used, or what `http.auth` needs is not installed.
    """
    if certificate is not None:
        certificate.check()
        address = address._replace(scheme="https")
    listening = _bound(address)
    with contextlib.closing(listening):
        actual = address._replace(port=listening.getsockname()[1])
        application = application_of(
            server, options, actual, legacy=legacy, logs_access=logs_access
        )
        config = _config(application, certificate, proxies)
        runner = _Runner(config, application, lambda: started(actual))
        await runner.serve(sockets=[listening])


def application_of(
    server: Server,
    options: Http,
    address: Address,
    *,
    legacy: bool = False,
    logs_access: bool = False,
) -> Application:
    """Return the application for clients of an address; they need tokens if the manifest says so.

    Raises:
        ValueError: what `http.auth` needs is not installed.
    """
    witnesses: list[Witness] = [AccessLog(server)] if logs_access else []
    if (tracing := tracing_of(server)) is not None:
        witnesses.append(tracing)
    if not options.auth:
        return Application(server, options, hosts=address.hosts, legacy=legacy, witnesses=witnesses)
    resource = ProtectedResource(
        options.url or address.url,
        options.auth.issuers,
        options.auth.scopes,
        more=lambda: server.catalog.visibility.scopes,
    )
    limits = options.limits
    rates = None if limits.rate is None else RateLimiter(limits.rate, limits.burst)
    authenticator = Authenticator(options.auth, resource, rates=rates)
    return Application(
        server,
        options,
        authenticate=authenticator,
        resource=resource,
        hosts=address.hosts,
        legacy=legacy,
        witnesses=witnesses,
    )


def _config(
    application: Application, certificate: Certificate | None, proxies: str | None
) -> Config:
    config = Config(
        application,
        http=Peer,
        ws="none",
        log_config=None,
        # Its warnings are of requests that are malformed, as anybody can send them.
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_DRAIN_S,
        backlog=_BACKLOG,
        limit_concurrency=_most_connections(),
        lifespan="off",
        # By default uvicorn believes whoever is on this machine.
        proxy_headers=proxies is not None,
        forwarded_allow_ips=proxies,
        ssl_certfile=None if certificate is None else certificate.file,
        ssl_keyfile=None if certificate is None else certificate.key,
    )
    config.unread = Backlog()
    return config


class _Runner(uvicorn.Server):
    """Ends streams first, which would otherwise keep the server until its patience ends."""

    def __init__(
        self, config: uvicorn.Config, application: Application, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._application = application
        self._started = started
        self._closing: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Not before: from here on a signal is a wish to end, and nothing is lost by it.
        self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        until = time.monotonic() + _DRAIN_S
        self._closing = asyncio.create_task(self._application.close())
        if self.force_exit:
            self._closing.cancel()
        await super().shutdown(sockets)
        # Clients that have left may have something in flight still.
        await asyncio.wait([self._closing], timeout=max(until - time.monotonic(), 0))
        self._closing.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Let what runs end; at the second signal cut off whoever is there, and then what hangs."""
        if self.force_exit:
            raise KeyboardInterrupt
        if self.should_exit:
            self.force_exit = True
            if self._closing is not None:
                self._closing.cancel()
            for connection in list(self.server_state.connections):
                connection.transport.abort()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take signals as the wish to end: uvicorn would die of them when it has ended."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.add_signal_handler(number, _interrupt)


def _interrupt() -> NoReturn:
    """End what still runs when nobody is served any more."""
    raise KeyboardInterrupt


def _most_connections() -> int:
    """Allow as many open files as the system lets us; return how many of them may be clients."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    most = _MAX_FILES if hard == RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != RLIM_INFINITY and soft < most:
        setrlimit(RLIMIT_NOFILE, (most, hard))
    return most - min(_OTHER_FILES, most // 2)


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With its protocol named, or answers would be sent only when more follows (TCP_NODELAY).
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        # Before anybody is told of it: who connects at once waits, and is not refused.
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
