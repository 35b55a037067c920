"""One request on its way into the record of reads.

Only what a provider has accepted in a read is recorded of values: a filter by a masked column, the
key of a hidden row and a search word may be secrets, and stand in requests that are refused. The
record has `...` in their place.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from resource_server import access, uris
from resource_server.audit.activity import Activity
from resource_server.audit.entry import AuditClient, AuditEntry, Decision, bounded, moment
from resource_server.catalog.mount import Mount, log_failure
from resource_server.catalog.read_result import ReadResult
from resource_server.errors import (
    ConversionError,
    InvalidParameter,
    NotACollection,
    ResourceBusy,
    ResourceNotFound,
    ResourceServerError,
    ResourceTooLarge,
    ResourceUnreadable,
    ToolFailed,
)
from resource_server.protocol import params, revisions
from resource_server.protocol.error_mapping import Fault, code_of
from resource_server.protocol.message import UNPARSABLE, JsonRpcMessage

if TYPE_CHECKING:
    from resource_server.protocol.server import Server

LEFT_OUT = "..."
"""Stands for a value that is not recorded."""
MAX_URIS = 100
"""URIs of a subscription that its line has, at most."""
_MAX_URI = 2048
_MAX_SUBJECT = 256
_MAX_NAME = 128
_MAX_SQL = 4096

_REFUSED = (
    ConversionError,
    Fault,
    InvalidParameter,
    NotACollection,
    ResourceBusy,
    ResourceTooLarge,
)


class _RecordedUri(msgspec.Struct):
    uri: str | None = None


_decode_rows = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_uri = msgspec.json.Decoder(_RecordedUri).decode


class RecordedRequest(msgspec.Struct, eq=False):
    """A request whose outcome is recorded once.

    `implementation` is what the client has called itself in `initialize`.
    """

    server: Server
    message: JsonRpcMessage
    implementation: params.Implementation | None
    address: str | None
    _time: float = msgspec.field(default_factory=time.time)
    _begun: float = msgspec.field(default_factory=time.perf_counter)
    _is_recorded: bool = False
    _decision: Decision | None = None
    _accepted: tuple[str, Mapping[str, str]] | None = None
    """The canonical URI that was read, and its parameters."""
    _version: str | None = None
    _rows: int | None = None
    _called: Mount | None = None
    _sql: str | None = None
    _subscribed: Sequence[str] = ()

    # -- what happens on the way

    def read(self, reading: ReadResult) -> None:
        """Note what is sent of resources."""
        item = reading.itself or next(iter(reading.items), None)
        if self._accepted is None and item is not None:
            self._accepted = item.entry.uri, item.entry.query
            if reading.collection is None:
                self._version = item.entry.resource.version
        counts = [each.content.rows for each in reading.items if each.content is not None]
        known = [count for count in counts if count is not None]
        if known:
            self._rows = (self._rows or 0) + sum(known)

    def called(
        self,
        mount: Mount,
        tool: str,
        arguments: Mapping[str, Any],
        structured: Mapping[str, Any] | None,
    ) -> None:
        """Note the call of a provider's tool that has succeeded."""
        try:
            self._called = mount
            self._sql = mount.provider.recorded_call(tool, arguments)
        except Exception as error:  # the code of a plugin
            log_failure(error, f"recording a call in mount {mount.name} failed")
        rows = None if structured is None else structured.get("rows")
        if isinstance(rows, msgspec.Raw):
            with suppress(*UNPARSABLE):
                self._rows = len(_decode_rows(rows))

    def subscribed(self, to: Sequence[str]) -> None:
        """Note the resources that a stream notifies of."""
        self._subscribed = to

    def failed(self, error: BaseException) -> None:
        """Note why there is no result."""
        if isinstance(error, ResourceUnreadable | ToolFailed):
            self._decision = "failed"
        elif isinstance(error, ResourceNotFound) or (
            # Some methods have another error for it.
            isinstance(error, InvalidParameter) and isinstance(error.__context__, ResourceNotFound)
        ):
            self._decision = "not found"
        else:
            self._decision = "refused" if isinstance(error, _REFUSED) else "failed"

    # -- its end

    def answered(self, response: bytes, *, is_failure: bool = False) -> None:
        """Record the response; `is_failure` for the result of a tool that has failed."""
        code = code_of(response)
        if self._decision is None:
            self._decision = "refused" if is_failure or code is not None else "served"
        self._record(self._decision, len(response), code)

    def ended(self) -> None:
        """Record that no response was sent, if none was."""
        self._record("cancelled", 0, None)

    def _record(self, decision: Decision, size: int, code: int | None) -> None:
        recorder = self.server.recorder
        if self._is_recorded or recorder is None:
            return
        self._is_recorded = True
        is_served = decision == "served"
        mount, uri = self._target(is_served=is_served)
        subject, name = access.current().subject, self._name(code)
        first = self._subscribed[:MAX_URIS]
        several = tuple([self._recorded(each, is_served=True)[1] for each in first])
        method = self.message.method
        entry = AuditEntry(
            time=moment(self._time),
            subject=None if subject is None else bounded(subject, _MAX_SUBJECT),
            client=self._client(),
            mount=None if mount is None else mount.name,
            method=method if isinstance(method, str) else "",
            name=None if name is None else bounded(name, _MAX_NAME),
            uri=uri,
            uris=several,
            uris_left_out=max(0, len(self._subscribed) - MAX_URIS),
            sql=None if self._sql is None or not is_served else bounded(self._sql, _MAX_SQL),
            version=None if self._version is None else bounded(self._version, _MAX_NAME),
            rows=self._rows,
            bytes=size,
            decision=decision,
            code=code,
            ms=round((time.perf_counter() - self._begun) * 1000, 3),
        )
        is_own = mount is not None and mount.provider.is_instance(Activity)
        # A client that reads the activity at each change of it would change it.
        recorder.record(entry, is_shown=not is_own)

    def _client(self) -> AuditClient:
        decoded = self.message.decoded_params
        meta = None if decoded is None else decoded.meta
        named = (None if meta is None else meta.client_info) or self.implementation
        if named is None:
            return AuditClient(address=self.address)
        name, version = bounded(named.name, _MAX_NAME), bounded(named.version, _MAX_NAME)
        return AuditClient(name, version, self.address)

    # -- addresses

    def _target(self, *, is_served: bool) -> tuple[Mount | None, str | None]:
        if is_served and self._accepted is not None:
            uri, query = self._accepted
            return self._recorded(uri, query, is_served=True)
        given = self._given_uri()
        if given is None:
            return self._called, None
        mount, recorded = self._recorded(given, is_served=is_served)
        is_template = isinstance(self.message.decoded_params, params.CompleteParams)
        return mount, bounded(given, _MAX_URI) if is_template and is_served else recorded

    def _name(self, code: int | None) -> str | None:
        """Return the name of the tool or prompt; None if there is none of that name."""
        decoded = self.message.decoded_params
        if isinstance(decoded, params.CallToolParams):
            return None if code == revisions.INVALID_PARAMS else decoded.name
        named = decoded.ref if isinstance(decoded, params.CompleteParams) else decoded
        if isinstance(named, params.GetPromptParams | params.PromptReference):
            return named.name if named.name in self.server.prompts else None
        return None

    def _given_uri(self) -> str | None:
        """Return the URI that the request names, if it names one."""
        decoded = self.message.decoded_params
        if isinstance(decoded, params.CompleteParams):
            return decoded.ref.uri if isinstance(decoded.ref, params.TemplateReference) else None
        if isinstance(decoded, params.CallToolParams):
            with suppress(*UNPARSABLE):
                return _decode_uri(decoded.arguments).uri
            return None
        uri = self.message.param("uri")
        return uri if isinstance(uri, str) else None

    def _recorded(
        self, uri: str, query: Mapping[str, str] | None = None, *, is_served: bool
    ) -> tuple[Mount | None, str]:
        """Return the mount of a URI, and the URI as it is recorded.

        Without `query`, nothing has accepted the values of its parameters.
        """
        try:
            mount, path, given = self.server.catalog.route(uri)
        except ResourceServerError:
            return None, _unknown(uri)
        accepted = query if query is not None else dict.fromkeys(given, LEFT_OUT)
        try:
            path, accepted = mount.provider.recorded_address(path, accepted, served=is_served)
            recorded = uris.readable(uris.join(mount.base, path, accepted))
        except Exception as error:  # the code of a plugin
            log_failure(error, f"recording an address in mount {mount.name} failed")
            recorded = mount.base + LEFT_OUT
        return mount, bounded(recorded, _MAX_URI)


def _unknown(uri: str) -> str:
    """Return what is recorded of a URI that no visible mount serves: it may be anything."""
    with suppress(ResourceServerError):
        found = uris.parse(uri)
        if found.scheme == "file" and not found.authority:
            return bounded(uris.readable(uris.join("file:///", found.path)), _MAX_URI)
        return f"{found.scheme[:_MAX_NAME]}:{LEFT_OUT}"
    return LEFT_OUT
