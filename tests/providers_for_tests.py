"""Providers that tests serve: trees of dicts, at once or slowly, and one that breaks its word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from resource_server.errors import InvalidParameter, NotACollection, ResourceNotFound
from resource_server.provider import (
    Change,
    Content,
    Format,
    Interest,
    MaybeAwaitable,
    Path,
    Provider,
    Resource,
    SupportsWatch,
    Template,
    Truncation,
)
from resource_server.provider.core import ResourceType
from tests.waiting import PATIENCE_S

MODIFIED = datetime(2026, 11, 20, 10, 0, 0, 123_000, UTC)


@dataclass(frozen=True)
class Leaf:
    """A document with more than a body: what to raise on reading it, or its other formats."""

    data: str | bytes = ""
    mime_type: str | None = "text/plain"
    raises: BaseException | None = None
    formats: Mapping[str, str] = field(default_factory=dict[str, str])
    listed: bool = True
    sized: bool = True


@dataclass(frozen=True)
class Folder:
    """A collection that is not part of the global listing."""

    children: Mapping[str, Node]
    listed: bool = False


class Gate:
    """A document that is read only once it is released, and tells what became of its reader."""

    def __init__(self, data: str = "late") -> None:
        self.data = data
        self.started = asyncio.Event()
        self.released = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def wait(self) -> str:
        self.started.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return self.data


Node: TypeAlias = "str | bytes | Leaf | Gate | Folder | Mapping[str, Node]"


class Tree:
    """Serves nested dicts and answers at once: a mapping is a collection, text or bytes a document.

    Understands the query parameters `lines` (a number: the first so many) and `format`.
    """

    templates: Sequence[Template] = (Template("{+path}", name="node", description="Any node"),)

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes = nodes

    def list(
        self, parent: Path, *, after: Path | None, limit: int
    ) -> MaybeAwaitable[Sequence[Resource]]:
        children = _children(self._node(parent))
        if children is None:
            raise NotACollection
        names = sorted(name for name in children if after is None or name > after[-1])
        return [_describe((*parent, name), children[name]) for name in names[:limit]]

    def metadata(self, path: Path) -> MaybeAwaitable[Resource]:
        return _describe(path, self._node(path))

    def read(self, path: Path, query: Mapping[str, str]) -> MaybeAwaitable[Sequence[Content]]:
        node = self._node(path)
        return self._late(node) if isinstance(node, Gate) else _read(node, query)

    def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> MaybeAwaitable[Sequence[str]]:
        folder, _, _ = value.rpartition("/")
        parent = tuple(folder.split("/")) if folder else ()
        children = _children(self._node(parent))
        if children is None:
            raise ResourceNotFound
        return [
            "/".join((*parent, name)) + ("/" if _children(node) is not None else "")
            for name, node in children.items()
        ]

    async def _late(self, gate: Gate) -> Sequence[Content]:
        return [Content(await gate.wait())]

    def _node(self, path: Path) -> Node:
        node: Node = self.nodes
        for segment in path:
            children = _children(node)
            if children is None or segment not in children:
                raise ResourceNotFound
            node = children[segment]
        return node


class WatchedTree(Tree):
    """The same, and tells of each change that is made with `set`."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        super().__init__(_thawed(nodes))
        self.interest: Interest | None = None
        """Of the watch that runs; None while there is none."""
        self._changes = asyncio.Queue[Change]()
        self._news = asyncio.Event()

    def set(self, *path: str, to: Node | None) -> None:
        """Put something in a place, or with None remove what is there."""
        *parent, name = path
        children = cast("dict[str, Node]", self._node(tuple(parent)))
        kind = "resource" if name in children and to is not None else "children"
        if to is None:
            children.pop(name, None)
        else:
            children[name] = _thawed(to)
        if self.interest is not None:
            self._changes.put_nowait(Change(path))
            if kind == "children":
                self._changes.put_nowait(Change(tuple(parent), kind))

    async def asked(self, *paths: Path, listing: bool | None = None) -> None:
        """Wait until it is asked to watch exactly these paths, and the listing or not."""
        async with asyncio.timeout(PATIENCE_S):
            while self.interest is None or not (
                self.interest.paths == set(paths) and listing in (None, self.interest.listing)
            ):
                self._news.clear()
                await self._news.wait()

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        async def follow() -> None:
            while True:
                self._news.set()
                came, _ = await interest.next()
                for path in came:
                    self._changes.put_nowait(Change(path))

        self.interest = interest
        following = asyncio.create_task(follow())
        try:
            while True:
                yield await self._changes.get()
        finally:
            self.interest = None
            following.cancel()


class SlowTree(Tree):
    """The same, but every answer has to be waited for."""

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        await asyncio.sleep(0)
        return await _settled(super().list(parent, after=after, limit=limit))

    async def metadata(self, path: Path) -> Resource:
        await asyncio.sleep(0)
        return await _settled(super().metadata(path))

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        await asyncio.sleep(0)
        return await _settled(super().read(path, query))

    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        await asyncio.sleep(0)
        return await _settled(super().complete(variable, value, given=given))


class SlowWatchedTree(SlowTree, WatchedTree):
    """The watched one, but every answer has to be waited for."""


class LevelTree(Tree):
    """The same, with a `level` of its own."""

    def level(
        self, depth: int, type: ResourceType, *, after: Path | None, limit: int
    ) -> MaybeAwaitable[Sequence[Resource]]:
        every = [path for path in _walk((), self.nodes) if after is None or path > after]
        found = [_describe(path, self._node(path)) for path in every if len(path) == depth]
        return [each for each in found if each.type == type][:limit]


class FetchingTree(Tree):
    """The same, described and read in one step and in no other way."""

    def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> MaybeAwaitable[tuple[Resource, Sequence[Content]]]:
        node = self._node(path)
        described = _describe(path, node)
        return described, () if described.type == "collection" else _read(node, query)

    def read(self, path: Path, query: Mapping[str, str]) -> MaybeAwaitable[Sequence[Content]]:
        if "format" in query:
            return super().read(path, query)
        raise AssertionError("what is fetched is not read as well")


class Broken:
    """A provider that breaks the contract: each of its methods is what the test gives."""

    def __init__(
        self,
        *,
        templates: object = (),
        list: Callable[..., Any] = lambda *_, **__: [],
        metadata: Callable[[Path], Any] | None = None,
        read: Callable[..., Any] = lambda *_: [],
    ) -> None:
        self._templates = templates
        self.list: Any = list
        self.metadata: Any = metadata or _described
        self.read: Any = read

    @property
    def templates(self) -> Any:
        if isinstance(self._templates, Exception):
            raise self._templates
        return self._templates


def _described(path: Path) -> Resource:
    return Resource(path=path, name="broken", type="document" if path else "collection")


async def _settled(value: MaybeAwaitable[Any]) -> Any:
    return await value if hasattr(value, "__await__") else value


def _thawed(node: Node) -> Any:
    """Return a node whose collections can be changed without changing what it was made from."""
    if isinstance(node, Mapping):
        return {name: _thawed(child) for name, child in node.items()}
    return node


def _children(node: Node) -> Mapping[str, Node] | None:
    if isinstance(node, Folder):
        return node.children
    return node if isinstance(node, Mapping) else None


def _walk(path: Path, node: Node) -> list[Path]:
    found: list[Path] = []
    for name, child in sorted((_children(node) or {}).items()):
        if _listed(child):
            found += [(*path, name), *_walk((*path, name), child)]
    return found


def _listed(node: Node) -> bool:
    return node.listed if isinstance(node, Folder | Leaf) else True


def _describe(path: Path, node: Node) -> Resource:
    collection = _children(node) is not None
    kind: ResourceType = "collection" if collection else "document"
    leaf = _leaf(node)
    data = leaf.data.encode("utf-8", "replace") if isinstance(leaf.data, str) else leaf.data
    formats = tuple(Format(name, f"text/{name}") for name in leaf.formats)
    return Resource(
        path=path,
        name=path[-1] if path else "root",
        type=kind,
        mime_type=None if collection else leaf.mime_type,
        size=None if collection or not leaf.sized else len(data),
        last_modified=MODIFIED,
        version=f"v{len(data)}",
        formats=formats,
        listed=_listed(node),
    )


def _leaf(node: Node) -> Leaf:
    if isinstance(node, Leaf):
        return node
    if isinstance(node, bytes):
        return Leaf(node, "application/octet-stream")
    return Leaf(node if isinstance(node, str) else "", sized=not isinstance(node, Gate))


def _read(node: Node, query: Mapping[str, str]) -> Sequence[Content]:
    leaf = _leaf(node)
    if leaf.raises is not None:
        raise leaf.raises
    if name := query.get("format"):
        if name not in leaf.formats:
            raise InvalidParameter(f"no format {name!r}")
        return [Content(leaf.formats[name], f"text/{name}")]
    if unknown := set(query) - {"lines"}:
        raise InvalidParameter(f"unknown query parameter {unknown.pop()!r}")
    if "lines" not in query or isinstance(leaf.data, bytes):
        return [Content(leaf.data)]
    lines = leaf.data.splitlines(keepends=True)
    kept = int(query["lines"])
    further = {"lines": str(len(lines))} if kept < len(lines) else None
    return [
        Content(
            "".join(lines[:kept]), truncated=Truncation("requested", "lines", len(lines), further)
        )
    ]


_: type[Provider] = Tree
_watched: type[SupportsWatch] = WatchedTree


class Searching(Tree):
    """A tree with a search that is what the test gives."""

    def __init__(self, nodes: Mapping[str, Node], search: Callable[..., Any]) -> None:
        super().__init__(nodes)
        self.search = search
