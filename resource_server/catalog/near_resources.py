"""Visible resources that a text may mean which is no URI of one: "did you mean".

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
    further = (_in_any_mount, _near_mounts, _elsewhere, _above) if elsewhere else ()
    for search in (_unescaped, _siblings, *further):
        if len(found) < MAX_SUGGESTIONS and not (found and search is _above):
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


async def meant_uri(catalog: Catalog, text: str) -> str | None:
    """Return the URI of the only visible resource that a path names, or a key with plain slashes.

    A path is that below a mount, perhaps after its name: `docs/index.md`. Takes a look at every
    mount, for at most `suggest_s`.
    """
    bare, mark, parameters = text.partition("?")
    found: Sequence[str] = ()
    search = _unescaped if ":" in bare.partition("/")[0] else _in_any_mount
    with suppress(ResourceServerError):
        found = await within(catalog.timing.suggest_s, search(catalog, bare))
    return found[0] + mark + parameters if len(found) == 1 else None


def _has_tables(mount: Mount) -> bool:
    return "limit" in mount.provider.parameters


def _split(uri: str) -> str:
    """Return a URI in which an encoded slash is one, as people write it in the key of a row."""
    return uri.replace("%2F", "/").replace("%2f", "/")


async def _unescaped(catalog: Catalog, uri: str) -> Sequence[str]:
    """Return the row that a URI names if its encoded slashes are plain ones."""
    if (split := _split(uri)) == uri:
        return ()
    mount, path, _ = catalog.route(split)
    if not _has_tables(mount):
        return ()
    await mount.start()
    found = await _found(mount, path)
    return [] if found is None else [mount.uri(found.path)]


async def _known(mount: Mount, path: Path) -> int:
    """Return the number of the first segments of a path that name a resource."""
    await mount.start()
    known = 0
    while known < min(len(path), _MAX_DEPTH) and await _found(mount, path[: known + 1]):
        known += 1
    return known


async def _above(catalog: Catalog, uri: str) -> Sequence[str]:
    """Return the table of a missing row, or what else is nearest above it, except the mount."""
    mount, path, _ = catalog.route(uri)
    if not _has_tables(mount):
        return ()
    above = path[: await _known(mount, path)]
    found = await _found(mount, above) if above and above != path else None
    return [mount.uri(above)] if found is not None and found.type == "collection" else []


async def _siblings(catalog: Catalog, uri: str) -> Sequence[str]:
    """Return resources of the same mount whose path differs in one segment."""
    mount, path, _ = catalog.route(uri)
    known = await _known(mount, path)
    if known == len(path):
        return ()
    parent, name, rest = path[:known], path[known], path[known + 1 :]
    names = [child.path[-1] for child in await _children(mount, parent, name)]
    found: list[str] = []
    for near in await _near(name, names):
        whole = (*parent, near, *rest)
        found.append(mount.uri(whole if rest and await _found(mount, whole) else (*parent, near)))
    return found


async def _in_any_mount(catalog: Catalog, uri: str) -> Sequence[str]:
    """Return what a path without a base URI names."""
    with suppress(ResourceNotFound):
        catalog.route(uri)
        return ()
    text = uri.removeprefix("file://")
    found: list[str] = []
    for mount in _listed(catalog):
        written = (_split(text) if _has_tables(mount) else text).split("/")
        path = tuple(each for each in written if each not in ("", "."))
        if len(path) > _MAX_DEPTH or not all(map(uris.is_segment, path)):
            continue
        try:
            found += await _in_mount(mount, path)
        except Exception as error:  # it must not hide what others have
            log_failure(error, "looking for similar resources failed")
    return found


def _listed(catalog: Catalog) -> list[Mount]:
    return [mount for mount in catalog.visibility.current().mounts if mount.listed]


async def _near_mounts(catalog: Catalog, uri: str) -> Sequence[str]:
    """Return the base URIs near a URI of no mount."""
    with suppress(ResourceNotFound):
        catalog.route(uri)
        return ()
    return await _near(uri, [mount.uri(()) for mount in _listed(catalog)])


async def _in_mount(mount: Mount, path: Path) -> Sequence[str]:
    """Return what a path names in a mount, whose own name may be its first segment.

    Its segments are as tools print them, percent-encoded, or plain.
    """
    await mount.start()
    below = [path, path[1:]] if path and path[0] in (mount.name, _last_name(mount)) else [path]
    found: dict[str, None] = {}
    for each in filter(None, below):
        decoded = tuple(map(uris.unquote_segment, each))
        for spelled in dict.fromkeys((decoded, each)):
            resource = await _found(mount, spelled) if all(map(uris.is_segment, spelled)) else None
            if resource is not None:
                found[mount.uri(resource.path)] = None
                break
    return [*found]


def _last_name(mount: Mount) -> str:
    """Return the last name of the base URI of a mount."""
    return mount.uri(()).rpartition("/")[2]


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


async def _children(mount: Mount, parent: Path, name: str) -> Sequence[Resource]:
    """Return the first listed children; of a table, the first rows, too, unless keys are numbers.

    Rows are not listed.
    """
    found: list[Resource] = []
    after: Path | None = None
    with_rows = _has_tables(mount) and not name.isdecimal()
    while len(found) < _MAX_NAMES:
        page = await mount.provider.list(parent, after=after, limit=_PAGE)
        found += [child for child in page if child.listed or with_rows]
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
