"""Servers inside other programs: ASGI applications, FastMCP, the official SDK, and scripts."""
