"""A JSON-RPC batch: many messages that are answered together (2025-03-26 only)."""

from __future__ import annotations

from resource_server.protocol import revisions
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.outbox import Send

MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Of the answers of a batch; once there are more, the rest of it is refused."""


class Batch:
    """The answers of one batch, until the last is there."""

    def __init__(self) -> None:
        self._replies: list[bytes] = []
        self._length = 0

    def add(self, reply: bytes) -> None:
        """Take one answer."""
        self._replies.append(reply)
        self._length += len(reply)

    def check(self) -> None:
        """Refuse a request whose answer would make the batch longer than a client should get."""
        if self._length > MAX_BATCH_BYTES:
            reason = "The answers of this batch are too long; send this request by itself"
            raise Fault(revisions.BUSY, reason, {"retryable": True})

    def reply(self, reply: Send) -> None:
        """Send all answers as one; nothing where there are none."""
        if self._replies:
            reply(b"[" + b",".join(self._replies) + b"]")
