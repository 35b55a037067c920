"""Asks a source as any client would: through the protocol, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from resource_server.cli import console, runner, server_builder
from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.protocol.server import Server

Json: TypeAlias = dict[str, Any]
"""An object of the protocol, as it was received."""

Question: TypeAlias = Callable[[LocalClient], Awaitable[int]]
"""Talks to a server, prints what it learns, and returns the exit status."""


def run_with_client(source: str | None, question: Question, *, allow_plugins: bool) -> int:
    """Let `question` talk to the server of `source`.

    An error that the server answers with is one line on standard error and exit status 1.

    Raises:
        ManifestError: the source cannot be served.
    """
    manifest = server_builder.load_manifest(source, allow_plugins=allow_plugins)
    return runner.run(
        _asked(server_builder.build_server(manifest, allow_plugins=allow_plugins), question)
    )


async def _asked(server: Server, question: Question) -> int:
    async with server, LocalClient(server) as client:
        try:
            return await question(client)
        except ErrorReply as error:
            return console.fail(error_sentence(error))


def error_sentence(error: ErrorReply) -> str:
    """Return what the server says, the URI it is about, and what can be read instead."""
    about: Json = error.data or {}
    text = error.message[:1].lower() + error.message[1:]
    if "uri" in about:
        text += f": {about['uri']}"
    if "next" in about:
        text += f" (its beginning: {about['next']})"
    return text


async def listing_pages(client: LocalClient, uri: str | None) -> AsyncIterator[Json]:
    """Yield the results of `resources/list`, page by page; without a URI of all that is listed."""
    asked = {} if uri is None else {"uri": uri}
    while True:
        page = await client.request("resources/list", asked)
        yield page
        if "nextCursor" not in page:
            return
        asked["cursor"] = page["nextCursor"]
