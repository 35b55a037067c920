from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.providers.database.owners import Owner, owner_of


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    from tests.providers.database.postgres_databases import empty_postgres_database

    with empty_postgres_database() as made:
        yield made.url


@pytest.fixture(scope="module")
def mariadb_url() -> Iterator[str]:
    from tests.providers.database.mysql_databases import empty_mysql_database

    with empty_mysql_database() as made:
        yield made.url


ENGINES = ("sqlite", "postgresql", "mariadb", pytest.param("duckdb", marks=pytest.mark.deep))
"""Engines of tests that run on each; each test on DuckDB starts a process of it."""


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a database, for tests that run on every engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/it.db"
    if request.param == "duckdb":
        return f"duckdb:///{tmp_path}/it.duckdb"
    server = "postgres_url" if request.param == "postgresql" else "mariadb_url"
    return str(request.getfixturevalue(server))


@pytest.fixture
async def owner(url: str) -> AsyncIterator[Owner]:
    """The owner of that database, which is empty."""
    async with owner_of(url) as owner:
        await owner.clear()
        yield owner
