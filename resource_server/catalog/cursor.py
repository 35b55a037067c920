"""Cursors: where a listing or search goes on, as opaque text that needs no memory on the server.

A cursor holds what it belongs to and how far that was given, so it survives restarts and changes.
It is not signed: whoever forges one gets what a listing may give anyway.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TypeVar

import msgspec

from resource_server import uris
from resource_server.errors import InvalidParameter
from resource_server.provider import Path

_VERSION = 1
_MAX_LENGTH = 32 * 1024
_MAX_STATE = 256 * 1024
INVALID = "cursor is not one that this listing gave; begin again without a cursor"


T = TypeVar("T", bound=msgspec.Struct)
Item = TypeVar("Item")


class ListCursor(msgspec.Struct, frozen=True):
    """The last item given: `path` in `mount`, of the listing that `scope` names."""

    scope: str
    mount: str
    path: Path


class _Name(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    parts: tuple[str, ...]


class _Wire(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    scope: bytes
    mount: str
    path: tuple[bytes, ...]


_decoder = msgspec.msgpack.Decoder(_Wire)


def encode(cursor: ListCursor) -> str:
    """Return the cursor as URL-safe text."""
    path = tuple(segment.encode("utf-8", "surrogateescape") for segment in cursor.path)
    packed = msgspec.msgpack.encode(_Wire(_VERSION, _digest(cursor.scope), cursor.mount, path))
    return _text(packed)


def decode(text: str, *, scope: str) -> ListCursor:
    """Return the cursor that `text` holds.

    Raises:
        InvalidParameter: not a cursor, or one of another listing.
    """
    try:
        wire = _decoder.decode(_packed(text, _MAX_LENGTH))
    except ValueError:
        raise InvalidParameter(INVALID) from None
    path = tuple(segment.decode("utf-8", "surrogateescape") for segment in wire.path)
    if (
        wire.version != _VERSION
        or wire.scope != _digest(scope)
        or not all(map(uris.is_segment, path))
    ):
        raise InvalidParameter(INVALID)
    return ListCursor(scope, wire.mount, path)


def pack(state: msgspec.Struct, *, scope: str) -> str:
    """Return any state as URL-safe text, for those who ask for the same again."""
    return _text(bytes((_VERSION,)) + _digest(scope) + msgspec.msgpack.encode(state))


def unpack(text: str, type: type[T], *, scope: str) -> T:
    """Return the state that `text` holds; what it says may be forged.

    Raises:
        InvalidParameter: not what `pack` made, or of another scope.
    """
    begin = bytes((_VERSION,)) + _digest(scope)
    try:
        packed = _packed(text, _MAX_STATE)
        if not packed.startswith(begin):
            raise InvalidParameter(INVALID)
        return msgspec.msgpack.decode(packed[len(begin) :], type=type)
    except ValueError:
        raise InvalidParameter(INVALID) from None


def page(
    items: Sequence[Item],
    named: Callable[[Item], tuple[str, ...]],
    after: str | None,
    *,
    scope: str,
    size: int,
) -> tuple[Sequence[Item], str | None]:
    """Return a page of what is known whole, and the cursor of the next; `named` tells items apart.

    Raises:
        InvalidParameter: `after` is no cursor of this listing, or of what is not in it any more.
    """
    start = 0
    if after:
        last, names = unpack(after, _Name, scope=scope).parts, [named(item) for item in items]
        if last not in names:
            raise InvalidParameter(INVALID)
        start = names.index(last) + 1
    end = start + size
    if end >= len(items):
        return items[start:], None
    return items[start:end], pack(_Name(named(items[end - 1])), scope=scope)


def _text(packed: bytes) -> str:
    return urlsafe_b64encode(packed).rstrip(b"=").decode()


def _packed(text: str, most: int) -> bytes:
    if len(text) > most:
        raise InvalidParameter(INVALID)
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))


def _digest(scope: str) -> bytes:
    return blake2b(scope.encode("utf-8", "surrogatepass"), digest_size=6).digest()
