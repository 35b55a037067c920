"""Explorer pages in conversations: those that a person opens for what a client asks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

from resource_server.access import Caller
from resource_server.explorer.addresses import LIVE, ROOT, page_address
from resource_server.explorer.application import Explorer
from resource_server.explorer.page import Endpoint, Visit
from resource_server.explorer.results import written

ORIGIN = "http://localhost"
"""Address of every server as people know it: ports differ from server to server."""
FORM = "application/x-www-form-urlencoded"

_KINDS: Mapping[str, tuple[str, ...]] = {
    "resources/read": ("", "raw/"),
    "resources/metadata": ("model/", "hidden/"),
    "resources/directory/read": ("", "source/"),
    "resources/list": ("",),
    "resources/subscribe": ("live/",),
}
"""The kinds of pages for a URI, by the method that asks for it."""
_FORMS = {"tools/call": "tools/", "prompts/get": "prompts/"}
_SHARED: Mapping[str, tuple[str, ...]] = {
    "resources/templates/list": ("/", ROOT),
    "tools/list": (f"{ROOT}tools",),
}


class Opening(NamedTuple):
    """A page that is opened, by a form that is sent if there is one."""

    target: str
    """Its path, encoded, with its parameters."""
    form: str | None = None

    @property
    def is_live(self) -> bool:
        """Whether the response goes on until one side ends it."""
        return self.target.startswith(LIVE)

    def __str__(self) -> str:
        return f"GET {self.target}" if self.form is None else f"POST {self.target} {self.form}"


def openings(method: str, params: Mapping[str, Any]) -> Iterator[Opening]:
    """Yield the pages for a request, in each spelling that the path of an address has for a URI."""
    yield from map(Opening, _SHARED.get(method, ()))
    uri, cursor = params.get("uri"), params.get("cursor")
    if uri is not None:
        for address in (page_address(uri), quote(uri, safe="/:%?=&~")):
            tail = "" if cursor is None else f"{'&' if '?' in uri else '?'}cursor={quote(cursor)}"
            for kind in _KINDS.get(method, ()):
                yield Opening(f"{ROOT}{kind}{address}{tail}")
    if kind := _FORMS.get(method):
        name, arguments = params["name"], params["arguments"]
        form = urlencode({each: written(value) for each, value in arguments.items()})
        yield Opening(f"{ROOT}{kind}{name}")
        yield Opening(f"{ROOT}{kind}{name}", form)
        if name == "search_resources":
            yield Opening(f"{ROOT}search?{form}")


class Opened:
    """The pages that one browser has opened: none is opened twice."""

    def __init__(self) -> None:
        self._known = set[tuple[str, str, str | None]]()

    def add(self, opening: Opening) -> bool:
        """Return whether a page is new to a server, which sees decoded paths."""
        path, _, query = opening.target.partition("?")
        key = unquote(path), query, opening.form
        is_new = key not in self._known
        self._known.add(key)
        return is_new


def told(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return all of a response but its date, and the length of its body."""
    shown = sorted(f"{name.lower()}: {value}" for name, value in headers.items())
    kept = [each for each in shown if not each.startswith(("date:", "content-length:"))]
    return "\n".join((str(status), *kept, "")).encode("utf-8", "surrogateescape") + body


class PageStream:
    """A response of the explorer in this process, as it comes.

    Args:
        explorer: The explorer of a server.
        caller: Who looks, as a transport knows them; no operator.
        opening: The page.
    """

    def __init__(self, explorer: Explorer, caller: Caller, opening: Opening) -> None:
        self._chunks: list[bytes] = []
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body: bytes | None = (opening.form or "").encode()
        self._began = asyncio.Event()
        endpoint = Endpoint(f"{ORIGIN}/mcp", (), "{}")
        visit = Visit(caller, "guest", _uncounted, asyncio.Event(), endpoint)
        answering = explorer(_scope(opening), self._receive, self._send, visit)
        self._task = asyncio.ensure_future(answering)
        self._task.add_done_callback(lambda _: self._began.set())

    @property
    def events(self) -> list[bytes]:
        """The events of a live page so far."""
        return [each for each in self._chunks if each.startswith(b"event:")]

    async def answer(self, *, is_live: bool) -> bytes:
        """Return the response; of a live page its beginning, after which the person leaves."""
        if is_live:
            await self.begin()
            await self.close()
        else:
            await self._task
        return told(self._status, self._headers, b"".join(self._chunks))

    async def begin(self) -> None:
        """Wait for the first part of the response, or its end."""
        await self._began.wait()

    async def close(self) -> None:
        """Leave the page."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _receive(self) -> dict[str, Any]:
        body, self._body = self._body, None
        if body is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": body}

    async def _send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {k.decode(): v.decode("latin-1") for k, v in message["headers"]}
        elif chunk := message.get("body", b""):
            self._chunks.append(chunk)
            self._began.set()


def _uncounted(_requests: int) -> None:
    """Do nothing: there are no limits."""


def _scope(opening: Opening) -> dict[str, Any]:
    path, _, query = opening.target.partition("?")
    return {
        "type": "http",
        "method": "GET" if opening.form is None else "POST",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost"), (b"content-type", FORM.encode())],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
