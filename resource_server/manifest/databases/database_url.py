"""Database URLs, taken apart as SQLAlchemy does; no message and no `repr` shows one."""

from __future__ import annotations

import os
import pathlib
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes

_DRIVERS = {
    "sqlite": "aiosqlite",
    "postgresql": "asyncpg",
    "mysql": "asyncmy",
    "mariadb": "asyncmy",
}
"""Each engine with the driver that reads it; other drivers have other ways round a read-only
transaction."""

_SOURCE = re.compile(r"sqlite:///|[a-z][a-z0-9]*\+[a-z0-9_]+://", re.IGNORECASE)
_LOGIN = re.compile(r"(?:postgres(?:ql)?|mysql|mariadb)://[^/?]*[@:]", re.IGNORECASE)
_PARTS = re.compile(r"([^:/?@]*)://([^/?]*)(/[^?]*)?(\?.*)?", re.DOTALL)
_WRONG_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SPECIAL = (
    "has signs where none may be; write '@', ':', '/', '?', '%' in a user, password or name "
    "as %40, %3A, %2F, %3F, %25"
)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """Where a database is."""

    text: str = field(repr=False)
    """As SQLAlchemy understands it; with the password, where it holds one."""
    engine: str
    """`sqlite`, `postgresql`, `mysql` or `mariadb`: as the URL says it."""
    database: str = field(repr=False)
    """Its name, or its file; may be empty for the default of a server's login."""
    host: str = field(default="", repr=False)
    """Of a server; empty where the driver decides."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What no message may show: the password in every spelling."""


def is_database_url(argument: str) -> bool:
    """Whether an argument is a database's URL, and not a resource's URI below `sqlite://shop/`.

    It has a driver, a third slash, a login or a port.
    """
    return bool(_SOURCE.match(argument) or _LOGIN.match(argument))


def parse_database_url(url: str) -> DatabaseUrl:
    """Take a URL apart.

    Raises:
        ValueError: not one that can be used; says what to do and holds nothing of it.
    """
    match = _PARTS.fullmatch(url)
    if match is None:
        raise ValueError("not a database URL; write sqlite:///shop.db or postgresql://host/name")
    scheme, authority, path, query = (part or "" for part in match.groups())
    engine, plus, driver = scheme.lower().partition("+")
    if engine not in _DRIVERS:
        known = "write postgresql://" if engine == "postgres" else f"known: {', '.join(_DRIVERS)}"
        raise ValueError(f"unknown engine; {known}")
    if plus and driver != _DRIVERS[engine]:
        raise ValueError(f"another driver is not supported; write {engine}+{_DRIVERS[engine]}://")
    if engine == "sqlite":
        return _file(url, authority, path, query)
    return _server(url, engine, authority, path, query)


def sqlite_url(path: pathlib.Path) -> DatabaseUrl:
    """Return the URL of a SQLite file."""
    file = str(path.absolute())
    return DatabaseUrl(f"sqlite:///{quote(os.fsencode(file))}", "sqlite", file)


def resolve_database_url(url: DatabaseUrl, directory: pathlib.Path) -> DatabaseUrl:
    """Return the URL with its file, if it is one, relative to a folder."""
    return sqlite_url(directory / url.database) if url.engine == "sqlite" else url


def redacted_url(text: str) -> str:
    """Return an argument that may be a database's URL without its login and options."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    _, at, place = rest.rpartition("@")
    return f"{scheme}://{'…@' if at else ''}{place.partition('?')[0]}"


def _file(url: str, authority: str, path: str, query: str) -> DatabaseUrl:
    if authority:
        raise ValueError("a file has three slashes before it, or four if its path is absolute")
    if query:
        raise ValueError("a file takes no options after '?'; a '?' in its name is written %3F")
    file = os.fsdecode(unquote_to_bytes(path.removeprefix("/").encode("utf-8", "surrogateescape")))
    if not file or file == ":memory:" or file.startswith("file:"):
        raise ValueError("names no file; write sqlite:///shop.db")
    if "\0" in file:
        raise ValueError("not a file name")
    return DatabaseUrl(url, "sqlite", file)


def _server(url: str, engine: str, authority: str, path: str, query: str) -> DatabaseUrl:
    login, _, place = authority.rpartition("@")
    password = login.partition(":")[2]
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):  # an IPv6 address without a port
        host, port = place, ""
    name = path.removeprefix("/")
    if (
        "@" in f"{login}{path}{query}"
        or "/" in name
        or (port and not port.isdecimal())
        or _WRONG_PERCENT.search(f"{login}{name}")
    ):
        raise ValueError(_SPECIAL)
    if login and not host:
        raise ValueError("has a user but no host")
    secrets = {password, unquote(password), dict(parse_qsl(query[1:])).get("password", "")}
    return DatabaseUrl(url, engine, unquote(name), host.strip("[]"), tuple(secrets - {""}))
