"""What the server asks its client: requests the other way round, each until it is answered."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET

from resource_server.errors import CannotElicit
from resource_server.protocol import params
from resource_server.protocol.message import JsonRpcMessage
from resource_server.protocol.outbox import Send

logger = logging.getLogger(__name__)

MAX_OPEN = 8
"""Questions at once, each of a request that waits: fewer than may run, so that others still do."""

_encode = msgspec.json.Encoder().encode

Ability: TypeAlias = Literal["elicitation", "roots"]


def offers(capabilities: params.ClientCapabilities, ability: Ability) -> bool:
    """Tell whether a client has said that it can answer questions of this kind."""
    if ability == "roots":
        return capabilities.roots is not None
    asked = capabilities.elicitation
    # Without a mode it is a form, as before there were others.
    return asked is not None and (asked.form is not None or asked.url is None)


class Questions:
    """The questions to one client that have no answer yet."""

    def __init__(self, capabilities: params.ClientCapabilities) -> None:
        self.capabilities = capabilities
        self._open: dict[params.RequestId, asyncio.Future[JsonRpcMessage | None]] = {}
        self._count = 0
        self._is_ended = False

    async def ask(
        self,
        method: str,
        asked: dict[str, Any] | None,
        send: Send,
        seconds: float,
        *,
        most: int = MAX_OPEN,
    ) -> msgspec.Raw:
        """Ask, and return the result. Who waits no longer has the question withdrawn.

        Raises:
            CannotElicit: the client refuses, has too much to answer, or does not within the time.
        """
        if self._is_ended:
            raise CannotElicit("the connection ends")
        if len(self._open) >= most:
            raise CannotElicit(f"this client has {most} questions to answer already")
        self._count += 1
        # Not a number, which some clients would take for one of their own requests.
        name = f"ask-{self._count}"
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": name, "method": method}
        waiting = asyncio.get_running_loop().create_future()
        self._open[name] = waiting
        try:
            send(_encode(message if asked is None else {**message, "params": asked}))
            async with asyncio.timeout(seconds):
                answer = await waiting
        except TimeoutError:
            _withdraw(name, "nobody has answered in time", send)
            raise CannotElicit("nobody has answered in time") from None
        except asyncio.CancelledError:
            _withdraw(name, "nobody waits for the answer any more", send)
            raise
        finally:
            del self._open[name]
        return _result(answer)

    def answered(self, answer: JsonRpcMessage) -> None:
        """Take an answer; one that nobody waits for is ignored."""
        waiting = None if answer.id is UNSET else self._open.get(answer.id or "")
        if waiting is None or waiting.done():
            logger.debug("an answer that nobody waits for was ignored")
        else:
            waiting.set_result(answer)

    def end(self) -> None:
        """Let nobody wait any more: there will be no answers."""
        self._is_ended = True
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_result(None)


def _withdraw(name: str, reason: str, send: Send) -> None:
    asked = {"requestId": name, "reason": reason}
    send(_encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": asked}))


def _result(answer: JsonRpcMessage | None) -> msgspec.Raw:
    if answer is None:
        raise CannotElicit("the connection ends")
    if answer.error is not UNSET or answer.result is UNSET:
        raise CannotElicit("the client has refused the question")
    return answer.result
