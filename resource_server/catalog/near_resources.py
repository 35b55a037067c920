"""Visible resources whose URIs are near one that does not exist: "did you mean".

Everything comes from listings and searches as the caller sees them, so nothing hidden is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.federated_search import phrase
from resource_server.catalog.mount import Mount, log_failure
from resource_server.errors import ResourceNotFound, ResourceServerError
from resource_server.provider import Path, Resource
from resource_server.runtime.eager import settle, within

MAX_SUGGESTIONS = 3

_PAGE = 100
_MAX_NAMES = 2000
"""Maximum children that are compared with a name."""
_MANY_NAMES = 100
"""More names are compared in a thread."""
_MAX_LENGTH = 64
"""Characters of a name that are compared: the comparison takes quadratic time."""
_MAX_DEPTH = 64
_LIKENESS = 0.6


async def near_resources(catalog: Catalog, uri: str, *, elsewhere: bool = False) -> Sequence[str]:
    """Return the URIs of up to three visible resources like `uri`, which names none, best first.

    With `elsewhere`, resources of its name in other places and mounts count too, which takes a
    search; otherwise a URI of no mount costs nothing. What fails or takes longer than
    `suggest_s` is left out.
    """
    found: dict[str, None] = {}
    for search in (_siblings, _in_any_mount, _elsewhere) if elsewhere else (_siblings,):
        if len(found) < MAX_SUGGESTIONS:
            try:
                found |= dict.fromkeys(await within(catalog.timing.suggest_s, search(catalog, uri)))
            except ResourceServerError:
                continue
            except Exception as error:  # the code of a plugin
                log_failure(error, "looking for similar resources failed")
    with suppress(ResourceNotFound):
        mount, path, _ = catalog.route(uri)
        found.pop(mount.uri(path), None)  # there, but not readable
    return [*found][:MAX_SUGGESTIONS]


async def _siblings(catalog: Catalog, uri: str) -> Sequence[str]:
    """Return resources of the same mount whose path differs in one segment."""
    mount, path, _ = catalog.route(uri)
    await mount.start()
    known = 0
    while known < min(len(path), _MAX_DEPTH) and await _found(mount, path[: known + 1]):
        known += 1
    if known == len(path):
        return ()
    parent, name, rest = path[:known], path[known], path[known + 1 :]
    names = [child.path[-1] for child in await _children(mount, parent)]
    found: list[str] = []
    for near in await _near(name, names):
        whole = (*parent, near, *rest)
        found.append(mount.uri(whole if rest and await _found(mount, whole) else (*parent, near)))
    return found


async def _in_any_mount(catalog: Catalog, uri: str) -> Sequence[str]:
    """Return what a path without a base URI names, or the base URIs that are near."""
    with suppress(ResourceNotFound):
        catalog.route(uri)
        return ()
    mounts = [mount for mount in catalog.visibility.current().mounts if mount.listed]
    path = tuple(each for each in uri.removeprefix("file://").split("/") if each not in ("", "."))
    if path and len(path) <= _MAX_DEPTH and all(map(uris.is_segment, path)):
        found: list[str] = []
        for mount in mounts:
            try:
                found += await _in_mount(mount, path)
            except Exception as error:  # it must not hide what others have
                log_failure(error, "looking for similar resources failed")
        if found:
            return found
    roots = {mount.uri(()): mount for mount in mounts}
    return await _near(uri, [*roots])


async def _in_mount(mount: Mount, path: Path) -> Sequence[str]:
    """Return what a path names in a mount, whose own name may be its first segment."""
    await mount.start()
    return [mount.uri(below) for below in (path, path[1:]) if below and await _found(mount, below)]


async def _elsewhere(catalog: Catalog, uri: str) -> Sequence[str]:
    """Return resources of the same name, or of one like it that contains it, in another place."""
    name = uris.unquote_path(uri.partition("?")[0].rstrip("/").rpartition("/")[2])
    root: str | None = None
    with suppress(ResourceNotFound):
        root = catalog.route(uri)[0].uri(())
    results = await catalog.search(phrase(name), uri=root, where="names", limit=MAX_SUGGESTIONS)
    return [
        hit.entry.uri
        for hit in results.hits
        if _near_names(name, [hit.entry.uri.rpartition("/")[2], hit.entry.resource.name])
    ]


async def _found(mount: Mount, path: Path) -> Resource | None:
    try:
        return await mount.provider.metadata(path)
    except ResourceNotFound:
        return None


async def _children(mount: Mount, parent: Path) -> Sequence[Resource]:
    """Return the first listed children; rows of a table are not listed."""
    found: list[Resource] = []
    after: Path | None = None
    while len(found) < _MAX_NAMES:
        page = await mount.provider.list(parent, after=after, limit=_PAGE)
        found += [child for child in page if child.listed]
        if len(page) < _PAGE or not page[-1].listed:
            break
        after = page[-1].path
    return found


async def _near(name: str, names: Sequence[str]) -> Sequence[str]:
    if len(names) <= _MANY_NAMES:
        return _near_names(name, names)
    from anyio import to_thread  # slow to import, and rarely needed

    return await settle(to_thread.run_sync(_near_names, name, names))


def _near_names(name: str, names: Iterable[str]) -> list[str]:
    """Return the names most like another, best first; case does not count."""
    import difflib  # here: only mistakes need it

    matcher = difflib.SequenceMatcher(b=name[:_MAX_LENGTH].casefold())
    likeness: list[tuple[float, str]] = []
    for each in names:
        matcher.set_seq1(each[:_MAX_LENGTH].casefold())
        if matcher.real_quick_ratio() >= _LIKENESS and matcher.quick_ratio() >= _LIKENESS:
            likeness.append((-matcher.ratio(), each))
    return [each for ratio, each in sorted(likeness)[:MAX_SUGGESTIONS] if -ratio >= _LIKENESS]
