"""Logins for the SQL of callers, made by what `resource-server sql --policy` prints."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from resource_server.manifest.databases.owner_sql import exposed_tables
from resource_server.manifest.databases.policy_sql import policy_sql
from resource_server.providers.database.engines.factory import engine_name
from resource_server.providers.database.options import TableOptions
from resource_server.providers.database.provider import Database
from tests.providers.database.owners import owner_of
from tests.providers.database.servers import with_parts

PASSWORD = "hunter2secret"  # noqa: S105 - of a test login


def login_url(url: str, engine: str, mount: str) -> str:
    """Return the URL of the login of a mount on the server of `url`."""
    database = urlsplit(url).path[1:] + ("" if engine == "postgresql" else "_sql")
    return with_parts(url, login=f"{mount}_sql:{PASSWORD}", database=database)


async def policy_statements(provider: Database, engine: str, mount: str) -> Sequence[str]:
    """Return statements for an administrator that make the views and the login."""
    script = policy_sql(await exposed_tables(mount, provider))
    if engine == "postgresql":
        return script, f"alter role \"{mount}_sql\" password '{PASSWORD}'"
    plain = "\n".join(line for line in script.splitlines() if not line.startswith("--"))
    return (
        *[each for each in plain.split(";\n") if each.strip()],
        f"alter user `{mount}_sql` identified by '{PASSWORD}' account unlock",
    )


def drop_statements(engine: str, name: str) -> Sequence[str]:
    """Return statements that drop the login of a mount with the name of its database, gone now."""
    if engine == "postgresql":
        return (f'drop role if exists "{name}_sql"',)
    if engine == "mariadb":
        return f"drop user if exists `{name}_sql`", f"drop database if exists `{name}_sql`"
    return ()


@contextmanager
def sql_login(url: str, *tables: str) -> Generator[str]:
    """Make the login of a database; yield its URL.

    Each table is shown whole; the manifest has entries of `tables`.
    """
    # Imported here: tests are skipped without the drivers.
    from tests.providers.database import mysql_databases, postgres_databases

    name = urlsplit(url).path[1:]
    of_postgres = engine_name(url) == "postgresql"
    engine = "postgresql" if of_postgres else "mariadb"
    server = (postgres_databases if of_postgres else mysql_databases).ADMIN
    admin = with_parts(server, database=name)
    rights = (f'DROP OWNED BY "{name}_sql"',) if of_postgres else ()

    async def make() -> None:
        provider = Database(url, tables=dict.fromkeys(tables, TableOptions()))
        await run(*await policy_statements(provider, engine, name))

    async def run(*statements: str) -> None:
        async with owner_of(admin) as owner:
            await owner.run(*statements)

    asyncio.run(make())
    try:
        yield login_url(url, engine, name)
    finally:
        asyncio.run(run(*rights, *drop_statements(engine, name)))
