from __future__ import annotations

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
    "TypeScript clients": ("typescript",),
    "conformance suite": ("conformance",),
    "nginx": ("nginx",),
}
"""Services and programs that tests need, with words in the names of these tests."""


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
