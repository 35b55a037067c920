"""One call of a method: the context that its handler gets, and the result that it returns."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET

from resource_server.access import current
from resource_server.catalog.read_result import ReadResult
from resource_server.protocol import revisions
from resource_server.protocol.client_features.client_inputs import (
    ClientInputs,
    InputRequired,
    InvalidAnswer,
    RequestInputs,
    ResultInputs,
)
from resource_server.protocol.client_features.request_state import RequestState
from resource_server.protocol.client_features.server_requests import ServerRequests
from resource_server.protocol.client_subscriptions import Subscriber, Subscriptions
from resource_server.protocol.message import Header
from resource_server.protocol.outbox import Send
from resource_server.protocol.params import (
    ClientCapabilities,
    InteractiveParams,
    RequestId,
    RequestParams,
)
from resource_server.protocol.progress import ProgressReporter
from resource_server.protocol.server import Server
from resource_server.provider.tools import LogLevel

if TYPE_CHECKING:
    from resource_server.protocol.recorded_request import RecordedRequest


class Result(msgspec.Struct, frozen=True):
    """The members of a result as JSON, without the braces around them."""

    members: bytes = b""
    meta: dict[str, Any] | None = None
    ttl_ms: int | None = None
    """How long a client may cache it; None if it must not be cached."""
    stream: Subscriptions | None = None
    """The stream that this result ends."""
    is_failure: bool = False
    """Whether it is that of a tool that has failed."""
    is_complete: bool = True
    """False for inputs that the client has to give first (2026-07-28)."""


Log: TypeAlias = Callable[[LogLevel, str], None]


def _discard(_level: LogLevel, _text: str) -> None:
    """Log nothing."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """The context of a call."""

    server: Server
    revision: revisions.Revision
    subscriber: Callable[[], Subscriber]
    """Returns the client's subscriptions, which are made at first use."""
    note_read: Callable[[ReadResult], None]
    """Notes what the client is sent, so that a subscription begins with it."""
    id: RequestId
    notify: Send
    progress: ProgressReporter | None = None
    params: RequestParams = RequestParams()
    requests: ServerRequests | None = None
    """None where no request reaches the client."""
    log: Log = _discard
    """Sends a log message, if the client asked for its level."""
    header: Header | None = None
    """None where no HTTP header repeats the message."""
    record: RecordedRequest | None = None
    """Takes what is to be recorded of the call; None without a record of reads."""
    owner: str | None = None
    """The rate-limit key; see `ClientConnection.owner`."""

    def inputs(self, method: str, name: str, arguments: Mapping[str, Any]) -> ClientInputs:
        """Return what asks the client for inputs of this call, which its state is bound to.

        Raises:
            InvalidAnswer: the request has a state that is not one of this call.
        """
        server, params = self.server, self.params
        if not self.revision.modern:
            return RequestInputs(self.revision, self.requests, self.notify, server.timing)
        capabilities = UNSET if params.meta is None else params.meta.client_capabilities
        if capabilities is UNSET or not isinstance(params, InteractiveParams):
            capabilities, params = ClientCapabilities(), InteractiveParams()
        subject = (method, name, current().subject, arguments)
        state = RequestState(server.key, subject, server.timing.elicitation_timeout_s)
        return ResultInputs(self.revision, capabilities, params, state)


Handler: TypeAlias = Callable[[Call, Any], Coroutine[Any, Any, Result]]


def interactive(handler: Handler) -> Handler:
    """Return a handler whose result may ask for inputs, which others must not (2026-07-28)."""

    async def handle(call: Call, params: Any) -> Result:
        try:
            return await handler(call, params)
        except InputRequired as required:
            return Result(required.members(), is_complete=False)
        except InvalidAnswer as error:
            raise error.fault from None

    return handle
