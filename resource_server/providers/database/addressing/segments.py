"""Path segments of texts and bytes: one canonical spelling that every URI can carry.

| form | value |
|---|---|
| `abc` | text that can stand alone: not empty, no dot segment, no `/` or NUL, no `~` in front |
| `~tabc`, `~ta~2Fb`, `~t` | any text; `~`, `/` and NUL become `~HH`; `~t` is the empty text |
| `~bAP8` | bytes, as base64url without padding |

Text that is not UTF-8 carries its bytes as lone surrogates (`surrogateescape`) on both sides. Case
and Unicode normal forms are preserved.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from resource_server import uris
from resource_server.errors import ResourceNotFound

MAX_LENGTH = uris.MAX_URI_LENGTH - 1024
"""Maximum characters of a percent-encoded key or path; leaves room for the base and a query."""

SHORT = MAX_LENGTH // 12
"""Characters that fit in any case: each may be four bytes, written `%HH`."""

_BASE64 = re.compile(r"[A-Za-z0-9_-]*")
_ESCAPE = re.compile(rb"~(?:([0-9A-Fa-f]{2})|)")


def decode_text(segment: str) -> str:
    """Return the text of a segment: the segment itself, or the content of its `~t` form.

    Raises:
        ResourceNotFound: the segment has another typed form, or cannot occur in a URI.
    """
    tag, body = split(segment)
    if tag not in ("", "t"):
        raise ResourceNotFound
    try:
        return untyped_text(body) if tag else body
    except ValueError:
        raise ResourceNotFound from None


def split(segment: str) -> tuple[str, str]:
    """Return the tag of a segment's typed form, empty for plain text, and the rest.

    Raises:
        ResourceNotFound: the segment cannot occur in a URI.
    """
    try:
        uris.check_text(segment)
    except ValueError:
        raise ResourceNotFound from None
    if not uris.is_segment(segment) or segment == "~":
        raise ResourceNotFound
    return ("", segment) if segment[0] != "~" else (segment[1], segment[2:])


def untyped_text(body: str) -> str:
    """Return the text of a `~t` form.

    Raises:
        ValueError: a `~` in it begins no escape.
    """
    if "~" not in body:
        return body

    def byte(found: re.Match[bytes]) -> bytes:
        # A bare `~` is no escape, and `bytes.fromhex` would not raise for it.
        if found[1] is None:
            raise ValueError
        return bytes.fromhex(found[1].decode())

    data = _ESCAPE.sub(byte, body.encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "surrogateescape")


def encode_bytes(data: bytes) -> str:
    """Return the canonical segment of bytes."""
    return "~b" + base64url(data)


def decode_bytes(body: str) -> bytes:
    """Return the bytes of a `~b` form.

    Raises:
        ValueError: it is not base64url without padding.
    """
    if not _BASE64.fullmatch(body):
        raise ValueError
    return urlsafe_b64decode(body + "=" * (-len(body) % 4))


def base64url(data: bytes) -> str:
    """Return bytes as base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def fits_uri(path: str) -> bool:
    """Return whether a segment, or segments with their slashes, can be part of a URI."""
    if len(path) <= SHORT:
        return True
    quoted = "/".join(map(uris.quote_segment, path.split("/")))
    return len(quoted) <= MAX_LENGTH
