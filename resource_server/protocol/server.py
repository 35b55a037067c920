"""The MCP server: the catalog with its name, prompts, tools and limits, shared by connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias

import msgspec

from resource_server import __version__
from resource_server.access import Caller, current
from resource_server.catalog.catalog import Catalog
from resource_server.manifest.prompts import Prompt
from resource_server.protocol import revisions
from resource_server.protocol.params import Implementation
from resource_server.protocol.revisions import Revision
from resource_server.protocol.tools.registry import Toolbox, ToolSettings
from resource_server.runtime.rates import RateLimiter
from resource_server.runtime.server_key import ServerKey, process_key
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.subscriptions.broker import Broker

if TYPE_CHECKING:
    from resource_server.audit.recorder import Recorder

ListName: TypeAlias = Literal["tools", "prompts"]

_encode = msgspec.json.Encoder().encode


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the protocol layer, each with the default the server runs with."""

    subscriptions: int = 100_000
    """Maximum subscriptions of one connection, those of all its listens together."""
    listens: int = 1024
    """Maximum open listens of one connection."""
    tool_calls_per_s: float = 1000.0
    """Tool calls per second and owner: above any model's rate, below a runaway loop's."""
    tool_call_burst: int = 2000
    """Maximum burst of tool calls of an owner."""
    tool_media_bytes: int = 4 * 1024 * 1024
    """Maximum bytes of an image or sound in a tool result; no host takes more."""
    tool_result_bytes: int = 8 * 1024 * 1024
    """Maximum bytes of a tool result as JSON; hosts take far less."""
    prompt_bytes: int = 16 * 1024 * 1024
    """Maximum bytes of all messages of a prompt."""


class ListFollower(Protocol):
    """Receives changes of the lists of tools and prompts. Neither blocks nor raises."""

    def list_changed(self, name: ListName) -> None:
        """Note that a list has changed."""
        ...


class ListAnnouncements:
    """The followers of the lists of tools and prompts, each with its caller."""

    def __init__(self) -> None:
        self._followers: dict[ListName, dict[ListFollower, Caller]] = {"tools": {}, "prompts": {}}

    def follow(self, name: ListName, follower: ListFollower) -> None:
        """Add a follower, who is the current caller."""
        self._followers[name][follower] = current()

    def unfollow(self, follower: ListFollower) -> None:
        """Remove a follower from every list."""
        for followers in self._followers.values():
            followers.pop(follower, None)

    def announce(self, name: ListName, has_changed: Callable[[Caller], bool]) -> None:
        """Notify the followers for whom the list has changed."""
        for follower, caller in list(self._followers[name].items()):
            if has_changed(caller):
                follower.list_changed(name)


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
        tools: ToolSettings | None = None,
        limits: ServerLimits | None = None,
        key: ServerKey | None = None,
        recorder: Recorder | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self.catalog = catalog
        self.recorder = recorder
        """Takes a line for each request; None without a record of reads."""
        self.key = key or process_key()
        self.broker = Broker(catalog, timing)
        self.announcements = ListAnnouncements()
        self.reloads = False
        """Whether the manifest may be reloaded, and another catalog served."""
        self.may_watch = False
        """Whether a reloaded catalog may watch, even if the current one does not."""
        self.limits = limits or ServerLimits()
        self.timing = timing
        self.info = msgspec.to_builtins(Implementation(name, __version__, title))
        self.info = {key: value for key, value in self.info.items() if value is not None}
        self.instructions = instructions
        self.prompts = prompts or {}
        self.toolbox = Toolbox(catalog, tools or ToolSettings(), timing)
        self.tool_rates = RateLimiter(self.limits.tool_calls_per_s, self.limits.tool_call_burst)
        """Tool calls per owner; without tokens all callers are one owner."""
        self.ttl_ms = ttl_ms
        # A response that depends on the caller must not be cached for others.
        self.cache_scope = cache_scope if catalog.visibility.is_same_for_all else "private"
        self.envelopes: dict[int | None, bytes] = {}
        """Envelopes of complete results without `_meta`, by `ttl_ms`; see `envelope`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.broker.close()
        finally:
            await self.catalog.__aexit__(None, None, None)
            if self.recorder is not None:
                await asyncio.to_thread(self.recorder.close)

    def adopt(self, other: Server) -> None:
        """Take over the catalog, name, prompts and tools of another server; keep subscriptions.

        Announces changed tools and prompts. The caller knows which resources changed, and announces
        those.
        """
        tools, prompts = self.toolbox, list(self.prompts.items())
        self.catalog = other.catalog
        self.key = other.key
        self.info = other.info
        self.instructions = other.instructions
        self.prompts = other.prompts
        self.toolbox = other.toolbox
        self.ttl_ms = other.ttl_ms
        self.cache_scope = other.cache_scope
        self.envelopes.clear()
        self.announcements.announce(
            "tools", lambda caller: tools.outline(caller) != other.toolbox.outline(caller)
        )
        self.announcements.announce("prompts", lambda _: prompts != list(other.prompts.items()))

    @property
    def notifies_list_changes(self) -> bool:
        """Whether clients are notified when the list of resources changes."""
        return self.reloads or self.catalog.can_watch

    def has(self, capability: Literal["prompts", "tools"]) -> bool:
        """Return whether there are prompts, or tools, now."""
        return bool(self.prompts) if capability == "prompts" else self.toolbox.settings.enabled

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return the capabilities that `initialize` and `server/discover` advertise.

        With reloads, sessions advertise prompts even before there are any; requests do not.
        """
        advertised: dict[str, Any] = {
            "resources": {
                "subscribe": self.catalog.can_watch or self.may_watch,
                "listChanged": self.notifies_list_changes,
            },
            "logging": {},
            "experimental": {"resource-server/sep-2093": {"metadata": True, "list": True}},
            "extensions": {revisions.SKILLS: {"directoryRead": True}},
        }
        if self.has("prompts") or (self.reloads and not revision.modern):
            advertised["prompts"] = {"listChanged": self.reloads}
        if self.has("tools"):
            advertised["tools"] = {"listChanged": self.reloads}
        if revision.completions_capability:
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

        `ttl_ms` is None for a result that must not be cached; `meta` is the result's own `_meta`.
        """
        members: dict[str, Any] = {"resultType": "complete" if is_complete else "input_required"}
        if ttl_ms is not None:
            members["ttlMs"] = ttl_ms
            members["cacheScope"] = self.cache_scope
        members["_meta"] = {**(meta or {}), revisions.SERVER_INFO: self.info}
        envelope = _encode(members)[1:]
        if meta is None and is_complete:
            self.envelopes[ttl_ms] = envelope
        return envelope
