"""`resource-server sql`; what it prints for servers is run in `tests/manifest/databases`."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Run

TWO = "databases:\n  a: {url: 'sqlite:///a.db'}\n  b: {url: 'sqlite:///b.db'}\n"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    for name in "ab":
        connection = sqlite3.connect(tmp_path / f"{name}.db")
        connection.execute("create table t (a)")
        connection.close()
    (tmp_path / "mcp-resources.yaml").write_text(TWO, "utf-8")
    return tmp_path


@pytest.mark.parametrize("option", ["--role", "--notify"])
def test_a_sqlite_file_needs_no_sql(run: Run, two: Path, option: str) -> None:
    done = run("sql", option, two / "a.db")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("-- a: ")
    assert "Nothing to do." in done.out


def test_several_databases_require_a_name(run: Run, two: Path) -> None:
    done = run("sql", "--role", two)
    assert (done.status, done.out) == (2, "")
    assert done.err == "resource-server: --name is missing; one of a, b\n"
    assert run("sql", "--role", two, "--name", "b").out.startswith("-- b: ")
    done = run("sql", "--role", two, "--name", "bb")
    said = "resource-server: unknown database 'bb'; did you mean 'b'?\n"
    assert (done.status, done.err) == (2, said)


def test_a_source_without_a_database_is_refused(run: Run, folder: Path) -> None:
    done = run("sql", "--role", folder)
    assert (done.status, done.out) == (1, "")
    assert done.err == "resource-server: the source has no database\n"


def test_the_kind_of_sql_is_required(run: Run, two: Path) -> None:
    done = run("sql", two)
    assert (done.status, done.out) == (2, "")
    assert "--role, --notify or --policy is missing" in done.err
