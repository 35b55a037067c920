"""One call: what a method is given of the request, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET

from resource_server.protocol import revisions
from resource_server.protocol.client_subscriptions import Subscriber, Subscriptions
from resource_server.protocol.elicitation import (
    Asker,
    InputRequired,
    Interrupted,
    InvalidAnswer,
    Rounds,
    Waiting,
)
from resource_server.protocol.message import Header
from resource_server.protocol.outbox import Send
from resource_server.protocol.params import (
    ClientCapabilities,
    Interactive,
    RequestId,
    RequestParams,
)
from resource_server.protocol.progress import ProgressReporter
from resource_server.protocol.server import Server
from resource_server.protocol.server_requests import Questions
from resource_server.provider.tools import LogLevel


class Result(msgspec.Struct, frozen=True):
    """A result's own members as JSON, without the braces around them."""

    members: bytes = b""
    meta: dict[str, Any] | None = None
    ttl_ms: int | None = None
    """How long a client may keep it; None where the revision knows no caching of it."""
    stream: Subscriptions | None = None
    """What comes before it: it is the last message of this stream."""
    is_complete: bool = True
    """False where it is what is asked before there can be a result."""


Log: TypeAlias = Callable[[LogLevel, str], None]


def _nowhere(_level: LogLevel, _text: str) -> None:
    """Log to nobody."""


class Call(msgspec.Struct, frozen=True):
    """What a method needs to know of the request beside its parameters."""

    server: Server
    revision: revisions.Revision
    subscriber: Subscriber
    id: RequestId
    notify: Send
    progress: ProgressReporter | None = None
    params: RequestParams = RequestParams()
    questions: Questions | None = None
    """None where nothing can be asked by a request the other way round."""
    log: Log = _nowhere
    """Sends a log message, to a client that asked for its level."""
    header: Header | None = None
    """None where no HTTP header repeats what is asked."""
    owner: str | None = None
    """Who asks, as `ClientConnection.owner`."""

    @property
    def asker(self) -> Asker:
        """What asks the person behind the client."""
        if not self.revision.modern:
            patience = self.server.patience_s
            return Waiting(self.revision, self.questions, self.notify, patience)
        given, meta = self.params, self.params.meta
        capabilities = UNSET if meta is None else meta.client_capabilities
        if capabilities is UNSET or not isinstance(given, Interactive):
            capabilities, given = ClientCapabilities(), Interactive()
        return Rounds(self.revision, capabilities, given.input_responses, given.request_state)


Handler: TypeAlias = Callable[[Call, Any], Coroutine[Any, Any, Result]]


def interactive(handle: Handler) -> Handler:
    """Return a handler whose result may be a question; of no other may it be (2026-07-28)."""

    async def handled(call: Call, asked: Any) -> Result:
        try:
            return await handle(call, asked)
        except BaseException as error:
            match _interruption(error):
                case InputRequired() as question:
                    return Result(question.members(), is_complete=False)
                case InvalidAnswer(fault=fault):
                    raise fault from None
                case _:
                    raise

    return handled


def _interruption(error: BaseException) -> BaseException | None:
    """Return what ends a request, also where a task group did the asking."""
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, Interrupted) else None
    group = cast("BaseExceptionGroup[BaseException]", error)
    found = group.subgroup(Interrupted)
    return None if found is None else _interruption(found.exceptions[0])
