"""The rules for `changes`: what is subscribed to is watched, and what happens to it is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from resource_server.catalog.mount import Mount
from resource_server.errors import ResourceBusy, ResourceNotFound
from resource_server.provider import Change, MaybeAwaitable, Path, Resource, SupportsWatch
from resource_server.runtime.eager import settle
from resource_server.testing.calls import Calls, is_path, show
from resource_server.testing.watcher import Watcher

MakeChange: TypeAlias = Callable[[], MaybeAwaitable[Path]]

_ARMED = "a Change follows for each path that comes to the interest"
_BESIDE = "watches that run beside each other do not disturb each other"
_QUIET = "without interest nothing is yielded"
_TOLD = "a Change tells what may have changed"
_VERSION = "what has changed has another version"

_MOST_SUBSCRIBED = 24
_NOWHERE: Sequence[Path] = (("no-such-3f9c",), ("no-such-3f9c", "below"))
_LATER: Sequence[Path] = (("no-such-5a7e",), ("no-such-c017",))
_BUSY_S = 0.05

_State: TypeAlias = tuple[object, ...]
_ABSENT: _State = (ResourceNotFound.__name__,)


async def check_watch(calls: Calls, resources: Sequence[Resource], within_s: float) -> bool:
    """Subscribe to some resources, and to what is not there, while one watch runs and while two.

    Returns False where a watch does not begin as it should.
    """
    watches = _watches(calls)
    if watches is None:
        return True
    every = max(1, len(resources) // _MOST_SUBSCRIBED)
    some = [(), *_NOWHERE, *(resource.path for resource in resources[::every])]
    async with Watcher(calls, watches, within_s) as watcher:
        watcher.subscribe(some[::2], listing=True)
        if not await watcher.is_armed(_ARMED):
            return False
        watcher.subscribe(some[1::2])
        if not await watcher.is_armed(_ARMED):
            return False
        watcher.unsubscribe()
        if not await watcher.is_quiet(within_s):
            calls.broken(_QUIET, f"changes still came after {within_s:g} s")
        watcher.subscribe(some)
        if not await watcher.is_armed(_ARMED):
            return False
        async with Watcher(calls, watches, within_s) as other:
            other.subscribe(some)
            if await other.is_armed(_BESIDE):
                watcher.subscribe([_LATER[0]])
                await watcher.is_armed(_BESIDE)
                await other.close_at(_LATER[0])
        watcher.subscribe([_LATER[1]])
        return await watcher.is_armed(_BESIDE)


async def check_change(
    calls: Calls,
    resources: Sequence[Resource],
    make_change: MakeChange | None,
    within_s: float,
    rule: str = _ARMED,
) -> None:
    """Subscribe to everything, make a change, and see whether it is told and can be seen.

    `rule` says why everything can be watched.
    """
    watches = _watches(calls)
    if watches is None:
        if make_change is not None and not isinstance(calls.provider, SupportsWatch):
            calls.broken("make_change is for a provider that has changes", "this one has none")
        return
    paths = [(), *(resource.path for resource in resources)]
    before = {path: await _state(calls, path) for path in paths}
    async with Watcher(calls, watches, within_s) as watcher:
        watcher.subscribe(paths, listing=True)
        if not await watcher.is_armed(rule) or make_change is None:
            return
        # What is told of the beginning is not to be taken for the change.
        await watcher.is_quiet(min(1.0, within_s))
        watcher.told.clear()
        path = cast("object", await settle(make_change()))
        if not is_path(path):
            raise TypeError(f"make_change returned {show(path)}, not the path of what it changed")
        await _check_told(calls, watcher, path, before)


async def _check_told(
    calls: Calls, watcher: Watcher, path: Path, before: Mapping[Path, _State]
) -> None:
    """Look, as the server would, whenever something is told that concerns `path`."""
    state = before.get(path, _ABSENT)
    # Nobody could subscribe to what is new, but somebody did to the collection that it is new in.
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
        calls.broken(_VERSION, f"that of {show(path)} is {show(state)} before and after")
    else:
        calls.broken(_TOLD, f"no Change of {show(path)} came within {watcher.within_s:g} s")


def _concerns(change: Change, path: Path, depth: int) -> bool:
    """Say whether a change makes the server look at `path`, or above it, at that depth or below."""
    is_above = path[: len(change.path)] == change.path
    return is_above and (change.kind == "tree" or len(change.path) >= depth)


async def _state(calls: Calls, path: Path, *, until: float = 0.0) -> _State:
    """Return what of a resource the server compares."""
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
    return Mount("check", "check://mount/", calls.provider).watches
