"""Declared queries as tools: parameters are their arguments, rows their result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from resource_server.errors import ResourceNotFound
from resource_server.provider.tools import Schema, TextBlock, Tool, ToolResult
from resource_server.providers.database.queries.declared import DeclaredQueries
from resource_server.providers.database.reading.documents import Documents

RESULT: Schema = {
    "type": "object",
    "properties": {
        "columns": {"type": "array", "items": {"type": "string"}},
        "rows": {"type": "array", "items": {"type": "array"}},
        "truncated": {"type": "boolean"},
    },
    "required": ["columns", "rows", "truncated"],
    "additionalProperties": False,
}
"""The structured result of each query; `truncated` says that there are more rows."""


class QueryTools:
    """The queries of one database that models may call."""

    def __init__(self, queries: DeclaredQueries, documents: Documents) -> None:
        self._documents = documents
        self._tools = {
            name: replace(tool, output_schema=RESULT)
            for name in queries
            if (tool := queries.get(name).tool) is not None
        }

    def tools(self) -> Sequence[Tool]:
        """Return one for each query, in the order of the manifest."""
        return list(self._tools.values())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the rows of a query, as data and as a Markdown table.

        Raises:
            ResourceNotFound: there is no such tool.
            InvalidParameter: names every argument that cannot be used.
        """
        if name not in self._tools:
            raise ResourceNotFound
        table = await self._documents.query_table(name, arguments)
        structured = {"columns": table.columns, "rows": table.rows, "truncated": table.more}
        return ToolResult([TextBlock(table.markdown)], structured)
