"""Watching a server in this process, where limits and times can be made small."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.cli.commands.watch import Event, EventPrinter, PendingChanges, WatchedListing
from resource_server.errors import ResourceNotFound
from resource_server.protocol.in_process_client import LocalClient
from resource_server.protocol.server import Server, ServerLimits
from resource_server.provider import MaybeAwaitable, Path, Provider, Resource
from resource_server.runtime.timing import Timing
from tests.providers_for_tests import Tree, WatchedTree

BASE = "test://one/"
PATIENCE_S = 10.0


class EventQueue(EventPrinter):
    """Events to wait for instead of printed ones."""

    def __init__(self) -> None:
        super().__init__(as_json=False)
        self._queue = asyncio.Queue[str]()

    def print_event(self, event: Event, uri: str) -> None:
        self._queue.put_nowait(f"{event} {uri.removeprefix(BASE)}")

    async def next(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return await self._queue.get()


@asynccontextmanager
async def watching(
    provider: Provider,
    *,
    polls: bool = False,
    timing: Timing = Timing(),
    limits: ServerLimits | None = None,
) -> AsyncGenerator[tuple[str, EventQueue]]:
    """Watch the listing of one provider; yields the first summary and the events."""
    events = EventQueue()
    pending = PendingChanges()
    server = Server(Catalog([Mount("one", BASE, provider)]), limits=limits)
    async with (
        server,
        LocalClient(server, on_notification=pending.take, follows_list=True) as client,
    ):
        listing = WatchedListing(client, pending, events, polls=lambda: polls, timing=timing)
        summary = await listing.begin()
        tasks = [asyncio.ensure_future(work) for work in listing.loops()]
        try:
            yield summary, events
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.anyio
async def test_documents_past_the_limit_of_subscriptions_are_still_added_and_removed() -> None:
    tree = WatchedTree({"a": "", "b": "", "c": ""})
    async with watching(tree, limits=ServerLimits(subscriptions=2)) as (summary, events):
        assert summary == ("3 documents and 1 collection (1 past the limit of subscriptions)")
        tree.set("c", to=None)
        assert await events.next() == "removed c"
        tree.set("d", to="")
        assert await events.next() == "added d"


@pytest.mark.anyio
async def test_a_document_is_subscribed_to_as_soon_as_there_is_room() -> None:
    tree = WatchedTree({"a": "", "b": "", "c": ""})
    async with watching(tree, limits=ServerLimits(subscriptions=2)) as (_, events):
        tree.set("a", to=None)
        assert await events.next() == "removed a"
        await tree.asked(("b",), ("c",))
        tree.set("c", to="changed")
        assert await events.next() == "changed c"


@pytest.mark.anyio
async def test_a_document_gone_before_its_subscription_is_not_reported() -> None:
    class Haunted(WatchedTree):
        def metadata(self, path: Path) -> MaybeAwaitable[Resource]:
            if path[-1:] == ("ghost",):
                raise ResourceNotFound
            return super().metadata(path)

    tree = Haunted({"a": "", "ghost": ""})
    async with watching(tree) as (summary, events):
        assert summary == "1 document and 1 collection"
        tree.set("b", to="")
        assert await events.next() == "added b"


@pytest.mark.anyio
async def test_a_provider_that_reports_no_changes_is_listed_at_intervals() -> None:
    nodes = {"a": ""}
    tree = Tree(nodes)
    async with watching(tree, polls=True, timing=Timing(watch_listing_interval_s=0.02)) as (
        _,
        events,
    ):
        nodes["b"] = ""
        assert await events.next() == "added b"
        del nodes["a"]
        assert await events.next() == "removed a"


def test_events_go_to_the_first_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # While a plugin is imported in a thread, `sys.stdout` is another stream.
    printer = EventPrinter(as_json=False)
    with contextlib.redirect_stdout(sys.stderr):
        printer.print_event("added", "test://one/a")
    out, err = capsys.readouterr()
    assert out.endswith("  added    test://one/a\n")
    assert err == ""


def test_control_characters_in_a_uri_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    EventPrinter(as_json=False).print_event("removed", "test://one/\x1b[31m\u202e")
    assert capsys.readouterr().out.endswith("  removed  test://one/\\x1b[31m\\u202e\n")


def test_json_events_are_utf_8_in_any_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    EventPrinter(as_json=True).print_event("changed", "test://one/ü")
    assert written.getvalue().startswith('{"event":"changed","uri":"test://one/ü",'.encode())
