"""The wire between one server of a fleet and its store, which tests cut, stall and slow down."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal, TypeAlias

from tests.waiting import pause

WireFault: TypeAlias = Literal["cut", "stall", "slow"]
_SLOW_S = 0.05


class StoreWire:
    """A port of this machine, and behind it the store.

    A wire that stalls holds what was sent, and delivers it afterwards, even for a sender that has
    given up: as a network does.
    """

    def __init__(self, store_port: int) -> None:
        self.port = 0
        self._store_port = store_port
        self._server: asyncio.Server | None = None
        self._is_cut = False
        self._delay_s = 0.0
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers = set[asyncio.StreamWriter]()
        self._tasks = set[asyncio.Task[None]]()

    async def open(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cut all connections for good."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._abort()

    def fail(self, how: WireFault) -> None:
        """Let it fail until `heal`."""
        if how == "cut":
            self._is_cut = True
            self._abort()
        elif how == "stall":
            self._flows.clear()
        else:
            self._delay_s = _SLOW_S

    def lead_to(self, store_port: int) -> None:
        """Lead to another store from now on, as after a failover."""
        self._store_port = store_port
        self._abort()

    def heal(self) -> None:
        """Let everything through again."""
        self._is_cut = False
        self._delay_s = 0.0
        self._flows.set()

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _connected(
        self, from_server: asyncio.StreamReader, to_server: asyncio.StreamWriter
    ) -> None:
        if self._is_cut:
            to_server.transport.abort()
            return
        try:
            from_store, to_store = await asyncio.open_connection("127.0.0.1", self._store_port)
        except OSError:
            to_server.transport.abort()
            return
        self._writers |= {to_server, to_store}
        for reader, writer in ((from_server, to_store), (from_store, to_server)):
            task = asyncio.create_task(self._pass(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._flows.wait()
                if self._delay_s:
                    await pause(self._delay_s)
                writer.write(data)
                await writer.drain()
        await self._flows.wait()
        self._writers.discard(writer)
        writer.close()
