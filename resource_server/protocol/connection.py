"""One client's side of the protocol: a message in, at most one answer out. Does no input or output.

A transport gives each message to `Connection.receive` with two callables: `reply` for its answer,
and `notify` for what belongs to it before (progress, log messages, the stream of a listen). What
can be answered at once is answered before `receive` returns; what has to wait becomes a task that
the request's id can cancel. A listen that has been acknowledged is no task any more: it is answered
when the connection ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from resource_server.catalog.mount import log_failure
from resource_server.errors import MountUnavailable
from resource_server.protocol import admission, error_mapping, params, progress, revisions
from resource_server.protocol.admission import UNPARSABLE, Header, Request
from resource_server.protocol.batch import Batch
from resource_server.protocol.call import Call, Method, Result
from resource_server.protocol.client_roots import ClientRoots, Offer
from resource_server.protocol.client_subscriptions import Subscriber, Subscriptions
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.methods import METHODS
from resource_server.protocol.outbox import Send
from resource_server.protocol.revisions import Revision
from resource_server.protocol.server import Server
from resource_server.protocol.server_requests import Questions, offers
from resource_server.runtime import eager

logger = logging.getLogger(__name__)

MAX_BATCH = 100
MAX_IN_FLIGHT = 1024
MAX_BYTES_IN_FLIGHT = 16 * 1024 * 1024
"""Of the messages of those in flight, which are kept until they are answered."""
MAX_RUNNING = 16
"""Of those in flight; the others wait for their turn. What is answered at once needs none."""

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_encode = msgspec.json.Encoder().encode
_decode_message = msgspec.json.Decoder(params.Message).decode
_decode_batch = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_id = msgspec.json.Decoder(params.Identified).decode
_decode_cancelled = msgspec.json.Decoder(params.Cancelled).decode


class Listen(msgspec.Struct, frozen=True, eq=False):
    """A `subscriptions/listen` that has been acknowledged, and what answers it in the end."""

    stream: Subscriptions
    answer: Callable[[], None]


class Connection:
    """The state of one client: its revision, its subscriptions, its requests in flight.

    `push` takes what belongs to no request: what a handshake client subscribed to. `room` is set
    while the client takes its answers, `push_room` while it takes what is pushed: by default both
    come the same way. `roots` is told of the folders that the client offers, or that it does not.
    """

    def __init__(
        self,
        server: Server,
        revision: Revision | None = None,
        *,
        push: Send,
        room: asyncio.Event | None = None,
        push_room: asyncio.Event | None = None,
        roots: Offer | None = None,
    ) -> None:
        self.server = server
        self.revision = revision
        """None until the first request has decided it."""
        self.owner: str | None = None
        """Whose requests count together: a subject or an address; None for the only client."""
        self._room = room
        """Set while the client takes its answers; until then none that has to wait is begun."""
        self._running = asyncio.Semaphore(MAX_RUNNING)
        self._log_level: str | None = None
        self._questions: Questions | None = None
        """What this client was asked; None where nothing is, as at 2026-07-28."""
        self._offer_roots = roots
        self._roots: ClientRoots | None = None
        self._push = push
        self._in_flight: dict[params.RequestId, Request] = {}
        self._bytes_in_flight = 0
        self._subscriber = Subscriber(server.live, server.announcements, push, push_room or room)
        self._listens: dict[params.RequestId, Listen] = {}
        self._is_ending = False

    # -- messages

    def receive(
        self,
        data: bytes,
        reply: Send,
        notify: Send,
        *,
        asks: bool = True,
        header: Header | None = None,
        message: params.Message | None = None,
    ) -> asyncio.Future[Any] | None:
        """Take one message, or a batch where the revision has them.

        `asks` says whether the client hears what it is asked by `notify`. `header` tells what HTTP
        headers say of the message, where they have to repeat it; `message` is what the data hold,
        where that is known. Returns what is done when nothing more will be replied, where that is
        not yet certain.
        """
        if message is not None:
            return self._take(message, len(data), reply, notify, asks=asks, header=header)
        if data.lstrip()[:1] == b"[":
            return self._receive_batch(data, reply, notify)
        return self._receive_one(data, reply, notify, asks=asks)

    def _receive_batch(self, data: bytes, reply: Send, notify: Send) -> asyncio.Future[Any] | None:
        try:
            items = self._batch(data)
        except Fault as fault:
            reply(error_mapping.message(None, fault))
            return None
        batch = Batch()
        tasks = [self._receive_one(bytes(item), batch.add, notify, batch=batch) for item in items]
        waiting = [task for task in tasks if task is not None]
        if waiting:
            whole = asyncio.gather(*waiting, return_exceptions=True)
            whole.add_done_callback(lambda _: batch.reply(reply))
            return whole
        batch.reply(reply)
        return None

    def _batch(self, data: bytes) -> list[msgspec.Raw]:
        try:
            items = _decode_batch(data)
        except UNPARSABLE:
            raise Fault(revisions.PARSE_ERROR, "Parse error") from None
        if self.revision is None or not self.revision.batches:
            reason = "this protocol revision has no batches; send one message at a time"
            raise Fault(revisions.INVALID_REQUEST, f"Invalid request: {reason}")
        if not 0 < len(items) <= MAX_BATCH:
            reason = f"a batch holds 1 to {MAX_BATCH} messages, not {len(items)}"
            raise Fault(revisions.INVALID_REQUEST, f"Invalid request: {reason}")
        return items

    def _receive_one(
        self,
        data: bytes,
        reply: Send,
        notify: Send,
        *,
        batch: Batch | None = None,
        asks: bool = False,
    ) -> asyncio.Task[None] | None:
        """Answer one message; return the task that will, where the answer has to wait."""
        try:
            message = _decode_message(data)
        except msgspec.ValidationError:
            reply(
                error_mapping.message(
                    _salvaged_id(data), Fault(revisions.INVALID_REQUEST, "Invalid request")
                )
            )
            return None
        except UNPARSABLE:
            message = admission.mended(data)
            # Only who waits for an answer is told.
            if message is None or UNSET not in (message.id, message.method):
                request_id = None if message is None or message.id is UNSET else message.id
                reply(
                    error_mapping.message(request_id, Fault(revisions.PARSE_ERROR, "Parse error"))
                )
                return None
        return self._take(message, len(data), reply, notify, batch=batch, asks=asks)

    def _take(
        self,
        message: params.Message,
        size: int,
        reply: Send,
        notify: Send,
        *,
        batch: Batch | None = None,
        asks: bool = False,
        header: Header | None = None,
    ) -> asyncio.Task[None] | None:
        if message.method is UNSET:
            if message.result is UNSET and message.error is UNSET:
                fault = Fault(revisions.INVALID_REQUEST, "Invalid request: no method")
                reply(error_mapping.message(None if message.id is UNSET else message.id, fault))
            elif self._questions is not None:
                self._questions.answered(message)
            return None
        if message.id is UNSET:
            self._notified(message.method, message.params)
            return None
        if message.id is None:
            reply(
                error_mapping.message(
                    None, Fault(revisions.INVALID_REQUEST, "Invalid request: id is null")
                )
            )
            return None
        of = (message.id, message.method, message.params)
        return self._answer(Request(*of, reply, notify, asks, batch, size, header))

    def _notified(self, method: str, raw: msgspec.Raw) -> None:
        if method == "notifications/cancelled":
            self._cancel(raw)
        elif method == "notifications/initialized" and self.revision and not self.revision.modern:
            for offered in ("resources", "tools", "prompts"):
                self._subscriber.own.follow_list(offered)
            self._look_for_roots()
        elif method == "notifications/roots/list_changed" and self._roots is not None:
            self._roots.changed()

    def _look_for_roots(self) -> None:
        offer, self._offer_roots = self._offer_roots, None
        if offer is None:
            return
        if self._questions is not None and offers(self._questions.capabilities, "roots"):
            self._roots = ClientRoots(self._questions, self._push)
        offer(self._roots)

    def _cancel(self, raw: msgspec.Raw) -> None:
        try:
            request_id = _decode_cancelled(raw).request_id
        except UNPARSABLE:
            return
        if request_id is None:
            return
        if request_id in self._in_flight:
            self._in_flight[request_id].cancel()
        if request_id in self._listens:
            self._listens.pop(request_id).stream.close()

    # -- requests

    def _answer(self, request: Request) -> asyncio.Task[None] | None:
        try:
            method, revision, asked = self._admit(request)
            if revision.modern:
                self._look_for_roots()
            call = Call(
                self.server,
                revision,
                self._subscriber,
                request.id,
                request.notify,
                progress.reporter(asked.meta, request.notify),
                asked,
                self._questions if request.asks else None,
                partial(self._log, request),
                request.header,
                self.owner,
            )
            outcome = eager.run(method.handle(call, asked))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # extensions in Rust panic with one that is no Exception
            request.reply(error_mapping.message(request.id, self._fault(error, request)))
            return None
        if isinstance(outcome, eager.Suspended):
            task = asyncio.get_running_loop().create_task(self._finish(outcome, request))
            request.task = task
            self._in_flight[request.id] = request
            self._bytes_in_flight += request.size
            # Not at the end of `_finish`: a task cancelled before its first step never gets there.
            task.add_done_callback(lambda _: self._forget(request, outcome))
            return task
        self._reply(request, outcome)
        return None

    def _reply(self, request: Request, result: Result) -> None:
        answer = self._result(request.id, result)
        if result.stream is None:
            request.reply(answer)
            return
        listen = Listen(result.stream, partial(request.reply, answer))
        if self._is_ending:
            listen.stream.end(listen.answer)
        else:
            self._listens[request.id] = listen

    def _forget(self, request: Request, outcome: eager.Suspended[Result]) -> None:
        outcome.close()
        del self._in_flight[request.id]
        self._bytes_in_flight -= request.size

    async def _finish(self, outcome: eager.Suspended[Result], request: Request) -> None:
        async with self._running:
            if self._room is not None:
                await self._room.wait()
            try:
                if request.batch is not None:
                    request.batch.check()
                result = await outcome
                if not request.is_cancelled:
                    self._reply(request, result)
                elif result.stream is not None:
                    result.stream.close()
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                # A provider whose own work was cancelled has failed like any other.
                if not request.is_cancelled:
                    request.reply(error_mapping.message(request.id, self._fault(error, request)))

    def _admit(self, request: Request) -> tuple[Method, Revision, params.Params]:
        """Return the method, the revision it is served in and the decoded parameters."""
        name = request.method
        if name not in METHODS:
            raise admission.unknown(name)
        if bytes(memoryview(request.raw)[:1]) != b"{":
            raise Fault(revisions.INVALID_REQUEST, "Invalid request: params is not an object")
        if request.id in self._in_flight or request.id in self._listens:
            raise Fault(revisions.INVALID_REQUEST, "Invalid request: this id is in use")
        self._check_room(request)
        revision = self.revision or admission.opening(request)
        if name not in revision.methods:
            if name == "initialize":
                raise error_mapping.unsupported(admission.requested(request))
            raise admission.unknown(name)
        if name == "initialize" and (request.batch is not None or self.revision is not None):
            reason = "in a batch" if request.batch is not None else "a second time"
            raise Fault(revisions.INVALID_REQUEST, f"Invalid request: initialize {reason}")
        method = METHODS[name]
        asked = request.params = admission.decoded(method.decode, request.raw)
        admission.check_envelope(asked.meta, revision)
        if name != "ping":
            self.revision = revision = admission.chosen(revision, asked)
        if isinstance(asked, params.Initialize):
            self._questions = Questions(asked.capabilities)
        elif isinstance(asked, params.SetLevel):
            self._log_level = asked.level
        return method, revision, asked

    def _check_room(self, request: Request) -> None:
        """Refuse what cannot be held until it is answered; the same may be asked again."""
        again = {"retryable": True}
        if len(self._in_flight) >= MAX_IN_FLIGHT:
            raise Fault(revisions.BUSY, f"More than {MAX_IN_FLIGHT} requests at once", again)
        if self._bytes_in_flight + request.size > MAX_BYTES_IN_FLIGHT:
            reason = f"Requests in flight are longer than {MAX_BYTES_IN_FLIGHT} bytes"
            raise Fault(revisions.BUSY, reason, again)
        if request.batch is not None:
            request.batch.check()

    # -- answers

    def _result(self, request_id: params.RequestId, result: Result) -> bytes:
        head = b'{"jsonrpc":"2.0","id":%b,"result":{%b' % (_encode(request_id), result.members)
        if self.revision is not None and self.revision.modern:
            envelope = self.server.envelope(
                result.ttl_ms, result.meta, is_complete=result.is_complete
            )
            return b"%b%b%b}" % (head, b"," if result.members else b"", envelope)
        if result.meta is None:
            return head + b"}}"
        return b'%b,"_meta":%b}}' % (head, _encode(result.meta))

    def _fault(self, error: BaseException, request: Request) -> Fault:
        uri = getattr(request.params, "uri", None)
        fault = error_mapping.from_error(error, uri, self.revision or revisions.LATEST_HANDSHAKE)
        if fault is not None:
            if isinstance(error, MountUnavailable):
                log_failure(error, f"unavailable in {request.method}")
            return fault
        log_failure(error, f"internal error in {request.method}")
        self._log(request, "error", f"internal error in {request.method}")
        return Fault(revisions.INTERNAL_ERROR, "Internal error")

    def _log(self, request: Request, level: params.LoggingLevel, text: str) -> None:
        """Send a log message to a client that asked for its level."""
        wanted = self._log_level
        if self.revision is not None and self.revision.modern:
            meta = request.params.meta if request.params is not None else None
            wanted = meta.log_level if meta is not None else None
        if wanted is not None and _LEVELS.index(level) >= _LEVELS.index(wanted):
            body = {"level": level, "logger": "resource-server", "data": text}
            request.notify(_notification("notifications/message", body))

    # -- end

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight; a listen is not."""
        return not self._in_flight

    async def drain(self, seconds: float) -> None:
        """End all listens, and wait for the requests in flight.

        As long as one of them ends, or the client takes what it is sent, within so many seconds.
        """
        self._end_listens()
        await self._end_questions()
        before = MAX_IN_FLIGHT + 1
        while 0 < len(self._in_flight) < before:
            before = len(self._in_flight)
            await asyncio.wait(self._tasks(), timeout=seconds)
        await self._subscriber.outbox.drain(seconds)

    async def close(self) -> None:
        """Cancel what is in flight; end the listens, if the client has room for that.

        What does not end when it is cancelled is left alone.
        """
        self._end_listens()
        await self._end_questions()
        self._subscriber.outbox.flush()
        self._subscriber.close()
        tasks = self._tasks()
        for request in self._in_flight.values():
            request.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=eager.END_S)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [each.task for each in self._in_flight.values() if each.task is not None]

    def _end_listens(self) -> None:
        self._is_ending = True
        for listen in self._listens.values():
            listen.stream.end(listen.answer)
        self._listens.clear()

    async def _end_questions(self) -> None:
        if self._roots is not None:
            await self._roots.close()
        if self._questions is not None:
            self._questions.end()


def _salvaged_id(data: bytes) -> params.RequestId | None:
    """Return the id of a message that is no valid request, if it has a usable one."""
    try:
        return _decode_id(data).id
    except UNPARSABLE:
        return None


def _notification(method: str, body: dict[str, Any]) -> bytes:
    return _encode({"jsonrpc": "2.0", "method": method, "params": body})
