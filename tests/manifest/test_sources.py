from __future__ import annotations

import os
import pathlib
import socket
import sqlite3
import subprocess
import sys

import pytest

from resource_server.errors import ManifestError
from resource_server.manifest import Manifest, Server, sources


def refusal(source: str) -> str:
    with pytest.raises(ManifestError) as caught:
        sources.find(source)
    (found,) = caught.value.diagnostics
    return str(found)


def only_mount(manifest: Manifest) -> tuple[str, str, str | None]:
    (spec,) = manifest.mounts
    return spec.name, spec.base, spec.title


def test_a_folder_is_one_root_named_after_it(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    found = sources.find(str(folder))
    assert (found.file, found.directory, found.server) == (None, folder, Server())
    assert only_mount(found) == ("handbook", "file:///handbook/", None)
    assert getattr(found.mounts[0].use, "path", None) == folder


@pytest.mark.parametrize("source", [None, "."])
def test_the_current_folder_is_the_default(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, source: str | None
) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path / "docs")
    found = sources.find(source)
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
    assert only_mount(sources.find(str(path))) == (name, f"file:///{name}/", title)


def test_the_root_of_the_file_system_has_a_name() -> None:
    assert sources.mount_name(pathlib.Path("/")) == ("root", "root")


def test_a_folder_reached_by_dots_has_its_own_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "outer" / "inner")
    assert only_mount(sources.find(".."))[0] == "outer"


def test_a_folder_is_served_by_its_manifest(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcp-resources.yaml").write_text("providers: {a: {use: x.py}}")
    monkeypatch.chdir(tmp_path)
    found = sources.find(".")
    assert found.file == pathlib.Path("mcp-resources.yaml")
    assert found == sources.find() == sources.find("mcp-resources.yaml")


def test_a_manifest_may_have_any_name_that_ends_in_yaml(tmp_path: pathlib.Path) -> None:
    for name in ("a.yaml", "b.yml", "c.JSON"):
        (tmp_path / name).write_text('{"providers": {"a": {"use": "x.py"}}}')
        assert only_mount(sources.find(str(tmp_path / name)))[0] == "a"


def test_problems_of_a_manifest_name_it_as_it_was_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcp-resources.yaml").write_text("rots: {}")
    monkeypatch.chdir(tmp_path)
    assert refusal(".").startswith("mcp-resources.yaml:1:1: rots: unknown section")


def test_a_sqlite_file_says_that_databases_are_not_supported(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute("create table t (a)")
    connection.close()
    assert refusal(str(file)) == f"{file}: databases are not supported by this version"


@pytest.mark.parametrize(
    "url", ["sqlite:///shop.db", "postgresql+asyncpg://me:secret@host/db", "mysql+asyncmy://h/d"]
)
def test_a_database_url_says_that_databases_are_not_supported(url: str) -> None:
    scheme = url.partition("://")[0]
    assert refusal(url) == f"{scheme}://…: databases are not supported by this version"


def test_what_is_no_source_says_so_in_one_line(tmp_path: pathlib.Path) -> None:
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
        f"{at}README.md: not a manifest, whose name ends in .yaml; "
        "serve the folder it is in instead"
    )
    assert refusal(at + "fifo") == f"{at}fifo: neither a file nor a folder"
    assert refusal(at + "folder") == (
        f"{at}folder/mcp-resources.yaml: not a regular file; name a manifest or a folder"
    )
    assert refusal(at + "loop").startswith(f"{at}loop: cannot be read: too many levels")
    assert refusal(at + "gone.yaml") == f"{at}gone.yaml: no such file or folder"
    assert refusal("a\0b") == "a\\x00b: cannot be read: not a file name"
    assert refusal("") == "source: is empty; name a folder or a manifest"


def test_a_socket_is_no_source(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert refusal("socket") == "socket: neither a file nor a folder"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_opened_says_why(tmp_path: pathlib.Path) -> None:
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
        ("sqlite://shop/orders/5", False),
        ("file:///project/README.md", False),
        ("git+ssh", False),
        ("docs://a+b/c", False),
        ("a\0b", False),
        ("", False),
    ],
)
def test_a_source_is_told_from_a_resource_uri(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, argument: str, expected: bool
) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)
    assert sources.is_source(argument) is expected


def test_a_folder_without_a_manifest_needs_neither_yaml_nor_pydantic(
    tmp_path: pathlib.Path,
) -> None:
    code = (
        "import sys\n"
        "from resource_server import plugins\n"
        "manifest = plugins.find(sys.argv[1])\n"
        "plugins.load(manifest.mounts[0], manifest)\n"
        "print(sorted({'yaml', 'pydantic', 'pydantic_core'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
