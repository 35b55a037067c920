"""The official conformance suite asks the real program, in every revision that it has.

`npm install --no-package-lock --prefix tests/clients` brings it, and a Node that is new enough;
without them these tests are skipped.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import Reach, serve

HERE = Path(__file__).parent
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
KINDS = ("static-text", "static-binary", "watched-resource", "template")
PROVIDER = HERE / "conformance.py"
LEAST_NODE = 22
_TIME = re.compile(r"-\d{4}-\d\d-\d\dT.*")

# Scenarios of what this server does not have: tools, prompts, and asking the client something.
OTHERS = (
    "completion-complete",  # of a prompt
    "elicitation-",
    "http-custom-header-server-validation",
    "input-required-result-",
    "json-schema-",
    "prompts-",
    "tools-",
)
# Checks of scenarios that need a tool or a prompt, beside others that do not.
NEED_TOOLS = {
    "caching": {"sep-2549-prompts-list-caching-hints", "sep-2549-tools-list-caching-hints"},
    "http-header-validation": {
        "sep-2243-server-accepts-whitespace-header-value",
        "sep-2243-server-reject-invalid-headers",
        "sep-2243-server-standard-setup",
    },
    "server-sse-multiple-streams": {"server-accepts-multiple-post-streams"},
    "server-stateless": {
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-missing-capability-http-400",
        "sep-2575-server-no-log-without-loglevel",
        "sep-2575-server-rejects-undeclared-capability",
    },
}
# What there is to pass, so that nobody passes by asking nothing.
RESOURCES = {"resources-list", "resources-read-text", "resources-read-binary"}
HANDSHAKE = RESOURCES | {
    "resources-templates-read",
    "resources-subscribe",
    "resources-unsubscribe",
    "server-initialize",
    "server-session-lifecycle",
    "logging-set-level",
    "ping",
}
PASSED = {
    "2025-03-26": {"server-session-lifecycle"},
    "2025-06-18": HANDSHAKE,
    "2025-11-25": HANDSHAKE | {"dns-rebinding-protection", "server-sse-multiple-streams"},
    "2026-07-28": RESOURCES
    | {"resources-templates-read", "dns-rebinding-protection", "sep-2164-resource-not-found"},
}


def node() -> str | None:
    """Return a Node that is new enough for the suite."""
    for command in (shutil.which("node"), str(HERE / "node_modules/node/bin/node")):
        if command is not None and Path(command).exists():
            asked = subprocess.run(
                [command, "--version"], capture_output=True, text=True, check=False
            )
            if asked.returncode == 0 and int(asked.stdout[1:].split(".")[0]) >= LEAST_NODE:
                return command
    return None


NODE = node()
pytestmark = [
    pytest.mark.skipif(NODE is None, reason=f"Node {LEAST_NODE} is not installed"),
    pytest.mark.skipif(
        not SUITE.exists(),
        reason="not installed: npm install --no-package-lock --prefix tests/clients",
    ),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, reach: Reach) -> str:
    manifest = tmp_path_factory.mktemp("conformance") / "mcp-resources.yaml"
    mounts = [
        f'  {kind}: {{use: {PROVIDER}, uri: "test://{kind}/", kind: {kind}}}\n' for kind in KINDS
    ]
    manifest.write_text(f"version: 1\nproviders:\n{''.join(mounts)}")
    target = reach(serve(manifest), "http")
    assert isinstance(target, str)
    return target


def asked(url: str, revision: str, place: Path) -> dict[str, set[str]]:
    """Ask everything of a revision; return the checks that failed, by scenario."""
    command = [str(NODE), str(SUITE), "server", "--url", url, "--suite", "all"]
    run = subprocess.run(
        [*command, "--spec-version", revision, "-o", str(place)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    found: dict[str, set[str]] = {}
    for file in place.glob("*/checks.json"):
        scenario = _TIME.sub("", file.parent.name).removeprefix("server-")
        checks = json.loads(file.read_text())
        found[scenario] = {each["id"] for each in checks if each["status"] == "FAILURE"}
    assert found, run.stderr
    return found


@pytest.mark.parametrize("revision", PASSED)
def test_every_scenario_that_concerns_resources_passes(
    url: str, revision: str, tmp_path: Path
) -> None:
    found = asked(url, revision, tmp_path)
    failed = {
        scenario: checks - (NEED_TOOLS.get(scenario, set()) if revision >= "2026" else set())
        for scenario, checks in found.items()
        if not scenario.startswith(OTHERS)
    }
    assert {scenario: checks for scenario, checks in failed.items() if checks} == {}
    assert PASSED[revision] <= {scenario for scenario in found if not found[scenario]}


def test_what_needs_a_tool_or_prompt_is_still_left_out(url: str, tmp_path: Path) -> None:
    # Once there are tools and prompts, what is left out above has to become less.
    found = asked(url, "2026-07-28", tmp_path)
    assert {scenario: found[scenario] for scenario in NEED_TOOLS} == NEED_TOOLS
