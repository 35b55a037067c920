"""Dates, times and intervals of PostgreSQL."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from tests.providers.database import postgres_databases
from tests.providers.database.postgres_databases import rows

asyncpg: Any = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.anyio

database, engine = postgres_databases.database, postgres_databases.engine


async def test_times_outside_of_pythons_range_are_text(engine: PostgresEngine) -> None:
    found = await rows(engine, "SELECT d, t, z, c, i, a FROM times ORDER BY id")
    utc = datetime.UTC
    assert found.rows == [
        (
            datetime.date(2026, 11, 20),
            datetime.datetime(2026, 11, 20, 10),  # noqa: DTZ001
            datetime.datetime(2026, 11, 20, 10, 0, 0, 500000, utc),
            datetime.time(10),
            "1 mon 3 days",
            [datetime.datetime(2026, 11, 20, 10, tzinfo=utc), None],
        ),
        (
            "infinity",
            "-infinity",
            "infinity",
            "24:00:00",
            "-1 years -2 mons +3 days -04:05:06.5",
            ["infinity"],
        ),
        (
            "0044-03-15 BC",
            "0044-03-15 12:00:00.25 BC",
            "12026-01-01 00:00:00+00",
            datetime.time(0),
            "00:00:00",
            [],
        ),
    ]


@pytest.mark.parametrize("column", ["d", "t", "z", "c", "i"])
async def test_a_value_read_from_a_row_finds_that_row(engine: PostgresEngine, column: str) -> None:
    found = await rows(engine, f"SELECT id, {column}, {column}::text FROM times ORDER BY id")
    for number, value, text in found.rows:
        again = await rows(engine, f"SELECT id FROM times WHERE {column} = $1", value)
        assert (number,) in again.rows
        if isinstance(value, str):
            assert value == text
