"""Callers over HTTP, with a token, to a server on a port of this machine."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
import uvicorn

from resource_server.explorer.addresses import ROOT
from resource_server.manifest.http import Auth, Http, StaticToken
from resource_server.protocol.server import Server
from resource_server.transports.http.app.application_builder import application_of
from resource_server.transports.http.server.uvicorn_server import Address
from tests.worlds.callers import CLIENT, ENVELOPE, GUEST_SCOPES, CallerKind, Exchange
from tests.worlds.manifests import PATIENT
from tests.worlds.pages import FORM, ORIGIN, Opening, told

TOKEN = "token-of-the-guest"  # noqa: S105  # of no server but these
_AUTH = Auth(
    scopes=tuple(GUEST_SCOPES),
    tokens=(StaticToken(token=TOKEN, subject="guest", scopes=tuple(GUEST_SCOPES)),),
)
_SHOWN = ("www-authenticate", "allow", "cache-control", "mcp-protocol-version")
"""Headers that are compared; others tell of the time, of the session or of the connection."""


class HttpClient:
    """A client with a token, which sends one request at a time."""

    def __init__(self, url: str, http: httpx2.AsyncClient, kind: CallerKind) -> None:
        self.kind = kind
        self.exchanges: list[Exchange] = []
        self._url = url
        self._http = http
        self._ids = itertools.count(1)
        self._session: dict[str, str] = {}
        self._cookie = ""

    async def begin(self) -> None:
        """Sign in to the explorer, and shake hands or discover the server."""
        # The cookie is of the host by which the server is known.
        signed_in = await self._http.send(
            self._page_request(Opening(f"{ROOT}sign-in", urlencode({"token": TOKEN})))
        )
        self._cookie = signed_in.headers["set-cookie"].partition(";")[0]
        if self.kind.is_modern:
            await self.ask("server/discover")
            return
        version = {"protocolVersion": self.kind.revision}
        await self.ask("initialize", {**version, "capabilities": {}, "clientInfo": CLIENT})
        self._session["mcp-protocol-version"] = self.kind.revision

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request, record the exchange and return the decoded response."""
        given = dict(params or {})
        if self.kind.is_modern:
            given["_meta"] = ENVELOPE
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": given}
        response = await self._http.post(
            self._url, json=message, headers={**self._headers(method, given), **self._session}
        )
        if method == "initialize":
            self._session["mcp-session-id"] = response.headers["mcp-session-id"]
        headers = [f"{name}: {response.headers.get(name)}" for name in _SHOWN]
        body = _message(response)
        told = "\n".join((str(response.status_code), *headers, ""))
        self.exchanges.append(Exchange(json.dumps(message), told.encode() + body))
        return json.loads(body)

    async def open(self, opening: Opening) -> None:
        """Open a page of the explorer and record the exchange."""
        response = await self._http.send(self._page_request(opening), stream=True)
        body = b""
        async for chunk in response.aiter_raw():
            body += chunk
            if response.headers["content-type"].startswith("text/event-stream"):
                break
        await response.aclose()
        answer = told(response.status_code, response.headers, body)
        self.exchanges.append(Exchange(str(opening), answer, is_page=True))

    def _page_request(self, opening: Opening) -> httpx2.Request:
        return self._http.build_request(
            "GET" if opening.form is None else "POST",
            self._url,
            content=opening.form,
            headers={
                "host": ORIGIN.partition("//")[2],
                "content-type": FORM,
                "cookie": self._cookie,
                "sec-fetch-site": "same-origin",
                "accept": "text/html",
            },
            # The path of a URL would be normalized.
            extensions={"target": opening.target.encode()},
        )

    def _headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        headers = {
            "accept": "application/json, text/event-stream",
            "authorization": f"Bearer {TOKEN}",
        }
        if self.kind.is_modern:
            headers |= {"mcp-protocol-version": self.kind.revision, "mcp-method": method}
            if method in ("resources/read", "prompts/get", "tools/call"):
                headers["mcp-name"] = _header(params.get("uri") or params.get("name") or "")
        return headers


def _header(text: str) -> str:
    """Return a header's value, as 2026-07-28 encodes those that are no visible ASCII."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text
    return f"=?base64?{b64encode(text.encode('utf-8', 'surrogatepass')).decode()}?="


def _message(response: httpx2.Response) -> bytes:
    """Return the message of a response, also from an event stream, which only slow ones use."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        return response.content
    lines = response.content.split(b"\n")
    return [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: {")][-1]


@asynccontextmanager
async def http_client_of(server: Server, kind: CallerKind) -> AsyncGenerator[HttpClient]:
    """Serve over HTTP and connect a client that has shaken hands."""
    # With its protocol named, or asyncio would let Nagle's algorithm delay the responses.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = Address(*listening.getsockname())
        application = application_of(
            server, Http(auth=_AUTH, url=f"{ORIGIN}/mcp"), address, timing=PATIENT
        )
        config = uvicorn.Config(application, log_config=None, lifespan="off", ws="none")
        runner = uvicorn.Server(config)
        running = asyncio.create_task(runner.serve(sockets=[listening]))
        async with httpx2.AsyncClient(timeout=60) as http:
            client = HttpClient(address.url, http, kind)
            await client.begin()
            yield client
        await application.close()
        runner.should_exit = True
        await running
