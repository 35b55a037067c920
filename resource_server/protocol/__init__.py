"""The protocol engine: JSON-RPC and MCP in every revision, without any input or output."""
