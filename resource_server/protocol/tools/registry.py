"""The tools that somebody is offered: those of the catalog, then those of the mounts they see."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import cast

import msgspec

from resource_server import access
from resource_server.access import Scopes
from resource_server.catalog import cursor
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import FAILURES, Mount, describe_error, log_failure
from resource_server.errors import ResourceServerError
from resource_server.protocol import revisions
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.revisions import Revision
from resource_server.protocol.tools import builtin
from resource_server.protocol.tools.definition import NAME, definition
from resource_server.protocol.tools.offer import Offer
from resource_server.protocol.tools.validation import Arguments
from resource_server.provider.tools import SupportsTools, Tool
from resource_server.runtime.eager import is_cancelled, settle, within

logger = logging.getLogger(__name__)

MAX_TOOLS = 500
"""Of one mount; no model can choose among as many."""
PATIENCE_S = 5.0
"""For a provider to say which tools it has: hosts ask before they do anything else."""

_SCOPE = "tools"
_MAX_KEPT = 256


class Offered(msgspec.Struct, eq=False):
    """A tool by the name that somebody knows it by."""

    name: str
    tool: Tool
    mount: Mount | None = None
    """Whose provider has it; None for those of the catalog."""
    arguments: Arguments | None = None
    """What checks them, for a provider."""
    definitions: dict[str, bytes] = {}
    """By revision."""

    def definition(self, revision: Revision) -> bytes:
        """Return what a client is told of it; made once."""
        known = self.definitions.get(revision.name)
        if known is None:
            known = definition(self.tool, self.name, revision)
            self.definitions[revision.name] = known
        return known


class Offers(msgspec.Struct, frozen=True):
    """All that somebody is offered; `unavailable` names the mounts that did not say."""

    tools: Sequence[Offered]
    unavailable: tuple[str, ...] = ()


class ToolPage(msgspec.Struct, frozen=True):
    """Part of the tools; `next_cursor` is None at the end."""

    tools: Sequence[Offered]
    next_cursor: str | None
    unavailable: tuple[str, ...] = ()


class Toolbox:
    """The tools of one catalog. What a provider has is asked for once."""

    def __init__(self, catalog: Catalog, offer: Offer) -> None:
        self._catalog = catalog
        self.offer = offer
        self._provided: dict[Mount, Sequence[tuple[Tool, Arguments]]] = {}
        self._offers: dict[tuple[Mount, ...], Offers] = {}

    def outline(self, scopes: Scopes) -> tuple[Offer, tuple[Mount, ...]]:
        """Return what decides which tools those have who have these scopes."""
        return self.offer, self._mounts(scopes)

    def _mounts(self, scopes: Scopes) -> tuple[Mount, ...]:
        """Return the mounts that have tools of their own."""
        if not self.offer.enabled:
            return ()
        return tuple(
            mount
            for mount in self._catalog.visibility.for_scopes(scopes).mounts
            if mount.tools is not None and mount.name not in self.offer.without
        )

    async def page(self, after: str | None = None) -> ToolPage:
        """Return a page of the tools, always in the same order.

        Raises:
            InvalidParameter: `after` is no cursor of this listing.
        """
        offers = await self.offers()
        page, following = cursor.page(
            offers.tools,
            lambda each: (each.name,),
            after,
            scope=_SCOPE,
            size=self._catalog.limits.page_size,
        )
        return ToolPage(page, following, offers.unavailable)

    async def find(self, name: str) -> Offered:
        """Return the tool that is called so.

        Raises:
            Fault: there is none.
        """
        for each in (await self.offers()).tools:
            if each.name == name:
                return each
        raise Fault(revisions.INVALID_PARAMS, f"Unknown tool: {name[:128]}", {"tool": name[:128]})

    async def offers(self) -> Offers:
        """Return all tools, in the order in which they are listed."""
        if not self.offer.enabled:
            return Offers(())
        mounts = self._mounts(access.current().scopes)
        known = self._offers.get(mounts)
        if known is not None:
            return known
        unavailable = [mount.name for mount in mounts if not await self._ask(mount)]
        offers = Offers([*self._named(mounts)], tuple(unavailable))
        if not unavailable:
            if len(self._offers) >= _MAX_KEPT:
                self._offers.clear()
            self._offers[mounts] = offers
        return offers

    def _named(self, mounts: Sequence[Mount]) -> Iterator[Offered]:
        """Yield the tools by their names, each of which one has."""
        prefix = self.offer.prefix
        taken = set[str]()
        for tool in builtin.FIXED:
            if self.offer.search or tool.name != builtin.SEARCH:
                taken.add(prefix + tool.name)
                yield Offered(prefix + tool.name, tool, definitions={})
        for mount in mounts:
            for tool, arguments in self._provided.get(mount, ()):
                name = prefix + tool.name
                if name in taken:
                    name = f"{prefix}{mount.name}_{tool.name}"
                if name in taken or not NAME.fullmatch(name):
                    _leave_out(mount, tool.name, f"the name {name!r} is taken or too long")
                    continue
                taken.add(name)
                yield Offered(name, tool, mount, arguments, {})

    async def _ask(self, mount: Mount) -> bool:
        """Find out which tools a mount has; say whether it is known."""
        if mount in self._provided:
            return True
        try:
            provider = cast("SupportsTools", mount.tools)
            tools = await within(PATIENCE_S, settle(provider.tools()))
            from anyio import to_thread  # not at every start

            # Off the loop: schemas may be many, and what checks them takes a while to import.
            self._provided[mount] = await settle(to_thread.run_sync(_usable, mount, tuple(tools)))
        except (*FAILURES, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            log_failure(error, f"asking mount {mount.name} for its tools failed")
            return False
        return True


def _usable(mount: Mount, tools: Sequence[Tool]) -> Sequence[tuple[Tool, Arguments]]:
    """Return the tools that clients can be told of, each with what checks its arguments."""
    usable: list[tuple[Tool, Arguments]] = []
    for tool in tools[:MAX_TOOLS]:
        name = str(getattr(tool, "name", tool))[:128]
        try:
            if not NAME.fullmatch(tool.name):
                raise ResourceServerError("a name is 1 to 128 of A-Z a-z 0-9 _ - .")
            arguments = Arguments(tool)
            definition(tool, tool.name, revisions.LATEST_MODERN)
            usable.append((tool, arguments))
        except FAILURES as error:  # the code of a plugin
            _leave_out(mount, name, describe_error(error))
    if len(tools) > MAX_TOOLS:
        _leave_out(mount, f"{len(tools) - MAX_TOOLS} more", f"a mount has at most {MAX_TOOLS}")
    return usable


def _leave_out(mount: Mount, name: str, reason: str) -> None:
    logger.warning("mount %s: tool %r is left out: %s", mount.name, name, reason)
