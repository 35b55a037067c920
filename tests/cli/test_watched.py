"""What is watched of a server in this process, where its limits and times can be made small."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.cli import watched
from resource_server.cli.events import Event, Events
from resource_server.cli.notices import Notices
from resource_server.cli.watched import Everything
from resource_server.errors import ResourceNotFound
from resource_server.protocol import client_subscriptions
from resource_server.protocol.in_process_client import LocalClient
from resource_server.protocol.server import Server
from resource_server.provider import MaybeAwaitable, Path, Provider, Resource
from tests.providers_for_tests import Tree, WatchedTree

pytestmark = pytest.mark.anyio
BASE = "test://one/"
PATIENCE_S = 10.0


class Heard(Events):
    """The events, each waited for instead of printed."""

    def __init__(self) -> None:
        super().__init__(as_json=False)
        self._queue = asyncio.Queue[str]()

    def tell(self, event: Event, uri: str) -> None:
        self._queue.put_nowait(f"{event} {uri.removeprefix(BASE)}")

    async def next(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return await self._queue.get()


@asynccontextmanager
async def watching(
    provider: Provider, *, lists_slowly: bool = False
) -> AsyncGenerator[tuple[str, Heard]]:
    """Watch everything of one provider; gives what the watch says at its beginning and then."""
    heard = Heard()
    notices = Notices()
    server = Server(Catalog([Mount("one", BASE, provider)]))
    async with (
        server,
        LocalClient(server, on_notification=notices.take, follows_list=True) as to,
    ):
        everything = Everything(to, notices, heard, lists_slowly=lambda: lists_slowly)
        summary = await everything.begin()
        tasks = [asyncio.ensure_future(work) for work in everything.following()]
        try:
            yield summary, heard
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_documents_beyond_what_a_client_may_subscribe_to_still_come_and_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_subscriptions, "MAX_SUBSCRIPTIONS", 2)
    tree = WatchedTree({"a": "", "b": "", "c": ""})
    async with watching(tree) as (summary, heard):
        assert summary == (
            "3 documents and 1 collection (1 of them beyond what can be subscribed to)"
        )
        tree.set("c", to=None)
        assert await heard.next() == "removed c"
        tree.set("d", to="")
        assert await heard.next() == "added d"


async def test_a_document_is_subscribed_to_as_soon_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_subscriptions, "MAX_SUBSCRIPTIONS", 2)
    tree = WatchedTree({"a": "", "b": "", "c": ""})
    async with watching(tree) as (_, heard):
        tree.set("a", to=None)
        assert await heard.next() == "removed a"
        await tree.asked(("b",), ("c",))
        tree.set("c", to="changed")
        assert await heard.next() == "changed c"


async def test_what_is_gone_before_it_can_be_subscribed_to_is_not_told_of() -> None:
    class Haunted(WatchedTree):
        def metadata(self, path: Path) -> MaybeAwaitable[Resource]:
            if path[-1:] == ("ghost",):
                raise ResourceNotFound
            return super().metadata(path)

    tree = Haunted({"a": "", "ghost": ""})
    async with watching(tree) as (summary, heard):
        assert summary == "1 document and 1 collection"
        tree.set("b", to="")
        assert await heard.next() == "added b"


async def test_where_nothing_is_told_everything_is_listed_every_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watched, "_SLOWLY_S", 0.02)
    nodes = {"a": ""}
    tree = Tree(nodes)
    async with watching(tree, lists_slowly=True) as (_, heard):
        nodes["b"] = ""
        assert await heard.next() == "added b"
        del nodes["a"]
        assert await heard.next() == "removed a"
