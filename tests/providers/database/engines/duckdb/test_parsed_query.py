"""Errors of callers' statements on DuckDB."""

from __future__ import annotations

import duckdb
import pytest

from resource_server.providers.database.engines.duckdb.parsed_query import refusal
from tests.cases import for_each

TABLES = "create table orders as select 1 as id, 'paid' as status"


@for_each(
    ("sql", "message", "table", "column"),
    [
        ("select * from ordrs", "no such table: ordrs", "ordrs", None),
        ("select crd from orders", "no such column: crd", None, "crd"),
        ("select o.crd from orders o", "no such column: crd", None, "crd"),
        ("select nothing(1)", "no such function or type: nothing", None, None),
        ("select null::nothing", "no such function or type: nothing", None, None),
        (
            "select status::tinyint from orders",
            "Could not convert string 'paid' to INT8 when casting from source column status",
            None,
            None,
        ),
        ("select error('/folder/it.duckdb is odd')", "", None, None),
        (f"select error('{'x' * 1000}')", "x" * 300, None, None),
    ],
)
def test_a_refusal_is_one_line_without_paths(
    sql: str, message: str, table: str | None, column: str | None
) -> None:
    with duckdb.connect() as connection:
        connection.execute(TABLES)
        with pytest.raises(duckdb.Error) as error:
            connection.execute(sql).fetchall()
    found = refusal(5, error.value, ["/folder/it.duckdb"])
    assert (found.message, found.table, found.column) == (message, table, column)
