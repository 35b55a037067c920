"""What the command line names, as a manifest: a manifest, a folder, a database, or nothing."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import stat
from typing import TYPE_CHECKING, NoReturn

from resource_server.errors import Diagnostic, ManifestError, MountUnavailable
from resource_server.manifest.databases.database_url import (
    DatabaseUrl,
    is_database_url,
    parse_database_url,
    redacted_url,
    resolve_database_url,
    sqlite_url,
)
from resource_server.manifest.model import Manifest, MountSpec
from resource_server.manifest.wording import printable
from resource_server.uris import display

if TYPE_CHECKING:
    from resource_server.manifest.decode import FindClass

SUFFIXES = (".yaml", ".yml", ".json")
"""What the names of manifests end in."""
FILE_NAMES = tuple(f"mcp-resources{suffix}" for suffix in SUFFIXES)
"""The manifest that a folder is served by, where it has one; the first is what `init` writes."""

_DATABASE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_SQLITE = b"SQLite format 3\0"


def is_source(argument: str) -> bool:
    """Whether a command line's first argument is a source; otherwise it is a resource's URI."""
    return is_database_url(argument) or _exists(argument)


def manifest_file(source: str | None = None) -> pathlib.Path | None:
    """Return where the manifest of a source is, or would be; None where there can be none.

    Raises:
        ManifestError: a folder with more than one.
    """
    if source is not None and is_database_url(source):
        return None
    path = pathlib.Path(source or ".")
    if path.is_dir():
        return _manifest_of(path) or path / FILE_NAMES[0]
    return path if path.suffix.lower() in SUFFIXES else None


def database(source: str) -> DatabaseUrl | None:
    """Return the database that a source names by its file or URL; None where it is none.

    Raises:
        ManifestError: it names one, but not one that can be read.
    """
    if is_database_url(source):
        try:
            url = resolve_database_url(parse_database_url(source), pathlib.Path.cwd())
        except ValueError as error:
            _refuse(source.partition("://")[0] + "://…", str(error))
        if url.engine == "sqlite":
            _check_file(pathlib.Path(url.database), source)
        return url
    path = pathlib.Path(source)
    with contextlib.suppress(OSError, ValueError):
        if path.suffix.lower() in _DATABASE_SUFFIXES and not path.is_dir():
            _check_file(path, source)
            return sqlite_url(path)
        if path.is_file() and _header(path) == _SQLITE:
            return sqlite_url(path)
    return None


def _exists(argument: str) -> bool:
    try:
        return os.path.lexists(argument)
    except ValueError:
        return False


def find(source: str | None = None, *, find_class: FindClass | None = None) -> Manifest:
    """Return the manifest of a source: a manifest file, a folder, or a database's file or URL.

    Without a source, that of the current folder. `find_class` is as in `load.load`.

    Raises:
        ManifestError: no such source, or what is wrong with its manifest.
    """
    if source is None:
        source = "."
    if not source:
        _refuse("source", "is empty; name a folder, a manifest or a database")
    if (url := database(source)) is not None:
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
        # Imported here: a folder is served without YAML and pydantic.
        from resource_server.manifest.load import load

        return load(path, find_class=find_class)
    return _refuse(
        str(path),
        "neither a manifest, whose name ends in .yaml, nor a SQLite database; "
        "serve the folder it is in instead",
    )


def _header(path: pathlib.Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_SQLITE))


def _check_file(path: pathlib.Path, source: str) -> None:
    """Refuse what cannot be a SQLite database, and say why."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            _refuse(source, "not a file; a SQLite database is one")
        header = _header(path)
    except FileNotFoundError:
        _refuse(source, "no such file; databases are read, never made")
    except (OSError, ValueError) as error:
        _refuse(source, f"cannot be read: {_reason(error)}")
    if not header:
        _refuse(source, "an empty file; a database has a table at least")
    if header != _SQLITE:
        _refuse(source, "not a SQLite database, or an encrypted one")


def _reason(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or "not a file name"
    return f"{reason[:1].lower()}{reason[1:]}"


def _folder(path: pathlib.Path, find_class: FindClass | None) -> Manifest:
    file = _manifest_of(path)
    if file is not None:
        return _file(file, find_class)
    # Listing needs no more than this; a folder that cannot be opened is said so now.
    os.scandir(path).close()
    return _without_manifest(path)


def _manifest_of(folder: pathlib.Path) -> pathlib.Path | None:
    files = [folder / name for name in FILE_NAMES if _exists(str(folder / name))]
    if len(files) > 1:
        names = " and ".join(file.name for file in files)
        _refuse(
            str(folder), f"has more than one manifest, {names}; keep one, or name the one meant"
        )
    return files[0] if files else None


def _without_manifest(path: pathlib.Path) -> Manifest:
    """Return the manifest of a folder without one: a single root named after it."""
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


def _of_database(url: DatabaseUrl) -> Manifest:
    """Return the manifest of a database alone, named after it."""
    # Imported here: a folder is served without it.
    from resource_server.providers.database.provider import Database

    name, title = database_name(url)
    try:
        provider = Database(url=url.text)
    except MountUnavailable as error:  # its driver is not installed
        _refuse(redacted_url(url.text), str(error))
    spec = MountSpec(
        name=name,
        base=f"{url.engine}://{name}/",
        use=provider,
        title=title if title != name else None,
        path=("databases", name),
    )
    is_file = url.engine == "sqlite"
    directory = pathlib.Path(url.database).parent if is_file else pathlib.Path.cwd()
    return Manifest(file=None, directory=directory, mounts=(spec,))


def database_name(url: DatabaseUrl) -> tuple[str, str]:
    """Return a mount's name and title for a database: `("my-shop", "My Shop")`."""
    title = pathlib.PurePath(url.database).stem if url.engine == "sqlite" else url.database
    title = display(title)
    name = re.sub(r"[^a-z0-9_-]+", "-", title.lower()).strip("-")[:64]
    return name or "database", title or "database"


def mount_name(folder: pathlib.Path) -> tuple[str, str]:
    """Return a mount's name and title for a folder: `("my-project", "My project")`."""
    title = display((folder if folder.name.strip(".") else folder.resolve()).name)
    return titled(title), title or "root"


def titled(title: str) -> str:
    """Return the name of a mount with this title."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", title).strip("-._")[:64] or "root"


def _refuse(source: str, message: str) -> NoReturn:
    # It may be the URL of a database that is not supported, with its password.
    place = printable(redacted_url(source), longest=4096)
    raise ManifestError([Diagnostic(place, 0, 0, "", message)])
