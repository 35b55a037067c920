"""Choice of the engine for a database URL. Imports only the engine that is chosen."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, unquote_to_bytes

from resource_server.buckets.location import is_object_url
from resource_server.providers.database.engines.contract import EngineName
from resource_server.providers.database.engines.generic import dialect_url
from resource_server.providers.database.engines.server_url import SCHEMES

if TYPE_CHECKING:
    from resource_server.providers.database.engines.contract import Engine
    from resource_server.providers.database.engines.duckdb.data_sources import FilesSource
    from resource_server.providers.database.engines.sql_login import SqlLogin
    from resource_server.providers.database.engines.sqlite.authorizer import Readable
    from resource_server.providers.database.options import StorageOptions

FILES = "files:"
"""Start of a URL that is a pattern of data files."""
TABLE = "?table="
"""What comes before the name of the one table of all files."""

NATIVE_DRIVERS: Mapping[str, str] = {
    "sqlite": "aiosqlite",
    "postgresql": "asyncpg",
    "mysql": "asyncmy",
    "mariadb": "asyncmy",
    "duckdb": "duckdb",
}
"""The driver part that URLs of each engine may have; any other is the generic engine's."""
_NAMES: dict[str, EngineName] = {
    **SCHEMES,
    "sqlite": "sqlite",
    "sqlite3": "sqlite",
    "duckdb": "duckdb",
}


def engine_name(url: str) -> EngineName:
    """Return the name of the engine for a database URL such as `postgresql+asyncpg://…`.

    A URL with another driver, such as `postgresql+psycopg://…`, is the generic engine's.

    Raises:
        ValueError: no engine; the message omits the URL, which may hold a password.
    """
    if url.startswith(FILES):
        return "duckdb"
    scheme, plus, driver = url.partition("://")[0].lower().partition("+")
    name = _NAMES.get(scheme)
    if name is not None and (not plus or driver == NATIVE_DRIVERS[name]):
        return name
    if "://" not in url or dialect_url.is_foreign(url):
        raise ValueError(
            "url: not a database; write sqlite:///…, postgresql://…, mysql://…, duckdb:///…, "
            "files:… or the URL of another dialect of SQLAlchemy"
        )
    return "generic"


def dialect_name(url: str) -> str:
    """Return the SQL dialect of a database URL: the engine's name, or SQLAlchemy's if generic.

    Raises as `engine_name`.
    """
    name = engine_name(url)
    return dialect_url.scheme_of(url)[0] if name == "generic" else name


def with_settings(engine: Engine, settings: Mapping[str, str]) -> Engine:
    """Return the engine, whose statements run under these settings of PostgreSQL, if any."""
    if not settings:
        return engine
    from resource_server.providers.database.engines.postgres.engine import (
        EngineWithSettings,
        PostgresEngine,
    )

    assert isinstance(engine, PostgresEngine)  # noqa: S101 - options of other engines are refused
    return EngineWithSettings(engine, settings)


def _path(written: str) -> str:
    return os.fsdecode(unquote_to_bytes(written.partition("?")[0]))


def make_engine(
    url: str,
    *,
    readable: Readable,
    schemas: Sequence[str],
    interval: float | None,
    notify: bool,
    storage: StorageOptions | None = None,
) -> Engine:
    """Return the engine for a URL, not yet open; `open` reports a driver that is not installed.

    Args:
        url: the database.
        readable: decides which columns statements may read (SQLite).
        schemas: the schemas to serve; all but the system's if empty (PostgreSQL), or the default
            one (generic).
        interval: seconds between two looks for commits; None for the engine's default.
        notify: whether triggers notify of commits (PostgreSQL).
        storage: the service that has the data files, if they are objects.

    Raises:
        ValueError: `storage` is given for something else.
    """
    name = engine_name(url)
    path = _path(url.removeprefix(FILES).partition(TABLE)[0])
    is_in_storage = url.startswith(FILES) and is_object_url(path)
    if storage is not None and not is_in_storage:
        raise ValueError("storage: is for data files in object storage, files:s3://…; remove it")
    if name == "sqlite":
        from resource_server.providers.database.engines.sqlite.engine import SqliteEngine

        return SqliteEngine(
            _path(url.partition(":///")[2]), readable=readable, interval=interval or 0.05
        )
    if name == "duckdb":
        from resource_server.providers.database.engines.duckdb.data_sources import (
            DatabaseSource,
            FilesSource,
        )
        from resource_server.providers.database.engines.duckdb.engine import DuckdbEngine

        if url.startswith(FILES):
            table = unquote(url.partition(TABLE)[2]) or None
            if is_in_storage:
                return DuckdbEngine(_objects(path, table, storage, interval))
            source = FilesSource(path, table)
        else:
            source = DatabaseSource(_path(url.partition(":///")[2]))
        return DuckdbEngine(source, interval=interval or 0.25)
    if name == "postgresql":
        from resource_server.providers.database.engines.postgres.engine import PostgresEngine

        return PostgresEngine(url, schemas=schemas, interval=interval or 0.25, notify=notify)
    if name == "generic":
        from resource_server.providers.database.engines.generic.engine import GenericEngine

        return GenericEngine(url, schemas=schemas, interval=2.0 if interval is None else interval)
    from resource_server.providers.database.engines.mysql.engine import MysqlEngine

    return MysqlEngine(url, interval=interval or 1.0)


def _objects(
    url: str, table: str | None, storage: StorageOptions | None, interval: float | None
) -> FilesSource:
    # Imported here: most data files lie on disk.
    from resource_server.providers.database.engines.duckdb.object_files import ObjectFiles
    from resource_server.providers.database.options import StorageOptions

    return ObjectFiles(url, table, storage or StorageOptions(), interval or 60.0)


def make_sql_login(url: str, digest: str) -> SqlLogin:
    """Return the login for callers' SQL, not yet open.

    Args:
        url: a login of a database server that reads nothing but the views of a policy.
        digest: the digest of that policy.
    """
    if engine_name(url) == "postgresql":
        from resource_server.providers.database.engines.postgres.sql_login import PostgresSqlLogin

        return PostgresSqlLogin(url, digest)
    from resource_server.providers.database.engines.mysql.sql_login import MysqlSqlLogin

    return MysqlSqlLogin(url, digest)
