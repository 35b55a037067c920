"""`search_resources`: what was found, with the lines that match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from resource_server import uris
from resource_server.catalog.federated_search import SearchHit, SearchResults
from resource_server.protocol import content_blocks, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.tools import results
from resource_server.provider.search import Where

_PLACES: dict[Where, str] = {"names": "by name", "text": "in text"}

_encode = msgspec.json.Encoder().encode


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Its arguments."""

    query: str
    uri: str | None = None
    where: Literal["names", "text"] | None = msgspec.field(default=None, name="in")
    cursor: str | None = None


async def search_resources(call: Call, asked: Asked) -> Result:
    """Find resources by their names or by what is in them."""
    page = await call.server.catalog.search(
        asked.query,
        uri=asked.uri or None,
        where=asked.where or None,
        after=asked.cursor or None,
        progress=call.progress,
    )
    hits = [each for each in page.hits if serialization.each(serialization.resource, [each.entry])]
    content = [content_blocks.text(_words(hits, page))]
    if call.revision.titles:
        # What is found by its name and in its text is two hits, and one resource.
        found_once = {hit.entry.uri: hit.entry for hit in hits}.values()
        content += [content_blocks.link(entry, call.revision) for entry in found_once]
    facts: dict[str, Any] = {"stopped": page.stopped, "lookedAt": page.looked_at}
    if page.total is not None:
        facts["total"] = page.total
    if page.next_cursor is not None:
        facts["nextCursor"] = page.next_cursor
    if page.unavailable:
        facts["unavailable"] = page.unavailable
    found = b'{"hits":[' + b",".join(map(_hit, hits)) + b"]," + _encode(facts)[1:]
    return results.result(call, content, found)


def _hit(hit: SearchHit) -> bytes:
    found = b'{"resource":' + serialization.resource(hit.entry)
    if hit.lines:
        lines = [{"number": each.number, "text": uris.display(each.text)} for each in hit.lines]
        found += b',"lines":' + _encode(lines)
    return found + b"}"


def _words(hits: Sequence[SearchHit], page: SearchResults) -> str:
    """Return each URI with its matching lines, and what was not searched."""
    words: list[str] = []
    for hit in hits:
        words.append(hit.entry.uri)
        words += [f"  {line.number}: {uris.display(line.text)}" for line in hit.lines]
    if not hits:
        words.append("Nothing was found." if page.next_cursor is None else "Nothing yet.")
    if page.stopped:
        of = "" if page.total is None else f" of {page.total}"
        words.append(f"Stopped after {page.looked_at}{of} resources {_PLACES[page.where]}.")
    if page.next_cursor is not None:
        words.append(f"There may be more: call again with cursor={page.next_cursor}")
    if page.unavailable:
        words.append(f"Could not be searched: {', '.join(page.unavailable)}")
    return "\n".join(words)
