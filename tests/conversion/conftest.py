from __future__ import annotations

from collections.abc import Generator

import pytest

from resource_server.conversion.pool import ConverterPool
from tests.conversion.pools import MODULES


@pytest.fixture
def pool() -> Generator[ConverterPool]:
    """Two workers that may import the converters of these tests."""
    pool = ConverterPool(workers=2, time_s=4, modules=[MODULES])
    yield pool
    pool.close()
