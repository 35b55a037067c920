"""What is served and how it presents itself: shared by all connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from resource_server import __version__
from resource_server.catalog import Catalog
from resource_server.live import Live
from resource_server.protocol import revisions
from resource_server.protocol.params import Implementation

_encode = msgspec.json.Encoder().encode


class Server:
    """The catalog with the server's name, title and instructions, and its caching hints.

    An async context manager: leaving it ends all watching and closes the catalog.
    """

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
        self.live = Live(catalog)
        self.reloads = False
        """Whether another catalog may be served one day."""
        self.info = msgspec.to_builtins(Implementation(name, __version__, title))
        self.info = {key: value for key, value in self.info.items() if value is not None}
        self.instructions = instructions
        self.ttl_ms = ttl_ms
        # What one may see is no answer for another.
        self.cache_scope = "private" if catalog.views.scopes else cache_scope
        self._endings: dict[int | None, bytes] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.live.close()
        finally:
            await self.catalog.__aexit__(None, None, None)

    def adopt(self, other: Server) -> None:
        """Serve what another server was made to serve, under its name; subscriptions stay here.

        `live` is not told: who calls this knows what has changed.
        """
        self.catalog = other.catalog
        self.info = other.info
        self.instructions = other.instructions
        self.ttl_ms = other.ttl_ms
        self.cache_scope = other.cache_scope
        self._endings.clear()

    @property
    def tells_list_changes(self) -> bool:
        """Whether clients are told when other resources are listed than before."""
        return self.reloads or self.catalog.watches

    def capabilities(self, *, completions: bool) -> dict[str, Any]:
        """Return what `initialize` and `server/discover` advertise."""
        advertised: dict[str, Any] = {
            "resources": {
                "subscribe": self.catalog.watches,
                "listChanged": self.tells_list_changes,
            },
            "logging": {},
            "experimental": {"resource-server/sep-2093": {"metadata": True, "list": True}},
        }
        if completions:
            advertised["completions"] = {}
        return advertised

    def envelope(self, ttl_ms: int | None, meta: Mapping[str, Any] | None = None) -> bytes:
        """Return the members that 2026-07-28 adds to every result, and the closing brace.

        `ttl_ms` is None for a result that is not to be cached; `meta` is its own `_meta`.
        """
        known = self._endings.get(ttl_ms) if meta is None else None
        if known is not None:
            return known
        members: dict[str, Any] = {"resultType": "complete"}
        if ttl_ms is not None:
            members["ttlMs"] = ttl_ms
            members["cacheScope"] = self.cache_scope
        members["_meta"] = {**(meta or {}), revisions.SERVER_INFO: self.info}
        ending = _encode(members)[1:]
        if meta is None:
            self._endings[ttl_ms] = ending
        return ending
