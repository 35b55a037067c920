"""Hosts (MCP clients) on this machine: their configuration files, entries and commands."""
