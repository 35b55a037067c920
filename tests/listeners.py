"""Listeners that remember what they are told, and a folder that is served, watched and changed."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.errors import ResourceNotFound
from resource_server.provider import Provider
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import WatchMode
from resource_server.runtime.timing import Timing
from resource_server.subscriptions.topic import Listener
from tests.calm import MARKS, ObservedBroker, marked, observed_watches, settled
from tests.waiting import PATIENCE_S, PATIENT, quiet_for

BASE = "test://one/"
LIST = "<list>"
"""In what was told: other resources are listed."""
SETTLED_S = 0.04
"""Longer than it takes to tell of anything, with the intervals of `IMPATIENT`."""
_TURNS = 50
_EVENTS: tuple[WatchMode, ...] = ("inotify", "watchfiles")
EVENTS = _EVENTS if sys.platform == "linux" else _EVENTS[1:]
"""The ways of a watch that tell of events."""
NATIVE = EVENTS[:1]
EVERY: tuple[WatchMode, ...] = (*EVENTS, "poll")
IMPATIENT = replace(
    PATIENT,
    notify_interval_s=0.01,
    list_notify_interval_s=0.02,
    vanish_grace_s=0.01,
    watch_settle_s=0.01,
    watch_poll_s=0.02,
    watch_root_s=0.05,
    watch_lost_root_s=0.03,
    watchfiles_step_s=0.003,
    watchfiles_debounce_s=0.01,
    watchfiles_pulse_s=0.02,
    watchfiles_restart_s=0.03,
)
"""Times of a patient server, with those of watchers and notifications cut to about a third."""


class Recorder:
    """Remembers what it is told, in order: paths, and `LIST` for `list_changed`."""

    def __init__(self, *, names_mounts: bool = False) -> None:
        self.told: list[str] = []
        self.told_at = 0.0
        self._names_mounts = names_mounts
        self._news = asyncio.Event()

    def updated(self, uri: str) -> None:
        reference = uris.parse(uri)
        mount = (reference.authority,) if self._names_mounts else ()
        self._take("/".join((*mount, *reference.path)))

    def list_changed(self) -> None:
        self._take(LIST)

    def _take(self, what: str) -> None:
        self.told.append(what)
        self.told_at = time.monotonic()
        self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that only what is told brings about."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def of(self, *some: str, who: str = "it") -> None:
        """Wait until each of these has been told; `who` tells."""
        try:
            await self.until(lambda: set(some) <= set(self.told))
        except TimeoutError:
            raise AssertionError(f"{who} told only {self.told}, not {some}") from None

    async def quiet(self, seconds: float = SETTLED_S) -> list[str]:
        """Wait until nothing is told for a while; return all that was, and forget it."""
        await silence(seconds, self)
        return self.take()

    def take(self) -> list[str]:
        """Return what was told, and forget it."""
        told, self.told = self.told, []
        return told


async def silence(seconds: float, *recorders: Recorder) -> None:
    """Wait until none of them has been told anything for a while."""
    until = time.monotonic() + seconds
    while (wait := until - time.monotonic()) > 0:
        await quiet_for(wait)
        # Where the process was held up, time has passed but no turn of the loop.
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        until = max(until, *(recorder.told_at + seconds for recorder in recorders))


class Folder:
    """Changes a folder as other programs do. Names are relative to it, with slashes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)

    def at(self, name: str) -> Path:
        return self.root / name

    def write(self, name: str, text: str = "x") -> None:
        """Write a file, in place if it is there; its directories are made."""
        path = self.at(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def append(self, name: str, text: str = "more\n") -> None:
        with self.at(name).open("a") as file:
            file.write(text)

    def save(self, name: str, text: str, *, temporary: str = "") -> None:
        """Write a file as editors do: beside it, and then over it."""
        path = self.at(name)
        beside = path.with_name(temporary or f".{path.name}.tmp")
        beside.write_text(text)
        beside.replace(path)

    def make(self, name: str) -> None:
        self.at(name).mkdir(parents=True)

    def move(self, name: str, to: str | Path) -> None:
        self.at(name).rename(self.root / to)

    def link(self, name: str, to: str) -> None:
        """Make a symbolic link, or let the one that is there lead elsewhere."""
        beside = self.at(f"{name}.new-link")
        beside.symlink_to(to)
        beside.replace(self.at(name))

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all below it."""
        path = self.at(name)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


class View:
    """A folder as one provider serves and watches it, and one listener."""

    def __init__(self, mount: Mount, timing: Timing = IMPATIENT) -> None:
        self.catalog = Catalog([mount])
        self.broker = ObservedBroker(self.catalog, timing)
        self.recorder = Recorder()


class Scene:
    """A folder that is served and watched in several ways at once; each has to tell the same."""

    def __init__(
        self, root: Path, options: Iterable[WatchMode], timing: Timing = IMPATIENT, **more: Any
    ) -> None:
        self.folder = Folder(root)
        self.views = {
            option: View(mounted(impatient_folder(root, timing, watch=option, **more)), timing)
            for option in options
        }
        if "watchfiles" in self.views:
            root.joinpath(MARKS).mkdir(exist_ok=True)
        self._before: Collection[str] = ()

    @property
    def view(self) -> View:
        """The only one."""
        (view,) = self.views.values()
        return view

    async def subscribe(self, *paths: str) -> None:
        for view in self.views.values():
            for path in paths:
                await view.broker.subscribe(uri_of(path), view.recorder)

    async def refuses(self, path: str) -> None:
        """See to it that there can be no subscription to a path."""
        for view in self.views.values():
            with pytest.raises(ResourceNotFound):
                await view.broker.subscribe(uri_of(path), view.recorder)

    def unsubscribe(self, *paths: str) -> None:
        for view in self.views.values():
            for path in paths:
                view.broker.unsubscribe(uri_of(path), view.recorder)

    def follow_list(self) -> None:
        for view in self.views.values():
            view.broker.follow_list(view.recorder)

    def unfollow_list(self) -> None:
        for view in self.views.values():
            view.broker.unfollow_list(view.recorder)

    async def follow(self, *paths: str) -> None:
        """Subscribe to these and follow the list, and wait until all is watched."""
        await self.subscribe(*paths)
        self.follow_list()
        await self.quiet()

    async def quiet(self, seconds: float = SETTLED_S) -> dict[str, list[str]]:
        """Wait until nothing is left to be told; return all that was, and forget it."""
        await silence(seconds, *(view.recorder for view in self.views.values()))
        async with asyncio.timeout(PATIENCE_S):
            if "watchfiles" in self.views:
                await marked(self.folder.root)
            await settled(*(view.broker for view in self.views.values()))
        return {option: view.recorder.take() for option, view in self.views.items()}

    async def of(self, *some: str) -> None:
        """Wait until these are told, whatever else is."""
        for option, view in self.views.items():
            await view.recorder.of(*some, who=option)
        await self.quiet()
        self._before = (*some, LIST)

    async def tells(self, *some: str) -> None:
        """See to it that these are told, and nothing else.

        But what was told in the step before may be told once more: a slow machine is no mistake.
        """
        for option, view in self.views.items():
            await view.recorder.of(*some, who=option)
        for option, told in (await self.quiet()).items():
            assert set(told) <= {*some, *self._before}, f"{option} told {told}, not {some}"
        self._before = some

    async def tells_once(self, *some: str) -> None:
        """See to it that exactly these are told, each once."""
        for option, view in self.views.items():
            await view.recorder.of(*some, who=option)
        for option, told in (await self.quiet()).items():
            assert sorted(told) == sorted(some), f"{option} told {told}, not {some}"

    async def tells_nothing(self) -> None:
        """See to it that nothing is told."""
        for option, told in (await self.quiet()).items():
            assert set(told) <= set(self._before), f"{option} told {told}"
        self._before = ()


def uri_of(path: str, base: str = BASE) -> str:
    """Return the canonical URI of a path with slashes."""
    return uris.join(base, tuple(path.split("/")) if path else ())


def impatient_folder(root: Path, timing: Timing = IMPATIENT, **options: Any) -> Filesystem:
    """Return a folder whose watcher waits less than it does in a server."""
    folder = Filesystem(root, **options)
    folder.timing = timing
    return folder


def mounted(provider: Provider, name: str = "one", **options: Any) -> Mount:
    """Return a mount at `test://<name>/`."""
    return Mount(name, f"test://{name}/", provider, **options)


@asynccontextmanager
async def watched(
    root: Path,
    options: Iterable[WatchMode] = NATIVE,
    *,
    timing: Timing = IMPATIENT,
    **more: Any,
) -> AsyncGenerator[Scene]:
    """Serve and watch a folder in these ways at once; `more` are options of each provider."""
    scene = Scene(root, options, timing=timing, **more)
    with observed_watches():
        try:
            yield scene
        finally:
            for view in scene.views.values():
                await view.broker.close()
                await view.catalog.__aexit__()


def held() -> int:
    """Return how many inotify watches this process holds (Linux)."""
    count = 0
    for info in Path("/proc/self/fdinfo").iterdir():
        try:
            lines = info.read_text().splitlines()
        except FileNotFoundError:
            continue  # the descriptor of the directory itself
        count += sum(line.startswith("inotify ") for line in lines)
    return count


_: type[Listener] = Recorder
