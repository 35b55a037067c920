"""What the command line names, a folder or a manifest or nothing, as a manifest."""

from __future__ import annotations

import os
import pathlib
import re
import stat
from typing import TYPE_CHECKING, NoReturn

from resource_server.errors import Diagnostic, ManifestError
from resource_server.manifest.model import Manifest, MountSpec
from resource_server.manifest.wording import printable
from resource_server.uris import display

if TYPE_CHECKING:
    from resource_server.manifest.decode import FindClass

FILE_NAME = "mcp-resources.yaml"
"""The manifest that a folder is served by, where it has one."""

_SUFFIXES = (".yaml", ".yml", ".json")
_DATABASE_URL = re.compile(r"sqlite:///|[a-z][a-z0-9]*\+[a-z0-9_]+://", re.IGNORECASE)
_SQLITE = b"SQLite format 3\0"
_NO_DATABASES = "databases are not supported by this version"


def is_source(argument: str) -> bool:
    """Whether a command line's first argument is a source; otherwise it is a resource's URI."""
    return bool(_DATABASE_URL.match(argument)) or _exists(argument)


def _exists(argument: str) -> bool:
    try:
        return os.path.lexists(argument)
    except ValueError:
        return False


def find(source: str | None = None, *, find_class: FindClass | None = None) -> Manifest:
    """Return the manifest of a source: a manifest file, or a folder with or without one.

    Without a source, that of the current folder. `find_class` is as in `load.load`.

    Raises:
        ManifestError: no such source, or what is wrong with its manifest.
    """
    if source is None:
        source = "."
    if _DATABASE_URL.match(source):
        # Not the URL itself: it may hold a password.
        _refuse(source.partition("://")[0] + "://…", _NO_DATABASES)
    if not source:
        _refuse("source", "is empty; name a folder or a manifest")
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
        reason = getattr(error, "strerror", None) or "not a file name"
        _refuse(source, f"cannot be read: {reason[:1].lower()}{reason[1:]}")
    return _refuse(source, "neither a file nor a folder")


def _file(path: pathlib.Path, find_class: FindClass | None) -> Manifest:
    if path.suffix.lower() in _SUFFIXES:
        # Imported here: a folder is served without YAML and pydantic.
        from resource_server.manifest.load import load

        return load(path, find_class=find_class)
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:
            _refuse(str(path), _NO_DATABASES)
    return _refuse(
        str(path), "not a manifest, whose name ends in .yaml; serve the folder it is in instead"
    )


def _folder(path: pathlib.Path, find_class: FindClass | None) -> Manifest:
    file = path / FILE_NAME
    if _exists(str(file)):
        return _file(file, find_class)
    # Listing needs no more than this; a folder that cannot be opened is said so now.
    os.scandir(path).close()
    return _without_manifest(path)


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


def mount_name(folder: pathlib.Path) -> tuple[str, str]:
    """Return a mount's name and title for a folder: `("my-project", "My project")`."""
    title = display((folder if folder.name.strip(".") else folder.resolve()).name)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", title).strip("-._")[:64]
    return name or "root", title or "root"


def _refuse(source: str, message: str) -> NoReturn:
    raise ManifestError([Diagnostic(printable(source, longest=4096), 0, 0, "", message)])
