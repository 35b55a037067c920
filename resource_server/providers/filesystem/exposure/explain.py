"""Explanations why an entry is exposed or hidden: for the operator, never for clients."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterable
from contextlib import suppress

from resource_server import uris
from resource_server.errors import ResourceError, ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.filesystem.directory import Directory
from resource_server.providers.filesystem.file_tree import FileTree, TreeEntry
from resource_server.providers.filesystem.worker_threads import finish
from resource_server.runtime.near_name import as_typed, near_name


def hidden_entries(tree: FileTree, limit: int) -> list[tuple[Path, str]]:
    """Return up to `limit` hidden entries, each with the rule that hides it. May take long.

    Entries below a hidden directory are left out.
    """
    found: list[tuple[Path, str]] = []
    pending: list[Path] = [()]
    while pending and len(found) < limit:
        path = pending.pop()
        try:
            parent, listing = finish(tree.names(path))
            fd, _ = tree.root.open_directory(parent.path)
        except ResourceError:
            continue
        try:
            names = set(os.listdir(fd))
        finally:
            os.close(fd)
        for name in sorted(names.difference(listing.names)):
            reason = _hidden_by(tree, parent, name, (*path, name))
            if reason is not None:
                found.append(((*path, name), reason))
        pending += [(*path, name) for name in sorted(listing.directories, reverse=True)]
    return found[:limit]


def explain(tree: FileTree, path: Path) -> str:
    """Return the rule that hides an entry or an ancestor of it, or `exposed`, as a sentence."""
    try:
        for depth, name in enumerate(path, 1):
            parent = tree.find(path[: depth - 1]).directory
            if parent is None:
                return f"'{_shown(path[: depth - 1])}' is a file: nothing lies below it"
            reason = _hidden_by(tree, parent, name, path[:depth])
            if reason is not None:
                place = "" if depth == len(path) else f"in '{_shown(path[:depth])}': "
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


def misnamed_directories(tree: FileTree) -> list[tuple[str, str]]:
    """Return the keys of `directories` that name no directory, each with the problem.

    Keys inside directories that cannot be listed are skipped. May take long.
    """
    found = [
        (key, _problem(tree, tuple(key.split("/")), is_exposed=options.exposed))
        for key, options in tree.exposure.directories.items()
    ]
    return [(key, problem) for key, problem in found if problem is not None]


def _problem(tree: FileTree, path: Path, *, is_exposed: bool) -> str | None:
    real: Path = ()
    for depth, name in enumerate(path):
        try:
            fd, _ = tree.root.open_directory(real)
        except ResourceError:
            return None
        # Listed, not looked up: the file system may ignore case, the rules do not.
        try:
            with os.scandir(fd) as entries:
                names = {
                    as_typed(each.name): (each.name, each.is_dir(follow_symlinks=False))
                    for each in entries
                }
        finally:
            os.close(fd)
        if name not in names:
            near = near_name(name, [known for known, (_, is_dir) in names.items() if is_dir])
            if near is None:
                return "no such directory"
            meant = _shown((*path[:depth], near, *path[depth + 1 :]))
            return f"no such directory; did you mean '{meant}'?"
        written, is_directory = names[name]
        real = (*real, written)
        if not is_directory:
            # `exposed: false` hides files and links, too.
            works = depth == len(path) - 1 and not is_exposed
            return None if works else f"'{_shown(path[: depth + 1])}' is no directory"
    return None


def _required_scopes(tree: FileTree, keys: Iterable[str]) -> str:
    """Return the scopes that these paths require, each with the option that requires them."""
    needed: dict[str, str] = {}
    for key in keys:
        for directory, options in tree.exposure.directories.items():
            if options.access.scopes and f"{key}/".startswith(f"{directory}/"):
                scopes = ", ".join(options.access.scopes)
                needed[directory] = f"to callers with {scopes} (directories.{directory}.access)"
    return "".join(f", {each}" for each in needed.values())


def _hidden_by(tree: FileTree, parent: Directory, name: str, path: Path) -> str | None:
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


def _shown(path: Path) -> str:
    return uris.display("/".join(path))
