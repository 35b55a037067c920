"""Requests from the server to its client, each open until the client responds."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET

from resource_server.errors import CannotElicit
from resource_server.protocol.message import JsonRpcMessage
from resource_server.protocol.outbox import Send
from resource_server.protocol.params import ClientCapabilities, RequestId

logger = logging.getLogger(__name__)

MAX_OPEN = 8
"""Maximum open requests to one client.

Each belongs to a waiting request of the client; fewer than may run, so that others still can.
"""

_ENDS = "the connection ends"

_encode = msgspec.json.Encoder().encode

Capability: TypeAlias = Literal["elicitation", "sampling", "roots"]


def supports(capabilities: ClientCapabilities, capability: Capability) -> bool:
    """Return whether a client has declared a capability; of elicitation, the form mode."""
    if capability == "roots":
        return capabilities.roots is not None
    if capability == "sampling":
        return capabilities.sampling is not None
    elicitation = capabilities.elicitation
    # Without any mode it means forms: the first revision of elicitation had no modes.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def supported(capabilities: ClientCapabilities) -> frozenset[Capability]:
    """Return the capabilities that a client has declared."""
    return frozenset(each for each in get_args(Capability) if supports(capabilities, each))


class ServerRequests:
    """The open requests to one client."""

    def __init__(self, capabilities: frozenset[Capability], name: str = "ask") -> None:
        self.capabilities = capabilities
        self._name = name
        """How the ids of its requests begin."""
        self._open: dict[RequestId, asyncio.Future[JsonRpcMessage | str]] = {}
        """The response to each, or why none will come."""
        self._count = 0
        self._is_ended = False

    async def request(
        self,
        method: str,
        params: msgspec.Raw | None,
        send: Send,
        timeout_s: float,
        *,
        max_open: int = MAX_OPEN,
    ) -> msgspec.Raw:
        """Send a request and return its result. A cancelled caller cancels the request too.

        Raises:
            CannotElicit: the client refuses, has too many open requests, or is too slow.
        """
        if self._is_ended:
            raise CannotElicit(_ENDS)
        if len(self._open) >= max_open:
            raise CannotElicit(f"this client has {max_open} questions to answer already")
        self._count += 1
        # Not a number, which some clients would take for one of their own requests.
        request_id = f"{self._name}-{self._count}"
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        waiting = asyncio.get_running_loop().create_future()
        self._open[request_id] = waiting
        try:
            send(_encode(message if params is None else {**message, "params": params}))
            async with asyncio.timeout(timeout_s):
                response = await waiting
        except TimeoutError:
            _cancel(request_id, "nobody has answered in time", send)
            raise CannotElicit("nobody has answered in time") from None
        except asyncio.CancelledError:
            _cancel(request_id, "nobody waits for the answer any more", send)
            raise
        finally:
            del self._open[request_id]
        return _result(response)

    def receive(self, response: JsonRpcMessage) -> bool:
        """Take a response; return False for one without an open request."""
        waiting = None if response.id is UNSET else self._open.get(response.id or "")
        if waiting is None or waiting.done():
            logger.debug("a response without an open request was ignored")
            return False
        waiting.set_result(response)
        return True

    def end(self) -> None:
        """Fail all open requests, and those to come: no response will come."""
        self._is_ended = True
        self.fail(_ENDS)

    def fail(self, reason: str) -> None:
        """Fail all open requests."""
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_result(reason)


def _cancel(request_id: str, reason: str, send: Send) -> None:
    params = {"requestId": request_id, "reason": reason}
    send(_encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))


def _result(response: JsonRpcMessage | str) -> msgspec.Raw:
    if isinstance(response, str):
        raise CannotElicit(response)
    if response.error is not UNSET or response.result is UNSET:
        raise CannotElicit("the client has refused the question")
    return response.result
