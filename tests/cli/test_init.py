from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from urllib.parse import quote

import pytest

from resource_server.manifest.load import load
from tests.cli.conftest import Run

NAME = "mcp-resources.yaml"


def test_the_written_manifest_serves_the_folder(run: Run, folder: Path) -> None:
    before = run("list", folder, "--json").out
    done = run("init", folder)
    assert (done.status, done.out, done.err) == (0, f"wrote {folder / NAME}\n", "")
    (folder / NAME).rename(folder.parent / "moved.yaml")
    (folder.parent / "moved.yaml").rename(folder / NAME)
    after = run("list", folder, "--json").out
    assert [json.loads(line)["uri"] for line in before.splitlines()] == [
        uri for line in after.splitlines() if not (uri := json.loads(line)["uri"]).endswith(NAME)
    ]


@pytest.mark.parametrize("name", ["", "xx.txt", ".env", ".yaml", "manifest"])
def test_an_invalid_manifest_name_is_refused(run: Run, folder: Path, name: str) -> None:
    before = sorted(folder.iterdir())
    done = run("init", folder, "--output", name)
    assert (done.status, done.out) == (2, "")
    assert "the name of a manifest must end in one of .yaml, .yml, .json" in done.err
    assert sorted(folder.iterdir()) == before


def test_an_existing_manifest_is_not_overwritten(run: Run, folder: Path) -> None:
    (folder / NAME).write_text("mine", "utf-8")
    done = run("init", folder)
    assert (done.status, done.out) == (1, "")
    assert "--force" in done.err
    assert (folder / NAME).read_text("utf-8") == "mine"


def test_force_overwrites_a_manifest(run: Run, folder: Path) -> None:
    (folder / NAME).write_text("mine", "utf-8")
    assert run("init", folder, "--force").status == 0
    assert run("check", folder).status == 0


def test_a_folder_gets_no_second_manifest(run: Run, folder: Path) -> None:
    (folder / "mcp-resources.yml").write_text("mine", "utf-8")
    assert "mcp-resources.yml" in run("init", folder).err
    assert run("init", folder, "--force").status == 0
    assert not (folder / NAME).exists()
    assert run("check", folder).status == 0


def test_a_manifest_can_be_printed_instead_of_written(run: Run, folder: Path) -> None:
    done = run("init", folder, "--output", "-")
    assert done.status == 0
    assert "roots:" in done.out
    assert not (folder / NAME).exists()


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["missing"], 1),
        (["README.md"], 1),
        ([".", "--output", "../x.yaml"], 2),
        ([".", "--output", "docs"], 2),
        ([".", "--output", "folder.yaml"], 1),
    ],
)
def test_a_write_error_is_one_line(
    run: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    status: int,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "folder.yaml").mkdir()
    done = run("init", *arguments, "--force")
    assert (done.status, done.out) == (status, "")
    assert done.err.count("\n") == 1


def test_the_schema_is_json_with_the_sections(run: Run) -> None:
    done = run("schema")
    assert (done.status, done.err) == (0, "")
    assert {"server", "roots", "providers"} <= set(json.loads(done.out)["properties"])


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A SQLite database with a view, a table without a key, and a broken view."""
    file = tmp_path / "My shop.db"
    connection = sqlite3.connect(file)
    connection.executescript(
        "create table customers (id integer primary key, email text);"
        "insert into customers values (1, 'a@b.c'), (2, 'd@e.f');"
        "create table notes (text text);"
        "create view mails as select email from customers;"
        "create table gone (a); create view broken as select a from gone; drop table gone;"
    )
    connection.close()
    return file


def test_a_database_manifest_is_written_beside_it_and_names_its_tables(
    run: Run, shop: Path
) -> None:
    done = run("init", shop)
    assert (done.status, done.out) == (0, f"wrote {shop.parent / NAME}\n")
    assert "no such table (broken)" in done.err
    written = (shop.parent / NAME).read_text("utf-8")
    assert '  my-shop:\n    url: "sqlite:///My%20shop.db"  # relative to this file' in written
    (spec,) = load(shop.parent / NAME).mounts
    assert (spec.base, spec.title) == ("sqlite://my-shop/", "My shop")
    assert spec.options["url"] == f"sqlite:///{quote(str(shop))}"
    assert spec.options["tables"] == {
        "broken": None,
        "customers": None,
        "mails": None,
        "notes": None,
    }
    assert "customers:  # 2 rows, key id\n        # columns: {mask: {email: hash}}\n" in written
    assert "mails:  # view, 2 rows, no key\n" in written
    assert "notes:  # 0 rows, no primary key; rowid" in written
    assert sorted(file.name for file in shop.parent.iterdir()) == ["My shop.db", NAME]


def test_a_written_manifest_consents_to_what_no_view_shows(run: Run, shop: Path) -> None:
    run("init", shop)
    manifest = shop.parent / NAME
    written = manifest.read_text("utf-8")
    manifest.write_text(written.replace("# columns: {mask:", "columns: {mask:", 1))
    assert "view 'mails' is hidden: it shows 'email' of 'customers'" in run("check", manifest).out


def test_a_database_manifest_can_be_printed_instead_of_written(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.parent)
    printed = run("init", "My shop.db", "-o", "-")
    assert printed.status == 0
    assert run("init", "sqlite:///My shop.db", "-o", "-") == printed
    assert not (shop.parent / NAME).exists()


@pytest.mark.parametrize("pattern", ["*.csv", "[a-b]/**/*.csv?table=all%20of%20it"])
def test_a_manifest_of_data_files_serves_what_the_pattern_does(
    run: Run, tmp_path: Path, pattern: str
) -> None:
    pytest.importorskip("duckdb")
    for file in (tmp_path / "c.csv", tmp_path / "a" / "d [1]" / "x.csv"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("id,name\n1,one\n", "utf-8")
    source = f"files:{tmp_path}/{pattern}"
    assert run("init", source).out == f"wrote {tmp_path / NAME}\n"
    listed = run("list", source).out
    assert "/~rows  Rows of " in listed
    assert run("list", tmp_path / NAME).out == listed


def test_sql_of_callers_is_proposed_where_it_is_possible(run: Run, shop: Path) -> None:
    written = run("init", shop, "-o", "-").out
    assert "    # sql: true  " in written
    manifest = shop.parent / NAME
    manifest.write_text(written.replace("    # sql: true", "    sql: true"), "utf-8")
    done = run("check", manifest)
    assert "  sql        takes SQL of callers (query_database)\n" in done.out
    manifest.write_text(written, "utf-8")
    assert "SQL of callers" not in run("check", manifest).out


def test_a_table_that_is_slow_to_count_is_not_counted(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "slow.db"
    connection = sqlite3.connect(file)
    connection.executescript(
        "create table few (a integer primary key); insert into few values (1);"
        "create view many as with recursive n (i) as (select 1 union all select i + 1 from n)"
        "select i from n;"
    )
    connection.close()
    done = run("init", file, "-o", "-")
    assert done.status == 0
    assert "few:  # 1 row, key a\n" in done.out
    assert "many:  # view, no key\n" in done.out


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("none.db", "no such file; databases are opened, never created"),
        ("jdbc:sqlserver://host:1;password=secret", "write mssql+pymssql://USER:PASSWORD@host:1/"),
    ],
)
def test_an_unreadable_database_is_one_line(run: Run, source: str, words: str) -> None:
    done = run("init", source)
    assert (done.status, done.out) == (2, "")
    assert words in done.err
    assert "secret" not in done.err
    assert done.err.count("\n") == 1
