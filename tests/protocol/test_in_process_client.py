"""The client in the same process: what it is told of changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.protocol.in_process_client import ErrorReply, LocalClient, error_in_words
from resource_server.protocol.server import Server
from tests.cases import for_each
from tests.protocol.wire import server_of
from tests.providers_for_tests import WatchedTree
from tests.waiting import PATIENCE_S, quiet_for

pytestmark = pytest.mark.anyio

A = {"uri": "test://one/a"}


async def test_notifications_are_passed_to_the_callback() -> None:
    tree = WatchedTree({"a": "text"})
    told = asyncio.Queue[dict[str, Any]]()
    async with (
        await server_of(tree) as server,
        LocalClient(server, on_notification=told.put_nowait) as client,
    ):
        await client.request("resources/subscribe", A)
        tree.set("a", to="longer")
        notification = await asyncio.wait_for(told.get(), PATIENCE_S)
        assert notification["params"] == A
        assert client.notifications == []


async def test_a_client_that_does_not_follow_the_list_has_nothing_watched() -> None:
    tree = WatchedTree({"a": "text"})
    async with await server_of(tree) as server, LocalClient(server) as client:
        await client.request("resources/read", A)
        await quiet_for(0.01)
        assert tree.interest is None


async def test_a_client_that_follows_the_list_is_notified_when_it_changes() -> None:
    tree = WatchedTree({"a": "text"})
    told = asyncio.Queue[dict[str, Any]]()
    async with (
        await server_of(tree) as server,
        LocalClient(server, on_notification=told.put_nowait, follows_list=True),
    ):
        await tree.asked(listing=True)
        tree.set("new", to="")
        notification = await asyncio.wait_for(told.get(), PATIENCE_S)
        assert notification["method"] == "notifications/resources/list_changed"


async def test_a_client_that_leaves_ends_its_subscriptions() -> None:
    tree = WatchedTree({"a": "text"})
    async with await server_of(tree) as server:
        async with LocalClient(server, follows_list=True) as client:
            await client.request("resources/subscribe", A)
            await tree.asked(("a",), listing=True)
        await tree.asked(listing=False)


@for_each(
    ("data", "sentence"),
    [
        (None, "resource not found"),
        ({"uri": "file:///a/x"}, "resource not found: file:///a/x"),
        (
            {"uri": "file:///a/x", "next": "file:///a/x?lines=1-9"},
            "resource not found: file:///a/x (readable from file:///a/x?lines=1-9)",
        ),
    ],
)
async def test_an_error_is_a_sentence_with_its_uri(
    data: dict[str, str] | None, sentence: str
) -> None:
    async with Server(Catalog([])) as server:
        error = ErrorReply(-32002, "Resource not found", data)
        assert await error_in_words(server, error) == sentence
