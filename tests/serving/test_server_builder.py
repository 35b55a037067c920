"""Servers built from manifests, with plugins that cannot be loaded and mounts that are reused."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from resource_server.catalog.mount import Mount
from resource_server.manifest import Manifest, MountSpec
from resource_server.protocol.server import Server
from resource_server.serving.server_builder import build_server, claims_note, load_manifest
from tests.cli.conftest import (
    serve,
    with_plugin,
)


def test_an_unloadable_plugin_is_reported_and_the_others_serve(folder: Path) -> None:
    (with_plugin(folder) / "mine.py").write_text("import nothing_of_that_name\n", "utf-8")
    status, answers, errors = serve(folder)
    assert status == 0
    assert answers[1]["result"]["resources"][0]["uri"] == "file:///r"
    assert "mount mine is unavailable: " in errors
    assert "nothing_of_that_name" in errors
    assert errors.count("\n") == 1


def test_strict_refuses_an_unloadable_plugin(folder: Path) -> None:
    (with_plugin(folder) / "mine.py").write_text("import nothing_of_that_name\n", "utf-8")
    status, answers, errors = serve("--strict", folder)
    assert (status, answers) == (2, [])
    assert "providers.mine.use: " in errors


def manifest_of(folder: Path, text: str) -> Manifest:
    (folder / "mcp-resources.yaml").write_text(text, "utf-8")
    return load_manifest(str(folder), allow_plugins=True)


def known(manifest: Manifest, server: Server) -> list[tuple[MountSpec, Mount]]:
    return list(zip(manifest.mounts, server.catalog.mounts, strict=True))


def test_only_mounts_with_an_unchanged_specification_are_reused(folder: Path) -> None:
    before = manifest_of(folder, "roots: {same: {path: docs}, other: {path: docs}}")
    old = build_server(before, allow_plugins=True)
    after = manifest_of(folder, "roots: {other: {path: .}, same: {path: docs}, new: {path: docs}}")
    new = build_server(after, allow_plugins=True, known=known(before, old))
    assert [mount.name for mount in new.catalog.mounts] == ["other", "same", "new"]
    reused = set(old.catalog.mounts) & set(new.catalog.mounts)
    assert [mount.name for mount in reused] == ["same"]


def test_a_provider_that_could_not_be_made_is_made_again(folder: Path) -> None:
    manifest = manifest_of(folder, "providers: {mine: {use: mine.py}}")
    old = build_server(manifest, allow_plugins=True)
    new = build_server(manifest, allow_plugins=True, known=known(manifest, old))
    assert set(old.catalog.mounts).isdisjoint(new.catalog.mounts)


@pytest.mark.anyio
async def test_a_refused_plugin_fails_only_its_mount(folder: Path) -> None:
    (folder / "mine.py").write_text("raise SystemExit", "utf-8")
    text = "roots: {r: {path: docs}}\nproviders: {mine: {use: mine.py}}\n"
    server = build_server(manifest_of(folder, text), allow_plugins=False)
    async with server.catalog as catalog:
        await catalog.start()
        problems = {mount.name: mount.problem for mount in catalog.mounts}
    assert problems["r"] is None
    assert "plugins are not allowed" in (problems["mine"] or "")


MASKED = (
    "databases: {shop: {url: sqlite:///shop.db, tables: {people: {columns: {mask: {mail: hash}}}}}}"
)
MASKED_ROW = "sqlite://shop/people/1"


def masked_folder(folder: Path, server: str) -> str:
    """Write a manifest that masks a column, with a database; return its path."""
    with closing(sqlite3.connect(folder / "shop.db")) as connection, connection:
        connection.execute("create table if not exists people (id integer primary key, mail)")
        connection.execute("insert or ignore into people values (1, 'ann@example.org')")
    file = folder / "mcp-resources.yaml"
    file.write_text(f"version: 1\n{server}{MASKED}\n")
    return str(file)


def in_new_process(*arguments: str) -> str:
    """Return what a command prints."""
    command = [sys.executable, "-m", "resource_server", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.anyio
async def test_the_key_of_the_server_decides_the_hashes_of_a_database(tmp_path: Path) -> None:
    async def row(key: str = "") -> object:
        keyed = masked_folder(tmp_path, f"server: {{key: {key}}}\n" if key else "")
        manifest = load_manifest(keyed, allow_plugins=True)
        async with build_server(manifest, allow_plugins=True).catalog as catalog:
            (item,) = (await catalog.read(MASKED_ROW)).items
            assert item.content is not None
            return item.content.data

    one, other = "0123456789abcdef" * 2, "fedcba9876543210" * 2
    assert "ann@" not in str(await row(one))
    assert await row(one) == await row(one)
    assert len({await row(one), await row(other), await row()}) == 3


@pytest.mark.deep
def test_hashes_are_the_same_in_every_process_with_the_key(tmp_path: Path) -> None:
    keyed = masked_folder(tmp_path, f"server: {{key: {'0123456789abcdef' * 2}}}\n")
    assert "ann@" not in in_new_process("read", keyed, MASKED_ROW)
    assert in_new_process("read", keyed, MASKED_ROW) == in_new_process("read", keyed, MASKED_ROW)
    assert "server.key" not in in_new_process("check", keyed)
    unkeyed = masked_folder(tmp_path, "")
    assert in_new_process("read", unkeyed, MASKED_ROW) != in_new_process(
        "read", unkeyed, MASKED_ROW
    )
    assert "give other values after every start" in in_new_process("check", unkeyed)


def test_claims_of_several_issuers_without_the_issuer_are_a_mistake(folder: Path) -> None:
    both = "http: {auth: {issuer: [https://a.example.org, https://b.example.org], audience: https://c}}"
    manifest = manifest_of(folder, f"roots: {{docs: {{path: docs}}}}\n{both}")
    note = claims_note(manifest, {"sub"})
    assert note is not None
    assert "sub may be equal for callers of two" in note
    assert [claims_note(manifest, claims) for claims in ((), ("iss", "sub"), ("",))] == [None] * 3
    one = manifest_of(
        folder, f"roots: {{docs: {{path: docs}}}}\n{both.replace(', https://b.example.org', '')}"
    )
    assert claims_note(one, {"sub"}) is None
