"""`resource-server list`: the tree that clients see, or the children of one collection."""

from __future__ import annotations

from collections.abc import Sequence

import click

from resource_server.cli import arguments, client, messages, output, tree
from resource_server.protocol.in_process_client import LocalClient


@click.command("list", short_help="List resources as a tree.")
@click.argument("words", nargs=-1, metavar="[SOURCE] [URI]")
@click.option("--all", "everything", is_flag=True, help=f"Print more than {tree.MOST_SHOWN} lines.")
@arguments.as_json
@arguments.shared
def command(
    words: Sequence[str], everything: bool, as_json: bool, no_plugins: bool, verbose: int
) -> int:
    """List the resources of SOURCE as a tree, or the direct children of the collection URI.

    With --json every resource as a client sees it, one a line, however many there are.
    """
    messages.log_to_stderr(verbose)
    source, uris = arguments.source_and_uris(words)
    uri = arguments.at_most_one(uris)

    async def listing(to: LocalClient) -> int:
        if as_json:
            return await _print_json(to, uri)
        return await tree.show(to, uri, everything=everything)

    return client.ask(source, listing, allow_plugins=not no_plugins)


async def _print_json(to: LocalClient, uri: str | None) -> int:
    status = 0
    async for page in client.pages(to, uri):
        output.json(*page["resources"])
        status |= tree.missing(page)
    return status
