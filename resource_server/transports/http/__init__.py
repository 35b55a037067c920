"""MCP over HTTP: an ASGI application for every revision, and the server that runs it."""
