"""A server that takes its time: for clients that cancel and watch progress."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.manifest.http import Http
from resource_server.protocol.server import Server
from resource_server.provider import Content, Path
from resource_server.runtime.timing import Timing
from resource_server.transports import stdio
from resource_server.transports.http.server import uvicorn_server
from tests.providers_for_tests import SlowTree
from tests.waiting import pause


class Slow(SlowTree):
    """Reading `never` has no end; `begun` and `cancelled` count its readings."""

    begun = 0
    cancelled = 0

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        if path == ("never",):
            self.begun += 1
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if path in (("begun",), ("cancelled",)):
            return [Content(str(getattr(self, path[0])))]
        # Long enough for each progress to arrive by itself: what arrives together with the answer
        # is dropped by the TypeScript clients.
        await pause(0.02)
        return await super().read(path, query)


async def _main() -> None:
    tree = Slow(
        {"never": "", "begun": "", "cancelled": "", "many": {str(n): f"text {n}" for n in range(5)}}
    )
    catalog = Catalog([Mount("slow", "test://slow/", tree)])
    async with Server(catalog, timing=Timing(progress_interval_s=0.0)) as server:
        await server.catalog.start()
        if "--http" in sys.argv:
            await uvicorn_server.serve_http(
                server, Http(), uvicorn_server.Address("127.0.0.1", 0), started=_tell
            )
        else:
            await stdio.serve(server, *stdio.claim())


def _tell(address: uvicorn_server.Address) -> None:
    sys.stderr.write(f"serving at {address.url}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    asyncio.run(_main())
