"""`list_resources`: a page of what there is, as a table."""

from __future__ import annotations

import msgspec

from resource_server.protocol import content_blocks, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.tools import results, table

_encode = msgspec.json.Encoder().encode


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Its arguments."""

    uri: str | None = None
    cursor: str | None = None


async def list_resources(call: Call, asked: Asked) -> Result:
    """List everything, or the children of one collection."""
    # An empty text is how some models leave out what they may.
    uri, after = asked.uri or None, asked.cursor or None
    page = await call.server.catalog.list(uri, after, call.progress)
    entries = [each for each in page.entries if serialization.each(serialization.resource, [each])]
    words = [table.of(entries) if entries else "Nothing is listed here."]
    structured = b'"resources":[' + b",".join(map(serialization.resource, entries)) + b"]"
    if page.next_cursor is not None:
        words.append(f"There is more: call again with cursor={page.next_cursor}")
        structured += b',"nextCursor":' + _encode(page.next_cursor)
    if page.unavailable:
        words.append(f"Not available now: {', '.join(page.unavailable)}")
        structured += b',"unavailable":' + _encode(page.unavailable)
    return results.result(call, [content_blocks.text("\n\n".join(words))], b"{%b}" % structured)
