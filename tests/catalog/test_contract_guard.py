"""No call of a provider can go unawaited or unchecked."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from resource_server import provider
from resource_server.catalog.contract_guard import GuardedProvider
from resource_server.catalog.mount import Mount
from resource_server.errors import ResourceServerError
from resource_server.provider import Resource
from tests.providers_for_tests import Tree, WalkingTree

PACKAGE = Path(provider.__file__).parent.parent
PROTOCOLS = [
    found
    for name in provider.__all__
    if name == "Provider" or name.startswith("Supports")
    if isinstance(found := getattr(provider, name), type)
]


def maybe_awaitable_methods() -> Iterator[str]:
    """Yield the name of each method of the contract that may return an awaitable."""
    for protocol in PROTOCOLS:
        for name, method in vars(protocol).items():
            if inspect.isfunction(method) and "MaybeAwaitable" in str(
                inspect.signature(method).return_annotation
            ):
                yield name


@pytest.mark.parametrize("name", sorted(set(maybe_awaitable_methods()) - {"walk"}))
def test_every_call_that_may_wait_is_a_coroutine(name: str) -> None:
    method: Callable[..., object] = getattr(GuardedProvider, name)
    # A type error follows if it is not awaited: pyright's reportUnusedCoroutine, or a wrong type.
    assert inspect.iscoroutinefunction(method)


def test_a_walk_is_reached_through_the_checked_traversal_alone() -> None:
    assert not hasattr(GuardedProvider, "walk")
    assert inspect.iscoroutinefunction(GuardedProvider.below)


@pytest.mark.slow
def test_nothing_but_the_guard_reaches_the_provider_itself() -> None:
    guard = PACKAGE / "catalog" / "contract_guard.py"
    uses = [
        f"{file.relative_to(PACKAGE)}:{node.lineno}"
        for file in PACKAGE.rglob("*.py")
        if file != guard
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("_provider", "_optional")
        if isinstance(node.value, ast.Attribute) and node.value.attr == "provider"
    ]
    assert uses == []
    mount = Mount("one", "test://one/", Tree({}))
    assert not any(isinstance(value, Tree) for value in vars(mount).values())


@pytest.mark.anyio
async def test_a_child_outside_its_parent_breaks_the_contract() -> None:
    class Astray(Tree):
        def list(self, *_: object, **__: object) -> list[Resource]:  # pyright: ignore[reportIncompatibleMethodOverride]
            return [Resource(path=("elsewhere", "a"), name="a")]

    with pytest.raises(ResourceServerError, match="not a child of `parent`"):
        await GuardedProvider(Astray({})).list((), after=None, limit=10)


def test_optional_protocols_are_found_once() -> None:
    assert "walk" in GuardedProvider(WalkingTree({})).abilities
    assert "walk" not in GuardedProvider(Tree({})).abilities
