import pytest

from tests.cli.conftest import collections_as_before, logs_as_before, run
from tests.ports import free_port

__all__ = ["collections_as_before", "logs_as_before", "run", "unused_port"]


@pytest.fixture
def unused_port() -> int:
    return free_port()
