"""Requests that have to wait take turns, so that nothing piles up for a client."""

from __future__ import annotations

import asyncio

import pytest

from resource_server.protocol.client_connection import MAX_RUNNING
from resource_server.runtime.lazy_event import LazyEvent
from tests.protocol.wire import Wire, request, server_of
from tests.providers_for_tests import Gate, Tree
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


async def test_concurrent_requests_are_limited() -> None:
    gates = {str(number): Gate() for number in range(MAX_RUNNING + 1)}
    wire = Wire(await server_of(Tree(gates)), "2025-11-25")
    for name in gates:
        wire.start("resources/read", {"uri": f"test://one/{name}"}, id=name)
    for gate in list(gates.values())[:-1]:
        await asyncio.wait_for(gate.started.wait(), PATIENCE_S)
    *_, last = gates
    assert not gates[last].started.is_set()
    assert wire.ask(request("ping"))["result"] == {}
    gates["0"].released.set()
    await asyncio.wait_for(gates[last].started.wait(), PATIENCE_S)
    await wire.connection.close()


async def test_no_waiting_request_starts_while_the_client_does_not_read() -> None:
    gate, room = Gate(), LazyEvent()
    wire = Wire(await server_of(Tree({"gate": gate, "a": "text"})), "2025-11-25", room=room)
    gate.released.set()
    id = wire.start("resources/read", {"uri": "test://one/gate"})
    assert "result" in await wire.call("resources/read", {"uri": "test://one/a"})
    await asyncio.sleep(0)
    assert not gate.started.is_set()
    room.set()
    assert "result" in await wire.reply_to(id)
