"""Databases of PostgreSQL and MariaDB, empty, where the servers that the tests use are running."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from tests.providers.database.owners import owner_of


def postgres() -> AbstractContextManager[str | None]:
    """Give the URL of a database that is dropped in the end, or None after saying why."""
    return _database(_postgres)


def mariadb() -> AbstractContextManager[str | None]:
    """Give the URL of a database that is dropped in the end, or None after saying why."""
    return _database(_mariadb)


@contextmanager
def _database(make: Callable[[ExitStack], str]) -> Generator[str | None]:
    with ExitStack() as stack:
        try:
            url = make(stack)
        except pytest.skip.Exception as reason:
            print(f"\n{reason}")
            url = None
        yield url


def _postgres(stack: ExitStack) -> str:
    # Imported here, as below: it is skipped without the driver.
    from tests.providers.database.postgres_databases import empty_postgres_database

    return stack.enter_context(empty_postgres_database()).url


def _mariadb(stack: ExitStack) -> str:
    from tests.providers.database.mysql_databases import empty_mysql_database

    url = stack.enter_context(empty_mysql_database()).url
    if "MariaDB" not in asyncio.run(_version(url)):
        pytest.skip("no MariaDB to test with: the server is MySQL")
    return url


async def _version(url: str) -> str:
    async with owner_of(url) as owner:
        ((version,),) = await owner.rows("SELECT version()")
    return str(version)
