"""What differs between protocol revisions: eras, methods, error codes. The only place that knows.

Sources: the schema of each revision; 2026-07-28 replaces the initialize handshake by an envelope in
each request's `_meta`.
"""

from __future__ import annotations

import msgspec

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_REVISION = -32022
# Of the range that JSON-RPC leaves to implementations:
TOO_LARGE = -32010
DEADLINE_EXCEEDED = -32011
BUSY = -32012

PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

_RESOURCE_METHODS = frozenset(
    (
        "completion/complete",
        "resources/list",
        "resources/metadata",
        "resources/read",
        "resources/templates/list",
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
    """Whether a JSON-RPC batch is received."""
    resource_not_found: int = -32002
    completions_capability: bool = True


_2024_11_05 = Revision("2024-11-05", completions_capability=False)
_2025_03_26 = Revision("2025-03-26", batches=True)
_2025_06_18 = Revision("2025-06-18")
_2025_11_25 = Revision("2025-11-25")
_2026_07_28 = Revision(
    "2026-07-28", _MODERN_METHODS, modern=True, resource_not_found=INVALID_PARAMS
)

HANDSHAKE = {
    revision.name: revision for revision in (_2024_11_05, _2025_03_26, _2025_06_18, _2025_11_25)
}
MODERN = {_2026_07_28.name: _2026_07_28}
LATEST_HANDSHAKE = _2025_11_25
LATEST_MODERN = _2026_07_28
EVERY_METHOD = _HANDSHAKE_METHODS | _MODERN_METHODS
