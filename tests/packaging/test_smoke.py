"""The smoke test, which CI runs on every other interpreter, passes on this one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.packaging import smoke
from tests.packaging.conftest import run

pytestmark = pytest.mark.deep


def test_the_smoke_test_passes() -> None:
    assert "http" in run([sys.executable, smoke.__file__])


@pytest.mark.parametrize("step", [smoke.list_folder, smoke.serve, smoke.watch])
def test_the_smoke_test_fails_without_what_it_reads(step: object, tmp_path: Path) -> None:
    assert callable(step)
    with pytest.raises((SystemExit, OSError, KeyError, StopIteration)):
        step(tmp_path / "missing")
