"""The server of a source inside another program: one for each event loop, while the loop runs."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Generic, TypeAlias, TypeVar

from anyio import to_thread

from resource_server.errors import ManifestError
from resource_server.manifest import Manifest
from resource_server.protocol.server import Server
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.serving.reload import ReloadingServer

logger = logging.getLogger(__name__)

T = TypeVar("T")

Source: TypeAlias = str | os.PathLike[str] | Mapping[str, object]
"""A manifest, a folder, a database file or a URL, as `resource-server serve` takes it; or the
manifest itself as a mapping, whose paths are those of the current folder."""

Open: TypeAlias = Callable[[ReloadingServer, Server], AbstractAsyncContextManager[T]]
"""Opens what a mounting has for each event loop, on top of the running server."""


class SourceServers:
    """Makes servers of one source, each for one event loop.

    Raises:
        ManifestError: the source cannot be served; from the constructor only.
    """

    def __init__(
        self,
        source: Source,
        *,
        plugins: bool = True,
        over_http: bool = False,
        shows_activity: bool = True,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._plugins = plugins
        self._over_http = over_http
        self._shows_activity = shows_activity
        self._timing = timing
        self._taking = threading.Lock()
        self._name = ""
        self._known: Sequence[Manifest] = ()
        if isinstance(source, Mapping):
            # Imported here: a folder needs neither YAML nor pydantic.
            from resource_server.manifest.load import load_mapping

            self._known = (load_mapping(source),)
        else:
            self._name = os.fspath(source)
        self._first: ReloadingServer | None = self._made(self._known)
        self._known = self._first.found
        self.manifest = self._first.manifest
        """The manifest as it was at first."""

    async def new(self) -> ReloadingServer:
        """Return a server that has not started, of the present manifest or the last valid one."""
        # Loops in other threads may take it at the same time.
        with self._taking:
            first, self._first = self._first, None
        return first or await to_thread.run_sync(self._next)

    def _next(self) -> ReloadingServer:
        try:
            served = self._made(() if self._name else self._known)
        except ManifestError as error:
            logger.warning("the manifest is invalid; its last version stays in force: %s", error)
            served = self._made(self._known)
        self._known = served.found
        return served

    def _made(self, known: Sequence[Manifest]) -> ReloadingServer:
        return ReloadingServer(
            self._name or ".",
            allow_plugins=self._plugins,
            over_http=self._over_http,
            known=known,
            shows_activity=self._shows_activity,
            timing=self._timing,
        )


class ServerEnded(Exception):
    """The server of this event loop has ended, and a request came after its end."""


class _Life(Generic[T]):
    """The server of one event loop, from its first use to its end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.value: asyncio.Future[T] = loop.create_future()
        self.value.add_done_callback(_retrieve)
        self.is_refusing = False
        self.ending = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class EmbeddedServer(Generic[T]):
    """The server of a source in each event loop that asks for it, until the loop ends.

    `asyncio.run`, web servers and test frameworks cancel the tasks of a loop before they close
    it: a task of its own ends the server then. Loops of several threads have a server each.
    """

    def __init__(self, servers: SourceServers, opened: Open[T]) -> None:
        self._servers = servers
        self._opened = opened
        self._lives: dict[asyncio.AbstractEventLoop, _Life[T]] = {}
        self._starting = threading.Lock()

    async def running(self) -> T:
        """Return what is open in this event loop; start it first if it is not.

        Raises:
            ServerEnded: it has been closed in this loop, and not been started again.
        """
        life = self._life()
        if life.is_refusing:
            raise ServerEnded
        # A caller that is cancelled leaves the start to the others.
        return await asyncio.shield(life.value)

    async def start(self) -> T:
        """Start in this event loop, also after an end."""
        loop = asyncio.get_running_loop()
        with self._starting:
            life = self._lives.get(loop)
            if life is not None and life.is_refusing:
                life.ending.set()
                del self._lives[loop]
        return await self.running()

    async def close(self) -> None:
        """End what is open in this event loop, and wait for its end."""
        life = self._life_if_any()
        if life is None:
            return
        life.is_refusing = True
        life.ending.set()
        if life.task is not None:
            await asyncio.wait([life.task])

    def refuse(self) -> None:
        """Refuse requests in this event loop, which will end.

        It cancels all tasks then: one that were ending the server already would be cut off.
        """
        if (life := self._life_if_any()) is not None:
            life.is_refusing = True

    def _life_if_any(self) -> _Life[T] | None:
        with self._starting:
            return self._lives.get(asyncio.get_running_loop())

    def _life(self) -> _Life[T]:
        loop = asyncio.get_running_loop()
        with self._starting:
            life = self._lives.get(loop)
            if life is None:
                for each in [each for each in self._lives if each.is_closed()]:
                    del self._lives[each]
                life = self._lives[loop] = _Life(loop)
                # Not in the context of the first request, whose caller is one of many.
                context = contextvars.Context()
                life.task = loop.create_task(self._live(life), context=context)
            return life

    async def _live(self, life: _Life[T]) -> None:
        lifetime = AsyncExitStack()
        try:
            served = await self._servers.new()
            server = await lifetime.enter_async_context(served)
            life.value.set_result(await lifetime.enter_async_context(self._opened(served, server)))
            await life.ending.wait()
        except GeneratorExit:
            raise  # the loop was closed without an end, and nothing can be awaited any more
        except BaseException as error:
            await self._end(life, lifetime)
            if not isinstance(error, Exception):
                life.value.cancel()
                raise
            self._fail(life, error)
        else:
            await self._end(life, lifetime)

    async def _end(self, life: _Life[T], lifetime: AsyncExitStack) -> None:
        life.is_refusing = True
        try:
            await lifetime.aclose()
        except Exception:
            logger.exception("ending a server failed")

    def _fail(self, life: _Life[T], error: Exception) -> None:
        """Pass on why nothing has started; the next request tries again."""
        life.value.set_exception(error)
        with self._starting:
            del self._lives[asyncio.get_running_loop()]


def _retrieve(value: asyncio.Future[T]) -> None:
    """Take note of a failure that no one may wait for any more."""
    if not value.cancelled():
        value.exception()
