"""Progress: only where a token asks for it, only forwards, and not too often."""

from __future__ import annotations

from typing import Any

import pytest

from resource_server.catalog.catalog import CatalogLimits
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.protocol.wire import EVERY, Wire, server_of
from tests.providers_for_tests import Gate, SlowTree, Tree

pytestmark = pytest.mark.anyio

NODES = {f"{n:02}": "text" for n in range(20)}
READ = {"uri": "test://one"}
UNTHROTTLED = Timing(progress_interval_s=0.0)


def with_token(token: object, params: dict[str, Any] = READ) -> dict[str, Any]:
    return {**params, "_meta": {"progressToken": token}}


@for_each("revision", EVERY)
@for_each("tree", [Tree, SlowTree])
@for_each("token", ["t", 0, 7])
async def test_progress_counts_the_children_read_before_the_response(
    revision: str, tree: type[Tree], token: object
) -> None:
    wire = Wire(await server_of(tree(NODES), timing=UNTHROTTLED), revision)
    await wire.result("resources/read", with_token(token))
    assert wire.messages[:-1] == wire.notifications
    assert [note["method"] for note in wire.notifications] == ["notifications/progress"] * 20
    assert [note["params"] for note in wire.notifications] == [
        {"progressToken": token, "progress": done, "total": 20} for done in range(1, 21)
    ]


@for_each("revision", EVERY)
async def test_no_progress_is_sent_without_a_token(revision: str) -> None:
    wire = Wire(await server_of(SlowTree(NODES), timing=UNTHROTTLED), revision)
    await wire.result("resources/read", READ)
    assert wire.notifications == []


async def test_the_progress_of_a_listing_counts_entries_and_never_decreases() -> None:
    trees = [SlowTree({"a": "x"}), SlowTree({}), SlowTree({"b": "y"})]
    wire = Wire(await server_of(*trees, timing=UNTHROTTLED), "2025-11-25")
    await wire.result("resources/list", with_token("t", {}))
    assert [note["params"]["progress"] for note in wire.notifications] == [1, 2, 3, 4, 5]


async def test_progress_notifications_are_limited_in_frequency() -> None:
    nodes = {f"{n:04}": "" for n in range(1000)}
    limits = CatalogLimits(collection_children=1000)
    wire = Wire(await server_of(Tree(nodes), limits=limits), "2025-11-25")
    await wire.result("resources/read", with_token("t"))
    assert len(wire.notifications) < 100


@for_each("token", [1.5, True, [], {}])
async def test_an_invalid_progress_token_is_bad_params(token: object) -> None:
    wire = Wire(await server_of(Tree(NODES)), "2025-11-25")
    assert (await wire.error("resources/read", with_token(token)))["code"] == -32602


TICKING = Timing(progress_tick_s=0.05)


@for_each("revision", EVERY)
async def test_a_request_without_steps_tells_how_long_it_runs(revision: str) -> None:
    gate = Gate()
    wire = Wire(await server_of(Tree({"gate": gate}), timing=TICKING), revision)
    id = wire.start("resources/read", with_token("t", {"uri": "test://one/gate"}))
    notes = [each["params"] for each in await wire.notified(2)]
    assert [each["progressToken"] for each in notes] == ["t", "t"]
    assert 0 < notes[0]["progress"] < notes[1]["progress"]
    assert "total" not in notes[0]
    # 2024-11-05 has no messages in progress.
    told = None if revision == "2024-11-05" else f"running for {notes[0]['progress']:g} s"
    assert notes[0].get("message") == told
    gate.released.set()
    await wire.reply_to(id)
    count = len(wire.notifications)
    await wire.quiet()
    assert len(wire.notifications) == count


async def test_a_quick_request_tells_no_time() -> None:
    wire = Wire(await server_of(Tree({"a": "text"})), "2025-11-25")
    await wire.result("resources/read", with_token("t", {"uri": "test://one/a"}))
    assert wire.notifications == []


async def test_a_cancelled_request_tells_no_time_any_more() -> None:
    gate = Gate()
    wire = Wire(await server_of(Tree({"gate": gate}), timing=TICKING), "2025-11-25")
    id = wire.start("resources/read", with_token("t", {"uri": "test://one/gate"}))
    await wire.notified(1)
    wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
    count = len(wire.notifications)
    await wire.quiet()
    assert len(wire.notifications) == count
