"""Masks of values: what stands in their place, the same on every engine."""

from __future__ import annotations

import base64
from decimal import Decimal
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeAlias

MaskKind: TypeAlias = Literal["hash", "redact", "last4"]

REDACTED: Final = "***"
_HASH_CHARACTERS: Final = 12
_SHOWN: Final = 4


class Masker(NamedTuple):
    """Masks values of the driver.

    `hash`: twelve characters of base32, the same for equal values. `redact`: a constant. `last4`:
    the last four characters of texts and numbers with at least eight.
    """

    kind: MaskKind
    key: bytes
    """Key of `hash`."""

    def __call__(self, value: object) -> str | None:
        """Return the masked value; NULL stays NULL."""
        if value is None:
            return None
        match self.kind:
            case "hash":
                return _hash(value, self.key)
            case "redact":
                return REDACTED
            case "last4":
                return _last4(value)


def _last4(value: object) -> str:
    shown = isinstance(value, str | int | Decimal) and not isinstance(value, bool)
    text = str(value) if shown else ""
    return f"…{text[-_SHOWN:]}" if len(text) >= 2 * _SHOWN else REDACTED


def _hash(value: object, key: bytes) -> str:
    digest = blake2b(_canonical(value), key=key, digest_size=10).digest()
    return base64.b32encode(digest)[:_HASH_CHARACTERS].decode("ascii").lower()


def _canonical(value: object) -> bytes:
    """Return the same bytes for values that a database considers equal, whatever their class."""
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
