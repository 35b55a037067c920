"""Sources: the manifest of a file, a folder, a database, or the current folder."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import re
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from resource_server.buckets.location import SCHEME, is_object_url, parse_location
from resource_server.errors import Diagnostic, ManifestError, MountUnavailable
from resource_server.manifest.databases.database_url import (
    DatabaseUrl,
    data_files_url,
    file_url,
    hidden_url,
    is_database_url,
    parse_database_url,
    redacted_url,
    resolve_database_url,
)
from resource_server.manifest.model import Manifest, MountSpec
from resource_server.manifest.wording import printable
from resource_server.uris import display

if TYPE_CHECKING:
    from resource_server.manifest.decode import FindClass

SUFFIXES = (".yaml", ".yml", ".json")
"""File name endings of manifests."""
FILE_NAMES = tuple(f"mcp-resources{suffix}" for suffix in SUFFIXES)
"""Names of a folder's own manifest; `init` writes the first."""

_DATABASE_SUFFIXES = (".db", ".sqlite", ".sqlite3", ".duckdb", ".ddb")
_SQLITE = b"SQLite format 3\0"
_DUCKDB = b"DUCK"
_DUCKDB_OFFSET = 8
_NAMES = {"sqlite": "SQLite", "duckdb": "DuckDB"}


def is_source(argument: str) -> bool:
    """Return whether the first argument of a command is a source and not a resource URI."""
    return is_database_url(argument) or is_object_url(argument) or _exists(argument)


def is_database_file(argument: str) -> bool:
    """Return whether an argument names an existing file with the ending of databases."""
    path = pathlib.Path(argument)
    return path.suffix.lower() in _DATABASE_SUFFIXES and _exists(argument) and not path.is_dir()


def manifest_file(source: str | None = None) -> pathlib.Path | None:
    """Return the path of a source's manifest, existing or not; None if it cannot have one.

    Raises:
        ManifestError: a folder has several manifests.
    """
    if source is not None and (is_database_url(source, is_source=True) or is_object_url(source)):
        return None
    path = pathlib.Path(source or ".")
    if path.is_dir():
        return _manifest_of(path) or path / FILE_NAMES[0]
    return path if path.suffix.lower() in SUFFIXES else None


def database_of(source: str) -> DatabaseUrl | None:
    """Return the URL of the database that a source names; None if it names something else.

    Raises:
        ManifestError: the database cannot be read.
    """
    if is_database_url(source, is_source=True):
        try:
            url = resolve_database_url(parse_database_url(source), pathlib.Path.cwd())
        except ValueError as error:
            _refuse(hidden_url(source), str(error))
        if url.is_file and not url.is_pattern:
            engine = _engine_of(pathlib.Path(url.database), source)
            if engine != url.engine:
                _refuse(source, f"this file is a database of {_NAMES[engine]}")
        return url
    path = pathlib.Path(source)
    with contextlib.suppress(OSError, ValueError):
        if path.suffix.lower() in _DATABASE_SUFFIXES and not path.is_dir():
            return file_url(_engine_of(path, source), path)
        if path.is_file() and (engine := _engine(_header(path))):
            return file_url(engine, path)
        if path.is_file() and _data_file_name(path) is not None:
            return data_files_url(path)
    return None


def _data_file_name(path: pathlib.PurePath) -> str | None:
    """Return the name of a data file without its suffix; None if it is no data file."""
    if path.suffix.lower() in SUFFIXES:
        return None
    # Imported here: folders and manifests do not need it.
    from resource_server.providers.database.engines.duckdb import data_sources

    return None if data_sources.kind_of(path.name) is None else data_sources.stem(path.name)


def _exists(argument: str) -> bool:
    try:
        return os.path.lexists(argument)
    except ValueError:
        return False


def find_manifest(source: str | None = None, *, find_class: FindClass | None = None) -> Manifest:
    """Return the manifest of a source: a manifest file, a folder, or a database file or URL.

    The default is the current folder. `find_class` is as in `load.load`.

    Raises:
        ManifestError: the source does not exist, or its manifest has problems.
    """
    if source is None:
        source = "."
    if not source:
        _refuse("source", "empty; name a folder, a manifest or a database")
    if is_object_url(source):
        return _of_objects(source)
    if (url := database_of(source)) is not None:
        return _of_database(url)
    path = pathlib.Path(source)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _folder(path, find_class)
        if stat.S_ISREG(mode):
            return _file(path, find_class)
    except FileNotFoundError:
        _refuse(source, "no such file or folder")
    except (OSError, ValueError) as error:
        _refuse(source, f"cannot be read: {_reason(error)}")
    return _refuse(source, "neither a file nor a folder")


def _file(path: pathlib.Path, find_class: FindClass | None) -> Manifest:
    if path.suffix.lower() in SUFFIXES:
        # Imported here: a folder without a manifest needs neither YAML nor pydantic.
        from resource_server.manifest.load import load

        return load(path, find_class=find_class)
    return _refuse(
        str(path),
        "neither a manifest, whose name ends in .yaml, nor a database or a data file; "
        "serve its folder instead",
    )


def _header(path: pathlib.Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_SQLITE))


def _engine(header: bytes) -> str | None:
    if header == _SQLITE:
        return "sqlite"
    return "duckdb" if header[_DUCKDB_OFFSET:].startswith(_DUCKDB) else None


def _engine_of(path: pathlib.Path, source: str) -> str:
    """Return the engine of a database file; raise `ManifestError` if it is none."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            _refuse(source, "not a file; a SQLite or DuckDB database is a file")
        header = _header(path)
    except FileNotFoundError:
        _refuse(source, "no such file; databases are opened, never created")
    except (OSError, ValueError) as error:
        _refuse(source, f"cannot be read: {_reason(error)}")
    if not header:
        _refuse(source, "an empty file; a database has at least one table")
    engine = _engine(header)
    if engine is None:
        _refuse(source, "not a SQLite or DuckDB database, or an encrypted one")
    return engine


def _reason(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or "not a file name"
    return f"{reason[:1].lower()}{reason[1:]}"


def _folder(path: pathlib.Path, find_class: FindClass | None) -> Manifest:
    file = _manifest_of(path)
    if file is not None:
        return _file(file, find_class)
    # Fails now if the folder cannot be listed.
    os.scandir(path).close()
    return _without_manifest(path)


def _manifest_of(folder: pathlib.Path) -> pathlib.Path | None:
    files = [folder / name for name in FILE_NAMES if _exists(str(folder / name))]
    if len(files) > 1:
        names = " and ".join(file.name for file in files)
        _refuse(str(folder), f"has several manifests, {names}; keep one, or name the one to use")
    return files[0] if files else None


def _without_manifest(path: pathlib.Path) -> Manifest:
    """Return the implied manifest of a folder: a single root named after it."""
    from resource_server.providers.filesystem import Filesystem

    path = path.absolute()
    name, title = mount_name(path)
    spec = MountSpec(
        name=name,
        base=f"file:///{name}/",
        use=Filesystem(path=path),
        title=title if title != name else None,
        path=("roots", name),
    )
    return Manifest(file=None, directory=path, mounts=(spec,))


def _of_objects(url: str) -> Manifest:
    """Return the implied manifest of a bucket or a prefix, named after its last segment."""
    # Imported here: a folder does without.
    from resource_server.providers.object_storage.provider import ObjectStorage

    try:
        title = display(parse_location(url).name)
        provider = ObjectStorage(path=url)
    except ValueError as error:
        _refuse(SCHEME + "…", str(error))
    name = name_from_title(title)
    spec = MountSpec(
        name=name,
        base=f"file:///{name}/",
        use=provider,
        title=title if title != name else None,
        path=("roots", name),
    )
    return Manifest(file=None, directory=pathlib.Path.cwd(), mounts=(spec,))


def _of_database(url: DatabaseUrl) -> Manifest:
    """Return the implied manifest of a database, named after it."""
    # Imported here: a folder does without.
    from resource_server.providers.database.provider import Database

    name, title = database_name(url)
    try:
        provider = Database(url=url.text)
    except MountUnavailable as error:  # no driver
        _refuse(redacted_url(url.text), str(error))
    spec = MountSpec(
        name=name,
        base=f"{url.engine}://{name}/",
        use=provider,
        title=title if title != name else None,
        path=("databases", name),
    )
    directory = url.folder if url.is_file else pathlib.Path.cwd()
    withheld = {url.database: f"the database {name}"} if url.is_file and not url.is_pattern else {}
    return Manifest(file=None, directory=directory, mounts=(spec,), withheld=withheld)


def database_name(url: DatabaseUrl) -> tuple[str, str]:
    """Return a mount's name and title for a database: `("my-shop", "My Shop")`."""
    title = url.database
    if url.is_file:
        path = pathlib.PurePath(title)
        title = (_data_file_name(path) if url.is_pattern else None) or path.stem
    title = display(title)
    return database_name_from_title(title), title or "database"


def database_name_from_title(title: str) -> str:
    """Return the name of a database made from a title."""
    return re.sub(r"[^a-z0-9_-]+", "-", title.lower()).strip("-")[:64] or "database"


def mount_name(folder: pathlib.Path) -> tuple[str, str]:
    """Return a mount's name and title for a folder: `("my-project", "My project")`."""
    title = display((folder if folder.name.strip(".") else folder.resolve()).name)
    return name_from_title(title), title or "root"


def name_from_title(title: str) -> str:
    """Return a mount name made from a title."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", title).strip("-._")[:64] or "root"


def unused_name(wanted: str, is_used: Callable[[str], bool]) -> str:
    """Return a name that is not used: `docs`, otherwise `docs-2` and so on."""
    name, others = wanted, itertools.count(2)
    while is_used(name):
        name = f"{wanted[:60]}-{next(others)}"
    return name


def _refuse(source: str, message: str) -> NoReturn:
    # The source may be an unsupported database URL with a password.
    place = printable(redacted_url(source), longest=4096)
    raise ManifestError([Diagnostic(place, 0, 0, "", message)])
