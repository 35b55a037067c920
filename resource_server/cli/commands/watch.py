"""`resource-server watch`: prints changes, additions and removals as they happen.

A notification reports that something has changed; a request then determines how.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, NoReturn, TypeAlias

import click
import msgspec

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.cli import (
    addresses,
    console,
    log_output,
    runner,
    source_arguments,
    source_client,
)
from resource_server.cli.source_client import Json
from resource_server.protocol import revisions
from resource_server.protocol.in_process_client import ErrorReply, LocalClient, error_in_words
from resource_server.protocol.serialization import META_UNAVAILABLE
from resource_server.runtime.timing import Timing
from resource_server.serving.reload import ReloadingServer

Event: TypeAlias = Literal["added", "changed", "removed"]

_SETTLE_S = 0.1
"""Longer than a server takes to send all notifications of one moment."""
_REST_FACTOR = 10
"""Minimum pause between two listings, as a multiple of the time that a listing takes."""
_REQUESTS_PER_TURN = 64
"""Requests sent in a row before other tasks run."""
_NOT_FOUND = revisions.LATEST_HANDSHAKE.resource_not_found
_MAX_NAMED_MOUNTS = 5

_encode = msgspec.json.Encoder().encode


@click.command("watch", short_help="Print changes as they happen.")
@source_arguments.addresses_argument("[SOURCE]... [URI]...")
@source_arguments.json_option
@source_arguments.common_options
def command(words: Sequence[str], as_json: bool, no_plugins: bool, verbose: int) -> int:
    """Print each change, addition and removal in each SOURCE on a line, until interrupted.

    Without a URI, everything listed is watched; collections are only added and removed. With URIs,
    which may be paths in a SOURCE, only these resources are watched; a collection changes when its
    direct children do. With --json, each line is an object.
    """
    log_output.log_to_stderr(verbose)
    given = addresses.with_addresses(words)
    printer = EventPrinter(as_json=as_json)
    served = ReloadingServer(
        *given.sources, allow_plugins=not no_plugins, records=False, tell=console.note
    )
    return runner.run(_watch(served, given.addresses, printer))


async def _watch(served: ReloadingServer, given: Sequence[str], printer: EventPrinter) -> int:
    pending = PendingChanges()
    uris: list[str] = []

    def has_silent_mount() -> bool:
        return bool(_silent(_mounts(served.server.catalog, uris)))

    async with (
        served as server,
        LocalClient(server, on_notification=pending.take, follows_list=not given) as client,
    ):
        uris += [await addresses.resolved(client, served.manifest, word) for word in given]
        watched = (
            WatchedUris(client, pending, printer, uris)
            if uris
            else WatchedListing(client, pending, printer, polls=has_silent_mount)
        )
        try:
            summary = await watched.begin()
        except ErrorReply as error:
            return console.fail(await error_in_words(server, error))
        mounts = _mounts(server.catalog, uris)
        console.note(f"watching {summary} of {_bases_of(mounts) or 'no mount'}; Ctrl-C ends")
        if silent := _silent(mounts):
            console.note(f"no change events from {_bases_of(silent)}; listing every 30 s instead")
        await _until_unread(*watched.loops())
    return 0


def _mounts(catalog: Catalog, uris: Sequence[str]) -> Collection[Mount]:
    """Return the mounts of the URIs; without URIs, the listed mounts."""
    if not uris:
        return [mount for mount in catalog.mounts if mount.listed]
    return dict.fromkeys(catalog.route(uri)[0] for uri in uris)


def _silent(mounts: Collection[Mount]) -> Collection[Mount]:
    """Return the working mounts that report no changes."""
    return [mount for mount in mounts if not mount.can_watch and mount.problem is None]


def _bases_of(mounts: Collection[Mount]) -> str:
    bases = [mount.base for mount in mounts]
    rest = len(bases) - _MAX_NAMED_MOUNTS
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(bases[:_MAX_NAMED_MOUNTS]) + more


async def _until_unread(*endless: Coroutine[Any, Any, NoReturn]) -> None:
    """Run endless coroutines concurrently until the reader of standard output goes away.

    Raises:
        BrokenPipeError: it has gone.
    """
    tasks = [asyncio.ensure_future(work) for work in (*endless, _wait_until_unread())]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_until_unread() -> NoReturn:
    """Wait until the reader of a pipe has gone; the next event might be far away."""
    gone = asyncio.Event()
    with suppress(OSError, ValueError, NotImplementedError):
        fd = sys.stdout.fileno()
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            # Nothing can be read from the writing end, so its only event is the hang-up.
            asyncio.get_running_loop().add_reader(fd, gone.set)
    await gone.wait()
    raise BrokenPipeError


class EventPrinter:
    """Prints each event immediately, to the standard output at the time of construction.

    `sys.stdout` is another stream while a plugin is being imported.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._out = sys.stdout

    def print_event(self, event: Event, uri: str) -> None:
        """Print one event with the current time.

        Raises:
            BrokenPipeError: the reader of the output has gone.
        """
        now = datetime.now(UTC)
        if self._as_json:
            time = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self._out.buffer.write(_encode({"event": event, "uri": uri, "time": time}) + b"\n")
        else:
            time = console.faint(now.astimezone().strftime("%H:%M:%S"))
            self._out.write(f"{time}  {event:7}  {console.escaped(uri)}\n")
        self._out.flush()


class PendingChanges:
    """Received notifications, each held back for a moment.

    A save in several steps is then one change, and a request sees its end.
    """

    def __init__(self) -> None:
        self.list_changed = asyncio.Event()
        """Set once the listing may have changed."""
        self._received_at: dict[str, float] = {}
        self._any = asyncio.Event()

    def take(self, notification: Json) -> None:
        """Take in a notification from the server."""
        match notification:
            case {"method": "notifications/resources/updated", "params": {"uri": str(uri)}}:
                self._received_at.setdefault(uri, asyncio.get_running_loop().time())
                self._any.set()
            case {"method": "notifications/resources/list_changed"}:
                self.list_changed.set()
            case _:
                pass

    async def next_changed(self) -> str:
        """Return the URI that has waited longest, once its moment has passed."""
        await self._any.wait()
        uri, received_at = next(iter(self._received_at.items()))
        await asyncio.sleep(received_at + _SETTLE_S - asyncio.get_running_loop().time())
        del self._received_at[uri]
        if not self._received_at:
            self._any.clear()
        return uri


class WatchedUris:
    """Named resources: they change, disappear and come back."""

    def __init__(
        self,
        client: LocalClient,
        pending: PendingChanges,
        printer: EventPrinter,
        uris: Sequence[str],
    ) -> None:
        self._client = client
        self._pending = pending
        self._printer = printer
        self._uris = uris
        self._existing: set[str] = set()

    async def begin(self) -> str:
        """Subscribe to the resources, and return their number in words.

        Raises:
            ErrorReply: one of them does not exist.
        """
        for uri in self._uris:
            described = await self._client.request("resources/metadata", {"uri": uri})
            # Notifications use the server's spelling.
            canonical = described["resource"]["uri"]
            await self._client.request("resources/subscribe", {"uri": canonical})
            self._existing.add(canonical)
        return counted(len(self._existing), "resource")

    def loops(self) -> Sequence[Coroutine[Any, Any, NoReturn]]:
        """Return the endless coroutine that prints events."""
        return [self._follow()]

    async def _follow(self) -> NoReturn:
        while True:
            uri = await self._pending.next_changed()
            existed = uri in self._existing
            if await _resource_type(self._client, uri, if_unknown="") is not None:
                self._existing.add(uri)
                self._printer.print_event("changed" if existed else "added", uri)
            elif existed:
                self._existing.remove(uri)
                self._printer.print_event("removed", uri)


class WatchedListing:
    """The whole listing: resources appear and disappear, and documents change."""

    def __init__(
        self,
        client: LocalClient,
        pending: PendingChanges,
        printer: EventPrinter,
        *,
        polls: Callable[[], bool],
        timing: Timing = Timing(),
    ) -> None:
        self._client = client
        self._pending = pending
        self._printer = printer
        self._polls = polls
        """Whether to list at intervals, for mounts that report no changes."""
        self._timing = timing
        self._types: dict[str, str] = {}
        """`document` or `collection`, by URI."""
        self._missing: set[str] = set()
        """Resources that can be read although the last listing lacked them."""
        self._unsubscribed: set[str] = set()
        """Documents without a subscription, past the client's limit for example."""

    async def begin(self) -> str:
        """Subscribe to every document, and return the numbers of resources in words."""
        listed, _ = await self._list()
        for number, (uri, kind) in enumerate(listed.items()):
            await self._add(uri, kind)
            await _let_others_run(number)
        kinds = list(self._types.values())
        documents, collections = (kinds.count(kind) for kind in ("document", "collection"))
        summary = f"{counted(documents, 'document')} and {counted(collections, 'collection')}"
        if self._unsubscribed:
            summary += f" ({len(self._unsubscribed):,} over the subscription limit)"
        return summary

    def loops(self) -> Sequence[Coroutine[Any, Any, NoReturn]]:
        """Return the endless coroutines that print events, to run concurrently."""
        return [self._follow_documents(), self._follow_list()]

    async def _follow_documents(self) -> NoReturn:
        while True:
            uri = await self._pending.next_changed()
            if await self._is_unchanged_type(uri):
                self._printer.print_event("changed", uri)
            else:
                await self._remove(uri)

    async def _follow_list(self) -> NoReturn:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                timeout = self._timing.watch_listing_interval_s if self._polls() else None
                async with asyncio.timeout(timeout):
                    await self._pending.list_changed.wait()
            await asyncio.sleep(_SETTLE_S)
            self._pending.list_changed.clear()
            began = loop.time()
            try:
                found = await self._list()
            except ErrorReply:  # a mount went away between two pages, and its cursor with it
                found = None
                self._pending.list_changed.set()
            rested = loop.time() + _REST_FACTOR * (loop.time() - began)
            if found is not None:
                await self._compare(*found)
            await asyncio.sleep(rested - loop.time())

    async def _list(self) -> tuple[dict[str, str], bool]:
        """Return the type of every listed resource, and whether all mounts were available."""
        listed: dict[str, str] = {}
        complete = True
        async for page in source_client.listing_pages(self._client, None):
            for resource in page["resources"]:
                listed[resource["uri"]] = resource["resourceType"]
            complete = complete and META_UNAVAILABLE not in page.get("_meta", {})
            await asyncio.sleep(0)
        return listed, complete

    async def _compare(self, listed: dict[str, str], complete: bool) -> None:
        """Print the differences from the listing before."""
        gone = [uri for uri, kind in self._types.items() if listed.get(uri) != kind]
        if gone:
            await asyncio.sleep(_SETTLE_S)
        before, self._missing = self._missing, set()
        for number, uri in enumerate(gone):
            if uri in before or not await self._is_unchanged_type(uri):
                await self._remove(uri)
            elif complete:
                self._missing.add(uri)
                self._pending.list_changed.set()
            await _let_others_run(number)
        for number, (uri, kind) in enumerate(listed.items()):
            if uri not in self._types:
                if await self._add(uri, kind):
                    self._printer.print_event("added", uri)
                await _let_others_run(number)
        for number, uri in enumerate(list(self._unsubscribed)):
            await self._subscribe(uri)
            await _let_others_run(number)

    async def _is_unchanged_type(self, uri: str) -> bool:
        """Return whether a known resource still exists with its type; True if unknown."""
        known = self._types.get(uri)
        return known is not None and known == await _resource_type(
            self._client, uri, if_unknown=known
        )

    async def _add(self, uri: str, kind: str) -> bool:
        """Watch one more resource; return False if it has disappeared again."""
        if kind == "document" and not await self._subscribe(uri):
            return False
        self._types[uri] = kind
        return True

    async def _subscribe(self, uri: str) -> bool:
        """Subscribe to a document if the server allows it; return whether the document exists."""
        try:
            await self._client.request("resources/subscribe", {"uri": uri})
        except ErrorReply as error:
            if error.code == _NOT_FOUND:
                return False
            self._unsubscribed.add(uri)
        else:
            self._unsubscribed.discard(uri)
        return True

    async def _remove(self, uri: str) -> None:
        """Stop watching a resource, and print its removal once."""
        kind = self._types.pop(uri, None)
        if kind is not None:
            self._printer.print_event("removed", uri)
        if kind == "document":
            self._unsubscribed.discard(uri)
            await self._client.request("resources/unsubscribe", {"uri": uri})


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 document`, `2,000 documents`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


async def _resource_type(client: LocalClient, uri: str, *, if_unknown: str) -> str | None:
    """Return `document` or `collection`; None if the resource does not exist.

    `if_unknown` is returned if the request fails for another reason.
    """
    try:
        described = await client.request("resources/metadata", {"uri": uri})
    except ErrorReply as error:
        return None if error.code == _NOT_FOUND else if_unknown
    return described["resource"]["resourceType"]


async def _let_others_run(number: int) -> None:
    """Yield to the event loop once in a while during a long series of requests."""
    if number % _REQUESTS_PER_TURN == 0:
        await asyncio.sleep(0)
