"""Ids of sessions, signed by the server's key: any server with the key can continue a session."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from resource_server.access import Caller, Rights
from resource_server.protocol import revisions
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.client_features.server_requests import Capability
from resource_server.protocol.revisions import Revision
from resource_server.runtime.server_key import Seal, ServerKey

MAX_AGE_S = 7 * 86_400
"""How long after its beginning a session can be continued elsewhere."""

_PURPOSE = "session"
_MAX_CHARACTERS = 300
_MAX_SKEW_S = 300
"""Maximum difference of two servers' clocks."""
_MAX_ENDED = 100_000
_TAG_BYTES = 16
_NONCE_BYTES = 16
_CALLER_BYTES = 16


class _Start(msgspec.Struct, frozen=True, array_like=True):
    """The beginning of a session, as its id holds it."""

    nonce: bytes
    at: int
    """In seconds since the epoch."""
    caller: bytes
    """A digest of the subject of the caller's token, and of its rights that matter here."""
    revision: str
    capabilities: frozenset[Capability]


class SessionId(NamedTuple):
    """The id of a session, with the client's revision and capabilities."""

    text: str
    key: bytes
    """The session's name where its servers share its state."""
    revision: Revision
    capabilities: frozenset[Capability]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Start).decode


def _subject_alone(caller: Caller) -> Rights:
    return Rights(None if caller.scopes is None else frozenset())


class SessionIds:
    """Issues the ids of sessions, and opens those of other servers with the same key.

    If the key is one of this process only, its ids are worth nothing elsewhere, or later.
    """

    def __init__(self, key: ServerKey, rights: Callable[[Caller], Rights] = _subject_alone) -> None:
        self._seal = Seal(key.derived(_PURPOSE), tag_bytes=_TAG_BYTES)
        self._is_shared = key.is_shared
        self._rights = rights
        """Returns what decides what a caller sees."""
        self._ended = OrderedDict[bytes, None]()
        """Nonces of the last sessions that their clients have ended here."""

    def issued(self, connection: ClientConnection, revision: Revision, caller: Caller) -> SessionId:
        """Return the id of a session that begins."""
        start = _Start(
            nonce=secrets.token_bytes(_NONCE_BYTES),
            at=int(time.time()),
            caller=self._digest(caller),
            revision=revision.name,
            capabilities=connection.capabilities,
        )
        text = self._seal.sealed(_encode(start))
        return SessionId(text, start.nonce, revision, start.capabilities)

    def opened(self, session_id: str, caller: Caller) -> SessionId | None:
        """Return the id of a session that may be continued.

        None for a session that no server with this key has begun, that is another caller's, was
        ended here by its client, or is too old.
        """
        start = self._start(session_id)
        if start is None or start.nonce in self._ended or start.caller != self._digest(caller):
            return None
        revision = revisions.HANDSHAKE.get(start.revision)
        if revision is None or not -_MAX_SKEW_S <= time.time() - start.at < MAX_AGE_S:
            return None
        return SessionId(session_id, start.nonce, revision, start.capabilities)

    def end(self, session_id: str) -> None:
        """Never open the id of a session again, here."""
        if start := self._start(session_id):
            self._ended[start.nonce] = None
            if len(self._ended) > _MAX_ENDED:
                self._ended.popitem(last=False)

    def _start(self, session_id: str) -> _Start | None:
        if not self._is_shared or len(session_id) > _MAX_CHARACTERS:
            return None
        try:
            return _decode(self._seal.opened(session_id))
        except ValueError:  # also of another version
            return None

    def _digest(self, caller: Caller) -> bytes:
        scopes, claims = self._rights(caller)
        seen = None if scopes is None else sorted(scopes)
        return blake2b(_encode((caller.subject, seen, claims)), digest_size=_CALLER_BYTES).digest()
