"""Hosts are replayed on four sources over both transports; docs/hosts.md says what came of it.

`python -m tests.hosts` writes the page. Without Node and the packages of tests/clients these tests
are skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import reference
from tests.clients import typescript
from tests.hosts.page import ABILITIES, PAGE, SECTION, table
from tests.hosts.replays import HOSTS, TRANSPORTS, replayed
from tests.hosts.sources import SOURCES

pytestmark = [
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


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("host", HOSTS)
def test_what_a_host_needs_holds(host: str, source: str, transport: str, place: Path) -> None:
    [run] = [
        run
        for run in replayed(host, place)["runs"]
        if (run["source"], run["transport"]) == (source, transport)
    ]
    assert run["checks"]
    assert [check for check in run["checks"] if not check["held"]] == []


@pytest.mark.parametrize("host", HOSTS)
def test_the_page_claims_what_was_checked_and_nothing_else(host: str, place: Path) -> None:
    seen = replayed(host, place)
    assert set(seen["abilities"]) <= set(ABILITIES)
    assert {check["ability"] for check in checks(seen) if "ability" in check} == {
        *seen["abilities"]
    }
    assert {check["limit"] for check in checks(seen) if "limit" in check} == {*seen["limits"]}


def test_the_page_of_hosts_is_up_to_date(place: Path) -> None:
    # `python -m tests.hosts` writes it.
    hosts = [replayed(host, place) for host in HOSTS]
    assert reference.shown(SECTION, PAGE) == table(hosts)
