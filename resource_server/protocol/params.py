"""The parameters of each method, as the schemas define them; unknown members are ignored.

Decoding validates: what does not fit raises `msgspec.ValidationError` with the path of the fault.
One shape serves all revisions; the engine demands the envelope in `_meta` where a revision has it.
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


class Versioned(Struct, frozen=True, rename="camel"):
    """The one member of an `initialize` that is needed to refuse it."""

    protocol_version: str = ""


class Icon(Struct, frozen=True, rename="camel"):
    """An image of the client or server."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["dark", "light"] | None = None


class Implementation(Struct, frozen=True, rename="camel"):
    """Who the client (or server) is."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    icons: list[Icon] | None = None
    website_url: str | None = None


class _Roots(Struct, frozen=True, rename="camel"):
    list_changed: bool | None = None


class _Sampling(Struct, frozen=True):
    context: _Object | None = None
    tools: _Object | None = None


class _Elicitation(Struct, frozen=True):
    form: _Object | None = None
    url: _Object | None = None


class _ElicitationTasks(Struct, frozen=True):
    create: _Object | None = None


class _SamplingTasks(Struct, frozen=True, rename="camel"):
    create_message: _Object | None = None


class _TaskRequests(Struct, frozen=True):
    elicitation: _ElicitationTasks | None = None
    sampling: _SamplingTasks | None = None


class _Tasks(Struct, frozen=True):
    cancel: _Object | None = None
    list: _Object | None = None
    requests: _TaskRequests | None = None


class ClientCapabilities(Struct, frozen=True):
    """What the client can do."""

    elicitation: _Elicitation | None = None
    experimental: dict[str, _Object] | None = None
    extensions: dict[str, _Object] | None = None
    roots: _Roots | None = None
    sampling: _Sampling | None = None
    tasks: _Tasks | None = None


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
    """What every method's parameters have."""

    meta: RequestMeta | None = field(default=None, name="_meta")


class Initialize(RequestParams, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `initialize`."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class SetLevel(RequestParams, frozen=True, kw_only=True):
    """Parameters of `logging/setLevel`."""

    level: LoggingLevel


class ListTemplates(RequestParams, frozen=True):
    """Parameters of `resources/templates/list`."""

    cursor: str | None = None


class ListResources(ListTemplates, frozen=True):
    """Parameters of `resources/list`; `uri` is of SEP-2093."""

    uri: str | None = None


class Interactive(RequestParams, frozen=True, kw_only=True, rename="camel"):
    """Parameters of what may ask for more before it has a result (2026-07-28)."""

    input_responses: dict[str, Raw] | None = None
    """What was answered, by the keys of the questions."""
    request_state: str | None = None


class ReadResource(RequestParams, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `resources/read`."""

    uri: str
    input_responses: None = None
    """Always refused: no read of ours ever asks for input."""
    request_state: str | None = None


class ResourceMetadata(RequestParams, frozen=True, kw_only=True):
    """Parameters of `resources/metadata` (SEP-2093)."""

    uri: str


class Subscribe(RequestParams, frozen=True, kw_only=True):
    """Parameters of `resources/subscribe` and `resources/unsubscribe`."""

    uri: str


class ListPrompts(RequestParams, frozen=True):
    """Parameters of `prompts/list`."""

    cursor: str | None = None


class GetPrompt(RequestParams, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `prompts/get`."""

    name: str
    arguments: _Object | None = None
    """Of text each; whose is not is told by its name."""
    input_responses: None = None
    """Always refused: no prompt of ours ever asks for input."""
    request_state: str | None = None


class ListTools(RequestParams, frozen=True):
    """Parameters of `tools/list`."""

    cursor: str | None = None


class CallTool(Interactive, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `tools/call`."""

    name: str
    arguments: Raw = Raw(b"{}")
    """Undecoded: what may be in them is up to the tool."""


class SubscriptionFilter(Struct, frozen=True, rename="camel"):
    """What a client wants to be told of."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class Listen(RequestParams, frozen=True, kw_only=True):
    """Parameters of `subscriptions/listen`."""

    notifications: SubscriptionFilter


class PromptReference(Struct, frozen=True, tag_field="type", tag="ref/prompt"):
    """What is completed: an argument of a prompt."""

    name: str
    title: str | None = None


class TemplateReference(Struct, frozen=True, tag_field="type", tag="ref/resource"):
    """What is completed: a variable of a template."""

    uri: str


class Argument(Struct, frozen=True):
    """The variable and what has been typed of it so far."""

    name: str
    value: str


class CompletionContext(Struct, frozen=True):
    """The variables that are already known."""

    arguments: dict[str, str] | None = None


class Complete(RequestParams, frozen=True, kw_only=True):
    """Parameters of `completion/complete`."""

    ref: PromptReference | TemplateReference
    argument: Argument
    context: CompletionContext | None = None


class Cancelled(Struct, frozen=True, rename="camel"):
    """Parameters of `notifications/cancelled`."""

    request_id: RequestId | None = None
    reason: Annotated[str, msgspec.Meta(max_length=10_000)] | None = None


PARAMS: Mapping[str, type[RequestParams]] = {
    "initialize": Initialize,
    "server/discover": RequestParams,
    "ping": RequestParams,
    "logging/setLevel": SetLevel,
    "resources/list": ListResources,
    "resources/read": ReadResource,
    "resources/metadata": ResourceMetadata,
    "resources/templates/list": ListTemplates,
    "resources/subscribe": Subscribe,
    "resources/unsubscribe": Subscribe,
    "prompts/list": ListPrompts,
    "prompts/get": GetPrompt,
    "subscriptions/listen": Listen,
    "completion/complete": Complete,
    "tools/list": ListTools,
    "tools/call": CallTool,
}
"""The parameters of each method."""
