"""Subscriptions of the handshake revisions: `resources/subscribe`, `unsubscribe`, `initialized`."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from resource_server.catalog.catalog import CatalogLimits
from resource_server.protocol.client_connection import MAX_READ_STATES, ReadStates
from resource_server.protocol.client_subscriptions import MAX_URI_CHARACTERS
from resource_server.protocol.server import Server, ServerLimits
from resource_server.provider import Path as Address
from resource_server.provider import Resource
from resource_server.providers.database.options import Query
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.runtime.lazy_event import LazyEvent
from tests.cases import for_each
from tests.protocol.wire import HANDSHAKE, Wire, initialize, request, server_of
from tests.providers_for_tests import Gate, Node, SlowWatchedTree, Tree, WatchedTree
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

A = "test://one/a"
NODES: dict[str, Node] = {
    "a": "text",
    "folder": {"inner": "x"},
    "lines": "1\n2\n",
    "read me": "words",
}
PAGE = "test://one/t/~rows?where.id.gt=0&limit=1"
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.fixture(params=[WatchedTree, SlowWatchedTree])
def tree(request: pytest.FixtureRequest) -> WatchedTree:
    return request.param(NODES)


@pytest.fixture
async def server(tree: WatchedTree) -> AsyncIterator[Server]:
    async with await server_of(tree) as server:
        yield server


@pytest.fixture
async def wire(server: Server) -> AsyncIterator[Wire]:
    wire = Wire(server, "2025-11-25")
    yield wire
    await wire.connection.close()


def updated(uri: str) -> dict[str, Any]:
    method = "notifications/resources/updated"
    return {"jsonrpc": "2.0", "method": method, "params": {"uri": uri}}


# -- what is told


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_change_notifies_the_subscriber(
    server: Server, tree: WatchedTree, revision: str
) -> None:
    wire = Wire(server, revision)
    assert await wire.result("resources/subscribe", {"uri": A}) == {}
    tree.set("a", to="longer")
    assert await wire.notified(1) == [updated(A)]


async def test_resources_without_subscribers_send_no_notification(
    wire: Wire, tree: WatchedTree
) -> None:
    await wire.result("resources/subscribe", {"uri": A})
    tree.set("read me", to="more words")
    await wire.quiet()
    assert wire.notifications == []


@pytest.mark.parametrize(
    "uri",
    ["TEST://One/a", "test://one/%61", "test://one/a/", "test://one/a?lines=1", "test://one/a?"],
)
async def test_a_notification_has_the_spelling_of_the_subscribed_uri(
    wire: Wire, tree: WatchedTree, uri: str
) -> None:
    await wire.result("resources/subscribe", {"uri": uri})
    tree.set("a", to="longer")
    assert await wire.notified(1) == [updated(uri)]


async def test_two_spellings_of_a_resource_are_two_subscriptions(
    wire: Wire, tree: WatchedTree
) -> None:
    for uri in (A, "TEST://one/a"):
        await wire.result("resources/subscribe", {"uri": uri})
    tree.set("a", to="longer")
    await wire.notified(2)
    assert sorted(wire.updates) == ["TEST://one/a", A]
    await wire.result("resources/unsubscribe", {"uri": A})
    tree.set("a", to="longer still")
    await wire.notified(3)
    await wire.quiet()
    assert wire.updates[2:] == ["TEST://one/a"]


async def test_subscribing_twice_is_one_subscription(wire: Wire, tree: WatchedTree) -> None:
    for _ in range(2):
        assert await wire.result("resources/subscribe", {"uri": A}) == {}
    tree.set("a", to="longer")
    await wire.quiet()
    assert wire.updates == [A]
    await wire.result("resources/unsubscribe", {"uri": A})
    await tree.asked()


async def test_a_new_child_notifies_of_its_collection(wire: Wire, tree: WatchedTree) -> None:
    await wire.result("resources/subscribe", {"uri": "test://one/folder/"})
    tree.set("folder", "new", to="")
    await wire.until(lambda: "test://one/folder/" in wire.updates)


async def test_deletion_and_restoration_notify_each_time(wire: Wire, tree: WatchedTree) -> None:
    await wire.result("resources/subscribe", {"uri": A})
    tree.set("a", to=None)
    await wire.until(lambda: wire.updates == [A])
    tree.set("a", to="back again")
    await wire.until(lambda: wire.updates == [A, A])


async def test_each_subscribed_client_is_notified(server: Server, tree: WatchedTree) -> None:
    wires = [Wire(server, "2025-11-25"), Wire(server, "2025-06-18")]
    for wire in wires:
        await wire.result("resources/subscribe", {"uri": A})
    await wires[0].connection.close()
    tree.set("a", to="longer")
    assert await wires[1].notified(1) == [updated(A)]
    assert wires[0].notifications == []


# -- the answers


@pytest.mark.parametrize("revision", HANDSHAKE)
@pytest.mark.parametrize(
    "uri", ["test://one/none", "test://two/a", "nonsense", "", "test://one/../a"]
)
async def test_an_unreadable_resource_cannot_be_subscribed_to(
    server: Server, revision: str, uri: str
) -> None:
    error = await Wire(server, revision).error("resources/subscribe", {"uri": uri})
    assert (error["code"], error["data"]) == (-32002, {"uri": uri})


async def test_a_refused_subscription_leaves_no_state_and_can_be_retried(
    wire: Wire, tree: WatchedTree
) -> None:
    await wire.error("resources/subscribe", {"uri": "test://one/new"})
    tree.set("new", to="here")
    await wire.result("resources/subscribe", {"uri": "test://one/new"})
    tree.set("new", to="changed")
    await wire.until(lambda: wire.updates == ["test://one/new"])


@pytest.mark.parametrize("uri", [A, "test://one/none", "nonsense", ""])
async def test_unsubscribing_always_succeeds(wire: Wire, uri: str) -> None:
    assert await wire.result("resources/unsubscribe", {"uri": uri}) == {}


async def test_no_notification_is_sent_after_unsubscribing(wire: Wire, tree: WatchedTree) -> None:
    await wire.result("resources/subscribe", {"uri": A})
    for _ in range(2):
        assert await wire.result("resources/unsubscribe", {"uri": A}) == {}
    await tree.asked()
    tree.set("a", to="longer")
    await wire.quiet()
    assert wire.notifications == []


async def test_a_resource_of_an_unwatched_mount_can_be_subscribed_to() -> None:
    async with await server_of(Tree(NODES)) as server:
        assert await Wire(server, "2025-11-25").result("resources/subscribe", {"uri": A}) == {}


async def test_a_batch_may_contain_subscriptions(server: Server, tree: WatchedTree) -> None:
    wire = Wire(server, "2025-03-26")
    asked = [request("resources/subscribe", {"uri": uri}, uri) for uri in (A, "test://one/none")]
    wire.send([INITIALIZED, *asked])
    replies = {each["id"]: each for each in await wire.next_reply()}
    assert replies[A]["result"] == {}
    assert replies["test://one/none"]["error"]["code"] == -32002
    tree.set("a", to="longer")
    assert await wire.notified(1) == [updated(A)]


# -- nothing is lost between a read and a subscription


@pytest.mark.parametrize("query", ["", "?lines=1"])
async def test_a_change_between_read_and_subscribe_is_notified_after_the_response(
    wire: Wire, tree: WatchedTree, query: str
) -> None:
    await wire.result("resources/read", {"uri": A + query})
    tree.set("a", to="changed meanwhile")
    wire.messages.clear()
    await wire.result("resources/subscribe", {"uri": "TEST://one/a"})
    await wire.notified(1)
    assert [each.get("method") for each in wire.messages] == [
        None,
        "notifications/resources/updated",
    ]
    await wire.quiet()
    assert wire.updates == ["TEST://one/a"]


async def test_a_change_since_a_collection_read_notifies_of_the_document(
    wire: Wire, tree: WatchedTree
) -> None:
    await wire.result("resources/read", {"uri": "test://one/folder"})
    tree.set("folder", "inner", to="changed meanwhile")
    await wire.result("resources/subscribe", {"uri": "test://one/folder/inner"})
    await wire.until(lambda: wire.updates == ["test://one/folder/inner"])


async def test_a_child_added_between_read_and_subscribe_notifies_of_the_collection(
    wire: Wire, tree: WatchedTree
) -> None:
    await wire.result("resources/read", {"uri": "test://one/folder"})
    tree.set("folder", "new", to="meanwhile")
    await wire.result("resources/subscribe", {"uri": "test://one/folder"})
    await wire.until(lambda: wire.updates == ["test://one/folder"])


async def test_a_child_changed_between_a_partial_read_and_subscribe_is_notified(
    tree: WatchedTree,
) -> None:
    async with await server_of(tree, limits=CatalogLimits(collection_children=2)) as server:
        wire = Wire(server, "2025-11-25")
        await wire.result("resources/read", {"uri": "test://one/"})
        await wire.result("resources/subscribe", {"uri": "test://one/"})
        await wire.quiet()
        assert wire.notifications == []
        await wire.result("resources/unsubscribe", {"uri": "test://one/"})
        tree.set("a", to="changed meanwhile")
        await wire.result("resources/subscribe", {"uri": "test://one/"})
        await wire.until(lambda: wire.updates == ["test://one/"])
        await wire.connection.close()


async def test_a_query_result_changed_between_read_and_subscribe_is_notified(
    tmp_path: Path,
) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as owner:
        owner.execute("create table t (id integer primary key, name text)")
        owner.executemany("insert into t values (?, 'a')", [(1,), (2,)])
        sql = "select name from t where id = :id and name <> :not"
        of = {"id": Parameter(type="integer"), "not": Parameter(default="z")}
        queries = {"who": Query(sql=sql, parameters=of)}
        database = Database(url=f"sqlite:///{tmp_path}/shop.db", queries=queries)
        async with database, await server_of(database) as server:
            wire = Wire(server, "2025-11-25")
            one, two = (f"test://one/~query/who?not=x&id={number}" for number in "12")
            for uri in (one, two):
                await wire.result("resources/read", {"uri": uri})
            owner.execute("update t set name = 'b' where id = 1")
            for uri in (one, two):
                await wire.result("resources/subscribe", {"uri": uri})
            await wire.until(lambda: wire.updates == [one])
            await wire.quiet()
            assert wire.updates == [one]
            await wire.connection.close()


@pytest.mark.parametrize(
    "page",
    [
        "t/~rows?where.name=a&limit=1",
        "t/~rows?sort=-id&limit=1&columns=id",
        "t/~summary?limit=1&by=id",
        "t/~rows?limit=1&format=csv",
    ],
)
async def test_an_unchanged_page_with_a_next_one_is_not_notified_on_subscribe(
    tmp_path: Path, page: str
) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as owner:
        owner.execute("create table t (id integer primary key, name text)")
        owner.executemany("insert into t values (?, 'a')", [(1,), (2,)])
        async with await server_of(Database(url=f"sqlite:///{tmp_path}/shop.db")) as server:
            wire = Wire(server, "2025-11-25")
            (first,) = (await wire.result("resources/read", {"uri": PAGE}))["contents"]
            second = first["_meta"]["resource-server/truncated"]["next"]
            for uri in (f"test://one/{page}", second):
                await wire.result("resources/read", {"uri": uri})
                await wire.result("resources/subscribe", {"uri": uri})
            await wire.quiet()
            assert wire.updates == []
            owner.execute("delete from t")
            await wire.until(lambda: len(wire.updates) == 2)
            await wire.connection.close()


async def test_a_resource_created_between_a_failed_read_and_subscribe_is_notified(
    wire: Wire, tree: WatchedTree
) -> None:
    await wire.error("resources/read", {"uri": "test://one/new"})
    tree.set("new", to="there")
    await wire.result("resources/subscribe", {"uri": "test://one/new"})
    await wire.until(lambda: wire.updates == ["test://one/new"])


async def test_a_resource_read_while_briefly_missing_is_notified(
    wire: Wire, tree: WatchedTree
) -> None:
    await wire.result("resources/subscribe", {"uri": A})
    tree.set("a", to=None)
    await wire.error("resources/read", {"uri": A})
    tree.set("a", to="text")
    await wire.until(lambda: wire.updates == [A])


async def test_an_unchanged_collection_is_not_notified_on_subscribe(wire: Wire) -> None:
    await wire.result("resources/read", {"uri": "test://one/folder"})
    await wire.result("resources/subscribe", {"uri": "test://one/folder"})
    await wire.quiet()
    assert wire.notifications == []


async def test_a_document_read_in_its_current_version_is_not_notified(wire: Wire) -> None:
    await wire.result("resources/read", {"uri": A})
    await wire.result("resources/subscribe", {"uri": A})
    await wire.quiet()
    assert wire.notifications == []


async def test_a_document_never_read_is_not_notified_on_subscribe(
    wire: Wire, tree: WatchedTree
) -> None:
    tree.set("a", to="changed before")
    await wire.result("resources/subscribe", {"uri": A})
    await wire.quiet()
    assert wire.notifications == []


async def test_subscribing_again_after_a_read_compares_again(wire: Wire, tree: WatchedTree) -> None:
    await wire.result("resources/read", {"uri": A})
    await wire.result("resources/subscribe", {"uri": A})
    tree.set("a", to="longer")
    await wire.notified(1)
    await wire.result("resources/subscribe", {"uri": A})
    await wire.until(lambda: wire.updates == [A, A])


# -- what is listed


async def test_nothing_is_watched_before_the_initialized_notification(
    server: Server, tree: WatchedTree
) -> None:
    wire = Wire(server)
    wire.send(INITIALIZED)
    wire.send(initialize())
    await wire.quiet()
    assert tree.interest is None
    wire.send(INITIALIZED)
    await tree.asked(listing=True)


async def test_a_new_resource_changes_the_list(wire: Wire, tree: WatchedTree) -> None:
    await wire.result("resources/subscribe", {"uri": A})
    await tree.asked(("a",))
    tree.set("new", to="")
    method = "notifications/resources/list_changed"
    assert await wire.notified(1) == [{"jsonrpc": "2.0", "method": method}]


async def test_changed_content_does_not_change_the_list(wire: Wire, tree: WatchedTree) -> None:
    await wire.result("resources/subscribe", {"uri": A})
    await tree.asked(("a",))
    tree.set("read me", to="more words")
    await wire.quiet()
    assert wire.notifications == []


# -- clients that do not read


async def test_changes_are_merged_while_a_client_does_not_read(
    server: Server, tree: WatchedTree
) -> None:
    room = LazyEvent()
    room.set()
    wire, other = Wire(server, "2025-11-25", room=room), Wire(server, "2025-11-25")
    for each in (wire, other):
        for uri in (A, "test://one/lines"):
            await each.result("resources/subscribe", {"uri": uri})
    room.clear()
    for text in ("longer", "longer still", "the longest of them"):
        tree.set("a", to=text)
        tree.set("lines", to=text)
        before = len(other.updates)
        await other.until(lambda before=before: len(other.updates) == before + 2)
    tree.set("new", to="")
    await other.until(lambda: len(other.notifications) == 7)
    assert wire.notifications == []
    room.set()
    await wire.notified(3)
    await wire.quiet()
    assert sorted(wire.updates) == [A, "test://one/lines"]
    assert len(wire.notifications) == 3


async def test_a_pending_notification_is_dropped_on_unsubscribe(
    server: Server, tree: WatchedTree
) -> None:
    room = LazyEvent()
    room.set()
    wire, other = Wire(server, "2025-11-25", room=room), Wire(server, "2025-11-25")
    for each in (wire, other):
        await each.result("resources/subscribe", {"uri": A})
    room.clear()
    tree.set("a", to="longer")
    await other.notified(1)
    room.set()
    # Answered at once: whatever has been held back comes after this.
    assert await wire.result("resources/unsubscribe", {"uri": A}) == {}
    await wire.quiet()
    assert wire.notifications == []


# -- storms, and requests that overtake each other


async def test_the_last_request_of_a_storm_decides(wire: Wire, tree: WatchedTree) -> None:
    uris = [A, "test://one/lines", "test://one/folder"]
    waiting = [
        wire.start(f"resources/{method}", {"uri": uri})
        for _ in range(100)
        for uri in uris
        for method in ("subscribe", "unsubscribe")
    ]
    waiting.append(wire.start("resources/subscribe", {"uri": A}))
    for id in waiting:
        assert (await wire.reply_to(id)).get("result") == {}
    await tree.asked(("a",))
    tree.set("a", to="longer")
    tree.set("lines", to="longer")
    await wire.quiet()
    assert wire.updates == [A]
    await wire.result("resources/unsubscribe", {"uri": A})
    await tree.asked()


async def test_concurrent_subscriptions_to_one_resource_are_one(
    wire: Wire, tree: WatchedTree
) -> None:
    waiting = [wire.start("resources/subscribe", {"uri": A}) for _ in range(50)]
    for id in waiting:
        assert (await wire.reply_to(id))["result"] == {}
    tree.set("a", to="longer")
    await wire.quiet()
    assert wire.updates == [A]
    await wire.result("resources/unsubscribe", {"uri": A})
    await tree.asked()


async def test_unsubscribing_overtakes_a_pending_subscription() -> None:
    tree = SlowWatchedTree(NODES)
    async with await server_of(tree) as server:
        wire = Wire(server, "2025-11-25")
        subscribing = wire.start("resources/subscribe", {"uri": A})
        assert wire.ask(request("resources/unsubscribe", {"uri": A}, "now"))["result"] == {}
        assert (await wire.reply_to(subscribing))["result"] == {}
        tree.set("a", to="longer")
        await wire.quiet()
        assert wire.notifications == []
        await tree.asked()


class Late(WatchedTree):
    """The first look at `a` after `hold` lasts until the gate opens, and may then fail."""

    gate: Gate | None = None
    fails = False

    def hold(self) -> Gate:
        self.gate = Gate()
        return self.gate

    def metadata(self, path: Address) -> Any:
        gate, self.gate = self.gate, None
        return super().metadata(path) if gate is None else self._held(path, gate)

    async def _held(self, path: Address, gate: Gate) -> Resource:
        await gate.wait()
        if self.fails:
            raise RuntimeError("failed late")
        return Tree.metadata(self, path)  # pyright: ignore[reportReturnType]


async def test_a_late_failure_keeps_a_subscription_that_succeeded_meanwhile() -> None:
    tree = Late(NODES)
    async with await server_of(tree) as server:
        wire = Wire(server, "2025-11-25")
        gate = tree.hold()
        tree.fails = True
        failing = wire.start("resources/subscribe", {"uri": A})
        await asyncio.wait_for(gate.started.wait(), PATIENCE_S)
        assert await wire.result("resources/subscribe", {"uri": A}) == {}
        gate.released.set()
        assert (await wire.reply_to(failing))["error"]["code"] == -32603
        tree.set("a", to="longer")
        assert await wire.notified(1) == [updated(A)]


@for_each("fails", [False, True])
async def test_an_abandoned_subscription_keeps_another_that_is_pending(fails: bool) -> None:
    tree = Late(NODES)
    async with await server_of(tree) as server:
        wire = Wire(server, "2025-11-25")
        first = tree.hold()
        waiting = wire.start("resources/subscribe", {"uri": A})
        await asyncio.wait_for(first.started.wait(), PATIENCE_S)
        second = tree.hold()
        given_up = wire.start("resources/subscribe", {"uri": A})
        await asyncio.wait_for(second.started.wait(), PATIENCE_S)
        if fails:
            tree.fails = True
            second.released.set()
            assert "error" in await wire.reply_to(given_up)
            tree.fails = False
        else:
            cancelled = {"method": "notifications/cancelled", "params": {"requestId": given_up}}
            wire.send({"jsonrpc": "2.0", **cancelled})
            await asyncio.wait_for(second.cancelled.wait(), PATIENCE_S)
        first.released.set()
        assert (await wire.reply_to(waiting))["result"] == {}
        tree.set("a", to="longer")
        assert await wire.notified(1) == [updated(A)]
        await wire.result("resources/unsubscribe", {"uri": A})
        await tree.asked()


async def test_a_cancelled_subscription_leaves_no_state() -> None:
    tree = Late(NODES)
    async with await server_of(tree) as server:
        wire = Wire(server, "2025-11-25")
        gate = tree.hold()
        id = wire.start("resources/subscribe", {"uri": A})
        await asyncio.wait_for(gate.started.wait(), PATIENCE_S)
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": id}}
        wire.send({"jsonrpc": "2.0", **cancelled})
        await asyncio.wait_for(gate.cancelled.wait(), PATIENCE_S)
        tree.set("a", to="longer")
        await wire.quiet()
        assert wire.messages == []
        assert await wire.result("resources/subscribe", {"uri": A}) == {}
        tree.set("a", to="longer still")
        assert await wire.notified(1) == [updated(A)]


# -- bounds


async def test_the_subscriptions_of_a_connection_are_limited(
    server: Server,
) -> None:
    server.limits = ServerLimits(subscriptions=2)
    wire, other = Wire(server, "2025-11-25"), Wire(server, "2025-11-25")
    for uri in (A, "test://one/lines", A):
        await wire.result("resources/subscribe", {"uri": uri})
    asked = {"uri": "test://one/folder"}
    error = await wire.error("resources/subscribe", asked)
    assert (error["code"], error["data"]) == (-32012, {**asked, "retryable": True})
    assert await other.result("resources/subscribe", asked) == {}
    for _ in range(3):
        await wire.error("resources/subscribe", {"uri": "test://one/none"})
        await wire.result("resources/unsubscribe", {"uri": A})
    assert await wire.result("resources/subscribe", asked) == {}


async def test_the_spellings_kept_for_a_connection_are_limited_in_length(
    wire: Wire, tree: WatchedTree
) -> None:
    long = f"{A}?x=" + "x" * 15_000
    refused = 0
    for number in range(MAX_URI_CHARACTERS // len(long) + 10):
        reply = await wire.call("resources/subscribe", {"uri": f"{long}{number:06}"})
        refused += "error" in reply
        wire.messages.clear()
    assert refused >= 9
    await wire.connection.close()
    await tree.asked()


async def test_closing_the_connection_ends_its_watches(wire: Wire, tree: WatchedTree) -> None:
    for uri in (A, "TEST://one/a", "test://one/folder"):
        await wire.result("resources/subscribe", {"uri": uri})
    await tree.asked(("a",), ("folder",))
    await wire.connection.close()
    await tree.asked(listing=False)
    tree.set("a", to="longer")
    tree.set("new", to="")
    await wire.quiet()
    assert wire.notifications == []


# -- what is advertised


@for_each(("kind", "watches"), [(WatchedTree, True), (Tree, False)])
async def test_every_resource_and_template_has_its_subscribe_capability(
    kind: type[Tree], watches: bool
) -> None:
    async with await server_of(kind(NODES)) as server:
        wire = Wire(server, "2025-11-25")
        listed = (await wire.result("resources/list"))["resources"]
        shapes = (await wire.result("resources/templates/list"))["resourceTemplates"]
        (read,) = (await wire.result("resources/read", {"uri": A}))["contents"]
        said = {each["capabilities"]["subscribe"] for each in [*listed, *shapes, read]}
        assert said == {watches}


# -- the states that were read


def test_the_states_read_last_are_remembered() -> None:
    states = ReadStates()
    for number in range(2 * MAX_READ_STATES):
        states["often"] = number
        states[str(number)] = number
    assert len(states) == MAX_READ_STATES
    assert states["often"] == 2 * MAX_READ_STATES - 1
    assert "0" not in states
