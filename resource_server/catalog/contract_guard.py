"""The one gate to a provider: its children, what lies below them, and what is read, as promised.

Whatever is listed, read or searched comes through here, and what breaks the contract in a way that
could lead in circles ends here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from resource_server.catalog.mount import Mount
from resource_server.errors import NotACollection, ResourceNotFound, ResourceServerError
from resource_server.provider import Content, Path, Provider, Resource
from resource_server.runtime.eager import settle

Progress: TypeAlias = Callable[[int, int | None], None]
"""Called with how many items are done, and of how many where that is known."""


async def fetch(
    mount: Mount, path: Path, query: Mapping[str, str]
) -> tuple[Resource, Sequence[Content]]:
    """Return a resource's metadata and, for a document, its contents."""
    if mount.fetches is not None:
        return await settle(mount.fetches.fetch(path, query))
    # The metadata first: content that is newer than its version says too little, never too much.
    resource = await settle(mount.provider.metadata(path))
    if resource.type == "collection":
        return resource, ()
    return resource, await settle(mount.provider.read(path, query))


async def children(
    provider: Provider, parent: Path, *, after: Path | None, limit: int
) -> Sequence[Resource]:
    """Return the direct children of a collection, if the provider keeps to the contract.

    Raises:
        ResourceServerError: it does not. A child outside its parent could lead in circles, and a
            listing that begins again would never end.
    """
    found = await settle(provider.list(parent, after=after, limit=limit))
    for child in found:
        if child.path[:-1] != parent or not child.path:
            raise ResourceServerError("list() returned a resource that is no child of its parent")
    _check_order("list", found, after)
    return found


async def descend(mount: Mount, *, after: Path | None, limit: int) -> Sequence[Resource]:
    """Return what comes after `after` in one mount, depth first; None begins with the mount."""
    found: list[Resource] = []
    if after is None:
        found.append(await settle(mount.provider.metadata(())))
    if limit > len(found):
        found += await below(mount, (), after=after or (), limit=limit - len(found))
    return found


async def below(
    mount: Mount, path: Path, *, after: Path, limit: int, unlisted: bool = False
) -> Sequence[Resource]:
    """Return what lies below a collection and comes after `after`, itself or below it, depth first.

    What is not listed is left out with all below it, unless `unlisted`.
    """
    if mount.walks is not None and not path and not unlisted:
        found = await settle(mount.walks.walk(after=after or None, limit=limit))
        _check_order("walk", found, after)
        return found
    return await _walk(mount.provider, path, after, limit, unlisted=unlisted)


def _check_order(name: str, found: Sequence[Resource], after: Path | None) -> None:
    if after in [resource.path for resource in found]:
        raise ResourceServerError(f"{name}() returned `after` again, not what follows it")


class _Level(msgspec.Struct):
    """One collection on the way down of `_walk`: what was fetched of it and not yet used."""

    parent: Path
    last: Path | None
    pending: deque[Resource]
    ended: bool = False


async def _walk(
    provider: Provider, top: Path, after: Path, limit: int, *, unlisted: bool
) -> list[Resource]:
    levels = [
        _Level(after[:depth], after[: depth + 1], deque()) for depth in range(len(top), len(after))
    ]
    levels.append(_Level(after, None, deque()))
    found: list[Resource] = []
    while levels and len(found) < limit:
        level = levels[-1]
        if level.pending:
            resource = level.pending.popleft()
            if resource.listed or unlisted:
                found.append(resource)
                if resource.type == "collection":
                    levels.append(_Level(resource.path, None, deque()))
        elif level.ended:
            levels.pop()
        else:
            wanted = limit - len(found)
            try:
                some = await children(provider, level.parent, after=level.last, limit=wanted)
            except (ResourceNotFound, NotACollection):
                some = ()  # gone since the last page, or a document: nothing lies below it
            level.pending.extend(some)
            level.ended = len(some) < wanted
            if some:
                level.last = some[-1].path
    return found
