"""One page: the request for it, the client that reads for it, and the templates."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import jinja2
from markupsafe import Markup
from starlette.responses import HTMLResponse

from resource_server import __version__, uris
from resource_server.access import Caller
from resource_server.catalog.mount import Mount
from resource_server.explorer.addresses import ROOT, breadcrumbs, page_address, resource_uri
from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.protocol.server import Server

ASSETS = ("explorer.css", "explorer.js", "live.js", "pages.js", "typing.js", "icon.svg")

_UNITS = ("KB", "MB", "GB", "TB")
_INVISIBLE = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
"""Controls, and characters that reverse the direction of text or hide in it."""
_IMPORT = re.compile(rb'from "\./(\w+\.js)"')


def visible_text(value: object) -> object:
    """Return text with its invisible characters named; other values as they are.

    The filter `e` of templates keeps the values of forms as they are, which are sent again.
    """
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return _INVISIBLE.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", uris.display(value))


@cache
def asset(name: str) -> bytes:
    """Return a file of the explorer's own: its style or a script."""
    data = resources.files("resource_server.explorer").joinpath("assets", name).read_bytes()
    return _IMPORT.sub(_with_version, data)


def _with_version(found: re.Match[bytes]) -> bytes:
    """Return the import of another script by the address that browsers keep."""
    return b'from "./%b?v=%b"' % (found[1], asset_version(found[1].decode()).encode())


@cache
def asset_version(name: str) -> str:
    """Return the digest of an asset, which is part of its address."""
    return hashlib.sha256(asset(name)).hexdigest()[:12]


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("resource_server.explorer"),
        autoescape=True,
        auto_reload=False,
        finalize=visible_text,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": bytes_text, "number": "{:,}".format, "page": page_address}
    return environment


def bytes_text(count: int) -> str:
    """Return a number of bytes for people."""
    if count < 1000:
        return "1 byte" if count == 1 else f"{count} bytes"
    power = min((len(str(count)) - 1) // 3, len(_UNITS))
    return f"{count / 1000**power:.3g} {_UNITS[power - 1]}"


def rendered(
    template: str, root: str, server_title: str, *, visit: Visit | None, **values: Any
) -> str:
    """Return a page of a template."""
    shared: Mapping[str, Any] = {
        "root": root,
        "server_title": server_title,
        "is_signed_in": visit is not None and visit.may_sign_out,
        "is_operator": visit is not None and visit.is_operator,
        "version": __version__,
        "asset_version": asset_version,
    }
    return _templates().get_template(template).render({**shared, **values})


class Endpoint(NamedTuple):
    """The MCP endpoint of the server that pages are about."""

    url: str
    hosts: Sequence[str]
    """Hosts that can be installed into."""
    configuration: str
    """Configuration of any host, as JSON."""


CLIENT = "explorer"
"""Name of the explorer's client in the record of reads."""


class Visit(NamedTuple):
    """A request for a page, as the transport knows its caller."""

    caller: Caller
    owner: str
    """The key by which limits count."""
    charge: Callable[[int], None]
    """Counts further requests, those of the client that reads for the page."""
    ended: asyncio.Event
    """Set when a stream has to end."""
    endpoint: Endpoint
    address: str | None = None
    """The address of the browser."""
    may_sign_out: bool = False
    is_operator: bool = False
    """Whether the caller may know what is hidden, and why."""
    root: str = ROOT
    """Path of the start page, as the caller's browser sees it."""


class Page(NamedTuple):
    """A request for a page by one caller."""

    server: Server
    client: LocalClient
    root: str
    """Path of the explorer's start page, which ends in a slash."""
    path: str
    """Decoded path of this page, below the root and the kind of page."""
    query: str
    """Encoded query of this page."""
    visit: Visit

    @property
    def uri(self) -> str:
        """URI of the resource that the page is about, with its parameters."""
        return resource_uri(self.path, self.query)

    @property
    def parameters(self) -> str:
        """The parameters of the URI with their `?`; empty without any."""
        return self.uri[len(self.path) :]

    @property
    def mount(self) -> Mount | None:
        """The visible mount of the resource that the page is about, which may not exist."""
        mounts = self.server.catalog.visibility.current().mounts
        return next((each for each in mounts if f"{self.path}/".startswith(each.base)), None)

    def parameter(self, name: str) -> str | None:
        """Return a parameter of the page that is no resource's."""
        return dict(parse_qsl(self.query)).get(name)

    def render(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page of the template."""
        title = self.server.info.get("title") or self.server.info["name"]
        return HTMLResponse(
            rendered(template, self.root, title, visit=self.visit, **values), status
        )

    def crumbs(self, uri: str) -> list[dict[str, str]]:
        """Return the way to a resource: names, and the URIs of its collections."""
        mounts = self.server.catalog.visibility.current().mounts
        titles = {each.base.removesuffix("/"): each.title or each.name for each in mounts}
        return [
            {"name": titles.get(each.uri, each.name), "uri": each.uri}
            for each in breadcrumbs(uri, [each.base for each in mounts])
        ]

    async def visible_crumbs(self, uri: str) -> list[dict[str, str]]:
        """Return the same for a URI that may name nothing; what is not there has no URI."""
        crumbs = self.crumbs(uri)
        for crumb in reversed(crumbs):
            with suppress(ErrorReply):
                await self.client.request("resources/metadata", {"uri": crumb["uri"]})
                break
            crumb["uri"] = ""
        return crumbs
