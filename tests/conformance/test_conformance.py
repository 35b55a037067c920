"""The official conformance suite asks the real program, in every revision that it has.

What it reads and calls is here: `mcp-resources.yaml` with the providers `documents.py` and
`tools.py`. `npm install --no-package-lock --prefix tests/clients` brings the suite, and a Node that
is new enough; without them these tests are skipped.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import ROOT, Reach, serve
from tests.conformance.served import copied

MODULES = ROOT / "tests/clients/node_modules"
SUITE = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
LEAST_NODE = 22
# How many the suite has: all of them pass, and none is left out.
SCENARIOS = {"2025-03-26": 1, "2025-06-18": 27, "2025-11-25": 33, "2026-07-28": 40}

# Nothing to judge: what the suite has seen, and what of it did not apply to this server. That is
# the end of a stream in the middle of a call (SEP-1699): no provider knows of streams.
SATISFIED = {"SUCCESS", "INFO"}

_TIME = re.compile(r"-\d{4}-\d\d-\d\dT.*")
_LISTED = re.compile(r"^  - (\S+) ", re.MULTILINE)


def node() -> str | None:
    """Return a Node that is new enough for the suite."""
    for command in (shutil.which("node"), str(MODULES / "node/bin/node")):
        if command is not None and Path(command).exists():
            asked = subprocess.run(
                [command, "--version"], capture_output=True, text=True, check=False
            )
            if asked.returncode == 0 and int(asked.stdout[1:].split(".")[0]) >= LEAST_NODE:
                return command
    return None


NODE = node()
pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(NODE is None, reason=f"Node {LEAST_NODE} is not installed"),
    pytest.mark.skipif(
        not SUITE.exists(),
        reason="not installed: npm install --no-package-lock --prefix tests/clients",
    ),
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(NODE), str(SUITE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, reach: Reach) -> str:
    manifest = copied(tmp_path_factory.mktemp("conformance"))
    target = reach(serve(manifest), "http")
    assert isinstance(target, str)
    return target


@pytest.mark.guarantee("every-revision")
@pytest.mark.parametrize("revision", SCENARIOS)
def test_every_scenario_passes(url: str, revision: str, tmp_path: Path) -> None:
    listed = _LISTED.findall(run("list", "--server", "--spec-version", revision).stdout)
    asked = ("--url", url, "--suite", "all", "--spec-version", revision, "-o", str(tmp_path))
    done = run("server", *asked)
    failed: dict[str, set[str]] = {}
    for file in tmp_path.glob("*/checks.json"):
        scenario = _TIME.sub("", file.parent.name).removeprefix("server-")
        checks = json.loads(file.read_text())
        assert any(each["status"] == "SUCCESS" for each in checks)
        failed[scenario] = {each["id"] for each in checks if each["status"] not in SATISFIED}
    assert set(failed) == set(listed), done.stderr
    assert {scenario: ids for scenario, ids in failed.items() if ids} == {}
    assert len(failed) == SCENARIOS[revision]
