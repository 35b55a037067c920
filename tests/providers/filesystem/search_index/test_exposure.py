from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from resource_server.access import Access
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import DirectoryOptions
from tests.cases import for_each
from tests.providers.filesystem.search_index.oracle import (
    FAST,
    both,
    found,
    until_current,
    words,
)
from tests.providers.filesystem.trees import plant
from tests.waiting import grow_old

pytestmark = pytest.mark.anyio

NEEDLE = words("needle")


def write(root: Path, name: str, text: str = "a needle\n") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def ready(indexed: Filesystem, scanned: Filesystem) -> None:
    """Wait for the index, and search once more, so that all that can be known is."""
    await until_current(indexed)
    for _ in range(2):
        await found((indexed, scanned), NEEDLE)


@for_each(
    "name, before, after",
    [
        (".gitignore", "", "hidden.txt\n"),
        ("src/.gitignore", "", "*.txt\n"),
        ("src/.ignore", "", "*.txt\n"),
        (".mcpignore", "", "src/\n"),
        (".git/info/exclude", "", "hidden.txt\n"),
        (".git/info/exclude", None, "hidden.txt\n"),
    ],
)
async def test_what_an_ignore_file_hides_is_never_found_or_counted_again(
    tmp_path: Path, name: str, before: str | None, after: str
) -> None:
    root = tmp_path / f"{name.replace('/', '_')}{before is None}"
    write(root, "src/hidden.txt")
    write(root, "shown.txt")
    write(root, "src/b.md", "hay")
    (root / ".git" / "info").mkdir(parents=True)
    if before is not None:
        write(root, name, before)
    grow_old(root)
    async with both(root, tmp_path / "cache") as folders:
        await ready(*folders)
        assert await found(folders, NEEDLE) == ["shown.txt", "src/hidden.txt"]
        write(root, name, after)
        assert await found(folders, NEEDLE) == ["shown.txt"]
        await ready(*folders)
        write(root, name, before or "")
        assert await found(folders, NEEDLE) == ["shown.txt", "src/hidden.txt"]


async def test_an_ignore_file_that_is_written_by_another_name_of_it_counts_at_once(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    write(root, "src/hidden.txt")
    write(root, "src/.gitignore", "")
    os.link(root / "src" / ".gitignore", tmp_path / "elsewhere")
    grow_old(root)
    async with both(root, tmp_path / "cache") as folders:
        await ready(*folders)
        (tmp_path / "elsewhere").write_text("hidden.txt\n")
        assert not await found(folders, NEEDLE)


@for_each("include", [("**/*.md",), ("docs/**/*.md", "other/*.md")])
async def test_a_document_is_found_in_a_directory_that_had_nothing_to_include(
    tmp_path: Path, include: tuple[str, ...]
) -> None:
    root = tmp_path / str(len(include))
    write(root, "docs/deep/a.txt")
    write(root, "docs/a.md", "hay")
    grow_old(root)
    async with both(root, tmp_path / "cache", include=include) as folders:
        await ready(*folders)
        assert not await found(folders, NEEDLE)
        write(root, "docs/deep/new.md")
        assert await found(folders, NEEDLE) == ["docs/deep/new.md"]


async def test_a_link_that_begins_or_ceases_to_lead_to_a_document_counts_at_once(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    for version in ("..v1", "..v2"):
        write(root, f"{version}/b.txt", f"a needle of {version}")
    (root / "..data").symlink_to("..v1")
    (root / "a.txt").symlink_to("..data/a.txt")
    (root / "b.txt").symlink_to("..data/b.txt")
    (root / "d").symlink_to("..v2")
    grow_old(root)
    async with both(root, tmp_path / "cache", symlinks="within-root") as folders:
        await ready(*folders)
        assert await found(folders, NEEDLE) == ["b.txt", "d/b.txt"]
        write(root, "..v1/a.txt")
        assert await found(folders, NEEDLE) == ["a.txt", "b.txt", "d/b.txt"]
        await ready(*folders)
        write(root, "..v2/.gitignore", "b.txt\n")
        assert await found(folders, NEEDLE) == ["a.txt", "b.txt"]
        await ready(*folders)
        (root / "..new").symlink_to("..v2")
        (root / "..new").rename(root / "..data")
        assert not await found(folders, NEEDLE)


async def test_a_view_finds_what_its_scopes_show_whatever_the_index_has(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", ())
    write(root, "open/a.txt")
    write(root, "closed/b.txt")
    write(root, "zz.txt")
    options = {"closed": DirectoryOptions(access=Access(scopes=("staff",)))}
    grow_old(root)
    async with both(root, tmp_path / "cache", directories=options) as (indexed, scanned):
        await ready(indexed, scanned)
        for scopes, expected in (
            (frozenset[str](), ["open/a.txt", "zz.txt"]),
            (frozenset({"staff"}), ["closed/b.txt", "open/a.txt", "zz.txt"]),
        ):
            views = indexed.narrowed(scopes), scanned.narrowed(scopes)
            async with views[0], views[1]:
                for text in ("a needle\n", "no hay\n", "a needle\n"):
                    write(root, "closed/b.txt", text)
                    write(root, "closed/new.txt", text)
                    shown = await found(views, NEEDLE)
                    assert [each for each in shown if "new" not in each] == [
                        each for each in expected if "needle" in text or "b.txt" not in each
                    ]
                    await ready(indexed, scanned)
                    assert await found(views, NEEDLE) == shown


_BEFORE_AND_AFTER: list[tuple[Mapping[str, object], Mapping[str, object]]] = [
    ({}, {"exclude": ("*.txt",)}),
    ({"exclude": ("*.txt",)}, {}),
    ({"hidden": True}, {}),
    ({}, {"hidden": True}),
    ({"gitignore": False}, {}),
    ({}, {"symlinks": "within-root"}),
    ({"encoding": "cp1252"}, {}),
    ({}, {"encoding": "cp1252"}),
    ({}, {"encoding": "utf-16"}),
    ({}, {"max_size": 10}),
    ({"max_size": 10}, {}),
    ({}, {"types": {"*.bin": "text/plain", "*.txt": "image/png"}}),
    ({"types": {"*.bin": "text/plain", "*.txt": "image/png"}}, {}),
    ({}, {"convert": "auto"}),
    ({}, {"directories": {"src": DirectoryOptions(readable=False)}}),
    ({"directories": {"src": DirectoryOptions(readable=False)}}, {}),
    ({}, {"directories": {"src": DirectoryOptions(listed=False)}}),
    ({}, {"directories": {"src": DirectoryOptions(exposed=False)}}),
    ({}, {"directories": {"src": DirectoryOptions(encoding="cp1252", hidden=True)}}),
]


@for_each("before, after", _BEFORE_AND_AFTER)
async def test_a_manifest_that_changes_between_starts_has_the_answers_of_a_scan(
    tmp_path: Path, before: Mapping[str, object], after: Mapping[str, object]
) -> None:
    root = tmp_path / "root"
    if not root.exists():
        plant_of_each_kind(root)
    async with Filesystem(root, index=True, cache=tmp_path / "cache", **before) as folder:  # pyright: ignore[reportArgumentType]
        folder.timing = FAST
        await until_current(folder)
    async with both(root, tmp_path / "cache", **after) as folders:
        await found(folders, words("zzz"))
        await until_current(folders[0])
        for text in ("needle", "café", "zzz"):
            await found(folders, words(text))


def plant_of_each_kind(root: Path) -> None:
    contents: dict[str, Callable[[str], bytes]] = {
        "a.txt": str.encode,
        "b.bin": lambda text: text.encode() + b"\0",
        ".hidden.txt": str.encode,
        "latin.txt": lambda text: text.encode("cp1252"),
        "wide.txt": lambda text: text.encode("utf-16"),
        "wide.csv": lambda text: text.encode("utf-16-le"),
        "marked.txt": lambda text: text.encode("utf-8-sig"),
        "long.txt": lambda text: text.encode() + b"hay\n" * 20_000,
        "ignored.log": str.encode,
    }
    for folder in (root, root / "src"):
        folder.mkdir(parents=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content("a needle in a café, ñandú\r\n"))
    (root / ".gitignore").write_text("*.log\n")
    (root / "link.txt").symlink_to("src/a.txt")
    grow_old(root)
