"""As much of a JSON-RPC message as decides where it goes; the engine sees whether it is valid."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from resource_server.protocol import admission, params, revisions
from resource_server.protocol.admission import UNPARSABLE
from resource_server.protocol.connection import MAX_BATCH
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.params import RequestId


class Malformed(msgspec.Struct):
    """A message that is none of JSON-RPC: the engine refuses it, with its id."""

    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")


Message: TypeAlias = params.Message | Malformed


class _Meta(msgspec.Struct, rename={"version": revisions.PROTOCOL_VERSION}):
    version: Any = UNSET


class Params(msgspec.Struct):
    """What headers repeat of the parameters: each of any type, or UNSET."""

    meta: _Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")
    uri: Any = UNSET
    name: Any = UNSET

    @property
    def version(self) -> Any:
        """The revision in the envelope."""
        return UNSET if self.meta is UNSET else self.meta.version


_NONE = Params()

_decode = msgspec.json.Decoder(params.Message).decode
_decode_malformed = msgspec.json.Decoder(Malformed).decode
_decode_batch = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_params = msgspec.json.Decoder(Params).decode


def parsed(body: bytes) -> Message:
    """Return the message in a body.

    Raises:
        Fault: it is none.
    """
    try:
        with suppress(msgspec.ValidationError):
            return _decode(body)
        return _decode_malformed(body)
    except msgspec.ValidationError:
        raise Fault(revisions.INVALID_REQUEST, "Invalid request") from None
    except UNPARSABLE:
        message = admission.mended(body)
        if message is None:
            raise Fault(revisions.PARSE_ERROR, "Parse error") from None
        return Malformed(message.id, message.method, message.params)


def params_of(message: Message) -> Params:
    """Return what headers repeat of the parameters; nothing of those that cannot be decoded."""
    try:
        return _decode_params(message.params)
    except UNPARSABLE:
        return _NONE  # The engine says what is wrong with them.


def count(body: bytes) -> int:
    """Return how many messages a batch has that may be answered; 0 where it is none."""
    if body.lstrip()[:1] != b"[":
        return 0
    try:
        return min(max(len(_decode_batch(body)), 1), MAX_BATCH)
    except UNPARSABLE:
        return 1
