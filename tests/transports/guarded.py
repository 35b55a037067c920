"""The endpoint with `http.auth`, run by uvicorn in this process, and a client for it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.manifest.http import Auth, Http
from resource_server.protocol.server import Server
from resource_server.providers.filesystem import Filesystem
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.transports.http.app.application_builder import application_of
from resource_server.transports.http.server.uvicorn_server import Address
from tests.protocol.wire import CLIENT, ENVELOPE
from tests.transports.issuer import AUDIENCE, Issuer
from tests.waiting import PATIENCE_S

SCOPE = "mcp:read"
ROOT = "file:///one/"


class Endpoint:
    """A client of an endpoint, which is at `url`."""

    def __init__(self, url: str, client: httpx2.AsyncClient) -> None:
        self.url = url
        self.http = client

    async def post(
        self, token: str | None, *, query: str = "", headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """Send `server/discover` in the stateless revision."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
        return await self.http.post(
            f"{self.url}{query}",
            json={**message, "params": {"_meta": ENVELOPE}},
            headers={
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": "server/discover",
                **_bearer(token),
                **(headers or {}),
            },
        )

    async def status(self, token: str | None) -> int:
        """Return the status of the response with this token."""
        return (await self.post(token)).status_code

    async def takes(self, token: str) -> bool:
        """Tell whether this token counts; it must, or be refused as invalid."""
        answer = await self.post(token)
        if answer.status_code == 200:
            return True
        assert answer.status_code == 401, answer.text
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        return False

    async def listen(self, token: str) -> list[str]:
        """Listen in the stateless revision; return all lines of the stream."""
        params = {"_meta": ENVELOPE, "notifications": {"resourcesListChanged": True}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "subscriptions/listen",
            **_bearer(token),
        }
        async with self.http.stream("POST", self.url, json=message, headers=headers) as stream:
            assert stream.status_code == 200
            return [line async for line in stream.aiter_lines()]

    async def session(self, token: str) -> Mapping[str, str]:
        """Begin a session, and return the headers of its further requests."""
        answer = await self.begin(token)
        assert answer.status_code == 200, answer.text
        return {
            "accept": "application/json, text/event-stream",
            **_bearer(token),
            "mcp-session-id": answer.headers["mcp-session-id"],
        }

    async def begin(self, token: str) -> httpx2.Response:
        """Ask for a session."""
        headers = {"accept": "application/json, text/event-stream", **_bearer(token)}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        return await self.http.post(self.url, json=message, headers=headers)

    async def ping(self, headers: Mapping[str, str]) -> int:
        """Return the status of the answer to a ping in a session."""
        message = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        return (await self.http.post(self.url, json=message, headers=headers)).status_code


def _bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


def auth(*issuers: Issuer, **more: Any) -> Auth:
    """Return the options for tokens of these issuers."""
    options: dict[str, Any] = {"audience": AUDIENCE, "scopes": (SCOPE,), **more}
    return Auth(issuer=tuple(issuer.url for issuer in issuers), **options)


@asynccontextmanager
async def guarded(
    folder: Path, auth: Auth, *, timing: Timing = DEFAULT_TIMING, **options: Any
) -> AsyncGenerator[Endpoint]:
    """Serve a folder to callers with a token; the public address is that of this machine."""
    catalog = Catalog([Mount("one", ROOT, Filesystem(folder))])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = Address(*listening.getsockname())
        async with Server(catalog) as server:
            options.setdefault("url", address.url)
            http = Http(auth=auth, **options)
            application = application_of(server, http, address, timing=timing)
            config = uvicorn.Config(
                application,
                log_config=None,
                lifespan="off",
                ws="none",
                # Clients drop an idle connection after five seconds, as uvicorn does by default:
                # one that both drop at once loses a request.
                timeout_keep_alive=75,
            )
            runner = uvicorn.Server(config)
            running = asyncio.create_task(runner.serve(sockets=[listening]))
            async with httpx2.AsyncClient(timeout=PATIENCE_S) as client:
                yield Endpoint(address.url, client)
            await application.close()
            runner.should_exit = True
            await running
