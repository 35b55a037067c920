from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Set
from typing import Any, ClassVar, cast

import pytest

from resource_server.errors import (
    ResourceNotFound,
)
from resource_server.provider import (
    Path,
    Provider,
    SupportsAccess,
    SupportsClaims,
    Template,
)
from resource_server.provider.tools import ToolRequest as ToolRequest
from resource_server.testing import ProviderViolations, check_provider
from tests.cases import for_each
from tests.testing.shelf import SHELF, SIGNATURE, Misjudges, Shelf

pytestmark = pytest.mark.anyio

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


class FailsWhenNarrowed(Guarded):
    def narrowed(self, scopes: frozenset[str]) -> Provider:
        raise KeyError(scopes)


class FailsToNameScopes(Guarded):
    @property
    def restrictions(self) -> Mapping[str, frozenset[str]]:
        raise KeyError


class NarrowsLater(Guarded):
    def narrowed(self, scopes: frozenset[str]) -> Provider:
        async def later() -> Provider:
            return Shelf(self.seen(scopes))

        return cast("Any", later())


class Later:
    """Gives scopes when it is awaited."""

    def __await__(self) -> Generator[None, None, Mapping[str, frozenset[str]]]:
        yield from ()
        return {"items.a": A}


class NamesScopesLater(Shelf):
    restrictions = Later()


class NamesScopesWhenCalled(Shelf):
    def restrictions(self) -> Mapping[str, frozenset[str]]:
        return {"items.a": A}


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


class OwnItems(Shelf):
    """A shelf of whose items each caller sees one."""

    names: Any = frozenset(("sub",))

    @property
    def claims(self) -> Set[str]:
        return self.names

    def with_claims(self, values: Mapping[str, Any]) -> Provider:
        return type(self)({path: item for path, item in self.items.items() if path[0] == "a"})


class OfItself(OwnItems):
    def with_claims(self, values: Mapping[str, Any]) -> Provider:
        return self


class FailsWithoutText(OwnItems):
    def with_claims(self, values: Mapping[str, Any]) -> Provider:
        return super().with_claims({"sub": values["sub"].lower()})


class UsesOtherClaimsWhenAsked(OwnItems):
    @property
    def claims(self) -> Set[str]:
        self.calls += 1
        return {f"claim{self.calls}"}


class BreaksRulesWithClaims(OwnItems):
    def with_claims(self, values: Mapping[str, Any]) -> Provider:
        return Misjudges(self.items)


class UsesOddNames(OwnItems):
    names = frozenset(("a b",))


class UsesNoNames(OwnItems):
    names = ("sub",)


BROKEN: list[tuple[type[Shelf], str]] = [
    (NeedsSevenScopes, "restrictions name at most 6 different scopes"),
    (NeedsOtherScopesWhenAsked, "restrictions do not change"),
    (NeedsText, SIGNATURE),
    (NarrowsItself, "narrowed returns a new provider, which is entered and left on its own"),
    (NarrowsToNothing, SIGNATURE),
    (CannotBeNarrowed, "restrictions, narrowed, claims and with_claims do not raise"),
    (FailsWhenNarrowed, "restrictions, narrowed, claims and with_claims do not raise"),
    (FailsToNameScopes, "restrictions, narrowed, claims and with_claims do not raise"),
    (NarrowsLater, SIGNATURE),
    (NamesScopesLater, SIGNATURE),
    (NamesScopesWhenCalled, SIGNATURE),
    (ShowsAllToAll, "resources that require scopes are hidden without them"),
    (KeepsFromAll, "narrowing to all scopes hides nothing"),
    (ForgetsTemplates, "narrowing to all scopes hides nothing"),
    (ShowsMore, "the narrowed provider has nothing that the whole provider lacks"),
    (
        GivesWhatItDoesNotList,
        "a path that the narrowed provider does not list raises ResourceNotFound",
    ),
    (BreaksRulesWhenNarrowed, "the narrowed provider keeps the contract"),
    (OfItself, "with_claims returns a new provider, which is entered and left on its own"),
    (FailsWithoutText, "restrictions, narrowed, claims and with_claims do not raise"),
    (UsesOtherClaimsWhenAsked, "claims do not change"),
    (BreaksRulesWithClaims, "the provider with claims keeps the contract"),
    (UsesOddNames, SIGNATURE),
    (UsesNoNames, SIGNATURE),
]


@for_each(("broken", "rule"), BROKEN, ids=[kind.__name__ for kind, _ in BROKEN])
async def test_each_broken_rule_is_reported(broken: type[Shelf], rule: str) -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(broken())
    assert any(sentence.startswith(rule) for sentence in caught.value.violations), caught.value


async def test_a_provider_with_scoped_parts_passes() -> None:
    await check_provider(Guarded())


async def test_a_provider_gets_texts_lists_numbers_and_the_absence_of_its_claims() -> None:
    given: list[Mapping[str, Any]] = []

    class Asked(OwnItems):
        def with_claims(self, values: Mapping[str, Any]) -> Provider:
            given.append(values)
            return super().with_claims(values)

    await check_provider(Asked())
    assert given == [{"sub": None}, {"sub": "somebody"}, {"sub": []}, {"sub": 7}]


async def test_a_provider_is_narrowed_to_no_scopes_to_each_and_to_all() -> None:
    asked: list[frozenset[str]] = []

    class Asked(Guarded):
        def narrowed(self, scopes: frozenset[str]) -> Provider:
            asked.append(scopes)
            return super().narrowed(scopes)

    await check_provider(Asked())
    assert asked == [frozenset(), A, A | Z, Z]


async def test_violations_by_narrowing_are_reported_with_the_scopes() -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(KeepsFromAll())
    assert caught.value.violations == (
        "narrowing to all scopes hides nothing: with a:read, z:read, resource ('z',) is missing",
    )


_restricts: type[SupportsAccess] = Guarded
_by_claims: type[SupportsClaims] = OwnItems
