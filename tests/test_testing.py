from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path as FilePath
from typing import Any, ClassVar, Self, cast

import anyio.lowlevel
import msgspec
import pytest

from resource_server.errors import (
    InvalidParameter,
    MountUnavailable,
    NotACollection,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import (
    Change,
    Content,
    Format,
    Interest,
    Path,
    Provider,
    Resource,
    SupportsAccess,
    SupportsComplete,
    SupportsExplain,
    SupportsFetch,
    SupportsHides,
    SupportsWalk,
    SupportsWatch,
    Template,
    Truncation,
)
from resource_server.provider.tools import EmbeddedBlock, LinkBlock, TextBlock, Tool, ToolResult
from resource_server.provider.tools import ToolRequest as ToolRequest
from resource_server.providers.filesystem import Filesystem
from resource_server.testing import ErrorReply, ProviderViolations, check_provider, client

pytestmark = pytest.mark.anyio

SHELF: dict[Path, str | bytes | None] = {
    ("a",): None,
    ("a", "b"): None,
    ("a", "b", "deep"): "deep",
    ("a", "empty"): "",
    ("a", "ü\n\udcff"): "Grüße",
    ("hidden",): None,
    ("hidden", "c"): "secret",
    ("long",): "0123456789" * 10,
    ("z",): b"\0\1",
}


@dataclass
class Shelf:
    """A tree in memory that keeps every rule. Each class below breaks one."""

    items: Mapping[Path, str | bytes | None] = field(default_factory=lambda: SHELF)
    calls: int = 0

    @property
    def templates(self) -> Sequence[Template]:
        return (Template("{+path}{?part}", name="item"),)

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        self.calls += 1
        if parent and self.find(parent) is not None:
            raise NotACollection
        below = sorted(path for path in self.items if path and path[:-1] == parent)
        return [self.entry(path) for path in below if after is None or path > after][:limit]

    async def walk(self, *, after: Path | None, limit: int) -> Sequence[Resource]:
        rest = sorted(path for path in self.items if path > (after or ()) and path[0] != "hidden")
        return [self.entry(path) for path in rest[:limit]]

    async def metadata(self, path: Path) -> Resource:
        self.calls += 1
        entry = self.entry(path)
        if path == ("long",):
            return msgspec.structs.replace(entry, formats=(Format("upper", "text/plain"),))
        return entry

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        data = self.find(path)
        if data is None or query.keys() - {"part", "format"}:
            raise InvalidParameter("query") if data is not None else ResourceNotFound()
        if path == ("long",) and not query:
            raise ResourceTooLarge(size=100, limit=50, next={"part": "1"})
        if path == ("long",):
            following = {"part": "2"} if query.get("part") == "1" else None
            return [Content(data[:50], truncated=Truncation("requested", "bytes", 100, following))]
        return [Content(data)]

    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        tops = [path[0] + "/" * (self.items[path] is None) for path in self.items if not path[1:]]
        return tops if variable == "path" else []

    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        entry = await self.metadata(path)
        return entry, () if entry.type == "collection" else await self.read(path, query)

    def hides(self, *, limit: int) -> Sequence[tuple[Path, str]]:
        return [(("cellar",), "never shown"), (("a", "attic"), "never shown")][:limit]

    def explain(self, path: Path) -> str:
        return "shown" if not path or path in self.items else "not there"

    def find(self, path: Path) -> str | bytes | None:
        if path not in self.items:
            raise ResourceNotFound
        return self.items[path]

    def entry(self, path: Path) -> Resource:
        data = self.find(path) if path else None
        if data is None:
            name = path[-1] if path else "shelf"
            return Resource(path=path, name=name, type="collection", listed=name != "hidden")
        size = len(data if isinstance(data, bytes) else data.encode())
        return Resource(path=path, name=path[-1], size=size, version=f"v{size}")


_: type[Provider] = Shelf
_completes: type[SupportsComplete] = Shelf
_walks: type[SupportsWalk] = Shelf
_fetches: type[SupportsFetch] = Shelf
_hides: type[SupportsHides] = Shelf
_explains: type[SupportsExplain] = Shelf


def changed(page: Sequence[Resource], which: str, **facts: Any) -> list[Resource]:
    """Return a page whose entry of this name tells other facts."""
    return [
        msgspec.structs.replace(entry, **facts) if entry.name == which else entry for entry in page
    ]


class IgnoresAfter(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        return await super().list(parent, after=None, limit=limit)


class RepeatsAfter(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        if after is not None:
            after = (*after[:-1], after[-1][:-1])
        return await super().list(parent, after=after, limit=limit)


class IgnoresLimit(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        return await super().list(parent, after=after, limit=1000)


class EndsEarly(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        return await super().list(parent, after=after, limit=2 if limit > 2 else limit)


class ChangesOrder(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = [*await super().list(parent, after=None, limit=1000)]
        if self.calls % 2:
            page.reverse()
        paths = [entry.path for entry in page]
        return page[paths.index(after) + 1 if after in paths else 0 :][:limit]


class NeedsItsCursor(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        if after is not None:
            self.find(after)
        return await super().list(parent, after=after, limit=limit)


class RestartsWithoutItsCursor(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = await super().list(parent, after=after, limit=limit)
        if after is not None and after not in self.items:
            return [*await super().list(parent, after=None, limit=2), *page][:1]
        return page


class ShowsGrandchildren(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = await super().list(parent, after=after, limit=limit)
        return changed(page, "empty", path=("a", "x", "empty"))


class NamesWithSlashes(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = await super().list(parent, after=after, limit=limit)
        return changed(page, "empty", path=("a", "em/pty"))


class ListsDicts(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Any:
        page = await super().list(parent, after=after, limit=limit)
        return [msgspec.to_builtins(entry) for entry in page]


class YieldsItems(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Any:
        page = await super().list(parent, after=after, limit=limit)
        return (entry for entry in page)


class ListsDocuments(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        try:
            return await super().list(parent, after=after, limit=limit)
        except NotACollection:
            return []


class ListsNowhere(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        try:
            return await super().list(parent, after=after, limit=limit)
        except ResourceNotFound:
            return []


class RootIsADocument(Shelf):
    async def metadata(self, path: Path) -> Resource:
        found = await super().metadata(path)
        return found if path else Resource(path=(), name="shelf")


class ForgetsMetadata(Shelf):
    async def metadata(self, path: Path) -> Resource:
        if path == ("z",):
            raise ResourceNotFound
        return await super().metadata(path)


class TellsAnotherSize(Shelf):
    async def metadata(self, path: Path) -> Resource:
        found = await super().metadata(path)
        return changed([found], "z", size=3)[0]


class ChangesVersions(Shelf):
    async def metadata(self, path: Path) -> Resource:
        found = await super().metadata(path)
        return changed([found], "z", version=str(self.calls))[0]


class KnowsEverything(Shelf):
    async def metadata(self, path: Path) -> Resource:
        try:
            return await super().metadata(path)
        except ResourceNotFound:
            return Resource(path=path, name=path[-1])


class LosesItsWay(Shelf):
    async def metadata(self, path: Path) -> Resource:
        return msgspec.structs.replace(await super().metadata(path), path=("elsewhere",))


class RaisesKeyErrors(Shelf):
    def find(self, path: Path) -> str | bytes | None:
        return self.items[path]


class ReturnsNone(Shelf):
    async def metadata(self, path: Path) -> Any:
        return None


class HasNoName(Shelf):
    def entry(self, path: Path) -> Resource:
        return changed([super().entry(path)], "z", name="")[0]


class HasNaiveTimes(Shelf):
    def entry(self, path: Path) -> Resource:
        return changed([super().entry(path)], "z", last_modified=datetime(2024, 1, 1))[0]  # noqa: DTZ001


class MeasuresCollections(Shelf):
    def entry(self, path: Path) -> Resource:
        return changed([super().entry(path)], "a", size=5)[0]


class HasOddDetails(Shelf):
    def entry(self, path: Path) -> Resource:
        return changed([super().entry(path)], "z", details={"x": object()})[0]


class Misjudges(Shelf):
    def entry(self, path: Path) -> Resource:
        return changed([super().entry(path)], "z", size=3)[0]


class ReadsNothing(Shelf):
    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        found = await super().read(path, query)
        return [] if path == ("z",) else found


class ReadsText(Shelf):
    async def read(self, path: Path, query: Mapping[str, str]) -> Any:
        await super().read(path, query)
        return "text"


class ReadsNumbers(Shelf):
    async def read(self, path: Path, query: Mapping[str, str]) -> Any:
        found = await super().read(path, query)
        return [Content(5)] if path == ("z",) else found  # pyright: ignore[reportArgumentType]


class ReadsSurrogates(Shelf):
    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        found = await super().read(path, query)
        return [Content("\udcff")] if path == ("z",) else found


class RefusesToRead(Shelf):
    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        if path == ("hidden", "c"):
            raise ResourceNotFound
        return await super().read(path, query)


class IgnoresTheQuery(Shelf):
    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        return await super().read(path, {key: query[key] for key in query if key == "part"})


class ReadsNoFormats(Shelf):
    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        if "format" in query:
            raise InvalidParameter("no such format")
        return await super().read(path, query)


class CannotReadOn(Shelf):
    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        if query.get("part") == "2":
            raise InvalidParameter("no such part")
        return await super().read(path, query)


class HasBadTemplates(Shelf):
    @property
    def templates(self) -> Sequence[Template]:
        return (Template("{path*}", name="item"),)


class HasTwinTemplates(Shelf):
    @property
    def templates(self) -> Sequence[Template]:
        return (Template("{+path}", name="a"), Template("{+path}", name="b"))


class HasNamelessTemplates(Shelf):
    @property
    def templates(self) -> Sequence[Template]:
        return (Template("{+path}", name=""),)


class WalksHidden(Shelf):
    async def walk(self, *, after: Path | None, limit: int) -> Sequence[Resource]:
        return [self.entry(path) for path in sorted(self.items) if path > (after or ())][:limit]


class WalksByName(Shelf):
    async def walk(self, *, after: Path | None, limit: int) -> Sequence[Resource]:
        found = await super().walk(after=None, limit=1000)
        rest = [entry for entry in found if after is None or entry.name > after[-1]]
        return rest[:limit]


class SuggestsWhatIsNot(Shelf):
    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        return ["a/", "nothing"]


class SuggestsNumbers(Shelf):
    async def complete(self, variable: str, value: str, *, given: Mapping[str, str]) -> Any:
        return [1, 2]


class OnlyEnters(Shelf):
    async def __aenter__(self) -> Self:
        return self


class Mixes(Shelf):
    """Keeps the path of a call where another call overwrites it."""

    async def metadata(self, path: Path) -> Resource:
        self.path = path
        await anyio.lowlevel.checkpoint()
        return await super().metadata(self.path)


class DiesOnLeaving(Shelf):
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.items = {}


class FetchesElse(Shelf):
    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        entry, contents = await super().fetch(path, query)
        return entry, [*contents, Content("more")]


class FetchesUnknownQueries(Shelf):
    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        return await super().fetch(path, {})


class FetchesNowhere(Shelf):
    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        if path not in self.items:
            return Resource(path=path, name="?"), [Content("")]
        return await super().fetch(path, query)


class FetchesAlone(Shelf):
    async def fetch(self, path: Path, query: Mapping[str, str]) -> Any:
        return await self.metadata(path)


class HidesWhatItShows(Shelf):
    def hides(self, *, limit: int) -> Sequence[tuple[Path, str]]:
        return [(("a",), "not hidden at all")]


class HidesMore(Shelf):
    def hides(self, *, limit: int) -> Sequence[tuple[Path, str]]:
        return [((f"{n}",), "hidden") for n in range(limit + 1)]


class HidesPathsOnly(Shelf):
    def hides(self, *, limit: int) -> Any:
        return [("cellar",)]


class ExplainsNothing(Shelf):
    def explain(self, path: Path) -> str:
        return ""


class CannotExplainAbsence(Shelf):
    def explain(self, path: Path) -> str:
        return f"of the length {len(str(self.items[path]))}" if path else "the shelf"


A, Z = frozenset(("a:read",)), frozenset(("z:read",))


class Guarded(Shelf):
    """A shelf of which parts need scopes."""

    needed: ClassVar[Mapping[str, frozenset[str]]] = {"a": A, "z": A | Z}

    @property
    def restrictions(self) -> Mapping[str, frozenset[str]]:
        return {f"items.{name}": scopes for name, scopes in self.needed.items()}

    def narrowed(self, scopes: frozenset[str]) -> Provider:
        return type(self)(self.seen(scopes))

    def seen(self, scopes: frozenset[str]) -> Mapping[Path, str | bytes | None]:
        return {
            path: item
            for path, item in self.items.items()
            if self.needed.get(path[0], frozenset[str]()) <= scopes
        }


_restricts: type[SupportsAccess] = Guarded


class NeedsSevenScopes(Guarded):
    needed: ClassVar[Mapping[str, frozenset[str]]] = {"a": frozenset("abcdefg")}


class NeedsOtherScopesWhenAsked(Guarded):
    @property
    def restrictions(self) -> Mapping[str, frozenset[str]]:
        self.calls += 1
        return {**super().restrictions, f"items.{self.calls}": A}


class NeedsText(Guarded):
    needed: ClassVar[Mapping[str, frozenset[str]]] = {"a": cast("Any", "a:read")}


class NarrowsItself(Guarded):
    def narrowed(self, scopes: frozenset[str]) -> Provider:
        return self


class NarrowsToNothing(Guarded):
    def narrowed(self, scopes: frozenset[str]) -> Provider:
        return cast("Any", None)


class CannotBeNarrowed(Guarded):
    def narrowed(self, scopes: frozenset[str]) -> Provider:
        raise ResourceNotFound


class ShowsAllToAll(Guarded):
    def narrowed(self, scopes: frozenset[str]) -> Provider:
        return type(self)(self.items)


class KeepsFromAll(Guarded):
    def narrowed(self, scopes: frozenset[str]) -> Provider:
        return type(self)(self.seen(scopes - Z))


class ShowsMore(Guarded):
    def narrowed(self, scopes: frozenset[str]) -> Provider:
        return type(self)({**self.seen(scopes), ("more",): ""})


class ForgetsTemplates(Guarded):
    def narrowed(self, scopes: frozenset[str]) -> Provider:
        class Bare(Shelf):
            @property
            def templates(self) -> Sequence[Template]:
                return ()

        return Bare(self.seen(scopes))


class GivesWhatItDoesNotList(Guarded):
    def find(self, path: Path) -> str | bytes | None:
        return SHELF[path] if path in SHELF else super().find(path)


class BreaksRulesWhenNarrowed(Guarded):
    def narrowed(self, scopes: frozenset[str]) -> Provider:
        return Misjudges(self.seen(scopes))


SIGNATURE = "a method returns what its signature in resource_server.provider says"
BROKEN: list[tuple[type[Shelf], str]] = [
    (IgnoresAfter, "a listing resumes right after `after`, and only its last page is short"),
    (RepeatsAfter, "a listing resumes right after `after`, and only its last page is short"),
    (EndsEarly, "a listing resumes right after `after`, and only its last page is short"),
    (IgnoresLimit, "a page has at most `limit` items"),
    (ChangesOrder, "a listing has the same order each time"),
    (NeedsItsCursor, "a listing resumes at the place of a child that has vanished"),
    (RestartsWithoutItsCursor, "a listing resumes at the place of a child that has vanished"),
    (ShowsGrandchildren, "a child's path is its parent's and one segment more"),
    (NamesWithSlashes, "a segment is not empty, '.' or '..', has no '/' or NUL, and fits in a URI"),
    (ListsDicts, SIGNATURE),
    (YieldsItems, SIGNATURE),
    (ListsDocuments, "to list a document raises NotACollection"),
    (ListsNowhere, "a path that names nothing raises ResourceNotFound"),
    (RootIsADocument, "the path () is the mount's own collection"),
    (ForgetsMetadata, "what is listed has metadata"),
    (TellsAnotherSize, "metadata repeats what the listing tells"),
    (ChangesVersions, "metadata stays equal while nothing changes"),
    (KnowsEverything, "a path that names nothing raises ResourceNotFound"),
    (LosesItsWay, "the path () is the mount's own collection"),
    (RaisesKeyErrors, "only errors of resource_server.errors leave a provider"),
    (ReturnsNone, SIGNATURE),
    (HasNoName, "a resource has a name"),
    (HasNaiveTimes, "last_modified has a time zone"),
    (MeasuresCollections, "a size is that of a document"),
    (HasOddDetails, "details are ready for JSON"),
    (Misjudges, "a size is the number of bytes of the body"),
    (ReadsNothing, "a document has at least one content"),
    (RefusesToRead, "a document has at least one content"),
    (ReadsText, SIGNATURE),
    (ReadsNumbers, "data is str or bytes"),
    (ReadsSurrogates, "text has no lone surrogates"),
    (IgnoresTheQuery, "an unknown query parameter raises InvalidParameter"),
    (ReadsNoFormats, "every format can be read"),
    (CannotReadOn, "what was cut can be read on"),
    (HasBadTemplates, "a template uses no more of RFC 6570 than {x}, {+x}, {?x,y} and {&x,y}"),
    (HasTwinTemplates, "no two templates have the same form"),
    (HasNamelessTemplates, "a template is a Template with a name"),
    (WalksHidden, "walk gives what list gives, depth first, without what is not listed"),
    (WalksByName, "walk gives what list gives, depth first, without what is not listed"),
    (SuggestsWhatIsNot, "what complete suggests exists"),
    (SuggestsNumbers, SIGNATURE),
    (FetchesElse, "fetch gives what metadata and read give"),
    (FetchesUnknownQueries, "fetch gives what metadata and read give"),
    (FetchesNowhere, "a path that names nothing raises ResourceNotFound"),
    (FetchesAlone, SIGNATURE),
    (HidesWhatItShows, "what hides names raises ResourceNotFound"),
    (HidesMore, "hides returns at most `limit` items"),
    (HidesPathsOnly, SIGNATURE),
    (ExplainsNothing, SIGNATURE),
    (CannotExplainAbsence, "only errors of resource_server.errors leave a provider"),
    (OnlyEnters, "a lifetime has __aenter__ and __aexit__"),
    (Mixes, "methods may run concurrently"),
    (DiesOnLeaving, "a provider can be entered again"),
    (NeedsSevenScopes, "restrictions name at most 6 different scopes"),
    (NeedsOtherScopesWhenAsked, "restrictions are always the same"),
    (NeedsText, SIGNATURE),
    (NarrowsItself, "narrowed returns another provider, for it is entered and left by itself"),
    (NarrowsToNothing, SIGNATURE),
    (CannotBeNarrowed, "restrictions and narrowed raise nothing"),
    (ShowsAllToAll, "who lacks scopes does not see what needs them"),
    (KeepsFromAll, "narrowed to all scopes shows everything"),
    (ForgetsTemplates, "narrowed to all scopes shows everything"),
    (ShowsMore, "narrowed shows nothing that is not there without it"),
    (GivesWhatItDoesNotList, "what narrowed does not list raises ResourceNotFound"),
    (BreaksRulesWhenNarrowed, "what narrowed returns keeps the contract"),
]


async def test_a_provider_that_keeps_the_contract_passes() -> None:
    await check_provider(Shelf())


async def test_a_provider_of_which_parts_need_scopes_passes() -> None:
    await check_provider(Guarded())


async def test_a_provider_is_narrowed_to_no_scope_to_each_and_to_all() -> None:
    asked: list[frozenset[str]] = []

    class Asked(Guarded):
        def narrowed(self, scopes: frozenset[str]) -> Provider:
            asked.append(scopes)
            return super().narrowed(scopes)

    await check_provider(Asked())
    assert asked == [frozenset(), A, A | Z, Z]


async def test_what_is_broken_by_narrowing_is_told_with_the_scopes() -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(KeepsFromAll())
    assert caught.value.violations == (
        "narrowed to all scopes shows everything: with a:read, z:read there is no resource ('z',)",
    )


@pytest.mark.parametrize(("broken", "rule"), BROKEN, ids=[kind.__name__ for kind, _ in BROKEN])
async def test_each_broken_rule_is_told(broken: type[Shelf], rule: str) -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(broken())
    assert any(sentence.startswith(rule) for sentence in caught.value.violations), caught.value


async def test_a_violation_tells_the_path_and_what_was_seen() -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(Misjudges())
    assert caught.value.violations == (
        "a size is the number of bytes of the body: ('z',) has 3, its body 2",
    )


async def test_all_broken_rules_are_told_at_once() -> None:
    class Twice(HasNoName, HasTwinTemplates):
        pass

    with pytest.raises(ProviderViolations) as caught:
        await check_provider(Twice())
    assert len(caught.value.violations) == 2
    assert all(sentence in str(caught.value) for sentence in caught.value.violations)


async def test_of_many_places_of_one_rule_three_are_told() -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(ListsDocuments({(str(n),): "x" for n in range(10)}))
    [*_, last] = told = [s for s in caught.value.violations if s.startswith("to list a document")]
    assert len(told) == 3
    assert last.endswith("(and 7 more)")


async def test_the_check_is_bounded_on_a_large_provider() -> None:
    large = Shelf({(f"{n:05}",): "x" for n in range(3000)})
    await check_provider(large, max_resources=50)
    assert large.calls < 600


async def test_what_is_listed_and_never_readable_can_be_named() -> None:
    await check_provider(RefusesToRead(), unreadable=[("hidden",)])
    with pytest.raises(ProviderViolations, match="what is not readable raises ResourceNotFound"):
        await check_provider(Shelf(), unreadable=[("hidden",)])


async def test_a_provider_that_cannot_serve_says_so_itself() -> None:
    class Away(Shelf):
        async def __aenter__(self) -> Self:
            raise MountUnavailable("gone")

        async def __aexit__(self, *_: object) -> None:
            pass

    with pytest.raises(MountUnavailable, match="gone"):
        await check_provider(Away())


async def test_plain_methods_are_as_good_as_asynchronous_ones() -> None:
    class Plain:
        templates = ()

        def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
            if parent == ("a",):
                raise NotACollection
            if parent:
                raise ResourceNotFound
            return [] if after else [self.metadata(("a",))]

        def metadata(self, path: Path) -> Resource:
            if path in {(), ("a",)}:
                return Resource(path=path, name="a", type="document" if path else "collection")
            raise ResourceNotFound

        def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
            self.metadata(path)
            if query:
                raise InvalidParameter("no parameters here")
            return [Content("a")]

    await check_provider(Plain())


# -- watching


class Watched(Shelf):
    """A shelf that looks often for what has changed. Most classes below do it wrongly."""

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        seen = self.items
        while True:
            wanted = interest.paths or interest.listing
            for path in await self.came(interest, 0.01 if wanted else None):
                yield Change(path)
            now = self.items
            for path in {*seen, *now}:
                if seen.get(path) != now.get(path):
                    for change in self.tells(path):
                        yield change
            seen = now

    async def came(self, interest: Interest, within_s: float | None) -> Set[Path]:
        return (await interest.next(within_s))[0]

    def tells(self, path: Path) -> Sequence[Change]:
        return [Change(path), Change(path[:-1], "children")]


_watches: type[SupportsWatch] = Watched


class TellsOfItAll(Watched):
    def tells(self, path: Path) -> Sequence[Change]:
        return [Change((), "tree")]


class ArmsNothing(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        await interest.next()
        await asyncio.sleep(60)
        yield Change(())


class ArmsTheFirst(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        for path in (await interest.next())[0]:
            yield Change(path)
        await asyncio.sleep(60)


class ArmsWhatIsThere(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        async for change in super().changes(interest):
            if not change.path or change.path in self.items:
                yield change


class ArmsOnce(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        known: set[Path] = set()
        async for change in super().changes(interest):
            if change.path not in known:
                known.add(change.path)
                yield change


class TellsOfTreesBelow(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        while True:
            for path in (await interest.next())[0]:
                yield Change((*path, "x"), "tree")


class YieldsPaths(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Any]:
        async for change in super().changes(interest):
            yield change
            yield change.path


class YieldsLists(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Any]:
        async for change in super().changes(interest):
            yield change
            yield Change([*change.path])  # pyright: ignore[reportArgumentType]


class YieldsOddKinds(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Any]:
        async for change in super().changes(interest):
            yield change
            yield Change(change.path, "gone")  # pyright: ignore[reportArgumentType]


class YieldsSlashes(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        async for change in super().changes(interest):
            yield change
            yield Change(("a/b",))


class NeverRests(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        while True:
            await interest.next(0.001)
            yield Change((), "tree")


class NeverWaits(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        while True:
            yield Change((), "tree")


class Ends(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        for path in (await interest.next())[0]:
            yield Change(path)


class Fails(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        for path in (await interest.next())[0]:
            yield Change(path)
        raise OSError("too many watches")


class IsNoGenerator(Watched):
    async def changes(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, interest: Interest
    ) -> AsyncIterator[Change]:
        return super().changes(interest)


class ReturnsAList(Watched):
    def changes(self, interest: Interest) -> Any:
        return [Change(path) for path in interest.paths]


class IgnoresTheEnd(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        try:
            async for change in super().changes(interest):
                yield change
        except asyncio.CancelledError:
            yield Change(())


class IgnoresTheEndBetweenTwo(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        async for change in super().changes(interest):
            try:
                yield change
            except GeneratorExit:
                yield change


class FailsAtTheEnd(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        try:
            async for change in super().changes(interest):
                yield change
        finally:
            raise OSError("not open")


class EndsSlowly(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        try:
            async for change in super().changes(interest):
                yield change
        finally:
            await asyncio.sleep(5)


class KnowsOneInterest(Watched):
    interest: Interest

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        self.interest = interest
        async for change in super().changes(interest):
            yield change

    async def came(self, interest: Interest, within_s: float | None) -> Set[Path]:
        return (await self.interest.next(within_s))[0]


class EndsThemAll(Watched):
    watches = 0

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        self.watches += 1
        try:
            async for change in super().changes(interest):
                if self.watches:
                    yield change
        finally:
            self.watches = 0


class WatchesOneLife(Watched):
    lives = 0

    async def __aenter__(self) -> Self:
        self.lives += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        async for change in super().changes(interest):
            if self.lives == 1:
                yield change


class TellsNoChanges(Watched):
    def tells(self, path: Path) -> Sequence[Change]:
        return []


class TellsTheParentOnly(Watched):
    def tells(self, path: Path) -> Sequence[Change]:
        return [Change(path[:-1], "children")]


class TellsTheTopOnly(Watched):
    def tells(self, path: Path) -> Sequence[Change]:
        return [Change((), "children")]


class TellsOfSiblings(Watched):
    def tells(self, path: Path) -> Sequence[Change]:
        return [Change((*path[:-1], "other")), Change((*path, "below"), "tree")]


class TellsOneVersion(Watched):
    def entry(self, path: Path) -> Resource:
        return msgspec.structs.replace(super().entry(path), version="1")


class TellsForCertain(TellsOneVersion):
    def tells(self, path: Path) -> Sequence[Change]:
        return [Change(path, certain=True)]


class TellsTimes(Watched):
    def entry(self, path: Path) -> Resource:
        return msgspec.structs.replace(super().entry(path), version=None)


ARMED = "a Change follows for each path that comes to the interest"
GOES_ON = "changes goes on until it is closed"
ENDS = "changes ends at once, and without an error, when it is closed"
BESIDE = "watches that run beside each other do not disturb each other"
TOLD = "a Change tells what may have changed"
BROKEN_WATCHES: list[tuple[type[Watched], str]] = [
    (ArmsNothing, ARMED),
    (ArmsTheFirst, ARMED),
    (ArmsWhatIsThere, ARMED),
    (ArmsOnce, ARMED),
    (TellsOfTreesBelow, ARMED),
    (YieldsPaths, SIGNATURE),
    (YieldsLists, SIGNATURE),
    (YieldsOddKinds, SIGNATURE),
    (YieldsSlashes, "a segment is not empty, '.' or '..', has no '/' or NUL, and fits in a URI"),
    (NeverRests, "without interest nothing is yielded"),
    (NeverWaits, "without interest nothing is yielded"),
    (Ends, GOES_ON),
    (Fails, GOES_ON),
    (IsNoGenerator, SIGNATURE),
    (ReturnsAList, SIGNATURE),
    (IgnoresTheEnd, ENDS),
    (IgnoresTheEndBetweenTwo, ENDS),
    (FailsAtTheEnd, ENDS),
    (EndsSlowly, ENDS),
    (KnowsOneInterest, BESIDE),
    (EndsThemAll, BESIDE),
    (WatchesOneLife, "a provider can be entered again"),
    (TellsNoChanges, TOLD),
    (TellsTheParentOnly, TOLD),
    (TellsTheTopOnly, TOLD),
    (TellsOfSiblings, TOLD),
    (TellsOneVersion, "what has changed has another version"),
]


def put(shelf: Watched, path: Path, data: str | None) -> Callable[[], Path]:
    """Return what puts data on a shelf, or takes it away."""

    def make_change() -> Path:
        others = {other: shelf.items[other] for other in shelf.items if other != path}
        shelf.items = others if data is None else {**others, path: data}
        return path

    return make_change


@pytest.mark.parametrize(
    ("kind", "path", "data"),
    [
        (Watched, ("a", "empty"), "full"),
        (Watched, ("a", "b", "deep"), None),
        (Watched, ("a", "new"), "new"),
        (TellsOfItAll, ("a", "empty"), "full"),
        (TellsOfItAll, ("a", "b", "new"), "new"),
        (TellsTheParentOnly, ("a", "new"), "new"),
        (TellsTheTopOnly, ("new", "er"), "new"),
        (TellsForCertain, ("a", "empty"), "full"),
        (TellsTimes, ("a", "empty"), "full"),
    ],
)
async def test_a_provider_that_tells_of_a_change_passes(
    kind: type[Watched], path: Path, data: str | None
) -> None:
    shelf = kind()
    await check_provider(shelf, make_change=put(shelf, path, data), within_s=1)


async def test_a_change_may_be_made_while_others_run() -> None:
    shelf = Watched()

    async def make_change() -> Path:
        await asyncio.sleep(0)
        return put(shelf, ("a", "empty"), "full")()

    await check_provider(shelf, make_change=make_change, within_s=1)


@pytest.mark.parametrize(
    ("broken", "rule"), BROKEN_WATCHES, ids=[kind.__name__ for kind, _ in BROKEN_WATCHES]
)
async def test_each_broken_rule_of_watching_is_told(broken: type[Watched], rule: str) -> None:
    shelf = broken()
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(shelf, make_change=put(shelf, ("a", "empty"), "full"), within_s=0.2)
    assert any(sentence.startswith(rule) for sentence in caught.value.violations), caught.value


async def test_what_was_not_told_is_named_with_its_bound() -> None:
    shelf = TellsNoChanges()
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(shelf, make_change=put(shelf, ("a", "empty"), "full"), within_s=0.2)
    assert caught.value.violations == (f"{TOLD}: no Change of ('a', 'empty') came within 0.2 s",)


async def test_a_change_that_is_told_before_it_can_be_seen_is_told_too_early() -> None:
    class Early(Watched):
        async def metadata(self, path: Path) -> Resource:
            if path == ("a", "empty"):
                return changed([await super().metadata(path)], "empty", size=0, version="v0")[0]
            return await super().metadata(path)

    shelf = Early()
    with pytest.raises(ProviderViolations, match="what has changed has another version"):
        await check_provider(shelf, make_change=put(shelf, ("a", "empty"), "full"), within_s=0.2)


async def test_a_provider_that_is_not_to_watch_is_not_asked_to() -> None:
    class Off(Watched):
        watch = "off"

        def changes(self, interest: Interest) -> Any:
            raise AssertionError("asked")

    shelf = Off()
    await check_provider(shelf, make_change=put(shelf, ("a", "empty"), "full"))
    assert shelf.items == SHELF


async def test_a_change_cannot_be_made_where_nothing_watches() -> None:
    with pytest.raises(ProviderViolations, match="make_change is for a provider that has changes"):
        await check_provider(Shelf(), make_change=lambda: ("a",))


async def test_a_change_without_a_path_is_a_mistake_of_the_test() -> None:
    with pytest.raises(TypeError, match="make_change returned 'a'"):
        await check_provider(Watched(), make_change=lambda: "a")  # pyright: ignore[reportArgumentType]


async def test_the_client_sees_what_any_client_sees() -> None:
    async with client(Shelf(), base="shelf://books/") as connected:
        read = await connected.request("resources/read", {"uri": "shelf://books/a/b/deep"})
        assert read["contents"][0]["text"] == "deep"
        with pytest.raises(ErrorReply, match="not found"):
            await connected.request("resources/read", {"uri": "shelf://books/none"})


async def test_the_file_system_provider_keeps_the_contract(tmp_path: FilePath) -> None:
    for name, data in {
        "README.md": b"# Read me\n",
        "src/app.py": b"print('hi')\n",
        "src/deep/er/file.json": b"{}",
        "data/empty.csv": b"",
        "data/bytes.bin": bytes(range(256)),
        "data/utf-16.txt": "Grüße".encode("utf-16"),
        "data/bom.txt": b"\xef\xbb\xbfGr\xc3\xbc\xc3\x9fe",
        "data/latin.txt": b"Gr\xfc\xdfe",
        "data/large.log": b"line\n" * 5000,
        "odd/ü #?%\n.txt": b"odd",
        "ignored/x.txt": b"x",
        ".gitignore": b"ignored/\n",
        ".env": b"SECRET=1",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (tmp_path / "empty").mkdir()

    def make_change() -> Path:
        (tmp_path / "src/deep/er/file.json").write_bytes(b"[]")
        return ("src", "deep", "er", "file.json")

    await check_provider(Filesystem(path=tmp_path), make_change=make_change)


@dataclass
class Tooled(Shelf):
    """A shelf with tools that keep every rule. Each class below breaks one."""

    def tools(self) -> Sequence[Tool]:
        counted = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        word = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
        return [
            Tool(name="count", description="Count items", output_schema=counted),
            Tool(name="find", description="Find a word", input_schema=word),
        ]

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> ToolResult:
        assert name == "count", "find needs arguments"
        blocks = [TextBlock("some"), LinkBlock(("a",)), EmbeddedBlock(("a", "empty"))]
        return ToolResult(blocks, {"n": len(self.items)})


@dataclass
class AsksInVain(Tooled):
    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> ToolResult:
        request.progress(1, 2)
        request.log("info", "asking")
        assert not request.can_elicit
        await request.elicit("n", "How many?", {"type": "object"})
        raise AssertionError("nobody answers")


@pytest.mark.parametrize("provider", [Tooled, AsksInVain])
async def test_a_provider_whose_tools_keep_the_contract_passes(provider: type[Tooled]) -> None:
    await check_provider(provider())


def telling(*tools: Tool) -> type[Tooled]:
    class Telling(Tooled):
        def tools(self) -> Sequence[Tool]:
            return tools

    return Telling


def returning(result: Any) -> type[Tooled]:
    class Returning(Tooled):
        async def call_tool(
            self, name: str, arguments: Mapping[str, Any], request: ToolRequest
        ) -> ToolResult:
            return result

    return Returning


class ChangesItsTools(Tooled):
    def tools(self) -> Sequence[Tool]:
        return super().tools() if self.calls else []


@pytest.mark.parametrize(
    ("provider", "rule"),
    [
        (ChangesItsTools, "tools are always the same"),
        (telling(Tool(name="a b", description="x")), "a tool has a name"),
        (telling(Tool(name="a", description=" ")), "and a description"),
        (telling(*Tooled().tools(), *Tooled().tools()), "a name of its own"),
        (
            telling(Tool(name="a", description="x", input_schema={"type": "list"})),
            "the schemas of a tool can be used",
        ),
        (returning("words"), "returned 'words'"),
        (returning(ToolResult([TextBlock("x")])), "it has none"),
        (returning(ToolResult([TextBlock("x")], {"n": "1"})), "'1' is not of type 'integer'"),
        (returning(ToolResult([TextBlock("x")], {"n": object()})), "not JSON"),
        (returning(ToolResult([LinkBlock(("none",))], {"n": 1})), "a block names what is there"),
        (returning(ToolResult([EmbeddedBlock(("a",))], {"n": 1})), "a document is embedded"),
        (returning(ToolResult(["x"], {"n": 1})), "made of blocks"),  # pyright: ignore[reportArgumentType]
    ],
)
async def test_each_broken_rule_of_tools_is_found(provider: type[Tooled], rule: str) -> None:
    with pytest.raises(ProviderViolations) as found:
        await check_provider(provider())
    assert rule in str(found.value)
