"""The only way to call a provider: coroutine methods whose results are checked.

A provider may return a result or an awaitable. Behind `GuardedProvider` every call is a
coroutine, so a forgotten `await` is a type error, and no other code holds the provider itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, TypeAlias, cast

import msgspec

from resource_server.errors import NotACollection, ResourceNotFound, ResourceServerError
from resource_server.provider import (
    Change,
    Content,
    Interest,
    Link,
    Path,
    Provider,
    Resource,
    SupportsAccess,
    SupportsComplete,
    SupportsExplain,
    SupportsFetch,
    SupportsHides,
    SupportsLinks,
    SupportsWalk,
    SupportsWarnings,
    SupportsWatch,
    Template,
)
from resource_server.provider.search import SearchPage, SearchRequest, SupportsSearch
from resource_server.provider.tools import SupportsTools, Tool, ToolRequest, ToolResult
from resource_server.runtime.eager import settle

Progress: TypeAlias = Callable[[int, int | None], None]
"""Called with the number of items done and the total, if known."""

Ability: TypeAlias = Literal[
    "access",
    "complete",
    "explain",
    "fetch",
    "hides",
    "search",
    "tools",
    "walk",
    "warnings",
    "watch",
]

_PROTOCOLS: Mapping[Ability, type] = {
    "access": SupportsAccess,
    "complete": SupportsComplete,
    "explain": SupportsExplain,
    "fetch": SupportsFetch,
    "hides": SupportsHides,
    "search": SupportsSearch,
    "tools": SupportsTools,
    "walk": SupportsWalk,
    "warnings": SupportsWarnings,
    "watch": SupportsWatch,
}


class GuardedProvider:
    """A provider behind coroutine methods that check its results against the contract.

    A method of an optional protocol may be called only if `abilities` has it. All methods raise
    what the provider raises.
    """

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.abilities = frozenset(
            name for name, protocol in _PROTOCOLS.items() if isinstance(provider, protocol)
        )
        """The optional protocols that the provider implements."""
        self._fetching = provider if isinstance(provider, SupportsFetch) else None
        self._lifetime: AbstractAsyncContextManager[object] | None = None
        if isinstance(provider, AbstractAsyncContextManager):
            self._lifetime = cast("AbstractAsyncContextManager[object]", provider)
        # Optional methods are reached through `Any`: `abilities` says which ones exist.
        self._optional: Any = provider

    # -- what does not call the provider's methods, or never waits

    @property
    def templates(self) -> Sequence[Template]:
        """The provider's templates."""
        return self._provider.templates

    @property
    def restrictions(self) -> Mapping[str, frozenset[str]]:
        """The scopes that parts of the provider need, by option; empty without the ability."""
        if "access" not in self.abilities:
            return {}
        return cast("Mapping[str, frozenset[str]]", self._optional.restrictions)

    @property
    def is_watch_off(self) -> bool:
        """Whether the provider has an option `watch` with the value `off`."""
        return getattr(self._provider, "watch", None) == "off"

    @property
    def watched_by(self) -> str | None:
        """The provider's means of watching, if it has several to choose from."""
        means: object = getattr(self._provider, "watched_by", None)
        return means if isinstance(means, str) else None

    def is_instance(self, of: type) -> bool:
        """Return whether the provider is an instance of a class."""
        return isinstance(self._provider, of)

    def link_with(self, link: Link) -> None:
        """Pass the provider the function that makes its URIs, if it has `linked`."""
        if isinstance(self._provider, SupportsLinks):
            self._provider.linked(link)

    def narrowed(self, scopes: frozenset[str]) -> Provider:
        """Return the provider for callers with these scopes, for a mount of its own."""
        narrowed: Provider = self._optional.narrowed(scopes)
        return narrowed

    def changes(self, interest: Interest) -> AsyncIterator[Change]:
        """Return the iterator of `SupportsWatch.changes`."""
        changes: AsyncIterator[Change] = self._optional.changes(interest)
        return changes

    # -- lifetime

    async def enter(self) -> None:
        """Enter the provider's lifetime, if it has one."""
        if self._lifetime is not None:
            await settle(self._lifetime.__aenter__())

    async def leave(self) -> None:
        """Leave the provider's lifetime, if it has one."""
        if self._lifetime is not None:
            await settle(self._lifetime.__aexit__(None, None, None))

    # -- the contract

    async def metadata(self, path: Path) -> Resource:
        """See `Provider.metadata`."""
        return await settle(self._provider.metadata(path))

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """See `Provider.read`."""
        return await settle(self._provider.read(path, query))

    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        """Return a resource's metadata and, for a document, its contents."""
        if self._fetching is not None:
            return await settle(self._fetching.fetch(path, query))
        # Metadata first: content newer than its version only causes one extra notification.
        resource = await settle(self._provider.metadata(path))
        if resource.type == "collection":
            return resource, ()
        return resource, await settle(self._provider.read(path, query))

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the direct children of a collection; see `Provider.list`.

        Raises:
            ResourceServerError: the provider breaks the contract. A child outside its parent could
                lead in circles, and a listing that repeats `after` would never end.
        """
        children = await settle(self._provider.list(parent, after=after, limit=limit))
        for child in children:
            if child.path[:-1] != parent or not child.path:
                raise ResourceServerError(
                    "list() returned a resource that is not a child of `parent`"
                )
        _check_order("list", children, after)
        return children

    async def descendants(self, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the mount's own collection and all below it, depth first, after `after`."""
        found: list[Resource] = []
        if after is None:
            found.append(await settle(self._provider.metadata(())))
        if limit > len(found):
            found += await self.below((), after=after or (), limit=limit - len(found))
        return found

    async def below(
        self, path: Path, *, after: Path, limit: int, include_unlisted: bool = False
    ) -> Sequence[Resource]:
        """Return up to `limit` descendants of `path` that come after `after`, depth first.

        Unlisted resources are left out with all below them, unless `include_unlisted`.
        """
        if "walk" in self.abilities and not path and not include_unlisted:
            found: Sequence[Resource] = await settle(
                self._optional.walk(after=after or None, limit=limit)
            )
            _check_order("walk", found, after)
            return found
        return await self._walk(path, after, limit, include_unlisted=include_unlisted)

    async def _walk(
        self, top: Path, after: Path, limit: int, *, include_unlisted: bool
    ) -> list[Resource]:
        levels = [
            _Level(after[:depth], after[: depth + 1], deque())
            for depth in range(len(top), len(after))
        ]
        levels.append(_Level(after, None, deque()))
        found: list[Resource] = []
        while levels and len(found) < limit:
            level = levels[-1]
            if level.pending:
                resource = level.pending.popleft()
                if resource.listed or include_unlisted:
                    found.append(resource)
                    if resource.type == "collection":
                        levels.append(_Level(resource.path, None, deque()))
            elif level.ended:
                levels.pop()
            else:
                wanted = limit - len(found)
                try:
                    children = await self.list(level.parent, after=level.last, limit=wanted)
                except (ResourceNotFound, NotACollection):
                    children = ()  # gone since the last page, or a document
                level.pending.extend(children)
                level.ended = len(children) < wanted
                if children:
                    level.last = children[-1].path
        return found

    # -- optional protocols

    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        """See `SupportsComplete.complete`."""
        values: Sequence[str] = await settle(self._optional.complete(variable, value, given=given))
        return values

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        """See `SupportsSearch.search`."""
        page: SearchPage = await settle(
            self._optional.search(request, below=below, after=after, limit=limit, deadline=deadline)
        )
        return page

    async def tools(self) -> Sequence[Tool]:
        """See `SupportsTools.tools`."""
        tools: Sequence[Tool] = await settle(self._optional.tools())
        return tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> ToolResult:
        """See `SupportsTools.call_tool`."""
        result: ToolResult = await settle(self._optional.call_tool(name, arguments, request))
        return result

    async def explain(self, path: Path) -> str:
        """See `SupportsExplain.explain`."""
        text: str = await settle(self._optional.explain(path))
        return text

    async def hides(self, *, limit: int) -> Sequence[tuple[Path, str]]:
        """See `SupportsHides.hides`."""
        hidden: Sequence[tuple[Path, str]] = await settle(self._optional.hides(limit=limit))
        return hidden

    async def warnings(self) -> Sequence[tuple[str, str]]:
        """See `SupportsWarnings.warnings`."""
        warnings: Sequence[tuple[str, str]] = await settle(self._optional.warnings())
        return warnings


class _Level(msgspec.Struct):
    """One level of a walk: a collection, with children that were fetched but not yet used."""

    parent: Path
    last: Path | None
    pending: deque[Resource]
    ended: bool = False


def _check_order(method: str, found: Sequence[Resource], after: Path | None) -> None:
    if after is not None and after in [resource.path for resource in found]:
        raise ResourceServerError(f"{method}() returned `after` again, not what follows it")
