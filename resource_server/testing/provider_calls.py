"""Checked calls of a provider's methods; records wrong results and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from inspect import isawaitable, iscoroutine
from typing import Any, TypeGuard, cast

from resource_server import uris
from resource_server.access import claim_path
from resource_server.errors import ResourceError
from resource_server.manifest.wording import one_line
from resource_server.provider import (
    Content,
    Hit,
    Path,
    Provider,
    Resource,
    SearchPage,
    Skill,
    Tool,
    ToolResult,
)

_PLAIN = ("claims", "narrowed", "restrictions", "with_claims")
_PROPERTIES = ("claims", "restrictions")
"""Members that the server does not await, and that raise nothing."""
SIGNATURE = "methods return the types declared in resource_server.provider"
SEGMENTS = (
    "a path segment is not empty, '.' or '..', has no '/' or NUL, and can be encoded in a URI"
)


class Calls:
    """Calls a provider, and records each rule that it breaks."""

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
        """Return a page of a collection's children, as `call` does."""
        return await self.call("list", parent, after=after, limit=limit)

    async def metadata(self, path: Path) -> Resource | ResourceError | None:
        """Return the metadata of a resource, as `call` does."""
        return await self.call("metadata", path)

    async def read(
        self, path: Path, query: Mapping[str, str] | None = None
    ) -> Sequence[Content] | ResourceError | None:
        """Return a document's contents, as `call` does."""
        return await self.call("read", path, dict(query or {}))

    async def call(self, method: str, /, *given: object, **options: Any) -> Any:
        """Return the result of a method or the value of a property, or the `ResourceError` raised.

        Any other outcome is recorded as a broken rule and returned as None.
        """
        shown = [f"{name}={brief(each)}" for name, each in options.items() if name != "deadline"]
        call = f"{method}({', '.join([*map(brief, given), *shown])})"
        try:
            member: Any = getattr(self.provider, method)
            found: Any = member if method in _PROPERTIES else member(*given, **options)
            if method not in _PLAIN and isawaitable(found):
                found = await found
        except Exception as error:
            rule = "a provider raises only errors from resource_server.errors"
            if method in _PLAIN:
                rule = "restrictions, narrowed, claims and with_claims do not raise"
            elif isinstance(error, ResourceError):
                return error
            self.broken(rule, f"{call} raised {type(error).__name__}: {one_line(error)}")
            return None
        if not _RESULTS[method](found):
            self.broken(SIGNATURE, f"{call} returned {brief(found)}")
            if iscoroutine(found):
                found.close()
            return None
        if "limit" in options:
            page = found.hits if isinstance(found, SearchPage) else found
            if len(page) > options["limit"]:
                self.broken("a page has at most `limit` items", f"{call} returned {len(page)}")
                return None
        return found

    async def sequence(self, method: str, /, *given: object, **options: Any) -> Sequence[Any]:
        """Return the result of a method that returns a sequence; nothing on failure."""
        found = await self.call(method, *given, **options)
        return () if found is None or isinstance(found, ResourceError) else found


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


def _are_pairs(first: Callable[[object], bool]) -> Callable[[object], bool]:
    """Return the check of a sequence of pairs whose second item is a sentence."""

    def valid(found: object) -> bool:
        return _are(tuple)(found) and all(
            len(pair) == 2 and first(pair[0]) and _is_text(pair[1])
            for pair in cast("Sequence[tuple[object, ...]]", found)
        )

    return valid


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


def _are_names(found: object) -> bool:
    if not isinstance(found, Set):
        return False
    try:
        return all(not name or claim_path(name) for name in cast("Set[Any]", found))
    except (TypeError, ValueError):
        return False


def _are(kind: type) -> Callable[[object], bool]:
    def valid(found: object) -> bool:
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            return False
        return all(isinstance(item, kind) for item in cast("Sequence[object]", found))

    return valid


def _is(kind: type) -> Callable[[object], bool]:
    return lambda found: isinstance(found, kind)


_RESULTS: Mapping[str, Callable[[object], bool]] = {
    "claims": _are_names,
    "call_tool": lambda found: isinstance(found, ToolResult) and _are(object)(found.content),
    "complete": _are(str),
    "explain": _is_text,
    "fetch": _is_fetched,
    "get_skill": _is(Skill),
    "hides": _are_pairs(_are(str)),
    "level": _are(Resource),
    "list": _are(Resource),
    "list_skills": _are(Skill),
    "metadata": _is(Resource),
    "narrowed": _is_provider,
    "read": _are(Content),
    "restrictions": _are_restrictions,
    "search": lambda found: isinstance(found, SearchPage) and _are(Hit)(found.hits),
    "tools": _are(Tool),
    "warnings": _are_pairs(_is(str)),
    "with_claims": _is_provider,
}
"""The check of a result, by method."""
