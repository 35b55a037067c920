"""A provider for FastMCP (`fastmcp`): resources, templates, tools and prompts of a source."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

import mcp_types as types
from fastmcp.exceptions import NotFoundError, ResourceError, ToolError
from fastmcp.prompts import Message, Prompt, PromptResult
from fastmcp.prompts.base import PromptArgument
from fastmcp.resources import Resource, ResourceContent, ResourceResult, ResourceTemplate
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.providers import Provider
from fastmcp.tools import Tool, ToolResult
from fastmcp.utilities.versions import VersionSpec
from pydantic import AnyUrl, BaseModel, PrivateAttr, TypeAdapter

from resource_server.access import EVERYBODY, Caller, acting
from resource_server.embedding.callers import caller_of_token, named
from resource_server.embedding.embedded_server import EmbeddedServer, Source, SourceServers
from resource_server.protocol import revisions
from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.protocol.server import Server
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.serving.reload import ReloadingServer

T = TypeVar("T")

_NOT_FOUND = revisions.LATEST_HANDSHAKE.resource_not_found
_ABSENT = (_NOT_FOUND, revisions.INVALID_PARAMS)
"""Codes of errors for a URI that another provider may know."""


def provider(
    source: Source,
    *,
    caller: Callable[[], Caller] | None = None,
    plugins: bool = True,
    timing: Timing = DEFAULT_TIMING,
) -> SourceProvider:
    """Return a provider for `FastMCP.add_provider`, which serves a source.

    The source is started with the first request, and ends with the lifespan of the FastMCP server
    or with the event loop.

    Args:
        source: a manifest, folder, database or URL, or a manifest as a mapping.
        caller: returns the caller of the current request; by default that of the access token, or
            without one a caller to whom everything is visible that the manifest exposes.
        plugins: whether plugin providers may run.
        timing: times that tests shorten.

    Raises:
        ManifestError: the source cannot be served; the text is that of the command line.
    """
    servers = SourceServers(source, plugins=plugins, shows_activity=False, timing=timing)
    return SourceProvider(servers, caller or _caller_of_request)


def _caller_of_request() -> Caller:
    token = get_access_token()
    return EVERYBODY if token is None else caller_of_token(token)


@asynccontextmanager
async def _only_server(_: ReloadingServer, server: Server) -> AsyncGenerator[Server]:
    yield server


class SourceProvider(Provider):
    """Serves a source through FastMCP, for the caller of each request."""

    def __init__(self, servers: SourceServers, caller_of: Callable[[], Caller]) -> None:
        super().__init__()
        self._embedded = EmbeddedServer(servers, _only_server)
        self._caller_of = caller_of

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """End the source with the server."""
        try:
            yield
        finally:
            await self._embedded.close()

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request for the caller of the current one, and return its result.

        Raises:
            ErrorReply: it was answered with an error.
        """
        caller = named(self._caller_of())
        server = await self._embedded.start()
        with acting(caller):
            async with LocalClient(server, owner=caller.subject) as client:
                return await client.request(method, dict(params or {}))

    async def _every(self, method: str, name: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a listing."""
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        while True:
            page = await self.request(method, params)
            found += page[name]
            if "nextCursor" not in page:
                return found
            params["cursor"] = page["nextCursor"]

    async def _list_resources(self) -> Sequence[Resource]:
        found = await self._every("resources/list", "resources")
        return [SourceResource.of(self, each) for each in found]

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        if version is not None and not version.matches(None):
            return None
        try:
            found = await self.request("resources/metadata", {"uri": uri})
        except ErrorReply as error:
            if error.code in _ABSENT:
                return None
            raise _resource_error(error) from None
        return SourceResource.of(self, {**found["resource"], "uri": uri})

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        found = await self._every("resources/templates/list", "resourceTemplates")
        every = TypeAdapter(list[types.ResourceTemplate]).validate_python(found)
        return [
            SourceTemplate(
                uri_template=each.uri_template,
                name=each.name,
                title=each.title,
                description=each.description,
                mime_type=each.mime_type or "text/plain",
                annotations=each.annotations,
                parameters={},
            )
            for each in every
        ]

    async def _list_tools(self) -> Sequence[Tool]:
        return [SourceTool.of(self, each) for each in await self._offered("tools")]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        return _of_name(await self._list_tools(), name, version)

    async def _list_prompts(self) -> Sequence[Prompt]:
        return [SourcePrompt.of(self, each) for each in await self._offered("prompts")]

    async def _get_prompt(self, name: str, version: VersionSpec | None = None) -> Prompt | None:
        return _of_name(await self._list_prompts(), name, version)

    async def _offered(self, kind: str) -> list[dict[str, Any]]:
        """Return all tools or prompts; none if the manifest has none."""
        try:
            return await self._every(f"{kind}/list", kind)
        except ErrorReply as error:
            if error.code == revisions.METHOD_NOT_FOUND:
                return []
            raise


_C = TypeVar("_C", Tool, Prompt)


def _of_name(found: Sequence[_C], name: str, version: VersionSpec | None) -> _C | None:
    if version is not None and not version.matches(None):
        return None
    return next((each for each in found if each.name == name), None)


def _resource_error(error: ErrorReply) -> Exception:
    data: Mapping[str, Any] = error.data or {}
    text = f"{error}: {data['uri']}" if "uri" in data else str(error)
    return NotFoundError(text) if error.code == _NOT_FOUND else ResourceError(text)


class _OfSource(BaseModel):
    """A part of a source, by its exact URI or name: FastMCP or a transform may change the other."""

    _provider: SourceProvider = PrivateAttr()
    _exact: str = PrivateAttr()

    def taken(self, provider: SourceProvider, exact: str) -> Self:
        """Return it, taken from a source."""
        self._provider, self._exact = provider, exact
        return self


class SourceResource(_OfSource, Resource):
    """A resource of a source, which is read by its exact URI."""

    @classmethod
    def of(cls, provider: SourceProvider, found: Mapping[str, Any]) -> SourceResource:
        """Return the resource of a listing or of metadata."""
        parsed = types.Resource.model_validate(found)
        return cls(
            uri=AnyUrl(parsed.uri),
            name=parsed.name,
            title=parsed.title,
            description=parsed.description,
            mime_type=parsed.mime_type or "text/plain",
            annotations=parsed.annotations,
            meta=parsed.meta,
        ).taken(provider, parsed.uri)

    def to_mcp_resource(self, **overrides: Any) -> types.Resource:
        """Return the resource as it is listed, with its exact URI unless a transform changed it."""
        if str(self.uri) == str(AnyUrl(self._exact)):
            overrides.setdefault("uri", self._exact)
        return super().to_mcp_resource(**overrides)

    async def read(self) -> ResourceResult:
        """Read it for the caller of the current request."""
        try:
            result = await self._provider.request("resources/read", {"uri": self._exact})
        except ErrorReply as error:
            raise _resource_error(error) from None
        return ResourceResult([_content(each) for each in result["contents"]])


def _content(found: Mapping[str, Any]) -> ResourceContent:
    data = b64decode(found["blob"]) if "blob" in found else found["text"]
    return ResourceContent(data, found.get("mimeType"), found.get("_meta"))


class SourceTemplate(ResourceTemplate):
    """A template of a source. Reads do without: the provider knows every resource by its URI."""

    async def create_resource(self, uri: str, params: dict[str, Any]) -> Resource:
        """Refuse a URI that matches, but which the provider does not know.

        Raises:
            NotFoundError: always.
        """
        raise NotFoundError(f"Unknown resource: {uri!r}")


class SourceTool(_OfSource, Tool):
    """A tool of a source."""

    @classmethod
    def of(cls, provider: SourceProvider, found: Mapping[str, Any]) -> SourceTool:
        """Return the tool of a listing."""
        parsed = types.Tool.model_validate(found)
        return cls(
            name=parsed.name,
            title=parsed.title,
            description=parsed.description,
            parameters=parsed.input_schema,
            output_schema=parsed.output_schema,
            annotations=parsed.annotations,
            meta=parsed.meta,
        ).taken(provider, parsed.name)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call it for the caller of the current request."""
        params = {"name": self._exact, "arguments": arguments}
        try:
            result = await self._provider.request("tools/call", params)
        except ErrorReply as error:
            raise ToolError(str(error)) from None
        return ToolResult.from_mcp_result(types.CallToolResult.model_validate(result))


class SourcePrompt(_OfSource, Prompt):
    """A prompt of a source."""

    @classmethod
    def of(cls, provider: SourceProvider, found: Mapping[str, Any]) -> SourcePrompt:
        """Return the prompt of a listing."""
        parsed = types.Prompt.model_validate(found)
        return cls(
            name=parsed.name,
            title=parsed.title,
            description=parsed.description,
            arguments=[
                PromptArgument(
                    name=each.name,
                    title=each.title,
                    description=each.description,
                    required=bool(each.required),
                )
                for each in parsed.arguments or ()
            ],
            meta=parsed.meta,
        ).taken(provider, parsed.name)

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Render it for the caller of the current request."""
        params = {"name": self._exact, "arguments": arguments or {}}
        result = types.GetPromptResult.model_validate(
            await self._provider.request("prompts/get", params)
        )
        messages = [Message(each.content, each.role) for each in result.messages]
        return PromptResult(messages, result.description)
