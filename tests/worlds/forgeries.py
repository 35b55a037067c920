"""Forged cursors and addresses: ones that no server gave, made from those that it gave."""

from __future__ import annotations

import math
import random
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, cast

import msgspec

SEGMENTS = (
    *("~n", "~tacc", "~t", "~ta~2Fb", "~tx~00y", "~t~", "~tx~ff", "~i5", "~i"),
    *("~i99999999999999999999",),
    *("~rinf", "~r-inf", "~rnan", "~r5.5", "~r1e999", "~r1e-999", "~r-0.0", "~b", "~bAP8", "~bA"),
    *("~b==",),
    *("~rows", "~schema", "~cell", "~query", "~", "~~", "~z", "0", "00", "-0", "5", "05", "+5"),
    *("5.0", "5.5"),
    *("1e3", "1e999", "NaN", "nan", "inf", "Infinity", "-Infinity", "infinity", "true", "false"),
    *("t", "f"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616"),
    *("2026-11-20", "2026-02-30", "0000-00-00", "10000-01-01", "-0001-01-01"),
    *("2026-11-20T10:00:00",),
    *("2026-11-20T10:00:00Z", "2026-11-20 10:00", "9999-12-31T23:59:59+23:59", "10:00", "25:00"),
    *("24:00:00",),
    *("10:00:00+15:59:59", "10:00:00Z", "838:59:59", "-838:59:59", "999:59:59", "10:00:60"),
    *("0001-01-01T00:00:00Z",),
    *("00000000-0000-0000-0000-000000000000", "123e4567-E89B-12d3-a456-426614174000", "x" * 4000),
    *("5" * 400,),
    *("a", "A", "a ", "ä", "a\u0308", "'", '"', "\\", "%", "%(k0)s", "{}", "[]", "null"),
    *("10.0.0.1", "::1"),
    *("10.0.0.0/8", "(0,1)", "\x01", "\x7f", "\ufffe", "\U0010ffff", "\u202e", "1" * 60),
    *("0." + "0" * 60 + "1",),
)
"""Segments that look like keys of other types, and ones that look like nothing."""

_BYTES = (
    *(b"", b"0", b"1", b"-1", b"5", b"true", b"NaN", b"nan", b"Infinity", b"-Infinity", b"sNaN"),
    *(b"inf",),
    *(b"9223372036854775808", b"-9223372036854775809", b"9" * 80, b"1E+5000", b"1E-5000"),
    *(b"0E+6144",),
    *(b"2026-11-20", b"9999-12-31", b"0001-01-01", b"2026-11-20T10:00:00"),
    *(b"9999-12-31T23:59:59.999999",),
    *(b"0001-01-01T00:00:00+23:59", b"10:00:00", b"10:00:00+00:00", b"23:59:59.999999-23:59"),
    *(b"86400000000",),
    *(b"-1", b"a", b"\xff", b"\xed\xa0\x80", b"\0", b"a\0b", b"x" * 5000, b"\x00" * 16),
    *(b"\xff" * 16,),
    *map(struct.Struct(">d").pack, (math.inf, -math.inf, math.nan, -0.0, 1e300, 5.5)),
)
_LEAVES: tuple[object, ...] = (
    *(None, True, False, 0, 1, -1, 2**63, -(2**63), 2**64 - 1, 0.5, math.inf, math.nan),
    *(-0.0,),
    *("", "a", "i", "r", "t", "b", "d", "s", "y", "h", "l", "u", "o", "n", "x", [], {}),
    *(["t", b"a"],),
)


def forged_cursor(cursor: str, chance: random.Random) -> str:
    """Return a cursor like this one: with other bytes, or other values in the same packing."""
    try:
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        packed = msgspec.msgpack.decode(data)
    except ValueError:
        packed, data = None, cursor.encode()
    way = chance.random()
    if packed is None or way < 0.15:
        changed = bytearray(data or b"x")
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        return _text(bytes(changed))
    if way < 0.2:
        return _text(data[: chance.randrange(len(data))])
    for _ in range(chance.choice((1, 1, 2))):
        packed = _forged(packed, chance)
    try:
        return _text(msgspec.msgpack.encode(packed))
    except (ValueError, OverflowError):
        return cursor


def _forged(value: Any, chance: random.Random, depth: int = 0) -> Any:
    """Return a packed value with one leaf replaced; deep ones are the values of keys."""
    if isinstance(value, list) and value:
        value = cast("list[Any]", value)
        place = (
            len(value) - 1 if depth == 0 and chance.random() < 0.8 else chance.randrange(len(value))
        )
        changed = list(value)
        changed[place] = _forged(value[place], chance, depth + 1)
        return changed
    if isinstance(value, bytes) and chance.random() < 0.9:
        return chance.choice((*_BYTES, *(segment.encode(errors="replace") for segment in SEGMENTS)))
    if isinstance(value, str) and len(value) == 1 and chance.random() < 0.9:
        return chance.choice("oirtbdsyhluncx")
    return chance.choice((*_LEAVES, *_BYTES, *SEGMENTS))


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
