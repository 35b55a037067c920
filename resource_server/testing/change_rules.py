"""Rules of `changes`: every subscribed path is watched, and every change is reported."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeAlias, cast, get_args, get_type_hints

from resource_server.catalog.mount import Mount
from resource_server.errors import ResourceBusy, ResourceNotFound
from resource_server.provider import Change, MaybeAwaitable, Path, Resource, SupportsWatch
from resource_server.runtime.eager import settle
from resource_server.subscriptions.interest import MountInterest
from resource_server.testing.provider_calls import (
    SEGMENTS,
    SIGNATURE,
    Calls,
    brief,
    is_addressable,
    is_path_tuple,
)

MakeChange: TypeAlias = Callable[[], MaybeAwaitable[Path]]

_EVERY_PATH = "a Change is yielded for every path added to the interest"
_INDEPENDENT = "concurrent watches are independent of each other"
_NO_INTEREST = "nothing is yielded while the interest is empty"
_REPORTED = "every change is reported by a Change"
_NEW_VERSION = "a changed resource has a new version"

_MAX_SUBSCRIBED = 24
_NOWHERE: Sequence[Path] = (("no-such-3f9c",), ("no-such-3f9c", "below"))
_LATER: Sequence[Path] = (("no-such-5a7e",), ("no-such-c017",))
_BUSY_S = 0.05

_State: TypeAlias = tuple[object, ...]
_ABSENT: _State = (ResourceNotFound.__name__,)


async def check_watch(calls: Calls, resources: Sequence[Resource], within_s: float) -> bool:
    """Subscribe to some resources and to absent paths, with one watch and with two.

    Returns False if a watch does not start correctly.
    """
    watches = _watches(calls)
    if watches is None:
        return True
    every = max(1, len(resources) // _MAX_SUBSCRIBED)
    some = [(), *_NOWHERE, *(resource.path for resource in resources[::every])]
    async with RunningWatch(calls, watches, within_s) as watcher:
        watcher.subscribe(some[::2], listing=True)
        if not await watcher.is_armed(_EVERY_PATH):
            return False
        watcher.subscribe(some[1::2])
        if not await watcher.is_armed(_EVERY_PATH):
            return False
        watcher.unsubscribe()
        if not await watcher.is_quiet(within_s):
            calls.broken(_NO_INTEREST, f"changes still came after {within_s:g} s")
        watcher.subscribe(some)
        if not await watcher.is_armed(_EVERY_PATH):
            return False
        async with RunningWatch(calls, watches, within_s) as other:
            other.subscribe(some)
            if await other.is_armed(_INDEPENDENT):
                watcher.subscribe([_LATER[0]])
                await watcher.is_armed(_INDEPENDENT)
                await other.close_at(_LATER[0])
        watcher.subscribe([_LATER[1]])
        return await watcher.is_armed(_INDEPENDENT)


async def check_change(
    calls: Calls,
    resources: Sequence[Resource],
    make_change: MakeChange | None,
    within_s: float,
    rule: str = _EVERY_PATH,
) -> None:
    """Subscribe to everything, make a change, and check that it is reported and visible.

    `rule` is the rule that a path without a `Change` breaks.
    """
    watches = _watches(calls)
    if watches is None:
        if make_change is not None and not isinstance(calls.provider, SupportsWatch):
            calls.broken("make_change requires a provider with changes", "this one has none")
        return
    paths = [(), *(resource.path for resource in resources)]
    before = {path: await _state(calls, path) for path in paths}
    async with RunningWatch(calls, watches, within_s) as watcher:
        watcher.subscribe(paths, listing=True)
        if not await watcher.is_armed(rule) or make_change is None:
            return
        # Changes reported at the start must not count as the change.
        await watcher.is_quiet(min(1.0, within_s))
        watcher.told.clear()
        path = cast("object", await settle(make_change()))
        if not is_path_tuple(path):
            raise TypeError(
                f"make_change returned {brief(path)}, not the path of the changed document"
            )
        await _check_told(calls, watcher, path, before)


async def _check_told(
    calls: Calls, watcher: RunningWatch, path: Path, before: Mapping[Path, _State]
) -> None:
    """Compare the state of `path`, as the server does, after each `Change` that concerns it."""
    state = before.get(path, _ABSENT)
    # A new path has no subscription, but the collection around it has.
    depth = next(depth for depth in range(len(path), -1, -1) if path[:depth] in before)
    was_told = False

    def concerning() -> list[Change]:
        return [change for change in watcher.told if _concerns(change, path, depth)]

    end = time.monotonic() + watcher.within_s
    while (left := end - time.monotonic()) > 0:
        if not await watcher.until(lambda: bool(concerning()), left):
            break
        was_told = True
        if any(change.certain for change in concerning()):
            return
        watcher.told.clear()
        if await _state(calls, path, until=end) != state:
            return
    if was_told:
        calls.broken(_NEW_VERSION, f"{brief(path)} has {brief(state)} before and after")
    else:
        calls.broken(_REPORTED, f"no Change for {brief(path)} within {watcher.within_s:g} s")


def _concerns(change: Change, path: Path, depth: int) -> bool:
    """Return whether the server would compare `path`, or an ancestor no higher than `depth`."""
    is_above = path[: len(change.path)] == change.path
    return is_above and (change.kind == "tree" or len(change.path) >= depth)


async def _state(calls: Calls, path: Path, *, until: float = 0.0) -> _State:
    """Return the state of a resource that the server compares."""
    found = await calls.metadata(path)
    while isinstance(found, ResourceBusy) and time.monotonic() < until:
        await asyncio.sleep(_BUSY_S)
        found = await calls.metadata(path)
    if not isinstance(found, Resource):
        return (type(found).__name__,)
    if found.version is not None:
        return found.type, found.version
    return found.type, None, found.size, found.last_modified


def _watches(calls: Calls) -> SupportsWatch | None:
    provider = calls.provider
    try:
        can_watch = Mount("check", "check://mount/", provider).can_watch
    except Exception:  # wrong restrictions, which are a violation of their own
        return None
    return provider if can_watch and isinstance(provider, SupportsWatch) else None


_RUNS_ON = "changes runs until it is closed"
_ENDS = "changes stops promptly and without an error when closed"
_LONGEST_END_S = 5.0
_QUIET_S = 0.3
_STEP = 256
"""Changes taken in a row before other tasks run."""
_KINDS = get_args(get_type_hints(Change)["kind"])


class RunningWatch:
    """One iteration of `changes`, as the server does it; records wrong and late changes."""

    def __init__(self, calls: Calls, watches: SupportsWatch, within_s: float) -> None:
        self.within_s = within_s
        self.told: set[Change] = set()
        """The distinct changes since the last clear."""
        self._unarmed: set[Path] = set()
        """Paths of the interest without a `Change` so far."""
        self._interest = MountInterest()
        self._calls = calls
        self._watches = watches
        self._count = 0
        self._most: int | None = None
        self._news = asyncio.Event()
        self._is_closing = False

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._task.cancel()
            await self._end()

    async def close_at(self, path: Path) -> None:
        """Close the iterator at the change of one more path, not while it waits."""
        self._most = self._count + 1
        self.subscribe([path])
        if await self.until(lambda: self._is_closing):
            await self._end()

    def subscribe(self, paths: Iterable[Path], *, listing: bool = False) -> None:
        """Add paths to the interest, and optionally the listing."""
        for path in paths:
            self._unarmed.add(path)
            self._interest.add(path)
        if listing:
            self._interest.listing = True

    def unsubscribe(self) -> None:
        """Empty the interest."""
        for path in [*self._interest.paths]:
            self._interest.remove(path)
        self._interest.listing = False

    async def is_armed(self, rule: str) -> bool:
        """Wait for a `Change` of every path; a missing one breaks `rule`."""
        if await self.until(lambda: not self._unarmed):
            return True
        if not self._task.done():  # an early end has already been reported
            for path in sorted(self._unarmed):
                self._calls.broken(rule, f"no Change for {brief(path)} within {self.within_s:g} s")
        return False

    async def until(self, holds: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait at most `seconds` for a condition that only changes can fulfil."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.within_s if seconds is None else seconds):
                while not holds() and not self._task.done():
                    self._news.clear()
                    await self._news.wait()
        return holds()

    async def is_quiet(self, seconds: float) -> bool:
        """Wait for a short time without changes; False if none comes within `seconds`."""
        end = time.monotonic() + seconds
        short = min(_QUIET_S, self.within_s / 10)
        while time.monotonic() < end:
            count = self._count
            if not await self.until(lambda count=count: self._count > count, short):
                return True
        return False

    async def _run(self) -> None:
        try:
            changes = cast("object", self._watches.changes(self._interest))
            if not isinstance(changes, AsyncIterator):
                self._refuse(changes)
                return
            iterator = cast("AsyncIterator[object]", changes)
            async with _closing(iterator):
                await self._iterate(iterator)
            if not self._is_closing:
                self._calls.broken(_RUNS_ON, "it ended")
        except Exception as error:
            rule = _ENDS if self._is_closing else _RUNS_ON
            self._calls.broken(rule, f"it raised {type(error).__name__}: {error}")
        finally:
            self._news.set()

    async def _iterate(self, changes: AsyncIterator[object]) -> None:
        async for change in changes:
            if self._is_closing:
                self._calls.broken(_ENDS, f"afterwards it yielded {brief(change)}")
                return
            self._take(change)
            self._count += 1
            self._news.set()
            if self._count == self._most:
                self._is_closing = True
                return
            if self._count % _STEP == 0:
                await asyncio.sleep(0)

    async def _end(self) -> None:
        longest = min(_LONGEST_END_S, self.within_s)
        await asyncio.wait([self._task], timeout=longest)
        if not self._task.done():
            self._calls.broken(_ENDS, f"it still ran after {longest:g} s")
            self._task.cancel()

    def _refuse(self, changes: object) -> None:
        self._calls.broken(SIGNATURE, f"changes() returned {brief(changes)}")
        if asyncio.iscoroutine(changes):
            changes.close()

    def _take(self, change: object) -> None:
        seen = f"changes yielded {brief(change)}"
        if (
            not isinstance(change, Change)
            or not is_path_tuple(change.path)
            or change.kind not in _KINDS
        ):
            self._calls.broken(SIGNATURE, seen)
        elif not is_addressable(change.path):
            self._calls.broken(SEGMENTS, seen)
        else:
            self.told.add(change)
            self._unarmed.discard(change.path)
            if change.kind == "tree":
                depth = len(change.path)
                self._unarmed -= {path for path in self._unarmed if path[:depth] == change.path}


def _closing(changes: AsyncIterator[object]) -> contextlib.AbstractAsyncContextManager[object]:
    # Generators must be closed; other iterators may not support it.
    if hasattr(changes, "aclose"):
        return contextlib.aclosing(cast("Any", changes))
    return contextlib.nullcontext()
