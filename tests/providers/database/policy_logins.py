"""Logins for the SQL of callers, made by what `resource-server sql --policy` prints."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from resource_server.manifest.databases.owner_sql import exposed_tables
from resource_server.manifest.databases.policy_sql import policy_sql
from resource_server.providers.database.provider import Database
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
