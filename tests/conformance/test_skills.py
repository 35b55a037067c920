"""The scenarios of SEP-2640, asked of `examples/skills`; they belong to no revision."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.clients.conftest import ROOT, Reach, serve
from tests.conformance import test_conformance
from tests.conformance.test_conformance import SATISFIED, run

pytestmark = test_conformance.pytestmark

REVISIONS = ("2025-11-25", "2026-07-28")
# The checks that no other revision than the latest has, and the warning about names like
# `resource-server/version` in `_meta`: MCP allows a prefix of one label, the suite wants a domain.
STAY_OUT = {
    ("enumeration", "2025-11-25"): {
        "sep-2640-skills-list-cache-attributes": "SKIPPED",
        "sep-2640-skills-get-cache-attributes": "SKIPPED",
    },
    ("manifest", "2025-11-25"): {"sep-2640-meta-prefix": "WARNING"},
    ("manifest", "2026-07-28"): {"sep-2640-meta-prefix": "WARNING"},
}


@pytest.fixture(scope="module")
def url(reach: Reach) -> str:
    target = reach(serve(ROOT / "examples/skills"), "http")
    assert isinstance(target, str)
    return target


@pytest.mark.parametrize(
    ("scenario", "revision"),
    [*itertools.product(("enumeration", "manifest", "directory"), REVISIONS)],
)
def test_a_scenario_of_skills_passes(
    url: str, scenario: str, revision: str, tmp_path: Path
) -> None:
    asked = ("--url", url, "--scenario", f"sep-2640-skills-{scenario}", "--spec-version", revision)
    done = run("server", *asked, "--force", "-o", str(tmp_path))
    [file] = tmp_path.glob("*/checks.json")
    checks = json.loads(file.read_text())
    assert any(each["status"] == "SUCCESS" for each in checks), done.stderr
    others = {each["id"]: each["status"] for each in checks if each["status"] not in SATISFIED}
    assert others == STAY_OUT.get((scenario, revision), {})
