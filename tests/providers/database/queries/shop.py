"""A shop with hidden data, and queries of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from resource_server.errors import InvalidParameter
from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from resource_server.providers.database.provider import Database
from tests.providers.database.owners import Owner
from tests.providers.database.served import served

SHOP = (
    "create table orders (id integer primary key, customer integer, total integer,"
    " status varchar(9), card varchar(9), mail varchar(9))",
    "insert into orders values (1, 1, 5, 'sent', 'c@1', 'm@1'), (3, 2, 7, '10%', 'c@3', 'm@3'),"
    " (88, 1, 8876, 'draft', 'c@88', 'm@88')",
    "create table customers (id integer primary key, name varchar(9))",
    "insert into customers values (1, 'Ann'), (2, 'Bo')",
    "create table audit (id integer primary key, line varchar(9))",
    "insert into audit values (1, 'l@1')",
    "create view recent as select id, card from orders",
)
RESTRICTED: Mapping[str, Any] = {
    "orders": TableOptions(
        columns=ColumnOptions(hide=("card",), mask={"mail": "hash"}), where="status <> 'draft'"
    ),
    "audit": False,
}
CONSENTED: Mapping[str, Any] = {**RESTRICTED, "recent": TableOptions(expose=True)}
"""With all that the view shows, hidden or not."""


def secrets(rows: object) -> bool:
    """Return whether rows contain hidden data: draft orders, cards, mail or audit entries."""
    # No mask has an 8: it is in base 32.
    return "@" in str(rows) or "88" in str(rows)


def spelled(sql: str, owner: Owner) -> str:
    """Return a statement for an engine; {s} is the schema, {o} the quoted name `orders`."""
    schema = {"sqlite": "main", "postgresql": "public", "duckdb": "main"}.get(owner.engine)
    return sql.format(
        s=schema or owner.url.rpartition("/")[2],
        o=owner.quoted("orders"),
        d=owner.url.rpartition("/")[2],
    )


async def answer(owner: Owner, sql: str, tables: Mapping[str, Any]) -> Any:
    """Return the rows of a query, or None if it is refused."""
    queries = {"q": Query(sql=spelled(sql, owner))}
    async with served(owner, tables=tables, queries=queries) as it:
        with suppress(InvalidParameter):
            return await it.query("q")
        return None


async def refusals(owner: Owner, sql: str, tables: Mapping[str, Any]) -> list[str]:
    """Return the warnings of `check` about a query."""
    queries = {"q": Query(sql=spelled(sql, owner))}
    async with Database(url=owner.url, tables=tables, queries=queries) as database:
        found = await database.warnings()
    assert {option for option, _ in found if option} <= {"queries.q.sql"}
    return [message for option, message in found if option]
