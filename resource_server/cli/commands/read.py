"""`resource-server read`: the content of one resource, to a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Sequence

import click

from resource_server.cli import console, log_output, source_arguments, source_client
from resource_server.cli.commands.list import print_tree
from resource_server.cli.source_client import Json
from resource_server.protocol.in_process_client import LocalClient
from resource_server.protocol.serialization import META_TRUNCATED


@click.command("read", short_help="Print the content of a resource.")
@click.argument("words", nargs=-1, metavar="[SOURCE] URI")
@source_arguments.json_option
@source_arguments.common_options
def command(words: Sequence[str], as_json: bool, no_plugins: bool, verbose: int) -> int:
    """Print the resource URI of SOURCE.

    Into a pipe or file, text is UTF-8 and anything else its bytes. A range is part of the URI:
    ?lines=10-40, ?bytes=0-65535, ?tail=100. Of a collection the children are listed. With --json
    the result is printed as a client sees it.
    """
    log_output.log_to_stderr(verbose)
    source, uris = source_arguments.split_source_and_uris(words)
    uri = source_arguments.exactly_one_uri(uris)

    async def reading(to: LocalClient) -> int:
        if as_json:
            console.print_json(await to.request("resources/read", {"uri": uri}))
            return 0
        described = await to.request("resources/metadata", {"uri": uri})
        if described["resource"]["resourceType"] == "collection":
            console.note(f"a collection; its children: {uri}")
            return await print_tree(to, uri)
        result = await to.request("resources/read", {"uri": uri})
        return _print(result["contents"][0])

    return source_client.run_with_client(source, reading, allow_plugins=not no_plugins)


def _print(content: Json) -> int:
    if "text" in content:
        console.write_text(content["text"])
    elif console.is_terminal():
        kind = content.get("mimeType", "binary")
        return console.fail(
            f"{kind} is nothing for a terminal; write it to a file with > FILE: {content['uri']}"
        )
    else:
        # Imported here: most of what is read on a command line is text.
        import pybase64

        console.write_bytes(pybase64.b64decode(content["blob"]))
    cut = content["_meta"].get(META_TRUNCATED)
    if cut is not None and ("next" in cut or cut["reason"] != "requested"):
        console.note(_cut(cut))
    return 0


def _cut(cut: Json) -> str:
    """Say that this was not the whole document, and what to read next."""
    total = f" of {cut['total']:,} {cut['unit']}" if "total" in cut else ""
    going_on = f"; goes on at {cut['next']}" if "next" in cut else ""
    return f"a part{total}, cut by {_REASONS[cut['reason']]}{going_on}"


_REASONS = {"requested": "the range", "limit": "a limit", "deadline": "the time limit"}
