"""URIs to decoded segments and back (RFC 3986), and RFC 6570 templates; nothing else encodes.

A resource's URI is its mount's base followed by its path, each segment percent-encoded as UTF-8
with only the unreserved characters left bare, and perhaps a query. Every resource has this one
canonical spelling; `parse` accepts any equivalent one. Bytes that are not UTF-8 are lone surrogates
in decoded segments (`os.fsdecode`), and come back as the same bytes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote_to_bytes

import msgspec

from resource_server.errors import InvalidParameter, ResourceNotFound

MAX_URI_LENGTH = 16 * 1024
"""Characters. Linux paths end at 4,096 bytes, at most three times as long percent-encoded."""

_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]+")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._~/-]+")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?")
_FORBIDDEN = re.compile("[\x00-\x20\x7f\ud800-\udfff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")

DOT_SEGMENTS = frozenset((".", ".."))
"""Segments that name a place relative to others (RFC 3986, 3.3); no resource's path has one."""
_UNUSABLE_SEGMENTS = DOT_SEGMENTS | {""}


class Reference(msgspec.Struct, frozen=True):
    """A URI taken apart: scheme and authority in lower case, segments and query decoded."""

    scheme: str
    authority: str
    path: tuple[str, ...]
    query: Mapping[str, str]


def parse(uri: str) -> Reference:
    """Take apart any spelling of a resource's URI. One trailing slash is ignored.

    Decoding happens once. `localhost` is no authority for `file:` (RFC 8089).

    Raises:
        ResourceNotFound: no resource can have this URI: not a URI, a fragment, a segment that is
            empty, `.`, `..` or holds `/` or NUL, control characters, or too long.
        InvalidParameter: the query repeats a parameter.
    """
    # Long ones are not kept: taken apart they may take fifty times their length.
    return _known(uri) if len(uri) <= _MAX_KNOWN_LENGTH else _parse(uri)


def _parse(uri: str) -> Reference:
    match = _URI.fullmatch(uri) if len(uri) <= MAX_URI_LENGTH else None
    if match is None or _FORBIDDEN.search(uri) or _PERCENT.search(uri):
        raise ResourceNotFound
    scheme, authority, path, query = match.groups()
    scheme = scheme.lower()
    authority = unquote_segment(authority).lower() if authority else ""
    if scheme == "file" and authority == "localhost":
        authority = ""
    return Reference(scheme, authority, _segments(path), _query(query) if query else {})


_MAX_KNOWN_LENGTH = 512
# Clients ask for the same again: metadata, read, read on.
_known = functools.lru_cache(maxsize=512)(_parse)


def _segments(path: str) -> tuple[str, ...]:
    if path in ("", "/"):
        return ()
    if not path.startswith("/"):
        raise ResourceNotFound
    segments = path[1:].removesuffix("/")
    decoded = segments.split("/")
    if "%" in segments:
        decoded = [unquote_segment(segment) for segment in decoded]
    for segment in decoded:
        if not is_segment(segment):
            raise ResourceNotFound
    return tuple(decoded)


def is_segment(text: str) -> bool:
    """Return whether a decoded text can be one segment of a resource's path.

    It is not empty, is not a dot segment, and holds neither `/` nor NUL.
    """
    return text not in _UNUSABLE_SEGMENTS and "/" not in text and "\0" not in text


def _query(query: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        name = _text(unquote_to_bytes(name))
        if name in parameters:
            raise InvalidParameter(f"query parameter {name!r} is given twice")
        parameters[name] = _text(unquote_to_bytes(value))
    return parameters


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def unquote_segment(segment: str) -> str:
    """Decode the percent-encoding of one segment, once."""
    return _text(unquote_to_bytes(segment)) if "%" in segment else segment


def quote_segment(segment: str) -> str:
    """Percent-encode one segment (or query value): everything but unreserved characters."""
    if _UNRESERVED.fullmatch(segment):
        return segment
    return quote(segment.encode("utf-8", "surrogateescape"), safe="")


def join(base: str, path: Sequence[str], query: Mapping[str, str] | None = None) -> str:
    """Return the canonical URI of a path below `base`, which ends in `/`.

    The empty path is the mount's own collection: its base without the final slash.
    """
    if path:
        joined = "/".join(path)
        if not _PLAIN_PATH.fullmatch(joined):
            joined = "/".join([quote_segment(segment) for segment in path])
        uri = base + joined
    else:
        # `file:///` stays whole: without its last slash it would not name anything.
        uri = base if base.endswith("///") else base[:-1]
    return with_query(uri, query) if query else uri


def with_query(uri: str, query: Mapping[str, str]) -> str:
    """Return `uri`, which has no query, with this one."""
    pairs = (f"{quote_segment(name)}={quote_segment(value)}" for name, value in query.items())
    return f"{uri}?{'&'.join(pairs)}"


def normalise_base(uri: str) -> str:
    """Return the canonical spelling of a mount's base URI, ending in `/`.

    Raises:
        ValueError: not usable as a base; says why.
    """
    try:
        reference = parse(uri)
    except (ResourceNotFound, InvalidParameter):
        raise ValueError(
            "not a URI; write a scheme, a name and a slash: docs://handbook/"
        ) from None
    if reference.query or "?" in uri:
        raise ValueError("a base URI has no query")
    if not uri.partition(":")[2].startswith("//"):
        raise ValueError("a base URI needs '//' after its scheme: docs://handbook/")
    if not reference.authority and not reference.path and reference.scheme != "file":
        raise ValueError("a base URI needs a name after its scheme: docs://handbook/")
    authority = quote(reference.authority.encode("utf-8", "surrogateescape"), safe=":@[]")
    base = f"{reference.scheme}://{authority}/"
    return base + "".join(f"{quote_segment(segment)}/" for segment in reference.path)


_EXPRESSION = re.compile(r"\{([+?&/#.;]?)([^{}]*)\}")
_VARIABLE = re.compile(r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_])+)*")
_OPERATORS = ("", "+", "?", "&")


def template_variables(template: str) -> dict[str, str]:
    """Return the template's variables and the operator of each: `""`, `"+"`, `"?"` or `"&"`.

    Raises:
        ValueError: not a template, or one with more than `{x}`, `{+x}`, `{?x,y}` and `{&x,y}`.
    """
    variables: dict[str, str] = {}
    for operator, names in _EXPRESSION.findall(template):
        for name in names.split(","):
            if operator not in _OPERATORS or not _VARIABLE.fullmatch(name) or name in variables:
                raise ValueError(f"unusable template expression {{{operator}{names}}}")
            variables[name] = operator
    if set("{}") & set(_EXPRESSION.sub("", template)):
        raise ValueError("unbalanced braces in a template")
    return variables


def expand(template: str, values: Mapping[str, str]) -> str:
    """Return a template with values filled in; a variable without one leaves nothing.

    As RFC 6570 has it, but for `{+x}`: of what is reserved only `/` is kept, beside what is
    percent-encoded already. So no value gets out of the path, or out of its query parameter.
    """

    def filled(expression: re.Match[str]) -> str:
        operator, names = expression.groups()
        given = [(name, values[name]) for name in names.split(",") if name in values]
        if operator in ("?", "&"):
            pairs = [f"{name}={quote_segment(value)}" for name, value in given]
            return operator + "&".join(pairs) if pairs else ""
        quoted = _quote_reserved if operator == "+" else quote_segment
        return ",".join(quoted(value) for _, value in given)

    return _EXPRESSION.sub(filled, template)


_KEPT = re.compile(r"(/|%[0-9A-Fa-f]{2})")


def _quote_reserved(value: str) -> str:
    parts = _KEPT.split(value)
    return "".join(kept if at % 2 else quote_segment(kept) for at, kept in enumerate(parts))


def quote_path(text: str) -> str:
    """Percent-encode `/`-joined segments, keeping the slashes: a value for `{+path}`."""
    return "/".join(quote_segment(segment) for segment in text.split("/"))


def unquote_path(text: str) -> str:
    """Decode a value of `{+path}` as typed so far: percent-encoded or plain."""
    return _text(unquote_to_bytes(text.encode("utf-8", "surrogatepass")))


def display(text: str) -> str:
    """Return `text` as valid Unicode: bytes that `os.fsdecode` could not decode become U+FFFD."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)
