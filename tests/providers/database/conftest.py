from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="session")
def firebird_url() -> Iterator[str]:
    from tests.providers.database.firebird_databases import empty_firebird_database

    with empty_firebird_database() as url:
        yield url


ENGINES = ("sqlite", "postgresql", "mariadb", pytest.param("duckdb", marks=pytest.mark.deep))
"""Engines of tests that run on each; each test on DuckDB starts a process of it."""
OTHER_DRIVERS = (
    "sqlite+pysqlite",
    pytest.param("postgresql+psycopg", marks=pytest.mark.deep),
    pytest.param("mariadb+pymysql", marks=pytest.mark.deep),
)
"""The generic engine on databases that others serve, too."""
GENERIC = (*OTHER_DRIVERS, pytest.param("firebird+firebird", marks=pytest.mark.deep))
"""The generic engine, on these and on a database that nothing here knows."""
EVERYWHERE = pytest.mark.parametrize("url", [*ENGINES, *GENERIC], indirect=True)


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a database, for tests that run on every engine."""
    engine, _, driver = request.param.partition("+")
    if engine == "firebird":
        return str(request.getfixturevalue("firebird_url"))
    if driver not in ("", "pysqlite"):
        pytest.importorskip(driver)
    if engine == "sqlite":
        return f"{request.param}:///{tmp_path}/it.db"
    if engine == "duckdb":
        return f"duckdb:///{tmp_path}/it.duckdb"
    url = str(request.getfixturevalue(f"{engine.removesuffix('ql')}_url"))
    return f"{request.param}://{url.partition('://')[2]}" if driver else url


def urls_of(*engines: Any) -> Any:
    """Return the fixture `url` of a module whose tests run on these engines."""
    return pytest.fixture(params=engines, name="url")(_url)


url = urls_of(*ENGINES)


@pytest.fixture
async def owner(url: str) -> AsyncIterator[Owner]:
    """The owner of that database, which is empty."""
    async with owner_of(url) as owner:
        await owner.clear()
        yield owner
