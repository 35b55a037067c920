"""Several replicas: behind nginx as `examples/http` has it, and each told of what others change."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp_types import (
    EmptyResult,
    ResourceUpdatedNotification,
    SubscribeRequest,
    SubscribeRequestParams,
    TextResourceContents,
)

from tests.nginx import EXAMPLES, balancing, needs_nginx
from tests.transports.http.fleet.fleets import SECRET, Redis, redis_server
from tests.transports.program import PATIENCE_S, Program, modern, request, running

README = "file:///project/README.md"
CLIENTS = 12

pytestmark = pytest.mark.anyio
needs_addresses = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere a machine has one address of its own"
)


class Balanced(NamedTuple):
    """Two replicas of the example behind nginx."""

    url: str
    replicas: tuple[Program, Program]
    folder: Path
    """What both serve."""


def metric(program: Program, name: str) -> float:
    """Return the sum of a replica's metric over all its labels."""
    lines = program.ask(request("GET", path="/metrics")).body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def written() -> list[list[str]]:
    """Return the options of both replicas as the example's README has them, without addresses."""
    text = (EXAMPLES / "http/README.md").read_text("utf-8")
    command = r"^\$ resource-server serve examples/http --http 127\.0\.0\.1:800[12] (.*)$"
    return [shlex.split(options) for options in re.findall(command, text, re.MULTILINE)]


@contextlib.contextmanager
def balanced_by_nginx(place: Path, replicas: tuple[Program, Program]) -> Generator[int]:
    """Run nginx as the example has it, but for its ports and the places of its files."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {kind};\n" for kind in kinds)
    actual = {
        "127.0.0.1:8001": f"127.0.0.1:{replicas[0].port}",
        "127.0.0.1:8002": f"127.0.0.1:{replicas[1].port}",
        "http {\n": f"http {{\n{places}",
    }
    with balancing(place, EXAMPLES / "http/nginx.conf", "127.0.0.1:8080", actual) as port:
        yield port


def variables(store: Redis) -> dict[str, str]:
    """Return the variables of the manifest."""
    return {"FLEET_URL": store.url, "RESOURCE_SERVER_KEY": SECRET}


@pytest.fixture
def balanced(tmp_path: Path) -> Generator[Balanced]:
    for name in ("http", "project"):
        shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns(".cache"))
    manifest = tmp_path / "http/mcp-resources.yaml"
    options_1, options_2 = written()
    with (
        redis_server(tmp_path) as store,
        running(manifest, *options_1, "--access-log", env=variables(store)) as one,
        running(manifest, *options_2, "--access-log", env=variables(store)) as two,
        balanced_by_nginx(tmp_path, (one, two)) as port,
    ):
        url = f"http://127.0.0.1:{port}/mcp"
        yield Balanced(url, (one, two), tmp_path / "project")


@contextlib.asynccontextmanager
async def connected(
    url: str, mode: str, told: asyncio.Queue[object] | None = None, address: str = "127.0.0.1"
) -> AsyncGenerator[Client]:
    """Connect the official client from an address of this machine."""

    async def take(message: object) -> None:
        if told is not None:
            told.put_nowait(message)

    transport = httpx2.AsyncHTTPTransport(local_address=address)
    async with httpx2.AsyncClient(transport=transport, timeout=PATIENCE_S) as http:
        target = streamable_http_client(url, http_client=http)
        async with Client(target, mode=mode, message_handler=take) as client:
            assert client.protocol_version == MODES[mode]
            yield client


MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}
modes = pytest.mark.parametrize("mode", MODES)


async def text(client: Client, uri: str) -> str:
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


# -- behind nginx


@needs_nginx
@needs_addresses
@modes
async def test_both_replicas_behind_nginx_serve_clients_of_every_era(
    balanced: Balanced, mode: str
) -> None:
    expected = (EXAMPLES / "project/README.md").read_text("utf-8")
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                connected(balanced.url, mode, address=f"127.0.0.{number}")
            )
            for number in range(1, CLIENTS + 1)
        ]
        for _ in range(4):
            for client in clients:
                assert await text(client, README) == expected
        sessions = [metric(each, "resource_server_sessions ") for each in balanced.replicas]
        read = "resource_server_requests_total{"
        assert all(metric(each, read) > 0 for each in balanced.replicas)
        # Every replica has had requests of every session.
        assert sessions == [CLIENTS if mode == "legacy" else 0] * 2
        assert all(metric(each, "resource_server_errors_total{") == 0 for each in balanced.replicas)


@needs_nginx
async def test_events_pass_through_nginx_without_delay(balanced: Balanced) -> None:
    told = asyncio.Queue[object]()
    async with (
        asyncio.timeout(PATIENCE_S),
        connected(balanced.url, "legacy", told) as stateful,
        connected(balanced.url, "auto") as stateless,
        stateless.listen(resource_subscriptions=[README]) as stream,
    ):
        await subscribe(stateful, README)
        append(balanced.folder / "README.md")
        # The stream begins with the lists.
        while not isinstance(await told.get(), ResourceUpdatedNotification):
            pass
        assert await anext(stream) == ResourceUpdated(README)


@needs_nginx
async def test_a_replica_ending_behind_nginx_does_not_disturb_the_stateless_revision(
    balanced: Balanced,
) -> None:
    async with connected(balanced.url, "auto") as client:
        assert balanced.replicas[0].end(signal.SIGTERM) == 0
        for _ in range(20):
            await text(client, README)


@needs_nginx
@pytest.mark.parametrize("number", [0, 1])
async def test_a_session_behind_nginx_outlives_a_replica(balanced: Balanced, number: int) -> None:
    told = asyncio.Queue[object]()
    async with (
        asyncio.timeout(PATIENCE_S),
        connected(balanced.url, "legacy", told) as client,
    ):
        await subscribe(client, README)
        before = await text(client, README)
        balanced.replicas[number].end(signal.SIGKILL)
        # The first may be the notification that a subscription begins with.
        for _ in range(2):
            append(balanced.folder / "README.md")
            while not isinstance(await told.get(), ResourceUpdatedNotification):
                pass
        assert await text(client, README) == f"{before}more\nmore\n"


@needs_nginx
@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/healthz", "/"])
def test_nginx_forwards_only_the_endpoint(balanced: Balanced, path: str) -> None:
    address = balanced.url.removesuffix("/mcp")
    assert httpx2.get(f"{address}{path}").status_code == 404
    assert httpx2.get(f"{address}/mcp").status_code == 400


@needs_nginx
@needs_addresses
def test_the_replicas_behind_nginx_get_the_client_address_and_host(balanced: Balanced) -> None:
    place = "127.0.0.1", int(httpx2.URL(balanced.url).port or 0)
    for host, status in (("127.0.0.1", "200"), ("evil.example", "421")):
        with socket.create_connection(place, source_address=("127.0.0.5", 0)) as line:
            line.sendall(modern("resources/read", {"uri": README}, host=host))
            assert line.recv(4096).startswith(f"HTTP/1.1 {status} ".encode())
    lines: list[str] = []
    for replica in balanced.replicas:
        assert replica.end(signal.SIGTERM) == 0
        lines += replica.errors
    logged = [json.loads(line)["address"] for line in lines if line.startswith("{")]
    assert logged == ["127.0.0.5"] * 2


# -- told of what others change

DATABASE = """
roots: {project: {path: project}}
databases: {shop: {url: "sqlite:///shop.db"}}
"""
ROW = "sqlite://shop/orders/1"


@modes
async def test_every_replica_notifies_its_clients_of_external_changes(
    tmp_path: Path, mode: str
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/README.md").write_text("# Project\n")
    (tmp_path / "mcp-resources.yaml").write_text(DATABASE)
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        with database:
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT)")
            database.execute("INSERT INTO orders VALUES (1, 'new')")
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(asyncio.timeout(PATIENCE_S))
            tellers: list[Teller] = []
            for _ in range(2):
                replica = stack.enter_context(running(tmp_path / "mcp-resources.yaml"))
                tellers.append(await told_by(stack, replica.url, mode, (README, ROW)))
            append(tmp_path / "project/README.md")
            for teller in tellers:
                await teller(README)
            with database:
                database.execute("UPDATE orders SET status = 'sent'")
            for teller in tellers:
                await teller(ROW)


Teller: TypeAlias = Callable[[str], Awaitable[None]]
"""Waits until a client is told of a change of the resource with this URI, and of no other."""


async def told_by(
    stack: contextlib.AsyncExitStack, url: str, mode: str, uris: Sequence[str]
) -> Teller:
    """Connect a client that wants to be told of these."""
    told = asyncio.Queue[object]()
    client = await stack.enter_async_context(connected(url, mode, told))
    if mode == "legacy":
        for uri in uris:
            await subscribe(client, uri)
        return partial(updated, told)
    stream = await stack.enter_async_context(client.listen(resource_subscriptions=uris))

    async def heard(uri: str) -> None:
        assert await anext(stream) == ResourceUpdated(uri)

    return heard


async def subscribe(client: Client, uri: str) -> None:
    asked = SubscribeRequest(params=SubscribeRequestParams(uri=uri))
    await client.session.send_request(asked, EmptyResult)


async def updated(told: asyncio.Queue[object], uri: str) -> None:
    message = await told.get()
    assert isinstance(message, ResourceUpdatedNotification)
    assert message.params.uri == uri


def append(file: Path) -> None:
    """Change a file in one step."""
    with file.open("a") as opened:
        opened.write("more\n")
