"""URIs (RFC 3986) and URI templates (RFC 6570): the only place that encodes and decodes them.

The URI of a resource is the base URI of its mount and its path, perhaps with a query. Each segment
is UTF-8, percent-encoded except for unreserved characters. Every resource has this one canonical
URI; `parse` accepts all equivalent spellings, and `other_readings` undoes what hosts do to it. In
decoded segments, bytes that are not UTF-8 are lone surrogates (`os.fsdecode`), which are encoded as
the same bytes again.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, unquote_to_bytes

import msgspec

from resource_server.errors import InvalidParameter, ResourceNotFound

MAX_URI_LENGTH = 16 * 1024
"""Maximum characters of a URI. A Linux path of 4,096 bytes has at most 12,288 encoded."""

_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]+")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._~/-]+")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?")
_FORBIDDEN = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_SPECIAL_IN_TEXT = re.compile("[~/\0]")
_UNENCODED = re.compile(r" |%(?![0-9A-Fa-f]{2})")

DOT_SEGMENTS = frozenset((".", ".."))
"""Relative segments (RFC 3986, 3.3); never part of a resource's path."""
_UNUSABLE_SEGMENTS = DOT_SEGMENTS | {""}


class Reference(msgspec.Struct, frozen=True):
    """A parsed URI: scheme and authority in lower case, segments and URI parameters decoded."""

    scheme: str
    authority: str
    path: tuple[str, ...]
    query: Mapping[str, str]


def parse(uri: str) -> Reference:
    """Parse any spelling of a resource's URI. One trailing slash is ignored.

    Segments are decoded once. A space, and a `%` without two hexadecimal digits, is itself: hosts
    send both, and they can mean nothing else. The authority `localhost` of a `file:` URI is dropped
    (RFC 8089).

    Raises:
        ResourceNotFound: no resource can have this URI: it is malformed or too long, or has a
            fragment, a control character, or a segment that is empty, `.`, `..` or has `/` or NUL.
        InvalidParameter: the query repeats a parameter.
    """
    # Long URIs are not cached: the parsed form may take fifty times their length.
    return _known(uri) if len(uri) <= _MAX_KNOWN_LENGTH else _parse(uri)


def _parse(uri: str) -> Reference:
    scheme, authority, path, query = _split(uri)
    decoded = tuple(map(unquote_segment, path) if "%" in uri else path)
    if not all(map(is_segment, decoded)):
        raise ResourceNotFound
    return Reference(scheme, authority, decoded, query)


def _split(uri: str) -> tuple[str, str, Sequence[str], Mapping[str, str]]:
    """Return the parts of a URI, without decoding the segments of its path."""
    match = _URI.fullmatch(uri) if len(uri) <= MAX_URI_LENGTH else None
    if match is None or _FORBIDDEN.search(uri):
        raise ResourceNotFound
    scheme, authority, path, query = match.groups()
    scheme = scheme.lower()
    authority = unquote_segment(authority).lower() if authority else ""
    if scheme == "file" and authority == "localhost":
        authority = ""
    if path in ("", "/"):
        segments: Sequence[str] = ()
    elif path.startswith("/"):
        segments = path[1:].removesuffix("/").split("/")
    else:
        raise ResourceNotFound
    return scheme, authority, segments, _query(query) if query else {}


_MAX_KNOWN_LENGTH = 512
# Clients repeat URIs: metadata, read, the next range.
_known = functools.lru_cache(maxsize=512)(_parse)


def is_segment(text: str) -> bool:
    """Return whether decoded text can be one segment of a resource's path.

    A segment is not empty, is not a dot segment and contains neither `/` nor NUL.
    """
    return text not in _UNUSABLE_SEGMENTS and "/" not in text and "\0" not in text


def encode_text(text: str) -> str:
    """Return the canonical segment of a text or name: plain if a URI can carry it.

    Raises:
        ValueError: the text has surrogates that `surrogateescape` does not produce.
    """
    if not is_segment(text) or text[0] == "~":
        return typed_text(text)
    check_text(text)
    return text


def typed_text(text: str) -> str:
    """Return the `~t` form of a text. Raises as `encode_text`."""
    check_text(text)
    return "~t" + _SPECIAL_IN_TEXT.sub(lambda found: f"~{ord(found[0]):02X}", text)


def check_text(text: str) -> None:
    """Raise ValueError for surrogates that are not bytes of text that is not UTF-8."""
    if not text.isascii():
        data = text.encode("utf-8", "surrogateescape")
        if data.decode("utf-8", "surrogateescape") != text:
            raise ValueError("the text contains surrogates that are not bytes")


def _query(query: str) -> dict[str, str]:
    """Return URI parameters by name: in one order, whichever a client writes them in."""
    parameters: dict[str, str] = {}
    if "=" not in query and "%3D" in query.upper():
        query = unquote_segment(query)  # as VS Code writes it; no parameter has `=` in its name
    for pair in filter(None, query.split("&")):
        name, _, value = map(unquote_segment, pair.partition("="))
        if name in parameters:
            raise InvalidParameter(f"query parameter {name!r} is given twice")
        parameters[name] = value
    return dict(sorted(parameters.items())) if len(parameters) > 1 else parameters


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def unquote_segment(segment: str) -> str:
    """Percent-decode one segment, once."""
    if "%" not in segment:
        return segment
    return _decoded(unquote_to_bytes(segment.encode("utf-8", "surrogateescape")))


_WRAPPED = re.compile(r"mcp-resource://[^/?#]*/([^/?#]+)/([^/?#]*)(.*)", re.IGNORECASE)
_NO_AUTHORITY = "dylo78gyp"
"""VS Code's word for an empty authority in a wrapped URI (`McpResourceURI` in `mcpTypes.ts`)."""
_NON_ASCII = re.compile(
    "%[CD][0-9A-F]%[89AB][0-9A-F]|%E[0-9A-F](?:%[89AB][0-9A-F]){2}|%F[0-4](?:%[89AB][0-9A-F]){3}",
    re.IGNORECASE,
)
_MAX_MIXED = 7
"""Maximum readings of a path with some segments decoded and others not: all of three segments."""


def other_readings(uri: str) -> Iterator[Reference]:
    """Return the references that a URI may mean if a host has changed it, the likeliest first.

    Some hosts encode a path that is encoded already, decode one without encoding its `%` again, or
    wrap a URI into `mcp-resource://`. Each reading is what `parse` gives for the URI that was
    meant. There are at most ten, and none for a URI that is not wrapped and has no `%` or space.

    Raises:
        InvalidParameter: the query repeats a parameter.
    """
    if len(uri) > MAX_URI_LENGTH:
        return
    wrapped = _WRAPPED.fullmatch(uri)
    if wrapped is not None:
        scheme, authority, rest = wrapped.groups()
        uri = f"{scheme}://{'' if authority.lower() == _NO_AUTHORITY else authority}{rest}"
    try:
        scheme, authority, segments, query = _split(uri)
    except ResourceNotFound:
        return
    own = tuple(map(unquote_segment, segments))
    tried: set[tuple[str, ...]] = {own} if wrapped is None else set()
    for path in (own, *_other_paths(own, [segment.replace(" ", "%20") for segment in segments])):
        if path not in tried and all(map(is_segment, path)):
            tried.add(path)
            yield Reference(scheme, authority, path, query)


def _other_paths(own: Sequence[str], written: Sequence[str]) -> Iterator[tuple[str, ...]]:
    yield tuple(map(unquote_segment, own))
    # A host that decodes a path has to encode some of it again: always what is not ASCII.
    kept = [_NON_ASCII.sub(_unquote_character, each) for each in written]
    yield tuple(kept)
    differing = [at for at, segment in enumerate(kept) if segment != own[at]]
    choices = itertools.product((False, True), repeat=len(differing))
    for choice in itertools.islice(choices, 1, _MAX_MIXED + 1):
        mixed = list(own)
        for at in itertools.compress(differing, choice):
            mixed[at] = kept[at]
        yield tuple(mixed)
    yield tuple(written)


def _unquote_character(encoded: re.Match[str]) -> str:
    try:
        return unquote_to_bytes(encoded[0]).decode()
    except UnicodeDecodeError:
        return encoded[0]


def quote_segment(segment: str) -> str:
    """Percent-encode one segment or query value, except for unreserved characters."""
    if _UNRESERVED.fullmatch(segment):
        return segment
    return quote(segment.encode("utf-8", "surrogateescape"), safe="")


def join(base: str, path: Sequence[str], query: Mapping[str, str] | None = None) -> str:
    """Return the canonical URI of a path below `base`, which ends in `/`.

    The empty path is the mount's own collection: `base` without the final slash.
    """
    if path:
        joined = "/".join(path)
        if not _PLAIN_PATH.fullmatch(joined):
            joined = "/".join([quote_segment(segment) for segment in path])
        uri = base + joined
    else:
        # `file:///` keeps its last slash: `file://` names nothing.
        uri = base if base.endswith("///") else base[:-1]
    return with_query(uri, query) if query else uri


def with_query(uri: str, query: Mapping[str, str]) -> str:
    """Return `uri`, which has no query, with these URI parameters."""
    pairs = query.items()
    if not _UNRESERVED.fullmatch("".join([*query, *query.values()])):
        pairs = [(quote_segment(name), quote_segment(value)) for name, value in pairs]
    return f"{uri}?{'&'.join([f'{name}={value}' for name, value in pairs])}"


def normalise_base(uri: str) -> str:
    """Return the canonical spelling of a mount's base URI, ending in `/`.

    Raises:
        ValueError: the URI cannot be a base; the message has the reason.
    """
    try:
        if _UNENCODED.search(uri):
            raise ResourceNotFound
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
        ValueError: malformed, or an expression other than `{x}`, `{+x}`, `{?x,y}`, `{&x,y}`.
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
    """Expand a template with decoded values; a variable without a value expands to nothing.

    Differs from RFC 6570 in `{+x}`: `/` is the only reserved character that is not encoded, and
    existing percent-encoding is kept. So no value can leave the path or its query parameter.
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
    """Percent-encode segments joined by `/`."""
    return "/".join(quote_segment(segment) for segment in text.split("/"))


_UNSEEN = (
    "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
    "\U000e0000-\U000e007f"
)
"""Controls of terminals and of the direction of text, line ends, tags, and what is no character."""
_UNSAFE = re.compile(f"[%?#\\\\{_UNSEEN}]+")
_UNSEEN_CHARACTER = re.compile(f"[{_UNSEEN}]")


def plain_path(text: str) -> str:
    """Return segments joined by `/` as a value of `{+path}`, as readable as it can be.

    Only what would end the path, be decoded, or is a control or no character is percent-encoded;
    clients encode the rest as they expand the template.
    """
    return _UNSAFE.sub(lambda found: quote_segment(found[0]), text)


def unquote_path(text: str) -> str:
    """Decode a value of `{+path}`, perhaps partly typed, percent-encoded or plain."""
    return _decoded(unquote_to_bytes(text.encode("utf-8", "surrogatepass")))


def typed_paths(text: str) -> Sequence[str]:
    """Return what a partly typed value of `{+path}` may mean: decoded, or a name as it is written.

    A directory picked from a list is encoded, the name typed after it may be plain.
    """
    if "%" not in text:
        return (unquote_path(text),)
    parent, slash, name = text.rpartition("/")
    typed = (unquote_path(text), unquote_path(parent) + slash + name, text)
    return tuple(dict.fromkeys(typed))


def without_controls(text: str) -> str:
    """Return a name with its controls escaped as in Python, in valid Unicode."""
    return text if text.isprintable() else _UNSEEN_CHARACTER.sub(_escaped, display(text))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def display(text: str) -> str:
    """Return `text` as valid Unicode: lone surrogates become U+FFFD."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def is_unicode(text: str) -> bool:
    """Return whether `text` has no lone surrogates, which bytes that are not UTF-8 become."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_ENCODED = re.compile(r"(?:%[89A-F][0-9A-F])+")
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that nothing shows, in which text for a model could be hidden."""


def readable(uri: str) -> str:
    """Return a canonical URI as an IRI (RFC 3987), with letters of all scripts unencoded.

    Everything else stays percent-encoded, such as spaces, control characters, brackets and quotes:
    the result is one word, harmless in Markdown, terminals and JSON. `parse` accepts it.
    """
    return _ENCODED.sub(_readable, uri) if "%" in uri else uri


def _readable(encoded: re.Match[str]) -> str:
    text = _decoded(unquote_to_bytes(encoded[0]))
    if not unicodedata.is_normalized("NFC", text):
        return encoded[0]  # a model would write it back composed
    return "".join(
        each
        if unicodedata.category(each)[0] in "LMN" and not _IGNORABLE.match(each)
        else quote_segment(each)
        for each in text
    )
