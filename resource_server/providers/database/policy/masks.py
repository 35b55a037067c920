"""What is shown instead of a value that the manifest masks."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from hashlib import blake2b
from typing import TypeAlias

from resource_server.providers.database.options import Mask

REDACTED = "***"
Masker: TypeAlias = Callable[[object], str | None]

_HASH_CHARACTERS = 12
_SHOWN = 4


@cache
def process_key() -> bytes:
    """Return the random key of this process: hashes say nothing to who has not been served by it.

    One for all databases and every state of the manifest, or each reload would change every row.
    """
    return secrets.token_bytes(32)


def masker(mask: Mask, key: bytes) -> Masker:
    """Return what makes of a driver's value the one that is shown; NULL stays NULL.

    `hash`: the same for equal values, twelve characters of base32. `redact`: always the same.
    `last4`: the last four characters, of texts and numbers of which these are at most a half.
    """
    match mask:
        case "hash":
            return lambda value: None if value is None else _hash(value, key)
        case "redact":
            return lambda value: None if value is None else REDACTED
        case "last4":
            return _last4


def _last4(value: object) -> str | None:
    if value is None:
        return None
    shown = isinstance(value, str | int | Decimal) and not isinstance(value, bool)
    text = str(value) if shown else ""
    return f"…{text[-_SHOWN:]}" if len(text) >= 2 * _SHOWN else REDACTED


def _hash(value: object, key: bytes) -> str:
    digest = blake2b(_canonical(value), key=key, digest_size=10).digest()
    return base64.b32encode(digest)[:_HASH_CHARACTERS].decode("ascii").lower()


def _canonical(value: object) -> bytes:
    """Return the same bytes for values that a database holds to be equal, whatever their class."""
    if isinstance(value, bytes | bytearray):
        return b"b" + bytes(value)
    if isinstance(value, int | float | Decimal):
        return b"n" + _number(value).encode()
    return b"t" + str(value).encode("utf-8", "surrogatepass")


def _number(value: float | Decimal) -> str:
    # Not normalize(), which rounds to 28 digits, nor format(), which writes 1e999999 out.
    sign, digits, exponent = Decimal(repr(value) if isinstance(value, float) else value).as_tuple()
    if not isinstance(exponent, int):
        return f"{'-' * sign}{exponent}"
    written = "".join(map(str, digits)).lstrip("0")
    kept = written.rstrip("0")
    return f"{'-' * sign}{kept}e{exponent + len(written) - len(kept)}" if kept else "0"
