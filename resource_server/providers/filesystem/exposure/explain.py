"""Explanations why an entry is exposed or hidden: for the operator, never for clients."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from resource_server import uris
from resource_server.documents.worker_threads import finish
from resource_server.errors import ResourceError, ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.filesystem.contained_root import resource_error
from resource_server.providers.filesystem.directory import Directory, DirectoryListing
from resource_server.providers.filesystem.file_tree import FileTree, TreeEntry

_NOTHING_INCLUDED = "nothing in it is included"


def hidden_entries(tree: FileTree, limit: int) -> list[tuple[Path, str]]:
    """Return up to `limit` hidden entries, each with the rule that hides it. May take long.

    Entries below a hidden directory are left out.
    """
    found: list[tuple[Path, str]] = []
    without: Path | None = None
    for each in exposed_directories(tree):
        if without is not None and each.path[: len(without)] == without:
            continue
        if each.path and not tree.leads_on(each.directory):
            without = each.path
            found.append((without, _NOTHING_INCLUDED))
            continue
        for name in sorted(each.names.keys() - set(each.listing.names)):
            path = (*each.path, name)
            reason = hidden_by(tree, each.directory, name, path)
            if reason is not None:
                found.append((path, reason))
        if len(found) >= limit:
            break
    return found[:limit]


class ExposedDirectory(NamedTuple):
    """An exposed directory, its exposed names, and all of its names."""

    path: Path
    directory: Directory
    listing: DirectoryListing
    names: Mapping[str, bool]
    """Whether each is a directory."""


def exposed_directories(tree: FileTree) -> Iterator[ExposedDirectory]:
    """Yield the directories that can be listed and are exposed, or left empty by `include`."""
    pending: list[Path] = [()]
    while pending:
        path = pending.pop()
        try:
            parent, listing = finish(tree.names(path))
            names = entry_names(tree, parent.path)
        except ResourceError:
            continue
        yield ExposedDirectory(path, parent, listing, names)
        pending += [(*path, name) for name in sorted(listing.directories, reverse=True)]


def entry_names(tree: FileTree, path: Path) -> Mapping[str, bool]:
    """Return all names in a directory, hidden or not, and whether each is a directory.

    Raises:
        ResourceError: it cannot be listed.
    """
    fd, _ = tree.root.open_directory(path)
    try:
        with os.scandir(fd) as entries:
            return {each.name: each.is_dir(follow_symlinks=False) for each in entries}
    except OSError as error:
        raise resource_error(error) from None
    finally:
        os.close(fd)


def explain(tree: FileTree, path: Path) -> str:
    """Return the rule that hides an entry or an ancestor of it, or `exposed`, as a sentence."""
    try:
        for depth, name in enumerate(path, 1):
            parent = tree.directory(path[: depth - 1])
            if parent is None:
                return f"'{shown_path(path[: depth - 1])}' is a file: nothing lies below it"
            reason = hidden_by(tree, parent, name, path[:depth])
            if reason is not None:
                place = "" if depth == len(path) else f"in '{shown_path(path[:depth])}': "
                return place + reason
        found = tree.find(path)
    except ResourceNotFound:
        return "behind a loop of symbolic links, or the root itself is gone"
    text = "exposed" if found.rules.readable else "listed, never read: readable: false"
    if not _opens(tree, found):
        text = "exposed by the rules, but this process may not read it; give its user permission"
    return f"{text}{_required_scopes(tree, [found.key, '/'.join(path)])}"


def _opens(tree: FileTree, entry: TreeEntry) -> bool:
    path = tuple(entry.key.split("/")) if entry.key else ()
    try:
        if entry.directory is None:
            fd, _ = tree.root.open_file(path)
        else:
            fd, _ = tree.root.open_directory(path)
    except ResourceError:
        return False
    os.close(fd)
    return True


def _required_scopes(tree: FileTree, keys: Iterable[str]) -> str:
    """Return the scopes that these paths require, each with the option that requires them."""
    needed: dict[str, str] = {}
    for key in keys:
        for directory, options in tree.exposure.directories.items():
            if options.access.scopes and f"{key}/".startswith(f"{directory}/"):
                scopes = ", ".join(options.access.scopes)
                needed[directory] = f"to callers with {scopes} (directories.{directory}.access)"
    return "".join(f", {each}" for each in needed.values())


def hidden_by(tree: FileTree, parent: Directory, name: str, path: Path) -> str | None:
    """Return the rule that hides an entry of an exposed directory, or None."""
    status = None
    with suppress(ResourceError):
        status = tree.directories.status(parent.prefix + name)
    mode = 0 if status is None else status.st_mode
    reason = tree.exposure.hidden_by(
        parent.rules, parent.prefix, name, is_directory=modes.S_ISDIR(mode)
    )
    if reason is not None:
        return reason
    if status is None:
        return "no such file or directory"
    if modes.S_ISREG(mode) and (withheld := tree.exposure.withholds(parent.prefix, name, status)):
        return f"{withheld}, unless secrets: {{allow: [...]}} names it"
    if modes.S_ISDIR(mode) and not tree.leads_on(tree.directory(path)):
        return _NOTHING_INCLUDED
    if modes.S_ISREG(mode) or modes.S_ISDIR(mode):
        return None
    if not modes.S_ISLNK(mode):
        return "neither a file nor a directory"
    if not tree.follow_links:
        return "symbolic link"
    try:
        tree.find(path)
    except ResourceNotFound:
        return "symbolic link to what is not exposed, or not below the root"
    return None


def shown_path(path: Path) -> str:
    """Return a path for people."""
    return uris.display("/".join(path))
