"""One client's side of the protocol: a message in, at most one response out; does no I/O.

A transport gives each message to `ClientConnection.receive` with two callables: `reply` for the
response, and `notify` for the notifications that precede it (progress, log messages, the stream of
a listen). Requests that finish without waiting are answered before `receive` returns; the others
become tasks that can be cancelled by request id. An acknowledged listen is no task any more: it is
answered when the connection ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET

from resource_server.catalog.mount import log_failure
from resource_server.catalog.read_result import ReadResult
from resource_server.errors import MountUnavailable
from resource_server.protocol import error_mapping, params, revisions
from resource_server.protocol.call import Call, Result
from resource_server.protocol.client_features.client_roots import ClientRoots, RootsOffer
from resource_server.protocol.client_features.server_requests import (
    Capability,
    ServerRequests,
    supported,
)
from resource_server.protocol.client_subscriptions import (
    SharedConnection,
    Subscriber,
    Subscriptions,
)
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.message import (
    MAX_BATCH,
    UNPARSABLE,
    Header,
    JsonRpcMessage,
    Unreadable,
    decode_batch,
    decode_message,
    is_batch,
)
from resource_server.protocol.methods import METHODS
from resource_server.protocol.outbox import Room, Send
from resource_server.protocol.progress import ProgressReporter
from resource_server.protocol.revisions import Revision
from resource_server.protocol.server import Server
from resource_server.runtime import eager
from resource_server.subscriptions.snapshot import DocumentState

if TYPE_CHECKING:
    from resource_server.audit.recorder import Recorder
    from resource_server.protocol.recorded_request import RecordedRequest

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT = 1024
"""Maximum requests in flight."""
MAX_BYTES_IN_FLIGHT = 16 * 1024 * 1024
"""Maximum bytes of the messages in flight, which are kept until they are answered."""
MAX_RUNNING = 16
"""Maximum requests that run; the others in flight wait for their turn."""
MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Maximum bytes of the responses of a batch; beyond them, its remaining requests are refused."""
MAX_READ_STATES = 2048
"""Maximum resources of one client whose last read state is remembered."""

LISTS: tuple[Literal["resources", "tools", "prompts"], ...] = ("resources", "tools", "prompts")
"""The lists whose changes a handshake client is notified of."""

_NOT_RECORDED = frozenset(("initialize", "server/discover", "ping", "logging/setLevel"))
"""Methods that read nothing."""

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_encode = msgspec.json.Encoder().encode
_decode_version = msgspec.json.Decoder(params.VersionOnly).decode
_decode_cancelled = msgspec.json.Decoder(params.CancelledParams).decode


class BatchResponse:
    """The responses of one JSON-RPC batch (2025-03-26 only), collected until the last is there."""

    def __init__(self) -> None:
        self._responses: list[bytes] = []
        self._length = 0

    def add(self, response: bytes) -> None:
        """Add one response."""
        self._responses.append(response)
        self._length += len(response)

    def check(self) -> None:
        """Refuse further requests of the batch if its responses exceed the limit."""
        if self._length > MAX_BATCH_BYTES:
            reason = "The answers of this batch are too long; send this request by itself"
            raise Fault(revisions.BUSY, reason, {"retryable": True})

    def send(self, reply: Send) -> None:
        """Send all responses as one message, or nothing if there are none."""
        if self._responses:
            reply(b"[" + b",".join(self._responses) + b"]")


class PendingRequest(msgspec.Struct, eq=False):
    """One request on its way to its response."""

    message: JsonRpcMessage
    id: params.RequestId
    method: str
    reply: Send
    notify: Send
    can_ask: bool
    """Whether requests sent by `notify` reach the client."""
    batch: BatchResponse | None
    header: Header | None
    """None where no HTTP header repeats the message."""
    record: RecordedRequest | None = None
    """None if it is not recorded."""
    progress: ProgressReporter | None = None
    """None if the client asks for no progress."""
    task: asyncio.Task[None] | None = None
    """The task that will answer it; None while it is answered synchronously."""
    is_cancelled: bool = False
    """Not derived from the task, which a failed task group also cancels."""

    def cancel(self) -> None:
        """Never answer it, even if its provider ignores the cancellation."""
        self.is_cancelled = True
        if self.progress is not None:
            self.progress.stop()
        if self.task is not None:
            self.task.cancel()


class ReadStates(OrderedDict[str, Hashable]):
    """The states of the resources that a client has read last, at most `MAX_READ_STATES`."""

    def __setitem__(self, uri: str, state: Hashable) -> None:
        # `super` takes as long as the rest.
        OrderedDict.__setitem__(self, uri, state)  # pyright: ignore[reportUnknownMemberType]
        self.move_to_end(uri)
        if len(self) > MAX_READ_STATES:
            self.popitem(last=False)


class OpenListen(msgspec.Struct, frozen=True, eq=False):
    """An acknowledged `subscriptions/listen`: its stream, and the response that ends it."""

    stream: Subscriptions
    respond: Callable[[], None]


class ClientConnection:
    """The state of one client: its revision, its subscriptions, its requests in flight.

    Args:
        server: The server, shared by all connections.
        revision: The protocol revision, if the transport has decided it.
        push: Takes the notifications of a handshake client's subscriptions.
        room: Set while the client takes responses; None if it always does.
        push_room: Set while the client takes what is pushed; `room` by default.
        roots: Takes the client's roots, once, or None if it offers none.
    """

    def __init__(
        self,
        server: Server,
        revision: Revision | None = None,
        *,
        push: Send,
        room: Room | None = None,
        push_room: Room | None = None,
        roots: RootsOffer | None = None,
    ) -> None:
        self.server = server
        self.revision = revision
        """None until the first request decides it."""
        self.owner: str | None = None
        """Rate-limit key: a subject or an address; None for the only client."""
        self.address: str | None = None
        """The client's address over HTTP, for the record of reads."""
        self._implementation: params.Implementation | None = None
        """What a handshake client calls itself."""
        self.shared: SharedConnection | None = None
        """Set if other servers answer the client, too."""
        self.request_name = "ask"
        """How the ids of requests to the client begin."""
        self._follows_lists = False
        self._room = room
        """Set while the client takes responses; until then no waiting request starts."""
        self._running: asyncio.Semaphore | None = None
        self._log_level: str | None = None
        self._requests: ServerRequests | None = None
        """Open requests to the client; None before `initialize`, and in 2026-07-28."""
        self._offer_roots = roots
        self._roots: ClientRoots | None = None
        self._push = push
        self._in_flight: dict[params.RequestId, PendingRequest] = {}
        self._bytes_in_flight = 0
        self._push_room = push_room or room
        self._subscriber: Subscriber | None = None
        self._read_states = ReadStates()
        self._listens: dict[params.RequestId, OpenListen] = {}
        self._is_ending = False

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that a handshake client has declared."""
        return frozenset() if self._requests is None else self._requests.capabilities

    def resume(self, revision: Revision, capabilities: frozenset[Capability]) -> None:
        """Continue the connection of a handshake client that has begun at another server.

        If it is not shared, it takes no subscriptions: the others are not known here, and would be
        lost unnoticed.
        """
        self.revision = revision
        self._requests = ServerRequests(capabilities, self.request_name)
        if self.shared is None:
            self.subscriptions.refusal = (
                "this session has begun at another server, or before a restart; "
                "begin a new one with initialize to subscribe"
            )

    @property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions of a handshake client."""
        return self._get_subscriber().own

    def follow_lists(self) -> bool:
        """Notify of changes of all lists from now on; return False if that is so already."""
        if self._follows_lists:
            return False
        self._follows_lists = True
        for name in LISTS:
            self.subscriptions.follow_list(name)
        return True

    def set_log_level(self, level: params.LoggingLevel) -> None:
        """Send log messages of a handshake client from this level on."""
        self._log_level = level

    # -- messages

    def receive(
        self,
        data: bytes,
        reply: Send,
        notify: Send,
        *,
        can_ask: bool = True,
        header: Header | None = None,
        message: JsonRpcMessage | None = None,
    ) -> asyncio.Future[Any] | None:
        """Take one message, or a batch in revisions that have them.

        Args:
            data: The bytes of the message.
            reply: Takes the response.
            notify: Takes the notifications and requests that belong to the message.
            can_ask: Whether requests sent by `notify` reach the client.
            header: Returns the value of an HTTP header, where headers repeat the message.
            message: The decoded message, where the transport has decoded it already.

        Returns:
            A future that is done after the last reply; None if there is nothing to wait for.
        """
        if message is not None:
            return self._take(message, reply, notify, can_ask=can_ask, header=header)
        if data[:1] != b"{" and is_batch(data):
            return self._receive_batch(data, reply, notify)
        return self._receive_one(data, reply, notify, can_ask=can_ask)

    def miss(self) -> None:
        """Note a message that is too long to be read; it may have answered any open question."""
        if self._requests is not None:
            self._requests.fail("the client's answer is too long")

    def _receive_batch(self, data: bytes, reply: Send, notify: Send) -> asyncio.Future[Any] | None:
        try:
            items = self._batch(data)
        except Fault as fault:
            reply(error_mapping.error_response(None, fault))
            return None
        batch = BatchResponse()
        tasks = [self._receive_one(bytes(item), batch.add, notify, batch=batch) for item in items]
        waiting = [task for task in tasks if task is not None]
        if waiting:
            whole = asyncio.gather(*waiting, return_exceptions=True)
            whole.add_done_callback(lambda _: batch.send(reply))
            return whole
        batch.send(reply)
        return None

    def _batch(self, data: bytes) -> list[msgspec.Raw]:
        items = decode_batch(data)
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
        batch: BatchResponse | None = None,
        can_ask: bool = False,
    ) -> asyncio.Task[None] | None:
        """Answer one message; if the response has to wait, return the task that sends it."""
        try:
            message = decode_message(data)
        except Unreadable as fault:
            reply(error_mapping.error_response(fault.request_id, fault))
            return None
        return self._take(message, reply, notify, batch=batch, can_ask=can_ask)

    def _take(
        self,
        message: JsonRpcMessage,
        reply: Send,
        notify: Send,
        *,
        batch: BatchResponse | None = None,
        can_ask: bool = False,
        header: Header | None = None,
    ) -> asyncio.Task[None] | None:
        if message.fault is not None:
            _refuse(message, message.fault, reply)
        elif message.method is UNSET:
            if message.result is UNSET and message.error is UNSET:
                reason = "Invalid request: no method"
                _refuse(message, Fault(revisions.INVALID_REQUEST, reason), reply)
            elif (
                self._requests is not None
                and not self._requests.receive(message)
                and self.shared is not None
            ):
                self.shared.responded(message)
        elif message.id is UNSET:
            self._notified(message.method, message.raw_params)
        elif message.id is None:
            _refuse(message, Fault(revisions.INVALID_REQUEST, "Invalid request: id is null"), reply)
        else:
            return self._answer(
                PendingRequest(
                    message, message.id, message.method, reply, notify, can_ask, batch, header
                )
            )
        return None

    def _notified(self, method: str, raw: msgspec.Raw) -> None:
        if method == "notifications/cancelled":
            self._cancel(raw)
        elif method == "notifications/initialized" and self.revision and not self.revision.modern:
            # A shared one follows them where its stream is.
            if self.shared is None:
                self.follow_lists()
            self._look_for_roots()
        elif method == "notifications/roots/list_changed" and self._roots is not None:
            self._roots.changed()

    def _look_for_roots(self) -> None:
        offer, self._offer_roots = self._offer_roots, None
        if offer is None:
            return
        if self._requests is not None and "roots" in self._requests.capabilities:
            self._roots = ClientRoots(self._requests, self._push, timing=self.server.timing)
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

    def _answer(self, request: PendingRequest) -> asyncio.Task[None] | None:
        try:
            if self.server.recorder is not None:
                self._record(request, self.server.recorder)
            revision = self._admit(request)
            if revision.modern:
                self._look_for_roots()
            decoded = request.message.decoded_params or request.message.params()
            token = decoded.meta.progress_token if decoded.meta is not None else None
            call = Call(
                server=self.server,
                revision=revision,
                subscriber=self._get_subscriber,
                note_read=self._note_read
                if request.record is None
                else partial(self._note_read, record=request.record),
                record=request.record,
                id=request.id,
                notify=request.notify,
                progress=None if token is None else self._progress(token, request, revision),
                params=decoded,
                requests=self._requests if request.can_ask else None,
                log=partial(self._log, request),
                header=request.header,
                owner=self.owner,
            )
            outcome = eager.run(METHODS[request.method](call, decoded))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a panic of a Rust extension is not an Exception
            self._fail(request, error)
            return None
        if isinstance(outcome, eager.Suspended):
            task = asyncio.get_running_loop().create_task(self._finish(outcome, request))
            request.task = task
            if request.progress is not None:
                request.progress.tick_every(self.server.timing.progress_tick_s)
            self._in_flight[request.id] = request
            self._bytes_in_flight += request.message.size
            # Not at the end of `_finish`: a task cancelled before its first step never gets there.
            task.add_done_callback(lambda _: self._forget(request, outcome))
            return task
        self._reply(request, outcome)
        return None

    def _reply(self, request: PendingRequest, result: Result) -> None:
        response = self._response(request.id, result)
        if request.record is not None:
            request.record.answered(response, is_failure=result.is_failure)
        if result.stream is None:
            request.reply(response)
            return
        listen = OpenListen(result.stream, partial(request.reply, response))
        if self._is_ending:
            listen.stream.end(listen.respond)
        else:
            self._listens[request.id] = listen

    def _forget(self, request: PendingRequest, outcome: eager.Suspended[Result]) -> None:
        outcome.close()
        if request.progress is not None:
            request.progress.stop()
        if request.record is not None:
            request.record.ended()
        del self._in_flight[request.id]
        self._bytes_in_flight -= request.message.size

    async def _finish(self, outcome: eager.Suspended[Result], request: PendingRequest) -> None:
        if self._running is None:
            self._running = asyncio.Semaphore(MAX_RUNNING)
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
                # A provider whose internal work was cancelled has simply failed.
                if not request.is_cancelled:
                    self._fail(request, error)

    def _record(self, request: PendingRequest, recorder: Recorder) -> None:
        """Let the outcome of a request be recorded.

        Raises:
            Fault: nothing can be recorded now, and so nothing is read.
        """
        if request.method not in METHODS or request.method in _NOT_RECORDED:
            return
        if recorder.refusal is not None:
            raise Fault(revisions.BUSY, f"Refused: {recorder.refusal}", {"retryable": True})
        # Imported here: most servers have no record.
        from resource_server.protocol.recorded_request import RecordedRequest

        request.record = RecordedRequest(
            self.server, request.message, self._implementation, self.address
        )

    def _fail(self, request: PendingRequest, error: BaseException) -> None:
        response = error_mapping.error_response(request.id, self._fault(error, request))
        if request.record is not None:
            request.record.failed(error)
            request.record.answered(response)
        request.reply(response)

    def _progress(
        self, token: params.RequestId, request: PendingRequest, revision: Revision
    ) -> ProgressReporter:
        interval_s, has_messages = (
            self.server.timing.progress_interval_s,
            revision.progress_messages,
        )
        request.progress = ProgressReporter(
            token, request.notify, interval_s, has_messages=has_messages
        )
        return request.progress

    def _get_subscriber(self) -> Subscriber:
        if self._subscriber is None:
            self._subscriber = Subscriber(
                self.server, self._push, self._push_room, self._read_states
            )
        return self._subscriber

    def _note_read(self, reading: ReadResult, record: RecordedRequest | None = None) -> None:
        if record is not None:
            record.read(reading)
        if reading.items and reading.collection is None and not self.server.broker.ever_subscribed:
            entry = reading.items[0].entry
            if entry.resource.version is not None:
                self._read_states[entry.uri] = DocumentState(entry.resource.version)
                return
        self._get_subscriber().read(reading)

    # -- admission

    def _admit(self, request: PendingRequest) -> Revision:
        """Check that a request may run; return its revision."""
        method = request.method
        if method not in METHODS:
            raise error_mapping.method_not_found(method)
        if bytes(memoryview(request.message.raw_params)[:1]) != b"{":
            raise Fault(revisions.INVALID_REQUEST, "Invalid request: params is not an object")
        if request.id in self._in_flight or request.id in self._listens:
            raise Fault(revisions.INVALID_REQUEST, "Invalid request: this id is in use")
        self._check_capacity(request)
        revision = self.revision or _first_revision(request)
        if method not in revision.methods:
            if method == "initialize":
                raise error_mapping.unsupported_version(_requested_version(request))
            raise error_mapping.method_not_found(method)
        if method == "initialize" and (request.batch is not None or self.revision is not None):
            reason = "in a batch" if request.batch is not None else "a second time"
            raise Fault(revisions.INVALID_REQUEST, f"Invalid request: initialize {reason}")
        decoded = request.message.params()
        _check_envelope(decoded.meta, revision)
        if isinstance(decoded, params.InitializeParams):
            revision = revisions.HANDSHAKE.get(decoded.protocol_version, revisions.LATEST_HANDSHAKE)
            self._requests = ServerRequests(supported(decoded.capabilities), self.request_name)
            self._implementation = decoded.client_info
        elif isinstance(decoded, params.SetLevelParams):
            self._level_asked(decoded.level)
        if method != "ping":
            self.revision = revision
        return revision

    def _level_asked(self, level: params.LoggingLevel) -> None:
        self.set_log_level(level)
        if self.shared is not None:
            self.shared.level_set(level)

    def _check_capacity(self, request: PendingRequest) -> None:
        """Refuse a request that cannot be held until it is answered; the client may retry."""
        if len(self._in_flight) >= MAX_IN_FLIGHT:
            reason = f"More than {MAX_IN_FLIGHT} concurrent requests"
            raise Fault(revisions.BUSY, reason, {"retryable": True})
        if self._bytes_in_flight + request.message.size > MAX_BYTES_IN_FLIGHT:
            reason = f"Requests in flight are longer than {MAX_BYTES_IN_FLIGHT} bytes"
            raise Fault(revisions.BUSY, reason, {"retryable": True})
        if request.batch is not None:
            request.batch.check()

    # -- responses

    def _response(self, request_id: params.RequestId, result: Result) -> bytes:
        members, meta, end = result.members, result.meta, b"}"
        if self.revision is not None and self.revision.modern:
            ttl_ms = result.ttl_ms
            is_common = meta is None and result.is_complete
            end = (is_common and self.server.envelopes.get(ttl_ms)) or self.server.envelope(
                ttl_ms, meta, is_complete=result.is_complete
            )
            end = b"," + end if members else end
        elif meta is not None:
            end = b',"_meta":%b}' % _encode(meta)
        # In one step: a page is long.
        return b'{"jsonrpc":"2.0","id":%b,"result":{%b%b}' % (_encode(request_id), members, end)

    def _fault(self, error: BaseException, request: PendingRequest) -> Fault:
        uri = getattr(request.message.decoded_params, "uri", None)
        fault = error_mapping.from_error(error, uri, self.revision or revisions.LATEST_HANDSHAKE)
        if fault is not None:
            if isinstance(error, MountUnavailable):
                log_failure(error, f"unavailable in {request.method}")
            return fault
        log_failure(error, f"internal error in {request.method}")
        self._log(request, "error", f"internal error in {request.method}")
        return Fault(revisions.INTERNAL_ERROR, "Internal error")

    def _log(self, request: PendingRequest, level: params.LoggingLevel, text: str) -> None:
        """Send a log message, if the client asked for its level."""
        wanted = self._log_level
        if self.revision is not None and self.revision.modern:
            decoded = request.message.decoded_params
            meta = None if decoded is None else decoded.meta
            wanted = None if meta is None else meta.log_level
        if wanted is not None and _LEVELS.index(level) >= _LEVELS.index(wanted):
            body = {"level": level, "logger": "resource-server", "data": text}
            message = {"jsonrpc": "2.0", "method": "notifications/message", "params": body}
            request.notify(_encode(message))

    # -- end

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight; listens do not count."""
        return not self._in_flight

    async def drain(self, timeout_s: float) -> None:
        """End all listens, and wait for the requests in flight and the outbox.

        Gives up when none of them makes progress within `timeout_s` seconds.
        """
        self._end_listens()
        await self._end_requests()
        before = MAX_IN_FLIGHT + 1
        while 0 < len(self._in_flight) < before:
            before = len(self._in_flight)
            await asyncio.wait(self._tasks(), timeout=timeout_s)
        if self._subscriber is not None:
            await self._subscriber.outbox.drain(timeout_s)

    async def close(self) -> None:
        """Cancel the requests in flight, and end the listens if the client has room for that.

        Waits only briefly for requests that ignore their cancellation.
        """
        self._end_listens()
        await self._end_requests()
        if self._subscriber is not None:
            self._subscriber.outbox.flush()
            self._subscriber.close()
        tasks = self._tasks()
        for request in self._in_flight.values():
            request.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=eager.CANCEL_S)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [each.task for each in self._in_flight.values() if each.task is not None]

    def _end_listens(self) -> None:
        self._is_ending = True
        for listen in self._listens.values():
            listen.stream.end(listen.respond)
        self._listens.clear()

    async def _end_requests(self) -> None:
        if self._roots is not None:
            await self._roots.close()
        if self._requests is not None:
            self._requests.end()


def _refuse(message: JsonRpcMessage, fault: Fault, reply: Send) -> None:
    reply(error_mapping.error_response(None if message.id is UNSET else message.id, fault))


def _first_revision(request: PendingRequest) -> Revision:
    """Return the latest revision of the era that the first request belongs to."""
    if request.method == "initialize":
        return revisions.LATEST_HANDSHAKE
    meta = request.message.common_params().meta
    if meta is not None and meta.protocol_version is not UNSET:
        return revisions.LATEST_MODERN
    if request.method == "ping":
        return revisions.LATEST_HANDSHAKE
    if request.method not in revisions.LATEST_HANDSHAKE.methods:
        raise error_mapping.method_not_found(request.method)
    raise Fault(revisions.INVALID_REQUEST, "Invalid request: initialize comes first")


def _check_envelope(meta: params.RequestMeta | None, revision: Revision) -> None:
    """Check that the envelope of a request fits the era of its connection."""
    version = UNSET if meta is None else meta.protocol_version
    if not revision.modern:
        if version is not UNSET:
            reason = "this connection was opened by initialize"
            raise Fault(revisions.INVALID_REQUEST, f"Invalid request: {reason}")
        return
    missing: list[str] = []
    if version is UNSET:
        missing.append(revisions.PROTOCOL_VERSION)
    elif version not in revisions.MODERN:
        raise error_mapping.unsupported_version(version)
    if meta is None or meta.client_capabilities is UNSET:
        missing.append(revisions.CLIENT_CAPABILITIES)
    if missing:
        reason = f"_meta lacks {' and '.join(missing)}"
        raise Fault(revisions.INVALID_PARAMS, f"Invalid params: {reason}")


def _requested_version(request: PendingRequest) -> str:
    """Return the revision that an `initialize` on a modern connection asked for."""
    try:
        return _decode_version(request.message.raw_params).protocol_version
    except UNPARSABLE:
        return ""
