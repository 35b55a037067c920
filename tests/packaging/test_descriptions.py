"""`server.json`, the bundle's manifest and the marks say what `pyproject.toml` says."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.clients.typescript import MODULES
from tests.packaging import __main__ as packaging
from tests.packaging import descriptions
from tests.packaging.conftest import run, served_text
from tests.packaging.facts import PLACEHOLDER, ROOT, read_facts

MCPB = MODULES / ".bin/mcpb"
BUNDLE_SCHEMA = MODULES / "@anthropic-ai/mcpb/dist/mcpb-manifest-v0.4.schema.json"

needs_mcpb = pytest.mark.skipif(
    shutil.which("node") is None or not MCPB.exists(),
    reason="not installed: Node, and npm install --no-package-lock --prefix tests/clients",
)

FACTS = read_facts()


@pytest.mark.parametrize("file", descriptions.texts(FACTS), ids=lambda file: file.name)
def test_a_description_is_up_to_date(file: Path) -> None:
    stale = "stale; run: python -m tests.packaging"
    assert file.read_text("utf-8") == descriptions.texts(FACTS)[file], stale


def arguments(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for package in entry["packages"]:
        yield from package.get("runtimeArguments", ())
        yield from package.get("packageArguments", ())


def test_the_registry_accepts_server_json(tmp_path: Path) -> None:
    # Its rules for what we use; a release checks the file by the published schema.
    bundle = tmp_path / "resource-server.mcpb"
    bundle.write_bytes(b"bundle")
    packaging.add_bundle(bundle, tmp_path / "server.json")
    entry = json.loads((tmp_path / "server.json").read_text())
    assert re.fullmatch(r"io\.github\.[\w-]+/[\w.-]+", entry["name"])
    assert 1 <= len(entry["description"]) <= 100
    assert [each["registryType"] for each in entry["packages"]] == ["pypi", "oci", "mcpb"]
    pypi, oci, mcpb = entry["packages"]
    assert pypi["version"] == entry["version"] == FACTS.version
    assert oci["identifier"] == oci["identifier"].lower()
    assert oci["identifier"].endswith(f":{FACTS.version}")
    assert mcpb["fileSha256"] == hashlib.sha256(b"bundle").hexdigest()
    for argument in arguments(entry):
        assert argument["type"] in ("positional", "named")
        assert "name" in argument or {"value", "valueHint"} & argument.keys()
        assert argument.get("variables", {}).keys() == set(
            re.findall(r"\{(\w+)\}", argument.get("value", ""))
        )


@needs_mcpb
def test_the_bundle_manifest_is_valid() -> None:
    manifest = ROOT / "mcpb/manifest.json"
    jsonschema.validate(json.loads(manifest.read_text()), json.loads(BUNDLE_SCHEMA.read_text()))
    assert "validation passes" in run([MCPB, "validate", manifest])


@pytest.mark.deep
@needs_mcpb
def test_a_packed_bundle_serves_the_chosen_folders(uv: str, folder: Path, tmp_path: Path) -> None:
    packaging.stage_bundle(tmp_path / "staged")
    run([MCPB, "pack", tmp_path / "staged", tmp_path / "resource-server.mcpb"])
    unpacked = tmp_path / "unpacked"
    run([MCPB, "unpack", tmp_path / "resource-server.mcpb", unpacked])
    server = json.loads((unpacked / "manifest.json").read_text())["server"]
    assert (unpacked / server["entry_point"]).is_file()
    assert server["mcp_config"]["command"] == "uv"
    command = [
        str(folder)
        if each == "${user_config.folders}"
        else each.replace("${__dirname}", f"{unpacked}")
        for each in server["mcp_config"]["args"]
    ]
    assert served_text([uv, *command], "hello.txt") == "hello"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the files that describe the project."""
    generated = [file.relative_to(ROOT) for file in descriptions.texts(FACTS)]
    for name in (*packaging.NAMES_OWNER, *generated, "CHANGELOG.md", "resource_server/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_owner_is_set_everywhere_at_once(project: Path) -> None:
    packaging.set_owner("Tea-Shop", project)
    facts = read_facts(project)
    assert facts.mcp_name == "io.github.Tea-Shop/resource-server"
    assert facts.image == "ghcr.io/tea-shop/resource-server"
    assert f"<!-- mcp-name: {facts.mcp_name} -->" in (project / "README.md").read_text()
    left = [
        file.name
        for file in project.rglob("*")
        if file.is_file() and f"/{PLACEHOLDER}/" in file.read_text("utf-8")
    ]
    assert left == []


def test_a_release_needs_an_owner_its_tag_and_its_changes(project: Path) -> None:
    problems = packaging.release_problems("v9.9.9", project)
    assert len(problems) == 3
    packaging.set_owner("tea-shop", project)
    changes = project / "CHANGELOG.md"
    changes.write_text(changes.read_text("utf-8") + f"\n## [{FACTS.version}]\n", "utf-8")
    assert packaging.release_problems(f"v{FACTS.version}", project) == []


def test_a_release_refuses_a_stale_description(project: Path) -> None:
    before = len(packaging.release_problems("v0", project))
    (project / "server.json").write_text("{}")
    assert len(packaging.release_problems("v0", project)) == before + 1
