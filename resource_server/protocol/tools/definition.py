"""What a client is told of a tool, in the words of its revision."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from resource_server import uris
from resource_server.protocol.revisions import Revision
from resource_server.provider.tools import Tool

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")

_ANNOTATIONS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
"""Of every tool: the contract of a provider says that a tool reads."""

_encode = msgspec.json.Encoder().encode


def definition(tool: Tool, name: str, revision: Revision) -> bytes:
    """Return the JSON object of a tool that is called `name`."""
    told: dict[str, Any] = {"name": name}
    if revision.titles and tool.title is not None:
        told["title"] = uris.display(tool.title)
    told["description"] = uris.display(tool.description)
    told["inputSchema"] = _object(tool.input_schema)
    if revision.structured_results and tool.output_schema is not None:
        told["outputSchema"] = _object(tool.output_schema)
    if revision.tool_annotations:
        told["annotations"] = _ANNOTATIONS
    return _encode(told)


def _object(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    # Clients refuse a whole listing where one schema lacks it.
    return schema if "type" in schema else {"type": "object", **schema}
