"""A table of orders, seven columns and about 130 bytes a row, in a database of any engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from resource_server.providers.database.engines.factory import engine_name
from tests.providers.database.owners import owner_of

FIRST = 10_000_001
"""The first key: all have one width, so that pages differ in nothing but their place."""

_TABLE = """CREATE TABLE orders (id integer PRIMARY KEY, customer varchar(40) NOT NULL,
email varchar(80) NOT NULL, status varchar(20) NOT NULL, total double precision NOT NULL,
created_at {datetime} NOT NULL, note varchar(200))"""

_FILL = """INSERT INTO orders SELECT n, 'Customer ' || (10000 + n % 50000),
'customer' || (10000 + n % 50000) || '@example.org',
CASE n % 4 WHEN 0 THEN 'open' WHEN 1 THEN 'paid' WHEN 2 THEN 'sent' ELSE 'back' END,
1000.25 + n % 9000, {time}, 'A note of some words about order number ' || n FROM {numbers}"""


class _Dialect(NamedTuple):
    """What engines write each in its own way."""

    datetime: str
    time: str
    numbers: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    schema: str = ""


_DIALECTS: Mapping[str, _Dialect] = {
    "sqlite": _Dialect(
        "text",
        "datetime(1700000000 + n, 'unixepoch')",
        "(WITH RECURSIVE numbers(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers"
        " WHERE n < {last}) SELECT n FROM numbers)",
        before=("PRAGMA journal_mode = off", "PRAGMA synchronous = off"),
    ),
    "postgresql": _Dialect(
        "timestamp",
        "to_timestamp(1700000000 + n)",
        "generate_series({first}, {last}) AS numbers(n)",
        # Else whoever is the first to read a page has to write it as well.
        after=("VACUUM ANALYZE orders",),
        schema="public/",
    ),
    "duckdb": _Dialect(
        "timestamp",
        "to_timestamp(1700000000 + n)",
        "generate_series({first}, {last}) AS numbers(n)",
        schema="main/",
    ),
    # Of MariaDB alone: MySQL has no tables of numbers.
    "mysql": _Dialect(
        "datetime",
        "from_unixtime(1700000000 + n)",
        "(SELECT seq AS n FROM seq_{first}_to_{last}) AS numbers",
        before=("SET sql_mode = 'PIPES_AS_CONCAT'",),
        after=("ANALYZE TABLE orders",),
    ),
}


def make(url: str, count: int) -> None:
    """Make so many orders in a database that has none."""
    dialect = _DIALECTS[engine_name(url)]
    numbers = dialect.numbers.format(first=FIRST, last=FIRST + count - 1)
    run(
        url,
        *dialect.before,
        _TABLE.format(datetime=dialect.datetime),
        _FILL.format(time=dialect.time, numbers=numbers),
        *dialect.after,
    )


def manifest(folder: Path, url: str, **options: object) -> Path:
    """Write a manifest that serves a database, with options of it; return where it is."""
    path = folder / f"{engine_name(url)}{len(list(folder.iterdir()))}.yaml"
    # JSON is YAML.
    path.write_text(json.dumps({"version": 1, "databases": {"shop": {"url": url, **options}}}))
    return path


def base(url: str) -> str:
    """Return what URIs of tables begin with, as such a manifest gives them."""
    engine = engine_name(url)
    return f"{engine}://shop/{_DIALECTS[engine].schema}"


def run(url: str, *statements: str) -> None:
    """Run statements as the owner of a database, on one connection."""

    async def on_one_connection() -> None:
        async with owner_of(url) as owner:
            await owner.run(*statements)

    asyncio.run(on_one_connection())
