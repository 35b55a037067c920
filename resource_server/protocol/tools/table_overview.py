"""The first look at a table: its columns, its number of rows, the first of them, how to go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from resource_server import uris
from resource_server.catalog.read_result import ReadItem, ReadResult, table_facts
from resource_server.protocol import content_blocks
from resource_server.protocol.call import Call
from resource_server.protocol.tools import builtin_schemas
from resource_server.protocol.tools.text_range import beginning, count_lines

ROWS = "~rows"
SCHEMA = "~schema"

_CHARACTERS = 3_600
"""Characters of an overview, without the header of its rows and what goes on."""
_MIN_ROOM = 400
"""Minimum characters of the rows, however many columns there are."""
_MAX_ROWS = 10
_CELL = 80
"""Maximum characters of a value; a longer one has the URI of the whole."""
_SHORTEST_CELL = 16

_encode = msgspec.json.Encoder().encode


async def table_overview(call: Call, reading: ReadResult) -> list[bytes] | None:
    """Return the content blocks of a table; None if a collection is none."""
    facts = None if reading.itself is None else table_facts(reading.itself.entry.resource)
    documents = {item.entry.resource.path[-1]: item for item in reading.items}
    schema = documents.get(SCHEMA)
    if facts is None or schema is None:
        return None
    limit = min(call.server.toolbox.settings.budget, _CHARACTERS)
    # Read anew: of a collection, only the beginnings may be read.
    whole = (await call.server.catalog.read(schema.entry.uri)).items[0].content
    columns = "" if whole is None else str(whole.data)
    shown = beginning(columns, limit * 2 // 3)
    notices: list[str] = []
    if len(shown) < len(columns):
        left = count_lines(columns) - count_lines(shown)
        notices.append(f"[Truncated: {left} more lines. Read on: {_json(uri=schema.entry.uri)}]")
    if (rows := documents.get(ROWS)) is not None:
        page = await _FirstRows(call, rows, max(_MIN_ROOM, limit - len(shown))).read()
        shown += f"\n{_count(facts, page)}\n\n{page.text}"
        notices += _notices(call, uris.readable(reading.collection or ""), facts, page)
    blocks = [content_blocks.text_block(shown)]
    return [*blocks, content_blocks.text_block("\n".join(notices))] if notices else blocks


class _FirstRows:
    """The first rows of a table as CSV, as many as there is room for."""

    def __init__(self, call: Call, document: ReadItem, room: int) -> None:
        self._catalog = call.server.catalog
        self._document = document.entry.uri
        self._room = room
        self.text = ""
        self.count: int | None = None
        """Number of rows, if more follow; None if the provider has shortened the page."""
        self.next: str | None = None
        """URI of the rows that follow."""
        self.has_more = False

    async def read(self) -> _FirstRows:
        """Read a page, then shorter ones until it fits."""
        count, cell = _MAX_ROWS, _CELL
        while True:
            await self._read(count, cell)
            if len(self.text) <= self._room or (count == 1 and cell == _SHORTEST_CELL):
                return self
            if count == 1:
                cell = _SHORTEST_CELL
            count = max(1, min(count - 1, count * self._room // len(self.text)))

    async def _read(self, count: int, cell: int) -> None:
        query = {"format": "csv", "limit": str(count), "cell": str(cell)}
        item = (await self._catalog.read(uris.with_query(self._document, query))).items[0]
        truncation = None if item.content is None else item.content.truncated
        self.text = "" if item.content is None else str(item.content.data)
        self.has_more = truncation is not None
        if truncation is not None:
            self.count = count if truncation.reason == "requested" else None
            following = (truncation.next or {}).get("after")
            query = {"format": "csv", "after": following or ""}
            self.next = uris.with_query(self._document, query) if following else None


def _count(facts: Mapping[str, Any], page: _FirstRows) -> str:
    """Return the number of rows in words, and how many are shown."""
    known = facts.get("rowCount")
    words = {"estimate": "About ", "atLeast": "At least "}.get(facts.get("rowCountKind", ""), "")
    number = "" if known is None else f"{words}{known:,} {'row' if known == 1 else 'rows'}"
    if not page.has_more:
        return f"{number or 'All rows'}:"
    first = "" if page.count is None else f" {page.count}"
    return f"{number or f'More than{first} rows'}, the first{first}:"


def _notices(call: Call, table: str, facts: Mapping[str, Any], page: _FirstRows) -> list[str]:
    """Return how to read on, one row, and others."""
    notices: list[str] = []
    if page.next is not None:
        notices.append(f"[Truncated. Read on: {_json(uri=page.next)}]")
    if facts["key"]:
        key = "/".join(f"{{{uris.quote_segment(name)}}}" for name in facts["key"])
        notices.append(f"[One row: {table}/{key}]")
    name = call.server.toolbox.settings.prefix + builtin_schemas.QUERY_TABLE
    notices.append(f"[Filter, sort, count, group: {name} {_json(uri=table, count=True)}]")
    return notices


def _json(**arguments: object) -> str:
    return _encode(arguments).decode()
