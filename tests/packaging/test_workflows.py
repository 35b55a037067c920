"""Workflows and forms of GitHub: valid by its schemas, pinned, with the rights they need."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases import for_each
from tests.packaging.facts import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted(GITHUB.glob("workflows/*.yml"))
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "github-issue-forms": [
        GITHUB / "ISSUE_TEMPLATE/bug.yml",
        GITHUB / "ISSUE_TEMPLATE/feature.yml",
    ],
    "github-issue-config": [GITHUB / "ISSUE_TEMPLATE/config.yml"],
    "dependabot": [GITHUB / "dependabot.yml"],
}
"""Published schemas, as check-jsonschema carries them, with the files of each."""

PUBLISHING = {"build", "pypi", "image", "release", "registry"}
"""Jobs that sign or publish."""


def jobs(workflow: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from yaml.safe_load(workflow.read_text("utf-8"))["jobs"].items()


def steps() -> Iterator[dict[str, Any]]:
    for workflow in WORKFLOWS:
        for _, job in jobs(workflow):
            yield from job.get("steps", ())


@for_each("schema", SCHEMAS)
def test_github_accepts_the_file(schema: str) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*check, *SCHEMAS[schema]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_of_github_has_a_schema() -> None:
    checked = {file for files in SCHEMAS.values() for file in files}
    assert set(GITHUB.rglob("*.yml")) == checked


def test_every_action_is_pinned() -> None:
    used = [each["uses"] for each in steps() if "uses" in each]
    pinned = re.compile(r"[\w.-]+/[\w./-]+@(v\d+|release/v\d+|[0-9a-f]{40})")
    assert used
    assert [each for each in used if not pinned.fullmatch(each)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.name)
def test_rights_are_given_to_single_jobs(workflow: Path) -> None:
    whole = yaml.safe_load(workflow.read_text("utf-8"))
    assert whole["permissions"] == {"contents": "read"}
    for name, job in whole["jobs"].items():
        rights = job.get("permissions", {})
        assert name in PUBLISHING or "write" not in rights.values()
        assert "uses" in job or job["timeout-minutes"] <= 90


def test_no_script_contains_text_that_an_outsider_chooses() -> None:
    assert [each["run"] for each in steps() if "${{" in each.get("run", "")] == []


def test_ci_runs_everything_on_every_supported_python() -> None:
    [(_, job)] = jobs(GITHUB / "workflows/ci.yml")
    assert job["steps"][-1] == {"run": "bash .ci/run"}
    [setup] = [each for each in job["steps"] if "setup-python" in each.get("uses", "")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    supported = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert sorted(setup["with"]["python-version"].split()) == sorted(supported)


def test_a_release_is_checked_and_tested_before_it_is_published() -> None:
    needs = {name: job.get("needs", []) for name, job in jobs(GITHUB / "workflows/release.yml")}
    assert needs == {
        "check": [],
        "test": "check",
        "build": "test",
        "pypi": "build",
        "image": "build",
        "release": ["pypi", "image"],
        "registry": "release",
    }


def test_a_release_packs_with_the_tested_tool() -> None:
    clients = json.loads((ROOT / "tests/clients/package.json").read_text())
    version = clients["dependencies"]["@anthropic-ai/mcpb"]
    release = (GITHUB / "workflows/release.yml").read_text("utf-8")
    assert re.findall(r"@anthropic-ai/mcpb@(\S+)", release) == [version]


def test_the_image_and_the_bill_of_materials_have_all_extras_of_users() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = sorted(set(project["optional-dependencies"]) - {"docs", "test"})
    for file in (ROOT / "Dockerfile", GITHUB / "workflows/release.yml"):
        installed = re.findall(r"uv pip install .*\[(.+)\]", file.read_text("utf-8"))
        assert installed == [",".join(extras)], file.name
