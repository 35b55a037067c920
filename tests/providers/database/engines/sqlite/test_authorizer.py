from __future__ import annotations

import pathlib

import pytest

from resource_server.errors import InvalidParameter, ResourceNotFound
from tests.providers.database.sqlite_databases import opened, queried, reflected, rows, write

pytestmark = pytest.mark.anyio

SHOP = """
CREATE TABLE orders(id INTEGER PRIMARY KEY, total, card_number, UNIQUE (card_number));
INSERT INTO orders VALUES (1, 5, '4111');
CREATE TABLE audit(line); INSERT INTO audit VALUES ('secret');
CREATE VIEW everything AS SELECT * FROM orders;
CREATE VIEW totals AS SELECT id, total FROM orders;
CREATE VIEW audited AS SELECT count(*) AS lines FROM audit;
CREATE VIRTUAL TABLE docs USING fts5(title, body);
INSERT INTO docs VALUES ('title', 'secret');
CREATE VIRTUAL TABLE words USING fts5vocab(docs, row);
CREATE VIRTUAL TABLE notes USING fts5(body);
INSERT INTO notes VALUES ('plain');
CREATE VIRTUAL TABLE plain_words USING fts5vocab(notes, row);
CREATE TABLE json_each(secret); INSERT INTO json_each VALUES ('secret');
"""
HIDDEN = {("orders", "card_number"), ("audit", None), ("docs", None), ("json_each", None)}


def readable(
    table: str, column: str, *, in_query: bool = False, through: str | None = None
) -> bool:
    return (table, None) not in HIDDEN and (table, column) not in HIDDEN


def readable_through_views(
    table: str, column: str, *, in_query: bool = False, through: str | None = None
) -> bool:
    return not in_query or through is not None or readable(table, column)


SECRETS = """
SELECT card_number FROM orders
SELECT * FROM orders
SELECT o.CARD_NUMBER FROM ORDERS AS o
SELECT id FROM orders WHERE card_number > '4'
SELECT id FROM orders ORDER BY card_number
SELECT count(card_number) FROM orders
SELECT id FROM orders GROUP BY card_number
SELECT max(total) FILTER (WHERE card_number = '4111') FROM orders
SELECT id, rank() OVER (ORDER BY card_number) FROM orders
SELECT (SELECT card_number FROM orders)
SELECT EXISTS (SELECT 1 FROM orders WHERE card_number LIKE '4%')
WITH x AS (SELECT * FROM orders) SELECT id FROM x WHERE card_number = '4111'
SELECT * FROM everything
SELECT card_number FROM everything
SELECT id FROM everything
SELECT id FROM orders UNION SELECT card_number FROM orders
SELECT * FROM audit
SELECT count(*) FROM audit
SELECT count(*) FROM AUDIT
SELECT count(*) FROM main.audit
SELECT rowid FROM audit
SELECT 1 FROM audit
SELECT lines FROM audited
SELECT 1 FROM orders, audit
SELECT * FROM docs
SELECT count(*) FROM docs
SELECT * FROM docs WHERE docs MATCH 'secret'
SELECT rowid FROM docs('secret')
SELECT c0 FROM docs_content
SELECT * FROM words
SELECT * FROM json_each
SELECT secret FROM json_each
""".strip().splitlines()

PUBLIC = """
SELECT id, total FROM orders
SELECT total AS card_number FROM orders
SELECT count(*) FROM orders
SELECT count(*) FROM ORDERS
SELECT rowid FROM orders
SELECT 1 FROM orders
SELECT * FROM totals
SELECT count(*) FROM totals
SELECT 'card_number'
WITH audit_ AS (SELECT 1) SELECT count(*) FROM audit_
SELECT * FROM notes
SELECT * FROM notes WHERE notes MATCH 'plain'
SELECT term FROM plain_words
SELECT * FROM json_tree('[1]')
""".strip().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("sql", SECRETS)
async def test_no_query_reads_hidden_columns(tmp_path: pathlib.Path, sql: str) -> None:
    async with opened(write(tmp_path / "shop.db", SHOP), readable) as engine:
        with pytest.raises(InvalidParameter):
            await queried(engine, sql)
        with pytest.raises(ResourceNotFound):
            await rows(engine, sql)


@pytest.mark.slow
@pytest.mark.parametrize("sql", PUBLIC)
async def test_queries_read_visible_columns(tmp_path: pathlib.Path, sql: str) -> None:
    async with opened(write(tmp_path / "shop.db", SHOP), readable) as engine:
        assert len(await queried(engine, sql)) > 0
        assert len(await rows(engine, sql)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("sql", SECRETS)
async def test_the_hidden_columns_exist_without_the_policy(
    tmp_path: pathlib.Path, sql: str
) -> None:
    async with opened(write(tmp_path / "shop.db", SHOP)) as engine:
        if "docs_content" not in sql:
            await queried(engine, sql)


async def test_reflection_includes_hidden_columns(tmp_path: pathlib.Path) -> None:
    async with opened(write(tmp_path / "shop.db", SHOP), readable) as engine:
        assert (await reflected(engine, "orders")).column_names == ("id", "total", "card_number")
        assert (await reflected(engine, "audit")).column_names == ("line",)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT total FROM orders JOIN (SELECT '4111' AS card_number) USING (card_number)",
        "SELECT total FROM orders NATURAL JOIN (SELECT '4111' AS card_number)",
        "SELECT 5 FROM orders NATURAL JOIN (SELECT '4111' AS card_number)",
        "SELECT 5 FROM \"orders\" NATURAL JOIN (SELECT '4111' AS card_number)",
        "WITH x AS (SELECT total FROM orders NATURAL JOIN (SELECT '4111' AS card_number)) "
        "SELECT * FROM x",
        "SELECT (SELECT total FROM orders NATURAL /**/ JOIN (SELECT '4111' AS card_number))",
    ],
)
async def test_no_join_compares_hidden_columns(tmp_path: pathlib.Path, sql: str) -> None:
    path = write(tmp_path / "shop.db", SHOP)
    async with opened(path) as engine:
        assert await queried(engine, sql) == [(5,)]
    async with opened(path, readable) as engine:
        with pytest.raises(InvalidParameter):
            await queried(engine, sql)
        with pytest.raises(ValueError, match="prohibited"):
            await engine.check(sql, ())


async def test_a_view_may_expose_columns_that_are_hidden_elsewhere(tmp_path: pathlib.Path) -> None:
    async with opened(write(tmp_path / "shop.db", SHOP), readable_through_views) as engine:
        assert await queried(engine, "SELECT card_number FROM everything") == [("4111",)]
        assert await queried(engine, "SELECT lines FROM audited") == [(1,)]
        assert await rows(engine, "SELECT card_number FROM orders") == [("4111",)]
        for sql in (
            "SELECT card_number FROM orders",
            "WITH everything AS (SELECT card_number FROM orders) SELECT * FROM everything",
            "WITH audited(a) AS MATERIALIZED (SELECT line FROM audit) SELECT * FROM audited",
        ):
            with pytest.raises(InvalidParameter):
                await queried(engine, sql)


async def test_natural_joins_work_between_tables_without_hidden_columns(
    tmp_path: pathlib.Path,
) -> None:
    more = "CREATE TABLE names(id, name); INSERT INTO names VALUES (1, 'first');"
    async with opened(write(tmp_path / "shop.db", SHOP + more), readable) as engine:
        assert await queried(engine, "SELECT name FROM totals JOIN names USING (id)") == [
            ("first",)
        ]
        assert await queried(engine, "SELECT name FROM names NATURAL JOIN totals") == [("first",)]
