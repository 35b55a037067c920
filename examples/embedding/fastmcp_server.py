"""A FastMCP server with a tool of its own and the notes:  fastmcp run fastmcp_server.py."""

from pathlib import Path

from fastmcp import FastMCP

import resource_server

mcp = FastMCP("mine")
mcp.add_provider(resource_server.fastmcp.provider(Path(__file__).with_name("mcp-resources.yaml")))


@mcp.tool
def steep(minutes: int) -> str:
    """Say when the tea is ready."""
    return f"ready in {minutes} minutes"
