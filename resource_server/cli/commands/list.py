"""`resource-server list`: prints resources as a tree, or the children of one collection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from resource_server import uris
from resource_server.cli import addresses, console, log_output, source_arguments, source_client
from resource_server.cli.source_client import Json
from resource_server.protocol.in_process_client import LocalClient
from resource_server.protocol.serialization import META_TRUNCATED, META_UNAVAILABLE
from resource_server.runtime.option_types import short_size

MAX_LINES = 500
_MAX_COUNTED = 10_000
_LINES_BELOW = 3
"""Lines of a screen for the notes after the list, and the prompt."""


@click.command("list", short_help="List resources as a tree.")
@source_arguments.addresses_argument("[SOURCE]... [URI]")
@click.option(
    "--all", "everything", is_flag=True, help="Print every line, not only the first screen."
)
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

    URI may be a path in a SOURCE. A terminal gets one screen: the top of each SOURCE, with the
    number of resources inside what is not opened.

    With --json, print every resource as a client sees it, with --uris its URI, one per line and
    without a limit.
    """
    if as_uris and as_json:
        raise console.usage_error("--uris or --json, not both")
    log_output.log_to_stderr(verbose)
    given = addresses.with_addresses(words, several=False)

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
    """Report a listing that is truncated."""
    if _is_bounded(page):
        console.note("more than the listing has is below its collections; list one by its URI")


def _is_bounded(page: Json) -> bool:
    """Return whether a listing is truncated, by its last page."""
    return META_TRUNCATED in page.get("_meta", {})


async def print_tree(to: LocalClient, uri: str | None, *, everything: bool = False) -> int:
    """Print the children of a collection; without a URI, the global listing as a tree.

    On a terminal, at most a screen is printed, with the number of resources that are left out in
    each collection; elsewhere `MAX_LINES` lines. Returns exit status 1 if a mount is unavailable.
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
    room = len(resources) if everything else console.terminal_lines() - _LINES_BELOW
    if uri is not None:
        lines = [_TreeLine(each, 0) for each in resources[: room if room > 0 else MAX_LINES]]
    elif room > 0:
        lines = _Tree(resources).top(room)
    else:
        lines = _Tree(resources).top(len(resources))[:MAX_LINES]
    for line in lines:
        console.print_line(_printed(line, is_whole=not _is_bounded(page)))
    if more := len(resources) - len(lines):
        count = f"more than {_MAX_COUNTED:,}" if more > _MAX_COUNTED else f"{more:,}"
        console.note(f"{count} more; --all prints them")
    _report_bounds(page)
    return status


class _TreeLine(NamedTuple):
    resource: Json
    hidden: int
    """Resources below it that are not printed."""


class _Tree:
    """A global listing as a tree."""

    def __init__(self, resources: Sequence[Json]) -> None:
        self._below: dict[str, list[Json]] = {"": []}
        for resource in resources:
            place = _place(resource)
            above = place.rpartition("/")[0]
            while above and above not in self._below:
                above = above.rpartition("/")[0]
            self._below[above].append(resource)
            if resource["resourceType"] == "collection":
                self._below.setdefault(place, [])

    def top(self, room: int) -> Sequence[_TreeLine]:
        """Return at most `room` lines, depth first: whole collections, the upper ones first.

        Where no collection fits whole, the first has its beginning.
        """
        shown = self._below[""][:room]
        waiting, chosen = deque(shown), {"": shown}
        left = room - len(shown)
        while waiting:
            place = _place(waiting.popleft())
            inside = self._below.get(place, [])
            if len(inside) > left and len(chosen) > 1:
                continue
            chosen[place] = inside[:left]
            left -= len(chosen[place])
            waiting += chosen[place]
        return list(self._lines("", chosen))

    def _lines(self, place: str, chosen: Mapping[str, Sequence[Json]]) -> Iterator[_TreeLine]:
        waiting = list(reversed(chosen[place]))
        while waiting:
            resource = waiting.pop()
            place = _place(resource)
            inside = chosen.get(place, ())
            unshown = self._below.get(place, [])[len(inside) :]
            yield _TreeLine(resource, sum(1 + self._count(_place(each)) for each in unshown))
            waiting += reversed(inside)

    def _count(self, place: str) -> int:
        count, waiting = 0, [place]
        while waiting:
            inside = self._below.get(waiting.pop(), ())
            count += len(inside)
            waiting += map(_place, inside)
        return count


def _place(resource: Json) -> str:
    return resource["uri"].rstrip("/")


def exit_status(page: Json) -> int:
    """Return the exit status for a page of a listing: 1 if a mount is unavailable."""
    return 1 if page.get("_meta", {}).get(META_UNAVAILABLE) else 0


def _printed(line: _TreeLine, *, is_whole: bool) -> str:
    resource = line.resource
    # An address is for copying, and stays whole.
    address = uris.readable(resource["uri"])
    is_collection = resource["resourceType"] == "collection"
    if is_collection and not address.endswith("/"):
        address += "/"
    least = "" if is_whole else "at least "
    count = f"{least}{line.hidden:,} inside" if line.hidden else ""
    words = "  ".join(filter(None, (count, console.escaped(resource.get("title", "")))))
    size = _size(resource.get("size"))
    if columns := console.terminal_columns():
        room = columns - console.columns(size) - console.columns(address) - 4
        words = console.clipped(words, max(room, len(count)))
    styled = console.emphasised(address) if is_collection else address
    return f"{console.faint(size)}  {styled}" + (f"  {console.faint(words)}" if words else "")


def _size(count: int | None) -> str:
    """Return a size as a column: short for a terminal, in full for a pipe."""
    people = console.is_terminal()
    text = "" if count is None else short_size(count) if people else str(count)
    return text.rjust(5 if people else 10)
