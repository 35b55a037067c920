"""Elicitation: questions to the person behind a client, for one request.

Up to 2025-11-25, the request waits while the server sends the client a request of its own. From
2026-07-28 on, the result of the request is the question, and the client repeats the request with
the answer; earlier answers come back in `requestState`. The state is not signed: a client can only
change its own answers, and all answers are validated alike.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from resource_server.errors import CANNOT_ELICIT, CannotElicit
from resource_server.protocol import revisions
from resource_server.protocol.client_features.elicitation_form import ElicitationForm
from resource_server.protocol.client_features.server_requests import (
    Capability,
    ServerRequests,
    supports,
)
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.message import UNPARSABLE
from resource_server.protocol.outbox import Send
from resource_server.protocol.params import ClientCapabilities
from resource_server.protocol.revisions import Revision
from resource_server.provider.tools import ElicitationAnswer, Schema
from resource_server.runtime.eager import settle

MAX_STATE_CHARACTERS = 256 * 1024
"""Maximum characters of `requestState`."""

_METHOD = "elicitation/create"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Elicitor(Protocol):
    """Sends the elicitations of one request."""

    def can(self, capability: Capability) -> bool:
        """Return whether the client has a capability that this request can use."""
        ...

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """Ask the person; see `resource_server.provider.tools.ToolRequest.elicit`.

        Raises:
            CannotElicit: the client cannot, nobody answers in time, or the answer is invalid.
            RequestInterrupted: the result of the request is the question (2026-07-28).
        """
        ...


class RequestInterrupted(BaseException):
    """Ends a request. Not an `Exception`, which a tool might handle as a failure of its own."""


class InvalidAnswer(RequestInterrupted):
    """The answer in the request does not fit the question."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.fault = Fault(revisions.INVALID_PARAMS, f"Invalid params: {reason}")


class MissingCapability(CannotElicit, Fault):
    """The client lacks the elicitation capability: a JSON-RPC error of its own (2026-07-28)."""

    def __init__(self) -> None:
        data: Any = {"requiredCapabilities": {"elicitation": {}}}
        Fault.__init__(self, revisions.MISSING_CAPABILITY, CANNOT_ELICIT, data)


class InputRequired(RequestInterrupted):
    """Ends a request with a question as its result."""

    def __init__(self, key: str, question: Mapping[str, Any], state: str) -> None:
        super().__init__(key)
        self.key = key
        self.question = question
        self.state = state

    def members(self) -> bytes:
        """Return the members of the result."""
        members = {"inputRequests": {self.key: self.question}, "requestState": self.state}
        return _encode(members)[1:-1]


class RequestElicitor:
    """Elicits by a request to the client, up to 2025-11-25."""

    def __init__(
        self, revision: Revision, requests: ServerRequests | None, send: Send, timeout_s: float
    ) -> None:
        self._revision = revision
        self._requests = requests
        """None if no request can reach the client."""
        self._send = send
        self._timeout_s = timeout_s

    def can(self, capability: Capability) -> bool:
        """See `Elicitor.can`."""
        if self._requests is None or (capability == "elicitation" and not self._revision.forms):
            return False
        return supports(self._requests.capabilities, capability)

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """See `Elicitor.elicit`."""
        if self._requests is None or not self.can("elicitation"):
            raise CannotElicit
        form = ElicitationForm(schema)
        params = {"message": message, "requestedSchema": form.schema(self._revision)}
        result = await settle(self._requests.request(_METHOD, params, self._send, self._timeout_s))
        try:
            return form.answer(result)
        except UNPARSABLE:
            raise CannotElicit("the client's answer does not fit the question") from None


class ResultElicitor:
    """Elicits by the result of the request, from 2026-07-28 on."""

    def __init__(
        self,
        revision: Revision,
        capabilities: ClientCapabilities,
        responses: Mapping[str, msgspec.Raw] | None,
        state: str | None,
    ) -> None:
        self._revision = revision
        self._capabilities = capabilities
        self._responses = responses or {}
        self._state = state

    def can(self, capability: Capability) -> bool:
        """See `Elicitor.can`."""
        return capability == "elicitation" and supports(self._capabilities, capability)

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """See `Elicitor.elicit`."""
        if not self.can("elicitation"):
            raise MissingCapability
        form = ElicitationForm(schema)
        given = {**_answers(self._state), **self._responses}
        if key not in given:
            params = {"message": message, "requestedSchema": form.schema(self._revision)}
            raise InputRequired(key, {"method": _METHOD, "params": params}, _state(given))
        try:
            return form.answer(given[key])
        except UNPARSABLE as error:
            raise InvalidAnswer(f"inputResponses: {key}: {error}") from None


def _state(answers: Mapping[str, msgspec.Raw]) -> str:
    state = base64.urlsafe_b64encode(_encode(answers)).decode("ascii")
    if len(state) > MAX_STATE_CHARACTERS:
        raise CannotElicit("the answers so far are too long")
    return state


def _answers(state: str | None) -> Mapping[str, msgspec.Raw]:
    if state is None:
        return {}
    try:
        if len(state) > MAX_STATE_CHARACTERS:
            raise ValueError
        return _decode(base64.b64decode(state.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, *UNPARSABLE):
        raise InvalidAnswer("requestState is not one of this server's") from None
