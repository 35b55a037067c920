"""The store that the servers of a fleet share."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.transports.http.fleet.fleets import Redis, redis_server


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Generator[Redis]:
    """A store for all tests of a module."""
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running
