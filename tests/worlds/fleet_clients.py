"""Clients of a fleet: each request goes to any server, and streams are opened at any."""

from __future__ import annotations

import asyncio
import json
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from typing_extensions import override

from resource_server.protocol.in_process_client import ErrorReply
from tests.protocol.wire import CLIENT, ENVELOPE, MODERN
from tests.transports.program import BOTH
from tests.waiting import pause
from tests.worlds import grammar
from tests.worlds.fleet_world import DEADLINE_S, TOKEN, FleetWorld, Replica
from tests.worlds.harness import Violation
from tests.worlds.http_client import Response
from tests.worlds.http_grammar import Request
from tests.worlds.live_world import Subscriber

_HEADERS = (("accept", BOTH), ("content-type", "application/json"))
_AUTHORIZED = ("authorization", f"Bearer {TOKEN}")
_ASKS_SINCE = "2025-06-18"
_SERVER = "io.modelcontextprotocol/serverInfo"
_IN_USE = b"this id is in use"
_UNREAD = "unread"
_LATE_S = 5.0
"""Time in which a server records a beginning for which it had no time, or a busy store."""


class Gone(Exception):
    """A stream has ended, or its server has."""


class EventStream:
    """A response that is a stream of events."""

    def __init__(self, reader: asyncio.StreamReader, status: int, refusal: bytes) -> None:
        self.status = status
        self.refusal = refusal
        """The body, if it is no stream."""
        self._reader = reader

    async def event(self) -> tuple[str, dict[str, Any] | None]:
        """Return the id of the next event, and its message if it has one.

        Raises:
            Gone: there is no further event.
        """
        id = ""
        while True:
            try:
                line = await self._reader.readline()
            except OSError:
                raise Gone from None
            if line.startswith(b"id: "):
                id = line[4:].decode().strip()
            elif line.startswith(b"data: {"):
                return id, json.loads(line[6:])
            elif line.startswith(b"data:"):
                return id, None
            elif not line or line == b"0\r\n":
                raise Gone


class FleetClient(Subscriber):
    """A subscriber whose stream is opened again whenever it ends, at any server."""

    def __init__(self, world: FleetWorld) -> None:
        super().__init__()
        self.world = world
        self.is_live = False
        """Whether its stream is open now."""
        self.wanted = asyncio.Event()
        """Set while it wants a stream."""
        self._following: asyncio.Task[None] | None = None
        self._is_deaf = False
        self._deaf: list[asyncio.StreamWriter] = []
        self._ids = 0

    @abstractmethod
    def post(self, message: Mapping[str, Any]) -> Request:
        """Return the request that sends a message."""

    @abstractmethod
    async def follow(self, replica: Replica) -> None:
        """Take the messages of a stream at one server.

        Raises:
            Gone: it has ended.
        """

    @abstractmethod
    async def subscribe(self, uri: str) -> None:
        """Subscribe to a resource, if the servers allow it now."""

    @abstractmethod
    async def unsubscribe(self, uri: str) -> None:
        """End a subscription."""

    async def begin(self) -> None:
        """Come."""

    async def leave(self) -> None:
        """End the session, if there is one, and come anew."""

    async def end(self) -> None:
        """Leave nothing behind."""

    async def set_level(self) -> None:
        """Choose a level of log messages, where there is one for a session."""

    def forget_lost(self) -> None:
        """Give up subscriptions of which no server can know any more."""

    def message(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request with an id of its own."""
        self._ids += 1
        return {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": dict(params)}

    @override
    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        response = await self.send(self.message(method, params))
        (answer,) = response.messages
        if "error" in answer:
            error = answer["error"]
            raise ErrorReply(error["code"], error["message"], error.get("data"))
        result: dict[str, Any] = answer["result"]
        # The rest says what could not be read.
        if not {*result.get("_meta", {})} - {_SERVER}:
            result.pop("_meta", None)
        return result

    async def send(self, message: Mapping[str, Any], only: Replica | None = None) -> Response:
        """Return the response to a message."""
        return await self.world.ask(self.post(message), only)

    async def greet(self) -> None:
        """Call a tool that asks its person, and answer, where the revision has that."""

    async def read_something(self) -> None:
        """Ask for some things, whatever the answers are."""
        for method in ("resources/list", "tools/list", "prompts/list"):
            await self.ask(method, {})

    # -- the stream

    async def keep_stream(self) -> None:
        """Have a stream whenever it is wanted."""
        while True:
            await self.wanted.wait()
            self._following = asyncio.create_task(self._follow())
            await asyncio.wait([self._following])
            self.is_live = False
            if not self._following.cancelled() and (error := self._following.exception()):
                raise error
            await pause(0.01)

    async def _follow(self) -> None:
        with suppress(Gone):
            await self.follow(await self.world.any_replica())

    async def drop_stream(self, *, is_deaf: bool = False) -> None:
        """Leave the stream, perhaps without a word to its server; it is opened again if wanted."""
        self._is_deaf = is_deaf
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        self._is_deaf = False

    @asynccontextmanager
    async def stream(self, replica: Replica, request: Request) -> AsyncGenerator[EventStream]:
        """Send a request to one server whose response is a stream.

        Raises:
            Gone: the server has ended.
            Violation: it does not answer.
        """
        if replica.program is None:
            raise Gone
        ends, writer = replica.ends, None
        try:
            async with asyncio.timeout(DEADLINE_S):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", replica.program.port, limit=1 << 24
                )
                writer.write(request.encoded(""))
                head = await reader.readuntil(b"\r\n\r\n")
                status = int(head.split()[1])
                refusal = b"" if status == 200 else await reader.read(1 << 16)
        except BaseException as error:
            if writer is not None:
                writer.transport.abort()
            if not isinstance(error, OSError | TimeoutError | asyncio.IncompleteReadError):
                raise
            if replica.ends == ends:
                raise Violation(f"{request!r} opens no stream: {error!r}") from None
            raise Gone from None
        self.world.tally.count("streams")
        try:
            yield EventStream(reader, status, refusal)
        finally:
            if self._is_deaf:
                self._deaf.append(writer)
            else:
                writer.transport.abort()

    def close(self) -> None:
        """Close streams that nobody reads."""
        for writer in self._deaf:
            writer.transport.abort()


class SessionClient(FleetClient):
    """A client with a session, of a handshake revision."""

    def __init__(self, world: FleetWorld, revision: str) -> None:
        super().__init__(world)
        self.revision = revision
        self._session = ""
        self._losses = 0
        """What the store had lost when the session began."""
        self._last_event = ""
        self._ends: int | None = None
        """How often servers had ended then; None if the store was there to record it."""
        self._refused_since: float | None = None
        """Since when its streams are refused; None if the last was not."""
        self._untold: dict[str, tuple[int, int]] = {}
        """Subscriptions that the server of its stream may not know of, with the losses and ends of
        servers before."""
        self._changing = asyncio.Lock()
        """Held while one session takes the place of another."""
        self.ended: list[tuple[str, int, int]] = []
        """Sessions that it has ended, with the losses and ends of servers before."""

    @override
    def post(self, message: Mapping[str, Any]) -> Request:
        return Request("POST", "/mcp", self._headers(), grammar.encoded(message))

    def _headers(self) -> tuple[tuple[str, str], ...]:
        session = (("mcp-session-id", self._session),) if self._session else ()
        return (*_HEADERS, _AUTHORIZED, *session)

    @override
    async def send(self, message: Mapping[str, Any], only: Replica | None = None) -> Response:
        while True:
            session = self._session
            response = await super().send(message, only)
            if response.status in (200, 202):
                return response
            if self.world.ends and response.status == 400 and _IN_USE in response.body:
                # Sent twice, since a worker has ended that passed it on: it is answered elsewhere.
                await pause(0.05)
                continue
            if response.status != 404 or all(session != each for each, _, _ in self.ended):
                raise Violation(f"{message} was refused: {response!r}; session {session}")
            async with self._changing:
                pass  # it was ended meanwhile, and another takes its place

    @override
    async def begin(self) -> None:
        self._losses, was_calm, ends = self.world.losses, self.world.is_calm, self.world.ends
        can: dict[str, Any] = {"elicitation": {}}
        params = {"protocolVersion": self.revision, "capabilities": can, "clientInfo": CLIENT}
        body = grammar.encoded(self.message("initialize", params))
        response = await self.world.ask(Request("POST", "/mcp", (*_HEADERS, _AUTHORIZED), body))
        # A fault of the store that came meanwhile may have left it unrecorded.
        self._ends = None if was_calm and self.world.is_calm else ends
        self._session, self._last_event = response.headers["mcp-session-id"], ""
        self._untold.clear()
        self.world.secrets.add(self._session)
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.world.tally.count("sessions")

    @override
    async def follow(self, replica: Replica) -> None:
        last = (("last-event-id", self._last_event),) if self._last_event else ()
        request = Request("GET", "/mcp", (*self._headers(), *last))
        session = self._session
        async with self.stream(replica, request) as stream:
            if stream.status in (404, 503):
                async with self._changing:
                    if session == self._session:
                        await self._refused(stream, replica)
                return
            if stream.status != 200:
                raise Violation(f"{request!r}: {stream.status}")
            self.is_live, self._refused_since = True, None
            while True:
                id, message = await stream.event()
                if session != self._session:
                    return
                self._last_event = id or self._last_event
                if message is not None and "id" not in message:
                    self.told(message)

    @override
    async def drop_stream(self, *, is_deaf: bool = False) -> None:
        # A session in the place of a lost one gets all its subscriptions first.
        async with self._changing:
            await super().drop_stream(is_deaf=is_deaf)

    async def _refused(self, stream: EventStream, replica: Replica) -> None:
        """Begin a new session where the subscriptions of this one may be lost."""
        status = stream.status
        if status == 503 and replica.is_ending:
            return
        was_recorded = self._ends is None or (self.world.is_calm and self._ends == self.world.ends)
        if status == 404 and was_recorded and self.world.losses == self._losses:
            # A server that had no time for the store records the beginning late.
            if self._refused_since is None:
                self.world.tally.count("sessions recorded late, or lost")
                self._refused_since = time.monotonic()
            if time.monotonic() - self._refused_since < _LATE_S:
                return
        if status == 503 or (was_recorded and self.world.losses == self._losses):
            why = f"{status}, {stream.refusal!r}; session {self._session}"
            raise Violation(f"a stream was refused with {why}")
        self.world.tally.count("sessions lost with the store")
        self._refused_since = None
        await self.begin()
        for uri in list(self.known):
            while not await self._is_subscribed(uri):
                await pause(0.05)

    async def _is_subscribed(self, uri: str) -> bool:
        """Subscribe; return False if the servers refuse it as temporary."""
        self._untold.setdefault(uri, (self.world.losses, self.world.ends))
        try:
            await self.ask("resources/subscribe", {"uri": uri})
        except ErrorReply as error:
            details: dict[str, Any] = error.data or {}
            if details.get("retryable"):
                self.world.tally.count("refusals")
                return False
            self.known.pop(uri, None)  # there is no such resource
        else:
            self.note(uri)
        return True

    @override
    async def subscribe(self, uri: str) -> None:
        if uri in self.known:
            return
        self.known[uri] = _UNREAD
        deadline = time.monotonic() + DEADLINE_S
        while not await self._is_subscribed(uri):
            if not self.world.is_calm:
                self.known.pop(uri, None)
                return
            if time.monotonic() > deadline:
                raise Violation(f"no subscription to {uri}, without a fault of the store")
            await pause(0.1)

    @override
    def told(self, message: dict[str, Any]) -> None:
        if message["method"] == "notifications/resources/updated":
            self._untold.pop(message["params"]["uri"], None)
        super().told(message)

    @override
    def forget_lost(self) -> None:
        # Its server ended and the store lost it before the server of the stream heard of it.
        for uri, (losses, ends) in self._untold.items():
            if self.world.losses > losses and self.world.ends > ends and uri in self.known:
                del self.known[uri]
                self.world.tally.count("subscriptions lost with a server and the store")

    @override
    async def unsubscribe(self, uri: str) -> None:
        if self.known.pop(uri, None) is not None:
            # Refused, it may have ended all the same.
            with suppress(ErrorReply):
                await self.ask("resources/unsubscribe", {"uri": uri})

    @override
    async def set_level(self) -> None:
        await self.ask("logging/setLevel", {"level": "error"})

    @override
    async def leave(self) -> None:
        async with self._changing:
            self.ended.append((self._session, self.world.losses, self.world.ends))
            response = await self.world.ask(Request("DELETE", "/mcp", self._headers()))
            # Sent twice if its server has ended meanwhile.
            if response.status not in (204, 404):
                raise Violation(f"a session is not ended: {response!r}")
            self.known.clear()
            await self.begin()

    @override
    async def end(self) -> None:
        await self.world.ask(Request("DELETE", "/mcp", self._headers()))

    async def undead(self) -> list[str]:
        """Return the sessions that live though they were ended."""
        found: list[str] = []
        for session, losses, ends in self.ended:
            if (losses, ends) != (self.world.losses, self.world.ends):
                continue  # it may not have been recorded
            for replica in self.world.replicas:
                message = self.message("ping", {})
                headers = (*_HEADERS, _AUTHORIZED, ("mcp-session-id", session))
                request = Request("POST", "/mcp", headers, grammar.encoded(message))
                if (await self.world.ask(request, replica)).status != 404:
                    found.append(f"the session {session} was ended, and lives")
        return found

    @override
    async def greet(self) -> None:
        if self.revision < _ASKS_SINCE:
            return
        replica, session = await self.world.any_replica(), self._session
        call = self.message("tools/call", {"name": "greet", "arguments": {}})
        with suppress(Gone):
            async with self.stream(replica, self.post(call)) as stream:
                if stream.status == 503 and replica.is_ending:
                    return  # its worker has ended
                if stream.status != 200:
                    raise Violation(f"{call}: {stream.status}, {stream.refusal!r}")
                await self._converse(stream, call["id"], session)

    async def _converse(self, stream: EventStream, id: int, session: str) -> None:
        """Answer what is asked, at any server; the first answer that arrives counts."""
        question: dict[str, Any] = {}
        async with asyncio.timeout(DEADLINE_S):
            while not question:
                question = (await stream.event())[1] or {}
        if question.get("method") != "elicitation/create":
            raise Violation(f"nobody is asked: {question}")
        result = {"action": "accept", "content": {"name": "Ada"}}
        for _ in range(int(DEADLINE_S)):
            if session != self._session:
                return  # another has taken its place, and has asked nothing
            await self.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    _, answer = await stream.event()
                if answer is None or answer.get("id") != id or "Ada" not in json.dumps(answer):
                    raise Violation(f"greeted: {answer}")
                self.world.tally.count("questions")
                return
        raise Violation("an answer did not arrive")


class ListenClient(FleetClient):
    """A client of the stateless revision, which listens anew whenever something differs."""

    def __init__(self, world: FleetWorld, revision: str = MODERN[0]) -> None:
        super().__init__(world)
        self.revision = revision

    @override
    def post(self, message: Mapping[str, Any]) -> Request:
        params: Mapping[str, Any] = message["params"]
        sent = {**message, "params": {**params, "_meta": ENVELOPE}}
        named = [("mcp-name", params[each]) for each in ("uri", "name") if each in params]
        version = (("mcp-protocol-version", self.revision), ("mcp-method", message["method"]))
        headers = (*_HEADERS, _AUTHORIZED, *version, *named)
        return Request("POST", "/mcp", headers, grammar.encoded(sent))

    @override
    async def subscribe(self, uri: str) -> None:
        if uri not in self.known:
            self.known[uri] = _UNREAD
            await self.drop_stream()

    @override
    async def unsubscribe(self, uri: str) -> None:
        if self.known.pop(uri, None) is not None:
            await self.drop_stream()

    @override
    async def follow(self, replica: Replica) -> None:
        wanted = {"resourceSubscriptions": sorted(self.known), "resourcesListChanged": True}
        message = self.message("subscriptions/listen", {"notifications": wanted})
        async with self.stream(replica, self.post(message)) as stream:
            if stream.status == 503 and replica.is_ending:
                return
            if stream.status != 200:
                raise Violation(f"{message}: {stream.status}")
            while True:
                _, told = await stream.event()
                if told is None or "id" in told:
                    return
                if told["method"] == "notifications/subscriptions/acknowledged":
                    self._acknowledged(wanted["resourceSubscriptions"], told["params"])
                else:
                    self.told(told)

    def _acknowledged(self, wanted: object, params: Mapping[str, Any]) -> None:
        """Read everything: what was notified while it did not listen is unknown."""
        honoured: Sequence[str] = params["notifications"].get("resourceSubscriptions", ())
        for uri in set(self.known) & set(json.loads(json.dumps(wanted))) - set(honoured):
            del self.known[uri]
        self._must_list = True
        self.note(*honoured)
        self.is_live = True
