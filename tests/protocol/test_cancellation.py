"""Cancelled requests: stopped, never answered, and forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cases import for_each
from tests.protocol.wire import HANDSHAKE, Wire, request, server_of
from tests.providers_for_tests import Gate, SlowTree, Tree
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("revision", [*HANDSHAKE, "2026-07-28"])


def cancel(wire: Wire, id: object, **more: Any) -> None:
    params = {"requestId": id, **more}
    wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})


async def reading(gate: Gate, revision: str = "2025-11-25") -> tuple[Wire, object]:
    """Return a connection with a request in flight that waits for `gate`, and its id."""
    wire = Wire(await server_of(Tree({"gate": gate, "a": "text"})), revision)
    id = wire.start("resources/read", {"uri": "test://one/gate"})
    await asyncio.wait_for(gate.started.wait(), PATIENCE_S)
    return wire, id


@ERAS
async def test_a_cancelled_request_is_stopped_and_gets_no_response(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    wire, id = await reading(gate, revision)
    cancel(wire, id, reason="no longer needed")
    await asyncio.wait_for(gate.cancelled.wait(), PATIENCE_S)
    await wire.finished()
    gate.released.set()
    assert wire.messages == []
    assert caplog.records == []
    assert await wire.result("resources/read", {"uri": "test://one/a"})


async def test_cancelling_another_id_leaves_a_request_running() -> None:
    gate = Gate()
    wire, id = await reading(gate)
    cancel(wire, "another")
    gate.released.set()
    assert (await wire.reply_to(id))["result"]["contents"][0]["text"] == "late"


@for_each("id", ["1001", 1002, -1, None, 1.5, True, [], {}])
async def test_cancelling_an_id_that_is_not_in_flight_changes_nothing(id: object) -> None:
    gate = Gate()
    wire, running = await reading(gate)
    assert running == 1001
    cancel(wire, id)
    gate.released.set()
    assert "result" in await wire.reply_to(running)


async def test_a_completed_request_can_no_longer_be_cancelled() -> None:
    wire = Wire(await server_of(Tree({"a": "text"})), "2025-11-25")
    reply = wire.ask(request("resources/read", {"uri": "test://one/a"}, 5))
    cancel(wire, 5)
    assert wire.replies == [reply]


async def test_a_request_can_be_cancelled_before_it_starts() -> None:
    gate = Gate()
    wire = Wire(await server_of(Tree({"gate": gate})), "2025-11-25")
    for _ in range(2):
        wire.start("resources/read", {"uri": "test://one/gate"}, id=1)
        cancel(wire, 1)
        await wire.finished()
    assert wire.messages == []
    assert not gate.started.is_set()


async def test_the_id_of_a_cancelled_request_can_be_reused() -> None:
    gate = Gate()
    wire, id = await reading(gate)
    cancel(wire, id)
    await wire.finished()
    assert wire.ask(request("ping", {}, id))["result"] == {}


class Stubborn(Tree):
    """Takes no notice of being cancelled: it answers, or fails in another way."""

    def __init__(self, ending: str) -> None:
        super().__init__({})
        self.ending = ending
        self.started = asyncio.Event()

    async def metadata(self, path: Any) -> Any:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self.ending == "fails":
                raise RuntimeError("cleaning up failed") from None
        return super().metadata(())


@for_each("ending", ["answers", "fails"])
async def test_a_cancelled_request_gets_no_response_even_if_its_provider_continues(
    ending: str,
) -> None:
    provider = Stubborn(ending)
    wire = Wire(await server_of(provider), "2025-11-25")
    wire.start("resources/metadata", {"uri": "test://one"}, id=1)
    await asyncio.wait_for(provider.started.wait(), PATIENCE_S)
    cancel(wire, 1)
    await wire.finished()
    assert wire.messages == []


class TimeLimited(Tree):
    """Cancels its own work after a time limit, and answers nevertheless."""

    async def metadata(self, path: Any) -> Any:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return super().metadata(path)


async def test_a_provider_may_use_its_own_timeouts() -> None:
    wire = Wire(await server_of(TimeLimited({})), "2025-11-25")
    assert await wire.result("resources/metadata", {"uri": "test://one"})


async def test_closing_a_connection_stops_requests_in_flight() -> None:
    gate = Gate()
    wire, _ = await reading(gate)
    await wire.connection.close()
    assert gate.cancelled.is_set()
    assert wire.messages == []


async def test_closing_a_connection_stops_requests_that_have_not_started() -> None:
    wire = Wire(await server_of(SlowTree({"a": "text"})), "2025-11-25")
    for _ in range(10):
        wire.start("resources/read", {"uri": "test://one/a"})
    await wire.connection.close()
    assert wire.messages == []
