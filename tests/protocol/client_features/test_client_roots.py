"""The folders that a client offers: when it is asked for them, and what it may answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from mcp_types.methods import parse_server_request

from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.client_features.client_roots import ClientRoots
from resource_server.protocol.client_features.server_requests import MAX_OPEN, ServerRequests
from resource_server.protocol.message import decode_message
from resource_server.provider import ClientRoot
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.protocol.wire import HANDSHAKE, PATIENCE_S, initialize, server_of
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio

CAN: Mapping[str, Any] = {"roots": {"listChanged": True}}
A, B = ClientRoot("file:///a", "A"), ClientRoot("file:///b")


class Offering:
    """A client that offers folders, and what the server has made of it."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.taken: list[Sequence[ClientRoot]] = []
        self._arrived = asyncio.Event()
        self.fails = False
        self.has_none = 0
        """How often it was said that this client cannot be asked."""

    def offered(self, roots: ClientRoots | None) -> None:
        if roots is None:
            self.has_none += 1
        else:
            roots.follow(self.take)

    def send(self, data: bytes) -> None:
        self.sent.append(json.loads(data))
        self._arrived.set()

    async def take(self, roots: Sequence[ClientRoot]) -> None:
        self.taken.append(roots)
        self._arrived.set()
        if self.fails:
            raise OSError

    @property
    def requests(self) -> list[Any]:
        return [each for each in self.sent if each.get("method") == "roots/list"]

    async def until(self, *, asked: int = 0, taken: int = 0, sent: int = 0) -> None:
        """Wait until there is so much of each."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.requests) < asked or len(self.taken) < taken or len(self.sent) < sent:
                self._arrived.clear()
                await self._arrived.wait()


async def connected(revision: str, can: Mapping[str, Any]) -> tuple[ClientConnection, Offering]:
    offering = Offering()
    server = await server_of(Tree({}))
    connection = ClientConnection(server, push=offering.send, roots=offering.offered)
    tell(connection, offering, initialize(revision, can=can))
    return connection, offering


def tell(connection: ClientConnection, offering: Offering, message: Mapping[str, Any]) -> None:
    connection.receive(json.dumps(message).encode(), offering.send, offering.send)


def notify(connection: ClientConnection, offering: Offering, name: str) -> None:
    tell(connection, offering, {"jsonrpc": "2.0", "method": f"notifications/{name}"})


def answer(connection: ClientConnection, offering: Offering, roots: object) -> None:
    id = offering.requests[-1]["id"]
    tell(connection, offering, {"jsonrpc": "2.0", "id": id, "result": {"roots": roots}})


@for_each("revision", HANDSHAKE)
async def test_roots_are_requested_once_the_client_is_ready(revision: str) -> None:
    connection, offering = await connected(revision, CAN)
    await asyncio.sleep(0)
    assert offering.requests == []
    notify(connection, offering, "initialized")
    notify(connection, offering, "initialized")
    await offering.until(asked=1)
    parse_server_request("roots/list", revision, None)
    answer(connection, offering, [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}])
    await offering.until(taken=1)
    assert offering.taken == [[A, B]]
    assert len(offering.requests) == 1
    await connection.close()


async def test_a_batch_may_contain_the_response() -> None:
    connection, offering = await connected("2025-03-26", CAN)
    notify(connection, offering, "initialized")
    await offering.until(asked=1)
    id = offering.requests[0]["id"]
    batch = [
        {"jsonrpc": "2.0", "id": id, "result": {"roots": [{"uri": "file:///b"}]}},
        {"jsonrpc": "2.0", "id": 7, "method": "ping"},
    ]
    replies: list[bytes] = []
    connection.receive(json.dumps(batch).encode(), replies.append, offering.send)
    await offering.until(taken=1)
    assert offering.taken == [[B]]
    assert [json.loads(each) for each in replies] == [[{"jsonrpc": "2.0", "id": 7, "result": {}}]]
    await connection.close()


@for_each("can", [{}, {"elicitation": {}}])
async def test_a_client_without_the_roots_capability_is_not_asked(can: Mapping[str, Any]) -> None:
    connection, offering = await connected("2025-11-25", can)
    notify(connection, offering, "initialized")
    notify(connection, offering, "initialized")
    notify(connection, offering, "roots/list_changed")
    await asyncio.sleep(0)
    assert offering.requests == []
    assert offering.has_none == 1


# -- by itself


def asking(
    offering: Offering, *, timeout_s: float = PATIENCE_S, interval_s: float = 0.0
) -> tuple[ClientRoots, ServerRequests]:
    requests = ServerRequests(frozenset())
    timing = Timing(roots_timeout_s=timeout_s, roots_interval_s=interval_s)
    return ClientRoots(requests, offering.send, timing=timing), requests


def answered(requests: ServerRequests, offering: Offering, result: object) -> None:
    id = offering.requests[-1]["id"]
    data = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
    requests.receive(decode_message(data))


async def test_many_change_notifications_cause_one_further_request() -> None:
    offering = Offering()
    roots, requests = asking(offering)
    roots.follow(offering.take)
    await offering.until(asked=1)
    for _ in range(1000):
        roots.changed()
    answered(requests, offering, {"roots": []})
    await offering.until(asked=2)
    answered(requests, offering, {"roots": [{"uri": "file:///b"}]})
    await offering.until(taken=2)
    assert offering.taken == [[], [B]]
    assert len(offering.requests) == 2
    await roots.close()


async def test_roots_are_requested_despite_many_open_questions() -> None:
    offering = Offering()
    roots, requests = asking(offering)
    people = [
        asyncio.create_task(requests.request("elicitation/create", None, offering.send, PATIENCE_S))
        for _ in range(MAX_OPEN)
    ]
    await offering.until(sent=MAX_OPEN)
    roots.follow(offering.take)
    await offering.until(asked=1)
    answered(requests, offering, {"roots": []})
    await offering.until(taken=1)
    await roots.close()
    requests.end()
    await asyncio.gather(*people, return_exceptions=True)


async def test_repeated_roots_requests_are_spaced() -> None:
    offering = Offering()
    roots, requests = asking(offering, interval_s=3600.0)
    roots.follow(offering.take)
    await offering.until(asked=1)
    answered(requests, offering, {"roots": []})
    await offering.until(taken=1)
    roots.changed()
    await asyncio.sleep(0)
    assert len(offering.requests) == 1
    await roots.close()


@pytest.mark.parametrize(
    "result",
    [None, [], {}, {"roots": None}, {"roots": ["file:///a"]}, {"roots": [{"name": "no uri"}]}],
)
async def test_a_malformed_roots_response_is_logged_and_the_old_roots_stay(
    result: object, caplog: pytest.LogCaptureFixture
) -> None:
    offering = Offering()
    roots, requests = asking(offering)
    roots.follow(offering.take)
    await offering.until(asked=1)
    answered(requests, offering, result)
    roots.changed()
    await offering.until(asked=2)
    assert offering.taken == []
    assert caplog.messages == ["the client did not list its roots: its answer is no list of roots"]
    await roots.close()


async def test_an_unresponsive_client_is_asked_again_only_after_it_notifies(
    caplog: pytest.LogCaptureFixture,
) -> None:
    offering = Offering()
    roots, requests = asking(offering, timeout_s=0.01)
    roots.follow(offering.take)
    await offering.until(sent=2)
    assert offering.sent[-1]["method"] == "notifications/cancelled"
    answered(requests, offering, {"roots": []})
    roots.changed()
    await offering.until(asked=2)
    assert offering.taken == []
    assert caplog.messages[0].endswith("nobody has answered in time")
    await roots.close()


async def test_a_failure_to_serve_roots_does_not_stop_further_requests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    offering = Offering()
    offering.fails = True
    roots, requests = asking(offering)
    roots.follow(offering.take)
    await offering.until(asked=1)
    answered(requests, offering, {"roots": []})
    roots.changed()
    await offering.until(asked=2)
    assert caplog.messages[0].startswith("the folders of the client cannot be served: OSError")
    await roots.close()


async def test_closing_the_connection_ends_roots_requests() -> None:
    connection, offering = await connected("2025-11-25", CAN)
    notify(connection, offering, "initialized")
    await offering.until(asked=1)
    await connection.close()
    answer(connection, offering, [])
    notify(connection, offering, "roots/list_changed")
    await asyncio.sleep(0)
    assert offering.taken == []
    assert len(offering.requests) == 1
