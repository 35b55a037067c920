"""Checked calls of a provider: plain and asynchronous methods, wrong results, foreign errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from resource_server.errors import InvalidParameter, NotACollection, ResourceNotFound
from resource_server.provider import Content, Path, Resource
from resource_server.testing import check_provider
from resource_server.testing.provider_calls import (
    SIGNATURE,
    Calls,
    brief,
    is_addressable,
    is_below,
    is_path_tuple,
)
from tests.testing.shelf import Shelf

pytestmark = pytest.mark.anyio


async def test_plain_methods_are_accepted_like_asynchronous_ones() -> None:
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


async def test_an_error_of_the_contract_is_returned() -> None:
    calls = Calls(Shelf())
    assert isinstance(await calls.metadata(("absent",)), ResourceNotFound)
    assert calls.violations() == []


async def test_any_other_error_is_a_violation() -> None:
    class Raises(Shelf):
        async def metadata(self, path: Path) -> Resource:
            raise KeyError(path)

    calls = Calls(Raises())
    assert await calls.metadata(("a",)) is None
    (violation,) = calls.violations()
    assert violation.startswith("a provider raises only errors from resource_server.errors: ")
    assert "metadata(('a',)) raised KeyError" in violation


async def test_the_text_of_an_error_is_one_line_of_bounded_length() -> None:
    class Raises(Shelf):
        async def metadata(self, path: Path) -> Resource:
            raise ValueError("x\n" * 1_000_000)

    calls = Calls(Raises())
    await calls.metadata(("a",))
    (violation,) = calls.violations()
    assert len(violation) < 1000
    assert "\n" not in violation


async def test_a_result_of_another_type_is_a_violation() -> None:
    class ReturnsText(Shelf):
        async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
            return "text"  # pyright: ignore[reportReturnType]

    calls = Calls(ReturnsText())
    assert await calls.read(("a",)) is None
    assert calls.violations() == [f"{SIGNATURE}: read(('a',), {{}}) returned 'text'"]


async def test_a_page_over_its_limit_is_a_violation() -> None:
    class IgnoresLimit(Shelf):
        async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
            return [Resource(path=(name,), name=name, type="document") for name in "abc"]

    calls = Calls(IgnoresLimit())
    assert await calls.list((), limit=2) is None
    (violation,) = calls.violations()
    assert violation.startswith("a page has at most `limit` items: ")
    assert violation.endswith("limit=2) returned 3")


def test_three_places_of_each_rule_are_named() -> None:
    calls = Calls(Shelf())
    for number in range(5):
        calls.broken("the rule", f"place {number}")
    calls.broken("another rule", "place")
    assert calls.violations() == [
        "the rule: place 0",
        "the rule: place 1",
        "the rule: place 2 (and 2 more)",
        "another rule: place",
    ]


def test_paths_are_compared_and_checked() -> None:
    assert is_below(("a", "b"), [("x",), ("a",)])
    assert is_below(("a",), [("a",)])
    assert not is_below(("a",), [("a", "b")])
    assert is_path_tuple(("a", "b"))
    assert not is_path_tuple(["a"])
    assert not is_path_tuple(("a", 1))
    assert is_addressable(("grüße", "a b"))
    assert not is_addressable(("a/b",))
    assert not is_addressable(("..",))


def test_long_values_are_shortened() -> None:
    assert brief("short") == "'short'"
    assert brief("x" * 1000).endswith("x…")
    assert len(brief("x" * 1000)) == 201
