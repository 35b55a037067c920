"""JSON-RPC messages decoded from bytes, for all transports.

A message is decoded once: first its parts, then its parameters when they are needed. Lone
surrogates, which are valid JSON but not valid text, are replaced where no response depends on them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from resource_server.protocol import revisions
from resource_server.protocol.error_mapping import Fault, method_not_found
from resource_server.protocol.params import PARAMS, RequestId, RequestParams

UNPARSABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of a decoder for bytes that do not fit."""

MAX_BATCH = 100
"""Maximum messages of a batch."""

Header: TypeAlias = Callable[[bytes], str | None]
"""Returns the value of an HTTP header by its name in lower case; None if absent."""

_LONE_SURROGATE = re.compile(
    rb"""(?<!\\)  # after an escaped backslash it is plain text
    \\u[dD](?:
        [89abAB][0-9a-fA-F]{2} (?! \\u[dD][c-fC-F][0-9a-fA-F]{2} )
      | [c-fC-F][0-9a-fA-F]{2} (?<! \\u[dD][89abAB][0-9a-fA-F]{2} \\u[dD][c-fC-F][0-9a-fA-F]{2} )
    )""",
    re.VERBOSE,
)
_REPLACEMENT = "\ufffd"

_MEMBER = rb"""\s*"(id|jsonrpc|method)"\s*:\s*("[^"\\]*"|-?\d{1,18})\s*"""
_FIRST_MEMBERS = re.compile(rb"\s*\{((?:%b[,}])*)" % _MEMBER)
_LAST_MEMBERS = re.compile(rb"[,{]((?:%b,)*%b)\}\s*\Z" % (_MEMBER, _MEMBER))


class _Envelope(Struct):
    """The wire shape of a JSON-RPC request, notification or response."""

    jsonrpc: Literal["2.0"]
    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _MalformedEnvelope(Struct):
    """The readable parts of an invalid message."""

    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")


class _IdOnly(Struct):
    id: RequestId | None = None


class _LooseMeta(Struct):
    protocol_version: Any = msgspec.field(default=UNSET, name=revisions.PROTOCOL_VERSION)
    traceparent: Raw | UnsetType = UNSET
    tracestate: Raw | UnsetType = UNSET


class _LooseParams(Struct):
    """Parameters that do not fit their method, each of any type."""

    meta: _LooseMeta | None = msgspec.field(default=None, name="_meta")
    uri: Any = UNSET
    name: Any = UNSET


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_malformed = msgspec.json.Decoder(_MalformedEnvelope).decode
_decode_id = msgspec.json.Decoder(_IdOnly).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode_loose = msgspec.json.Decoder(_LooseParams).decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_decode_text = msgspec.json.Decoder(str).decode
_COMMON = msgspec.json.Decoder(RequestParams)
_DECODERS = {method: msgspec.json.Decoder(shape) for method, shape in PARAMS.items()}


class Unreadable(Fault):
    """Bytes that are not a JSON-RPC message."""

    def __init__(self, code: int, message: str, request_id: RequestId | None = None) -> None:
        super().__init__(code, message)
        self.request_id = request_id
        """The id of the message, if that much can be read."""


class JsonRpcMessage(Struct, eq=False):
    """A JSON-RPC request, notification or response."""

    id: RequestId | UnsetType | None
    """null only in an error response; a request with it is refused."""
    method: str | UnsetType
    raw_params: Raw
    result: Raw | UnsetType
    error: Raw | UnsetType
    size: int
    """Bytes of the whole message."""
    fault: Fault | None = None
    """Why a message with readable parts is refused all the same."""
    decoded_params: RequestParams | None = None
    """The parameters, once `params` has decoded them."""

    def params(self) -> RequestParams:
        """Return the parameters of a request in the shape of its method.

        Raises:
            Fault: they do not fit, or no method has this name.
        """
        if self.decoded_params is None:
            decoder = None if self.method is UNSET else _DECODERS.get(self.method)
            if decoder is None:
                raise method_not_found("" if self.method is UNSET else self.method)
            self.decoded_params = _decode_params(decoder, self.raw_params)
        return self.decoded_params

    def common_params(self) -> RequestParams:
        """Return the parameters that all methods have.

        Raises:
            Fault: they do not fit.
        """
        return self.decoded_params or _decode_params(_COMMON, self.raw_params)

    def param(self, name: Literal["uri", "name"]) -> object:
        """Return one parameter, valid or not; UNSET where the message has none."""
        return getattr(self._readable_params(), name, UNSET)

    @property
    def version(self) -> object:
        """The protocol version in `_meta`, valid or not; UNSET where the message has none."""
        meta = self._readable_params().meta
        return UNSET if meta is None else meta.protocol_version

    @property
    def trace_context(self) -> Mapping[str, str] | None:
        """`traceparent` and `tracestate` in `_meta`; None where the message has none."""
        meta = self._readable_params().meta
        if meta is None or meta.traceparent is UNSET:
            return None
        try:
            parent = _decode_text(meta.traceparent)
            state = "" if meta.tracestate is UNSET else _decode_text(meta.tracestate)
        except UNPARSABLE:
            return None
        return {"traceparent": parent, "tracestate": state} if parent else None

    def _readable_params(self) -> RequestParams | _LooseParams:
        try:
            return self.params()
        except Fault:
            pass
        try:
            return _decode_loose(self.raw_params)
        except UNPARSABLE:
            return _LooseParams()


def _decode_params(decoder: msgspec.json.Decoder[RequestParams], raw_params: Raw) -> RequestParams:
    try:
        return decoder.decode(raw_params)
    except msgspec.ValidationError as error:
        raise Fault(revisions.INVALID_PARAMS, f"Invalid params: {error}") from None
    except UNPARSABLE:
        raise Fault(revisions.PARSE_ERROR, "Parse error") from None


def decode_message(data: bytes) -> JsonRpcMessage:
    """Decode one message.

    Raises:
        Unreadable: the bytes hold none.
    """
    try:
        envelope = _decode_envelope(data)
    except msgspec.ValidationError:
        return _malformed(data)
    except UNPARSABLE:
        # Some shells begin their output with one; RFC 8259 lets a reader skip it.
        if data.startswith(codecs.BOM_UTF8) and not data.startswith(codecs.BOM_UTF8, 3):
            return decode_message(data[3:])
        return _without_lone_surrogates(data)
    return _message(envelope, len(data))


def _message(found: _Envelope, size: int, fault: Fault | None = None) -> JsonRpcMessage:
    return JsonRpcMessage(
        found.id, found.method, found.params, found.result, found.error, size, fault
    )


def _malformed(data: bytes) -> JsonRpcMessage:
    if not _is_json(data):
        # What is wrong with its members came first.
        raise Unreadable(revisions.PARSE_ERROR, "Parse error")
    try:
        found = _decode_malformed(data)
    except UNPARSABLE:
        raise Unreadable(revisions.INVALID_REQUEST, "Invalid request", _salvaged_id(data)) from None
    fault = Fault(revisions.INVALID_REQUEST, "Invalid request")
    return JsonRpcMessage(found.id, found.method, found.params, UNSET, UNSET, len(data), fault)


def _is_json(data: bytes) -> bool:
    try:
        data.decode()
        _decode_raw(_LONE_SURROGATE.sub(rb"\\ufffd", data))
    except UNPARSABLE:
        return False
    return True


def _salvaged_id(data: bytes) -> RequestId | None:
    try:
        return _decode_id(data).id
    except UNPARSABLE:
        return None


def request_id_at_ends(head: bytes, tail: bytes) -> RequestId | None:
    """Return the id of a request by the first and last bytes of its message.

    None where its id or method is not among the members there: the id of a response is one of ours,
    and no error may have it.
    """
    ends = (_FIRST_MEMBERS.match(head), _LAST_MEMBERS.search(tail))
    members = b",".join(end[1].strip(b",}") for end in ends if end is not None)
    found = dict(re.findall(_MEMBER, members))
    if b"method" not in found or b"id" not in found:
        return None
    return _salvaged_id(b'{"id":%b}' % found[b"id"])


def _without_lone_surrogates(data: bytes) -> JsonRpcMessage:
    """Decode a message with U+FFFD for each lone surrogate; a request is refused by its id."""
    replaced, count = _LONE_SURROGATE.subn(rb"\\ufffd", data)
    if not count:
        raise Unreadable(revisions.PARSE_ERROR, "Parse error")
    try:
        envelope = _decode_envelope(replaced)
    except UNPARSABLE:
        raise Unreadable(revisions.PARSE_ERROR, "Parse error") from None
    if isinstance(envelope.id, str) and _REPLACEMENT in envelope.id:
        raise Unreadable(revisions.PARSE_ERROR, "Parse error")
    is_request = UNSET not in (envelope.id, envelope.method)
    fault = Fault(revisions.PARSE_ERROR, "Parse error") if is_request else None
    return _message(envelope, len(data), fault)


def is_batch(data: bytes) -> bool:
    """Return whether the bytes start a JSON-RPC batch."""
    return data.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["


def decode_batch(data: bytes) -> list[Raw]:
    """Return the messages of a batch, undecoded.

    Raises:
        Unreadable: the bytes are not an array.
    """
    try:
        return _decode_items(data.removeprefix(codecs.BOM_UTF8))
    except UNPARSABLE:
        raise Unreadable(revisions.PARSE_ERROR, "Parse error") from None
