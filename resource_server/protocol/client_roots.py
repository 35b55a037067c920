"""The folders that a client offers (MCP roots): asked for, and again whenever they are others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from resource_server.catalog.mount import FAILURES, log_failure
from resource_server.errors import CannotElicit
from resource_server.protocol.message import UNPARSABLE
from resource_server.protocol.outbox import Send
from resource_server.protocol.server_requests import MAX_OPEN, Questions

logger = logging.getLogger(__name__)

_PATIENCE_S = 10.0
_REST_S = 1.0
"""Between one answer and the next question: a client may say very often that they are others."""


class ClientRoot(msgspec.Struct, frozen=True):
    """One folder as the client tells of it (MCP `Root`); whether there is one is not known."""

    uri: str
    name: str | None = None


class _Listed(msgspec.Struct, frozen=True):
    roots: list[ClientRoot]


Take: TypeAlias = Callable[[Sequence[ClientRoot]], Awaitable[None]]
Offer: TypeAlias = Callable[["ClientRoots | None"], None]
"""Is told of the folders of a client, once; None where it cannot be asked for them."""

_decode = msgspec.json.Decoder(_Listed).decode


class ClientRoots:
    """The folders of one client that can be asked for them."""

    def __init__(
        self,
        questions: Questions,
        send: Send,
        *,
        patience_s: float = _PATIENCE_S,
        rest_s: float = _REST_S,
    ) -> None:
        self._questions = questions
        self._send = send
        self._patience_s = patience_s
        self._rest_s = rest_s
        self._take: Take | None = None
        self._is_stale = True
        self._following: asyncio.Task[None] | None = None

    def follow(self, take: Take) -> None:
        """Give what the client offers to `take`, now and whenever that changes."""
        if self._take is None:
            self._take = take
            self.changed()

    def changed(self) -> None:
        """Ask again, as soon as what is under way is done."""
        self._is_stale = True
        if self._take is not None and self._following is None:
            self._following = asyncio.create_task(self._follow(self._take))

    async def close(self) -> None:
        """Ask no more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self, take: Take) -> None:
        try:
            while self._is_stale:
                self._is_stale = False
                try:
                    await take(await self._ask())
                except CannotElicit as error:
                    logger.warning("the client has not told which folders it offers: %s", error)
                except FAILURES as error:
                    log_failure(error, "the folders of the client cannot be served")
                await asyncio.sleep(self._rest_s)
        finally:
            self._following = None

    async def _ask(self) -> Sequence[ClientRoot]:
        # However much people have to answer: this is one question at most, and is not asked again.
        answer = await self._questions.ask(
            "roots/list", None, self._send, self._patience_s, most=MAX_OPEN + 1
        )
        try:
            return _decode(answer).roots
        except UNPARSABLE:
            raise CannotElicit("its answer is no list of roots") from None
