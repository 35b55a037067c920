"""Folder trees: each exposed file is a document, each directory a collection."""

from resource_server.providers.filesystem.provider import Filesystem

__all__ = ["Filesystem"]
