from __future__ import annotations

import pathlib

import pytest

from resource_server.errors import ResourceNotFound
from tests.providers.database.sqlite_databases import opened, reflected, rows, write

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


def readable(table: str, column: str, *, through: str | None = None) -> bool:
    return (table, None) not in HIDDEN and (table, column) not in HIDDEN


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


async def test_no_statement_of_ours_reads_hidden_columns(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", SHOP)
    async with opened(path) as engine:
        for sql in SECRETS:
            assert len(await rows(engine, sql)) > 0, f"is no attempt: {sql}"
    async with opened(path, readable) as engine:
        for sql in SECRETS:
            with pytest.raises(ResourceNotFound):
                await rows(engine, sql)


async def test_statements_of_ours_read_visible_columns(tmp_path: pathlib.Path) -> None:
    async with opened(write(tmp_path / "shop.db", SHOP), readable) as engine:
        for sql in PUBLIC:
            assert len(await rows(engine, sql)) > 0, sql


async def test_a_view_may_read_what_is_hidden_elsewhere(tmp_path: pathlib.Path) -> None:
    def through_views(table: str, column: str, *, through: str | None = None) -> bool:
        return through is not None or readable(table, column)

    async with opened(write(tmp_path / "shop.db", SHOP), through_views) as engine:
        assert await rows(engine, "SELECT card_number FROM everything") == [("4111",)]
        assert await rows(engine, "SELECT lines FROM audited") == [(1,)]


async def test_reflection_includes_hidden_columns(tmp_path: pathlib.Path) -> None:
    async with opened(write(tmp_path / "shop.db", SHOP), readable) as engine:
        assert (await reflected(engine, "orders")).column_names == ("id", "total", "card_number")
        assert (await reflected(engine, "audit")).column_names == ("line",)
