"""`resource-server metadata`: prints the metadata of a resource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
import msgspec

from resource_server.cli import addresses, console, log_output, source_arguments, source_client
from resource_server.cli.source_client import Json
from resource_server.protocol import serialization
from resource_server.protocol.in_process_client import LocalClient


@click.command("metadata", short_help="Print the metadata of a resource.")
@source_arguments.addresses_argument("[SOURCE]... URI")
@source_arguments.json_option
@source_arguments.common_options
def command(words: Sequence[str], as_json: bool, no_plugins: bool, verbose: int) -> int:
    """Print the metadata of the resource URI, which may be a path in a SOURCE, without its content.

    With --json, print it as a client sees it.
    """
    log_output.log_to_stderr(verbose)
    given = addresses.with_one_address(words)

    async def asking(to: LocalClient, found: Sequence[str]) -> int:
        (uri,) = found
        resource = (await to.request("resources/metadata", {"uri": uri}))["resource"]
        if as_json:
            console.print_json(resource)
        else:
            console.print_fields(_facts(resource))
        return 0

    return source_client.run_with_client(given, asking, allow_plugins=not no_plugins)


def _facts(resource: Json) -> Iterator[tuple[str, str]]:
    annotations: Json = resource.get("annotations", {})
    meta: Json = resource["_meta"]
    yield "uri", resource["uri"]
    yield "type", resource["resourceType"]
    yield "name", resource["name"]
    yield "title", resource.get("title", "")
    yield "description", resource.get("description", "")
    yield "media type", resource.get("mimeType", "")
    if "size" in resource:
        yield "size", f"{resource['size']:,} bytes"
    yield "modified", annotations.get("lastModified", "")
    yield "audience", ", ".join(annotations.get("audience", ()))
    if "priority" in annotations:
        yield "priority", f"{annotations['priority']:g}"
    yield "version", meta.get(serialization.META_VERSION, "")
    for format in meta.get(serialization.META_FORMATS, ()):
        yield "format", f"{format['name']}, {format['mimeType']}: {format['uri']}"
    for name, value in meta.get(serialization.META_DETAILS, {}).items():
        yield name, value if isinstance(value, str) else msgspec.json.encode(value).decode()
