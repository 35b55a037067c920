"""What was counted, and how things are, in the formats that Prometheus reads."""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from resource_server import __version__
from resource_server.catalog.mount import Mount
from resource_server.transports.http.observability.tallies import BUCKETS_S, Kind, Tallies, Tally

_PREFIX = "resource_server"
_BOUNDS = (*map(str, BUCKETS_S), "+Inf")
_LASTING = frozenset(("subscriptions/listen", "GET"))
"""These end when their client has enough of them."""


class State(NamedTuple):
    """How things are."""

    tallies: Tallies
    sessions: int
    streams: int
    mounts: Sequence[Mount]
    """Those that may be named to who asks."""


def encoded(state: State, accept: str) -> tuple[bytes, str]:
    """Return all metrics in a format that is accepted, and its media type."""
    # Of this one answer: nothing is registered with the process.
    registry = CollectorRegistry()
    registry.register(_Collector(state))
    ProcessCollector(registry=registry)
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Collector(Collector):
    def __init__(self, state: State) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        tallies = self._state.tallies
        build = {"version": __version__, "python": platform.python_version()}
        yield InfoMetricFamily(f"{_PREFIX}_build", "What is running.", value=build)
        yield _requests(tallies)
        yield _times(tallies)
        codes = ((kind.code, tally) for kind, tally in tallies if kind.is_mcp)
        yield _counted("errors", "Answers that were errors, by JSON-RPC code.", "code", codes)
        statuses = ((kind.status or None, tally) for kind, tally in tallies)
        yield _counted("responses", "HTTP answers, by status.", "status", statuses)
        yield CounterMetricFamily(
            f"{_PREFIX}_sent_bytes",
            "Bytes of answers, without their headers.",
            tallies.volume.bytes,
        )
        yield CounterMetricFamily(
            f"{_PREFIX}_events", "Messages sent on streams.", tallies.volume.events
        )
        yield GaugeMetricFamily(f"{_PREFIX}_sessions", "Sessions at present.", self._state.sessions)
        yield GaugeMetricFamily(
            f"{_PREFIX}_streams", "Clients that wait to be told of changes.", self._state.streams
        )
        yield from _mounts(self._state.mounts)


def _requests(tallies: Tallies) -> Metric:
    counts = Counter[tuple[str, str, str]]()
    for kind, tally in tallies:
        if kind.is_mcp:
            era = "stateless" if kind.is_stateless else "handshake"
            counts[era, kind.method, _outcome(kind)] += tally.count
    metric = CounterMetricFamily(
        f"{_PREFIX}_requests",
        "Requests to the endpoint that were answered, by era, method and outcome.",
        labels=("era", "method", "outcome"),
    )
    for labels, count in counts.items():
        metric.add_metric(labels, count)
    return metric


def _outcome(kind: Kind) -> str:
    if not kind.status:
        return "gone"
    return "ok" if kind.code is None and kind.status < 400 else "error"


def _times(tallies: Tallies) -> Metric:
    metric = HistogramMetricFamily(
        f"{_PREFIX}_request_seconds",
        "From a request to the end of its answer; without streams that wait for changes.",
        labels=("method",),
    )
    times: dict[str, list[int]] = {}
    seconds: defaultdict[str, float] = defaultdict(float)
    for kind, tally in tallies:
        if kind.is_mcp and kind.method not in _LASTING:
            known = times.get(kind.method, [0] * len(_BOUNDS))
            times[kind.method] = [sum(pair) for pair in zip(known, tally.times, strict=True)]
            seconds[kind.method] += tally.seconds
    for method, counts in times.items():
        buckets = list(zip(_BOUNDS, accumulate(counts), strict=True))
        metric.add_metric((method,), buckets, seconds[method])
    return metric


def _counted(name: str, help: str, label: str, found: Iterable[tuple[int | None, Tally]]) -> Metric:
    counts = Counter[int]()
    for key, tally in found:
        if key is not None:
            counts[key] += tally.count
    metric = CounterMetricFamily(f"{_PREFIX}_{name}", help, labels=(label,))
    for key, count in counts.items():
        metric.add_metric((str(key),), count)
    return metric


def _mounts(mounts: Iterable[Mount]) -> Iterator[Metric]:
    up = GaugeMetricFamily(f"{_PREFIX}_mount_up", "Whether it serves.", labels=("mount",))
    watch = GaugeMetricFamily(
        f"{_PREFIX}_mount_watch",
        "1, and what notices its changes.",
        labels=("mount", "back_end"),
    )
    for mount in mounts:
        up.add_metric((mount.name,), mount.problem is None)
        watch.add_metric((mount.name, _back_end(mount)), 1)
    yield up
    yield watch


def _back_end(mount: Mount) -> str:
    if mount.watches is None:
        return "off"
    # Of a provider that has several ways to watch; why it is this one does not belong here.
    means: object = getattr(mount.provider, "watched_by", None)
    return means.partition(" (")[0] if isinstance(means, str) else "on"
