"""The page at `/`, for a person who opens the server's address in a browser."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from html import escape
from typing import NamedTuple

import msgspec

from resource_server import __version__, uris
from resource_server.access import EVERYBODY, Caller
from resource_server.catalog.mount import Mount
from resource_server.protocol.server import Server
from resource_server.transports.http.app.request import HttpError, HttpRequest

MAX_MOUNTS = 200
"""Maximum mounts on the page."""
HOSTS = ("vscode", "cursor", "codex", "gemini", "goose", "zed", "opencode", "windsurf")
"""Hosts that can be installed into beside Claude Code."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
"""Control characters, and those that reverse the direction of text."""
_STYLE = """
:root{color-scheme:light dark;--line:#767676;--soft:#f3f3f1}
@media (prefers-color-scheme:dark){:root{--line:#8a8a8a;--soft:#262624}}
body{font:1rem/1.5 system-ui,sans-serif;margin:0 auto;max-width:44rem;padding:1rem;
overflow-wrap:anywhere}
h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.15rem;margin:1.75rem 0 .5rem}
ul{list-style:none;margin:0;padding:0}li{border-top:1px solid var(--line);padding:.6rem 0}
code,pre{font:.9rem/1.5 ui-monospace,monospace}p{margin:.5rem 0}
pre{background:var(--soft);border-radius:.4rem;margin:.5rem 0;padding:.75rem;
white-space:pre-wrap}
"""
_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'"
)
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", _POLICY.encode()),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
"""The page has nothing but its own style: no script, picture, form, frame or address elsewhere."""


class Shown(NamedTuple):
    """What the caller may know."""

    url: str
    """URL of the MCP endpoint."""
    title: str
    """Title of the server."""
    mounts: list[Mount] | None
    """Visible mounts; None for a caller without the token that the server requires."""
    needs_token: bool


class LandingPage:
    """Answers browsers; mounts are named only to callers who may see them.

    `check` raises `HttpError` for another host or a foreign web page, `authenticate` without a
    valid token. `url` is the public URL of the endpoint, by default that of the request.
    """

    def __init__(
        self,
        server: Server,
        url: str | None,
        path: str,
        check: Callable[[HttpRequest], object],
        authenticate: Callable[[HttpRequest], Awaitable[Caller]] | None,
    ) -> None:
        self._server = server
        self._url = url
        self._path = path
        self._check = check
        self._authenticate = authenticate

    async def show(self, request: HttpRequest) -> None:
        """Answer a browser; for all others there is nothing here.

        Raises:
            HttpError: 404 for a request that accepts no HTML, and what `check` raises.
        """
        if not _is_of_browser(request):
            raise HttpError(404, "not found")
        self._check(request)
        caller: Caller | None = EVERYBODY
        if self._authenticate is not None:
            caller = None
            with suppress(HttpError):
                request.exchange.caller = caller = await self._authenticate(request)
        host = request.header(b"host")
        url = self._url or f"{request.scope['scheme']}://{host}{self._path}"
        page = render(self._visible(caller, url))
        media_type = b"text/html; charset=utf-8"
        await request.exchange.respond(200, page, headers=HEADERS, media_type=media_type)

    def _visible(self, caller: Caller | None, url: str) -> Shown:
        if caller is None:
            # Nothing of the manifest is for callers without a token.
            return Shown(url, "resource-server", None, needs_token=True)
        info = self._server.info
        mounts = self._server.catalog.visibility.for_scopes(caller.scopes).mounts
        listed = [mount for mount in mounts if mount.listed]
        title = info.get("title") or info["name"]
        return Shown(url, title, listed, needs_token=self._authenticate is not None)


def _is_of_browser(request: HttpRequest) -> bool:
    """Return whether a request asks for HTML by name: programs accept anything, or JSON."""
    return (
        request.method in ("GET", "HEAD")
        and b"text/html" in request.headers.get(b"accept", b"").lower()
        and request.accepts("text/html")
    )


def render(shown: Shown) -> bytes:
    """Return the page as UTF-8."""
    title = _text(shown.title)
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n",
            f"<main>\n<h1><bdi>{title}</bdi></h1>\n",
            "<p>This is an MCP server: editors, agents and other hosts read folders and databases ",
            "here as resources. It only reads.</p>\n",
            *_health(shown.mounts),
            *_mounts(shown.mounts),
            *_connection(shown),
            f"<footer><p>resource-server {__version__}</p></footer>\n</main>\n</html>\n",
        )
    ).encode()


def _health(mounts: list[Mount] | None) -> Iterator[str]:
    yield "<h2>Health</h2>\n"
    down = sum(mount.problem is not None for mount in mounts or ())
    if not mounts:
        yield "<p>The server is up.</p>\n"
    elif down:
        yield f"<p>The server is up; {down} of {len(mounts)} mounts unavailable.</p>\n"
    else:
        yield f"<p>The server is up, with {_counted(len(mounts))}.</p>\n"


def _mounts(mounts: list[Mount] | None) -> Iterator[str]:
    if mounts is None:
        yield "<p>Its resources are visible with a token only.</p>\n"
        return
    if not mounts:
        return
    yield "<h2>Mounts</h2>\n<ul>\n"
    for mount in mounts[:MAX_MOUNTS]:
        yield f"<li><strong><bdi>{_text(mount.title or mount.name)}</bdi></strong>"
        yield " (unavailable)" if mount.problem is not None else ""
        yield f"<br><code>{_text(mount.base)}</code>"
        yield f"<br><bdi>{_text(mount.description)}</bdi>" if mount.description else ""
        yield "</li>\n"
    yield "</ul>\n"
    if len(mounts) > MAX_MOUNTS:
        yield f"<p>{_counted(len(mounts) - MAX_MOUNTS)} more.</p>\n"


def _connection(shown: Shown) -> Iterator[str]:
    entry: dict[str, object] = {"type": "http", "url": shown.url}
    if shown.needs_token:
        entry["headers"] = {"Authorization": "Bearer TOKEN"}
    servers = {"mcpServers": {"resources": entry}}
    configuration = msgspec.json.format(msgspec.json.encode(servers), indent=2).decode()
    others = ", ".join(f"<code>{each}</code>" for each in HOSTS)
    yield "<h2>Connect a host</h2>\n<p>On a machine with resource-server:</p>\n"
    command = f"resource-server install claude-code --http {shlex.quote(shown.url)}"
    yield _block(command)
    yield f"<p>Other hosts are {others}. In the configuration of any host:</p>\n"
    yield _block(configuration)
    if shown.needs_token:
        yield "<p>Put your token in the place of <code>TOKEN</code>.</p>\n"


def _block(text: str) -> str:
    return f"<pre><code>{_text(text, lines=True)}</code></pre>\n"


def _counted(count: int) -> str:
    return f"{count} mount" if count == 1 else f"{count} mounts"


def _text(text: str, *, lines: bool = False) -> str:
    """Return text as HTML, valid in an attribute too; control characters become spaces."""
    parts = text.split("\n") if lines else [text]
    return "\n".join(escape(_CONTROLS.sub(" ", uris.display(each))) for each in parts)
