"""Why something in a folder is shown or not: for its operator, never for a client."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterable

from resource_server import uris
from resource_server.errors import ResourceError, ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.filesystem.directory import Directory
from resource_server.providers.filesystem.tree import Tree


def hidden(tree: Tree, limit: int) -> list[tuple[Path, str]]:
    """Return up to `limit` entries that are not exposed, each with its rule. May take long.

    Nothing below a hidden directory is named.
    """
    found: list[tuple[Path, str]] = []
    pending: list[Path] = [()]
    while pending and len(found) < limit:
        path = pending.pop()
        try:
            outer, listing = tree.names(path, patient=True)
            fd, _ = tree.root.open_directory(outer.path)
        except ResourceError:
            continue
        try:
            names = set(os.listdir(fd))
        finally:
            os.close(fd)
        for name in sorted(names.difference(listing.names)):
            reason = _hidden_by(tree, outer, name, (*path, name))
            if reason is not None:
                found.append(((*path, name), reason))
        pending += [(*path, name) for name in sorted(listing.directories, reverse=True)]
    return found[:limit]


def explain(tree: Tree, path: Path) -> str:
    """Return one sentence naming the rule that hides an entry or one above it."""
    try:
        for depth, name in enumerate(path, 1):
            outer = tree.find(path[: depth - 1]).directory
            if outer is None:
                return f"'{_shown(path[: depth - 1])}' is a file: nothing lies below it"
            reason = _hidden_by(tree, outer, name, path[:depth])
            if reason is not None:
                place = "" if depth == len(path) else f"in '{_shown(path[:depth])}': "
                return place + reason
        found = tree.find(path)
    except ResourceNotFound:
        return "behind a loop of symbolic links, or the root itself is gone"
    text = "exposed" if found.scope.readable else "listed, never read: readable: false"
    return f"{text}{_whose(tree, [found.key, '/'.join(path)])}"


def _whose(tree: Tree, keys: Iterable[str]) -> str:
    """Return which scopes are needed for what has these paths, and what says so."""
    needed: dict[str, str] = {}
    for key in keys:
        for directory, options in tree.rules.directories.items():
            if options.access.scopes and f"{key}/".startswith(f"{directory}/"):
                scopes = ", ".join(options.access.scopes)
                needed[directory] = f"to who has {scopes} (directories.{directory}.access)"
    return "".join(f", {each}" for each in needed.values())


def _hidden_by(tree: Tree, outer: Directory, name: str, path: Path) -> str | None:
    try:
        mode = tree.directories.status(outer.prefix + name).st_mode
    except ResourceError:
        mode = 0
    reason = tree.rules.hidden_by(outer.scope, outer.prefix, name, is_directory=modes.S_ISDIR(mode))
    if reason is not None:
        return reason
    if mode == 0:
        return "no such file or directory"
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
