"""Other spellings of a URI: those that hosts make of it, and those that lead nowhere."""

from __future__ import annotations

from collections.abc import Sequence

HOST_SPELLINGS = 7
_WRAPPED = "mcp-resource://6d6370"


def host_spellings(uri: str) -> Sequence[str]:
    """Return a URI encoded entirely, encoded once too often, and wrapped."""
    scheme, authority, path, query = _split(uri)
    start = f"{scheme}://{authority}/"
    wrapped = f"{_WRAPPED}/{scheme}/{authority or 'dylo78gyp'}/"
    once, twice = _encoded(path), _encoded(path).replace("%", "%25")
    return (
        f"{start}{once}{query}",
        f"{start}{twice}{query}",
        f"{start}{path.replace('%', '%25')}{query}",
        f"{wrapped}{path}{query}",
        f"{wrapped}{path}{query.replace('=', '%3D')}",
        f"{wrapped.upper()}{once}{query}",
        f"{wrapped}{twice}{query}",
    )


def wrong_spellings(uri: str) -> Sequence[str]:
    """Return a URI encoded twice too often, with encoded slashes, and wrapped twice."""
    scheme, authority, path, query = _split(uri)
    start = f"{scheme}://{authority}/"
    once, twice = _encoded(path), _encoded(path).replace("%", "%25")
    within = f"{scheme}/{authority or 'dylo78gyp'}/{path}{query}"
    return (
        f"{start}{twice.replace('%', '%25')}{query}",
        f"{start}{once.replace('/', '%2F')}%2F{query}",
        f"{start}{twice.replace('/', '%252F')}%252F{query}",
        f"{_WRAPPED}/mcp-resource/6d6370/{within}",
        f"{_WRAPPED}%2F{within}",
    )


def _split(uri: str) -> tuple[str, str, str, str]:
    scheme, _, rest = uri.partition("://")
    authority, _, tail = rest.partition("/")
    path, mark, query = tail.partition("?")
    return scheme, authority, path, mark + query


def _encoded(path: str) -> str:
    data = path.encode("utf-8", "surrogatepass")
    return "".join("/" if byte == ord("/") else f"%{byte:02X}" for byte in data)
