"""Protocol revisions: methods, error codes and features. The only place that compares them.

Sources: the schema of each revision. 2026-07-28 replaces the initialize handshake by an envelope in
the `_meta` of each request. Which revision a client gets: `client_connection`.
"""

from __future__ import annotations

import msgspec

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_REVISION = -32022
# From the range that JSON-RPC leaves to implementations:
TOO_LARGE = -32010
DEADLINE_EXCEEDED = -32011
BUSY = -32012
UNREADABLE = -32013

PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SKILLS = "io.modelcontextprotocol/skills"
"""The extension of SEP-2640, in the capabilities of every revision."""
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

_RESOURCE_METHODS = frozenset(
    (
        "completion/complete",
        "prompts/get",
        "prompts/list",
        "resources/directory/read",
        "resources/list",
        "resources/metadata",
        "resources/read",
        "resources/templates/list",
        "skills/get",
        "skills/list",
        "tools/call",
        "tools/list",
    )
)
_HANDSHAKE_METHODS = _RESOURCE_METHODS | {
    "initialize",
    "logging/setLevel",
    "ping",
    "resources/subscribe",
    "resources/unsubscribe",
}
_MODERN_METHODS = _RESOURCE_METHODS | {"server/discover", "subscriptions/listen"}


class Revision(msgspec.Struct, frozen=True):
    """One revision of the protocol."""

    name: str
    methods: frozenset[str] = _HANDSHAKE_METHODS
    modern: bool = False
    """Whether requests carry the envelope of 2026-07-28 instead of following a handshake."""
    batches: bool = False
    """Whether JSON-RPC batches are accepted."""
    resource_not_found: int = -32002
    completions_capability: bool = True
    forms: bool = True
    """Whether it has elicitation forms."""
    plain_forms: bool = False
    """Whether forms lack defaults other than of booleans, and choices with `oneOf`."""
    progress_messages: bool = True
    """Whether progress has a message."""
    audio_blocks: bool = True
    """Whether it has audio blocks."""
    titles: bool = True
    """Whether prompts, tools and resources have a `title`, and there are link blocks."""
    block_annotations: bool = True
    """Whether the block of an embedded resource repeats its annotations (SEP-2093, section 6)."""
    structured_results: bool = True
    """Whether tools have output schemas and structured results."""
    tool_annotations: bool = True
    """Whether tools have annotations."""


_2024_11_05 = Revision(
    "2024-11-05",
    completions_capability=False,
    audio_blocks=False,
    progress_messages=False,
    titles=False,
    forms=False,
    structured_results=False,
    tool_annotations=False,
)
_2025_03_26 = Revision(
    "2025-03-26", batches=True, titles=False, forms=False, structured_results=False
)
_2025_06_18 = Revision("2025-06-18", plain_forms=True)
_2025_11_25 = Revision("2025-11-25")
_2026_07_28 = Revision(
    "2026-07-28",
    _MODERN_METHODS,
    modern=True,
    resource_not_found=INVALID_PARAMS,
    block_annotations=False,
)

HANDSHAKE = {
    revision.name: revision for revision in (_2024_11_05, _2025_03_26, _2025_06_18, _2025_11_25)
}
MODERN = {_2026_07_28.name: _2026_07_28}
LATEST_HANDSHAKE = _2025_11_25
LATEST_MODERN = _2026_07_28
