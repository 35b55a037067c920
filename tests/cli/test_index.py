from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

MANIFEST = "roots:\n  docs: {path: docs, index: true, cache: .cache}\n"


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in "abc":
        (docs / f"{name}.md").write_text(f"text of {name}\n")
    (tmp_path / "mcp-resources.yaml").write_text(MANIFEST)
    return tmp_path


def test_an_index_is_built_updated_and_deleted(run: Run, indexed: Path) -> None:
    done = run("index", indexed)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("docs: 3 documents, ")
    (indexed / "docs" / "d.md").write_text("more\n")
    assert run("index", indexed).out.startswith("docs: 4 documents, ")
    assert run("index", "--drop", indexed).out == "docs: index deleted\n"
    assert not [*(indexed / ".cache").glob("*.mcp-search")]
    assert run("index", "--drop", indexed).out == "docs: has no index\n"


def test_a_source_without_an_index_is_refused(run: Run, folder: Path) -> None:
    done = run("index", folder)
    assert (done.status, done.out) == (1, "")
    assert done.err.endswith(
        "no root of the source has an index; in the manifest, write 'index: true' and"
        " 'cache: .cache' below a root ('resource-server init' writes a first manifest)\n"
    )


def test_an_index_needs_a_folder(run: Run, indexed: Path) -> None:
    (indexed / "mcp-resources.yaml").write_text("roots:\n  docs: {path: docs, index: true}\n")
    done = run("check", indexed)
    assert done.status == 2
    assert "index: has no folder to be kept in; write 'cache' as well" in done.err


def test_an_index_that_cannot_be_kept_is_reported(run: Run, indexed: Path) -> None:
    (indexed / ".cache").mkdir(mode=0o777)
    (indexed / ".cache").chmod(0o777)
    done = run("index", indexed)
    assert (done.status, done.out) == (1, "docs: others may write to the folder\n")
    done = run("check", indexed)
    assert done.status == 1
    assert "index: cannot be kept in 'cache': others may write to the folder" in done.out


def test_an_index_is_advised_for_many_files(run: Run, folder: Path) -> None:
    many = folder / "many"
    many.mkdir()
    for number in range(20_001):
        (many / f"{number}.txt").touch()
    assert "'index: true' and 'cache' would speed up searches" in run("check", folder).out
