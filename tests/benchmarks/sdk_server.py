"""A peer: the official SDK's low-level server, serving one flat folder.

python tests/benchmarks/sdk_server.py FOLDER                 over stdio
python tests/benchmarks/sdk_server.py FOLDER PORT [fast]     over HTTP, with plain JSON
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

ROOT = Path(sys.argv[1])


async def read(
    _: ServerRequestContext[Any], params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    """Return a file, read from disk."""
    text = (ROOT / params.uri.rpartition("/")[2]).read_text("utf-8")
    content = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=text)
    return types.ReadResourceResult(contents=[content])


async def listing(
    _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    """Return every file, with the metadata that the SDK can carry."""
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                uri=f"file:///{ROOT.name}/{file.name}",
                name=file.name,
                mime_type="text/plain",
                size=file.stat().st_size,
            )
            for file in sorted(ROOT.iterdir())
        ]
    )


async def main() -> None:
    """Serve until the input ends."""
    server = Server("sdk", version="1", on_read_resource=read, on_list_resources=listing)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def serve_http(port: int, *, fast: bool) -> None:
    """Serve on a port of this machine, with what the SDK installs; or `fast`, with what we do."""
    import uvicorn

    server = Server("sdk", version="1", on_read_resource=read, on_list_resources=listing)
    application = server.streamable_http_app(json_response=True)
    uvicorn.run(
        application,
        port=port,
        http="httptools" if fast else "h11",
        loop="auto" if fast else "asyncio",
        log_level="error",
        access_log=False,
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        serve_http(int(sys.argv[2]), fast=sys.argv[3:] == ["fast"])
    else:
        anyio.run(main)
