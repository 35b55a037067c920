"""A protocol client for sources, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from resource_server.cli import addresses, console, runner, source_arguments
from resource_server.cli.addresses import SourceArguments
from resource_server.errors import ManifestError
from resource_server.manifest import Manifest
from resource_server.protocol.in_process_client import ErrorReply, LocalClient, error_in_words
from resource_server.protocol.server import Server
from resource_server.serving import server_builder

_MISTAKES_S = 2.0
"""How long a command waits at its end to tell of mistakes in the manifest."""

Json: TypeAlias = dict[str, Any]
"""A JSON object, as received."""

ClientSession: TypeAlias = Callable[[LocalClient, list[str]], Awaitable[int]]
"""Sends requests about the URIs, prints the results, and returns the exit status."""


def run_with_client(given: SourceArguments, session: ClientSession, *, allow_plugins: bool) -> int:
    """Connect a client to the server of the sources, and return the exit status of `session`.

    An error response is printed as one line on standard error, with exit status 1.

    Raises:
        ManifestError: the sources cannot be served.
        click.UsageError: an address is unusable.
    """
    manifest = server_builder.load_manifest(*given.sources, allow_plugins=allow_plugins)
    timing = source_arguments.current_timing()
    server = server_builder.build_server(manifest, allow_plugins=allow_plugins, timing=timing)
    return runner.run(_run_session(server, manifest, given.addresses, session))


async def _run_session(
    server: Server, manifest: Manifest, given: Sequence[str], session: ClientSession
) -> int:
    async with server, LocalClient(server) as client:
        found = [await addresses.resolved(client, manifest, word) for word in given]
        try:
            return await session(client, found)
        except ErrorReply as error:
            return console.fail(await error_in_words(server, error))
        finally:
            await server.catalog.wait_for_mistakes(_MISTAKES_S)


def report_mistakes(sources: Sequence[str]) -> Manifest | None:
    """Log what is wrong with sources or cannot start; return their manifest unless it is wrong."""
    try:
        manifest = server_builder.load_manifest(*sources, allow_plugins=True)
    except ManifestError as error:
        console.fail(*map(str, error.diagnostics), prefix=False)
        return None
    server = server_builder.build_server(manifest, allow_plugins=True)

    async def start() -> int:
        async with server:
            await server.catalog.start()
            await server.catalog.wait_for_mistakes(_MISTAKES_S)
        return 0

    runner.run(start())
    return manifest


async def listing_pages(client: LocalClient, uri: str | None) -> AsyncIterator[Json]:
    """Yield the pages of a collection's listing; without a URI, of the global listing."""
    params = {} if uri is None else {"uri": uri}
    while True:
        page = await client.request("resources/list", params)
        yield page
        if "nextCursor" not in page:
            return
        params["cursor"] = page["nextCursor"]
