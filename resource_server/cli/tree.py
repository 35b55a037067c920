"""A listing on standard output: one line a resource, indented below its collection."""

from __future__ import annotations

from resource_server.cli import client, messages, output
from resource_server.cli.client import Json
from resource_server.protocol.in_process_client import LocalClient
from resource_server.protocol.serialization import META_UNAVAILABLE

MOST_SHOWN = 500
_MOST_COUNTED = 10_000


async def show(to: LocalClient, uri: str | None, *, everything: bool = False) -> int:
    """Print the children of a collection, or without a URI all that is listed.

    Beyond `MOST_SHOWN` lines it only says how many more there are. Returns the exit status: 1 where
    a mount is missing because it cannot serve now.
    """
    status = shown = more = 0
    above: list[str] = []
    async for page in client.pages(to, uri):
        status |= missing(page)
        for resource in page["resources"]:
            if everything or shown < MOST_SHOWN:
                shown += 1
                output.line(_line(resource, _depth(resource["uri"], above)))
            else:
                more += 1
        if more > _MOST_COUNTED:
            break
    if more:
        count = f"more than {_MOST_COUNTED:,}" if more > _MOST_COUNTED else f"{more:,}"
        messages.note(f"{count} more; --all prints them")
    return status


def missing(page: Json) -> int:
    """Return the exit status that a page of a listing leads to."""
    return 1 if page.get("_meta", {}).get(META_UNAVAILABLE) else 0


def _depth(uri: str, above: list[str]) -> int:
    """Return in how many collections of this listing a resource lies; `above` are the last ones."""
    while above and not uri.startswith(above[-1]):
        above.pop()
    above.append(uri if uri.endswith("/") else f"{uri}/")
    return len(above) - 1


def _line(resource: Json, depth: int) -> str:
    size = _size(resource.get("size"))
    # What lies in nothing else shows its URI: with it begin the URIs of all below.
    name = messages.shown(resource["name"] if depth else resource["uri"])
    if resource["resourceType"] == "collection":
        name = output.emphasised(name if name.endswith("/") else f"{name}/")
    title = f"  {output.faint(messages.shown(resource['title']))}" if "title" in resource else ""
    return f"{output.faint(size)}  {'  ' * depth}{name}{title}"


def _size(count: int | None) -> str:
    """Return a number of bytes in a column: short for people, all its digits for programs."""
    people = output.is_terminal()
    text = "" if count is None else output.abbreviated(count) if people else str(count)
    return text.rjust(5 if people else 10)
