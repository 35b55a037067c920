"""Parent applications: Starlette around what is tested, in this process or behind uvicorn."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.protocol.wire import CLIENT, ENVELOPE
from tests.waiting import PATIENCE_S

ACCEPT = {"accept": "application/json, text/event-stream"}


def parent(app: Any, path: str = "/files") -> Starlette:
    return Starlette(routes=[Mount(path, app)])


def within(app: Any, *, host: str = "localhost", client: str = "127.0.0.1") -> httpx2.AsyncClient:
    """Return a client of an application in this process; `client` is its address."""
    transport = httpx2.ASGITransport(app=app, client=(client, 1))
    return httpx2.AsyncClient(transport=transport, base_url=f"http://{host}", timeout=PATIENCE_S)


@asynccontextmanager
async def behind_uvicorn(app: Any, **options: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    """Serve an application, and yield a client for it; `client.base_url` is its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        options.setdefault("log_config", None)
        runner = uvicorn.Server(uvicorn.Config(app, ws="none", **options))
        running = asyncio.create_task(runner.serve(sockets=[listening]))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            yield client
        runner.should_exit = True
        await running


async def ask(
    client: httpx2.AsyncClient,
    url: str,
    method: str,
    params: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> httpx2.Response:
    """Send a request of the stateless revision."""
    body, sent = modern(method, params)
    return await client.post(url, json=body, headers={**sent, **(headers or {})})


def modern(
    method: str, params: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the body and headers of a request of the stateless revision."""
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {**(params or {}), "_meta": ENVELOPE},
    }
    headers = {**ACCEPT, "mcp-protocol-version": "2026-07-28", "mcp-method": method}
    name = (params or {}).get("uri") or (params or {}).get("name")
    return body, {**headers, "mcp-name": name} if name else headers


async def names(client: httpx2.AsyncClient, url: str, **headers: str) -> list[str]:
    """Return the URIs of the global listing."""
    response = await ask(client, url, "resources/list", headers=headers)
    assert response.status_code == 200, response.text
    return [each["uri"] for each in response.json()["result"]["resources"]]


async def text(client: httpx2.AsyncClient, url: str, uri: str) -> str:
    """Return the text of a document."""
    response = await ask(client, url, "resources/read", {"uri": uri})
    assert response.status_code == 200, response.text
    return response.json()["result"]["contents"][0]["text"]


async def begin(client: httpx2.AsyncClient, url: str, **headers: str) -> httpx2.Response:
    """Begin a session."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    return await client.post(url, json=message, headers={**ACCEPT, **headers})


@asynccontextmanager
async def listening(
    client: httpx2.AsyncClient, url: str, *uris: str
) -> AsyncGenerator[asyncio.Queue[dict[str, Any]]]:
    """Subscribe to resources and the list; yield the notifications after the acknowledgement."""
    wanted = {"resourceSubscriptions": list(uris), "resourcesListChanged": True}
    body, headers = modern("subscriptions/listen", {"notifications": wanted})
    found: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def follow(response: httpx2.Response) -> None:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                found.put_nowait(json.loads(line.removeprefix("data: ")))

    async with client.stream("POST", url, json=body, headers=headers) as response:
        assert response.status_code == 200
        following = asyncio.create_task(follow(response))
        try:
            acknowledged = await asyncio.wait_for(found.get(), PATIENCE_S)
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            yield found
        finally:
            following.cancel()
