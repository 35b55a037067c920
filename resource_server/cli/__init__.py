"""The command line: serve, check, list, read, metadata, watch, init, sql, schema, version."""

from resource_server.cli.program import main

__all__ = ["main"]
