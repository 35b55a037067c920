"""Database engines with an empty database for each case, on whichever servers listen."""

from __future__ import annotations

import functools
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from tests.providers.database.owners import MariadbOwner, Owner, PostgresOwner, owner_of
from tests.providers.database.servers import server_url, unique_name, with_parts

_POSTGRES = server_url(
    "RESOURCE_SERVER_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres"
)
_MARIADB = server_url("RESOURCE_SERVER_TEST_MYSQL", "mysql://root@127.0.0.1:3306/mysql")


class Urls(NamedTuple):
    """A database, by two logins."""

    server: str
    """The login of resource-server."""
    owner: str
    """The login of applications that write."""


class _Make(Protocol):
    def __call__(self, place: Path) -> AbstractAsyncContextManager[Urls]: ...


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One engine, in one mode."""

    name: str
    database: _Make
    """Makes an empty database, in a folder if it is a file, and drops it at the end."""
    admin: str | None = None
    """URL of its server, with a login that may do anything; None for files."""
    prefix: str = ""
    """Prefix of table paths."""
    insertion: str = Owner.insertion
    preparation: Sequence[str] = ()
    """Statements that an empty database begins with."""
    impatience: Sequence[str] = ()
    """Statements after which a connection does not wait for locks."""

    async def disconnect(self, urls: Urls) -> None:
        """End all connections of resource-server to a database on a server."""
        if self.admin is None:
            return
        name = urlsplit(urls.server).path[1:]
        async with owner_of(self.admin) as admin:
            if self.name == "postgresql":
                await admin.rows(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = ? and application_name = 'resource-server'",
                    name,
                )
                return
            sql = "select id from information_schema.processlist where user = ?"
            for (number,) in await admin.rows(sql, name):
                with suppress(Exception):  # it has just ended
                    await admin.run(f"kill {number}")


def listening() -> Sequence[str]:
    """Return the names of the engines that can be used on this machine."""
    return [name for name, engine in ENGINES.items() if _listens(engine.admin)]


@functools.cache
def _listens(url: str | None) -> bool:
    if url is None:
        return True
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname, parts.port), timeout=5):
            return True
    except OSError:
        return False


@asynccontextmanager
async def _file(place: Path) -> AsyncGenerator[Urls]:
    url = f"sqlite:///{place}/rows.db"
    yield Urls(url, url)


@asynccontextmanager
async def _postgres(place: Path) -> AsyncGenerator[Urls]:
    name = unique_name()
    async with owner_of(_POSTGRES) as admin:
        await admin.run(f"create database {name} template template0")
        try:
            url = with_parts(_POSTGRES, database=name)
            yield Urls(url, url)
        finally:
            await admin.run(f"drop database {name} with (force)")


@asynccontextmanager
async def _mariadb(place: Path) -> AsyncGenerator[Urls]:
    name = unique_name()
    async with owner_of(_MARIADB) as admin:
        await admin.run(
            f"create database {name} character set utf8mb4",
            f"create user {name} identified by 'hunter2secret'",
            f"grant select on {name}.* to {name}",
        )
        try:
            url = with_parts(_MARIADB, database=name)
            yield Urls(with_parts(url, login=f"{name}:hunter2secret"), url)
        finally:
            await admin.run(f"drop database {name}", f"drop user {name}")


ENGINES: Mapping[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            name="sqlite-wal",
            database=_file,
            preparation=("pragma journal_mode = wal",),
            impatience=("pragma busy_timeout = 0",),
        ),
        Engine(
            name="sqlite-delete",
            database=_file,
            preparation=("pragma journal_mode = delete",),
            impatience=("pragma busy_timeout = 0",),
        ),
        Engine(
            name="postgresql",
            database=_postgres,
            admin=_POSTGRES,
            prefix=PostgresOwner.prefix,
            impatience=("set lock_timeout = 20",),
        ),
        Engine(
            name="mariadb",
            database=_mariadb,
            admin=_MARIADB,
            insertion=MariadbOwner.insertion,
            impatience=("set innodb_lock_wait_timeout = 0", "set lock_wait_timeout = 0"),
        ),
    )
}
