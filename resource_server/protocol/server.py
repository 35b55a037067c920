"""What is served and how it presents itself: shared by all connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from resource_server import __version__
from resource_server.catalog.catalog import Catalog
from resource_server.manifest.prompts import Prompt
from resource_server.protocol import revisions
from resource_server.protocol.announcements import Announcements
from resource_server.protocol.params import Implementation
from resource_server.protocol.tools.offer import Offer
from resource_server.protocol.tools.registry import Toolbox
from resource_server.runtime.rate_limit import RateLimiter
from resource_server.subscriptions.broker import Broker

PATIENCE_S = 600.0

TOOL_RATE, TOOL_BURST = 1000.0, 2000
"""Calls a second, and at once: more than a model makes, and less than a loop gone wild."""

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
        prompts: Mapping[str, Prompt] | None = None,
        tools: Offer | None = None,
    ) -> None:
        self.catalog = catalog
        self.broker = Broker(catalog)
        self.announcements = Announcements()
        self.reloads = False
        """Whether another catalog may be served one day."""
        self.may_watch = False
        """Whether that may notice changes, even if the present one does not."""
        self.patience_s = PATIENCE_S
        """How long a person may take to answer a question."""
        self.info = msgspec.to_builtins(Implementation(name, __version__, title))
        self.info = {key: value for key, value in self.info.items() if value is not None}
        self.instructions = instructions
        self.prompts = prompts or {}
        self.toolbox = Toolbox(catalog, tools or Offer())
        self.tool_rates = RateLimiter(TOOL_RATE, TOOL_BURST)
        """How often each subject may call a tool; without tokens all are one."""
        self.ttl_ms = ttl_ms
        # What one may see is no answer for another.
        self.cache_scope = "private" if catalog.visibility.scopes else cache_scope
        self._endings: dict[int | None, bytes] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.broker.close()
        finally:
            await self.catalog.__aexit__(None, None, None)

    def adopt(self, other: Server) -> None:
        """Serve what another server was made to serve, under its name; subscriptions stay here.

        Who follows tools or prompts is told of others. `live` is not: who calls this knows what has
        changed.
        """
        tools, prompts = self.toolbox, list(self.prompts.items())
        self.catalog = other.catalog
        self.info = other.info
        self.instructions = other.instructions
        self.prompts = other.prompts
        self.toolbox = other.toolbox
        self.ttl_ms = other.ttl_ms
        self.cache_scope = other.cache_scope
        self._endings.clear()
        self.announcements.tell("tools", lambda of: tools.outline(of) != other.toolbox.outline(of))
        self.announcements.tell("prompts", lambda _: prompts != list(other.prompts.items()))

    @property
    def tells_list_changes(self) -> bool:
        """Whether clients are told when other resources are listed than before."""
        return self.reloads or self.catalog.watches

    def capabilities(self, *, completions: bool) -> dict[str, Any]:
        """Return what `initialize` and `server/discover` advertise."""
        advertised: dict[str, Any] = {
            "resources": {
                "subscribe": self.catalog.watches or self.may_watch,
                "listChanged": self.tells_list_changes,
            },
            "logging": {},
            "experimental": {"resource-server/sep-2093": {"metadata": True, "list": True}},
        }
        if self.prompts or self.reloads:
            advertised["prompts"] = {"listChanged": self.reloads}
        if self.toolbox.offer.enabled:
            advertised["tools"] = {"listChanged": self.reloads}
        if completions:
            advertised["completions"] = {}
        return advertised

    def envelope(
        self,
        ttl_ms: int | None,
        meta: Mapping[str, Any] | None = None,
        *,
        is_complete: bool = True,
    ) -> bytes:
        """Return the members that 2026-07-28 adds to every result, and the closing brace.

        `ttl_ms` is None for a result that is not to be cached; `meta` is its own `_meta`.
        """
        is_kept = meta is None and is_complete
        known = self._endings.get(ttl_ms) if is_kept else None
        if known is not None:
            return known
        members: dict[str, Any] = {"resultType": "complete" if is_complete else "input_required"}
        if ttl_ms is not None:
            members["ttlMs"] = ttl_ms
            members["cacheScope"] = self.cache_scope
        members["_meta"] = {**(meta or {}), revisions.SERVER_INFO: self.info}
        ending = _encode(members)[1:]
        if is_kept:
            self._endings[ttl_ms] = ending
        return ending
