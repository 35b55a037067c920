"""Addresses of pages: a resource has one for people, made from its URI, with its own parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from resource_server import uris

ROOT = "/explore/"
"""Path of the explorer."""
ASSETS = f"{ROOT}assets/"
"""Path of the explorer's style and scripts."""
LIVE = f"{ROOT}live/"
"""Path of the streams of live pages."""

_KEPT = "/:~@!$&'()*+,;="
"""Characters of a path that stay as they are, beside letters, digits and `-._~`."""


def page_address(uri: str) -> str:
    """Return the address of a resource's page, below that of the pages of its kind."""
    path, mark, query = uri.partition("?")
    # Proxies may merge slashes that are not encoded.
    return quote(path, safe=_KEPT).replace("//", "%2F%2F") + mark + query


def resource_uri(path: str, query: str) -> str:
    """Return the URI of the resource whose page has a decoded path and an encoded query.

    Forms write a space as `+`, which is a plus sign in the URI of a resource.
    """
    return f"{path}?{query.replace('+', '%20')}" if query else path


def with_parameters(uri: str, changes: Mapping[str, str | None]) -> str:
    """Return a URI with other values of some parameters; None removes one.

    Raises:
        InvalidParameter: the URI repeats a parameter.
        ResourceNotFound: no resource can have this URI.
    """
    query = {**uris.parse(uri).query, **changes}
    kept = {name: value for name, value in query.items() if value is not None}
    base = uri.partition("?")[0]
    return uris.with_query(base, kept) if kept else base


class Crumb(NamedTuple):
    """A resource on the way to another."""

    name: str
    uri: str


def breadcrumbs(uri: str, bases: Iterable[str]) -> Sequence[Crumb]:
    """Return the collections above a resource and itself, the one of its mount first.

    `bases` are the base URIs of all mounts, each with its final slash.
    """
    path = uri.partition("?")[0]
    base = max((each for each in bases if f"{path}/".startswith(each)), key=len, default="")
    at = base.removesuffix("/")
    crumbs = [Crumb(at, at)] if at else []
    for segment in filter(None, path[len(base) :].split("/")):
        at = f"{at}/{segment}" if at else path
        crumbs.append(Crumb(uris.unquote_segment(segment), at))
    return crumbs
