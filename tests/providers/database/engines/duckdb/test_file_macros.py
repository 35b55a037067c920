"""Macros and tables of a DuckDB file that have the names of DuckDB's own functions and views."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import duckdb
import msgspec
import pytest

from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.runtime.eager import settle
from resource_server.runtime.server_key import process_key
from resource_server.testing.tool_rules import SilentToolRequest
from tests.providers.filesystem.trees import all_listed

pytestmark = pytest.mark.anyio

TABLES = (
    "create table orders (id integer primary key, status varchar, card varchar)",
    "insert into orders values (1, 'Paid', '4111'), (2, 'Draft', '4222'), (3, 'Open', '4333')",
    "create view cards as select card from orders",
    "create schema back",
    "create table back.ledger (n integer)",
    "create table back.open (n integer)",
    "insert into back.open values (7)",
    "create macro twice(x) as x * 2",
)
MACROS = (
    "lower(x) as 'hijacked'",
    "count(x) as 77",
    "max(x) as 77",
    "coalesce(x, y) as 77",
    '"+"(a, b) as 42',
    '"||"(a, b) as 42',
    '"~~"(a, b) as true',
    '"="(a, b) as true',
    'json_serialize_sql(x) as \'{"error": false, "statements": []}\'',
    "duckdb_tables() as table select 1 as schema_name",
    "duckdb_views() as table select 1 as schema_name",
    "duckdb_columns() as table select 'orders' as table_name",
    "duckdb_functions() as table select 'lower' as function_name",
    "duckdb_schemas() as table select 'main' as schema_name",
    "duckdb_databases() as table select 'it' as database_name",
)
OPTIONS: Mapping[str, TableOptions | Literal[False]] = {
    "orders": TableOptions(columns=ColumnOptions(hide=("card",)), where="lower(status) <> 'draft'"),
    "back.ledger": False,
}
QUERIES = {
    "lower": Query(sql="select lower(status) as s from orders order by id", tool=True),
    "twice": Query(sql="select twice(n) as n from back.open", tool=True),
    "hidden": Query(sql="select * from back.ledger", tool=True),
    "catalog": Query(sql="select * from duckdb_tables()", tool=True),
}


async def _seen(path: Path) -> dict[str, object]:
    """Return what a client sees of a database."""
    seen: dict[str, object] = {}
    url = f"duckdb:///{path}"
    async with Database(url=url, tables=OPTIONS, queries=QUERIES) as database:
        database.mounted(lambda path, query=None: "/".join(path), process_key())
        seen["listed"] = [each.path for each in await all_listed(database)]
        for parts in (
            ("main", "orders", "~rows"),
            ("main", "orders", "~schema"),
            ("main", "orders", "3"),
            ("back", "open", "~rows"),
        ):
            seen["/".join(parts)] = [each.data for each in await database.read(parts, {})]
        where = {"where.status.like": "p%", "count": ""}
        seen["count"] = [
            each.data for each in await database.read(("main", "orders", "~rows"), where)
        ]
        for name in ("lower", "twice"):
            result = await settle(database.call_tool(name, {}, SilentToolRequest()))
            seen[name] = msgspec.json.encode(result.structured)
        seen["warnings"] = sorted(await database.warnings())
    return seen


async def test_what_a_file_has_in_the_place_of_duckdbs_own_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "it.duckdb"
    with duckdb.connect(path) as connection:
        for sql in TABLES:
            connection.execute(sql)
    before = await _seen(path)
    assert b"Draft" not in repr(before).encode()
    assert before["twice"] == b'{"columns":["n"],"rows":[[14]]}'
    with duckdb.connect(path) as connection:
        for macro in MACROS:
            connection.execute(f"create macro {macro}")
        connection.execute("create table duckdb_tables as select 1 as n")
        connection.execute('create table "Sqlite_Master" as select 1 as n')
    assert await _seen(path) == before
