"""The source distribution and the wheel, as PyPI and its users get them."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from readme_renderer import markdown

from tests.packaging.conftest import Distributions, run, served_text
from tests.packaging.facts import ROOT, read_facts

pytestmark = pytest.mark.deep

PACKAGE = ROOT / "resource_server"


def test_the_source_distribution_has_every_file_of_the_repository(
    distributions: Distributions,
) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    with tarfile.open(distributions.sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    # A file that is removed and not yet committed is still listed.
    tracked = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    assert tracked - packed == set()
    assert not [name for name in packed if "node_modules" in name or "__pycache__" in name]


def test_the_wheel_has_the_package_with_its_data_and_nothing_else(
    distributions: Distributions,
) -> None:
    with zipfile.ZipFile(distributions.wheel) as archive:
        names = set(archive.namelist())
    packed = {name for name in names if ".dist-info/" not in name}
    files = (each for each in PACKAGE.rglob("*") if each.is_file())
    demo = {f"resource_server/examples/shop/{name}" for name in ("mcp-resources.yaml", "shop.sql")}
    assert packed == demo | {
        each.relative_to(ROOT).as_posix() for each in files if "__pycache__" not in each.parts
    }
    assert "resource_server/py.typed" in packed


def test_the_description_is_the_readme_with_links_that_work_on_pypi(
    distributions: Distributions,
) -> None:
    facts = read_facts()
    with zipfile.ZipFile(distributions.wheel) as archive:
        [metadata] = (name for name in archive.namelist() if name.endswith("/METADATA"))
        message = email.message_from_bytes(archive.read(metadata))
    description = str(message.get_payload())
    assert message["Description-Content-Type"] == "text/markdown"
    assert markdown.render(description) is not None
    links = re.findall(r"\]\(([^)\s]+)", description)
    relative = re.findall(r"\]\(([^)\s]+)", (ROOT / "README.md").read_text("utf-8"))
    pages = {f"{facts.repository}/blob/HEAD/{each}" for each in relative if ":" not in each}
    pictures = {each.replace("/blob/", "/raw/") for each in pages}
    assert {each for each in links if not each.startswith(("https://", "#"))} == set()
    assert {each for each in links if each.startswith(facts.repository)} <= pages | pictures
    # The MCP registry looks for this in the published package.
    assert f"mcp-name: {facts.mcp_name}" in description


def test_every_address_of_the_project_is_in_its_repository() -> None:
    facts = read_facts()
    assert all(url.startswith(facts.repository) for url in facts.urls.values())
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert set(re.findall(r"https://github\.com/[^/]+/[\w-]+", text)) == {facts.repository}


def test_an_installed_wheel_lists_and_serves(
    uv: str, distributions: Distributions, folder: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    run([uv, "venv", "--quiet", "--python", sys.executable, environment])
    python = environment / "bin/python"
    run([uv, "pip", "install", "--quiet", "--python", python, distributions.wheel])
    program = environment / "bin/resource-server"
    assert run([program, "--version"]).split()[-1] == read_facts().version
    assert "hello.txt" in run([program, "list", folder])
    assert served_text([program, "serve", folder], "hello.txt") == "hello"
    assert "# Kettle" in served_text([program, "serve", "--demo"], "README.md")


def test_uvx_runs_the_clone(uv: str, folder: Path) -> None:
    command = [uv, "tool", "run", "--quiet", "--from", ROOT, "resource-server"]
    assert "hello.txt" in run([*command, "list", "."], cwd=folder)
    assert served_text([*command, "serve", "."], "hello.txt", folder) == "hello"


def test_the_tests_run_from_the_source_distribution(
    distributions: Distributions, tmp_path: Path
) -> None:
    with tarfile.open(distributions.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [unpacked] = tmp_path.iterdir()
    tests = [
        "tests/test_architecture.py",
        "tests/packaging/test_descriptions.py",
        "-k",
        "not bundle",
    ]
    run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=unpacked)
