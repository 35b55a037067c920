"""The page at `/`, for a person who opens the server's address in a browser."""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

import msgspec

from resource_server import __version__, uris
from resource_server.access import EVERYBODY, Caller
from resource_server.catalog.mount import Mount
from resource_server.protocol.server import Server
from resource_server.transports.http.app.request import (
    Headers,
    HttpError,
    HttpRequest,
    endpoint_url,
)

MAX_MOUNTS = 200
"""Maximum mounts on the page."""
HOSTS = ("vscode", "cursor", "codex", "gemini", "goose", "zed", "opencode", "copilot", "windsurf")
"""Hosts that can be installed into beside Claude Code."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
"""Control characters, and those that reverse the direction of text."""
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "style-src 'sha256-{}'"
)
"""The page has nothing but its own style: no script, picture, form, frame or address elsewhere."""


class _PageTemplate(NamedTuple):
    template: Template
    headers: Headers


@cache
def _page() -> _PageTemplate:
    """Return the template of the page, and its headers, which allow the style by its digest."""
    text = Path(__file__).with_suffix(".html").read_text("utf-8")
    style = text.partition("<style>")[2].partition("</style>")[0]
    policy = _POLICY.format(b64encode(sha256(style.encode()).digest()).decode()).encode()
    first, *others = _HEADERS
    return _PageTemplate(Template(text), (first, (b"content-security-policy", policy), *others))


class Shown(NamedTuple):
    """The facts that the caller may know."""

    url: str
    """URL of the MCP endpoint."""
    title: str
    """Title of the server."""
    mounts: list[Mount] | None
    """Visible mounts; None for a caller without the token that the server requires."""
    needs_token: bool


class LandingPage:
    """Answers browsers; shows each caller only visible mounts.

    `check` raises `HttpError` for another host or a foreign web page, `authenticate` without a
    valid token. `url` is the public URL of the endpoint, by default that of the request.
    """

    def __init__(
        self,
        server: Server,
        url: str | None,
        check: Callable[[HttpRequest], object],
        authenticate: Callable[[HttpRequest], Awaitable[Caller]] | None,
    ) -> None:
        self._server = server
        self._url = url
        self._check = check
        self._authenticate = authenticate

    async def show(self, request: HttpRequest) -> None:
        """Answer a browser; for all others there is nothing here.

        Raises:
            HttpError: 404 for a request that accepts no HTML, and what `check` raises.
        """
        if not is_of_browser(request):
            raise HttpError(404, "not found")
        self._check(request)
        caller: Caller | None = EVERYBODY
        if self._authenticate is not None:
            caller = None
            with suppress(HttpError):
                request.exchange.caller = caller = await self._authenticate(request)
        page = render(self._visible(caller, endpoint_url(request, self._url)))
        media_type = b"text/html; charset=utf-8"
        await request.exchange.respond(200, page, headers=_page().headers, media_type=media_type)

    def _visible(self, caller: Caller | None, url: str) -> Shown:
        if caller is None:
            # Nothing of the manifest is for callers without a token.
            return Shown(url, "resource-server", None, needs_token=True)
        info = self._server.info
        mounts = self._server.catalog.visibility.of(caller).mounts
        listed = [mount for mount in mounts if mount.listed]
        title = info.get("title") or info["name"]
        return Shown(url, title, listed, needs_token=self._authenticate is not None)


def is_of_browser(request: HttpRequest) -> bool:
    """Return whether a browser may show the response to a request as a page."""
    return request.method in ("GET", "HEAD") and asks_for_html(request)


def asks_for_html(request: HttpRequest) -> bool:
    """Return whether a request names HTML: programs accept anything, or JSON."""
    named = b"text/html" in request.headers.get(b"accept", b"").lower()
    return named and request.accepts("text/html")


def render(shown: Shown) -> bytes:
    """Return the page as UTF-8."""
    configuration = host_configuration(shown.url, needs_token=shown.needs_token)
    hint = "<p>Put your token in the place of <code>TOKEN</code>.</p>\n"
    page = _page().template.substitute(
        title=_as_html(shown.title),
        health=_health(shown.mounts or ()),
        mounts="".join(_mounts(shown.mounts)),
        address=_as_html(shlex.quote(shown.url), lines=True),
        hosts=", ".join(f"<code>{each}</code>" for each in HOSTS),
        configuration=_as_html(configuration, lines=True),
        hint=hint if shown.needs_token else "",
        version=__version__,
    )
    return page.encode()


def host_configuration(url: str, *, needs_token: bool) -> str:
    """Return the configuration of a host for the endpoint at `url`, as indented JSON."""
    entry: dict[str, object] = {"type": "http", "url": url}
    if needs_token:
        entry["headers"] = {"Authorization": "Bearer TOKEN"}
    servers = {"mcpServers": {"resources": entry}}
    return msgspec.json.format(msgspec.json.encode(servers), indent=2).decode()


def _health(mounts: Sequence[Mount]) -> str:
    down = sum(not mount.is_available for mount in mounts)
    if not mounts:
        return "The server is up."
    if down:
        return f"The server is up; {down} of {len(mounts)} mounts unavailable."
    return f"The server is up, with {_counted(len(mounts))}."


def _mounts(mounts: Sequence[Mount] | None) -> Iterator[str]:
    if mounts is None:
        yield "<p>Its resources are visible with a token only.</p>\n"
    if not mounts:
        return
    yield "<h2>Mounts</h2>\n<ul>\n"
    for mount in mounts[:MAX_MOUNTS]:
        yield f"<li><strong><bdi>{_as_html(mount.title or mount.name)}</bdi></strong>"
        yield "" if mount.is_available else " (unavailable)"
        yield f"<br><code>{_as_html(mount.base)}</code>"
        yield f"<br><bdi>{_as_html(mount.description)}</bdi>" if mount.description else ""
        yield "</li>\n"
    yield "</ul>\n"
    if len(mounts) > MAX_MOUNTS:
        yield f"<p>{_counted(len(mounts) - MAX_MOUNTS)} more.</p>\n"


def _counted(count: int) -> str:
    return f"{count} mount" if count == 1 else f"{count} mounts"


def _as_html(text: str, *, lines: bool = False) -> str:
    """Return text as HTML, valid in an attribute too; control characters become spaces."""
    parts = text.split("\n") if lines else [text]
    return "\n".join(escape(_CONTROLS.sub(" ", uris.display(each))) for each in parts)
