"""Which engine reads the database of a URL; each loads only what it needs itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from resource_server.providers.database.queries.sql_tokenizer import EngineName

if TYPE_CHECKING:
    from resource_server.providers.database.engines.contract import Engine
    from resource_server.providers.database.engines.sqlite.authorizer import Readable

_NAMES: dict[str, EngineName] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mariadb",
}


def name_of(url: str) -> EngineName:
    """Return the engine of a database URL, as `postgresql+asyncpg://…`.

    Raises:
        ValueError: there is none; does not hold the URL, for it may have a password in it.
    """
    scheme = url.partition("://")[0].partition("+")[0].lower()
    if scheme not in _NAMES:
        raise ValueError("url: not a database; write sqlite:///…, postgresql://… or mysql://…")
    return _NAMES[scheme]


def engine_of(
    url: str,
    *,
    readable: Readable,
    schemas: Sequence[str],
    interval: float | None,
    notify: bool,
) -> Engine:
    """Return the engine, not opened. Whether its driver is installed is seen when it is."""
    name = name_of(url)
    if name == "sqlite":
        import os

        from resource_server.providers.database.engines.sqlite.engine import Sqlite

        path = os.fsdecode(unquote_to_bytes(url.partition(":///")[2].partition("?")[0]))
        return Sqlite(path, readable=readable, interval=interval or 0.05)
    if name == "postgresql":
        from resource_server.providers.database.engines.postgres.engine import Postgres

        return Postgres(url, schemas=schemas, interval=interval or 0.25, notify=notify)
    from resource_server.providers.database.engines.mysql.engine import Mysql

    return Mysql(url, interval=interval or 1.0)
