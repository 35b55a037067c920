"""Mounts by the values of claims: shared by equal values, and closed when nobody uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from resource_server.access import (
    EVERYBODY,
    WHOLE,
    Caller,
    acting,
    claim_name,
    claim_path,
    usable_claim,
)
from resource_server.catalog import mount as mount_module
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.provider import Provider
from resource_server.subscriptions.broker import Broker
from tests.cases import for_each
from tests.listeners import IMPATIENT, Recorder
from tests.providers_for_tests import Tree, WatchedTree
from tests.waiting import until

pytestmark = pytest.mark.anyio

BASE = "test://one/"


class OfCallers(WatchedTree):
    """A tree whose document has the claims of the caller; knows which are open."""

    claims = frozenset(("sub", "org.id"))

    def __init__(self, text: str = "nobody", opened: list[str] | None = None) -> None:
        super().__init__({"a": text})
        self.text = text
        self.opened: list[str] = [] if opened is None else opened

    def with_claims(self, values: Mapping[str, Any]) -> Provider:
        return OfCallers(repr(sorted(values.items())), self.opened)

    async def __aenter__(self) -> OfCallers:
        self.opened.append(self.text)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.opened.remove(self.text)


def caller(sub: Any, **claims: Any) -> Caller:
    return Caller("somebody", frozenset(), claims={"sub": sub, **claims})


def catalog_of(provider: Provider, claims: Mapping[str, Any] | None = None) -> Catalog:
    return Catalog([Mount("one", BASE, provider, timing=IMPATIENT)], None, IMPATIENT, claims)


async def text(catalog: Catalog, caller: Caller) -> object:
    with acting(caller):
        (item,) = (await catalog.read(f"{BASE}a")).items
    assert item.content is not None
    return item.content.data


def mount_of(catalog: Catalog, caller: Caller) -> Mount:
    with acting(caller):
        return catalog.route(f"{BASE}a")[0]


async def test_callers_with_equal_values_share_a_mount_and_no_others() -> None:
    async with catalog_of(OfCallers()) as catalog:
        values: Sequence[Any] = (1, 1.0, True, "1", [1], [True], None, "None", [], "alice", "ALICE")
        mounts = [mount_of(catalog, caller(value)) for value in values]
        assert len(set(mounts)) == len(values)
        assert mounts == [mount_of(catalog, caller(value, other=2)) for value in values]
        assert mount_of(catalog, caller("alice", org={"id": 1})) not in mounts
        assert await text(catalog, caller("alice")) == "[('org.id', None), ('sub', 'alice')]"
        assert mount_of(catalog, caller({"a": 1})) is mount_of(catalog, caller(None))


async def test_callers_without_tokens_have_the_claims_of_the_catalog_or_none() -> None:
    async with catalog_of(OfCallers()) as catalog:
        assert mount_of(catalog, EVERYBODY) is catalog.mounts[0]
        assert await text(catalog, EVERYBODY) == "nobody"
    async with catalog_of(OfCallers(), {"sub": "me", "org": {}}) as catalog:
        assert await text(catalog, EVERYBODY) == "[('sub', 'me')]"
        assert await text(catalog, caller("alice")) == "[('org.id', None), ('sub', 'alice')]"
        nobody = Caller("somebody", frozenset())
        assert await text(catalog, nobody) == "[('org.id', None), ('sub', None)]"


async def test_mounts_that_nobody_uses_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount_module, "_MAX_BY_CLAIMS", 2)
    monkeypatch.setattr(mount_module, "_UNUSED_S", float("-inf"))
    provider = OfCallers()
    async with catalog_of(provider) as catalog:
        broker = Broker(catalog, IMPATIENT)
        with acting(caller("watching")):
            topic = await broker.subscribe(f"{BASE}a", recorder := Recorder())
        for n in range(20):
            assert await text(catalog, caller(n)) == f"[('org.id', None), ('sub', {n})]"
        shown = "[('org.id', None), ('sub', {})]".format
        await until(lambda: sorted(provider.opened) == [shown(n) for n in ("'watching'", 19)])
        assert await text(catalog, caller(3)) == shown(3)  # again
        broker.unsubscribe(topic.uri, recorder, topic.rights)
        for n in range(3):
            await text(catalog, caller(n))
        await until(lambda: sorted(provider.opened) == [shown(1), shown(2)])
        await broker.close()
    assert provider.opened == []


async def test_mounts_stay_open_for_those_who_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount_module, "_MAX_BY_CLAIMS", 2)
    provider = OfCallers()
    async with catalog_of(provider) as catalog:
        for n in range(20):
            await text(catalog, caller(n))
        assert len(provider.opened) == 20
    assert provider.opened == []


class FailsForBob(OfCallers):
    def with_claims(self, values: Mapping[str, Any]) -> Provider:
        if values["sub"] == "bob":
            raise OSError
        return super().with_claims(values)


async def test_a_provider_that_fails_for_a_caller_is_hidden_from_it() -> None:
    async with catalog_of(FailsForBob()) as catalog:
        with acting(caller("bob")):
            assert catalog.visibility.current().mounts == ()
        assert mount_of(catalog, caller("alice"))


async def test_a_catalog_without_claims_is_the_same_for_all() -> None:
    async with catalog_of(Tree({"a": "x"})) as catalog:
        assert catalog.visibility.is_same_for_all
        rights = {catalog.visibility.rights(caller(n)) for n in range(3)}
        assert len(rights) == 1


async def test_the_claims_of_one_token_are_encoded_once() -> None:
    async with catalog_of(OfCallers()) as catalog:
        alice, bob = caller("alice"), caller("bob")
        rights = catalog.visibility.rights(alice)
        assert "alice" in rights.claims
        assert "bob" in catalog.visibility.rights(bob).claims
        assert catalog.visibility.rights(alice) is rights


@for_each(
    ("name", "parts"),
    {
        "sub": ("sub",),
        "org.id": ("org", "id"),
        '"https://example.org/id".x': ("https://example.org/id", "x"),
        '"a""b"': ('a"b',),
        "a-b:c/d": ("a-b:c/d",),
    }.items(),
)
def test_names_of_claims_are_read_and_written(name: str, parts: tuple[str, ...]) -> None:
    assert claim_path(name) == parts
    assert claim_path(claim_name(parts)) == parts


@for_each("name", ["", ".", "a.", ".a", "a..b", 'a"b', '"a', "a b", '"a"b'])
def test_other_names_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="expected the name of a claim"):
        claim_path(name)


def test_claims_of_one_token_are_no_part_of_the_whole() -> None:
    claims = {"sub": "a", "exp": 1, "iat": 2, "jti": "x", "nbf": 3, "aud": ["b"]}
    assert usable_claim(claims, WHOLE) == '{"aud":["b"],"sub":"a"}'
    assert usable_claim({"exp": 1}, WHOLE) is None
    for odd in ({"a": "\0"}, {"a": "\ud800"}, {"a": "x" * 70_000}, {}, {"a": {1, 2}}):
        assert usable_claim(odd, WHOLE) is None or odd == {"a": {1, 2}}
