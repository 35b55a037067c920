"""Cursors of listings and searches: opaque text that needs no memory on the server.

A cursor holds the listing it belongs to and the last item returned, so it survives restarts and
changes. It is not signed: a forged one gives access to nothing more than the listing itself.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Annotated, TypeVar

import msgspec

from resource_server import uris
from resource_server.errors import InvalidParameter
from resource_server.provider import Path

_VERSION = 2
_MAX_LENGTH = 32 * 1024
"""Maximum characters of a cursor of a listing."""
_MAX_PACKED_LENGTH = 256 * 1024
"""Maximum characters of a cursor made by `pack`."""
INVALID = "cursor is not one that this listing gave; begin again without a cursor"

T = TypeVar("T", bound=msgspec.Struct)
Item = TypeVar("Item")


class ListingState(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How far the global listing has come, besides its last item."""

    listed: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Resources on all pages so far."""
    is_at_documents: bool = False
    """Whether the collections of the item's level are listed, and its documents follow."""
    has_collections: bool = False
    """Whether any collection of the item's level was listed, so that there is a next level."""
    without: tuple[str, ...] = ()
    """Mounts that have failed, and are left out of the following pages."""


class ListCursor(msgspec.Struct, frozen=True):
    """The last item of a page: `path` in `mount`, of the listing that `scope` names."""

    scope: str
    mount: str
    path: Path
    state: ListingState = ListingState()

    def encode(self) -> str:
        """Return the cursor as URL-safe text."""
        path = tuple(segment.encode("utf-8", "surrogateescape") for segment in self.path)
        wire = _PackedCursor(_VERSION, _digest(self.scope), self.mount, path, self.state)
        return _to_text(msgspec.msgpack.encode(wire))

    @staticmethod
    def decode(text: str, *, scope: str) -> ListCursor:
        """Return the cursor that `encode` made `text` of.

        Raises:
            InvalidParameter: not a cursor, or that of another listing.
        """
        try:
            wire = _decoder.decode(_from_text(text, _MAX_LENGTH))
        except ValueError:
            raise InvalidParameter(INVALID) from None
        path = tuple(segment.decode("utf-8", "surrogateescape") for segment in wire.path)
        if (
            wire.version != _VERSION
            or wire.scope != _digest(scope)
            or not all(map(uris.is_segment, path))
        ):
            raise InvalidParameter(INVALID)
        return ListCursor(scope, wire.mount, path, wire.state)


class _PackedCursor(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    scope: bytes
    mount: str
    path: tuple[bytes, ...]
    state: ListingState


class _ItemKey(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    parts: tuple[str, ...]


_decoder = msgspec.msgpack.Decoder(_PackedCursor)


def pack(state: msgspec.Struct, *, scope: str) -> str:
    """Return any state as URL-safe text, valid for the same `scope` only."""
    return _to_text(bytes((_VERSION,)) + _digest(scope) + msgspec.msgpack.encode(state))


def unpack(text: str, type: type[T], *, scope: str) -> T:
    """Return the state that `pack` made `text` of; it may be forged.

    Raises:
        InvalidParameter: not made by `pack`, or for another scope.
    """
    begin = bytes((_VERSION,)) + _digest(scope)
    try:
        packed = _from_text(text, _MAX_PACKED_LENGTH)
        if not packed.startswith(begin):
            raise InvalidParameter(INVALID)
        return msgspec.msgpack.decode(packed[len(begin) :], type=type)
    except ValueError:
        raise InvalidParameter(INVALID) from None


def page(
    items: Sequence[Item],
    key: Callable[[Item], tuple[str, ...]],
    after: str | None,
    *,
    scope: str,
    size: int,
) -> tuple[Sequence[Item], str | None]:
    """Return a page of a list that is known whole, and the next cursor; `key` identifies items.

    Raises:
        InvalidParameter: `after` is no cursor of this list, or its item is gone.
    """
    start = 0
    if after is not None:
        last, keys = unpack(after, _ItemKey, scope=scope).parts, [key(item) for item in items]
        if last not in keys:
            raise InvalidParameter(INVALID)
        start = keys.index(last) + 1
    end = start + size
    if end >= len(items):
        return items[start:], None
    return items[start:end], pack(_ItemKey(key(items[end - 1])), scope=scope)


def _to_text(packed: bytes) -> str:
    return urlsafe_b64encode(packed).rstrip(b"=").decode()


def _from_text(text: str, max_length: int) -> bytes:
    if len(text) > max_length:
        raise InvalidParameter(INVALID)
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))


def _digest(scope: str) -> bytes:
    return blake2b(scope.encode("utf-8", "surrogatepass"), digest_size=6).digest()
