"""Missing extras: one line with the command, in environments that lack a package."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from resource_server.runtime import extras
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]


@pytest.fixture
def without(tmp_path: Path) -> Callable[[str], str]:
    """Make an environment like this one that lacks a package; return its interpreter."""

    def make(package: str) -> str:
        folder = tmp_path / "environment"
        venv.EnvBuilder(symlinks=True).create(folder)
        site = next(folder.glob("lib/*/site-packages"))
        left_out = {file.parts[0] for file in importlib.metadata.files(package) or ()}
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if entry.name not in left_out:
                (site / entry.name).symlink_to(entry)
        return str(folder / "bin" / "python")

    return make


def test_the_table_has_the_packages_of_each_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    optional: dict[str, list[str]] = project["optional-dependencies"]
    for extra, packages in extras.PACKAGES.items():
        wanted = {re.split(r"[^\w.-]", each)[0]: each for each in optional[extra]}
        # Zstandard is a part of Python from 3.14 on.
        wanted.pop("backports.zstd", None)
        if "pyjwt" in wanted:
            assert "[crypto]" in wanted["pyjwt"]
            wanted["cryptography"] = ""
        assert set(packages) == set(wanted)
        assert not extras.missing(extra)


@pytest.mark.parametrize(
    ("package", "arguments", "said"),
    [
        ("uvicorn", "serve docs --http 127.0.0.1:0", "--http"),
        ("prometheus-client", "serve docs --http 127.0.0.1:0", "--http"),
        ("cryptography", "serve signed.yaml --http 127.0.0.1:0", "http.auth.issuer"),
        ("sqlglot", "list postgresql://me@127.0.0.1:1/shop", "PostgreSQL"),
        ("asyncmy", "list mysql://me@127.0.0.1:1/shop", "MariaDB"),
        ("sqlglot", "read data.yaml duckdb://data/~query/all", "DuckDB"),
        ("html-to-markdown", "check docs", "reading 1 docx in other formats"),
    ],
)
def test_a_missing_package_is_one_line_with_the_command(
    tmp_path: Path, without: Callable[[str], str], package: str, arguments: str, said: str
) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "examples/documents/documents/refunds.docx", tmp_path / "docs")
    (tmp_path / "data.csv").write_text("id\n1\n")
    (tmp_path / "data.yaml").write_text(
        "databases: {data: {url: 'files:data.csv', queries: {all: {sql: 'select * from data'}}}}\n"
    )
    (tmp_path / "signed.yaml").write_text(
        "roots: {docs: {path: docs}}\nhttp: {auth: {issuer: 'https://i.example', audience: a}}\n"
    )
    python = without(package)
    ended = subprocess.run(
        [python, "-m", "resource_server", *arguments.split()],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=PATIENCE_S,
        check=False,
    )
    text = f"{said} needs more packages; install them: {python} -m pip install -e "
    assert text in ended.stdout + ended.stderr
    assert "internal error" not in ended.stderr
    assert "Traceback" not in ended.stderr
    if said.startswith(("--http", "http")):
        assert (ended.returncode, ended.stdout) == (2, "")
        (line,) = ended.stderr.splitlines()
        assert line.startswith("resource-server: ")


def test_a_client_is_told_to_ask_the_operator_and_not_to_try_again() -> None:
    missing = extras.MissingExtra("DuckDB", "duckdb")
    assert not missing.is_temporary
    assert "can add the extra `duckdb`" in missing.told
    assert str(ROOT) not in missing.told


def test_a_client_is_not_told_paths_of_this_machine() -> None:
    assert str(ROOT) not in extras.operator_hint("regex")
    assert "`regex`" in extras.operator_hint("regex")


@pytest.mark.parametrize("folder", ["acme-1.dist-info", "acme.egg-info", "Acme.EGG-INFO"])
def test_entry_points_are_found_as_by_the_standard_library(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "METADATA").write_text("Name: acme\nVersion: 1\n")
    (tmp_path / folder / "entry_points.txt").write_text("[acme.things]\none = acme:One\n")
    (tmp_path / "other.dist-info").write_text("no folder")
    assert not extras.entry_points("acme.things")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (found,) = extras.entry_points("acme.things")
    assert [found] == [*importlib.metadata.entry_points(group="acme.things")]
    assert (found.name, found.value) == ("one", "acme:One")


def test_entry_points_of_an_archive_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "acme.zip", "w") as archive:
        archive.writestr("acme-1.dist-info/METADATA", "Name: acme\nVersion: 1\n")
        archive.writestr("acme-1.dist-info/entry_points.txt", "[acme.things]\none = acme:One\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "acme.zip"), *sys.path])
    assert [each.name for each in extras.entry_points("acme.things")] == ["one"]


def test_no_entry_points_are_found_without_the_module_that_parses_them() -> None:
    code = (
        "import sys; from resource_server.conversion import registry; registry.find_packages(); "
        "print('importlib.metadata' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True)
    assert found.stdout.strip() == b"False"
