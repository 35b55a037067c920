"""What is served and how it presents itself: shared by all connections."""

from __future__ import annotations

from typing import Any

import msgspec

from resource_server import __version__
from resource_server.catalog import Catalog
from resource_server.protocol.params import Implementation


class Server:
    """The catalog with the server's name, title and instructions, and its caching hints."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        name: str = "resource-server",
        title: str | None = None,
        instructions: str | None = None,
        ttl_ms: int = 0,
        cache_scope: str = "private",
    ) -> None:
        self.catalog = catalog
        self.info = msgspec.to_builtins(Implementation(name, __version__, title))
        self.info = {key: value for key, value in self.info.items() if value is not None}
        self.instructions = instructions
        self.ttl_ms = ttl_ms
        self.cache_scope = cache_scope

    def capabilities(self, *, completions: bool) -> dict[str, Any]:
        """Return what `initialize` and `server/discover` advertise."""
        advertised: dict[str, Any] = {
            "resources": {"subscribe": False, "listChanged": False},
            "logging": {},
            "experimental": {"resource-server/sep-2093": {"metadata": True, "list": True}},
        }
        if completions:
            advertised["completions"] = {}
        return advertised
