from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from resource_server.errors import InvalidParameter, NotACollection, ResourceNotFound
from resource_server.provider import Content, Path, Resource, Skill, SkillFile, Template
from resource_server.provider.tools import ToolRequest as ToolRequest
from resource_server.testing import ProviderViolations, check_provider
from tests.cases import for_each
from tests.providers_for_tests import Tree
from tests.testing.shelf import SIGNATURE, Misjudges, Shelf, changed

pytestmark = pytest.mark.anyio


class ListsDocuments(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        try:
            return await super().list(parent, after=after, limit=limit)
        except NotACollection:
            return []


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


class SuggestsWhatIsNot(Shelf):
    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        return ["a/", "nothing"]


class SuggestsNumbers(Shelf):
    async def complete(self, variable: str, value: str, *, given: Mapping[str, str]) -> Any:
        return [1, 2]


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


class WarnsOfOptionsAlone(Shelf):
    def warnings(self, *, thorough: bool) -> Any:
        return ["items"]


class ExplainsNothing(Shelf):
    def explain(self, path: Path) -> str:
        return ""


class CannotExplainAbsence(Shelf):
    def explain(self, path: Path) -> str:
        return f"of the length {len(str(self.items[path]))}" if path else "the shelf"


BROKEN: list[tuple[type[Shelf], str]] = [
    (ListsDocuments, "listing a document raises NotACollection"),
    (ForgetsMetadata, "every listed resource has metadata"),
    (TellsAnotherSize, "metadata agrees with the listing"),
    (ChangesVersions, "metadata stays the same while nothing changes"),
    (KnowsEverything, "an absent path raises ResourceNotFound"),
    (RaisesKeyErrors, "a provider raises only errors from resource_server.errors"),
    (ReturnsNone, SIGNATURE),
    (HasNoName, "a resource has a name"),
    (HasNaiveTimes, "last_modified has a time zone"),
    (MeasuresCollections, "only documents have a size, of 0 or more"),
    (HasOddDetails, "details can be encoded as JSON"),
    (Misjudges, "a size is the number of bytes of the body"),
    (ReadsNothing, "a document has at least one content"),
    (RefusesToRead, "a document has at least one content"),
    (ReadsText, SIGNATURE),
    (ReadsNumbers, "data is str or bytes"),
    (ReadsSurrogates, "text has no lone surrogates"),
    (IgnoresTheQuery, "an unknown URI parameter raises InvalidParameter"),
    (ReadsNoFormats, "every format can be read"),
    (CannotReadOn, "the rest of truncated content can be read"),
    (HasBadTemplates, "a template uses only {x}, {+x}, {?x,y} and {&x,y} of RFC 6570"),
    (HasTwinTemplates, "no two templates have the same URI template"),
    (HasNamelessTemplates, "a template is a Template with a name"),
    (SuggestsWhatIsNot, "completions name existing resources"),
    (SuggestsNumbers, SIGNATURE),
    (FetchesElse, "fetch gives the same as metadata and read"),
    (FetchesUnknownQueries, "fetch gives the same as metadata and read"),
    (FetchesNowhere, "an absent path raises ResourceNotFound"),
    (FetchesAlone, SIGNATURE),
    (HidesWhatItShows, "hidden paths raise ResourceNotFound"),
    (HidesMore, "a page has at most `limit` items"),
    (HidesPathsOnly, SIGNATURE),
    (WarnsOfOptionsAlone, SIGNATURE),
    (ExplainsNothing, SIGNATURE),
    (CannotExplainAbsence, "a provider raises only errors from resource_server.errors"),
]


@for_each(("broken", "rule"), BROKEN, ids=[kind.__name__ for kind, _ in BROKEN])
async def test_each_broken_rule_is_reported(broken: type[Shelf], rule: str) -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(broken())
    assert any(sentence.startswith(rule) for sentence in caught.value.violations), caught.value


async def test_a_violation_names_the_path_and_the_observed_value() -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(Misjudges())
    assert caught.value.violations == (
        "a size is the number of bytes of the body: ('z',) has 3, its body 2",
    )


async def test_all_broken_rules_are_reported_together() -> None:
    class Twice(HasNoName, HasTwinTemplates):
        pass

    with pytest.raises(ProviderViolations) as caught:
        await check_provider(Twice())
    assert len(caught.value.violations) == 2
    assert all(sentence in str(caught.value) for sentence in caught.value.violations)


async def test_at_most_three_violations_of_one_rule_are_reported() -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(ListsDocuments({(str(n),): "x" for n in range(10)}))
    [*_, last] = told = [s for s in caught.value.violations if s.startswith("listing a document")]
    assert len(told) == 3
    assert last.endswith("(and 7 more)")


async def test_unreadable_resources_can_be_declared() -> None:
    await check_provider(RefusesToRead(), unreadable=[("hidden",)])
    with pytest.raises(
        ProviderViolations, match="reading an unreadable document raises ResourceNotFound"
    ):
        await check_provider(Shelf(), unreadable=[("hidden",)])


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Skilled(Tree):
    """A tree with three skills, the last one generated."""

    def __init__(self) -> None:
        body = {"SKILL.md": "text", "inner": {"x": "grün"}}
        super().__init__({"a": dict(body), "b": dict(body), "c": {"SKILL.md": "text"}})

    def make(self, name: str) -> Skill:
        path = (name, "SKILL.md")
        files = (
            SkillFile(path, digest(b"text"), 4),
            SkillFile((name, "inner", "x"), digest("grün".encode()), 5),
        )
        front = {"name": name, "description": "x"}
        return Skill(path, front, None if name == "c" else files)

    @property
    def all(self) -> list[Skill]:
        return [self.make(name) for name in "abc"]

    async def list_skills(self, *, after: Path | None, limit: int) -> Sequence[Any]:
        return [each for each in self.all if after is None or each.path > after][:limit]

    async def get_skill(self, path: Path) -> Any:
        for each in self.all:
            if each.path == path:
                return each
        raise ResourceNotFound


class ListsMore(Skilled):
    async def list_skills(self, *, after: Path | None, limit: int) -> Sequence[Any]:
        return self.all


class Repeats(Skilled):
    async def list_skills(self, *, after: Path | None, limit: int) -> Sequence[Any]:
        return self.all[:limit]


class ListsAnything(Skilled):
    async def list_skills(self, *, after: Path | None, limit: int) -> Sequence[Any]:
        return ["a"]


class GetsAnother(Skilled):
    async def get_skill(self, path: Path) -> Any:
        return replace(await super().get_skill(path), files=None)


class GetsAnything(Skilled):
    async def get_skill(self, path: Path) -> Any:
        return self.all[0]


class Misnames(Skilled):
    def make(self, name: str) -> Skill:
        return replace(super().make(name), frontmatter={"name": "z", "description": "x"})


class Undescribed(Skilled):
    def make(self, name: str) -> Skill:
        return replace(super().make(name), frontmatter={"name": name})


class Absent(Skilled):
    def make(self, name: str) -> Skill:
        found = super().make(name)
        if name != "b":
            return found
        return Skill(("d", "SKILL.md"), {"name": "d", "description": "x"}, None)


class LeavesOut(Skilled):
    def make(self, name: str) -> Skill:
        return replace(super().make(name), files=())


class Digests(Skilled):
    def make(self, name: str) -> Skill:
        found = super().make(name)
        return replace(found, files=found.files and (replace(found.files[0], size=5),))


class Strays(Skilled):
    def make(self, name: str) -> Skill:
        found = super().make(name)
        return replace(found, files=found.files and (*found.files, *self.other(name)))

    def other(self, name: str) -> tuple[SkillFile, ...]:
        return (SkillFile(("b" if name == "a" else "a", "SKILL.md"), digest(b"text"), 4),)


async def test_skills_that_keep_the_rules_are_accepted() -> None:
    await check_provider(Skilled())


@for_each(
    ("broken", "rule"),
    [
        (ListsMore, "a page has at most `limit` items"),
        (Repeats, "list_skills returns each skill once"),
        (ListsAnything, "methods return the types declared in resource_server.provider"),
        (GetsAnother, "get_skill returns what list_skills does"),
        (GetsAnything, "an absent path raises ResourceNotFound"),
        (Misnames, "a skill is a SKILL.md in a collection of its name"),
        (Undescribed, "a skill has a description"),
        (Absent, "the SKILL.md of a skill is a document"),
        (LeavesOut, "the files of a skill are its SKILL.md and others, each once"),
        (Digests, "the digest of a file is that of the bytes that a read returns"),
        (Strays, "the files of a skill are below its collection"),
    ],
)
async def test_a_broken_rule_of_skills_is_named(broken: type[Skilled], rule: str) -> None:
    with pytest.raises(ProviderViolations) as found:
        await check_provider(broken())
    assert any(each.startswith(rule) for each in found.value.violations), found.value.violations
