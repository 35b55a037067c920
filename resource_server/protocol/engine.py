"""One client's side of the protocol: a message in, at most one answer out. Does no input or output.

A transport gives each message to `Connection.receive` with two callables: `reply` for its answer and
`notify` for what belongs to it before (progress, log messages). What can be answered at once is
answered before `receive` returns; what has to wait becomes a task that the request's id can cancel.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from resource_server import eager
from resource_server.catalog import Progress
from resource_server.mount import log_failure
from resource_server.protocol import faults, params, revisions
from resource_server.protocol.faults import Fault
from resource_server.protocol.methods import METHODS, Call, Method, Result
from resource_server.protocol.revisions import Revision
from resource_server.protocol.server import Server

logger = logging.getLogger(__name__)

Send: TypeAlias = Callable[[bytes], None]
"""Takes one encoded message; never blocks and never raises."""

MAX_BATCH = 100
MAX_IN_FLIGHT = 1024
_PROGRESS_INTERVAL_S = 0.1
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_encode = msgspec.json.Encoder().encode
_decode_message = msgspec.json.Decoder(params.Message).decode
_decode_batch = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_any = msgspec.json.Decoder().decode
_decode_params = msgspec.json.Decoder(params.Params).decode
_decode_cancelled = msgspec.json.Decoder(params.Cancelled).decode
_UNPARSABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Connection:
    """The state of one client: its revision, its log level, its requests in flight."""

    def __init__(self, server: Server, revision: Revision | None = None) -> None:
        self.server = server
        self.revision = revision
        """None until the first request has decided it."""
        self._log_level: str | None = None
        self._in_flight: dict[params.RequestId, asyncio.Task[None]] = {}
        self._tails: dict[int | None, bytes] = {}

    # -- messages

    def receive(self, data: bytes, reply: Send, notify: Send) -> None:
        """Take one message, or a batch where the revision has them."""
        if data.lstrip()[:1] == b"[":
            self._receive_batch(data, reply, notify)
        else:
            self._receive_one(data, reply, notify)

    def _receive_batch(self, data: bytes, reply: Send, notify: Send) -> None:
        try:
            items = _decode_batch(data)
        except _UNPARSABLE:
            return reply(_error(None, Fault(revisions.PARSE_ERROR, "Parse error")))
        if self.revision is None or not self.revision.batches:
            reason = "this protocol revision has no batches; send one message at a time"
            return reply(_error(None, Fault(revisions.INVALID_REQUEST, reason)))
        if not 0 < len(items) <= MAX_BATCH:
            reason = f"a batch holds 1 to {MAX_BATCH} messages, not {len(items)}"
            return reply(_error(None, Fault(revisions.INVALID_REQUEST, reason)))
        replies: list[bytes] = []
        tasks = [self._receive_one(bytes(item), replies.append, notify, True) for item in items]
        waiting = [task for task in tasks if task is not None]
        if waiting:
            whole = asyncio.gather(*waiting, return_exceptions=True)
            whole.add_done_callback(lambda _: _reply_batch(replies, reply))
        else:
            _reply_batch(replies, reply)

    def _receive_one(
        self, data: bytes, reply: Send, notify: Send, in_batch: bool = False
    ) -> asyncio.Task[None] | None:
        try:
            message = _decode_message(data)
        except msgspec.ValidationError:
            reply(_error(_salvaged_id(data), Fault(revisions.INVALID_REQUEST, "Invalid request")))
        except _UNPARSABLE:
            reply(_error(None, Fault(revisions.PARSE_ERROR, "Parse error")))
        else:
            if message.method is msgspec.UNSET:
                if message.result is msgspec.UNSET and message.error is msgspec.UNSET:
                    fault = Fault(revisions.INVALID_REQUEST, "Invalid request: no method")
                    reply(_error(None if message.id is msgspec.UNSET else message.id, fault))
            elif message.id is msgspec.UNSET:
                self._notified(message.method, message.params)
            else:
                return self._request(
                    message.id, message.method, message.params, reply, notify, in_batch
                )
        return None

    def _notified(self, method: str, raw: msgspec.Raw) -> None:
        if method != "notifications/cancelled":
            return
        try:
            request_id = _decode_cancelled(raw).request_id
        except _UNPARSABLE:
            return
        task = None if request_id is None else self._in_flight.get(request_id)
        if task is not None:
            task.cancel()

    # -- requests

    def _request(
        self,
        request_id: params.RequestId,
        name: str,
        raw: msgspec.Raw,
        reply: Send,
        notify: Send,
        in_batch: bool,
    ) -> asyncio.Task[None] | None:
        asked: params.Params | None = None
        try:
            method, asked, revision = self._admit(request_id, name, raw, in_batch)
            progress = _progress(asked.meta, notify)
            outcome = eager.run(method.handle(Call(self.server, revision, progress), asked))
        except Exception as error:
            reply(_error(request_id, self._fault(error, name, asked, notify)))
            return None
        if isinstance(outcome, eager.Suspended):
            task = asyncio.get_running_loop().create_task(
                self._finish(outcome, request_id, name, asked, reply, notify)
            )
            self._in_flight[request_id] = task
            return task
        reply(self._result(request_id, outcome))
        return None

    async def _finish(
        self,
        outcome: eager.Suspended[Result],
        request_id: params.RequestId,
        name: str,
        asked: params.Params,
        reply: Send,
        notify: Send,
    ) -> None:
        try:
            result = await outcome
        except asyncio.CancelledError:
            return  # by the client or by `close`: a cancelled request is never answered
        except Exception as error:
            reply(_error(request_id, self._fault(error, name, asked, notify)))
        else:
            reply(self._result(request_id, result))
        finally:
            self._in_flight.pop(request_id, None)

    def _admit(
        self, request_id: params.RequestId, name: str, raw: msgspec.Raw, in_batch: bool
    ) -> tuple[Method, params.Params, Revision]:
        """Return the method, its decoded parameters and the revision they are served in."""
        if name not in METHODS:
            raise Fault(revisions.METHOD_NOT_FOUND, "Method not found", {"method": name})
        if bytes(memoryview(raw)[:1]) != b"{":
            raise Fault(revisions.INVALID_REQUEST, "Invalid request: params is not an object")
        if request_id in self._in_flight:
            raise Fault(revisions.INVALID_REQUEST, "Invalid request: this id is in use")
        if len(self._in_flight) >= MAX_IN_FLIGHT:
            data = {"retryable": True}
            raise Fault(revisions.BUSY, f"More than {MAX_IN_FLIGHT} requests at once", data)
        revision = self.revision or self._opening(name, raw)
        if name not in revision.methods:
            if name == "initialize":
                raise faults.unsupported(_requested(raw))
            raise Fault(revisions.METHOD_NOT_FOUND, "Method not found", {"method": name})
        if name == "initialize" and (in_batch or self.revision is not None):
            reason = "in a batch" if in_batch else "a second time"
            raise Fault(revisions.INVALID_REQUEST, f"Invalid request: initialize {reason}")
        method = METHODS[name]
        asked = _decoded(method.decode, raw)
        if revision.modern:
            _check_envelope(asked.meta)
        elif asked.meta is not None and asked.meta.protocol_version is not msgspec.UNSET:
            reason = "Invalid request: this connection was opened by initialize"
            raise Fault(revisions.INVALID_REQUEST, reason)
        if name != "ping":
            self._settle_revision(revision, asked)
        return method, asked, self.revision or revision

    def _opening(self, name: str, raw: msgspec.Raw) -> Revision:
        """Return the revision that the first request of a connection asks for."""
        if name in ("initialize", "ping"):
            return revisions.LATEST_HANDSHAKE
        meta = _decoded(_decode_params, raw).meta
        if meta is not None and meta.protocol_version is not msgspec.UNSET:
            return revisions.LATEST_MODERN
        if name == "server/discover":
            raise Fault(revisions.METHOD_NOT_FOUND, "Method not found", {"method": name})
        raise Fault(revisions.INVALID_REQUEST, "Invalid request: initialize comes first")

    def _settle_revision(self, revision: Revision, asked: params.Params) -> None:
        if isinstance(asked, params.Initialize):
            revision = revisions.HANDSHAKE.get(asked.protocol_version, revisions.LATEST_HANDSHAKE)
        elif isinstance(asked, params.SetLevel):
            self._log_level = asked.level
        self.revision = revision

    # -- answers

    def _result(self, request_id: params.RequestId, result: Result) -> bytes:
        head = b'{"jsonrpc":"2.0","id":' + _encode(request_id) + b',"result":{' + result.members
        revision = self.revision
        if revision is None or not revision.modern:
            if result.meta is None:
                return head + b"}}"
            return b'%b,"_meta":%b}}' % (head, _encode(result.meta))
        separator = b"," if result.members else b""
        return head + separator + self._envelope(result)

    def _envelope(self, result: Result) -> bytes:
        """Return the members that 2026-07-28 adds to every result, and the closing braces."""
        plain = result.meta is None
        known = self._tails.get(result.ttl_ms) if plain else None
        if known is not None:
            return known
        members: dict[str, Any] = {"resultType": "complete"}
        if result.ttl_ms is not None:
            members["ttlMs"] = result.ttl_ms
            members["cacheScope"] = self.server.cache_scope
        members["_meta"] = {**(result.meta or {}), revisions.SERVER_INFO: self.server.info}
        tail = _encode(members)[1:] + b"}"
        if plain:
            self._tails[result.ttl_ms] = tail
        return tail

    def _fault(
        self, error: Exception, name: str, asked: params.Params | None, notify: Send
    ) -> Fault:
        uri = getattr(asked, "uri", None)
        fault = faults.from_error(error, uri, self.revision or revisions.LATEST_HANDSHAKE)
        if fault is not None:
            return fault
        log_failure(error, "internal error in %s", name)
        self._log(notify, asked, "error", f"internal error in {name}")
        return Fault(revisions.INTERNAL_ERROR, "Internal error")

    def _log(self, notify: Send, asked: params.Params | None, level: str, text: str) -> None:
        """Send a log message to a client that asked for its level."""
        wanted = self._log_level
        if self.revision is not None and self.revision.modern:
            wanted = asked.meta.log_level if asked is not None and asked.meta is not None else None
        if wanted is not None and _LEVELS.index(level) >= _LEVELS.index(wanted):
            body = {"level": level, "logger": "resource-server", "data": text}
            notify(_notification("notifications/message", body))

    # -- end

    async def drain(self, seconds: float) -> None:
        """Wait for the requests in flight, at most so long."""
        if self._in_flight:
            await asyncio.wait(list(self._in_flight.values()), timeout=seconds)

    async def close(self) -> None:
        """Cancel what is in flight."""
        tasks = list(self._in_flight.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _decoded(decode: Callable[[msgspec.Raw], params.Params], raw: msgspec.Raw) -> params.Params:
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        raise Fault(revisions.INVALID_PARAMS, f"Invalid params: {error}") from None
    except _UNPARSABLE:
        raise Fault(revisions.PARSE_ERROR, "Parse error") from None


def _check_envelope(meta: params.Meta | None) -> None:
    missing: list[str] = []
    if meta is None or meta.protocol_version is msgspec.UNSET:
        missing.append(revisions.PROTOCOL_VERSION)
    if meta is None or meta.client_capabilities is msgspec.UNSET:
        missing.append(revisions.CLIENT_CAPABILITIES)
    if meta is None or missing:
        reason = f"Invalid params: _meta lacks {' and '.join(missing)}"
        raise Fault(revisions.INVALID_PARAMS, reason)
    if meta.protocol_version not in revisions.MODERN:
        raise faults.unsupported(str(meta.protocol_version))


def _requested(raw: msgspec.Raw) -> str:
    """Return the revision that an `initialize` on a modern connection asked for."""
    try:
        version = _decode_any(raw).get("protocolVersion")
    except _UNPARSABLE:
        version = None
    return version if isinstance(version, str) else ""


def _salvaged_id(data: bytes) -> params.RequestId | None:
    """Return the id of a message that is no valid request, if it has a usable one."""
    try:
        value = _decode_any(data)
    except _UNPARSABLE:
        return None
    request_id = value.get("id") if isinstance(value, dict) else None
    valid = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    return request_id if valid else None


def _progress(meta: params.Meta | None, notify: Send) -> Progress | None:
    """Return what reports the progress of a request that takes long and asked for it."""
    token = meta.progress_token if meta is not None else None
    if token is None:
        return None
    last_done, last_time = 0, time.monotonic()

    def report(done: int, total: int | None) -> None:
        nonlocal last_done, last_time
        now = time.monotonic()
        if done <= last_done or now - last_time < _PROGRESS_INTERVAL_S:
            return
        last_done, last_time = done, now
        body: dict[str, Any] = {"progressToken": token, "progress": done}
        if total is not None:
            body["total"] = total
        notify(_notification("notifications/progress", body))

    return report


def _notification(method: str, body: dict[str, Any]) -> bytes:
    return _encode({"jsonrpc": "2.0", "method": method, "params": body})


def _error(request_id: params.RequestId | None, fault: Fault) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_encode(request_id), fault.encode())


def _reply_batch(replies: list[bytes], reply: Send) -> None:
    if replies:
        reply(b"[" + b",".join(replies) + b"]")
