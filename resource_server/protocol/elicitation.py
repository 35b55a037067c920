"""What one request asks of the person behind its client, in the way of its revision.

Up to 2025-11-25 it waits, while a request goes the other way round. From 2026-07-28 on it ends with
the question instead, and the client sends it again with the answer; what was answered before comes
back in `requestState`. That is not signed: who changes it changes but their own answers, and all of
them are checked alike.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from resource_server.errors import CANNOT_ELICIT, CannotElicit
from resource_server.protocol import revisions
from resource_server.protocol.elicitation_form import Form
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.message import UNPARSABLE
from resource_server.protocol.outbox import Send
from resource_server.protocol.params import ClientCapabilities
from resource_server.protocol.revisions import Revision
from resource_server.protocol.server_requests import Ability, Questions, offers
from resource_server.provider.tools import ElicitationAnswer, Schema
from resource_server.runtime.eager import settle

MAX_STATE = 256 * 1024
"""Characters of `requestState`."""

_METHOD = "elicitation/create"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Asker(Protocol):
    """Asks for one request."""

    def can(self, ability: Ability) -> bool:
        """Tell whether the client can answer questions of this kind."""
        ...

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """Put a question to the person; see `resource_server.provider.tools.ToolRequest.elicit`.

        Raises:
            CannotElicit: the client cannot, nobody answers in time, or the answer does not fit.
            Interrupted: the question is the request's result, in revisions where it is.
        """
        ...


class Interrupted(BaseException):
    """The request ends here. No `Exception`: no tool is to take it for a failure of its own."""


class InvalidAnswer(Interrupted):
    """What came with the request is no answer to what was asked."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.fault = Fault(revisions.INVALID_PARAMS, f"Invalid params: {reason}")


class MissingCapability(CannotElicit, Fault):
    """The client cannot be asked: an error of its own for what cannot do without (2026-07-28)."""

    def __init__(self) -> None:
        needed: Any = {"requiredCapabilities": {"elicitation": {}}}
        Fault.__init__(self, revisions.MISSING_CAPABILITY, CANNOT_ELICIT, needed)


class InputRequired(Interrupted):
    """The request ends with a question."""

    def __init__(self, key: str, question: Mapping[str, Any], state: str) -> None:
        super().__init__(key)
        self.key = key
        self.question = question
        self.state = state

    def members(self) -> bytes:
        """Return the members of the result."""
        asked = {"inputRequests": {self.key: self.question}, "requestState": self.state}
        return _encode(asked)[1:-1]


class Waiting:
    """Asks by a request to the client, and waits for its answer."""

    def __init__(
        self, revision: Revision, questions: Questions | None, send: Send, seconds: float
    ) -> None:
        self._revision = revision
        self._questions = questions
        """None where the client hears none."""
        self._send = send
        self._seconds = seconds

    def can(self, ability: Ability) -> bool:
        """See `Asker.can`."""
        if self._questions is None or (ability == "elicitation" and not self._revision.forms):
            return False
        return offers(self._questions.capabilities, ability)

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """See `Asker.elicit`."""
        if self._questions is None or not self.can("elicitation"):
            raise CannotElicit
        form = Form(schema)
        asked = {"message": message, "requestedSchema": form.schema(self._revision)}
        answer = await settle(self._questions.ask(_METHOD, asked, self._send, self._seconds))
        try:
            return form.answer(answer)
        except UNPARSABLE:
            raise CannotElicit("the client has answered something else than was asked") from None


class Rounds:
    """Asks by the result of the request, which comes again with the answer."""

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

    def can(self, ability: Ability) -> bool:
        """See `Asker.can`."""
        return ability == "elicitation" and offers(self._capabilities, ability)

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """See `Asker.elicit`."""
        if not self.can("elicitation"):
            raise MissingCapability
        form = Form(schema)
        given = {**_answers(self._state), **self._responses}
        if key not in given:
            asked = {"message": message, "requestedSchema": form.schema(self._revision)}
            raise InputRequired(key, {"method": _METHOD, "params": asked}, _state(given))
        try:
            return form.answer(given[key])
        except UNPARSABLE as error:
            raise InvalidAnswer(f"inputResponses: {key}: {error}") from None


def _state(answers: Mapping[str, msgspec.Raw]) -> str:
    state = base64.urlsafe_b64encode(_encode(answers)).decode("ascii")
    if len(state) > MAX_STATE:
        raise CannotElicit("what was answered so far is too long")
    return state


def _answers(state: str | None) -> Mapping[str, msgspec.Raw]:
    if state is None:
        return {}
    try:
        if len(state) > MAX_STATE:
            raise ValueError
        return _decode(base64.b64decode(state.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, *UNPARSABLE):
        raise InvalidAnswer("requestState is none that this server gave") from None
