"""Choice of the engine for a database URL. Imports only the engine that is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from resource_server.providers.database.engines.contract import EngineName

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


def engine_name(url: str) -> EngineName:
    """Return the name of the engine for a database URL such as `postgresql+asyncpg://…`.

    Raises:
        ValueError: no engine; the message omits the URL, which may hold a password.
    """
    scheme = url.partition("://")[0].partition("+")[0].lower()
    if scheme not in _NAMES:
        raise ValueError("url: not a database; write sqlite:///…, postgresql://… or mysql://…")
    return _NAMES[scheme]


def make_engine(
    url: str,
    *,
    readable: Readable,
    schemas: Sequence[str],
    interval: float | None,
    notify: bool,
) -> Engine:
    """Return the engine for a URL, not yet open; `open` reports a driver that is not installed.

    Args:
        url: the database.
        readable: decides which columns statements may read (SQLite).
        schemas: the schemas to serve; all but the system's if empty (PostgreSQL).
        interval: seconds between two looks for commits; None for the engine's default.
        notify: whether triggers notify of commits (PostgreSQL).
    """
    name = engine_name(url)
    if name == "sqlite":
        import os

        from resource_server.providers.database.engines.sqlite.engine import SqliteEngine

        path = os.fsdecode(unquote_to_bytes(url.partition(":///")[2].partition("?")[0]))
        return SqliteEngine(path, readable=readable, interval=interval or 0.05)
    if name == "postgresql":
        from resource_server.providers.database.engines.postgres.engine import PostgresEngine

        return PostgresEngine(url, schemas=schemas, interval=interval or 0.25, notify=notify)
    from resource_server.providers.database.engines.mysql.engine import MysqlEngine

    return MysqlEngine(url, interval=interval or 1.0)
