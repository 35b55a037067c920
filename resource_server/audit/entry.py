"""One line of the record: a request with its outcome, or an event of the record itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec

from resource_server import uris

Decision: TypeAlias = Literal["served", "not found", "refused", "failed", "cancelled"]
"""`not found` is also what is hidden; `refused` is an invalid request, or one over a limit."""
Event: TypeAlias = Literal["started", "ended", "torn", "dropped", "moved", "cut", "foreign"]
"""`torn`: the line before was not written to its end. `dropped`: requests have no line. `moved`,
`cut`, `foreign`: another program has renamed or removed the file, shortened it or written to it."""

_UNSAFE = re.compile(r"[^\x20-\x7e]")
"""Characters that are escaped: a terminal, or a program that reads lines, might obey them."""


class AuditClient(msgspec.Struct, frozen=True, omit_defaults=True):
    """The program that sent a request, as it calls itself."""

    name: str | None = None
    version: str | None = None
    address: str | None = None
    """None over stdio."""


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One request with its outcome."""

    time: str
    """When the request came: UTC, with milliseconds."""
    subject: str | None = None
    client: AuditClient = AuditClient()
    mount: str | None = None
    method: str
    name: str | None = None
    """Name of the tool or prompt."""
    uri: str | None = None
    uris: Sequence[str] = ()
    """The resources of a subscription to several."""
    uris_left_out: int = 0
    sql: str | None = None
    """SQL of a caller, without literals and quoted names."""
    version: str | None = None
    """Version of the document that was read."""
    rows: int | None = None
    bytes: int = 0
    """Bytes of the response."""
    decision: Decision
    code: int | None = None
    """JSON-RPC error code of the response."""
    ms: float = 0.0


class AuditEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What happened to the record itself."""

    time: str
    event: Event
    lines: int | None = None
    """Requests without a line."""
    bytes: int | None = None
    """Bytes of a torn line, or those that another program has written or removed."""
    why: str | None = None
    server: str | None = None
    """Version of the server that starts."""


AuditLine: TypeAlias = AuditEntry | AuditEvent

_encode = msgspec.json.Encoder().encode


def encoded_line(line: AuditLine) -> bytes:
    """Return a line as a JSON object of printable ASCII characters."""
    data = _encode(line)
    if data.isascii() and b"\x7f" not in data:
        return data
    return _UNSAFE.sub(_escaped, data.decode()).encode()


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def bounded(text: str, limit: int) -> str:
    """Return text of a client as Unicode, shortened to about `limit` characters."""
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text)} characters)"
    return uris.display(text)


def moment(seconds: float) -> str:
    """Return a time since the epoch as lines have it."""
    whole = int(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * 1000):03}Z"


# Most requests come in the second of the one before.
@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
