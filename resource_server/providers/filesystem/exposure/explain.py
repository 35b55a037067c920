"""Why something in a folder is shown or not: for its operator, never for a client."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from resource_server import uris
from resource_server.errors import ResourceError, ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.filesystem.directory import Directory
from resource_server.providers.filesystem.file_tree import FileTree


def hidden(tree: FileTree, limit: int) -> list[tuple[Path, str]]:
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


def explain(tree: FileTree, path: Path) -> str:
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
    text = "exposed" if found.rules.readable else "listed, never read: readable: false"
    return f"{text}{_whose(tree, [found.key, '/'.join(path)])}"


def misnamed(tree: FileTree) -> list[tuple[str, str]]:
    """Return the keys of `directories` that name no directory, and what is wrong with each.

    Of those in a directory that cannot be listed nothing is told. May take long.
    """
    found = [
        (key, _wrong_with(tree, tuple(key.split("/")), is_shown=options.exposed))
        for key, options in tree.exposure.directories.items()
    ]
    return [(key, wrong) for key, wrong in found if wrong is not None]


def _wrong_with(tree: FileTree, path: Path, *, is_shown: bool) -> str | None:
    for depth, name in enumerate(path):
        try:
            fd, _ = tree.root.open_directory(path[:depth])
        except ResourceError:
            return None
        # Read, not looked up: the file system may find another spelling, which the rules do not.
        try:
            with os.scandir(fd) as entries:
                names = {each.name: each.is_dir(follow_symlinks=False) for each in entries}
        finally:
            os.close(fd)
        if name not in names:
            near = _near(name, [each for each, is_directory in names.items() if is_directory])
            meant = _shown((*path[:depth], near, *path[depth + 1 :])) if near else None
            return f"no such directory; did you mean '{meant}'?" if meant else "no such directory"
        if not names[name]:
            # A file or link is hidden by its name, too.
            works = depth == len(path) - 1 and not is_shown
            return None if works else f"'{_shown(path[: depth + 1])}' is no directory"
    return None


def _near(name: str, known: Sequence[str]) -> str | None:
    spelled = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), spelled, n=1)
    return spelled[found[0]] if found else None


def _whose(tree: FileTree, keys: Iterable[str]) -> str:
    """Return which scopes are needed for what has these paths, and what says so."""
    needed: dict[str, str] = {}
    for key in keys:
        for directory, options in tree.exposure.directories.items():
            if options.access.scopes and f"{key}/".startswith(f"{directory}/"):
                scopes = ", ".join(options.access.scopes)
                needed[directory] = f"to who has {scopes} (directories.{directory}.access)"
    return "".join(f", {each}" for each in needed.values())


def _hidden_by(tree: FileTree, outer: Directory, name: str, path: Path) -> str | None:
    try:
        mode = tree.directories.status(outer.prefix + name).st_mode
    except ResourceError:
        mode = 0
    reason = tree.exposure.hidden_by(
        outer.rules, outer.prefix, name, is_directory=modes.S_ISDIR(mode)
    )
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
