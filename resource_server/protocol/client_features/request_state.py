"""The state of a request between its rounds (`requestState`), kept by the client and signed."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from hashlib import blake2b
from secrets import compare_digest
from typing import Any

import msgspec

from resource_server.errors import CannotElicit
from resource_server.protocol.message import UNPARSABLE
from resource_server.runtime.server_key import ServerKey

MAX_STATE_CHARACTERS = 256 * 1024
"""Maximum characters of `requestState`."""

_PURPOSE = "request state"
_TAG_BYTES = 32
_EXPIRY_BYTES = 8

_encode_subject = msgspec.json.Encoder(order="deterministic").encode
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class RequestState:
    """Seals the answers so far, for one request of one caller and for a limited time.

    A client can neither change a state nor use it with another method, tool, argument or caller.
    It can use one again until it expires, which repeats the same request with the same answers:
    nothing is remembered here, so that any server with the same key continues a request.
    """

    def __init__(
        self,
        key: ServerKey,
        subject: tuple[str, str, str | None, Mapping[str, Any]],
        lifetime_s: float,
    ) -> None:
        """Take the key, and the subject: method, name, subject of the caller, and arguments."""
        self._key = key.derived(_PURPOSE)
        self._subject = subject
        self._lifetime_s = lifetime_s

    def sealed(self, answers: Mapping[str, msgspec.Raw]) -> str:
        """Return the state that holds these answers.

        Raises:
            CannotElicit: they are too long.
        """
        expires = round((time.time() + self._lifetime_s) * 1000)
        body = expires.to_bytes(_EXPIRY_BYTES) + _encode(answers)
        state = base64.urlsafe_b64encode(self._tag(body) + body).decode("ascii")
        if len(state) > MAX_STATE_CHARACTERS:
            raise CannotElicit("the answers so far are too long")
        return state

    def opened(self, state: str) -> Mapping[str, msgspec.Raw]:
        """Return the answers of a state.

        Raises:
            ValueError: it is not one of this request, or has expired; the message names it.
        """
        foreign = ValueError("is not one of this server's for this request and caller")
        if len(state) > MAX_STATE_CHARACTERS:
            raise foreign
        try:
            data = base64.b64decode(state.encode("ascii"), altchars=b"-_", validate=True)
        except ValueError:
            raise foreign from None
        tag, body = data[:_TAG_BYTES], data[_TAG_BYTES:]
        if not compare_digest(tag, self._tag(body)):
            raise foreign
        if int.from_bytes(body[:_EXPIRY_BYTES]) < time.time() * 1000:
            raise ValueError("has expired; send the request again without it")
        try:
            return _decode(body[_EXPIRY_BYTES:])
        except UNPARSABLE:  # of another version of this server
            raise foreign from None

    def _tag(self, body: bytes) -> bytes:
        subject = blake2b(_encode_subject(self._subject)).digest()
        return blake2b(subject + body, key=self._key, digest_size=_TAG_BYTES).digest()
