"""HTTP for botocore, whose own has neither absolute deadlines nor limits for what it reads whole.

Every read of a socket ends by the deadline of the call, so that a service that drips, in heads or
bodies, occupies no thread for longer.
"""

from __future__ import annotations

import importlib
import io
import math
import os
import socket
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from http.client import HTTPResponse
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit
from xml.parsers import expat

from resource_server.buckets.failures import unlike_s3
from resource_server.buckets.location import addresses_of, is_address, refuse_link_local
from resource_server.errors import DeadlineExceeded, MountUnavailable

T = TypeVar("T")

_CONNECT_S, _READ_S = 3.0, 6.0
"""Timeouts of a connection and of one read."""
_DEADLINE_S = 18.0
"""Seconds that the requests of one call may take in all."""
_MAX_BYTES = 16 * 1024**2
"""Maximum bytes of a listing or an error; a thousand of the longest keys have less."""
_EXPECTED: Final = (404, 412, 416)
"""Statuses that tell of objects, and of no failure."""
_until: Final = ContextVar("_until", default=math.inf)
"""The deadline of the call that this thread runs, by `time.monotonic()`."""


class Deadline:
    """A point in time by which a call ends."""

    def __init__(self) -> None:
        self._until = time.monotonic() + _DEADLINE_S

    def run(self, work: Callable[[Deadline], T]) -> T:
        """Run a call in this thread, with this as the deadline of its requests."""
        _until.set(self._until)
        return work(self)

    def check(self) -> None:
        """Raise `DeadlineExceeded` after it."""
        if time.monotonic() > self._until:
            raise _late()


class Traffic:
    """Counts of requests, of those that failed, and of bytes received; threads share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts = (0, 0, 0)

    def add(self, *, requests: int = 0, errors: int = 0, size: int = 0) -> None:
        """Add to the counts."""
        with self._lock:
            before = self.counts
            self.counts = (before[0] + requests, before[1] + errors, before[2] + size)


class Transport:
    """Sends the requests of botocore, as its own session does: proxies and CAs are its own, too."""

    def __init__(self, ca_bundle: str | None, connections: int, traffic: Traffic) -> None:
        self._traffic = traffic
        self._urllib3 = importlib.import_module("urllib3")
        self._httpsession = importlib.import_module("botocore.httpsession")
        self._proxies_of = importlib.import_module("botocore.utils").get_environ_proxies
        bundle = ca_bundle or os.environ.get("REQUESTS_CA_BUNDLE") or True
        self._options: dict[str, Any] = {
            "cert_reqs": "CERT_REQUIRED",
            "ca_certs": self._httpsession.get_cert_path(bundle),
            "timeout": self._urllib3.Timeout(connect=_CONNECT_S, read=_READ_S),
            "maxsize": connections,
        }
        self._managers: dict[str | None, Any] = {}

    def send(self, request: Any, **_: object) -> Any:
        """Return the response to a request, read whole unless it is streamed.

        Raises:
            HTTPClientError: of botocore, which tries again; its cause is the error of urllib3.
            MountUnavailable: it is too large.
            DeadlineExceeded: the deadline has passed before.
        """
        if time.monotonic() > _until.get():
            raise _late()
        parts = urlsplit(str(request.url))
        proxy = self._proxies_of(request.url).get(parts.scheme)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        if proxy and parts.scheme == "http":
            target = request.url
        try:
            pool = self._manager(proxy).connection_from_url(request.url)
            raw = pool.urlopen(
                request.method,
                target,
                body=request.body,
                headers=request.headers,
                retries=False,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
                decode_content=False,
            )
            is_streamed = request.stream_output and raw.status < 300
            body = raw if is_streamed else self._whole(raw)
        except (self._urllib3.exceptions.HTTPError, OSError) as error:
            self._traffic.add(requests=1, errors=1)
            raise self._httpsession.HTTPClientError(error=error) from error
        is_error = raw.status >= 400 and raw.status not in _EXPECTED
        self._traffic.add(requests=1, errors=int(is_error))
        made = importlib.import_module("botocore.awsrequest").AWSResponse
        return made(request.url, raw.status, raw.headers, body)

    def _whole(self, raw: Any) -> Any:
        data = raw.read(_MAX_BYTES + 1)
        self._traffic.add(size=len(data))
        if len(data) > _MAX_BYTES:
            raw.close()
            raise MountUnavailable(
                f"the storage service answers with more than {_MAX_BYTES} bytes that are no "
                "object; correct 'endpoint'"
            )
        if raw.status == 200 and data:
            _check_xml(data)
        return self._urllib3.HTTPResponse(io.BytesIO(data), preload_content=False)

    def _manager(self, proxy: str | None) -> Any:
        """Return the pools of connections, to the service itself or through a proxy."""
        found = self._managers.get(proxy)
        if found is None:
            if proxy is None:
                found = self._urllib3.PoolManager(**self._options)
            else:
                url = proxy if "://" in proxy else f"http://{proxy.removeprefix('//')}"
                parts = urlsplit(url)
                login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
                headers = self._urllib3.make_headers(
                    proxy_basic_auth=login if parts.username and parts.password else None
                )
                found = self._urllib3.ProxyManager(url, proxy_headers=headers, **self._options)
            found.pool_classes_by_scheme = {
                scheme: _timed(pool, is_checked=proxy is None)
                for scheme, pool in found.pool_classes_by_scheme.items()
            }
            found = self._managers.setdefault(proxy, found)
        return found

    def close(self) -> None:
        """Close idle connections."""
        for manager in list(self._managers.values()):
            manager.clear()


def _check_xml(data: bytes) -> None:
    """Refuse what is no XML: botocore takes it for a failure of the service that passes.

    Raises:
        MountUnavailable: it is none, or has a DTD, by which it could grow when it is read.
    """

    def refuse(*_: object) -> None:
        raise unlike_s3()

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError:
        raise unlike_s3() from None


def _timed(pool: Any, *, is_checked: bool) -> type:
    """Return a class of pools whose connections read with `_TimedResponse`.

    With `is_checked`, none leads to a link-local address by a name, whatever it meant before.
    """

    def connect(self: Any) -> None:
        if not is_checked or is_address(self.host):
            pool.ConnectionCls.connect(self)
            return
        refuse_link_local(self.host, addresses_of(self.host))
        pool.ConnectionCls.connect(self)
        try:
            refuse_link_local(self.host, [self.sock.getpeername()[0]])
        except MountUnavailable:
            self.close()
            raise

    members = {"response_class": _TimedResponse, "connect": connect}
    connection = type("TimedConnection", (pool.ConnectionCls,), members)
    return type("TimedPool", (pool,), {"ConnectionCls": connection})


class _TimedResponse(HTTPResponse):
    """A response whose head and body are read by the deadline of its call."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_TimedReads(sock, self.fp.detach()))


class _TimedReads(io.RawIOBase):
    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._socket, self._raw = sock, raw
        self._until, self._most_s = _until.get(), sock.gettimeout() or _READ_S

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(min(left, self._most_s))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _late() -> DeadlineExceeded:
    return DeadlineExceeded("the storage service takes too long; ask for less, or again")
