"""A folder with a bit of everything, and how tests look at it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path

from resource_server import plugins
from resource_server.errors import ResourceNotFound
from resource_server.provider import Path as Address
from resource_server.provider import Resource, ResourceType, SupportsLevels
from resource_server.providers.filesystem import Filesystem
from resource_server.runtime.eager import settle

TYPES: tuple[ResourceType, ...] = ("collection", "document")


def from_manifest(root: Path, options: Mapping[str, object]) -> Filesystem:
    """Return the provider of a root with these options, as a manifest makes it."""
    file = root.parent / "mcp-resources.yaml"
    file.write_text(json.dumps({"roots": {"r": {"path": str(root), **options}}}))
    manifest = plugins.find_with_plugins(str(file))
    provider = plugins.load_provider(manifest.mounts[0], manifest)
    assert isinstance(provider, Filesystem)
    return provider


TREE = (
    "README.md",
    "a.txt",
    "a/x.txt",
    "a/b/y.txt",
    "a-b/z.txt",
    "empty/",
    "src/main.py",
    "src/build/out.o",
    "src/.gitignore",
    "src/deep/er/file.md",
    ".hidden/x",
    "server.pem",
)


SHOWN = [
    "README.md",
    "a",
    "a/b",
    "a/b/y.txt",
    "a/x.txt",
    "a-b",
    "a-b/z.txt",
    "a.txt",
    "empty",
    "src",
    "src/deep",
    "src/deep/er",
    "src/deep/er/file.md",
    "src/main.py",
]


def plant(root: Path, names: Iterable[str]) -> Path:
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("build\n" if name.endswith(".gitignore") else f"body of {name}\n")
    return root


def address(path: str) -> Address:
    return tuple(path.split("/")) if path else ()


def names(resources: Sequence[Resource]) -> list[str]:
    return ["/".join(entry.path) for entry in resources]


async def all_listed(provider: SupportsLevels, limit: int = 100) -> list[Resource]:
    """Return all that is listed, fetched level by level in pages, in the order of paths."""
    found: list[Resource] = []
    for depth in count(1):
        level: list[Resource] = []
        for type in TYPES:
            after: Address | None = None
            while page := await settle(provider.level(depth, type, after=after, limit=limit)):
                level += page
                after = page[-1].path
        found += level
        if not any(each.type == "collection" for each in level):
            break
    return sorted(found, key=lambda each: each.path)


async def walk(provider: SupportsLevels, limit: int = 100) -> list[str]:
    """Return the paths of all that is listed, fetched in pages."""
    return names(await all_listed(provider, limit))


async def children(provider: Filesystem, parent: str = "", limit: int = 100_000) -> list[str]:
    return names(await settle(provider.list(address(parent), after=None, limit=limit)))


async def body(provider: Filesystem, path: str, **query: str) -> str | bytes:
    [content] = await settle(provider.read(address(path), query))
    return content.data


async def is_absent(provider: Filesystem, path: str) -> bool:
    """Say whether every way to a path ends in the same answer as for one that never was."""
    for attempt in (
        lambda: provider.metadata(address(path)),
        lambda: provider.read(address(path), {}),
        lambda: provider.list(address(path), after=None, limit=10),
    ):
        try:
            await settle(attempt())
        except ResourceNotFound:
            continue
        return False
    typed = path.rpartition("/")[0]
    offered = await settle(provider.complete("path", f"{typed}/" if typed else "", given={}))
    return path not in offered and f"{path}/" not in offered
