"""Parameters of each method by the MCP schemas; unknown members are ignored.

Decoding validates: `msgspec.ValidationError` names the path of the problem. One shape serves all
revisions; the connection checks the envelope in `_meta` for revisions that have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from resource_server.protocol import revisions

LoggingLevel = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
RequestId = str | int
_Object = dict[str, Any]


class VersionOnly(Struct, frozen=True, rename="camel"):
    """The one parameter of `initialize` that its refusal repeats."""

    protocol_version: str = ""


class Icon(Struct, frozen=True, rename="camel"):
    """An icon of the client or server."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["dark", "light"] | None = None


class Implementation(Struct, frozen=True, rename="camel"):
    """Name and version of the client or server."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    icons: list[Icon] | None = None
    website_url: str | None = None


class _RootsCapability(Struct, frozen=True, rename="camel"):
    list_changed: bool | None = None


class _SamplingCapability(Struct, frozen=True):
    context: _Object | None = None
    tools: _Object | None = None


class _ElicitationCapability(Struct, frozen=True):
    form: _Object | None = None
    url: _Object | None = None


class _ElicitationTasks(Struct, frozen=True):
    create: _Object | None = None


class _SamplingTasks(Struct, frozen=True, rename="camel"):
    create_message: _Object | None = None


class _TaskRequests(Struct, frozen=True):
    elicitation: _ElicitationTasks | None = None
    sampling: _SamplingTasks | None = None


class _TasksCapability(Struct, frozen=True):
    cancel: _Object | None = None
    list: _Object | None = None
    requests: _TaskRequests | None = None


class ClientCapabilities(Struct, frozen=True):
    """Capabilities of the client."""

    elicitation: _ElicitationCapability | None = None
    experimental: dict[str, _Object] | None = None
    extensions: dict[str, _Object] | None = None
    roots: _RootsCapability | None = None
    sampling: _SamplingCapability | None = None
    tasks: _TasksCapability | None = None


class RequestMeta(Struct, frozen=True):
    """`_meta` of a request: progress token, and the envelope of 2026-07-28."""

    progress_token: RequestId | None = field(default=None, name="progressToken")
    protocol_version: str | UnsetType = field(default=UNSET, name=revisions.PROTOCOL_VERSION)
    client_capabilities: ClientCapabilities | UnsetType = field(
        default=UNSET, name=revisions.CLIENT_CAPABILITIES
    )
    client_info: Implementation | None = field(default=None, name=revisions.CLIENT_INFO)
    log_level: LoggingLevel | None = field(default=None, name=revisions.LOG_LEVEL)
    traceparent: Raw | UnsetType = UNSET
    """W3C trace context, undecoded: an invalid one is ignored."""
    tracestate: Raw | UnsetType = UNSET


class RequestParams(Struct, frozen=True):
    """Parameters common to all methods."""

    meta: RequestMeta | None = field(default=None, name="_meta")


class InitializeParams(RequestParams, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `initialize`."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class SetLevelParams(RequestParams, frozen=True, kw_only=True):
    """Parameters of `logging/setLevel`."""

    level: LoggingLevel


class PageParams(RequestParams, frozen=True):
    """Parameters of methods that list something page by page."""

    cursor: str | None = None


class ListResourcesParams(PageParams, frozen=True):
    """Parameters of `resources/list`; `uri` comes from SEP-2093."""

    uri: str | None = None


class UriParams(RequestParams, frozen=True, kw_only=True):
    """Parameters of methods that only name a resource."""

    uri: str


class DirectoryParams(RequestParams, frozen=True, kw_only=True):
    """Parameters of `resources/directory/read` (SEP-2640)."""

    uri: str
    cursor: str | None = None


class InteractiveParams(RequestParams, frozen=True, kw_only=True, rename="camel"):
    """Parameters of methods that may ask for inputs before their result (2026-07-28)."""

    input_responses: dict[str, Raw] | None = None
    """Answers by the keys of their questions."""
    request_state: str | None = None


class ReadResourceParams(RequestParams, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `resources/read`."""

    uri: str
    input_responses: None = None
    """Always refused: reads never ask for inputs."""
    request_state: str | None = None


class GetPromptParams(InteractiveParams, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `prompts/get`."""

    name: str
    arguments: _Object | None = None
    """Values of any type: a wrong one is reported with the name of its argument."""


class CallToolParams(InteractiveParams, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `tools/call`."""

    name: str
    arguments: Raw = Raw(b"{}")
    """Undecoded: each tool has its own schema."""


class SubscriptionFilter(Struct, frozen=True, rename="camel"):
    """Notifications that a client subscribes to."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class ListenParams(RequestParams, frozen=True, kw_only=True):
    """Parameters of `subscriptions/listen`."""

    notifications: SubscriptionFilter


class PromptReference(Struct, frozen=True, tag_field="type", tag="ref/prompt"):
    """Completes an argument of a prompt."""

    name: str
    title: str | None = None


class TemplateReference(Struct, frozen=True, tag_field="type", tag="ref/resource"):
    """Completes a variable of a template."""

    uri: str


class CompletionArgument(Struct, frozen=True):
    """The argument or variable to complete, and its beginning."""

    name: str
    value: str


class CompletionContext(Struct, frozen=True):
    """The arguments or variables that are already known."""

    arguments: dict[str, str] | None = None


class CompleteParams(RequestParams, frozen=True, kw_only=True):
    """Parameters of `completion/complete`."""

    ref: PromptReference | TemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class CancelledParams(Struct, frozen=True, rename="camel"):
    """Parameters of `notifications/cancelled`."""

    request_id: RequestId | None = None
    reason: Annotated[str, msgspec.Meta(max_length=10_000)] | None = None


PARAMS: Mapping[str, type[RequestParams]] = {
    "initialize": InitializeParams,
    "server/discover": RequestParams,
    "ping": RequestParams,
    "logging/setLevel": SetLevelParams,
    "resources/list": ListResourcesParams,
    "resources/read": ReadResourceParams,
    "resources/metadata": UriParams,
    "resources/directory/read": DirectoryParams,
    "resources/templates/list": PageParams,
    "resources/subscribe": UriParams,
    "resources/unsubscribe": UriParams,
    "skills/list": PageParams,
    "skills/get": UriParams,
    "prompts/list": PageParams,
    "prompts/get": GetPromptParams,
    "subscriptions/listen": ListenParams,
    "completion/complete": CompleteParams,
    "tools/list": PageParams,
    "tools/call": CallToolParams,
}
"""The parameters of each method."""
