"""`resource-server watch`: prints changes, additions and removals as they happen."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.cli import console, log_output, runner, source_arguments, source_client
from resource_server.cli.reload import ReloadingServer
from resource_server.cli.watching import (
    EventPrinter,
    PendingChanges,
    WatchedListing,
    WatchedUris,
)
from resource_server.protocol.in_process_client import ErrorReply, LocalClient

_MAX_NAMED_MOUNTS = 5


@click.command("watch", short_help="Print changes as they happen.")
@click.argument("words", nargs=-1, metavar="[SOURCE] [URI]...")
@source_arguments.json_option
@source_arguments.common_options
def command(words: Sequence[str], as_json: bool, no_plugins: bool, verbose: int) -> int:
    """Print each change, addition and removal in SOURCE on a line, until interrupted.

    Without a URI, everything listed is watched; collections are only added and removed. With URIs,
    only these resources are watched; a collection changes when its direct children do. With
    --json, each line is an object.
    """
    log_output.log_to_stderr(verbose)
    source, uris = source_arguments.split_source_and_uris(words)
    printer = EventPrinter(as_json=as_json)
    served = ReloadingServer(source, allow_plugins=not no_plugins)
    return runner.run(_watch(served, uris, printer))


async def _watch(served: ReloadingServer, uris: Sequence[str], printer: EventPrinter) -> int:
    pending = PendingChanges()

    def has_silent_mount() -> bool:
        return bool(_silent(_mounts(served.server.catalog, uris)))

    async with (
        served as server,
        LocalClient(server, on_notification=pending.take, follows_list=not uris) as client,
    ):
        watched = (
            WatchedUris(client, pending, printer, uris)
            if uris
            else WatchedListing(client, pending, printer, polls=has_silent_mount)
        )
        try:
            summary = await watched.begin()
        except ErrorReply as error:
            return console.fail(source_client.error_sentence(error))
        mounts = _mounts(server.catalog, uris)
        console.note(f"watching {summary} of {_named(mounts) or 'no mount'}; Ctrl-C ends")
        if silent := _silent(mounts):
            console.note(f"no change events from {_named(silent)}; listing every 30 s instead")
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


def _named(mounts: Collection[Mount]) -> str:
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
