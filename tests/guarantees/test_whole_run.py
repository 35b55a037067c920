from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.guarantees.whole_run import WholeRun

def pytest_configure(config):
    config.addinivalue_line("markers", "guarantee(name)")
    config.addinivalue_line("markers", "deep")
    config.pluginmanager.register(WholeRun(["kept", "broken"], lambda tests: []))
"""
KEPT = "@pytest.mark.guarantee('kept')\ndef test_kept(): pass\n"
BROKEN = "@pytest.mark.guarantee('broken')\ndef test_broken(): {}\n"


def run(folder: Path, tests: str, *options: str) -> tuple[int, str]:
    """Return the exit status and output of pytest over some tests."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_promises.py").write_text(f"import pytest\n{tests}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "xdist", *options],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_whole_run_passes_if_every_promise_is_proved(tmp_path: Path) -> None:
    status, output = run(tmp_path, KEPT + BROKEN.format("pass"), "-n", "2", "-m", "not deep")
    assert (status, "guarantees: 2 of 2 proved" in output) == (0, True)


@pytest.mark.parametrize(("body", "processes"), [("pytest.skip('no server')", "0"), (None, "2")])
def test_a_promise_without_a_test_that_ran_fails_a_whole_run(
    tmp_path: Path, body: str | None, processes: str
) -> None:
    tests = KEPT if body is None else KEPT + BROKEN.format(body)
    status, output = run(tmp_path, tests, "-n", processes)
    skipped = int(body is not None)
    assert status == 1
    assert f"FAILED guarantee broken: no test of it ran, {skipped} skipped" in output


def test_a_mark_without_a_promise_fails_a_whole_run(tmp_path: Path) -> None:
    unknown = "@pytest.mark.guarantee('unknown')\ndef test_unknown(): pass\n"
    status, output = run(tmp_path, KEPT + BROKEN.format("pass") + unknown)
    assert status == 1
    assert "FAILED guarantee unknown" in output


def test_a_promise_that_is_proved_in_part_is_named(tmp_path: Path) -> None:
    skipped = "@pytest.mark.guarantee('kept')\ndef test_more(): pytest.skip('no server')\n"
    status, output = run(tmp_path, KEPT + BROKEN.format("pass") + skipped)
    assert (status, "guarantee kept: 1 passed, 1 not run" in output) == (0, True)


@pytest.mark.parametrize(
    "options",
    [["test_promises.py"], ["-k", "kept"], ["-m", "not deep and not kept"], ["--ignore", "worlds"]],
)
def test_a_selection_proves_nothing_and_does_not_fail(tmp_path: Path, options: list[str]) -> None:
    status, output = run(tmp_path, KEPT, *options)
    assert (status, "guarantees:" in output) == (0, False)
