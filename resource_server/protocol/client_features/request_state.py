"""The state of a request between its rounds (`requestState`), kept by the client and signed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from resource_server.errors import CannotElicit
from resource_server.protocol.message import UNPARSABLE
from resource_server.runtime.server_key import Seal, ServerKey

MAX_STATE_CHARACTERS = 256 * 1024
"""Maximum characters of `requestState`."""

_PURPOSE = "request state"
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
        self._seal = Seal(key.derived(_PURPOSE))
        self._subject = _encode_subject(subject)
        self._lifetime_s = lifetime_s

    def sealed(self, answers: Mapping[str, msgspec.Raw]) -> str:
        """Return the state that holds these answers.

        Raises:
            CannotElicit: they are too long.
        """
        expires = round((time.time() + self._lifetime_s) * 1000)
        state = self._seal.sealed(expires.to_bytes(_EXPIRY_BYTES) + _encode(answers), self._subject)
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
            body = self._seal.opened(state, self._subject)
        except ValueError:
            raise foreign from None
        if int.from_bytes(body[:_EXPIRY_BYTES]) < time.time() * 1000:
            raise ValueError("has expired; send the request again without it")
        try:
            return _decode(body[_EXPIRY_BYTES:])
        except UNPARSABLE:  # of another version of this server
            raise foreign from None
