"""A protocol client for a source, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from resource_server.cli import console, runner, server_builder
from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.protocol.server import Server

Json: TypeAlias = dict[str, Any]
"""A JSON object, as received."""

ClientSession: TypeAlias = Callable[[LocalClient], Awaitable[int]]
"""Sends requests, prints the results, and returns the exit status."""


def run_with_client(source: str | None, session: ClientSession, *, allow_plugins: bool) -> int:
    """Connect a client to the server of `source`, and return the exit status of `session`.

    An error response is printed as one line on standard error, with exit status 1.

    Raises:
        ManifestError: the source cannot be served.
    """
    manifest = server_builder.load_manifest(source, allow_plugins=allow_plugins)
    return runner.run(
        _run_session(server_builder.build_server(manifest, allow_plugins=allow_plugins), session)
    )


async def _run_session(server: Server, session: ClientSession) -> int:
    async with server, LocalClient(server) as client:
        try:
            return await session(client)
        except ErrorReply as error:
            return console.fail(error_sentence(error))


def error_sentence(error: ErrorReply) -> str:
    """Return an error response in words, with its URI and what to read instead."""
    about: Json = error.data or {}
    text = error.message[:1].lower() + error.message[1:]
    if "uri" in about:
        text += f": {about['uri']}"
    if "next" in about:
        text += f" (readable from {about['next']})"
    return text


async def listing_pages(client: LocalClient, uri: str | None) -> AsyncIterator[Json]:
    """Yield the pages of a collection's listing; without a URI, of the global listing."""
    params = {} if uri is None else {"uri": uri}
    while True:
        page = await client.request("resources/list", params)
        yield page
        if "nextCursor" not in page:
            return
        params["cursor"] = page["nextCursor"]
