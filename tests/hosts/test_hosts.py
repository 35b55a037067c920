"""Hosts are replayed on four sources; docs/hosts.md says what came of it.

`python -m tests.hosts` replays each source over both transports and writes the page. Without Node
and the packages of tests/clients these tests are skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import reference
from tests.cases import for_each
from tests.clients import typescript
from tests.hosts.page import ABILITIES, PAGE, SECTION, table
from tests.hosts.replays import FEW_RUNS, HOSTS, replayed
from tests.waiting import BUSY_S

pytestmark = [
    pytest.mark.deep,
    typescript.NEEDS,
    pytest.mark.skipif(
        not (typescript.HERE / "node_modules/vscode-uri").is_dir(),
        reason="not installed: vscode-uri, by npm install --no-package-lock --prefix tests/clients",
    ),
]


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all processes of this run share."""
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "hosts"
    shared.mkdir(exist_ok=True)
    return shared


def checks(host: Any) -> list[Any]:
    return [check for run in host["runs"] for check in run["checks"]]


@pytest.mark.timeout(BUSY_S)
@for_each("host", HOSTS)
def test_what_a_host_needs_holds(host: str, place: Path) -> None:
    runs = replayed(host, place, FEW_RUNS)["runs"]
    assert all(run["checks"] for run in runs)
    failed = {
        (run["source"], run["transport"]): [check for check in run["checks"] if not check["held"]]
        for run in runs
    }
    assert failed == {run: [] for run in FEW_RUNS}


@pytest.mark.timeout(BUSY_S)
@for_each("host", HOSTS)
def test_the_page_claims_what_was_checked_and_nothing_else(host: str, place: Path) -> None:
    seen = replayed(host, place, FEW_RUNS)
    assert set(seen["abilities"]) <= set(ABILITIES)
    assert {check["ability"] for check in checks(seen) if "ability" in check} == {
        *seen["abilities"]
    }
    assert {check["limit"] for check in checks(seen) if "limit" in check} == {*seen["limits"]}


def test_the_page_of_hosts_is_up_to_date(place: Path) -> None:
    # `python -m tests.hosts` writes it.
    hosts = [replayed(host, place, FEW_RUNS) for host in HOSTS]
    assert reference.shown(SECTION, PAGE) == table(hosts)
