"""Values that the driver would change, read from their texts."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import duckdb

from resource_server.providers.database.engines.duckdb.value_readers import reader
from tests.cases import for_each


def read(expression: str) -> object:
    """Return the value of an expression, as a cell is read."""
    with duckdb.connect() as connection:
        connection.execute(f"create table t as select {expression} as c")
        ((type,),) = connection.execute("select typeof(c) from t").fetchall()
        found = reader(type)
        shown = "c" if found is None else found.select("c")
        ((value,),) = connection.execute(f"select {shown} from t").fetchall()
    return value if found is None else found.read(value)


@for_each(
    ("expression", "expected"),
    [
        ("interval '14 months 1 day'", "1 year 2 months 1 day"),
        ("date '2026-01-31'", date(2026, 1, 31)),
        ("date 'infinity'", "infinity"),
        ("date '0044-03-15 (BC)'", "0044-03-15 (BC)"),
        ("time '12:30:00.5'", time(12, 30, 0, 500_000)),
        ("time '24:00:00'", "24:00:00"),
        ("timestamp '2026-01-31 12:00:00'", datetime(2026, 1, 31, 12)),  # noqa: DTZ001
        ("timestamp '-infinity'", "-infinity"),
        ("timestamp_ns '2026-01-31 12:00:00.123456789'", "2026-01-31 12:00:00.123456789"),
        ("timestamptz '2026-01-31 12:00:00+02'", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("1.1::float", 1.1),
        ("'0101'::bit", "0101"),
        ("[date 'infinity', null]", ["infinity", None]),
        ("{'a': interval '1 month'}", {"a": "1 month"}),
        ("map {'k': 1}", {"k": 1}),
        ("['[1]'::json]", "[[1]]"),
        ("'[1.50]'::json", "[1.50]"),
        ("'JSON'::enum('JSON')", "JSON"),
        ("'TIME'::enum('TIME')", "TIME"),
        ("'2026-01-31'", "2026-01-31"),
    ],
)
def test_a_value_is_read_as_duckdb_has_it(expression: str, expected: object) -> None:
    value = read(expression)
    assert (type(value), value) == (type(expected), expected)
