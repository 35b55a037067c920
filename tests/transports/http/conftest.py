from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.transports.program import Program, serving


@pytest.fixture(scope="module")
def program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Program]:
    """The program of a module's tests, started by its `start_program`, or else by `serving`."""
    start: Callable[[Path], AbstractContextManager[Program]]
    start = getattr(cast("Any", request).module, "start_program", serving)
    with start(tmp_path_factory.mktemp("program")) as started:
        yield started
