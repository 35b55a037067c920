"""URLs of databases that SQLAlchemy opens, and the usual spellings of others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, quote_plus

from resource_server.errors import MountUnavailable
from resource_server.providers.database.engines.generic.dialects import DIALECTS, known
from resource_server.runtime.near_name import did_you_mean

if TYPE_CHECKING:
    from sqlalchemy.engine import URL
    from sqlalchemy.engine.interfaces import Dialect

_ALIASES: Final[Mapping[str, str]] = {
    "sqlserver": "mssql",
    "athena": "awsathena",
    "ibm_db_sa": "db2",
    "fdb": "firebird",
    "teradata": "teradatasql",
    "exasol": "exa",
    "cockroach": "cockroachdb",
    "postgres": "postgresql",
    "sqlite3": "sqlite",
}
"""Schemes as other programs write them."""
_SCHEME: Final = re.compile(r"([a-z][a-z0-9_]*)(?:\+([a-z0-9_]+))?://", re.IGNORECASE)
_JDBC: Final = re.compile(
    r"jdbc:(?P<kind>\w+):(?:\w+:)?(?:(?:[^;?=]*@/*|//)(?P<host>[\w.\-]*)(?:[:/](?P<port>\d+))?"
    r"(?:[:/](?P<database>[^;?:@=,()]*)(?![^;?:]))?)?[;?:]?(?P<options>.*)",
    re.IGNORECASE | re.DOTALL,
)
_JDBC_KINDS: Final[Mapping[str, str]] = {
    "firebirdsql": "firebird+firebird",
    "firebird": "firebird+firebird",
    "sqlserver": "mssql+pymssql",
    "jtds": "mssql+pymssql",
    "oracle": "oracle+oracledb",
    "clickhouse": "clickhousedb",
    "ch": "clickhousedb",
    "as400": "db2",
}
_JDBC_DATABASE: Final = re.compile(r"(?:^|[;?&])database(?:name)?=([^;&]+)", re.IGNORECASE)
_ODBC: Final = re.compile(
    r"\s*(?:\w[\w ]*=[^;]*;\s*)*(?:driver|dsn|server|data source|dbq)\s*=", re.IGNORECASE
)
_SECRET: Final = re.compile(r"pass|pwd|secret|token|key|credential|auth", re.IGNORECASE)


def scheme_of(text: str) -> tuple[str, str]:
    """Return the dialect and the driver of a URL, in lower case; empty if it has none."""
    match = _SCHEME.match(text)
    if match is None:
        return "", ""
    name = match[1].lower()
    return _ALIASES.get(name, name), (match[2] or "").lower()


def is_known_scheme(text: str) -> bool:
    """Return whether the scheme of a URL is a dialect, perhaps one that is not installed."""
    return scheme_of(text)[0] in DIALECTS or is_foreign(text)


def has_place(text: str) -> bool:
    """Return whether a text is the URL of a database, not a resource URI like `oracle://shop/…`.

    Such a URL has a login or a port.
    """
    if is_foreign(text):
        return True
    authority = text.partition("://")[2].partition("/")[0]
    return scheme_of(text)[0] in DIALECTS and bool(set("@:") & set(authority))


def is_foreign(text: str) -> bool:
    """Return whether a text is a JDBC URL or an ODBC connection string."""
    return text[:5].lower() == "jdbc:" or ("://" not in text and bool(_ODBC.match(text)))


def foreign_advice(text: str) -> str:
    """Return what to write instead of a JDBC URL or an ODBC string, without its login."""
    if text[:5].lower() != "jdbc:":
        return (
            "an ODBC connection string; write mssql+pyodbc:///?odbc_connect=… with the whole "
            "string percent-encoded, or mssql+pymssql://USER:PASSWORD@HOST/DATABASE"
        )
    match = _JDBC.fullmatch(text)
    kind = match["kind"].lower() if match else ""
    if match is None or kind == "sqlite":
        file = text.partition(":sqlite:")[2].partition("?")[0]
        return f"a JDBC URL; write {'sqlite:///' + file if file else 'the URL of SQLAlchemy'}"
    scheme = _JDBC_KINDS.get(kind, kind)
    if set("@{") & set(match["options"]):  # perhaps a password with '?' or ';' is before or in it
        return f"a JDBC URL; write {scheme}://USER:PASSWORD@HOST/DATABASE"
    named = _JDBC_DATABASE.search(match["options"])
    database = named[1] if named else match["database"] or "DATABASE"
    port = f":{match['port']}" if match["port"] else ""
    end = f"?service_name={database}" if kind == "oracle" else f"/{database}"
    return f"a JDBC URL; write {scheme}://USER:PASSWORD@{match['host'] or 'HOST'}{port}{end}"


def parse_url(text: str) -> URL:
    """Parse a URL and complete its driver, importing nothing of the driver.

    Raises:
        ValueError: no such dialect, or no URL; the message does not quote it.
    """
    # Imported here: the other engines do without.
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    if is_foreign(text):
        raise ValueError(foreign_advice(text))
    name, driver = scheme_of(text)
    if name == "duckdb":
        raise ValueError(
            "no driver reflects the tables of DuckDB here; write duckdb:///shop.duckdb"
        )
    drivers = known(name).drivers
    if not driver and "" not in drivers:
        driver = next(
            (each for each in drivers if _is_installed(name, each)), next(iter(drivers), "")
        )
    if name not in DIALECTS and not _is_installed(name, driver):
        raise ValueError(
            "unknown engine; write sqlite:///…, postgresql://…, mysql://…, duckdb:///…, files:…, "
            "or the URL of SQLAlchemy for another dialect that is installed"
            + did_you_mean(name, [*DIALECTS, "postgresql", "duckdb"])
        )
    drivername = f"{name}+{driver}" if driver else name
    try:
        return make_url(_SCHEME.sub(f"{drivername}://", text.strip(), count=1))
    except (ArgumentError, ValueError):
        raise ValueError(
            "not a URL of SQLAlchemy: dialect+driver://user:password@host:port/database; write "
            "'@', ':', '/', '?', '%' in a user or password as %40, %3A, %2F, %3F, %25"
        ) from None


def _is_installed(name: str, driver: str) -> bool:
    try:
        load_dialect(name, driver)
    except MountUnavailable:
        return False
    return True


def load_dialect(name: str, driver: str) -> str:
    """Import a dialect and its driver; return the name that SQLAlchemy knows both by.

    Raises:
        MountUnavailable: they are not installed; the message has the package.
    """
    from sqlalchemy.engine import URL
    from sqlalchemy.exc import NoSuchModuleError

    found: tuple[str, type[Dialect]] | None = None
    for drivername in dict.fromkeys((f"{name}+{driver}" if driver else name, name)):
        try:
            dialect = URL.create(drivername).get_dialect()
        except NoSuchModuleError:
            continue
        except Exception as error:  # whatever a package raises when it is imported
            raise MountUnavailable(f"{drivername}: {type(error).__name__} in its package") from None
        if drivername != name or driver in ("", dialect.driver):
            found = drivername, dialect
            break
    try:
        if found is not None:
            found[1].import_dbapi()
            return found[0]
    except ImportError:
        pass
    raise MountUnavailable(_not_installed(name, driver))


def _not_installed(name: str, driver: str) -> str:
    dialect = known(name)
    package = dialect.drivers.get(driver)
    what = dialect.title or name
    if package is not None:
        return f"{what} needs a package: pip install {package}"
    others = ", ".join(f"{name}+{each}://" for each in dialect.drivers)
    if others:
        return f"{what}: no driver '{driver}' is installed; write {others}, or install its package"
    return f"no dialect '{name}' of SQLAlchemy is installed: install its package with pip"


def secrets_of(url: URL) -> Sequence[str]:
    """Return the password of a URL and other secrets in it, in every spelling."""
    found = {str(url.password)} if url.password else set[str]()
    for name, value in url.query.items():
        if _SECRET.search(name) or name == "odbc_connect":
            found.update((value,) if isinstance(value, str) else value)
    return tuple(
        {spelled for each in found for spelled in (each, quote(each, safe=""), quote_plus(each))}
    )


def database_title(url: URL) -> str:
    """Return a name for the database of a URL: the last part of its path, or its service."""
    service = url.query.get("service_name", "")
    path = PurePosixPath(url.database or (service if isinstance(service, str) else ""))
    return path.stem if path.suffix.lower() in _SUFFIXES else path.name


_SUFFIXES: Final = frozenset((".fdb", ".gdb", ".db", ".sqlite", ".sqlite3", ".duckdb", ".ddb"))


def resolved_url(text: str, directory: Path) -> str:
    """Return the URL of a file with its path relative to a folder made absolute."""
    url = parse_url(text)
    if url.get_backend_name() != "sqlite" or not url.database:
        return text
    path = str(directory / url.database)
    return url.set(database=path).render_as_string(hide_password=False)
