"""`resource-server watch`: what is changed, added and removed, as it happens."""

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
from resource_server.cli import arguments, client, messages, runner
from resource_server.cli.events import Events
from resource_server.cli.notices import Notices
from resource_server.cli.reload import Served
from resource_server.cli.watched import Chosen, Everything
from resource_server.protocol.in_process_client import ErrorReply, LocalClient

_MOST_NAMED = 5


@click.command("watch", short_help="Print changes as they happen.")
@click.argument("words", nargs=-1, metavar="[SOURCE] [URI]...")
@arguments.as_json
@arguments.shared
def command(words: Sequence[str], as_json: bool, no_plugins: bool, verbose: int) -> int:
    """Print what is changed, added and removed in SOURCE, a line each, until interrupted.

    Without a URI all that is listed is watched; collections are only added and removed. With URIs
    these alone are; a collection is changed when what it directly holds is. With --json each line
    is an object.
    """
    messages.log_to_stderr(verbose)
    source, uris = arguments.source_and_uris(words)
    events = Events(as_json=as_json)
    served = Served(source, allow_plugins=not no_plugins)
    return runner.run(_watch(served, uris, events))


async def _watch(served: Served, uris: Sequence[str], events: Events) -> int:
    notices = Notices()

    def is_partly_silent() -> bool:
        return bool(_silent(_mounts(served.server.catalog, uris)))

    async with (
        served as server,
        LocalClient(server, on_notification=notices.take, follows_list=not uris) as to,
    ):
        watched = (
            Chosen(to, notices, events, uris)
            if uris
            else Everything(to, notices, events, lists_slowly=is_partly_silent)
        )
        try:
            summary = await watched.begin()
        except ErrorReply as error:
            return messages.failed(client.sentence(error))
        mounts = _mounts(server.catalog, uris)
        messages.note(f"watching {summary} of {_named(mounts) or 'nothing'}; Ctrl-C ends")
        if silent := _silent(mounts):
            places = _named(silent)
            messages.note(f"nothing tells of changes in {places}; looking for them every 30 s")
        await _as_long_as_it_is_read(*watched.following())
    return 0


def _mounts(catalog: Catalog, uris: Sequence[str]) -> Collection[Mount]:
    """Return the mounts of URIs, or without URIs those that are listed."""
    if not uris:
        return [mount for mount in catalog.mounts if mount.listed]
    return dict.fromkeys(catalog.route(uri)[0] for uri in uris)


def _silent(mounts: Collection[Mount]) -> Collection[Mount]:
    """Return the mounts that serve and tell of no changes."""
    return [mount for mount in mounts if mount.watches is None and mount.problem is None]


def _named(mounts: Collection[Mount]) -> str:
    bases = [mount.base for mount in mounts]
    more = f" and {len(bases) - _MOST_NAMED} more" if len(bases) > _MOST_NAMED else ""
    return ", ".join(bases[:_MOST_NAMED]) + more


async def _as_long_as_it_is_read(*endless: Coroutine[Any, Any, NoReturn]) -> None:
    """Run what never ends by itself, side by side, until nobody reads standard output any more.

    Raises:
        BrokenPipeError: that is so.
    """
    tasks = [asyncio.ensure_future(work) for work in (*endless, _unread())]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _unread() -> NoReturn:
    """Wait until the reader of a pipe has gone: the next event to find that may be far away."""
    gone = asyncio.Event()
    with suppress(OSError, ValueError, NotImplementedError):
        fd = sys.stdout.fileno()
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            # Nothing can be read from this end, so that is the only event there is.
            asyncio.get_running_loop().add_reader(fd, gone.set)
    await gone.wait()
    raise BrokenPipeError
