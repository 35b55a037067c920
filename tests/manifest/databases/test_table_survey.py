"""Survey of a database for its starter manifest."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from resource_server.manifest.databases.database_url import parse_database_url
from resource_server.manifest.databases.table_survey import starter_manifest, survey_tables
from resource_server.manifest.starter import MAX_TABLES, RowCount
from resource_server.providers.database.provider import Database

pytestmark = pytest.mark.anyio


def database(folder: Path, script: str) -> str:
    """Make a database by a script; return its URL."""
    file = folder / "shop.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)
    return f"sqlite:///{file}"


async def test_tables_are_counted_and_their_keys_are_known(tmp_path: Path) -> None:
    url = database(
        tmp_path,
        "CREATE TABLE b (id INTEGER PRIMARY KEY); INSERT INTO b VALUES (1), (2);"
        "CREATE TABLE a (x TEXT);",
    )
    async with Database(url=url) as opened:
        found, schemas = await survey_tables(opened.engine)
    assert [(each.name, each.rows) for each in found] == [("a", RowCount(0)), ("b", RowCount(2))]
    assert schemas == []


async def test_only_the_first_tables_are_inspected(tmp_path: Path) -> None:
    script = "".join(f"CREATE TABLE t{n:04} (x);" for n in range(MAX_TABLES + 1))
    async with Database(url=database(tmp_path, script)) as opened:
        found, _ = await survey_tables(opened.engine)
    assert len(found) == MAX_TABLES + 1
    assert found[-2].table is not None
    assert (found[-1].table, found[-1].rows) == (None, None)


async def test_a_sqlite_file_is_named_relative_to_its_manifest(tmp_path: Path) -> None:
    url = database(tmp_path, "CREATE TABLE a (x TEXT PRIMARY KEY);")
    text = await starter_manifest(parse_database_url(url))
    assert "sqlite:///shop.db" in text
    assert str(tmp_path) not in text
