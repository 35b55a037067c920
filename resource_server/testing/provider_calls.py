"""Checked calls of a provider's methods; records wrong results and errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, TypeGuard, TypeVar, cast

from resource_server import uris
from resource_server.errors import ResourceError
from resource_server.manifest.wording import one_line
from resource_server.provider import (
    Content,
    MaybeAwaitable,
    Path,
    Provider,
    Resource,
    ResourceType,
    SupportsAccess,
    SupportsComplete,
    SupportsExplain,
    SupportsFetch,
    SupportsHides,
    SupportsLevels,
    SupportsWalk,
)
from resource_server.provider.search import Hit, SearchPage, SearchRequest, SupportsSearch
from resource_server.provider.skills import Skill, SupportsSkills
from resource_server.provider.tools import SupportsTools, Tool, ToolRequest, ToolResult

T = TypeVar("T")

SIGNATURE = "methods return the types declared in resource_server.provider"
SEGMENTS = (
    "a path segment is not empty, '.' or '..', has no '/' or NUL, and can be encoded in a URI"
)


class Calls:
    """Methods return the provider's result, or the `ResourceError` it raised.

    Any other outcome is recorded as a broken rule and returned as None.
    """

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._broken: dict[str, list[str]] = {}

    def broken(self, rule: str, seen: str) -> None:
        """Record that `rule` is broken, with the place and the observation."""
        self._broken.setdefault(rule, []).append(one_line(seen))

    def violations(self) -> list[str]:
        """Return a sentence for each broken rule and place, at most three places per rule."""
        sentences: list[str] = []
        for rule, places in self._broken.items():
            sentences += [f"{rule}: {seen}" for seen in places[:3]]
            if len(places) > 3:
                sentences[-1] += f" (and {len(places) - 3} more)"
        return sentences

    async def list(
        self, parent: Path, *, after: Path | None = None, limit: int
    ) -> Sequence[Resource] | ResourceError | None:
        """Return a page of a collection's children."""
        call = f"list({brief(parent)}, after={brief(after)}, limit={limit})"
        found = await self._call(
            call, lambda: self.provider.list(parent, after=after, limit=limit), _are(Resource)
        )
        return self._at_most(call, found, limit)

    async def walk(
        self, walks: SupportsWalk, *, after: Path | None, limit: int
    ) -> Sequence[Resource] | ResourceError | None:
        """Return a page of the whole mount."""
        call = f"walk(after={brief(after)}, limit={limit})"
        found = await self._call(call, lambda: walks.walk(after=after, limit=limit), _are(Resource))
        return self._at_most(call, found, limit)

    async def level(
        self,
        levels: SupportsLevels,
        depth: int,
        type: ResourceType,
        *,
        after: Path | None,
        limit: int,
    ) -> Sequence[Resource] | ResourceError | None:
        """Return a page of one level."""
        call = f"level({depth}, {type!r}, after={brief(after)}, limit={limit})"
        found = await self._call(
            call, lambda: levels.level(depth, type, after=after, limit=limit), _are(Resource)
        )
        return self._at_most(call, found, limit)

    async def metadata(self, path: Path) -> Resource | ResourceError | None:
        """Return the metadata of a resource."""
        return await self._call(
            f"metadata({brief(path)})",
            lambda: self.provider.metadata(path),
            lambda found: isinstance(found, Resource),
        )

    async def read(
        self, path: Path, query: Mapping[str, str] | None = None
    ) -> Sequence[Content] | ResourceError | None:
        """Return a document's contents."""
        query = query or {}
        call = f"read({brief(path)}, {dict(query)})"
        return await self._call(call, lambda: self.provider.read(path, query), _are(Content))

    async def complete(
        self, completes: SupportsComplete, variable: str, value: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        """Return suggested values; none on failure."""
        call = f"complete({variable!r}, {brief(value)}, given={dict(given)})"
        found = await self._call(
            call, lambda: completes.complete(variable, value, given=given), _are(str)
        )
        return () if found is None or isinstance(found, ResourceError) else found

    async def fetch(
        self, fetches: SupportsFetch, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]] | ResourceError | None:
        """Return a resource with its contents."""
        call = f"fetch({brief(path)}, {dict(query)})"
        return await self._call(call, lambda: fetches.fetch(path, query), _is_fetched)

    async def hides(self, hides: SupportsHides, *, limit: int) -> Sequence[tuple[Path, str]]:
        """Return hidden paths with their rules; none on failure."""
        found = await self._call(
            f"hides(limit={limit})", lambda: hides.hides(limit=limit), _are_hidden
        )
        return () if found is None or isinstance(found, ResourceError) else found

    async def search(
        self,
        searches: SupportsSearch,
        sought: SearchRequest,
        *,
        below: Path,
        after: str | None,
        limit: int,
        deadline: float,
    ) -> SearchPage | ResourceError | None:
        """Return a page of hits."""
        call = f"search({brief(sought)}, below={brief(below)}, after={brief(after)}, limit={limit})"
        found = await self._call(
            call,
            lambda: searches.search(
                sought, below=below, after=after, limit=limit, deadline=deadline
            ),
            lambda found: isinstance(found, SearchPage) and _are(Hit)(found.hits),
        )
        if isinstance(found, SearchPage) and len(found.hits) > limit:
            self.broken("a page has at most `limit` items", f"{call} returned {len(found.hits)}")
            return None
        return found

    async def list_skills(
        self, provider: SupportsSkills, *, after: Path | None, limit: int
    ) -> Sequence[Skill]:
        """Return a page of skills; none on failure."""
        call = f"list_skills(after={brief(after)}, limit={limit})"
        found = await self._call(
            call, lambda: provider.list_skills(after=after, limit=limit), _are(Skill)
        )
        if found is None or isinstance(found, ResourceError):
            return ()
        if len(found) > limit:
            self.broken("a page has at most `limit` items", f"{call} returned {len(found)}")
        return found[:limit]

    async def get_skill(self, provider: SupportsSkills, path: Path) -> Skill | ResourceError | None:
        """Return a skill."""
        return await self._call(
            f"get_skill({brief(path)})",
            lambda: provider.get_skill(path),
            lambda found: isinstance(found, Skill),
        )

    async def tools(self, provider: SupportsTools) -> Sequence[Tool] | ResourceError | None:
        """Return the tools."""
        return await self._call("tools()", provider.tools, _are(Tool))

    async def call_tool(
        self, provider: SupportsTools, name: str, arguments: Mapping[str, Any], asked: ToolRequest
    ) -> ToolResult | ResourceError | None:
        """Return the result of a tool."""
        return await self._call(
            f"call_tool({name!r}, {brief(arguments)})",
            lambda: provider.call_tool(name, arguments, asked),
            lambda found: isinstance(found, ToolResult) and _are(object)(found.content),
        )

    async def explain(self, explains: SupportsExplain, path: Path) -> None:
        """Call `explain`, and check its result."""
        await self._call(f"explain({brief(path)})", lambda: explains.explain(path), _is_text)

    def restrictions(self, restricts: SupportsAccess) -> Mapping[str, frozenset[str]]:
        """Return the required scopes by option; none on failure."""
        found = self._ask("restrictions", lambda: restricts.restrictions, _are_restrictions)
        return {} if found is None else found

    def narrowed(self, restricts: SupportsAccess, scopes: frozenset[str]) -> Provider | None:
        """Return the provider narrowed to a caller's scopes."""
        return self._ask(
            f"narrowed({sorted(scopes)})", lambda: restricts.narrowed(scopes), _is_provider
        )

    def _ask(self, call: str, method: Callable[[], T], valid: Callable[[object], bool]) -> T | None:
        """Return the result of a synchronous method that must not raise."""
        try:
            found = method()
        except Exception as error:
            self.broken(
                "restrictions and narrowed do not raise",
                f"{call} raised {type(error).__name__}: {one_line(error)}",
            )
            return None
        if valid(found):
            return found
        self.broken(SIGNATURE, f"{call} returned {brief(found)}")
        return None

    async def _call(
        self, call: str, method: Callable[[], MaybeAwaitable[T]], valid: Callable[[object], bool]
    ) -> T | ResourceError | None:
        try:
            answer = method()
            found = await cast("Awaitable[T]", answer) if isawaitable(answer) else answer
        except ResourceError as error:
            return error
        except Exception as error:
            rule = "a provider raises only errors from resource_server.errors"
            self.broken(rule, f"{call} raised {type(error).__name__}: {one_line(error)}")
            return None
        if valid(found):
            return cast("T", found)
        self.broken(SIGNATURE, f"{call} returned {brief(found)}")
        return None

    def _at_most(
        self, call: str, found: Sequence[Resource] | ResourceError | None, limit: int
    ) -> Sequence[Resource] | ResourceError | None:
        if isinstance(found, Sequence) and len(found) > limit:
            self.broken("a page has at most `limit` items", f"{call} returned {len(found)}")
            return None
        return found


def is_below(path: Path, parents: Iterable[Path]) -> bool:
    """Return whether `path` is at or below one of `parents`."""
    return any(path[: len(parent)] == parent for parent in parents)


def is_path_tuple(found: object) -> TypeGuard[Path]:
    """Return whether a value is a tuple of text."""
    return isinstance(found, tuple) and _are(str)(cast("object", found))


def is_addressable(path: Path) -> bool:
    """Return whether a path survives the round trip through a URI."""
    try:
        return uris.parse(uris.join("check://mount/", path)).path == path
    except (ResourceError, UnicodeError):
        return False


def brief(value: object) -> str:
    """Return the `repr` of a value, shortened to 200 characters."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _is_text(found: object) -> bool:
    return isinstance(found, str) and bool(found)


def _is_fetched(found: object) -> bool:
    if not isinstance(found, tuple) or len(pair := cast("tuple[object, ...]", found)) != 2:
        return False
    return isinstance(pair[0], Resource) and _are(Content)(pair[1])


def _are_hidden(found: object) -> bool:
    if not _are(tuple)(found):
        return False
    return all(
        len(pair) == 2 and _are(str)(pair[0]) and _is_text(pair[1])
        for pair in cast("Sequence[tuple[object, ...]]", found)
    )


def _are_restrictions(found: object) -> bool:
    if not isinstance(found, Mapping):
        return False
    return all(
        _is_text(option)
        and isinstance(scopes, frozenset)
        and all(map(_is_text, cast("frozenset[object]", scopes)))
        for option, scopes in cast("Mapping[object, object]", found).items()
    )


def _is_provider(found: object) -> bool:
    return all(hasattr(found, name) for name in ("templates", "list", "metadata", "read"))


def _are(kind: type) -> Callable[[object], bool]:
    def valid(found: object) -> bool:
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            return False
        return all(isinstance(item, kind) for item in cast("Sequence[object]", found))

    return valid
