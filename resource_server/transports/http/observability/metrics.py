"""Counts and latencies of requests, and `/metrics` in the formats that Prometheus reads."""

from __future__ import annotations

import platform
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import msgspec

from resource_server import __version__
from resource_server.audit.recorder import RecordCounts
from resource_server.catalog.mount import Mount
from resource_server.conversion.pool import PoolCounts
from resource_server.search.indexes import IndexState
from resource_server.transports.http.app.request import Exchange, SentTotals

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency buckets."""

_PREFIX = "resource_server"
_BOUNDS = (*map(str, BUCKETS_S), "+Inf")
_STORAGE = (
    ("requests", "Requests to object storage."),
    ("errors", "Requests to object storage that failed."),
    ("bytes", "Bytes received from object storage."),
)
_LASTING = frozenset(("subscriptions/listen", "GET"))
"""Methods whose streams last until the client ends them: they have no latency."""


class RequestLabels(NamedTuple):
    """Labels by which requests are counted: a few values each, whatever clients send."""

    is_mcp: bool
    is_stateless: bool
    method: str
    status: int
    """HTTP status; 0 if the client left before the end of the response."""
    error_code: int | None
    """The JSON-RPC error code of the response."""


class LatencyHistogram(msgspec.Struct, array_like=True):
    """Latency histogram: requests per bucket."""

    buckets: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    """Requests per bucket; the last has no upper bound."""
    total_s: float = 0.0

    @property
    def count(self) -> int:
        """The number of requests."""
        return sum(self.buckets)

    def add(self, other: LatencyHistogram) -> None:
        """Count the requests of another one, too."""
        self.buckets = [sum(pair) for pair in zip(self.buckets, other.buckets, strict=True)]
        self.total_s += other.total_s


LabelValues: TypeAlias = tuple[bool, bool, str, int, int | None]
"""The members of `RequestLabels`: creating one takes longer than counting."""


class RequestMetrics:
    """Plain counters, updated when a request ends; Prometheus' formats are made on demand.

    prometheus-client's own counters would take 4.8 us of a request instead of 0.4 us, 4 % of it,
    and 17 ms and 2 MB of every start: any local program may ask for metrics, which few do.
    """

    def __init__(self) -> None:
        self.sent = SentTotals()
        self.by_labels: dict[LabelValues, LatencyHistogram] = {}

    def add(self, exchange: Exchange) -> None:
        """Count a request whose response has ended."""
        seconds = time.perf_counter() - exchange.started_at
        status = exchange.status if exchange.is_complete else 0
        code = exchange.error_code
        labels = exchange.is_mcp, exchange.is_stateless, exchange.method, status, code
        histogram = self.by_labels.get(labels)
        if histogram is None:
            histogram = self.by_labels[labels] = LatencyHistogram()
        histogram.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        histogram.total_s += seconds


class Counts(msgspec.Struct, array_like=True):
    """What a server counts, or all workers of one together."""

    requests: list[tuple[LabelValues, LatencyHistogram]]
    sent_bytes: int
    events: int
    sessions: int
    streams: int
    conversions: PoolCounts
    down: list[str]
    """Names of the mounts that do not serve."""
    storage: dict[str, tuple[int, int, int]]
    """Requests to object storage, failed ones and bytes received, by mount."""
    record: RecordCounts | None = None
    """None without a record of reads."""

    def by_labels(self) -> Iterable[tuple[RequestLabels, LatencyHistogram]]:
        """Return the latencies of requests, by their labels."""
        return ((RequestLabels(*each), found) for each, found in self.requests)


class MetricsSource(NamedTuple):
    """The numbers that `/metrics` shows to one caller."""

    counts: Counts
    mounts: Sequence[Mount]
    """The mounts visible to the caller."""
    fleet: tuple[bool, int] | None
    """Whether the store of the fleet answers, and the number of its servers; None without one."""
    indexes: Sequence[IndexState]
    """The search indexes of mounts in which the caller sees everything: they count documents."""
    is_alone: bool
    """Whether this process is the whole server."""


def conversion_counts() -> PoolCounts:
    """Return the numbers of this process's converters."""
    # Imported here: the metrics may be the first that need it.
    from resource_server.conversion import pool

    return pool.shared().counts


def encode_metrics(source: MetricsSource, accept: str) -> tuple[bytes, str]:
    """Return all metrics in a format that `accept` allows, and its media type."""
    # Imported here: not needed until metrics are read.
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    # For this one response: nothing is registered with the process.
    registry = CollectorRegistry()
    registry.register(cast("Any", _Collector(source)))
    if source.is_alone:
        ProcessCollector(registry=registry)
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


class _Collector:
    """Builds Prometheus' metrics; structurally a `prometheus_client.registry.Collector`."""

    def __init__(self, source: MetricsSource) -> None:
        from prometheus_client import core

        self._core = core
        self._source = source

    def collect(self) -> Iterator[Metric]:
        core, counts = self._core, self._source.counts
        requests = list(counts.by_labels())
        build = {"version": __version__, "python": platform.python_version()}
        yield core.InfoMetricFamily(f"{_PREFIX}_build", "What is running.", value=build)
        yield self._requests()
        yield self._latencies()
        codes = ((labels.error_code, found) for labels, found in requests if labels.is_mcp)
        help = "Answers that were errors, by JSON-RPC code."
        yield self._counted("errors", help, "code", codes)
        statuses = ((labels.status or None, found) for labels, found in requests)
        yield self._counted("responses", "HTTP answers, by status.", "status", statuses)
        yield core.CounterMetricFamily(
            f"{_PREFIX}_sent_bytes",
            "Bytes of answers, without their headers.",
            counts.sent_bytes,
        )
        yield core.CounterMetricFamily(
            f"{_PREFIX}_events", "Messages sent on streams.", counts.events
        )
        yield core.GaugeMetricFamily(f"{_PREFIX}_sessions", "Sessions at present.", counts.sessions)
        yield core.GaugeMetricFamily(
            f"{_PREFIX}_streams", "Clients that wait to be told of changes.", counts.streams
        )
        if self._source.fleet is not None:
            is_up, servers = self._source.fleet
            text = "Whether the store of the fleet answers."
            yield core.GaugeMetricFamily(f"{_PREFIX}_fleet_up", text, int(is_up))
            text = "Servers of the fleet, as the store last told."
            yield core.GaugeMetricFamily(f"{_PREFIX}_fleet_servers", text, servers)
        yield from self._mounts()
        yield from self._conversions()
        yield from self._search_indexes()
        yield from self._record()

    def _requests(self) -> Metric:
        counts = Counter[tuple[str, str, str]]()
        for labels, found in self._source.counts.by_labels():
            if labels.is_mcp:
                era = "stateless" if labels.is_stateless else "handshake"
                counts[era, labels.method, _outcome(labels)] += found.count
        metric = self._core.CounterMetricFamily(
            f"{_PREFIX}_requests",
            "Requests to the endpoint that were answered, by era, method and outcome.",
            labels=("era", "method", "outcome"),
        )
        for values, count in counts.items():
            metric.add_metric(values, count)
        return metric

    def _latencies(self) -> Metric:
        metric = self._core.HistogramMetricFamily(
            f"{_PREFIX}_request_seconds",
            "From a request to the end of its answer; without streams that wait for changes.",
            labels=("method",),
        )
        sums = defaultdict[str, LatencyHistogram](LatencyHistogram)
        for labels, found in self._source.counts.by_labels():
            if labels.is_mcp and labels.method not in _LASTING:
                sums[labels.method].add(found)
        for method, each in sums.items():
            cumulative = list(zip(_BOUNDS, accumulate(each.buckets), strict=True))
            metric.add_metric((method,), cumulative, each.total_s)
        return metric

    def _counted(
        self, name: str, help: str, label: str, found: Iterable[tuple[int | None, LatencyHistogram]]
    ) -> Metric:
        counts = Counter[int]()
        for key, histogram in found:
            if key is not None:
                counts[key] += histogram.count
        metric = self._core.CounterMetricFamily(f"{_PREFIX}_{name}", help, labels=(label,))
        for key, count in counts.items():
            metric.add_metric((str(key),), count)
        return metric

    def _mounts(self) -> Iterator[Metric]:
        up = self._core.GaugeMetricFamily(
            f"{_PREFIX}_mount_up", "Whether it serves.", labels=("mount",)
        )
        watch = self._core.GaugeMetricFamily(
            f"{_PREFIX}_mount_watch",
            "1, and what notices its changes.",
            labels=("mount", "back_end"),
        )
        for mount in self._source.mounts:
            up.add_metric((mount.name,), mount.name not in self._source.counts.down)
            watch.add_metric((mount.name, _watch_back_end(mount)), 1)
        yield up
        yield watch
        for place, (name, text) in enumerate(_STORAGE):
            metric = self._core.CounterMetricFamily(
                f"{_PREFIX}_storage_{name}", text, labels=("mount",)
            )
            for mount in self._source.mounts:
                if (counts := self._source.counts.storage.get(mount.name)) is not None:
                    metric.add_metric((mount.name,), counts[place])
            yield metric

    def _conversions(self) -> Iterator[Metric]:
        counts = self._source.counts.conversions
        done = self._core.CounterMetricFamily(
            f"{_PREFIX}_conversions", "Documents by outcome.", labels=("outcome",)
        )
        outcomes = {"ok": counts.converted, "error": counts.failed, "busy": counts.refused}
        for outcome, count in outcomes.items():
            done.add_metric((outcome,), count)
        yield done
        yield self._core.SummaryMetricFamily(
            f"{_PREFIX}_conversion_seconds",
            "From a document to its conversion, with the wait for a worker.",
            count_value=sum(outcomes.values()),
            sum_value=counts.seconds,
        )
        yield self._core.GaugeMetricFamily(
            f"{_PREFIX}_conversions_waiting", "Documents that wait for a worker.", counts.waiting
        )
        yield self._core.GaugeMetricFamily(
            f"{_PREFIX}_conversion_workers", "Worker processes at present.", counts.workers
        )

    def _record(self) -> Iterator[Metric]:
        counts = self._source.counts.record
        if counts is not None:
            lines = self._core.CounterMetricFamily(
                f"{_PREFIX}_audit_lines", "Requests by their line.", labels=("outcome",)
            )
            lines.add_metric(("written",), counts.written)
            lines.add_metric(("dropped",), counts.dropped)
            yield lines
            text = "Processes that cannot write the record of reads."
            yield self._core.GaugeMetricFamily(f"{_PREFIX}_audit_failing", text, counts.failing)

    def _search_indexes(self) -> Iterator[Metric]:
        states = self._source.indexes
        if states:
            for name, text, value in (
                ("documents", "Documents in search indexes.", sum(s.documents for s in states)),
                ("waiting", "Documents that are not in them yet.", sum(s.waiting for s in states)),
                ("bytes", "Bytes of search indexes.", sum(s.size for s in states)),
                (
                    "failed",
                    "Search indexes that cannot be kept.",
                    sum(s.problem is not None for s in states),
                ),
            ):
                yield self._core.GaugeMetricFamily(f"{_PREFIX}_search_index_{name}", text, value)


def _outcome(labels: RequestLabels) -> str:
    if not labels.status:
        return "gone"
    return "ok" if labels.error_code is None and labels.status < 400 else "error"


def _watch_back_end(mount: Mount) -> str:
    if not mount.can_watch:
        return "off"
    # Only some providers have several; the reason in parentheses does not belong here.
    back_end = mount.provider.watched_by
    return "on" if back_end is None else back_end.partition(" (")[0]
