"""`subscriptions/listen` of 2026-07-28: acknowledged first, then told, until one side ends it."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from resource_server.catalog.cursor import ListCursor, ListingState
from resource_server.protocol.client_connection import MAX_RUNNING
from resource_server.protocol.methods import MAX_LISTEN_ID_CHARACTERS
from resource_server.protocol.server import Server, ServerLimits
from resource_server.provider import Path
from resource_server.providers.filesystem import Filesystem
from resource_server.runtime.lazy_event import LazyEvent
from resource_server.runtime.timing import Timing
from tests.protocol.wire import HANDSHAKE, Wire, request, server_of
from tests.providers_for_tests import Broken, Gate, Node, SlowWatchedTree, Tree, WatchedTree
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

A, LINES, FOLDER = "test://one/a", "test://one/lines", "test://one/folder"
NODES: dict[str, Node] = {"a": "text", "folder": {"inner": "x"}, "lines": "1\n2\n"}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@pytest.fixture(params=[WatchedTree, SlowWatchedTree])
def tree(request: pytest.FixtureRequest) -> WatchedTree:
    return request.param(NODES)


@pytest.fixture
async def server(tree: WatchedTree) -> AsyncIterator[Server]:
    async with await server_of(tree) as server:
        yield server


@pytest.fixture
async def wire(server: Server) -> AsyncIterator[Wire]:
    wire = Wire(server, "2026-07-28")
    yield wire
    await wire.connection.close()


def start(wire: Wire, *uris: str, id: object = "listen", **wanted: Any) -> object:
    """Send a listen and return its id."""
    if uris:
        wanted["resourceSubscriptions"] = list(uris)
    return wire.start("subscriptions/listen", {"notifications": wanted}, id)


def of(wire: Wire, id: object) -> list[Any]:
    """Return the notifications of one listen."""
    return [each for each in wire.notifications if each["params"]["_meta"][SUBSCRIPTION] == id]


async def listen(wire: Wire, *uris: str, id: object = "listen", **wanted: Any) -> Any:
    """Send a listen, wait for its acknowledgement, and return what is honoured."""
    start(wire, *uris, id=id, **wanted)
    await wire.until(lambda: bool(of(wire, id)))
    await asyncio.sleep(0)  # as long as any answer takes: then the listen is all that is left of it
    first = of(wire, id)[0]
    assert first["method"] == "notifications/subscriptions/acknowledged"
    return first["params"]["notifications"]


def cancel(wire: Wire, id: object) -> None:
    method = "notifications/cancelled"
    wire.send({"jsonrpc": "2.0", "method": method, "params": {"requestId": id}})


def frame(id: object, name: str, **params: Any) -> dict[str, Any]:
    told = {"_meta": {SUBSCRIPTION: id}, **params}
    return {"jsonrpc": "2.0", "method": f"notifications/{name}", "params": told}


# -- the acknowledgement


async def test_honoured_subscriptions_are_acknowledged(wire: Wire) -> None:
    honoured = await listen(wire, A, FOLDER, resourcesListChanged=True)
    assert honoured == {"resourcesListChanged": True, "resourceSubscriptions": [A, FOLDER]}


async def test_unreadable_resources_are_left_out(wire: Wire) -> None:
    uris = ["test://one/none", A, "test://two/a", "nonsense", "", "test://one/a?x=1&x=2", FOLDER]
    assert await listen(wire, *uris) == {"resourceSubscriptions": [A, FOLDER]}
    assert await listen(wire, "nonsense", id=2) == {"resourceSubscriptions": []}


async def test_a_uri_is_honoured_once_in_its_spelling(wire: Wire) -> None:
    honoured = await listen(wire, "TEST://one/%61?lines=1", A, A, "TEST://one/%61?lines=1")
    assert honoured == {"resourceSubscriptions": ["TEST://one/%61?lines=1", A]}


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"toolsListChanged": True, "promptsListChanged": True, "taskIds": ["x"], "x": 1},
        {"resourcesListChanged": False},
        {"resourcesListChanged": None, "resourceSubscriptions": None},
        {"resourceSubscriptions": []},
    ],
)
async def test_unwanted_and_unknown_members_are_not_echoed(
    wire: Wire, wanted: dict[str, Any]
) -> None:
    assert await listen(wire, **wanted) == {}


async def test_list_changes_that_are_never_sent_are_not_honoured() -> None:
    async with await server_of(Tree(NODES)) as server:
        wire = Wire(server, "2026-07-28")
        assert await listen(wire, A, resourcesListChanged=True) == {"resourceSubscriptions": [A]}
        server.reloads = True
        honoured = await listen(wire, resourcesListChanged=True, id=2)
        assert honoured == {"resourcesListChanged": True}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": None},
        {"notifications": []},
        {"notifications": {"resourcesListChanged": 1}},
        {"notifications": {"toolsListChanged": "yes"}},
        {"notifications": {"resourceSubscriptions": A}},
        {"notifications": {"resourceSubscriptions": [A, 1]}},
        {"notifications": {"resourceSubscriptions": {A: True}}},
    ],
)
async def test_wrong_types_are_refused_without_a_notification(
    wire: Wire, params: dict[str, Any]
) -> None:
    assert (await wire.error("subscriptions/listen", params))["code"] == -32602
    assert wire.notifications == []


async def test_no_notification_precedes_the_acknowledgement() -> None:
    gate = Gate()

    class Held(WatchedTree):
        def metadata(self, path: Path) -> Any:
            return self._held(path) if path == ("lines",) else super().metadata(path)

        async def _held(self, path: Path) -> Any:
            await gate.wait()
            return super().metadata(path)

    tree = Held(NODES)
    async with await server_of(tree) as server:
        wire, other = Wire(server, "2026-07-28"), Wire(server, "2026-07-28")
        await listen(other, A, resourcesListChanged=True)
        start(wire, A, LINES, resourcesListChanged=True)
        await asyncio.wait_for(gate.started.wait(), PATIENCE_S)
        tree.set("a", to="longer")
        tree.set("new", to="")
        await other.notified(3)
        assert wire.messages == []
        gate.released.set()
        await wire.notified(3)
        assert [each["method"].split("/", 1)[1] for each in wire.messages] == [
            "subscriptions/acknowledged",
            "resources/list_changed",
            "resources/updated",
        ]


# -- what is told


@pytest.mark.parametrize("id", ["listen", "", "1", 1, 0, -1, 2**53])
async def test_every_frame_carries_the_id_of_its_listen(
    wire: Wire, tree: WatchedTree, id: object
) -> None:
    await listen(wire, A, id=id, resourcesListChanged=True)
    tree.set("a", to="longer")
    await wire.notified(2)
    tree.set("new", to="")
    await wire.notified(3)
    assert wire.messages[1:] == [
        frame(id, "resources/updated", uri=A),
        frame(id, "resources/list_changed"),
    ]


async def test_a_forged_cursor_of_a_listing_notifies_nobody(tree: WatchedTree) -> None:
    timing = Timing(compare_retry_s=0.0, compare_retry_max_s=0.0)
    async with await server_of(tree, timing=timing) as server:
        follower, forger = Wire(server, "2026-07-28"), Wire(server, "2026-07-28")
        await listen(follower, resourcesListChanged=True)
        cursor = ListCursor("", "one", (), ListingState(1, without=("one",))).encode()
        result = await forger.result("resources/list", {"cursor": cursor})
        assert result["_meta"]["resource-server/unavailable"] == ["one"]
        await follower.quiet()
        assert len(of(follower, "listen")) == 1
        await follower.connection.close()
        await forger.connection.close()


async def test_each_listen_receives_only_its_own_notifications(
    wire: Wire, tree: WatchedTree
) -> None:
    await listen(wire, A, id="a")
    await listen(wire, id="list", resourcesListChanged=True)
    await listen(wire, "TEST://one/a", LINES, id="both")
    tree.set("a", to="longer")
    await wire.notified(5)
    tree.set("lines", to="longer")
    await wire.notified(6)
    tree.set("new", to="")
    await wire.notified(7)
    await wire.quiet()
    assert of(wire, "a")[1:] == [frame("a", "resources/updated", uri=A)]
    assert of(wire, "list")[1:] == [frame("list", "resources/list_changed")]
    assert of(wire, "both")[1:] == [
        frame("both", "resources/updated", uri="TEST://one/a"),
        frame("both", "resources/updated", uri=LINES),
    ]
    assert wire.replies == []


async def test_a_change_between_read_and_listen_follows_the_acknowledgement(
    wire: Wire, tree: WatchedTree
) -> None:
    for uri in (A, LINES):
        await wire.result("resources/read", {"uri": uri})
    tree.set("a", to="changed meanwhile")
    wire.messages.clear()
    await listen(wire, A, LINES)
    await wire.notified(2)
    await wire.quiet()
    assert wire.messages[1:] == [frame("listen", "resources/updated", uri=A)]


async def test_changes_are_merged_while_a_client_does_not_read(
    server: Server, tree: WatchedTree
) -> None:
    room = LazyEvent()
    room.set()
    wire, other = Wire(server, "2026-07-28", room=room), Wire(server, "2026-07-28")
    for each in (wire, other):
        await listen(each, A, id=1)
        await listen(each, A, id=2)
    room.clear()
    for text in ("longer", "longer still", "the longest of them"):
        before = len(other.updates)
        tree.set("a", to=text)
        await other.until(lambda before=before: len(other.updates) == before + 2)
    assert wire.updates == []
    room.set()
    await wire.notified(4)
    await wire.quiet()
    assert wire.updates == [A, A]


# -- cancellation


async def test_a_cancelled_listen_gets_no_notification_and_no_response(
    wire: Wire, tree: WatchedTree
) -> None:
    await listen(wire, A, resourcesListChanged=True)
    await tree.asked(("a",), listing=True)
    cancel(wire, "listen")
    await tree.asked(listing=False)
    tree.set("a", to="longer")
    tree.set("new", to="")
    await wire.quiet()
    await wire.connection.drain(1)
    assert len(wire.messages) == 1


async def test_pending_notifications_of_a_cancelled_listen_are_dropped(
    server: Server, tree: WatchedTree
) -> None:
    room = LazyEvent()
    room.set()
    wire, other = Wire(server, "2026-07-28", room=room), Wire(server, "2026-07-28")
    for each in (wire, other):
        await listen(each, A)
    room.clear()
    tree.set("a", to="longer")
    await other.notified(2)
    cancel(wire, "listen")
    room.set()
    await wire.quiet()
    assert len(wire.messages) == 1


async def test_a_listen_that_is_cancelled_before_its_acknowledgement_is_silent() -> None:
    tree = SlowWatchedTree({str(number): "" for number in range(100)})
    async with await server_of(tree) as server:
        wire = Wire(server, "2026-07-28")
        uris = [f"test://one/{number}" for number in range(100)]
        start(wire, *uris, id=1)
        cancel(wire, 1)
        start(wire, *uris, id=2, resourcesListChanged=True)
        await tree.asked(("0",), listing=True)
        cancel(wire, 2)
        await tree.asked(listing=False)
        tree.set("0", to="longer")
        await wire.quiet()
        assert wire.messages == []


async def test_the_id_of_an_open_listen_is_reserved_until_it_is_cancelled(
    wire: Wire, tree: WatchedTree
) -> None:
    await listen(wire, A, id=7)
    for method in ("subscriptions/listen", "resources/list"):
        start_again = wire.request(method, {"notifications": {}}, 7)
        assert wire.ask(start_again)["error"]["code"] == -32600
    tree.set("a", to="longer")
    await wire.notified(2)
    cancel(wire, 7)
    wire.messages.clear()
    assert await listen(wire, LINES, id=7) == {"resourceSubscriptions": [LINES]}


@pytest.mark.parametrize("id", ["1", 2, None, 1.5, True, []])
async def test_cancelling_another_id_leaves_the_listen(
    wire: Wire, tree: WatchedTree, id: object
) -> None:
    await listen(wire, A, id=1)
    cancel(wire, id)
    tree.set("a", to="longer")
    await wire.notified(2)


# -- the end


@pytest.mark.parametrize("how", ["drain", "close"])
async def test_closing_the_connection_completes_every_listen(
    server: Server, tree: WatchedTree, how: str
) -> None:
    wire = Wire(server, "2026-07-28")
    for id in ("a", 2):
        await listen(wire, A, id=id, resourcesListChanged=True)
    await (wire.connection.drain(1) if how == "drain" else wire.connection.close())
    assert [each["id"] for each in wire.replies] == ["a", 2]
    for reply in wire.replies:
        assert reply["result"] == {
            "resultType": "complete",
            "_meta": {
                SUBSCRIPTION: reply["id"],
                "io.modelcontextprotocol/serverInfo": server.info,
            },
        }
    await tree.asked(listing=False)


async def test_pending_notifications_precede_the_response(
    server: Server, tree: WatchedTree
) -> None:
    room = LazyEvent()
    room.set()
    wire, other = Wire(server, "2026-07-28", room=room), Wire(server, "2026-07-28")
    for each in (wire, other):
        await listen(each, A)
    room.clear()
    tree.set("a", to="longer")
    await other.notified(2)
    draining = asyncio.create_task(wire.connection.drain(5))
    await wire.quiet()
    assert len(wire.messages) == 1
    room.set()
    await draining
    assert wire.messages[1] == frame("listen", "resources/updated", uri=A)
    assert wire.messages[2]["id"] == "listen"


async def test_draining_does_not_wait_forever_for_a_stalled_client(
    server: Server, tree: WatchedTree
) -> None:
    room = LazyEvent()
    room.set()
    wire = Wire(server, "2026-07-28", room=room)
    await listen(wire, A)
    room.clear()
    await asyncio.wait_for(wire.connection.drain(0.01), PATIENCE_S)
    await wire.connection.close()
    await tree.asked()
    assert len(wire.messages) == 1


async def test_draining_acknowledges_and_completes_a_pending_listen() -> None:
    async with await server_of(SlowWatchedTree(NODES)) as server:
        wire = Wire(server, "2026-07-28")
        start(wire, A)
        await wire.connection.drain(5)
        assert [each.get("id") for each in wire.messages] == [None, "listen"]


# -- others


async def test_open_listens_do_not_block_requests() -> None:
    tree = SlowWatchedTree(NODES)
    async with await server_of(tree) as server:
        wire = Wire(server, "2026-07-28")
        for id in range(MAX_RUNNING + 1):
            await listen(wire, A, id=id)
        assert wire.connection.is_idle
        assert await wire.result("resources/read", {"uri": A})


async def test_open_listens_are_limited(
    server: Server,
) -> None:
    server.limits = ServerLimits(listens=3)
    wire = Wire(server, "2026-07-28")
    for id in range(3):
        await listen(wire, A, id=id)
    error = await wire.error("subscriptions/listen", {"notifications": {}})
    assert (error["code"], error["data"]) == (-32012, {"retryable": True})
    for _ in range(5):
        assert (await wire.error("subscriptions/listen", {}))["code"] == -32602
        cancel(wire, 2)
        wire.messages.clear()
        assert await listen(wire, id=2) == {}


async def test_the_id_of_a_listen_is_limited_in_length(wire: Wire, tree: WatchedTree) -> None:
    longest = "é" * MAX_LISTEN_ID_CHARACTERS
    reply = wire.ask(wire.request("subscriptions/listen", {"notifications": {}}, f"{longest}é"))
    assert reply["error"]["code"] == -32602
    assert f"{MAX_LISTEN_ID_CHARACTERS}" in reply["error"]["message"]
    assert wire.notifications == []
    assert await listen(wire, A, id=longest) == {"resourceSubscriptions": [A]}
    tree.set("a", to="longer")
    await wire.notified(2)
    assert of(wire, longest)[1:] == [frame(longest, "resources/updated", uri=A)]


async def test_subscriptions_beyond_the_limit_are_not_honoured(
    server: Server,
) -> None:
    server.limits = ServerLimits(subscriptions=2)
    wire = Wire(server, "2026-07-28")
    assert await listen(wire, A, LINES, FOLDER, id=1) == {"resourceSubscriptions": [A, LINES]}
    assert await listen(wire, A, id=2) == {"resourceSubscriptions": []}
    cancel(wire, 1)
    assert await listen(wire, FOLDER, A, id=3) == {"resourceSubscriptions": [FOLDER, A]}


async def test_others_are_served_while_a_large_listen_subscribes() -> None:
    tree = WatchedTree({str(number): "" for number in range(20_000)})
    async with await server_of(tree) as server:
        wire = Wire(server, "2026-07-28")
        uris = [f"test://one/{number}" for number in range(20_000)]
        start(wire, *uris, *(f"test://one/none{number}" for number in range(20_000)))
        assert wire.messages == []
        await wire.result("resources/read", {"uri": "test://one/1"})
        assert wire.notifications == []
        (told,) = await wire.notified(1)
        assert told["params"]["notifications"] == {"resourceSubscriptions": uris}
        await wire.connection.close()
        await tree.asked()


async def test_a_failing_provider_is_left_out_and_logged_once(
    tree: WatchedTree, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(path: Path) -> Any:
        raise RuntimeError("secret")

    async with await server_of(tree, Broken(metadata=fail)) as server:
        wire = Wire(server, "2026-07-28")
        uris = [f"test://two/{number}" for number in range(10)]
        assert await listen(wire, *uris, A) == {"resourceSubscriptions": [A]}
        assert len(caplog.messages) == 1
        assert "secret" not in caplog.text


async def test_resources_of_a_provider_that_cancels_itself_are_left_out(tree: WatchedTree) -> None:
    async def give_up(path: Path) -> Any:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    async with await server_of(tree, Broken(metadata=give_up)) as server:
        wire = Wire(server, "2026-07-28")
        assert await listen(wire, "test://two/x", A) == {"resourceSubscriptions": [A]}


# -- eras


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_handshake_revisions_have_no_listen(server: Server, revision: str) -> None:
    params: Mapping[str, Any] = {"notifications": {"resourcesListChanged": True}}
    error = await Wire(server, revision).error("subscriptions/listen", params)
    assert error["code"] == -32601


@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_the_modern_revision_has_only_listen(wire: Wire, method: str) -> None:
    assert (await wire.error(method, {"uri": A}))["code"] == -32601


async def test_initialized_is_ignored_by_a_modern_connection(wire: Wire, tree: WatchedTree) -> None:
    await listen(wire, A)
    wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await tree.asked(("a",), listing=False)
    tree.set("new", to="")
    await wire.quiet()
    assert len(wire.messages) == 1


async def test_a_listen_in_a_batch_is_refused(wire: Wire) -> None:
    await wire.result("server/discover")
    wire.messages.clear()
    reply = wire.ask([wire.request("subscriptions/listen", {"notifications": {}}, 1)])
    assert reply["error"]["code"] == -32600
    assert wire.notifications == []


async def test_a_listen_in_a_batch_of_2025_03_26_is_not_found(server: Server) -> None:
    wire = Wire(server, "2025-03-26")
    (reply,) = wire.ask([request("subscriptions/listen", {"notifications": {}})])
    assert reply["error"]["code"] == -32601


async def test_a_listen_may_be_the_first_request(wire: Wire, tree: WatchedTree) -> None:
    assert await listen(wire, A) == {"resourceSubscriptions": [A]}
    assert wire.connection.revision is not None
    assert wire.connection.revision.modern


@pytest.mark.parametrize("attempt", range(5))
async def test_a_file_created_right_after_the_acknowledgement_notifies(
    tmp_path: pathlib.Path, attempt: int
) -> None:
    (tmp_path / "folder").mkdir()
    async with await server_of(Filesystem(tmp_path)) as server:
        wire = Wire(server, "2026-07-28")
        await listen(wire, resourcesListChanged=True)
        (tmp_path / "folder" / f"new-{attempt}").touch()
        method = "notifications/resources/list_changed"
        await wire.until(lambda: of(wire, "listen")[-1]["method"] == method)
        await wire.connection.close()
