"""The command line: serve, check, list, read, watch, init, install, new-provider and others."""

from resource_server.cli.program import main

__all__ = ["main"]
