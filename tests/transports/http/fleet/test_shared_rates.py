"""Rates that the servers of a fleet count together."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.transports.http.fleet.fleets import Redis, fleet, redis_server
from tests.transports.program import Program, modern, request
from tests.waiting import block_until

# The ten requests of the burst take 1000 s to come back.
_HTTP = ", limits: {rate: 0.01, burst: 10}"


@pytest.fixture
def store(tmp_path: Path) -> Generator[Redis]:
    with redis_server(tmp_path) as running:
        yield running


def admitted(*programs: Program) -> int:
    """Return how many of twenty requests, to each server in turn, are admitted."""
    statuses = [
        programs[number % len(programs)].ask(modern("server/discover")).status
        for number in range(20)
    ]
    assert set(statuses) == {200, 429}
    return statuses.count(200)


def test_servers_count_the_requests_of_a_caller_together(store: Redis, tmp_path: Path) -> None:
    with fleet(tmp_path, store, http=_HTTP) as (here, there):
        # A few more pass where a server learns too late of the others; twice as many by themselves.
        assert 10 <= admitted(here, there) < 20
        block_until(lambda: there.ask(modern("server/discover")).status == 429)
        assert here.ask(modern("server/discover")).status == 429


def test_without_the_store_each_server_allows_its_share(store: Redis, tmp_path: Path) -> None:
    with fleet(tmp_path, store, http=_HTTP) as (here, there):
        for program in (here, there):
            program.session()
        block_until(lambda: all(knows_both(program) for program in (here, there)))
        store.stop()
        # Each has used some for its session, and counts every request twice.
        assert admitted(here) <= 5
        assert admitted(there) <= 5


def test_an_impossible_bucket_is_forgotten(store: Redis, tmp_path: Path) -> None:
    with fleet(tmp_path, store, count=1, http=_HTTP) as (here,):
        assert here.ask(modern("server/discover")).status == 200
        block_until(lambda: bool(_buckets(store)))
        for text in ("1e300", "-5", "x", "nan", "inf"):
            for key in _buckets(store):
                store.ask("SET", key, text)
            assert here.ask(modern("server/discover")).status == 200


def knows_both(program: Program) -> bool:
    metrics = program.ask(request("GET", path="/metrics")).body
    assert b"resource_server_fleet_up 1.0" in metrics
    return b"resource_server_fleet_servers 2.0" in metrics


def _buckets(store: Redis) -> list[str]:
    return [name for name in store.names() if ":rate:" in name]
