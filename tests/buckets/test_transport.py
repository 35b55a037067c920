from __future__ import annotations

import asyncio
import ipaddress
import socket
import socketserver
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress

import pytest

from resource_server.errors import DeadlineExceeded, MountUnavailable
from resource_server.providers.object_storage.provider import ObjectStorage
from tests.cases import for_each
from tests.providers.object_storage.storage import Storage
from tests.providers.object_storage.test_provider import HEAD, failure, names, text
from tests.waiting import PATIENCE_S, block

pytestmark = pytest.mark.anyio

DEADLINE = "resource_server.buckets.transport._DEADLINE_S"
Serve = Callable[[str, socket.socket], None]
"""Answers the request that begins with a line, as it likes."""

OBJECT = "HTTP/1.1 200 OK\r\n" + "".join(f"{k}: {v}\r\n" for k, v in HEAD.items())
EMPTY = (
    '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<IsTruncated>false</IsTruncated></ListBucketResult>"
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def drip(begin: bytes, piece: bytes) -> Serve:
    """Answer with a beginning, and then with a piece every 20 ms."""

    def serve(_: str, client: socket.socket) -> None:
        client.sendall(begin)
        while True:
            block(0.02)
            client.sendall(piece)

    return serve


def flood(begin: bytes) -> Serve:
    """Answer with a beginning, and then with blanks without end."""

    def serve(_: str, client: socket.socket) -> None:
        client.sendall(begin)
        while True:
            client.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")

    return serve


@contextmanager
def raw_service(asked: list[str]) -> Generator[tuple[str, dict[str, Serve]]]:
    """Run a service whose listings and objects are empty, until it is given another way."""
    ways: dict[str, Serve] = {}

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            client: socket.socket = self.request
            first = ""
            with suppress(OSError), client.makefile("rb") as lines:
                for line in lines:
                    first = first or line.decode().strip()
                    if line == b"\r\n":
                        asked.append(first)
                        ways.get("way", healthy)(first, client)
                        first = ""

    def healthy(line: str, client: socket.socket) -> None:
        body = EMPTY if "list-type=2" in line else "x" * 9
        head = OBJECT.replace("Length: 9", f"Length: {len(body)}")
        client.sendall(f"{head}\r\n{'' if line.startswith('HEAD') else body}".encode())

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", ways
        server.shutdown()
        thread.join()


@for_each(
    "way, call",
    [
        (drip(OBJECT.replace("9", "99999", 1).encode() + b"\r\n", b"x"), "read"),
        (drip(CHUNKED, b"1\r\n \r\n"), "list"),
        (drip(CHUNKED.replace(b"200", b"403"), b"1\r\n \r\n"), "read"),
        (drip(b"HTTP/1.1 200 OK\r\n", b"x: 1\r\n"), "read"),
        (drip(b"HTTP/1.1 ", b"2"), "list"),
        (drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "metadata"),
    ],
    ids=["body", "chunks", "error", "head", "line", "interim"],
)
async def test_a_service_that_drips_is_given_up_at_the_deadline_and_occupies_no_thread_after_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, way: Serve, call: str
) -> None:
    with raw_service([]) as (endpoint, ways):
        async with ObjectStorage(path="s3://some-bucket", endpoint=endpoint) as provider:
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "read": lambda: provider.read(("x.txt",), {}),
                "list": lambda: names(provider),
                "metadata": lambda: provider.metadata(("x.txt",)),
            }
            ways["way"] = way
            with monkeypatch.context() as patch:
                patch.setattr(DEADLINE, 0.4)
                many = [failure(calls[call]) for _ in range(20)]
                errors = await asyncio.wait_for(asyncio.gather(*many), PATIENCE_S)
            assert {type(each) for each in errors} == {DeadlineExceeded}
            ways.clear()
            assert await text(provider, "x.txt") == "x" * 9


@for_each(
    "begin, call",
    [
        (CHUNKED, "list"),
        (CHUNKED.replace(b"200", b"403"), "read"),
        (CHUNKED.replace(b"200", b"302"), "read"),
    ],
    ids=["listing", "error", "redirect"],
)
async def test_what_a_service_sends_beside_objects_is_limited(
    storage: Storage, begin: bytes, call: str
) -> None:
    with raw_service([]) as (endpoint, ways):
        async with ObjectStorage(path="s3://some-bucket", endpoint=endpoint) as provider:
            ways["way"] = flood(begin)
            read = (
                (lambda: names(provider))
                if call == "list"
                else (lambda: provider.read(("x.txt",), {}))
            )
            error = await failure(read)
            assert isinstance(error, MountUnavailable)
            assert "more than 16777216 bytes" in str(error)


LISTED = "<ListBucketResult><IsTruncated>{}</IsTruncated><Contents>{}</Contents></ListBucketResult>"
ENTITIES = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10}'>" for n in range(1, 10))


@for_each(
    "body",
    [
        f"<!DOCTYPE x [<!ENTITY e0 'xxxxxxxxxx'>{ENTITIES}]><x>&e9;</x>",
        "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>",
        "<a>" * 200_000,
        '{"error": "no"}',
        "\0" * 100,
        "<ListBucketResult><IsTruncated>",
        LISTED.format("true", ""),
        LISTED.format("false", "<Size>1</Size>"),
        LISTED.format("false", "<Key>x</Key><Size>many</Size>"),
        LISTED.format("false", "<Key>x</Key><Size>1</Size><LastModified>never</LastModified>"),
    ],
    ids=["bomb", "entity", "deep", "json", "nul", "cut", "no token", "no key", "size", "date"],
)
async def test_what_is_no_answer_of_s3_is_said_to_be_none(storage: Storage, body: str) -> None:
    asked: list[str] = []
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    with raw_service(asked) as (endpoint, ways):
        async with ObjectStorage(path="s3://some-bucket", endpoint=endpoint) as provider:
            ways["way"] = lambda _, client: client.sendall(answer)
            asked.clear()
            error = await failure(lambda: names(provider))
            assert isinstance(error, MountUnavailable)
            assert "answers otherwise than S3 does" in str(error)
            assert len(asked) == 1


@pytest.mark.guarantee("one-bucket")
async def test_a_host_that_leads_to_a_link_local_address_later_is_sent_nothing(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ended(line: str, client: socket.socket) -> None:
        body = EMPTY if "list-type=2" in line else "x" * 9
        head = OBJECT.replace("Length: 9", f"Length: {len(body)}")
        client.sendall(f"{head}Connection: close\r\n\r\n{body}".encode())

    with raw_service(asked) as (endpoint, ways):
        endpoint = endpoint.replace("127.0.0.1", "localhost")
        async with ObjectStorage(path="s3://some-bucket", endpoint=endpoint) as provider:
            ways["way"] = ended
            assert await text(provider, "x.txt") == "x" * 9
            ways.clear()
            asked.clear()
            local = ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1")
            monkeypatch.setattr("resource_server.buckets.location._REFUSED", local)
            assert "link-local" in str(await failure(lambda: names(provider)))
            # The name meant something else when it was looked up.

            def public(host: str) -> list[str]:
                return ["192.0.2.1"] if host else []

            monkeypatch.setattr("resource_server.buckets.transport.addresses_of", public)
            assert "link-local" in str(await failure(lambda: names(provider)))
            assert asked == []


async def test_a_service_that_redirects_is_asked_once(storage: Storage) -> None:
    asked: list[str] = []
    with raw_service(asked) as (endpoint, ways):
        async with ObjectStorage(path="s3://some-bucket", endpoint=endpoint) as provider:
            for status in (b"301 Moved", b"302 Found", b"307 Temporary", b"308 Permanent"):
                answer = b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nLocation: /x\r\n\r\n"
                ways["way"] = lambda _, client, answer=answer: client.sendall(answer)
                for call in (lambda: names(provider), lambda: provider.read(("x.txt",), {})):
                    asked.clear()
                    error = await failure(call)
                    assert isinstance(error, MountUnavailable)
                    assert "another region or at another endpoint" in str(error)
                    assert len(asked) == 1, asked


async def test_keys_outside_what_was_asked_for_are_not_served(storage: Storage) -> None:
    keys = ["in/a", "in/b/c", "inner/d", "out/secret", "xyz"]
    stored = "<Size>1</Size><ETag>1</ETag><LastModified>2026-01-01T00:00:00Z</LastModified>"
    listed = "".join(f"<Contents><Key>{key}</Key>{stored}</Contents>" for key in keys)
    body = EMPTY.replace("</IsTruncated>", f"</IsTruncated>{listed}")
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    with raw_service([]) as (endpoint, ways):
        async with ObjectStorage(path="s3://some-bucket/in", endpoint=endpoint) as provider:
            ways["way"] = lambda _, client: client.sendall(answer)
            assert await names(provider) == ["a"]
            ((_, warning),) = await provider.warnings(thorough=True)
            assert "not served: 3 ('inner/d', 'out/secret', 'xyz')" in warning
