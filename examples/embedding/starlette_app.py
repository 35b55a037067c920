"""Starlette with the notes at `/files`:  uvicorn starlette_app:app  (endpoint: /files/mcp)."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount

import resource_server

MANIFEST = Path(__file__).with_name("mcp-resources.yaml")

app = Starlette(routes=[Mount("/files", resource_server.asgi_app(MANIFEST))])
