"""Withheld files: no root serves its own manifest, nor a database that the manifest serves."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.errors import ResourceNotFound
from resource_server.protocol.server import Server
from resource_server.providers.filesystem import Filesystem
from resource_server.runtime.eager import settle
from resource_server.serving import server_builder
from tests.protocol.wire import Wire
from tests.waiting import grow_old

pytestmark = pytest.mark.anyio

MANIFEST = """
roots:
  all: {path: ., symlinks: within-root}
  inner: {path: data}
databases:
  shop: {url: "sqlite:///data/shop.db"}
"""
WITHHELD = {
    "mcp-resources.yaml",
    "manifest-copy.txt",
    "data/shop.db",
    "data/shop.db-wal",
    "data/shop.db-shm",
    "notes/shop-copy.bin",
    "notes/link.db",
}
SHOWN = {"README.md", "data/other.txt", "notes/shop.csv", "notes/mcp-resources.yaml"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with everything that must not be served, and its nearest neighbours."""
    (tmp_path / "data").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "mcp-resources.yaml").write_text(MANIFEST)
    for name in SHOWN:
        (tmp_path / name).write_text("shared word\n")
    with closing(sqlite3.connect(tmp_path / "data/shop.db")) as writer:
        writer.execute("pragma journal_mode = wal")
        writer.execute("create table orders (id integer primary key, note text)")
        writer.execute("insert into orders values (1, 'shared word')")
        writer.commit()
        (tmp_path / "manifest-copy.txt").hardlink_to(tmp_path / "mcp-resources.yaml")
        (tmp_path / "notes/shop-copy.bin").hardlink_to(tmp_path / "data/shop.db")
        (tmp_path / "notes/link.db").symlink_to("../data/shop.db")
        assert (tmp_path / "data/shop.db-wal").exists()
        yield tmp_path


def serve(source: Path) -> Server:
    manifest = server_builder.load_manifest(str(source), allow_plugins=False)
    return server_builder.build_server(manifest, allow_plugins=False)


async def listed(server: Server, mount: str = "file:///all/") -> set[str]:
    page = await server.catalog.list()
    assert page.next_cursor is None
    uris = [entry.uri for entry in page.entries if entry.resource.type == "document"]
    return {uri.removeprefix(mount) for uri in uris if uri.startswith(mount)}


async def children(catalog: Catalog) -> list[str]:
    """Return the URIs of the documents in `data`, as a listing of it has them."""
    return [entry.uri for entry in (await catalog.list("file:///all/data")).entries]


async def walked(catalog: Catalog) -> list[str]:
    """Return the same of a listing of everything."""
    entries = (await catalog.list()).entries
    uris = [entry.uri for entry in entries if entry.resource.type == "document"]
    return [uri for uri in uris if uri.startswith("file:///all/data/")]


async def completed(catalog: Catalog) -> list[str]:
    """Return the same of the completion."""
    values = (await catalog.complete("file:///all/{+path}", "path", "data/")).values
    return [f"file:///all/{value}" for value in values]


async def found(catalog: Catalog) -> list[str]:
    """Return the same of a search by name."""
    hits = (await catalog.search("o", uri="file:///all/data", where="names")).hits
    return [hit.entry.uri for hit in hits]


@pytest.mark.guarantee("own-files-withheld")
async def test_the_manifest_and_its_databases_are_not_listed(folder: Path) -> None:
    server = serve(folder)
    async with server.catalog as catalog:
        assert await listed(server) == SHOWN
        assert await listed(server, "file:///inner/") == {"other.txt"}
        for name in ("data", "notes"):
            children = (await catalog.list(f"file:///all/{name}")).entries
            names = {f"{name}/{each.resource.name}" for each in children}
            assert names == {each for each in SHOWN if each.startswith(name)}


@pytest.mark.guarantee("own-files-withheld")
async def test_a_duckdb_database_is_not_listed_and_another_one_is(tmp_path: Path) -> None:
    for name in ("served.duckdb", "other.duckdb"):
        duckdb.connect(tmp_path / name).close()
    (tmp_path / "mcp-resources.yaml").write_text(
        "roots: {all: {path: .}}\ndatabases: {sales: {url: 'duckdb:///served.duckdb'}}\n"
    )
    server = serve(tmp_path)
    async with server:
        assert await listed(server) == {"other.duckdb"}


@pytest.mark.guarantee("own-files-withheld")
@pytest.mark.parametrize("query", ["", "?lines=1-2", "?bytes=0-9"])
async def test_the_manifest_and_its_databases_are_not_found(folder: Path, query: str) -> None:
    server = serve(folder)
    async with server.catalog as catalog:
        for name in WITHHELD:
            for uri in (f"file:///all/{name}", f"file:///inner/{name.removeprefix('data/')}"):
                with pytest.raises(ResourceNotFound):
                    await catalog.read(uri + query)
                with pytest.raises(ResourceNotFound):
                    await catalog.metadata(uri)
        for name in SHOWN:
            (item,) = (await catalog.read(f"file:///all/{name}")).items
            assert item.content is not None
            assert item.content.data == "shared word\n"


@pytest.mark.guarantee("own-files-withheld")
async def test_they_are_neither_completed_nor_found_by_a_search(folder: Path) -> None:
    async with serve(folder).catalog as catalog:
        template = "file:///all/{+path}"
        for typed in ("m", "data/", "notes/"):
            values = (await catalog.complete(template, "path", typed)).values
            assert WITHHELD.isdisjoint(values)
        assert "data/other.txt" in (await catalog.complete(template, "path", "data/")).values
        for text in ("shop", "manifest", "shared word", "SQLite format"):
            for uri in ("file:///all", "file:///all/data", "file:///all/notes"):
                hits = (await catalog.search(text, uri=uri)).hits
                found = {hit.entry.uri.removeprefix("file:///all/") for hit in hits}
                assert WITHHELD.isdisjoint(found)
        hits = (await catalog.search("shared word", uri="file:///all", where="text")).hits
        assert {hit.entry.uri.removeprefix("file:///all/") for hit in hits} == SHOWN


@pytest.mark.guarantee("own-files-withheld")
async def test_they_cannot_be_subscribed_to(folder: Path) -> None:
    server = serve(folder)
    async with server:
        wire = Wire(server, "2025-11-25")
        for name in WITHHELD:
            uri = f"file:///all/{name}"
            assert (await wire.error("resources/subscribe", {"uri": uri}))["code"] == -32002
        assert await wire.result("resources/subscribe", {"uri": "file:///all/README.md"}) == {}


async def test_check_reports_them_with_the_reason(folder: Path) -> None:
    async with serve(folder).catalog as catalog:
        mount = catalog.mounts[0]
        hidden = {"/".join(path): reason for path, reason in await mount.provider.hides(limit=99)}
        for name in WITHHELD - {"notes/link.db"}:
            of = "this root's manifest" if "manifest" in name or "mcp" in name else "databases.shop"
            assert of in hidden[name]
            assert "secrets: {allow" in hidden[name]
            path = tuple(name.split("/"))
            assert await mount.provider.explain(path) == hidden[name]


@pytest.mark.guarantee("own-files-withheld")
async def test_an_allowed_pattern_exposes_what_it_names_and_no_journal(folder: Path) -> None:
    allowing = "secrets: {allow: [/mcp-resources.yaml, shop.db, shop-copy.*]}}"
    text = MANIFEST.replace("symlinks: within-root}", f"symlinks: within-root, {allowing}")
    (folder / "mcp-resources.yaml").write_text(text)
    expected = {"mcp-resources.yaml", "data/shop.db", "notes/link.db", "notes/shop-copy.bin"}
    server = serve(folder)
    async with server.catalog as catalog:
        assert await listed(server) == SHOWN | expected
        (item,) = (await catalog.read("file:///all/mcp-resources.yaml")).items
        assert item.content is not None
        assert item.content.data == text
        for name in WITHHELD - expected:
            with pytest.raises(ResourceNotFound):
                await catalog.metadata(f"file:///all/{name}")


async def test_a_manifest_that_replaces_its_own_file_stays_hidden(folder: Path) -> None:
    server = serve(folder)
    async with server.catalog as catalog:
        assert await listed(server) == SHOWN
        new = folder / "draft.yaml"
        new.write_text(MANIFEST)
        os.link(new, folder / "notes/draft.yaml")
        assert await listed(server) == SHOWN | {"draft.yaml", "notes/draft.yaml"}
        new.replace(folder / "mcp-resources.yaml")
        # Its former content is any file now; the hard link elsewhere is the manifest.
        for name in ("mcp-resources.yaml", "notes/draft.yaml"):
            with pytest.raises(ResourceNotFound):
                await catalog.read(f"file:///all/{name}")
        assert await listed(server) == SHOWN | {"manifest-copy.txt"}


async def test_a_journal_is_hidden_from_its_first_moment(folder: Path) -> None:
    server = serve(folder)
    async with server.catalog as catalog:
        assert await listed(server) == SHOWN
        (folder / "data/shop.db-journal").write_text("rows")
        with pytest.raises(ResourceNotFound):
            await catalog.read("file:///all/data/shop.db-journal")
        assert await listed(server) == SHOWN


@pytest.mark.guarantee("own-files-withheld")
@pytest.mark.parametrize("names", [children, walked, completed, found])
async def test_a_journal_is_in_no_list_from_its_first_moment(
    folder: Path, names: Callable[[Catalog], Awaitable[list[str]]]
) -> None:
    journal = folder / "data/shop.db-journal"
    async with serve(folder).catalog as catalog:
        # A withheld file that has just changed would be looked at, and the journal with it.
        grow_old(folder)
        for _ in range(20):
            assert await names(catalog) == ["file:///all/data/other.txt"]
            journal.write_text("rows")
            assert await names(catalog) == ["file:///all/data/other.txt"]
            journal.unlink()


async def test_a_manifest_with_a_relative_path_is_hidden(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "data")
    server = serve(Path("../mcp-resources.yaml"))
    monkeypatch.chdir("/")
    async with server:
        assert await listed(server) == SHOWN


@pytest.mark.guarantee("own-files-withheld")
async def test_a_database_that_a_reload_adds_is_hidden_then(folder: Path) -> None:
    file = folder / "mcp-resources.yaml"
    file.write_text(MANIFEST.partition("databases:")[0])
    before = server_builder.load_manifest(str(folder), allow_plugins=False)
    server = server_builder.build_server(before, allow_plugins=False)
    async with server.catalog as catalog:
        assert "data/shop.db" in await listed(server)
        file.write_text(MANIFEST)
        after = server_builder.load_manifest(str(folder), allow_plugins=False)
        known = zip(before.mounts, catalog.mounts, strict=True)
        reloaded = server_builder.build_server(after, allow_plugins=False, known=known)
        async with reloaded:
            assert await listed(reloaded) == SHOWN


@pytest.mark.guarantee("own-files-withheld")
async def test_the_key_of_the_server_is_hidden(folder: Path) -> None:
    (folder / "notes/key.txt").write_text("0123456789abcdef" * 4)
    text = f"server: {{key: {{file: notes/key.txt}}}}\n{MANIFEST}"
    (folder / "mcp-resources.yaml").write_text(text)
    server = serve(folder)
    async with server.catalog as catalog:
        assert await listed(server) == SHOWN
        with pytest.raises(ResourceNotFound):
            await catalog.read("file:///all/notes/key.txt")


async def test_a_narrowed_root_withholds_them_too(folder: Path) -> None:
    root = Filesystem(folder)
    root.withhold({str(folder / "mcp-resources.yaml"): "the manifest"})
    names = [
        each.name for each in await settle(root.narrowed(frozenset()).list((), after=None, limit=9))
    ]
    assert "mcp-resources.yaml" not in names
    assert "README.md" in names
