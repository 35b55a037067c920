"""The HTTP server: listens on an address with uvicorn until a signal stops it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import signal
import socket
import ssl
import time
from collections.abc import Callable, Generator
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import uvicorn
from msgspec import structs

from resource_server.errors import Interrupted
from resource_server.manifest.http import Http
from resource_server.protocol.server import Server
from resource_server.runtime.server_key import ServerKey
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.transports.http.app.application import PATH, Application
from resource_server.transports.http.app.application_builder import application_of
from resource_server.transports.http.server.http_connection import (
    ConnectionConfig,
    HttpConnection,
    WriteBacklog,
)

if TYPE_CHECKING:
    from resource_server.transports.http.workers.forwarding import Forwarding
    from resource_server.transports.http.workers.worker import Worker

_KEEP_ALIVE_S = 75
_LISTEN_BACKLOG = 2048
"""Maximum connections in the accept queue of the system."""
_MAX_OPEN_FILES = 65536
_PUBLISH_S = 1
"""Interval at which a worker shows the others what it has counted."""
_OTHER_FILES = 512
"""Open files other than connections: files read or watched, and connections to databases."""


class Address(NamedTuple):
    """The address that the server listens on."""

    host: str
    port: int
    scheme: str = "http"

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """The endpoint's URL for clients on this machine."""
        return f"{self.scheme}://{self._url_host}:{self.port}{PATH}"

    def bound_to(self, listening: socket.socket, *, has_tls: bool) -> Address:
        """Return the address with the port of a socket, and its scheme."""
        scheme = "https" if has_tls else "http"
        return Address(self.host, listening.getsockname()[1], scheme)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts by which clients may address it: none if it listens on all interfaces."""
        is_wildcard = not self.host.strip("0.:")  # 0.0.0.0, ::
        return () if is_wildcard else (f"{self._url_host}:*",)

    @property
    def _url_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


class Certificate(NamedTuple):
    """Files in PEM: a certificate with its chain, and its key."""

    file: str
    key: str | None = None
    """By default in the same file."""

    def check(self) -> None:
        """Load the certificate and its key.

        Raises:
            ValueError: they cannot be used, with the reason.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # Without a password OpenSSL would ask for it at the terminal.
            context.load_cert_chain(self.file, self.key, password="")
        except ssl.SSLError as error:
            reason = (error.reason or "not PEM").lower().replace("_", " ")
            raise ValueError(f"the certificate or its key cannot be used: {reason}") from None
        except OSError as error:
            raise ValueError(f"the certificate or its key cannot be read: {error}") from None


def parse_listen_address(text: str) -> Address:
    """Parse `127.0.0.1:8000`, `[::1]:8000`, `localhost:8000` or `:8000`.

    Raises:
        ValueError: the text is no address.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("write an IPv6 address in brackets: [::1]:8000")
    if not colon or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError("expected an address and a port, as 127.0.0.1:8000")
    return Address(host or "127.0.0.1", int(port))


async def serve_http(
    server: Server,
    options: Http,
    address: Address,
    *,
    started: Callable[[Address], None],
    certificate: Certificate | None = None,
    proxies: str | None = None,
    legacy: bool = False,
    logs_access: bool = False,
    key: ServerKey | None = None,
    link_code: str | None = None,
    worker: Worker | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> None:
    """Serve until SIGTERM or SIGINT; then accept no connections, and finish what runs.

    `proxies` are trusted to name their clients in `X-Forwarded-For`: addresses and networks
    separated by commas, or `*`. `legacy` adds the transport of 2024-11-05, `logs_access` the
    access log. `key` signs the cookies of the explorer, by default one of the process; `link_code`
    signs one browser in to it, as an operator. A `worker` serves on the socket of all, with its
    share of the limits.

    Raises:
        OSError: the address cannot be listened on.
        ValueError: the certificate cannot be used, what `http.auth` needs is not installed, or a
            limit is too small to share.
    """
    if certificate is not None:
        certificate.check()
    if worker is not None:
        options = _shared(options, worker)
        limits = server.limits
        server.tool_rates = worker.workers.memory.rate_limiter(
            "tools", limits.tool_calls_per_s, limits.tool_call_burst
        )
    listening = listen(address) if worker is None else worker.workers.listening
    with contextlib.closing(listening):
        actual = address.bound_to(listening, has_tls=certificate is not None)
        application = application_of(
            server,
            options,
            actual,
            legacy=legacy,
            logs_access=logs_access,
            key=key,
            link_code=link_code,
            worker=worker,
            timing=timing,
        )
        forwarding = None if worker is None else _forwarding(application, worker, timing)
        config = _config(application, forwarding, certificate, proxies, timing)
        runner = _UvicornServer(config, application, lambda: started(actual), forwarding, timing)
        await runner.serve(sockets=[listening])


def _forwarding(application: Application, worker: Worker, timing: Timing) -> Forwarding:
    # Imported here: most servers are one process.
    from resource_server.transports.http.workers.forwarding import Forwarding

    return Forwarding(application, worker, timing)


def _shared(options: Http, worker: Worker) -> Http:
    """Return the options with this worker's share of the limits."""
    limits = structs.replace(
        options.limits,
        sessions=worker.share(options.limits.sessions, "http.limits.sessions"),
        streams=worker.share(options.limits.streams, "http.limits.streams"),
    )
    return structs.replace(options, limits=limits)


def _config(
    application: Application,
    forwarding: Forwarding | None,
    certificate: Certificate | None,
    proxies: str | None,
    timing: Timing,
) -> ConnectionConfig:
    is_alone = forwarding is None
    config = ConnectionConfig(
        forwarding or application,
        http=HttpConnection,
        ws="none",
        log_config=None,
        # Its warnings are about malformed requests, which anybody can send.
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(timing.shutdown_timeout_s),
        # Connections accepted at a time, too: a worker leaves the others theirs.
        backlog=_LISTEN_BACKLOG if is_alone else 1,
        callback_notify=None if is_alone else application.publish,
        timeout_notify=_PUBLISH_S,
        limit_concurrency=_max_connections(),
        lifespan="off",
        # By default uvicorn trusts every program on this machine as a proxy.
        proxy_headers=proxies is not None,
        forwarded_allow_ips=proxies,
        ssl_certfile=None if certificate is None else certificate.file,
        ssl_keyfile=None if certificate is None else certificate.key,
    )
    config.write_backlog = WriteBacklog()
    config.timing = timing
    return config


class _UvicornServer(uvicorn.Server):
    """Ends event streams before uvicorn waits for connections to close, which they would delay."""

    def __init__(
        self,
        config: uvicorn.Config,
        application: Application,
        started: Callable[[], None],
        forwarding: Forwarding | None,
        timing: Timing,
    ) -> None:
        super().__init__(config)
        self._forwarding = forwarding
        self._application = application
        self._started = started
        self._timing = timing
        self._closing: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._forwarding is not None:
            for each in sockets or ():
                each.listen(_LISTEN_BACKLOG)
            self._forwarding.open(self.server_state.tasks, self._orphaned)
        # Not before: from here on a signal stops the server, and nothing is lost.
        self._started()

    def _orphaned(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        until = time.monotonic() + self._timing.shutdown_timeout_s
        self._closing = asyncio.create_task(self._application.close())
        if self.force_exit:
            self._closing.cancel()
        await super().shutdown(sockets)
        # Clients that have left may still have requests in flight.
        await asyncio.wait([self._closing], timeout=max(until - time.monotonic(), 0))
        self._closing.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what runs; at the second signal abort all connections, at the third everything."""
        if self.force_exit:
            raise Interrupted
        if self.should_exit:
            self.force_exit = True
            if self._closing is not None:
                self._closing.cancel()
            for connection in list(self.server_state.connections):
                connection.transport.abort()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Handle signals; uvicorn would raise them again once it has shut down."""
        loop = asyncio.get_running_loop()
        # The parent of workers ends them by the first.
        numbers = (signal.SIGTERM, signal.SIGINT)[: 1 if self._forwarding else 2]
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.add_signal_handler(number, _interrupt)


def _interrupt() -> NoReturn:
    """Interrupt what still runs after the shutdown."""
    raise Interrupted


def _max_connections() -> int:
    """Raise the limit of open files; return how many of them may be connections."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    most = _MAX_OPEN_FILES if hard == RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    if soft != RLIM_INFINITY and soft < most:
        setrlimit(RLIMIT_NOFILE, (most, hard))
    return most - min(_OTHER_FILES, most // 2)


def listen(address: Address) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        OSError: it cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets that name their protocol.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        # Before the address is announced: a client may connect immediately.
        listening.listen(_LISTEN_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
