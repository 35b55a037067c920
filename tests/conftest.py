from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Others run beside a test, so how long it takes says nothing about it.
settings.register_profile(
    "untimed",
    settings.get_profile(settings.get_current_profile_name()),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")

_SERVICES = {
    "PostgreSQL": ("postgres",),
    "MariaDB": ("mysql", "mariadb"),
    "TypeScript clients": ("typescript_client", "sdk_typescript"),
    "conformance suite": ("tests/conformance/",),
    "hosts": ("tests/hosts/",),
    "nginx": ("nginx",),
    "PgBouncer": ("test_pooler",),
}
"""Services and programs that tests need, with parts of the ids of these tests."""

_TESTS = Path(__file__).parent
_SLOW_PLACES = (
    "clients",
    "conformance",
    "hosts",
    "packaging",
    "plugins",
    "transports/http",
    "worlds",
    "cli/test_client_folders.py",
    "cli/hosts/test_answer.py",
    "cli/test_http_options.py",
    "cli/test_install.py",
    "cli/test_program.py",
    "cli/test_reload.py",
    "cli/test_runner.py",
    "cli/test_serve.py",
    "cli/test_watch.py",
    "providers/database/engines/duckdb",
    "providers/database/engines/mysql",
    "providers/database/engines/postgres",
    "providers/database/engines/sqlite/test_commits.py",
    "providers/database/engines/sqlite/test_malicious_files.py",
    "providers/database/engines/sqlite/test_workers.py",
    "providers/database/test_change_detection.py",
    "providers/database/test_warm_reads.py",
    "providers/database/test_writers.py",
    "providers/filesystem/watch/test_demand.py",
    "providers/filesystem/watch/test_file_watcher.py",
    "providers/filesystem/watch/test_scanner.py",
    "providers/filesystem/watch/test_watch_model.py",
    "test_bad_input.py",
    "test_database_examples.py",
    "test_docs.py",
    "test_examples.py",
    "test_http_example.py",
    "test_misbehaving_plugins.py",
    "test_plugin_guide.py",
)
"""Folders and files whose tests start processes, run what a page says, or take long."""
_SLOW_WORDS = ("postgres", "mysql", "mariadb")
"""Words in the names, parameters and fixtures of tests that need a database server."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import slow tests for `-m "not slow"`: that takes seconds in each worker."""
    is_fast_run = config.option.markexpr == "not slow"
    return True if is_fast_run and _is_in_slow_place(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests; `pytest -m "not slow"` runs the others, in under a minute on two cores.

    A test is slow by its place (`_SLOW_PLACES`), by a database server that it needs
    (`_SLOW_WORDS`), or by a `@pytest.mark.slow` of its own. The others cover every layer.
    """
    for item in items:
        names = " ".join((item.nodeid, *getattr(item, "fixturenames", ()))).lower()
        if _is_in_slow_place(item.path) or any(word in names for word in _SLOW_WORDS):
            item.add_marker(pytest.mark.slow)


@cache
def _is_in_slow_place(path: Path) -> bool:
    return any(path.is_relative_to(_TESTS / place) for place in _SLOW_PLACES)


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the server does."""
    return "asyncio"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests of each service ran: a service that is missing must not go unnoticed."""
    for service, words in _SERVICES.items():
        names = {
            outcome: [report.nodeid.lower() for report in terminalreporter.stats.get(outcome, [])]
            for outcome in ("passed", "skipped")
        }
        ran, skipped = (
            sum(any(word in name for word in words) for name in names[outcome])
            for outcome in ("passed", "skipped")
        )
        terminalreporter.write_line(f"{service}: {ran} tests ran, {skipped} skipped")
