"""The registry of tools: those of the catalog, then those of the mounts a caller sees."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from resource_server import access, uris
from resource_server.access import Caller
from resource_server.catalog import cursor
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount, describe_error, log_failure
from resource_server.errors import ResourceServerError
from resource_server.protocol import revisions
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.revisions import Revision
from resource_server.protocol.tools import builtin_schemas
from resource_server.protocol.tools.budget import DEFAULT_CHARACTERS, MAX_ADVERTISED
from resource_server.protocol.tools.validation import ArgumentsValidator
from resource_server.provider.tools import Tool
from resource_server.runtime.eager import settle
from resource_server.runtime.rates import Backoff
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger(__name__)

MAX_TOOLS = 500
"""Maximum tools of one mount; models choose badly among more."""
TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")

_LONG_NAME = 46
"""Maximum characters of a name in every host: of 64, the longest prefix takes 18."""
_MANY_TOOLS = 40
_CURSOR_SCOPE = "tools"
_MAX_CACHED = 256
"""Maximum sets of mounts whose tools are cached."""
_BYTES_PER_TOKEN = 4.0
"""Measured for definitions like these: 4.3 (o200k_base) and 4.5 (cl100k_base).

Other vocabularies split finer. Hosts add words of their own, or omit the output schemas.
"""
MAX_RESULT_SIZE = "anthropic/maxResultSizeChars"
_ANNOTATIONS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
"""The same for every tool: by the provider contract, a tool only reads."""

_encode = msgspec.json.Encoder().encode


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest's settings for tools."""

    enabled: bool = True
    search: bool = True
    """Whether `search_resources` is one of them."""
    prefix: str = ""
    """Prefix of all tool names."""
    budget: int = DEFAULT_CHARACTERS
    """Maximum characters of a result; see `Budget`."""
    structured: bool = True
    """Whether results have `structuredContent`, and tools an `outputSchema`."""
    without: Set[str] = frozenset()
    """Names of the mounts whose own tools are left out."""


class OfferedTool(msgspec.Struct, eq=False):
    """A tool under the name that callers see."""

    name: str
    tool: Tool
    mount: Mount | None = None
    """The mount whose provider has the tool; None for tools of the catalog."""
    validator: ArgumentsValidator | None = None
    """Checks the arguments of a provider's tool."""
    settings: ToolSettings = ToolSettings()
    definitions: dict[str, bytes] = {}
    """By revision."""

    def definition(self, revision: Revision) -> bytes:
        """Return the definition that clients are sent, encoded once per revision."""
        known = self.definitions.get(revision.name)
        if known is None:
            known = tool_definition(self.tool, self.name, revision, self.settings)
            self.definitions[revision.name] = known
        return known


def tool_definition(tool: Tool, name: str, revision: Revision, settings: ToolSettings) -> bytes:
    """Return the JSON object of a tool that is called `name`."""
    members: dict[str, Any] = {"name": name}
    if revision.titles and tool.title is not None:
        members["title"] = uris.display(tool.title)
    members["description"] = uris.display(tool.description)
    members["inputSchema"] = _object_schema(tool.input_schema)
    if settings.structured and revision.structured_results and tool.output_schema is not None:
        members["outputSchema"] = _object_schema(tool.output_schema)
    if revision.tool_annotations:
        members["annotations"] = _ANNOTATIONS
    if settings.budget > DEFAULT_CHARACTERS:
        # Claude Code moves longer results to a file, unless a tool announces them.
        members["_meta"] = {MAX_RESULT_SIZE: min(settings.budget, MAX_ADVERTISED)}
    return _encode(members)


def _object_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    # Clients reject the whole list if one schema lacks `type`.
    return schema if "type" in schema else {"type": "object", **schema}


class OfferedTools(msgspec.Struct, frozen=True):
    """All tools that a caller may use."""

    tools: Sequence[OfferedTool]
    unavailable: tuple[str, ...] = ()
    """Names of the mounts that failed to list their tools."""


class ToolPage(msgspec.Struct, frozen=True):
    """One page of the tools; `next_cursor` is None at the end."""

    tools: Sequence[OfferedTool]
    next_cursor: str | None
    unavailable: tuple[str, ...] = ()


class _Outline(NamedTuple):
    """What the tools of a caller depend on."""

    mounts: tuple[Mount, ...] = ()
    """The visible mounts that have tools of their own."""
    parameters: frozenset[str] = frozenset()
    """URI parameters of visible mounts."""


class Toolbox:
    """The tools of one catalog. Each provider is asked for its tools once."""

    def __init__(
        self, catalog: Catalog, settings: ToolSettings, timing: Timing = DEFAULT_TIMING
    ) -> None:
        self._catalog = catalog
        self.settings = settings
        self._timing = timing
        # Mounts for the callers with some claims come and go.
        self._failed = WeakKeyDictionary[Mount, _Failure]()
        self._provided = WeakKeyDictionary[Mount, Sequence[tuple[Tool, ArgumentsValidator]]]()
        self._offered: dict[_Outline, OfferedTools] = {}

    def outline(self, caller: Caller) -> tuple[ToolSettings, _Outline]:
        """Return what decides which tools a caller has."""
        return self.settings, self._outline(caller)

    def _outline(self, caller: Caller) -> _Outline:
        if not self.settings.enabled:
            return _Outline()
        visible = self._catalog.visibility.of(caller).mounts
        declared = [mount.provider.parameters for mount in visible]
        return _Outline(
            tuple(
                mount
                for mount in visible
                if "tools" in mount.provider.abilities and mount.name not in self.settings.without
            ),
            frozenset[str]().union(*declared),
        )

    async def page(self, after: str | None = None) -> ToolPage:
        """Return one page of the tools, always in the same order.

        Raises:
            InvalidParameter: `after` is no cursor of this listing.
        """
        offered = await self.offered()
        page, next_cursor = cursor.page(
            offered.tools,
            lambda each: (each.name,),
            after,
            scope=_CURSOR_SCOPE,
            size=self._catalog.limits.page_size,
        )
        return ToolPage(page, next_cursor, offered.unavailable)

    async def find(self, name: str) -> OfferedTool:
        """Return the tool with this name.

        Raises:
            Fault: there is none.
        """
        for each in (await self.offered()).tools:
            if each.name == name:
                return each
        raise Fault(revisions.INVALID_PARAMS, f"Unknown tool: {name[:128]}", {"tool": name[:128]})

    async def offered(self) -> OfferedTools:
        """Return all tools of the current caller, in the order of `tools/list`."""
        if not self.settings.enabled:
            return OfferedTools(())
        outline = self._outline(access.current())
        known = self._offered.get(outline)
        if known is not None:
            return known
        unavailable = [mount.name for mount in outline.mounts if not await self._load(mount)]
        offered = OfferedTools([*self._uniquely_named(outline)], tuple(unavailable))
        if not unavailable:
            if len(self._offered) >= _MAX_CACHED:
                self._offered.clear()
            self._offered[outline] = offered
        return offered

    def _uniquely_named(self, outline: _Outline) -> Iterator[OfferedTool]:
        """Yield the tools under unique names."""
        prefix = self.settings.prefix
        taken = set[str]()
        for tool in builtin_schemas.builtin_tools(outline.parameters, search=self.settings.search):
            taken.add(prefix + tool.name)
            yield OfferedTool(prefix + tool.name, tool, settings=self.settings, definitions={})
        for mount in outline.mounts:
            for tool, validator in self._provided.get(mount, ()):
                name = prefix + tool.name
                if name in taken:
                    name = f"{prefix}{mount.name}_{tool.name}"
                if name in taken or not TOOL_NAME.fullmatch(name):
                    _leave_out(mount, tool.name, f"the name {name!r} is taken or too long")
                    continue
                taken.add(name)
                yield OfferedTool(name, tool, mount, validator, self.settings, {})

    async def _load(self, mount: Mount) -> bool:
        """Ask a mount for its tools, unless they are known; return whether they are.

        After a failure it is not asked before the next retry: it may hang, and all calls wait.
        """
        if mount in self._provided:
            return True
        if mount in self._failed and time.monotonic() < self._failed[mount].retry_at:
            return False
        try:
            tools = await mount.provider.tools()
            from anyio import to_thread  # slow to import, and rarely needed

            # Off the event loop: there may be many schemas, and the validator imports slowly.
            self._provided[mount] = await settle(to_thread.run_sync(_usable, mount, tuple(tools)))
        except Exception as error:
            log_failure(error, f"asking mount {mount.name} for its tools failed")
            self._failed.setdefault(mount, _Failure(self._timing)).again()
            return False
        return True


class _Failure:
    """A mount that failed to list its tools, until it is asked again."""

    def __init__(self, timing: Timing) -> None:
        self._backoff = Backoff(timing.mount_retry_s, timing.mount_retry_max_s)
        self.retry_at = 0.0

    def again(self) -> None:
        """Delay the next attempt."""
        self.retry_at = time.monotonic() + self._backoff.next_s()


def _usable(mount: Mount, tools: Sequence[Tool]) -> Sequence[tuple[Tool, ArgumentsValidator]]:
    """Return the valid tools of a mount, each with the validator of its arguments."""
    usable: list[tuple[Tool, ArgumentsValidator]] = []
    for tool in tools[:MAX_TOOLS]:
        name = str(getattr(tool, "name", tool))[:128]
        try:
            if not TOOL_NAME.fullmatch(tool.name):
                raise ResourceServerError("a name is 1 to 128 of A-Z a-z 0-9 _ - .")
            validator = ArgumentsValidator(tool)
            tool_definition(tool, tool.name, revisions.LATEST_MODERN, ToolSettings())
            usable.append((tool, validator))
        except Exception as error:  # plugin code may raise anything
            _leave_out(mount, name, describe_error(error))
    if len(tools) > MAX_TOOLS:
        _leave_out(mount, f"{len(tools) - MAX_TOOLS} more", f"a mount has at most {MAX_TOOLS}")
    return usable


def _leave_out(mount: Mount, name: str, reason: str) -> None:
    logger.warning("mount %s: tool %r is left out: %s", mount.name, name, reason)


class ToolCost(msgspec.Struct, frozen=True, rename="camel"):
    """The number of tools, and the approximate tokens of their definitions."""

    count: int
    tokens: int
    warnings: Sequence[str] = ()
    """What keeps hosts from offering some of them."""


async def tool_cost(toolbox: Toolbox, revision: Revision) -> ToolCost:
    """Return the cost of the tool definitions for a model."""
    tools = (await toolbox.offered()).tools
    definitions = b",".join(each.definition(revision) for each in tools)
    tokens = round(len(definitions) / _BYTES_PER_TOKEN)
    return ToolCost(len(tools), tokens, [*_warnings(tools)])


def _warnings(tools: Sequence[OfferedTool]) -> Iterator[str]:
    if len(tools) > _MANY_TOOLS:
        yield f"{len(tools)} tools: some hosts offer a model at most {_MANY_TOOLS}, of all servers"
    for each in tools:
        if len(each.name) > _LONG_NAME:
            yield (
                f"tool {each.name}: the name has {len(each.name)} characters; with a host's own "
                f"prefix, more than {_LONG_NAME} are too many"
            )
        if not each.tool.description.strip():
            yield f"tool {each.name}: without a description; a model cannot know when to call it"
