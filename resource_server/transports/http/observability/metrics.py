"""Counts and latencies of requests, and `/metrics` in the formats that Prometheus reads."""

from __future__ import annotations

import platform
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from resource_server import __version__
from resource_server.catalog.mount import Mount
from resource_server.search.indexes import IndexState
from resource_server.transports.http.app.request import Exchange, SentTotals

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency buckets."""

_PREFIX = "resource_server"
_BOUNDS = (*map(str, BUCKETS_S), "+Inf")
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


class LatencyHistogram:
    """Latency histogram: requests per bucket."""

    __slots__ = ("buckets", "total_s")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS_S) + 1)
        """Requests per bucket; the last has no upper bound."""
        self.total_s = 0.0

    @property
    def count(self) -> int:
        """The number of requests."""
        return sum(self.buckets)


class RequestMetrics:
    """Plain counters, updated when a request ends; Prometheus' formats are made on demand.

    prometheus-client's own counters would take 4.8 us of a request instead of 0.4 us, 4 % of it,
    and 17 ms and 2 MB of every start: any local program may ask for metrics, which few do.
    """

    def __init__(self) -> None:
        self.sent = SentTotals()
        # By the members of `RequestLabels`: creating one takes longer than counting.
        self._histograms: dict[tuple[bool, bool, str, int, int | None], LatencyHistogram] = {}

    def __iter__(self) -> Iterator[tuple[RequestLabels, LatencyHistogram]]:
        return ((RequestLabels(*each), found) for each, found in self._histograms.items())

    def add(self, exchange: Exchange) -> None:
        """Count a request whose response has ended."""
        seconds = time.perf_counter() - exchange.started_at
        status = exchange.status if exchange.is_complete else 0
        code = exchange.error_code
        labels = exchange.is_mcp, exchange.is_stateless, exchange.method, status, code
        histogram = self._histograms.get(labels)
        if histogram is None:
            histogram = self._histograms[labels] = LatencyHistogram()
        histogram.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        histogram.total_s += seconds


class MetricsSource(NamedTuple):
    """The numbers that `/metrics` shows to one caller."""

    requests: RequestMetrics
    sessions: int
    streams: int
    mounts: Sequence[Mount]
    """The mounts visible to the caller."""
    fleet: tuple[bool, int] | None
    """Whether the store of the fleet answers, and the number of its servers; None without one."""
    indexes: Sequence[IndexState]
    """The search indexes of mounts in which the caller sees everything: they count documents."""


def encode_metrics(source: MetricsSource, accept: str) -> tuple[bytes, str]:
    """Return all metrics in a format that `accept` allows, and its media type."""
    # Imported here: not needed until metrics are read.
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    # For this one response: nothing is registered with the process.
    registry = CollectorRegistry()
    registry.register(cast("Any", _Collector(source)))
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
        core, requests = self._core, self._source.requests
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
            requests.sent.bytes,
        )
        yield core.CounterMetricFamily(
            f"{_PREFIX}_events", "Messages sent on streams.", requests.sent.events
        )
        sessions, streams = self._source.sessions, self._source.streams
        yield core.GaugeMetricFamily(f"{_PREFIX}_sessions", "Sessions at present.", sessions)
        yield core.GaugeMetricFamily(
            f"{_PREFIX}_streams", "Clients that wait to be told of changes.", streams
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

    def _requests(self) -> Metric:
        counts = Counter[tuple[str, str, str]]()
        for labels, found in self._source.requests:
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
        buckets: dict[str, list[int]] = {}
        totals_s: defaultdict[str, float] = defaultdict(float)
        for labels, found in self._source.requests:
            if labels.is_mcp and labels.method not in _LASTING:
                known = buckets.get(labels.method, [0] * len(_BOUNDS))
                sums = [sum(pair) for pair in zip(known, found.buckets, strict=True)]
                buckets[labels.method] = sums
                totals_s[labels.method] += found.total_s
        for method, counts in buckets.items():
            cumulative = list(zip(_BOUNDS, accumulate(counts), strict=True))
            metric.add_metric((method,), cumulative, totals_s[method])
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
            up.add_metric((mount.name,), mount.problem is None)
            watch.add_metric((mount.name, _watch_back_end(mount)), 1)
        yield up
        yield watch

    def _conversions(self) -> Iterator[Metric]:
        # Imported here: the metrics may be the first that need it.
        from resource_server.conversion import pool

        counts = pool.shared().counts
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
