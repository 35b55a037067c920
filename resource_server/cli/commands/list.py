"""`resource-server list`: prints resources as a tree, or the children of one collection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from resource_server.cli import (
    console,
    log_output,
    source_arguments,
    source_client,
    terminal_text,
)
from resource_server.cli.source_client import Json
from resource_server.protocol.in_process_client import LocalClient
from resource_server.protocol.serialization import META_TRUNCATED, META_UNAVAILABLE
from resource_server.provider.skills import SKILL_FILE

MAX_LINES = 500
_MAX_COUNTED = 10_000


@click.command("list", short_help="List resources as a tree.")
@click.argument(
    "words",
    nargs=-1,
    metavar="[SOURCE]... [URI]",
    shell_complete=source_arguments.complete_addresses,
)
@click.option("--all", "everything", is_flag=True, help=f"Print more than {MAX_LINES} lines.")
@click.option("--uris", "as_uris", is_flag=True, help="Print URIs only, one on each line.")
@source_arguments.json_option
@source_arguments.common_options
def command(
    words: Sequence[str],
    *,
    everything: bool,
    as_uris: bool,
    as_json: bool,
    no_plugins: bool,
    verbose: int,
) -> int:
    """List the resources of each SOURCE as a tree, or the direct children of the collection URI.

    URI may be a path in a SOURCE.

    With --json, print every resource as a client sees it, with --uris its URI, one per line and
    without a limit.
    """
    if as_uris and as_json:
        raise console.usage_error("--uris or --json, not both")
    log_output.log_to_stderr(verbose)
    given = source_arguments.with_addresses(words, several=False)

    async def listing(to: LocalClient, found: Sequence[str]) -> int:
        uri = found[0] if found else None
        if as_json:
            return await _print_pages(to, uri, lambda page: console.print_json(*page))
        if as_uris:
            return await _print_pages(to, uri, _print_uris)
        return await print_tree(to, uri, everything=everything)

    return source_client.run_with_client(given, listing, allow_plugins=not no_plugins)


async def _print_pages(
    to: LocalClient, uri: str | None, print_page: Callable[[Sequence[Json]], None]
) -> int:
    status = 0
    async for page in source_client.listing_pages(to, uri):
        print_page(page["resources"])
        _report_bounds(page)
        status |= exit_status(page)
    return status


def _print_uris(resources: Sequence[Json]) -> None:
    for resource in resources:
        console.print_line(resource["uri"])


def _report_bounds(page: Json) -> None:
    """Report that the listing ends before its last resource, if this page says so."""
    if META_TRUNCATED in page.get("_meta", {}):
        console.note("more than the listing has is below its collections; list one by its URI")


async def print_tree(to: LocalClient, uri: str | None, *, everything: bool = False) -> int:
    """Print the children of a collection; without a URI, the global listing as a tree.

    Past `MAX_LINES` lines, only the number of further resources is printed. Returns exit status 1
    if a mount is unavailable.
    """
    status = 0
    resources: list[Json] = []
    page: Json = {}
    with console.progress("listing", after_s=source_arguments.current_timing().progress_s):
        async for page in source_client.listing_pages(to, uri):
            status |= exit_status(page)
            resources += page["resources"]
            if uri is not None and len(resources) > MAX_LINES + _MAX_COUNTED and not everything:
                break
    above: list[str] = []
    shown = len(resources) if everything else MAX_LINES
    for resource in (_as_tree(resources) if uri is None else resources)[:shown]:
        console.print_line(_line(resource, _depth(resource["uri"], above)))
    if more := len(resources[shown:]):
        count = f"more than {_MAX_COUNTED:,}" if more > _MAX_COUNTED else f"{more:,}"
        console.note(f"{count} more; --all prints them")
    _report_bounds(page)
    return status


def _as_tree(resources: Sequence[Json]) -> Sequence[Json]:
    """Return a global listing depth first, each collection before its children."""
    below: dict[str, list[Json]] = {"": []}
    for resource in resources:
        place = resource["uri"].rstrip("/")
        above = place.rpartition("/")[0]
        while above and above not in below:
            above = above.rpartition("/")[0]
        below[above].append(resource)
        if resource["resourceType"] == "collection":
            below.setdefault(place, [])
    ordered: list[Json] = []
    waiting = below[""][::-1]
    while waiting:
        resource = waiting.pop()
        ordered.append(resource)
        waiting += reversed(below.get(resource["uri"].rstrip("/"), ()))
    return ordered


def exit_status(page: Json) -> int:
    """Return the exit status for a page of a listing: 1 if a mount is unavailable."""
    return 1 if page.get("_meta", {}).get(META_UNAVAILABLE) else 0


def _depth(uri: str, above: list[str]) -> int:
    """Return the depth of a resource in the listing; `above` holds the collections around it."""
    while above and not uri.startswith(above[-1]):
        above.pop()
    above.append(uri if uri.endswith("/") else f"{uri}/")
    return len(above) - 1


def _line(resource: Json, depth: int) -> str:
    size = _size(resource.get("size"))
    # A top-level resource shows its URI, the prefix of all URIs below it.
    name = console.escaped(resource["name"] if depth else resource["uri"])
    if resource["uri"].endswith(f"/{SKILL_FILE}"):
        name = SKILL_FILE  # its name is that of the skill, which the line above shows
    if resource["resourceType"] == "collection":
        name = name if name.endswith("/") else f"{name}/"
    # A URI is for copying, and stays whole.
    if (room := console.terminal_columns() - len(size) - 2 * depth - 2) > 0 and depth:
        name = terminal_text.clipped(name, room)
    is_collection = resource["resourceType"] == "collection"
    styled = console.emphasised(name) if is_collection else name
    title = console.escaped(resource.get("title", ""))
    if room > 0:
        title = terminal_text.clipped(title, room - terminal_text.columns(name) - 2)
    title = f"  {console.faint(title)}" if title else ""
    return f"{console.faint(size)}  {'  ' * depth}{styled}{title}"


def _size(count: int | None) -> str:
    """Return a size as a column: short for a terminal, in full for a pipe."""
    people = console.is_terminal()
    text = "" if count is None else console.short_size(count) if people else str(count)
    return text.rjust(5 if people else 10)
