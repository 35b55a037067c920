"""A provider that misbehaves in one of its methods, in one way; also a plugin, as a `.py` file."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from resource_server.provider import Change, Content, Interest, Path, Provider, Resource, Template
from resource_server.provider.search import Hit, SearchPage, SearchRequest
from resource_server.provider.tools import TextBlock, Tool, ToolRequest, ToolResult

METHODS = (
    "__aenter__",
    "__aexit__",
    "call_tool",
    "changes",
    "complete",
    "explain",
    "fetch",
    "hides",
    "level",
    "list",
    "metadata",
    "narrowed",
    "read",
    "restrictions",
    "search",
    "templates",
    "tools",
    "warnings",
)
AT_ONCE = ("narrowed", "restrictions", "templates")
"""Methods that never wait."""
OPTIONAL = ("complete", "explain", "fetch", "hides", "level", "search", "warnings")
"""Methods of abilities that only the mount has which misbehaves in them."""

_RAISED = {
    error.__name__: error
    for error in (
        SystemExit,
        KeyboardInterrupt,
        GeneratorExit,
        asyncio.CancelledError,
        BaseException,
        RuntimeError,
        StopIteration,
        StopAsyncIteration,
    )
}
released = asyncio.Event()
"""Ends what clings."""


def _raiser(error: type[BaseException]) -> Callable[[], object]:
    def misbehave() -> object:
        raise error

    return misbehave


def _late_raiser(error: type[BaseException]) -> Callable[[], object]:
    async def misbehave() -> object:
        await asyncio.sleep(0)
        raise error

    return misbehave


async def _hang() -> None:
    await asyncio.Event().wait()


async def _cling() -> None:
    while not released.is_set():
        with suppress(asyncio.CancelledError):
            await released.wait()


async def _cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def _fail_in_a_task() -> None:
    async def fail() -> None:
        raise SystemExit

    await asyncio.create_task(fail())


async def _yield() -> AsyncIterator[int]:
    yield 1


WAYS_AT_ONCE: Mapping[str, Callable[[], object]] = {
    **{f"raises {name}": _raiser(error) for name, error in _RAISED.items()},
    "returns None": lambda: None,
    "returns a number": lambda: 7,
    "returns an endless generator": lambda: (str(number) for number in itertools.count()),
    "returns an asynchronous generator": _yield,
    "returns objects": lambda: [object(), object()],
}
WAYS: Mapping[str, Callable[[], object]] = {
    **WAYS_AT_ONCE,
    **{f"raises {name} late": _late_raiser(error) for name, error in _RAISED.items()},
    "hangs": _hang,
    "clings": _cling,
    "cancels itself": _cancel_itself,
}
WAYS_OF_A_PROCESS: Mapping[str, Callable[[], object]] = {
    **{name: WAYS[name] for name in WAYS if "SystemExit" in name or "Interrupt" in name},
    **{name: WAYS[name] for name in ("raises CancelledError late", "hangs", "clings")},
    "returns an endless generator": WAYS["returns an endless generator"],
    "raises SystemExit in a task of its own": _fail_in_a_task,
}
"""Ways that could end the process, or keep it; the last one ends the loop of a test as well."""
_EVERY_WAY = {**WAYS, **WAYS_OF_A_PROCESS}


@dataclass
class Misbehaving:
    """Serves one document and one collection, except where it misbehaves."""

    method: str
    way: str
    is_entered: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        together = ("explain", "hides", "warnings")
        for name in together if self.method in together else (self.method,):
            if name in OPTIONAL:
                setattr(self, name, getattr(self, f"_{name}"))

    def _now(self, method: str, right: Any) -> Any:
        return _EVERY_WAY[self.way]() if method == self.method else right

    async def __aenter__(self) -> Self:
        found = self._now("__aenter__", None)
        if hasattr(found, "__await__"):
            await found
        return self

    async def __aexit__(self, *_: object) -> None:
        found = self._now("__aexit__", None)
        if hasattr(found, "__await__"):
            await found

    @property
    def templates(self) -> Any:
        return self._now("templates", (Template("{+path}", name="node"),))

    @property
    def restrictions(self) -> Any:
        return self._now("restrictions", {"some": frozenset({"secret"})})

    def narrowed(self, scopes: frozenset[str]) -> Any:
        return self._now("narrowed", self)

    def list(self, parent: Path, *, after: Path | None, limit: int) -> Any:
        names = (
            [] if parent else [name for name in ("doc", "more") if not after or name > after[-1]]
        )
        right = [self._described((*parent, name)) for name in names]
        return self._now("list", right[:limit])

    def _level(self, depth: int, type: str, *, after: Path | None, limit: int) -> Any:
        return self._now("level", ())

    def metadata(self, path: Path) -> Any:
        return self._now("metadata", self._described(path))

    def read(self, path: Path, query: Mapping[str, str]) -> Any:
        return self._now("read", [Content("text")])

    def _fetch(self, path: Path, query: Mapping[str, str]) -> Any:
        return self._now("fetch", (self._described(path), [Content("text")]))

    def _complete(self, variable: str, value: str, *, given: Mapping[str, str]) -> Any:
        return self._now("complete", ["doc"])

    def _search(self, request: SearchRequest, **_: Any) -> Any:
        return self._now("search", SearchPage(hits=[Hit(self._described(("doc",)))]))

    def tools(self) -> Any:
        return self._now("tools", [Tool(name="roll", description="Roll a die")])

    def call_tool(self, name: str, arguments: Mapping[str, Any], request: ToolRequest) -> Any:
        return self._now("call_tool", ToolResult([TextBlock("4")]))

    def _explain(self, path: Path) -> Any:
        return self._now("explain", "exposed")

    def _hides(self, *, limit: int) -> Any:
        return self._now("hides", [])

    def _warnings(self, *, thorough: bool) -> Any:
        return self._now("warnings", [])

    def changes(self, interest: Interest) -> Any:
        if self.method == "changes":
            return _changes(self._now("changes", None))
        return _changes(_hang())

    def _described(self, path: Path) -> Resource:
        is_document = path[-1:] == ("doc",)
        name = path[-1] if path else self.method
        return Resource(path=path, name=name, type="document" if is_document else "collection")


async def _changes(found: Any) -> AsyncIterator[Change]:
    yield await found if hasattr(found, "__await__") else found


def misbehaving(method: str, way: str) -> Sequence[Provider]:
    """Return providers for mounts `one` and `two`: one that misbehaves, and one that does not."""
    return Misbehaving(method, way), Misbehaving("nothing", way)
