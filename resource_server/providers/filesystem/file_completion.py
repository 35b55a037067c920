"""Completion of paths in a folder, one segment after the other."""

from __future__ import annotations

from collections.abc import Sequence

from resource_server.documents.worker_threads import Steps
from resource_server.errors import NotACollection, ResourceError, ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.runtime.near_name import as_typed

_MANY_NAMES = 4096
"""Maximum names completed on the event loop; more are completed in a thread."""


def completed_paths(tree: FileTree, parent: Path, typed: str) -> Steps[Sequence[str]]:
    """Return the paths of the readable entries of a directory whose names contain what is typed."""
    try:
        directory, listing = yield from tree.names(parent)
    except (ResourceNotFound, NotACollection):
        return ()
    if len(listing.names) > _MANY_NAMES or directory.rules.is_open:
        yield
    if parent and not tree.leads_on(directory):
        return ()
    # Without links and options for single directories, the listing alone decides.
    plain = not (tree.exposure.directories or directory.rules.is_open or tree.follow_links)
    special = frozenset[str]() if plain else listing.links | listing.directories
    start = "".join(f"{segment}/" for segment in parent)
    typed = as_typed(typed).casefold()
    found: list[str] = []
    for name in listing.names:
        if typed not in as_typed(name).casefold():
            continue
        is_directory, readable = name in listing.directories, directory.rules.readable
        if name in special:
            try:
                below = tree.find((*parent, name))
            except ResourceError:
                continue
            is_directory, readable = below.directory is not None, below.rules.readable
        if readable:
            found.append(f"{start}{name}/" if is_directory else start + name)
    return found
