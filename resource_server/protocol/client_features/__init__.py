"""Requests to the client (MCP client features): elicitation and roots."""
