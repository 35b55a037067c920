"""The place of the record of reads, which no mount may serve."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable
from fnmatch import fnmatch

from resource_server.manifest.data import DataPath
from resource_server.manifest.databases.database_url import parse_database_url, resolve_database_url
from resource_server.manifest.model import MountSpec


def place_that_serves(
    file: pathlib.Path, specs: Iterable[MountSpec], directory: pathlib.Path
) -> DataPath | None:
    """Return the option of a mount that would serve a file, or its renamed files; None without one.

    Blocks on the file system: symbolic links on the way to either count.
    """
    real = pathlib.Path(os.path.realpath(file.absolute().parent)) / file.name
    for spec in specs:
        own = spec.origin.directory if spec.origin is not None else directory
        path = _option(spec, "path")
        is_folder = path is not None and "://" not in path and spec.client is None
        if is_folder and real.is_relative_to(os.path.realpath(own / str(path))):
            return (*spec.path, "path")
        url = _option(spec, "url")
        if url is not None and spec.path[:1] == ("databases",) and _matches(url, own, real):
            return (*spec.path, "url")
    return None


def _option(spec: MountSpec, name: str) -> str | None:
    """Return the option of a mount, whose provider may have been made already."""
    found = spec.options.get(name, getattr(spec.use, name, None))
    return str(found) if isinstance(found, str | pathlib.Path) else None


def _matches(url: str, directory: pathlib.Path, file: pathlib.Path) -> bool:
    """Return whether the data files of a URL may be a record."""
    try:
        found = resolve_database_url(parse_database_url(url), directory)
    except ValueError:
        return False  # reported where it stands
    if not found.is_file:
        return False
    # Imported here: most manifests have no record.
    from resource_server.audit.audit_file import names_of

    names = names_of(file.name)
    real = pathlib.Path(os.path.realpath(found.database))
    if real.parent == file.parent and real.name in names:
        return True  # a link that the URL names; none is followed where a pattern matches
    if not file.is_relative_to(os.path.realpath(found.folder)):
        return False
    pattern = pathlib.Path(found.database).name
    return any(fnmatch(name, pattern) for name in (*names, f"{file.name}.1"))
