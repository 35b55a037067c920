"""Several sources as one manifest: names, clashes, and files that no folder serves."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import ManifestError
from resource_server.manifest import Manifest, MountSpec
from resource_server.manifest.several_sources import NamedSource, joined
from resource_server.providers.filesystem import Filesystem
from resource_server.serving.server_builder import build_server, load_manifest


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with sources of equal names."""
    for name in ("app/docs", "lib/docs", "notes", "a b", "-o 'x' \"y\"", "日本", "中国"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("app/shop.db", "lib/shop.db"):
        with closing(sqlite3.connect(tmp_path / name)) as database, database:
            database.execute("create table orders (id integer primary key)")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def manifest(folder: Path, text: str, name: str = "mcp-resources.yaml") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return str(folder / name)


def load(*named: str) -> Manifest:
    return load_manifest(*named, allow_plugins=False)


def bases(*named: str) -> list[str]:
    return [spec.base for spec in load(*named).mounts]


def problems(*named: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        load(*named)
    return [str(each) for each in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (["app/docs"], ["file:///docs/"]),
        (["notes", "app/docs"], ["file:///notes/", "file:///docs/"]),
        (["app/docs", "lib/docs"], ["file:///app-docs/", "file:///lib-docs/"]),
        (["app/shop.db", "lib/shop.db"], ["sqlite://app-shop/", "sqlite://lib-shop/"]),
        (["app/docs", "app/shop.db"], ["file:///docs/", "sqlite://shop/"]),
        (["a b", "-o 'x' \"y\""], ["file:///a-b/", "file:///o-x-y/"]),
        (["日本", "中国"], ["file:///root/", "file:///root-2/"]),
        (
            ["postgresql+asyncpg://a/shop", "postgresql+asyncpg://b/shop"],
            ["postgresql://shop/", "postgresql://shop-2/"],
        ),
    ],
)
def test_sources_are_named_after_as_many_segments_as_make_them_unique(
    top: Path, named: list[str], expected: list[str]
) -> None:
    found = load(*named).mounts
    assert [spec.base for spec in found] == expected
    assert len({spec.name for spec in found}) == len(named)


def test_only_names_that_clash_are_longer_and_people_see_the_path(top: Path) -> None:
    (top / "deep/app/docs").mkdir(parents=True)
    found = load("notes", "app/docs", "lib/docs", "deep/app/docs").mounts
    assert [spec.title for spec in found] == [
        None,
        f"{top.name}/app/docs",
        "lib/docs",
        "deep/app/docs",
    ]


def test_a_source_named_twice_counts_once(top: Path) -> None:
    (top / "link").symlink_to("notes")
    manifest(top / "m", "roots: {r: {path: .}}")
    shop = f"sqlite:///{top}/app/shop.db"
    named = ["notes", "./notes", "link", "m", "m/mcp-resources.yaml", "app/shop.db", shop]
    assert bases(*named) == ["file:///notes/", "file:///r/", "sqlite://shop/"]
    assert load("notes", "notes") == load("notes")


def test_a_manifest_keeps_its_uris_and_gives_its_options(top: Path) -> None:
    text = "server: {title: Acme}\nroots: {docs: {path: .}}\nprompts: {p: {messages: [{text: a}]}}"
    found = load("app/docs", manifest(top / "m", text), "notes")
    assert [spec.base for spec in found.mounts] == [
        "file:///app-docs/",
        "file:///docs/",
        "file:///notes/",
    ]
    assert (found.server.title, list(found.prompts)) == ("Acme", ["p"])


def test_mounts_of_equal_names_and_other_uris_are_both_served(top: Path) -> None:
    first = manifest(top / "m", "roots: {docs: {path: .}}")
    second = manifest(top / "n", "roots: {docs: {path: ., uri: 'docs://n/'}}")
    found = load(first, second).mounts
    assert [(spec.name, spec.base) for spec in found] == [
        ("docs", "file:///docs/"),
        ("docs-2", "docs://n/"),
    ]


def test_a_clash_names_both_sources(top: Path) -> None:
    text = "roots: {docs: {path: .}}\nprompts: {p: {messages: [{text: a}]}}\n"
    first = manifest(top / "m", text)
    second = manifest(top / "n", text + "server: {title: Other}\nhttp: {url: 'https://a/mcp'}\n")
    third = manifest(top / "o", "roots: {o: {path: .}}\nserver: {title: Third}")
    assert problems(first, second) == [
        f"{second}: {first} already has the base URI file:///docs/; give one of them another 'uri'",
        f"{second}: {first} already has the prompt 'p'",
    ]
    assert problems(third, "notes", second) == [
        f"{second}: 'server' holds for the whole server, and {third} has others; keep one of them"
    ]


def test_a_password_in_a_source_is_in_no_problem(top: Path) -> None:
    text = "databases: {shop: {url: 'postgresql://h/shop'}}"
    first, second = manifest(top / "m", text), manifest(top / "n", text)
    found = problems("postgresql://me:s3cret@h/other", first, second)
    assert len(found) == 1
    assert "s3cret" not in found[0]


def test_problems_are_at_their_place_in_their_own_manifest(top: Path) -> None:
    first = manifest(top / "m", "\nproviders: {p: {use: p.py, size: x}}")
    second = manifest(top / "n", "providers: {q: {use: q.py}}")
    found = load(first, second)
    providers = dict(
        zip("pq", build_server(found, allow_plugins=False).catalog.mounts, strict=True)
    )
    assert {spec.name: spec.origin.directory.name for spec in found.mounts if spec.origin} == {
        "p": "m",
        "q": "n",
    }
    assert list(providers) == ["p", "q"]


def served_files(*named: str) -> set[str]:
    """Return the names of the documents that the folders of these sources serve."""
    import asyncio

    async def listed() -> set[str]:
        async with build_server(load(*named), allow_plugins=False) as server:
            entries = (await server.catalog.list()).entries
            return {each.uri for each in entries if each.resource.type == "document"}

    return {uri.removeprefix("file:///") for uri in asyncio.run(listed()) if "file:" in uri}


def test_no_folder_serves_the_manifests_and_databases_of_other_sources(top: Path) -> None:
    (top / "app/notes.txt").write_text("x", "utf-8")
    other = manifest(top / "app", "databases: {s: {url: 'sqlite:///../lib/shop.db'}}", "m.yaml")
    folders = manifest(top / "n", "roots: {r: {path: ../lib}}")
    assert served_files("app") == {"app/notes.txt", "app/shop.db", "app/m.yaml"}
    assert served_files("app", "app/shop.db") == {"app/notes.txt", "app/m.yaml"}
    assert served_files("app", other) == {"app/notes.txt", "app/shop.db"}
    assert served_files(folders) == {"r/shop.db"}
    assert served_files(folders, other) == set()


_letters = st.characters(exclude_categories=["Cs"], exclude_characters="/\0")
_folder_names = st.text(_letters, max_size=4)


@given(st.lists(_folder_names, min_size=1, max_size=8))
def test_every_source_has_a_uri_of_its_own(names: list[str]) -> None:
    parts: list[NamedSource] = []
    for at, name in enumerate(names):
        folder = Path(os.sep, "top", f"{at % 3}", f"x{at}", name or "x")
        slug = "docs" if at % 2 else name.encode("ascii", "ignore").decode().strip() or "root"
        spec = MountSpec(
            name=slug, base=f"file:///{slug}/", use=Filesystem(folder), path=("roots", slug)
        )
        parts.append(NamedSource(str(at), Manifest(file=None, directory=folder, mounts=(spec,))))
    mounts = joined(parts).mounts
    assert len({spec.base for spec in mounts}) == len({spec.name for spec in mounts}) == len(mounts)
