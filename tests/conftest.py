from __future__ import annotations

import gc
from collections.abc import Generator, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.guarantees.counts import outdated
from tests.guarantees.promises import PROMISES
from tests.guarantees.whole_run import WholeRun
from tests.slow_tests import slow_tests
from tests.waiting import PATIENCE_S, connection_threads

if TYPE_CHECKING:
    from tests.providers.object_storage.storage import Storage

# Others run beside a test, so how long it takes says nothing about it.
settings.register_profile(
    "untimed",
    settings.get_profile(settings.get_current_profile_name()),
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")
# A property has fewer examples in the run that leaves out the deep tests.
settings.register_profile("short", settings.get_profile("untimed"), max_examples=20)

_SERVICES = {
    "PostgreSQL": ("postgres",),
    "MariaDB": ("mysql", "mariadb"),
    "TypeScript clients": ("typescript_client", "sdk_typescript"),
    "conformance suite": ("tests/conformance/",),
    "hosts": ("tests/hosts/",),
    "nginx": ("nginx",),
    "PgBouncer": ("test_pooler",),
    "Redis": ("http/fleet/",),
    "moto": ("object_storage", "object_files", "buckets/"),
    "Chromium": ("test_in_a_browser", "test_every_view", "test_hostile_pages"),
}
"""Services and programs that tests need, with parts of the ids of these tests."""

_connections_before = pytest.StashKey[set[Thread]]()
_left_out = pytest.StashKey[int]()
"""The number of deep tests that the options leave out."""


def pytest_configure(config: pytest.Config) -> None:
    """Check that a whole run proves each promise, and is as large as the docs say."""
    if config.getoption("markexpr") == "not deep":
        settings.load_profile("short")
    config.pluginmanager.register(WholeRun([each.name for each in PROMISES], outdated))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is imported and collected out of each garbage collection: it lives to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark the cases that are deep for their time alone."""
    slow = slow_tests()
    for item in items:
        if item.nodeid in slow:
            item.add_marker("deep")


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the deep tests that are left out, by `-m "not deep"` in pyproject.toml."""
    for item in items:
        if item.get_closest_marker("deep"):
            item.config.stash[_left_out] = item.config.stash.get(_left_out, 0) + 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the number from a worker of pytest-xdist, each of which collects all tests."""
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(_left_out, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the number that a worker reports."""
    node.config.stash[_left_out] = getattr(node, "workeroutput", {}).get("left_out", 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Note the connections that are there before a test."""
    item.stash[_connections_before] = connection_threads()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Let no connection outlive its test: it would fail another one."""
    yield
    for thread in connection_threads() - item.stash[_connections_before]:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), thread


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the server does."""
    return "asyncio"


@pytest.fixture(scope="session")
def moto() -> Generator[Storage]:
    """A storage service that runs."""
    # Imported here: it takes half a second.
    from tests.providers.object_storage.storage import running

    with running() as storage:
        yield storage


@pytest.fixture
def storage(moto: Storage, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A storage service that runs, with credentials for it in the environment."""
    from tests.providers.object_storage.storage import ENVIRONMENT

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    return moto


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out: no missing service and no deep test must go unnoticed."""
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
    if left_out := terminalreporter.config.stash.get(_left_out, 0):
        terminalreporter.write_line(f"{left_out} deep tests left out; -m '' runs them too")
