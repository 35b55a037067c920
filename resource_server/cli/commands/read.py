"""`resource-server read`: prints the content of a resource."""

from __future__ import annotations

from collections.abc import Sequence

import click

from resource_server.cli import addresses, console, log_output, source_arguments, source_client
from resource_server.cli.commands.list import print_tree
from resource_server.cli.source_client import Json
from resource_server.protocol.in_process_client import LocalClient
from resource_server.protocol.serialization import META_TRUNCATED


@click.command("read", short_help="Print the content of a resource.")
@source_arguments.addresses_argument("[SOURCE]... URI")
@source_arguments.json_option
@source_arguments.common_options
def command(words: Sequence[str], as_json: bool, no_plugins: bool, verbose: int) -> int:
    """Print the content of the resource URI, which may be a path in a SOURCE.

    A pipe or file gets text as UTF-8 and everything else as bytes. A range is part of the URI:
    ?lines=10-40, ?bytes=0-65535, ?tail=100. For a collection, its children are listed. With
    --json, print the result as a client sees it.
    """
    log_output.log_to_stderr(verbose)
    given = addresses.with_one_address(words)

    async def reading(to: LocalClient, found: Sequence[str]) -> int:
        (uri,) = found
        after_s = source_arguments.current_timing().progress_s

        async def request(method: str) -> Json:
            with console.progress("reading", after_s=after_s):
                return await to.request(method, {"uri": uri})

        if as_json:
            console.print_json(await request("resources/read"))
            return 0
        described = await request("resources/metadata")
        if described["resource"]["resourceType"] == "collection":
            console.note(f"this is a collection; its children: {uri}")
            return await print_tree(to, uri)
        result = await request("resources/read")
        return _print(result["contents"][0])

    return source_client.run_with_client(given, reading, allow_plugins=not no_plugins)


def _print(content: Json) -> int:
    if "text" in content:
        console.write_text(content["text"])
    elif console.is_terminal():
        kind = content.get("mimeType", "binary")
        return console.fail(f"{kind} cannot be shown in a terminal; use > FILE: {content['uri']}")
    else:
        # Imported here: most documents are text.
        import pybase64

        console.write_bytes(pybase64.b64decode(content["blob"]))
    cut = content["_meta"].get(META_TRUNCATED)
    if cut is not None and ("next" in cut or cut["reason"] != "requested"):
        console.note(_cut(cut))
    return 0


def _cut(cut: Json) -> str:
    """Return a message that there is more of the document, and how to read on."""
    total = f", {cut['total']:,} {cut['unit']} in all" if "total" in cut else ""
    rest = f"; continue with {cut['next']}" if "next" in cut else ""
    return f"{_REASONS[cut['reason']]}{total}{rest}"


_REASONS = {
    "requested": "more follows",
    "limit": "truncated by a limit",
    "deadline": "truncated by the time limit",
}
