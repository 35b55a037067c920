"""What the workers of one server have counted, added up by whichever is asked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec import structs

from resource_server.audit.recorder import RecordCounts
from resource_server.conversion.pool import PoolCounts
from resource_server.transports.http.observability.metrics import (
    Counts,
    LabelValues,
    LatencyHistogram,
    RequestMetrics,
)
from resource_server.transports.http.workers.worker import Worker

C = TypeVar("C", PoolCounts, RecordCounts)

logger = logging.getLogger(__name__)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Counts).decode


class OtherWorkers:
    """The counts of the other workers, and of those that had this one's number before.

    `requests` continues where they ended: no sum becomes less by a death.
    """

    def __init__(self, worker: Worker, requests: RequestMetrics) -> None:
        self._number = worker.number
        self._workers = worker.workers
        self._before: PoolCounts | None = None
        self._stored_before: dict[str, tuple[int, int, int]] = {}
        self._recorded = RecordCounts()
        if state := self._workers.memory.state(self._number):
            before = _decode(state)
            requests.by_labels.update(before.requests)
            requests.sent.bytes, requests.sent.events = before.sent_bytes, before.events
            self._before = structs.replace(before.conversions, waiting=0, workers=0)
            self._stored_before = before.storage
            if before.record is not None:
                self._recorded = structs.replace(before.record, failing=0)

    def added(self, own: Counts) -> Counts:
        """Show the others the counts of this worker; return those of all."""
        if self._before is not None:
            own.conversions = _sum((own.conversions, self._before))
        own.storage = _sum_of_mounts((own.storage, self._stored_before))
        if own.record is not None:
            own.record = _sum((own.record, self._recorded))
        memory = self._workers.memory
        if not memory.publish(self._number, _encode(own)):
            logger.warning("the counts of a worker are too many to be shared")
        others = (memory.state(each) for each in range(self._workers.count) if each != self._number)
        every = [own, *(_decode(state) for state in others if state)]
        latencies: dict[LabelValues, LatencyHistogram] = {}
        for labels, found in (pair for counts in every for pair in counts.requests):
            latencies.setdefault(labels, LatencyHistogram()).add(found)
        records = [each.record for each in every if each.record is not None]
        return Counts(
            requests=list(latencies.items()),
            sent_bytes=sum(each.sent_bytes for each in every),
            events=sum(each.events for each in every),
            sessions=sum(each.sessions for each in every),
            streams=sum(each.streams for each in every),
            conversions=_sum([each.conversions for each in every]),
            down=sorted({name for each in every for name in each.down}),
            storage=_sum_of_mounts([each.storage for each in every]),
            record=_sum(records) if records else None,
        )


def _sum(every: Sequence[C]) -> C:
    return type(every[0])(*map(sum, zip(*map(structs.astuple, every), strict=True)))


def _sum_of_mounts(
    every: Iterable[dict[str, tuple[int, int, int]]],
) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for name, counts in (pair for each in every for pair in each.items()):
        before = found.get(name, (0, 0, 0))
        found[name] = before[0] + counts[0], before[1] + counts[1], before[2] + counts[2]
    return found
