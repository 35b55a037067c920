"""A server of the official SDK with the notes inside:  uvicorn sdk_server:app  (endpoint: /mcp)."""

from pathlib import Path

from mcp.server import Server

import resource_server

MANIFEST = Path(__file__).with_name("mcp-resources.yaml")

server = Server("mine", **resource_server.sdk.handlers(MANIFEST))
app = server.streamable_http_app()
