"""Inputs of one request from its client: a person's answers, a model's message, the roots.

Up to 2025-11-25, the request waits while the server sends the client requests of its own. From
2026-07-28 on, the result of the request names the inputs that it needs, and the client repeats the
request with the answers; earlier answers come back in `requestState`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
from typing_extensions import override

from resource_server.errors import CANNOT_ELICIT, CannotElicit
from resource_server.protocol import revisions
from resource_server.protocol.client_features.request_state import RequestState
from resource_server.protocol.client_features.server_requests import (
    MAX_OPEN,
    Capability,
    ServerRequests,
    supports,
)
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.message import UNPARSABLE
from resource_server.protocol.outbox import Send
from resource_server.protocol.params import ClientCapabilities, InteractiveParams
from resource_server.protocol.revisions import Revision
from resource_server.runtime.eager import settle
from resource_server.runtime.timing import Timing

MAX_PARAMS_BYTES = 4 * 1024 * 1024
"""Maximum bytes of a question as JSON: more than any model takes."""

_LACKING: Mapping[Capability, str] = {
    "elicitation": CANNOT_ELICIT,
    "sampling": "this client offers no model",
    "roots": "this client tells no roots",
}

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class Input(Protocol[T_co]):
    """One input that a client is asked for."""

    capability: ClassVar[Capability]
    """The capability that a client needs for it."""
    method: ClassVar[str]
    """The method that asks for it."""
    max_answer_bytes: ClassVar[int]
    """Maximum bytes of an answer as JSON."""

    def params(self, revision: Revision) -> Mapping[str, Any]:
        """Return the parameters of the method.

        Raises:
            CannotElicit: the revision cannot express them.
        """
        ...

    def answer(self, data: msgspec.Raw) -> T_co:
        """Return the answer in a result.

        Raises:
            msgspec.ValidationError: the result has another shape.
            CannotElicit: it does not fit the request.
        """
        ...


class ClientInputs(Protocol):
    """Asks the client for the inputs of one request."""

    interruption: RequestInterrupted | None = None
    """What ends the request in the place of its result; None if nothing does."""

    def can(self, capability: Capability) -> bool:
        """Return whether the client has a capability that this request can use."""
        ...

    async def ask(self, key: str, wanted: Input[T]) -> T:
        """Return the answer of the client; `key` identifies the input within the request.

        Raises:
            CannotElicit: the client cannot, does not answer in time, or the answer is invalid.
            RequestInterrupted: the result of the request asks for the input (2026-07-28).
        """
        ...


class RequestInterrupted(BaseException):
    """Ends a request. Not an `Exception`, which a tool might handle as a failure of its own."""


class InvalidAnswer(RequestInterrupted):
    """The state or an answer in the request is malformed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.fault = Fault(revisions.INVALID_PARAMS, f"Invalid params: {reason}")


class MissingCapability(CannotElicit, Fault):
    """The client lacks a capability: a JSON-RPC error of its own (2026-07-28)."""

    def __init__(self, capability: Capability) -> None:
        data: Any = {"requiredCapabilities": {capability: {}}}
        Fault.__init__(self, revisions.MISSING_CAPABILITY, _LACKING[capability], data)


class InputRequired(RequestInterrupted):
    """Ends a request with the inputs that it needs as its result."""

    def __init__(self, requests: Mapping[str, Any], state: str) -> None:
        super().__init__(", ".join(requests))
        self._requests = requests
        self._state = state

    def members(self) -> bytes:
        """Return the members of the result."""
        return _encode({"inputRequests": self._requests, "requestState": self._state})[1:-1]


class RequestInputs(ClientInputs):
    """Asks by requests to the client, up to 2025-11-25."""

    def __init__(
        self, revision: Revision, requests: ServerRequests | None, send: Send, timing: Timing
    ) -> None:
        self._revision = revision
        self._requests = requests
        """None if no request can reach the client."""
        self._send = send
        self._timing = timing

    @override
    def can(self, capability: Capability) -> bool:
        if self._requests is None or (capability == "elicitation" and not self._revision.forms):
            return False
        return capability in self._requests.capabilities

    @override
    async def ask(self, key: str, wanted: Input[T]) -> T:
        if self._requests is None or not self.can(wanted.capability):
            raise CannotElicit(_LACKING[wanted.capability])
        timing = self._timing
        is_listing = wanted.capability == "roots"
        timeout_s = timing.roots_timeout_s if is_listing else timing.elicitation_timeout_s
        params = _params(wanted, self._revision)
        request = self._requests.request(wanted.method, params, self._send, timeout_s)
        try:
            return _answer(wanted, await settle(request))
        except UNPARSABLE:
            raise CannotElicit("the client's answer does not fit the question") from None


class ResultInputs(ClientInputs):
    """Asks by the result of the request, from 2026-07-28 on."""

    def __init__(
        self,
        revision: Revision,
        capabilities: ClientCapabilities,
        given: InteractiveParams,
        state: RequestState,
    ) -> None:
        """Take the answers of a request.

        Raises:
            InvalidAnswer: its state is not one of this request.
        """
        self._revision = revision
        self._capabilities = capabilities
        self._state = state
        self._answers = dict(given.input_responses or {})
        self._used: dict[str, msgspec.Raw] = {}
        """The answers that were asked for: the others are never kept."""
        self._open: dict[str, Any] = {}
        """The inputs of this round, which have no answer yet."""
        self._refusal: str | None = None
        """Why none of this round is asked for."""
        if given.request_state is not None:
            try:
                self._answers = {**state.opened(given.request_state), **self._answers}
            except ValueError as error:
                raise InvalidAnswer(f"requestState {error}") from None

    @override
    def can(self, capability: Capability) -> bool:
        return supports(self._capabilities, capability)

    @override
    async def ask(self, key: str, wanted: Input[T]) -> T:
        if not self.can(wanted.capability):
            raise MissingCapability(wanted.capability)
        if key in self._answers:
            self._used[key] = self._answers[key]
            try:
                return _answer(wanted, self._answers[key])
            except UNPARSABLE as error:
                self.interruption = InvalidAnswer(f"inputResponses: {key}: {error}")
                raise self.interruption from None
        if key in self._open:
            self._refusal = f"a tool asks two questions by the key '{key}'"
        elif len(self._open) >= MAX_OPEN:
            self._refusal = f"this client has {MAX_OPEN} questions to answer already"
        else:
            await self._open_input(key, wanted)
        if self._refusal is not None:  # by this input, or by one beside it
            self.interruption = None
            raise CannotElicit(self._refusal)
        self.interruption = InputRequired(self._open, self._state.sealed(self._used))
        raise self.interruption

    async def _open_input(self, key: str, wanted: Input[object]) -> None:
        """Add an input to this round, and wait until those that are asked for beside it have."""
        params = _params(wanted, self._revision)
        state = self._state.sealed(self._used)
        self._open[key] = {"method": wanted.method, "params": params}
        # Set immediately: the question stands even if the tool handles a failure beside it.
        self.interruption = InputRequired(self._open, state)
        count = 0
        while count < len(self._open):
            count = len(self._open)
            await settle(asyncio.sleep(0))


def _params(wanted: Input[object], revision: Revision) -> msgspec.Raw:
    params = _encode(wanted.params(revision))
    if len(params) > MAX_PARAMS_BYTES:
        raise CannotElicit(f"the question is longer than {MAX_PARAMS_BYTES} bytes")
    return msgspec.Raw(params)


def _answer(wanted: Input[T], data: msgspec.Raw) -> T:
    if len(memoryview(data)) > wanted.max_answer_bytes:
        raise CannotElicit(f"the answer is longer than {wanted.max_answer_bytes} bytes")
    return wanted.answer(data)
