"""Definitions of the built-in tools: few, so that they cost a model few tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from resource_server.provider.tools import Tool
from resource_server.search.text_match import has_expressions

LIST = "list_resources"
READ = "read_resource"
METADATA = "resource_metadata"
SEARCH = "search_resources"
QUERY_TABLE = "query_table"

_Json = dict[str, Any]
_TEXT: _Json = {"type": "string"}
_NUMBER: _Json = {"type": "integer"}
_FLAG: _Json = {"type": "boolean"}
_CURSOR: _Json = {**_TEXT, "description": "From the previous page"}
_RESOURCE: _Json = {
    "type": "object",
    "properties": {"uri": _TEXT, "type": _TEXT},
    "required": ["uri", "type"],
}


def _object(required: tuple[str, ...] = (), **properties: _Json) -> _Json:
    schema: _Json = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False}


def _list(items: _Json) -> _Json:
    return {"type": "array", "items": items}


_RANGES: Mapping[str, _Json] = {
    "lines": {**_TEXT, "description": "10-40 or 500-"},
    "tail": {**_NUMBER, "minimum": 1, "description": "Last lines"},
    "bytes": {**_TEXT, "description": "0-999"},
    "number": {**_FLAG, "description": "Number the lines"},
}
_PARTS: Mapping[str, tuple[Set[str], _Json]] = {
    "format": (
        {"format"},
        {**_TEXT, "description": "csv (shortest), markdown, json, text, png"},
    ),
    "pages": ({"pages"}, {**_TEXT, "description": "Of a PDF or slides: 3-7"}),
    "rows": ({"limit", "rows"}, {**_TEXT, "description": "100 or 5-10"}),
}
"""Arguments, each with the URI parameters of the same meaning."""


def read_tool(parameters: Set[str]) -> Tool:
    """Return the definition of `read_resource`, with the arguments that served resources take.

    `parameters` are URI parameters that providers declare; ranges are cut from any text.
    """
    parts = {
        argument: schema
        for argument, (names, schema) in _PARTS.items()
        if not names.isdisjoint(parameters)
    }
    tables = (
        " A table is read as its columns and first rows; all rows are at …/~rows "
        "(…/~rows?columns=a,b)."
        if "limit" in parameters
        else ""
    )
    return Tool(
        name=READ,
        title="Read a resource",
        description="Read a document, whole or in part, or all documents of a collection. A long "
        f"result ends with the arguments to read on.{tables}",
        input_schema=_object(("uri",), uri=_TEXT, **_RANGES, **parts),
    )


TOOLS = (
    # The first tool needs no arguments, so a model that simply tries it succeeds.
    Tool(
        name=LIST,
        title="List resources",
        description="List files, tables and queries: paths below `base`, collections (…/) first, "
        "with bytes. The URI of each is base + path. Without arguments: the top. Begin here.",
        input_schema=_object(
            uri={**_TEXT, "description": "A collection"},
            depth={**_NUMBER, "minimum": 1, "maximum": 5, "description": "Levels; default 1"},
            pattern={
                **_TEXT,
                "description": "Only these names, at any depth: main.py, *.py, docs/**/*.md",
            },
            cursor=_CURSOR,
        ),
        output_schema=_object(
            ("base", "items"),
            base=_TEXT,
            items={"type": "array", "description": "path, or [path, bytes]"},
            next=_TEXT,
            unavailable=_list(_TEXT),
        ),
    ),
    Tool(
        name=METADATA,
        title="Describe a resource",
        description="A resource without its content: type, size, media type, last change, "
        "other formats.",
        input_schema=_object(("uri",), uri=_TEXT),
        output_schema=_object(("resource",), resource=_RESOURCE),
    ),
)
"""Those that are always alike: the first one, and those after `read_resource`."""


_SEARCH_NOTICES: Mapping[str, _Json] = {
    "atLeast": _FLAG,
    "stopped": _FLAG,
    "lookedAt": _NUMBER,
    "total": _NUMBER,
    "unsearched": {"type": "array", "description": "{uri?, why, count?}"},
    "unsearchedCount": _NUMBER,
    "notes": _list(_TEXT),
}


def search_tool(*, has_expressions: bool) -> Tool:
    """Return the definition of `search_resources`; it offers expressions only if they work."""
    expression = " /…/ is a regular expression (RE2) over lines." if has_expressions else ""
    return Tool(
        name=SEARCH,
        title="Search resources",
        description="Find names, and lines of text with their numbers and counts. "
        'Several words: all of them first, then most; "in quotes": a phrase. '
        f"* and ? are wildcards in names.{expression}",
        input_schema=_object(
            ("query",),
            query={**_TEXT, "minLength": 1},
            uri={**_TEXT, "description": "Only at or below this"},
            **{"in": {**_TEXT, "enum": ["names", "text"], "description": "Default: both"}},
            files={**_TEXT, "description": "Glob over paths: *.py, src/**/*.{js,ts}, !tests/**"},
            context={**_NUMBER, "minimum": 0, "maximum": 5, "description": "Lines around each"},
            case={**_FLAG, "description": "Match case"},
            limit={
                **_NUMBER,
                "minimum": 1,
                "maximum": 1000,
                "description": "Default 100; 300 without lines",
            },
            show={
                **_TEXT,
                "enum": ["lines", "files", "counts"],
                "description": "files: paths only; counts: paths and how many lines match",
            },
            cursor=_CURSOR,
        ),
        output_schema=_object(
            ("matches", "shown", "complete"),
            matches=_NUMBER,
            shown=_NUMBER,
            complete=_FLAG,
            base=_TEXT,
            files={
                "type": "array",
                "description": "{path, matches?, lines?: [[number, text], …], next?} or path",
            },
            counts={"type": "object"},
            next=_TEXT,
            **_SEARCH_NOTICES,
        ),
    )


QUERY_TABLE_TOOL = Tool(
    name=QUERY_TABLE,
    title="Query a table",
    description="Rows of a table that match `where`, sorted; or their count; or groups by columns, "
    "with aggregates (sort: -sum.total). Several names: a,b.",
    input_schema=_object(
        ("uri",),
        uri=_TEXT,
        where={
            "type": "object",
            "description": '{"status": "paid", "total.gt": 9}; ne lt le gt ge in like',
        },
        sort={**_TEXT, "description": "a,-b"},
        columns=_TEXT,
        count=_FLAG,
        by=_TEXT,
        sum=_TEXT,
        min=_TEXT,
        max=_TEXT,
        avg=_TEXT,
        limit=_NUMBER,
        format={**_TEXT, "description": "csv, markdown, json; png: groups as a chart"},
    ),
)
"""Offered where tables are served."""


def builtin_tools(parameters: Set[str], *, search: bool) -> Sequence[Tool]:
    """Return the definitions in the order of `tools/list`; see `read_tool`."""
    first, *others = TOOLS
    searching = [search_tool(has_expressions=has_expressions())] if search else []
    querying = [QUERY_TABLE_TOOL] if {"sort", "by"} <= parameters else []
    return [first, read_tool(parameters), *others, *searching, *querying]
