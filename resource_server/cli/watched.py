"""What is watched of a source, as any client can: certain resources, or all that is listed.

The server tells that something has changed; what became of it is found by asking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from resource_server.cli import client
from resource_server.cli.events import Events
from resource_server.cli.notices import SETTLE_S, Notices
from resource_server.protocol import revisions
from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.protocol.serialization import META_UNAVAILABLE

_REST = 10
"""Everything is listed again no sooner than after so many times what that took."""
_SLOWLY_S = 30.0
"""Between two listings where there are mounts that do not tell of changes."""
_STEP = 64
"""Requests until others have their turn."""
_NOT_FOUND = revisions.LATEST_HANDSHAKE.resource_not_found


class Chosen:
    """Certain resources: they change, go, and come back."""

    def __init__(
        self, to: LocalClient, notices: Notices, events: Events, uris: Sequence[str]
    ) -> None:
        self._to = to
        self._notices = notices
        self._events = events
        self._uris = uris
        self._present: set[str] = set()

    async def begin(self) -> str:
        """Subscribe to them; return how many there are.

        Raises:
            ErrorReply: one of them is not there.
        """
        for uri in self._uris:
            described = await self._to.request("resources/metadata", {"uri": uri})
            # As the server spells it, and so it will in what it tells.
            canonical = described["resource"]["uri"]
            await self._to.request("resources/subscribe", {"uri": canonical})
            self._present.add(canonical)
        return counted(len(self._present), "resource")

    def following(self) -> Sequence[Coroutine[Any, Any, NoReturn]]:
        """Return what prints what becomes of them."""
        return [self._follow()]

    async def _follow(self) -> NoReturn:
        while True:
            uri = await self._notices.updated()
            was_there = uri in self._present
            if await _type(self._to, uri, otherwise="") is not None:
                self._present.add(uri)
                self._events.tell("changed" if was_there else "added", uri)
            elif was_there:
                self._present.remove(uri)
                self._events.tell("removed", uri)


class Everything:
    """All that is listed: it comes and goes, and documents change."""

    def __init__(
        self,
        to: LocalClient,
        notices: Notices,
        events: Events,
        *,
        lists_slowly: Callable[[], bool],
    ) -> None:
        self._to = to
        self._notices = notices
        self._events = events
        self._lists_slowly = lists_slowly
        """Whether to list every now and then although nothing was told."""
        self._types: dict[str, str] = {}
        """`document` or `collection`, by URI."""
        self._missing: set[str] = set()
        """What the last listing did not have, although it can be read."""
        self._unheard: set[str] = set()
        """Documents that cannot be subscribed to now: beyond what one client may, for example."""

    async def begin(self) -> str:
        """Subscribe to every document; return how much there is."""
        listed, _ = await self._list()
        for number, (uri, kind) in enumerate(listed.items()):
            await self._add(uri, kind)
            await _others_turn(number)
        kinds = list(self._types.values())
        documents, collections = (kinds.count(kind) for kind in ("document", "collection"))
        summary = f"{counted(documents, 'document')} and {counted(collections, 'collection')}"
        if self._unheard:
            summary += f" ({len(self._unheard):,} of them beyond what can be subscribed to)"
        return summary

    def following(self) -> Sequence[Coroutine[Any, Any, NoReturn]]:
        """Return what prints what becomes of it, side by side."""
        return [self._follow_documents(), self._follow_list()]

    async def _follow_documents(self) -> NoReturn:
        while True:
            uri = await self._notices.updated()
            if await self._is_there(uri):
                self._events.tell("changed", uri)
            else:
                await self._remove(uri)

    async def _follow_list(self) -> NoReturn:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SLOWLY_S if self._lists_slowly() else None):
                    await self._notices.relisted.wait()
            await asyncio.sleep(SETTLE_S)
            self._notices.relisted.clear()
            began = loop.time()
            try:
                found = await self._list()
            except ErrorReply:  # a mount has gone between two pages, with its cursors
                found = None
                self._notices.relisted.set()
            rested = loop.time() + _REST * (loop.time() - began)
            if found is not None:
                await self._compare(*found)
            await asyncio.sleep(rested - loop.time())

    async def _list(self) -> tuple[dict[str, str], bool]:
        """Return the type of everything listed, and whether no mount is missing."""
        listed: dict[str, str] = {}
        complete = True
        async for page in client.pages(self._to, None):
            for resource in page["resources"]:
                listed[resource["uri"]] = resource["resourceType"]
            complete = complete and META_UNAVAILABLE not in page.get("_meta", {})
            await asyncio.sleep(0)
        return listed, complete

    async def _compare(self, listed: dict[str, str], complete: bool) -> None:
        """Print what went and what came since the listing before."""
        gone = [uri for uri, kind in self._types.items() if listed.get(uri) != kind]
        if gone:
            await asyncio.sleep(SETTLE_S)
        before, self._missing = self._missing, set()
        for number, uri in enumerate(gone):
            if uri in before or not await self._is_there(uri):
                await self._remove(uri)
            elif complete:
                self._missing.add(uri)
                self._notices.relisted.set()
            await _others_turn(number)
        for number, (uri, kind) in enumerate(listed.items()):
            if uri not in self._types:
                if await self._add(uri, kind):
                    self._events.tell("added", uri)
                await _others_turn(number)
        for number, uri in enumerate(list(self._unheard)):
            await self._subscribe(uri)
            await _others_turn(number)

    async def _is_there(self, uri: str) -> bool:
        """Whether a resource that was listed is still what it was, as far as can be told now."""
        known = self._types.get(uri)
        return known is not None and await _type(self._to, uri, otherwise=known) == known

    async def _add(self, uri: str, kind: str) -> bool:
        """Watch one more resource, unless it has gone again."""
        if kind == "document" and not await self._subscribe(uri):
            return False
        self._types[uri] = kind
        return True

    async def _subscribe(self, uri: str) -> bool:
        """Subscribe to a document as far as that can be; return whether it is there."""
        try:
            await self._to.request("resources/subscribe", {"uri": uri})
        except ErrorReply as error:
            if error.code == _NOT_FOUND:
                return False
            self._unheard.add(uri)
        else:
            self._unheard.discard(uri)
        return True

    async def _remove(self, uri: str) -> None:
        """Watch a resource no more, and print that, unless it has been printed."""
        kind = self._types.pop(uri, None)
        if kind is not None:
            self._events.tell("removed", uri)
        if kind == "document":
            self._unheard.discard(uri)
            await self._to.request("resources/unsubscribe", {"uri": uri})


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: `1 document`, `2,000 documents`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


async def _type(to: LocalClient, uri: str, *, otherwise: str) -> str | None:
    """Return whether a resource is a document or a collection; None where it is not there.

    `otherwise` is returned where that cannot be told now.
    """
    try:
        described = await to.request("resources/metadata", {"uri": uri})
    except ErrorReply as error:
        return None if error.code == _NOT_FOUND else otherwise
    return described["resource"]["resourceType"]


async def _others_turn(number: int) -> None:
    """Let the event loop do other work, every now and then in a long row of requests."""
    if number % _STEP == 0:
        await asyncio.sleep(0)
