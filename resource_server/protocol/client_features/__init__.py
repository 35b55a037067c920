"""Requests to the client (MCP client features): elicitation, sampling and roots."""
