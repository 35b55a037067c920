"""No call of a provider can go unawaited or unchecked."""

from __future__ import annotations

import ast
import asyncio
import inspect
import itertools
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import pytest

from resource_server import provider
from resource_server.catalog.contract_guard import MAX_ABANDONED, GuardedProvider
from resource_server.catalog.mount import Mount
from resource_server.errors import MountUnavailable, ProviderFailed, ResourceServerError
from resource_server.provider import Resource
from resource_server.provider.search import SearchRequest
from resource_server.runtime.eager import TimeLimit
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.providers_for_tests import LevelTree, SlowTree, Tree
from tests.waiting import PATIENCE_S, until

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


@for_each("name", sorted(set(maybe_awaitable_methods())))
def test_every_call_that_may_wait_is_a_coroutine(name: str) -> None:
    method: Callable[..., object] = getattr(GuardedProvider, name)
    # A type error follows if it is not awaited: pyright's reportUnusedCoroutine, or a wrong type.
    assert inspect.iscoroutinefunction(method)


@pytest.mark.guarantee("plugins-cannot-end-the-server")
def test_nothing_but_the_guard_reaches_the_provider_itself() -> None:
    guard = PACKAGE / "catalog" / "contract_guard.py"
    uses = [
        f"{file.relative_to(PACKAGE)}:{node.lineno}"
        for file in PACKAGE.rglob("*.py")
        if file != guard
        # To parse the whole package takes minutes on a busy machine.
        if re.search(r"\._(provider|optional)\b", text := file.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
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
    assert "levels" in GuardedProvider(LevelTree({})).abilities
    assert "levels" not in GuardedProvider(Tree({})).abilities


def test_an_ability_without_one_of_its_methods_is_named() -> None:
    class Half(Tree):
        def __init__(self) -> None:
            super().__init__({})
            self.tools = ("an option, no method",)

        def hides(self, *, limit: int) -> list[object]:
            return []

        @property
        def restrictions(self) -> dict[str, frozenset[str]]:
            return {"some": frozenset({"secret"})}

    assert GuardedProvider(Half()).incomplete == [
        "restrictions without narrowed",
        "hides without explain, warnings",
    ]
    assert GuardedProvider(LevelTree({})).incomplete == []


@for_each("has_slots", [False, True])
def test_an_option_with_the_name_of_a_method_is_no_ability(has_slots: bool) -> None:
    @dataclass(slots=has_slots)
    class Optioned(Tree):
        tools: tuple[str, ...] = ()

    assert GuardedProvider(Optioned()).incomplete == []


class Restricted(Tree):
    """Its restrictions are read by code that has a mistake."""

    @property
    def restrictions(self) -> dict[str, frozenset[str]]:
        raise AttributeError("scopes")

    def narrowed(self, scopes: frozenset[str]) -> Tree:
        return self


def test_restrictions_that_fail_do_not_count_as_none() -> None:
    with pytest.raises(AttributeError):
        GuardedProvider(Restricted({}))


WRONG: list[object] = [None, 7, "text", (number for number in range(3)), [object()], [None]]


CALLS: Mapping[str, Callable[[GuardedProvider], Awaitable[object]]] = {
    "list": lambda guarded: guarded.list((), after=None, limit=9),
    "metadata": lambda guarded: guarded.metadata(()),
    "read": lambda guarded: guarded.read(("a",), {}),
    "fetch": lambda guarded: guarded.fetch(("a",), {}),
    "level": lambda guarded: guarded.level(1, "document", after=None, limit=9),
    "complete": lambda guarded: guarded.complete("path", "", given={}),
    "search": lambda guarded: guarded.search(
        SearchRequest(text="a", where="names"), below=(), after=None, limit=9, deadline=0
    ),
    "call_tool": lambda guarded: guarded.call_tool("x", {}, cast("Any", None), TimeLimit(9)),
    "explain": lambda guarded: guarded.explain(()),
    "hides": lambda guarded: guarded.hides(limit=9),
    "warnings": lambda guarded: guarded.warnings(thorough=True),
}


class Wrong:
    """Returns the same from every method."""

    templates = ()

    def __init__(self, result: object) -> None:
        def method(*_: object, **__: object) -> object:
            return result

        for name in (*CALLS, "tools"):
            setattr(self, name, method)


@pytest.mark.anyio
@for_each(
    ("method", "wrong"),
    [
        (method, wrong)
        for method, wrong in itertools.product(CALLS, WRONG)
        # A text, and a sequence of texts.
        if not (wrong == "text" and method in ("complete", "explain"))
    ],
)
async def test_a_result_of_another_type_breaks_the_contract(method: str, wrong: object) -> None:
    guarded = GuardedProvider(cast("Any", Wrong(wrong)))
    with pytest.raises(ResourceServerError, match="must return"):
        await CALLS[method](guarded)


class Stuck(SlowTree):
    """Never answers, not even when it is cancelled, before it is released."""

    def __init__(self) -> None:
        super().__init__({})
        self.released = asyncio.Event()
        self.calls = 0

    async def metadata(self, path: tuple[str, ...]) -> Resource:
        self.calls += 1
        while not self.released.is_set():
            with suppress(asyncio.CancelledError):
                await self.released.wait()
        return await super().metadata(path)


@pytest.mark.anyio
async def test_a_provider_with_many_hanging_calls_is_called_no_further() -> None:
    provider = Stuck()
    guarded = GuardedProvider(provider, Timing(call_s=0.05))
    # A call whose time is over before it begins does not hang.
    while left := MAX_ABANDONED - provider.calls:
        calls = (guarded.metadata(()) for _ in range(left))
        await asyncio.gather(*calls, return_exceptions=True)
    before = len(asyncio.all_tasks())
    try:
        with pytest.raises(MountUnavailable, match="100 earlier calls"):
            await guarded.metadata(())
        assert len(asyncio.all_tasks()) == before
    finally:
        provider.released.set()  # its calls ignore that they are cancelled
    await until(lambda: len(asyncio.all_tasks()) <= before - MAX_ABANDONED)
    await asyncio.sleep(0)
    assert (await guarded.metadata((), TimeLimit(PATIENCE_S))).type == "collection"


@pytest.mark.anyio
async def test_a_provider_may_ask_for_more_time() -> None:
    class Patient(SlowTree):
        call_timeout_s = 60.0

        async def metadata(self, path: tuple[str, ...]) -> Resource:
            await finished.wait()
            return await super().metadata(path)

    finished = asyncio.Event()
    timing = Timing(call_s=0.01)
    with pytest.raises(MountUnavailable):
        await GuardedProvider(
            type("Plain", (Patient,), {"call_timeout_s": 0})({}), timing
        ).metadata(())
    asyncio.get_running_loop().call_later(0.1, finished.set)
    assert await GuardedProvider(Patient({}), timing).metadata(())


@pytest.mark.anyio
async def test_a_cancelled_caller_is_cancelled_and_a_cancelled_provider_has_failed() -> None:
    class Cancelling(SlowTree):
        async def read(self, path: tuple[str, ...], query: object) -> Any:
            raise asyncio.CancelledError

        async def metadata(self, path: tuple[str, ...]) -> Resource:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
            raise AssertionError

        async def list(self, *_: object, **__: object) -> Any:
            begun.set()
            await asyncio.Event().wait()

    begun = asyncio.Event()
    guarded = GuardedProvider(Cancelling({}))
    for call in (guarded.read((), {}), guarded.metadata(())):
        with pytest.raises(ProviderFailed, match="CancelledError"):
            await call
    listing = asyncio.create_task(guarded.list((), after=None, limit=9))
    await begun.wait()
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing


class Gated(Tree):
    """Is entered once the gate is open; leaving waits a moment."""

    def __init__(self) -> None:
        super().__init__({})
        self.gate = asyncio.Event()
        self.is_waiting = False
        self.lifetimes = 0

    async def __aenter__(self) -> Self:
        self.is_waiting = True
        await self.gate.wait()
        self.lifetimes += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)
        self.lifetimes -= 1


@pytest.mark.anyio
@for_each("steps", range(8))
async def test_a_provider_entered_as_its_caller_is_cancelled_is_left(steps: int) -> None:
    provider = Gated()
    entering = asyncio.create_task(GuardedProvider(provider).enter())
    await until(lambda: provider.is_waiting)
    provider.gate.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    entering.cancel()
    await asyncio.wait([entering])
    assert provider.lifetimes == (0 if entering.cancelled() else 1)
