"""FastAPI with the notes at `/files`:  uvicorn fastapi_app:app  (endpoint: /files/mcp)."""

from pathlib import Path

from fastapi import FastAPI

import resource_server

app = FastAPI()
app.mount("/files", resource_server.asgi_app(Path(__file__).with_name("mcp-resources.yaml")))


@app.get("/hello")
async def hello() -> str:
    """Stay what the application was."""
    return "hello"
