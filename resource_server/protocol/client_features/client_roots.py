"""The roots that a client offers (MCP roots), listed again whenever they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from typing_extensions import override

from resource_server.catalog.mount import log_failure
from resource_server.errors import CannotElicit
from resource_server.protocol.client_features.client_inputs import Input
from resource_server.protocol.client_features.server_requests import MAX_OPEN, ServerRequests
from resource_server.protocol.message import UNPARSABLE
from resource_server.protocol.outbox import Send
from resource_server.protocol.revisions import Revision
from resource_server.provider.tools import ClientRoot
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger(__name__)


class _ListRootsResult(msgspec.Struct, frozen=True):
    roots: list[ClientRoot]


RootsListener: TypeAlias = Callable[[Sequence[ClientRoot]], Awaitable[None]]
RootsOffer: TypeAlias = Callable[["ClientRoots | None"], None]
"""Takes the roots of a client, once; None if the client has no such capability."""

_decode = msgspec.json.Decoder(_ListRootsResult).decode


class RootsRequest(Input[Sequence[ClientRoot]]):
    """The request for the roots of a client, on behalf of a tool."""

    capability = "roots"
    method = "roots/list"
    max_answer_bytes = 256 * 1024

    @override
    def params(self, revision: Revision) -> Mapping[str, Any]:
        return {}

    @override
    def answer(self, data: msgspec.Raw) -> Sequence[ClientRoot]:
        return _decode(data).roots


class ClientRoots:
    """The roots of one client that has the `roots` capability."""

    def __init__(
        self, requests: ServerRequests, send: Send, *, timing: Timing = DEFAULT_TIMING
    ) -> None:
        self._requests = requests
        self._send = send
        self._timing = timing
        self._listener: RootsListener | None = None
        self._is_stale = True
        self._following: asyncio.Task[None] | None = None

    def follow(self, listener: RootsListener) -> None:
        """Pass the client's roots to `listener`, now and whenever they change."""
        if self._listener is None:
            self._listener = listener
            self.changed()

    def changed(self) -> None:
        """List the roots again, once the current request is done."""
        self._is_stale = True
        if self._listener is not None and self._following is None:
            self._following = asyncio.create_task(self._follow(self._listener))

    async def close(self) -> None:
        """Stop listing the roots."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self, listener: RootsListener) -> None:
        try:
            while self._is_stale:
                self._is_stale = False
                try:
                    await listener(await self._list())
                except CannotElicit as error:
                    logger.warning("the client did not list its roots: %s", error)
                except Exception as error:
                    log_failure(error, "the folders of the client cannot be served")
                # A client may announce changes very often.
                await asyncio.sleep(self._timing.roots_interval_s)
        finally:
            self._following = None

    async def _list(self) -> Sequence[ClientRoot]:
        # Even if people have many questions to answer: this one request never adds to them.
        result = await self._requests.request(
            "roots/list",
            None,
            self._send,
            self._timing.roots_timeout_s,
            max_open=MAX_OPEN + 1,
        )
        try:
            return _decode(result).roots
        except UNPARSABLE:
            raise CannotElicit("its answer is no list of roots") from None
