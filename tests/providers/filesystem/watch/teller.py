"""Watches a folder and prints what is told, a JSON line each: a process to stop or to starve.

Its argument is a JSON object: the root, the paths to subscribe to, and limits to live with. Each
line of its input is one more path to subscribe to.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.providers.filesystem import Filesystem
from resource_server.runtime.timing import Timing
from resource_server.subscriptions.broker import Broker

_CLONE_NEWUSER = 0x1000_0000


class Printer:
    def updated(self, uri: str) -> None:
        say("/".join(uris.parse(uri).path))

    def list_changed(self) -> None:
        say("<list>")


def say(what: str) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201


def limit(**limits: int) -> None:
    """Let this process have only so many inotify `watches` or `instances`."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    for name, most in limits.items():
        Path(f"/proc/sys/user/max_inotify_{name}").write_text(str(most))


async def main(options: dict[str, Any]) -> None:
    folder = Filesystem(Path(options["root"]))
    folder.timing = Timing(**options["times"])
    mount = Mount("one", "test://one/", folder)
    async with Catalog([mount]) as catalog:
        live = Broker(catalog)
        printer = Printer()
        for path in options["paths"]:
            await live.subscribe(uri_of(path), printer)
        if options["follows_list"]:
            live.follow_list(printer)
        say("<ready>")
        while path := (await asyncio.to_thread(sys.stdin.readline)).strip():
            await live.subscribe(uri_of(path), printer)
            say("<subscribed>")
        await live.close()


def uri_of(path: str) -> str:
    return uris.join("test://one/", tuple(path.split("/")))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    asked = json.loads(sys.argv[1])
    if asked["limits"]:
        try:
            limit(**asked["limits"])
        except OSError as error:
            say(f"<not permitted: {error.strerror}>")
            sys.exit()
    asyncio.run(main(asked))
