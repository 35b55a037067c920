"""Pages of rows compared with the driver's own result, in its order and with its values.

`PAGES_SEEDS=100` makes this many random tables per engine, `PAGES_FIRST=7` starts at this seed.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import random
import uuid
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from tests.providers.database.owners import Owner
from tests.providers.database.served import Served, served

pytestmark = pytest.mark.anyio

_FIRST = int(os.environ.get("PAGES_FIRST", "0"))
_SEEDS = int(os.environ.get("PAGES_SEEDS", "4"))
_LIMITS = (1, 7, 100)
_ALPHABET = ("a", "A", "b", "ä", "/", "~", ".", "%", " ", "'", "\\", "5", "-", "😀", "é", "\n", "_")


@dataclass(frozen=True)
class Kind:
    """A column type with a generator of driver values."""

    type: str
    value: Callable[[random.Random], object]


def text(dice: random.Random) -> str:
    return "".join(dice.choices(_ALPHABET, k=dice.randrange(5)))


def integer(dice: random.Random) -> int:
    return dice.choice(
        (dice.randrange(-9, 9), dice.randrange(-(2**63), 2**63), 2**63 - 1, -(2**63))
    )


def small(dice: random.Random) -> int:
    return dice.randrange(5)


def real(dice: random.Random) -> float:
    return dice.choice((0.0, 0.1, -1.5, 1e300, 5e-324, float(dice.randrange(99)), dice.random()))


def data(dice: random.Random) -> bytes:
    return dice.randbytes(dice.randrange(4))


def decimal(dice: random.Random) -> Decimal:
    return Decimal(dice.randrange(-(10**9), 10**9)).scaleb(-dice.randrange(4))


def day(dice: random.Random) -> datetime.date:
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=dice.randrange(-200_000, 200_000))


def moment(dice: random.Random) -> datetime.datetime:
    seconds = datetime.timedelta(seconds=dice.randrange(10**9), microseconds=dice.choice((0, 5)))
    return datetime.datetime(1999, 1, 1) + seconds  # noqa: DTZ001 - the column has no zone


def instant(dice: random.Random) -> datetime.datetime:
    return moment(dice).replace(tzinfo=datetime.UTC)


def clock(dice: random.Random) -> datetime.time:
    return datetime.time(dice.randrange(24), dice.randrange(60), microsecond=dice.choice((0, 5)))


def span(dice: random.Random) -> datetime.timedelta:
    return datetime.timedelta(seconds=dice.randrange(-3_000_000, 3_000_000))


def identifier(dice: random.Random) -> uuid.UUID:
    return uuid.UUID(int=dice.getrandbits(128))


def address(dice: random.Random) -> object:
    return ipaddress.ip_address(dice.randbytes(dice.choice((4, 16))))


def mood(dice: random.Random) -> str:
    # Ordered by the type, not alphabetically.
    return dice.choice(("sad", "ok", "happy", "a/b"))


KINDS: dict[str, dict[str, Kind]] = {
    "sqlite": {
        "integer": Kind("integer", integer),
        "text": Kind("text", text),
        "any case": Kind("text collate nocase", text),
        "real": Kind("real", real),
        "blob": Kind("blob", data),
        "anything": Kind("", lambda dice: dice.choice((integer, text, real, data))(dice)),
        "date": Kind("date", lambda dice: day(dice).isoformat()),
        "timestamp": Kind("timestamp", lambda dice: moment(dice).isoformat(" ")),
        "decimal": Kind("decimal(14, 3)", lambda dice: str(decimal(dice))),
        "boolean": Kind("boolean", lambda dice: dice.randrange(2)),
    },
    "postgresql": {
        "integer": Kind("bigint", integer),
        "text": Kind("text", text),
        "text in C": Kind('text collate "C"', text),
        "padded": Kind("char(5)", text),
        "real": Kind("double precision", real),
        "single": Kind("float4", lambda dice: dice.choice((0.1, 0.5, float(dice.randrange(99))))),
        "bytes": Kind("bytea", data),
        "date": Kind("date", day),
        "timestamp": Kind("timestamp", moment),
        "instant": Kind("timestamptz", instant),
        "time": Kind("time", clock),
        "decimal": Kind("numeric", decimal),
        "scaled": Kind("numeric(14, 3)", decimal),
        "uuid": Kind("uuid", identifier),
        "address": Kind("inet", address),
        "boolean": Kind("boolean", lambda dice: dice.random() < 0.5),
        "enumeration": Kind("mood", mood),
    },
    "duckdb": {
        "integer": Kind("bigint", integer),
        "unsigned": Kind("ubigint", lambda dice: dice.choice((small, _unsigned))(dice)),
        "huge": Kind("hugeint", lambda dice: dice.choice((small, _unsigned))(dice) * 3**20),
        "text": Kind("varchar", text),
        "real": Kind("double", real),
        "bytes": Kind("blob", data),
        "date": Kind("date", day),
        "timestamp": Kind("timestamp", moment),
        "decimal": Kind("decimal(20, 3)", decimal),
        "uuid": Kind("uuid", identifier),
        "boolean": Kind("boolean", lambda dice: dice.random() < 0.5),
        "enumeration": Kind("enum('sad', 'ok', 'happy', 'a/b')", mood),
    },
    "mariadb": {
        "integer": Kind("bigint", integer),
        "unsigned": Kind("bigint unsigned", lambda dice: dice.choice((small, _unsigned))(dice)),
        "text": Kind("varchar(9) collate utf8mb4_nopad_bin", text),
        "any case": Kind("varchar(9) collate utf8mb4_general_ci", text),
        "padded": Kind("char(9) collate utf8mb4_bin", text),
        "real": Kind("double", real),
        "single": Kind("float", lambda dice: dice.choice((0.1, 0.5, float(dice.randrange(99))))),
        "bytes": Kind("varbinary(9)", data),
        "date": Kind("date", day),
        "timestamp": Kind("datetime(6)", moment),
        "time": Kind("time", span),
        "decimal": Kind("decimal(20, 3)", decimal),
        "uuid": Kind("uuid", lambda dice: str(identifier(dice))),
        "boolean": Kind("boolean", lambda dice: dice.random() < 0.5),
        "enumeration": Kind("enum('sad', 'ok', 'happy', 'a/b')", mood),
        "members": Kind("set('z', 'y', 'x')", lambda dice: dice.choice(("", "x", "y", "z,x"))),
        "year": Kind("year", lambda dice: dice.randrange(1901, 2156)),
        "bits": Kind("bit(9)", lambda dice: dice.randrange(512)),
        "address": Kind("inet6", lambda dice: str(ipaddress.IPv6Address(dice.randbytes(16)))),
    },
}

FEW = Kind("integer", small)
"""Few values, so that keys of several columns share prefixes."""


def _unsigned(dice: random.Random) -> int:
    return dice.getrandbits(64)


def form(value: object, declared: str) -> object:
    """Return the documented JSON form of a driver's value."""
    match value:
        case bytes() if declared.startswith("bit("):
            return int.from_bytes(value, "big")
        case bytes():
            return {"$blob": b64encode(value).decode(), "bytes": len(value)}
        case int() if declared == "boolean":
            return bool(value)
        case int() if abs(value) >= 2**53:
            return str(value)
        case float() if declared == "float4":
            # As PostgreSQL writes it; the driver widens it to double precision.
            return float(f"{value:.6g}")
        case None | int() | float() | str():
            return value
        case datetime.date() | datetime.time():
            return value.isoformat().replace("+00:00", "Z")
        case datetime.timedelta():
            seconds = abs(value) // datetime.timedelta(seconds=1)
            written = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            return f"-{written}" if value < datetime.timedelta(0) else written
        case Decimal():
            return format(value, "f")
        case _:
            return str(value)


async def make(
    owner: Owner, dice: random.Random, keys: Sequence[Kind], values: Sequence[Kind], count: int
) -> list[dict[str, Any]]:
    """Create a table with at most this many rows; return the rows that its owner selects."""
    if owner.engine == "postgresql":
        await owner.run("create type mood as enum ('sad', 'ok', 'happy', 'a/b')")
    key = [f"k{place}" for place in range(len(keys))]
    other = [f"v{place}" for place in range(len(values))]
    declared = [f"{name} {kind.type} not null" for name, kind in zip(key, keys, strict=True)]
    declared += [f"{name} {kind.type}" for name, kind in zip(other, values, strict=True)]
    named = ", ".join(key)
    await owner.run(f"create table t ({', '.join(declared)}, primary key ({named}))")
    rows: list[list[object]] = []
    for _ in range(count):
        row = [kind.value(dice) for kind in keys]
        row += [None if dice.random() < 0.2 else kind.value(dice) for kind in values]
        rows.append(row)
    await owner.insert("t", *rows)
    types = [kind.type for kind in (*keys, *values)]
    return [
        {name: form(*each) for name, *each in zip((*key, *other), row, types, strict=True)}
        for row in await owner.rows(f"select * from t order by {named}")
    ]


async def agrees(it: Served, expected: Sequence[Mapping[str, Any]]) -> None:
    """Assert that pages of every size and single rows are as expected."""
    for limit in _LIMITS:
        pages = await it.pages(f"t/~rows?limit={limit}")
        assert [row for page in pages for row in page] == expected, f"pages of {limit}"
        assert all(len(page) == limit for page in pages[:-1]), f"pages of {limit}"
    depth = sum(name.startswith("k") for name in expected[0]) if expected else 1
    paths = ["t"]
    for _ in range(depth):
        paths = [below for path in paths for below in await it.rows(path)]
    assert [await it.json(path) for path in paths] == expected
    for path in paths:
        assert (await it.entry(path)).uri == it.base + path


NO_KEYS = {
    ("duckdb", "enumeration"),
    ("mariadb", "members"),
    ("mariadb", "single"),
    ("mariadb", "bits"),
}
"""Types whose values, bound again, do not match or order differently."""


def _types() -> list[Any]:
    return [
        (engine, name)
        for engine, kinds in KINDS.items()
        for name in kinds
        if (engine, name) not in NO_KEYS
    ]


@pytest.mark.parametrize(("url", "kind"), _types(), indirect=["url"])
async def test_pages_by_a_key_of_each_type_equal_a_direct_select(owner: Owner, kind: str) -> None:
    dice = random.Random(kind)  # noqa: S311 - a test table, no secret
    kinds = KINDS[owner.engine]
    expected = await make(owner, dice, [kinds[kind]], [kinds[kind]], 60)
    async with served(owner, page_size=50) as it:
        await agrees(it, expected)


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
async def test_pages_by_random_keys_equal_a_direct_select(owner: Owner, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - a test table, no secret
    kinds = [
        kind for name, kind in KINDS[owner.engine].items() if (owner.engine, name) not in NO_KEYS
    ]
    keys = [dice.choice((FEW, dice.choice(kinds))) for _ in range(dice.randrange(1, 4))]
    expected = await make(owner, dice, keys, dice.choices(kinds, k=3), dice.choice((0, 30, 150)))
    async with served(owner, page_size=dice.choice((3, 100))) as it:
        await agrees(it, expected)
