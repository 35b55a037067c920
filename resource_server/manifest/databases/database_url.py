"""Database URLs, checked whole and hidden from messages and `repr`."""

from __future__ import annotations

import os
import pathlib
import re
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from resource_server.buckets.location import is_object_url, parse_location
from resource_server.providers.database.engines.factory import NATIVE_DRIVERS
from resource_server.providers.database.engines.generic import dialect_url
from resource_server.providers.database.engines.server_url import (
    SCHEMES,
    is_server_url,
    parse_server_url,
    resolve_files,
)

_SOURCE = re.compile(r"(?:sqlite3?|duckdb):///|files:|[a-z][a-z0-9]*\+[a-z0-9_]+://", re.IGNORECASE)
_PARTS = re.compile(r"([^:/?@]*)://([^/?]*)(/[^?]*)?(\?.*)?", re.DOTALL)
FILES = "files:"
"""Start of a URL that is a pattern of data files."""
_WILDCARD = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """The parsed URL of a database."""

    text: str = field(repr=False)
    """The URL as it was written, with the password if there is one."""
    engine: str
    """`sqlite`, `postgresql`, `mysql`, `mariadb` or `duckdb`, or another dialect of SQLAlchemy."""
    database: str = field(repr=False)
    """Name or file; empty for the default database of a server's login."""
    host: str = field(default="", repr=False)
    """Host of a server, the first of several; empty if the driver decides."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """The password in every spelling, hidden from messages."""
    table: str | None = None
    """Of data files: the table that all of them make; None if each makes one."""
    is_generic: bool = False
    """Whether SQLAlchemy opens it, by the driver that the URL names."""

    @property
    def is_file(self) -> bool:
        """Whether `database` is a file of an engine of its own, or a pattern of data files."""
        return self.engine in ("sqlite", "duckdb") and not self.is_generic

    @property
    def is_pattern(self) -> bool:
        """Whether `database` is a pattern of data files."""
        return self.text.startswith(FILES)

    @property
    def is_in_storage(self) -> bool:
        """Whether its data files are objects in a bucket."""
        return is_object_url(self.database)

    @property
    def folder(self) -> pathlib.Path:
        """The folder of its file, or of all files that match its pattern; objects have none."""
        if self.is_in_storage:
            return pathlib.Path.cwd()
        parent = pathlib.Path(self.database).parent
        while self.is_pattern and _WILDCARD.search(str(parent)):
            parent = parent.parent
        return parent

    def relative(self) -> str:
        """Return the URL of its file as a manifest in `folder` names it."""
        if self.is_in_storage:
            return self.text
        path = pathlib.Path(self.database).relative_to(self.folder)
        if self.is_pattern:
            return f"{FILES}{_pattern(path)}{_query(self.table)}"
        return f"{self.engine}:///{quote(os.fsencode(path))}"


def is_database_url(argument: str, *, is_source: bool = False) -> bool:
    """Return whether an argument is a database URL, not a resource URI like `sqlite://shop/…`.

    A database URL has a driver, a third slash, a login, a port or parameters; with
    `is_source`, an argument that cannot be a resource URI, the scheme of a server suffices.
    """
    scheme = argument.partition("://")[0].lower()
    if is_source and (scheme in SCHEMES or dialect_url.is_known_scheme(argument)):
        return "://" in argument or dialect_url.is_foreign(argument)
    return (
        bool(_SOURCE.match(argument)) or is_server_url(argument) or dialect_url.has_place(argument)
    )


def parse_database_url(url: str) -> DatabaseUrl:
    """Parse a database URL.

    Raises:
        ValueError: the URL is unusable; the message says how to fix it without quoting it.
    """
    if url.startswith(FILES):
        return _data_files(url)
    if dialect_url.is_foreign(url):
        raise ValueError(dialect_url.foreign_advice(url))
    match = _PARTS.fullmatch(url)
    if match is None and url.lower().startswith(("file:", FILES)):
        raise ValueError("not a database URL; data files are files:data/*.csv")
    if match is None:
        raise ValueError("not a database URL; write sqlite:///shop.db or postgresql://host/name")
    scheme, authority, path, query = (part or "" for part in match.groups())
    given, plus, driver = scheme.lower().partition("+")
    engine = "sqlite" if given == "sqlite3" else SCHEMES.get(given, given)
    if engine not in NATIVE_DRIVERS or (plus and driver != NATIVE_DRIVERS[engine]):
        return _generic(url)
    if engine in ("sqlite", "duckdb"):
        return _file(url, engine, authority, path, query)
    return _server(url)


def file_url(engine: str, path: pathlib.Path) -> DatabaseUrl:
    """Return the URL of a SQLite or DuckDB file."""
    file = str(path.absolute())
    return DatabaseUrl(f"{engine}:///{quote(os.fsencode(file))}", engine, file)


def data_files_url(pattern: pathlib.Path, table: str | None = None) -> DatabaseUrl:
    """Return the URL of data files, each a table, or all together the table of this name."""
    absolute = pattern.absolute()
    text = f"{FILES}{_pattern(absolute)}{_query(table)}"
    return DatabaseUrl(text, "duckdb", str(absolute), table=table)


def _pattern(pattern: pathlib.Path) -> str:
    return quote(os.fsencode(pattern), safe="/*[]!")


def _query(table: str | None) -> str:
    return "" if table is None else f"?table={quote(table, safe='')}"


def resolve_database_url(url: DatabaseUrl, directory: pathlib.Path) -> DatabaseUrl:
    """Return the URL with its file, or a server's certificates, resolved against a folder."""
    if url.is_generic:
        return replace(url, text=dialect_url.resolved_url(url.text, directory))
    if not url.is_file:
        return replace(url, text=resolve_files(url.text, directory))
    if url.is_in_storage:
        return url
    path = directory / url.database
    return data_files_url(path, url.table) if url.is_pattern else file_url(url.engine, path)


def hidden_url(text: str) -> str:
    """Return a URL that cannot be read, without anything that may be a login."""
    return f"{text[:4]}…" if dialect_url.is_foreign(text) else f"{text.partition('://')[0]}://…"


def redacted_url(text: str) -> str:
    """Return an argument without the login and options of a database URL."""
    scheme, separator, rest = text.partition("://")
    if dialect_url.is_foreign(text):
        return hidden_url(text)
    if not separator:
        return text
    _, at, place = rest.rpartition("@")
    # A name after an '@' of the query may have more of the query behind it.
    return f"{scheme}://{'…@' if at else ''}{re.split('[?&]', place)[0]}"


def _data_files(url: str) -> DatabaseUrl:
    pattern, _, query = url.removeprefix(FILES).partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    table = options.pop("table", None)
    if options or table == "" or (query and table is None):
        raise ValueError(
            "the only option after '?' is table=NAME; write a '?' of the pattern as %3F"
        )
    file = os.fsdecode(unquote_to_bytes(pattern.encode("utf-8", "surrogateescape")))
    if is_object_url(file):
        _check_objects(file)
    if not file or file.startswith("//"):
        raise ValueError("no file is named; write files:data/*.parquet")
    if "\0" in file:
        raise ValueError("not a file name")
    return DatabaseUrl(url, "duckdb", file, table=table)


def _check_objects(url: str) -> None:
    try:
        location = parse_location(url)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("path: ")) from None
    if not location.prefix:
        raise ValueError("no object is named; write files:s3://bucket/sales/*.parquet")


def _file(url: str, engine: str, authority: str, path: str, query: str) -> DatabaseUrl:
    if authority:
        raise ValueError("a file needs three slashes before it, or four if its path is absolute")
    if query:
        raise ValueError("a file has no options after '?'; write a '?' in its name as %3F")
    file = os.fsdecode(unquote_to_bytes(path.removeprefix("/").encode("utf-8", "surrogateescape")))
    if not file or file == ":memory:" or file.startswith("file:"):
        raise ValueError(f"no file is named; write {engine}:///shop.db")
    if "\0" in file:
        raise ValueError("not a file name")
    return DatabaseUrl(url, engine, file)


def _generic(url: str) -> DatabaseUrl:
    parsed = dialect_url.parse_url(url)
    return DatabaseUrl(
        url,
        parsed.get_backend_name(),
        dialect_url.database_title(parsed),
        parsed.host or "",
        tuple(dialect_url.secrets_of(parsed)),
        is_generic=True,
    )


def _server(url: str) -> DatabaseUrl:
    parsed = parse_server_url(url)
    given = parse_qsl(url.partition("?")[2])
    secrets = {value for name, value in given if name in ("password", "sslpassword")}
    if parsed.password:
        login = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        secrets |= {parsed.password, login.partition(":")[2]}
    names = [host.name for host in parsed.hosts if not host.name.startswith("/")]
    host = names[0] if names else ""
    return DatabaseUrl(url, parsed.engine, parsed.database, host, tuple(secrets - {""}))
