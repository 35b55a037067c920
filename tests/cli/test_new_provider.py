from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]


def python(folder: Path, *arguments: str) -> str:
    """Return what Python prints where the package is on the path."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def test_the_tests_of_the_written_package_pass_and_its_provider_is_found(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    done = run("new-provider", "my-notes", "--folder", folder)
    assert (done.status, done.err) == (0, "")
    assert done.out == f"wrote {folder}; next: resource-server list {folder}\n"
    shown = python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
    assert "2 passed" in shown, shown
    # As an installer writes it.
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    [[group, entries]] = project["entry-points"].items()
    installed = folder / "resource_server_my_notes-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Name: {project['name']}\nVersion: 0.1.0\n")
    lines = [f"{name} = {place}" for name, place in entries.items()]
    (installed / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
    manifest = folder / "mcp-resources.yaml"
    listed = python(folder, "-m", "resource_server", "list", ".")
    assert "greetings/" in listed
    manifest.write_text(manifest.read_text().replace("resource_server_my_notes.py", "my-notes"))
    assert python(folder, "-m", "resource_server", "list", ".") == listed


@pytest.mark.parametrize(
    "name", ["", "My", "1st", "a_b", "a--b", "-", "a/b", "../a", "ä", "a b", "a\n", "a" * 61]
)
def test_a_name_that_is_no_name_of_a_package_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("new-provider", "--", name)
    assert (done.status, done.out) == (2, "")
    assert "lower-case letters, digits and single hyphens" in done.err
    assert [*tmp_path.iterdir()] == []


def test_a_taken_name_is_refused(run: Run) -> None:
    for name in ("class", "filesystem", "documents"):
        done = run("new-provider", name)
        assert (done.status, done.out) == (2, "")
        assert f"the name '{name}' is taken; choose another: my-{name}" in done.err


def test_what_is_in_the_way_is_kept(run: Run, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").touch()
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    for name, problem in (
        ("full", "the folder is not empty; choose another with --folder"),
        ("file", "is no folder; choose another with --folder"),
        ("missing/new", "cannot be written, No such file or directory"),
    ):
        done = run("new-provider", "notes", "--folder", tmp_path / name)
        assert (done.status, done.out) == (1, "")
        assert problem in done.err
    assert [each.name for each in (tmp_path / "full").iterdir()] == ["mine"]
    assert run("new-provider", "notes", "--folder", tmp_path / "empty").status == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser writes anywhere")
def test_a_folder_that_cannot_be_written_is_reported(run: Run, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = run("new-provider", "notes", "--folder", tmp_path / "new")
    assert done.status == 1
    assert "cannot be written, Permission denied" in done.err
