"""Addresses on the command line: URIs, and paths in what is served."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from resource_server.cli import addresses
from tests.cli.conftest import Run

GUIDE = "file:///project/docs/guide.txt"


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("README.md", "# Read me\n"),
        ("./README.md", "# Read me\n"),
        ("docs//guide.txt", "one\ntwo\nthree\n"),
        ("docs/../README.md", "# Read me\n"),
        ("docs/guide.txt?lines=2-2", "two\n"),
        ("./docs/guide.txt?tail=1", "three\n"),
        ("{here}/docs/guide.txt?lines=1-1", "one\n"),
        ("a?b=c.txt", "named like parameters"),
        ("50%25 #1.txt", "percent"),
        ("a\udcff.txt", "bytes"),
        ("./a:b", "colon"),
    ],
)
def test_a_path_reads_what_it_names(run: Run, here: Path, path: str, out: str) -> None:
    for name, text in (
        ("a?b=c.txt", "named like parameters"),
        ("50%25 #1.txt", "percent"),
        ("a\udcff.txt", "bytes"),
        ("a:b", "colon"),
    ):
        (here / name).write_text(text, "utf-8")
    done = run("read", ".", path.format(here=here))
    assert done.status == 0, done.err
    assert done.out == out


def test_a_path_starts_at_the_source_or_at_the_current_folder(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    (folder.parent / "link").symlink_to("project")
    for source, path in (
        ("project", "docs/guide.txt"),
        ("project", "project/docs/guide.txt"),
        ("project", "./docs/guide.txt"),
        ("link", "project/docs/guide.txt"),
        ("project", "link/docs/guide.txt"),
        ("project/docs", "guide.txt"),
    ):
        assert run("read", source, path).out == "one\ntwo\nthree\n", (source, path)
    assert "docs/guide.txt" in run("list", "project", "project/docs").out


def test_without_a_source_a_path_is_in_the_current_folder(run: Run, here: Path) -> None:
    assert run("read", "README.md").out == "# Read me\n"
    assert "file:///project/docs" in run("metadata", "docs").out
    assert "type        collection" in run("metadata", ".").out


def test_a_path_in_a_database_names_a_table_or_row(run: Run, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("create table orders (id integer primary key, what)")
        database.execute("insert into orders values (7, 'tea')")
    shop = tmp_path / "shop.db"
    assert "sqlite://shop/orders/7" in run("list", shop, "orders").out
    assert run("read", shop, "orders/7").out == '{"id":7,"what":"tea"}'
    assert "what" in run("read", shop, "orders/~schema").out


def test_a_path_of_several_resources_is_refused_with_their_uris(run: Run, folder: Path) -> None:
    other = folder.parent / "other"
    other.mkdir()
    (other / "README.md").write_text("other", "utf-8")
    done = run("read", folder, other, "README.md")
    assert (done.status, done.out) == (2, "")
    assert "file:///project/README.md, file:///other/README.md; give the URI" in done.err
    assert run("read", folder, other, other / "README.md").out == "other"


def test_a_path_with_parameters_below_an_unavailable_mount_is_no_riddle(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "big.parquet").write_bytes(b"PAR1 and no end")
    done = run("read", f"files:{tmp_path}/big.parquet", "big/~rows?limit=2")
    assert (done.status, done.out) == (1, "")
    assert done.err.endswith("temporarily unavailable: duckdb://big/big/~rows?limit=2\n")


@pytest.mark.parametrize("path", [".env", "none.txt", "docs/.env", "./.env"])
def test_hidden_and_absent_paths_look_the_same(run: Run, here: Path, path: str) -> None:
    uri = "file:///project/" + path.removeprefix("./")
    for command in "read", "metadata", "watch":
        done = run(command, ".", path)
        assert (done.status, done.out) == (1, "")
        assert done.err == f"resource-server: resource not found: {uri}\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "..", "docs/../../x", "a\0b"])
def test_a_path_below_no_source_is_a_usage_error(run: Run, here: Path, path: str) -> None:
    done = run("read", ".", path)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "is below no source" in done.err


def test_a_uri_is_never_a_path(run: Run, here: Path) -> None:
    fake = here / "file:" / "project"
    fake.mkdir(parents=True)
    (fake / "README.md").write_text("another", "utf-8")
    assert run("read", ".", "file:///project/README.md").out == "# Read me\n"
    assert run("read", ".", "./file:///project/README.md").out == "another"


def test_an_absent_path_keeps_its_parameters(run: Run, here: Path) -> None:
    done = run("read", ".", "docs/none.txt?lines=1-2")
    told = "resource-server: resource not found: file:///project/docs/none.txt?lines=1-2"
    assert done.err.startswith(told)


def test_near_names_are_suggested_but_never_hidden_ones(run: Run, here: Path) -> None:
    done = run("read", ".", "READEM.md")
    assert done.err == (
        "resource-server: resource not found: file:///project/READEM.md; "
        "did you mean file:///project/README.md?\n"
    )
    for command in "list", "metadata", "watch":
        assert f"did you mean {GUIDE}?" in run(command, ".", "docs/giude.txt").err
    assert f"did you mean {GUIDE}?" in run("read", ".", "elsewhere/guide.txt").err
    assert "did you mean" not in run("read", ".", ".enw").err


def test_an_explanation_takes_paths(run: Run, here: Path) -> None:
    done = run("check", ".", "--explain", ".env", "--explain", str(here / "README.md"))
    hidden, exposed = done.out.splitlines()
    assert hidden.startswith("file:///project/.env: ")
    assert exposed == "file:///project/README.md: exposed"


def test_bytes_of_a_typed_uri_are_percent_encoded(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a\udcff.txt").write_text("found", "utf-8")
    base = run("list", tmp_path).out.split()[0]
    assert run("read", tmp_path, f"{base}a\udcff.txt").out == "found"
    assert addresses.typed_uri("file:///a/grüße") == "file:///a/grüße"
    assert os.fsencode("a\udcff") == b"a\xff"
