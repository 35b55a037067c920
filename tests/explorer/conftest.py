from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.explorer.shop import start_program
from tests.transports.program import Program


@pytest.fixture(scope="package")
def program(tmp_path_factory: pytest.TempPathFactory) -> Generator[Program]:
    """The shop over HTTP; no test changes it."""
    with start_program(tmp_path_factory.mktemp("shop")) as started:
        yield started
