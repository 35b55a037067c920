from __future__ import annotations

import os
import pathlib
import socket
import sqlite3
import subprocess
import sys

import pytest

from resource_server.errors import ManifestError
from resource_server.manifest import Manifest, sources
from resource_server.manifest.databases.database_url import file_url, parse_database_url
from resource_server.manifest.model import ServerOptions
from tests.cases import for_each


def refusal(source: str) -> str:
    with pytest.raises(ManifestError) as caught:
        sources.find_manifest(source)
    (found,) = caught.value.diagnostics
    return str(found)


def only_mount(manifest: Manifest) -> tuple[str, str, str | None]:
    (spec,) = manifest.mounts
    return spec.name, spec.base, spec.title


def test_a_folder_is_one_root_named_after_it(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    found = sources.find_manifest(str(folder))
    assert (found.file, found.directory, found.server) == (None, folder, ServerOptions())
    assert only_mount(found) == ("handbook", "file:///handbook/", None)
    assert getattr(found.mounts[0].use, "path", None) == folder


@pytest.mark.parametrize("source", [None, "."])
def test_the_current_folder_is_the_default(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, source: str | None
) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path / "docs")
    found = sources.find_manifest(source)
    assert found.directory == tmp_path / "docs"
    assert only_mount(found) == ("docs", "file:///docs/", None)


@pytest.mark.parametrize(
    ("folder", "name", "title"),
    [
        ("my project", "my-project", "my project"),
        (".config", "config", ".config"),
        ("a.b_c-d", "a.b_c-d", None),
        ("日本", "root", "日本"),
        ("über uns", "ber-uns", "über uns"),
        ("x" * 200, "x" * 64, "x" * 200),
        (b"caf\xe9 latin", "caf-latin", "caf\ufffd latin"),
        ("a\nb", "a-b", "a\nb"),
        ("~", "root", "~"),
    ],
)
def test_any_folder_name_makes_a_valid_mount(
    tmp_path: pathlib.Path, folder: str | bytes, name: str, title: str | None
) -> None:
    path = tmp_path / os.fsdecode(folder)
    path.mkdir()
    assert only_mount(sources.find_manifest(str(path))) == (name, f"file:///{name}/", title)


def test_the_root_of_the_file_system_has_a_name() -> None:
    assert sources.mount_name(pathlib.Path("/")) == ("root", "root")


def test_a_folder_reached_by_dots_has_its_own_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "outer" / "inner")
    assert only_mount(sources.find_manifest(".."))[0] == "outer"


def test_a_folder_is_served_by_its_manifest(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcp-resources.yaml").write_text("providers: {a: {use: x.py}}")
    monkeypatch.chdir(tmp_path)
    found = sources.find_manifest(".")
    assert found.file == pathlib.Path("mcp-resources.yaml")
    assert found == sources.find_manifest() == sources.find_manifest("mcp-resources.yaml")


@pytest.mark.parametrize("name", ["mcp-resources.yml", "mcp-resources.json"])
def test_a_folder_of_any_suffix_is_served_by_its_manifest(
    tmp_path: pathlib.Path, name: str
) -> None:
    (tmp_path / name).write_text('{"providers": {"a": {"use": "x.py"}}}')
    found = sources.find_manifest(str(tmp_path))
    assert found.file == sources.manifest_file(str(tmp_path)) == tmp_path / name
    assert only_mount(found)[0] == "a"


def test_a_folder_with_two_manifests_is_refused(tmp_path: pathlib.Path) -> None:
    for name in ("mcp-resources.yml", "mcp-resources.yaml"):
        (tmp_path / name).write_text("providers: {a: {use: x.py}}")
    assert refusal(str(tmp_path)) == (
        f"{tmp_path}: has several manifests, mcp-resources.yaml and mcp-resources.yml; "
        "keep one, or name the one to use"
    )
    assert sources.find_manifest(str(tmp_path / "mcp-resources.yml")).file is not None


def test_a_manifest_may_have_any_name_that_ends_in_yaml(tmp_path: pathlib.Path) -> None:
    for name in ("a.yaml", "b.yml", "c.JSON"):
        (tmp_path / name).write_text('{"providers": {"a": {"use": "x.py"}}}')
        assert only_mount(sources.find_manifest(str(tmp_path / name)))[0] == "a"


def test_problems_name_the_manifest_as_it_was_given(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcp-resources.yaml").write_text("rots: {}")
    monkeypatch.chdir(tmp_path)
    assert refusal(".").startswith("mcp-resources.yaml:1:1: rots: unknown section")


def sqlite_file(file: pathlib.Path) -> pathlib.Path:
    connection = sqlite3.connect(file)
    connection.execute("create table t (a)")
    connection.close()
    return file


def url(found: Manifest) -> object:
    return getattr(found.mounts[0].use, "url", None)


@pytest.mark.parametrize(
    ("file", "name", "title"),
    [
        ("shop.db", "shop", None),
        ("My Shop.sqlite3", "my-shop", "My Shop"),
        ("data", "data", None),
        ("a?b#c%20.db", "a-b-c-20", "a?b#c%20"),
        ("日本.sqlite", "database", "日本"),
        (b"caf\xe9.db", "caf", "caf\ufffd"),
        ("odd.yaml", "odd", None),
    ],
)
def test_a_sqlite_file_of_any_name_is_one_database_named_after_it(
    tmp_path: pathlib.Path, file: str | bytes, name: str, title: str | None
) -> None:
    path = sqlite_file(tmp_path / os.fsdecode(file))
    found = sources.find_manifest(str(path))
    assert (found.file, found.directory, found.server) == (None, tmp_path, ServerOptions())
    assert only_mount(found) == (name, f"sqlite://{name}/", title)
    assert found.mounts[0].path == ("databases", name)
    assert parse_database_url(str(url(found))).database == str(path)
    assert sources.find_manifest(file_url("sqlite", path).text) == found


def test_a_file_url_is_relative_to_the_working_directory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite_file(tmp_path / "shop.db")
    monkeypatch.chdir(tmp_path)
    found = sources.find_manifest("sqlite:///shop.db")
    assert only_mount(found) == ("shop", "sqlite://shop/", None)
    assert url(found) == f"sqlite:///{tmp_path}/shop.db"


@for_each(
    ("source", "name", "base"),
    [
        ("postgresql+asyncpg://me:secret@host/Sales", "sales", "postgresql://sales/"),
        ("postgresql://me@host/sales", "sales", "postgresql://sales/"),
        ("mysql+asyncmy://h:3306/d_1", "d_1", "mysql://d_1/"),
        ("mariadb://root@127.0.0.1", "database", "mariadb://database/"),
    ],
)
def test_a_url_of_a_server_is_one_database_named_after_it(
    source: str, name: str, base: str
) -> None:
    found = sources.find_manifest(source)
    assert only_mount(found)[:2] == (name, base)
    assert url(found) == source
    assert "secret" not in repr(found)


def test_a_file_that_is_not_a_database_is_refused_with_the_reason(tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.sqlite").write_text("something else entirely")
    (tmp_path / "folder.db").mkdir()
    os.mkfifo(tmp_path / "fifo.sqlite3")
    at = f"{tmp_path}/"
    assert refusal(at + "none.db") == (
        f"{at}none.db: no such file; databases are opened, never created"
    )
    assert (
        refusal(at + "empty.db")
        == f"{at}empty.db: an empty file; a database has at least one table"
    )
    assert refusal(at + "text.sqlite") == (
        f"{at}text.sqlite: not a SQLite or DuckDB database, or an encrypted one"
    )
    assert refusal(at + "fifo.sqlite3") == (
        f"{at}fifo.sqlite3: not a file; a SQLite or DuckDB database is a file"
    )
    assert refusal(f"sqlite:///{at}empty.db").endswith(
        "an empty file; a database has at least one table"
    )
    assert only_mount(sources.find_manifest(at + "folder.db"))[1] == "file:///folder.db/"


@for_each(
    "source",
    [
        "postgresql+psycopg2://me:secret@host:port/db",
        "postgres://me:se/cret@host/db",
        "oracle+oracledb://me:secret@host:port/db",
        "mysql+asyncmy://me:s@secret@host/db?ssl_mod=required",
        "mysql+asyncmy://me:secret@host:port/db",
        "mysql+asyncmy://me:s/secret@host/db",
        "mysql+asyncmy://me:s?secret@host/db",
    ],
)
def test_an_unusable_url_is_refused_without_being_shown(source: str) -> None:
    found = refusal(source)
    assert found.startswith(f"{source.partition('://')[0]}://…: ")
    assert "secret" not in found
    assert "me" not in found.split()


def test_only_manifests_and_folders_have_a_manifest_to_watch(tmp_path: pathlib.Path) -> None:
    assert sources.manifest_file() == pathlib.Path("mcp-resources.yaml")
    assert sources.manifest_file(str(tmp_path)) == tmp_path / "mcp-resources.yaml"
    assert sources.manifest_file("a/m.yml") == pathlib.Path("a/m.yml")
    assert sources.manifest_file(str(sqlite_file(tmp_path / "shop.db"))) is None
    assert sources.manifest_file("sqlite:///shop.db") is None
    assert sources.manifest_file("mysql://me:secret@host/x.yaml") is None


def test_an_unusable_source_is_refused_in_one_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "README.md").write_text("# Hello")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "mcp-resources.yaml")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    at = f"{tmp_path}/"
    assert refusal(at + "none") == f"{at}none: no such file or folder"
    assert refusal(at + "README.md/x").startswith(f"{at}README.md/x: cannot be read: not a dir")
    assert refusal(at + "README.md") == (
        f"{at}README.md: neither a manifest, whose name ends in .yaml, nor a database or a data "
        "file; serve its folder instead"
    )
    assert refusal(at + "fifo") == f"{at}fifo: neither a file nor a folder"
    assert refusal(at + "folder") == (
        f"{at}folder/mcp-resources.yaml: not a regular file; name a manifest or a folder"
    )
    assert refusal(at + "loop").startswith(f"{at}loop: cannot be read: too many levels")
    assert refusal(at + "gone.yaml") == f"{at}gone.yaml: no such file or folder"
    assert refusal("a\0b") == "a\\x00b: cannot be read: not a file name"
    assert refusal("") == "source: empty; name a folder, a manifest or a database"


def test_a_socket_is_not_a_source(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert refusal("socket") == "socket: neither a file nor a folder"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_refused_with_the_reason(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    assert refusal(str(folder)) == f"{folder}: cannot be read: permission denied"


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        (".", True),
        ("there", True),
        ("dangling", True),
        ("missing", False),
        ("sqlite:///shop.db", True),
        ("SQLite:///shop.db", True),
        ("postgresql+asyncpg://host/db", True),
        ("postgresql://me:secret@host/db", True),
        ("mysql://127.0.0.1:3306/db", True),
        ("mariadb://root@localhost/db", True),
        ("postgres://me@host/db", True),
        ("postgres://host/db", True),
        ("mysql2://host/db", True),
        ("postgresql:///db", True),
        ("postgresql://h1,h2/db", True),
        ("postgresql://host/db?sslmode=require", True),
        ("postgresql://shop/public/orders/5?columns=id", False),
        ("mysql://shop/orders", False),
        ("postgresql://shop/public/orders/a@b:c", False),
        ("sqlite://shop/orders/5", False),
        ("file:///project/README.md", False),
        ("git+ssh", False),
        ("docs://a+b/c", False),
        ("a\0b", False),
        ("", False),
    ],
)
def test_a_source_is_distinguished_from_a_resource_uri(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, argument: str, expected: bool
) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)
    assert sources.is_source(argument) is expected


@pytest.mark.parametrize("source", ["", "shop.db"])
def test_a_source_without_a_manifest_needs_neither_yaml_nor_pydantic(
    tmp_path: pathlib.Path, source: str
) -> None:
    sqlite_file(tmp_path / "shop.db")
    code = (
        "import sys\n"
        "from resource_server import plugins\n"
        "manifest = plugins.find_with_plugins(sys.argv[1])\n"
        "plugins.load_provider(manifest.mounts[0], manifest)\n"
        "print(sorted({'yaml', 'pydantic', 'pydantic_core', 'sqlalchemy'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / source)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("sales.csv", "sales"),
        ("sales.CSV.gz", "sales"),
        ("Tea sales.ndjson.gz", "tea-sales"),
        ("a.b.parquet", "a-b"),
    ],
)
def test_every_data_file_is_served_as_tables(tmp_path: pathlib.Path, file: str, name: str) -> None:
    (tmp_path / file).write_bytes(b"")
    found = sources.find_manifest(str(tmp_path / file))
    assert only_mount(found)[:2] == (name, f"duckdb://{name}/")


def test_a_file_that_is_compressed_is_a_data_file_only_by_its_whole_name(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "sales.gz").write_bytes(b"")
    assert "neither a manifest" in refusal(str(tmp_path / "sales.gz"))


@for_each("url", ["postgresql://localhost/shop", "mysql://db/shop"])
def test_a_server_is_a_source_without_a_login_and_a_port(url: str) -> None:
    found = sources.database_of(url)
    assert found is not None
    assert (found.text, found.database) == (url, "shop")
    assert sources.manifest_file(url) is None
    assert not sources.is_source(url)  # beside URIs, it is one
