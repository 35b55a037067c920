"""What is sent without a request goes out in order, as fast as the client takes it."""

from __future__ import annotations

import asyncio

import pytest

from resource_server.protocol.outbox import Outbox
from tests.waiting import PATIENCE_S, quiet_for, until

pytestmark = pytest.mark.anyio


class Messages:
    """Sends numbers, and takes away the room after some of them."""

    def __init__(self, count: int, room: asyncio.Event | None = None, full: tuple[int, ...] = ()):
        self.sent: list[int] = []
        self._count = count
        self._room = room
        self._full = full
        self._news = asyncio.Event()

    def __call__(self) -> bool:
        number = len(self.sent)
        if number == self._count:
            return False
        self.sent.append(number)
        if self._room is not None and number in self._full:
            self._room.clear()
        self._news.set()
        return True

    async def until(self, count: int) -> None:
        """Wait until so many have been sent."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.sent) < count:
                self._news.clear()
                await self._news.wait()


@pytest.fixture
def room() -> asyncio.Event:
    room = asyncio.Event()
    room.set()
    return room


async def test_nothing_is_sent_before_the_current_task_yields() -> None:
    outbox, messages = Outbox(), Messages(3)
    outbox.put(messages)
    assert messages.sent == []
    await outbox.drain(5)
    assert messages.sent == [0, 1, 2]


async def test_many_messages_do_not_block_the_event_loop() -> None:
    outbox, messages = Outbox(), Messages(10_000)
    outbox.put(messages)
    turns = 0
    while len(messages.sent) < 10_000:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10


async def test_messages_wait_for_room(room: asyncio.Event) -> None:
    outbox, messages = Outbox(room), Messages(10, room, full=(3, 7))
    outbox.put(messages)
    await messages.until(4)
    outbox.flush()
    outbox.put(messages)
    await quiet_for(0.01)
    assert messages.sent == [0, 1, 2, 3]
    room.set()
    await messages.until(8)
    room.set()
    await outbox.drain(5)
    assert messages.sent == list(range(10))


async def test_draining_continues_while_the_client_reads(room: asyncio.Event) -> None:
    outbox, messages = Outbox(room), Messages(5, room, full=(0, 1, 2, 3))
    outbox.put(messages)
    draining = asyncio.create_task(outbox.drain(0.4))
    for count in (1, 2, 3, 4):
        await messages.until(count)
        await quiet_for(0.15)
        assert not draining.done()
        room.set()
    await draining
    assert messages.sent == list(range(5))


async def test_draining_ends_when_the_client_stops_reading(room: asyncio.Event) -> None:
    outbox, messages = Outbox(room), Messages(1)
    before = asyncio.all_tasks()
    room.clear()
    outbox.put(messages)
    await asyncio.wait_for(outbox.drain(0.01), PATIENCE_S)
    outbox.close()
    await until(lambda: asyncio.all_tasks() == before)
    room.set()
    await quiet_for(0.01)
    assert messages.sent == []


async def test_a_removed_source_sends_nothing_further() -> None:
    outbox, removed, kept = Outbox(), Messages(3), Messages(1)
    outbox.put(removed)
    outbox.put(kept)
    outbox.remove(removed)
    await outbox.drain(5)
    assert (removed.sent, kept.sent) == ([], [0])
