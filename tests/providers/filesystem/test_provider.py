from __future__ import annotations

import inspect
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest

from resource_server.errors import (
    InvalidParameter,
    MountUnavailable,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import (
    Annotations,
    SupportsCheck,
    SupportsComplete,
    SupportsLevels,
)
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import (
    DirectoryOptions,
)
from resource_server.runtime.eager import settle
from tests.providers.filesystem.trees import (
    SHOWN,
    TREE,
    address,
    all_listed,
    body,
    children,
    from_manifest,
    is_absent,
    names,
    plant,
    walk,
)
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return plant(tmp_path / "root", TREE)


def test_the_provider_has_every_ability_it_claims(root: Path) -> None:
    provider = Filesystem(path=root)
    assert isinstance(provider, SupportsLevels)
    assert isinstance(provider, SupportsComplete)
    assert isinstance(provider, SupportsCheck)


async def test_metadata_equals_the_entry_of_a_listing(root: Path) -> None:
    provider = Filesystem(path=root)
    for entry in await all_listed(provider):
        assert provider.metadata(entry.path) == entry


def test_documents_and_collections_have_their_metadata(root: Path) -> None:
    os.utime(root / "README.md", ns=(0, 1_700_000_000_123_000_000))
    document = Filesystem(path=root).metadata(("README.md",))
    assert (document.type, document.mime_type, document.size) == ("document", "text/markdown", 18)
    assert document.last_modified == pytest.approx(1_700_000_000.123, abs=0.000_5)
    collection = Filesystem(path=root).metadata(())
    assert (collection.name, collection.type) == ("root", "collection")
    assert (collection.mime_type, collection.size) == ("inode/directory", None)


def test_the_version_changes_with_the_file(root: Path) -> None:
    provider = Filesystem(path=root)
    before = provider.metadata(("a.txt",))
    assert provider.metadata(("a.txt",)) == before
    (root / "a.txt").write_text("longer than before, and another body")
    after = provider.metadata(("a.txt",))
    assert after.version != before.version
    assert after.size == 36


@pytest.mark.guarantee("hidden-does-not-exist")
@pytest.mark.parametrize("name", [".env", "private.key", ".hidden"])
def test_nothing_reveals_when_hidden_entries_come_or_go(root: Path, name: str) -> None:
    provider = Filesystem(path=root)
    before = provider.metadata(("src",))
    (root / "src" / name).touch()
    assert provider.metadata(("src",)) == before
    (root / "src" / name).unlink()
    assert provider.metadata(("src",)) == before


async def test_a_file_is_read_in_full_and_in_part(root: Path) -> None:
    provider = Filesystem(path=root)
    assert await body(provider, "a/x.txt") == "body of a/x.txt\n"
    assert await body(provider, "a/x.txt", bytes="8-8") == "a"


async def test_a_small_file_in_the_page_cache_is_read_synchronously(root: Path) -> None:
    provider = Filesystem(path=root)
    await body(provider, "a.txt")
    assert not inspect.isawaitable(provider.read(("a.txt",), {}))


async def test_a_new_ignore_rule_is_soon_obeyed_by_reads(root: Path) -> None:
    provider = Filesystem(path=root)
    assert await body(provider, "a/x.txt") == "body of a/x.txt\n"
    (root / ".gitignore").write_text("x.txt\n")
    with pytest.raises(ResourceNotFound):
        provider.metadata(address("a/x.txt"))
    deadline = time.monotonic() + PATIENCE_S
    with suppress(ResourceNotFound):
        while await body(provider, "a/x.txt"):
            assert time.monotonic() < deadline


async def test_a_collection_cannot_be_read(root: Path) -> None:
    for symlinks in ("deny", "within-root"):
        for path in ("", "a", "a/b"):
            with pytest.raises(ResourceNotFound):
                await body(Filesystem(path=root, symlinks=symlinks), path)


async def test_a_large_file_is_read_off_the_loop(root: Path) -> None:
    (root / "a.txt").write_text("x" * 600_000)
    found = Filesystem(path=root).read(("a.txt",), {})
    assert inspect.isawaitable(found)
    [content] = await found
    assert len(content.data) == 600_000


async def test_a_file_over_the_limit_is_readable_only_in_ranges(root: Path) -> None:
    provider = from_manifest(root, {"max_size": "10B"})
    with pytest.raises(ResourceTooLarge):
        await body(provider, "a.txt")
    assert await body(provider, "a.txt", bytes="0-3") == "body"


@pytest.mark.guarantee("hidden-does-not-exist")
@pytest.mark.parametrize(
    ("hidden", "legitimate"),
    [
        ("src/build", "src/deep"),
        ("src/build/out.o", "src/deep/er/file.md"),
        (".hidden", "a"),
        (".hidden/x", "a/x.txt"),
        ("server.pem", "README.md"),
        ("src/.gitignore", "src/main.py"),
        ("scratch/x", "a/x.txt"),
        ("missing", "empty"),
        ("a.txt/x", "a.txt"),
    ],
)
async def test_hidden_files_cannot_be_reached_by_guessing(
    root: Path, hidden: str, legitimate: str
) -> None:
    plant(root, ["scratch/x"])
    provider = Filesystem(path=root, directories={"scratch": DirectoryOptions(exposed=False)})
    assert await is_absent(provider, hidden)
    assert not await is_absent(provider, legitimate)


async def test_an_unlisted_directory_is_a_child_but_in_no_level(root: Path) -> None:
    provider = Filesystem(path=root, directories={"a": DirectoryOptions(listed=False)})
    assert await walk(provider) == [name for name in SHOWN if name.split("/")[0] != "a"]
    page = await settle(provider.level(2, "document", after=address("a/x.txt"), limit=1))
    assert names(page) == ["a-b/z.txt"]
    assert await children(provider, "a") == ["a/b", "a/x.txt"]
    assert not provider.metadata(("a",)).listed
    assert await body(provider, "a/x.txt") == "body of a/x.txt\n"


async def test_an_unreadable_directory_is_listed_and_never_read(root: Path) -> None:
    provider = Filesystem(path=root, directories={"a": DirectoryOptions(readable=False)})
    assert await walk(provider) == SHOWN
    assert provider.metadata(address("a/b/y.txt")).size == 18
    with pytest.raises(ResourceNotFound):
        await body(provider, "a/b/y.txt")
    assert await settle(provider.complete("path", "a/", given={})) == []
    assert "a/" not in await settle(provider.complete("path", "", given={}))
    assert await body(provider, "a-b/z.txt") == "body of a-b/z.txt\n"


def test_directories_have_their_descriptions_and_pass_on_annotations(root: Path) -> None:
    provider = Filesystem(
        path=root,
        directories={
            "src": DirectoryOptions(title="Source", annotations=Annotations(("assistant",), 0.9)),
            "src/deep": DirectoryOptions(annotations=Annotations(priority=0.1)),
        },
    )
    assert provider.metadata(("src",)).title == "Source"
    file = provider.metadata(address("src/deep/er/file.md"))
    assert (file.title, file.annotations) == (None, Annotations(("assistant",), 0.1))
    assert provider.metadata(("a",)).annotations is None


@pytest.mark.parametrize("name", ["server.pem", "nowhere", "a.txt"])
async def test_an_invalid_range_is_refused_before_the_document_is_looked_up(
    root: Path, name: str
) -> None:
    with pytest.raises(InvalidParameter):
        await settle(Filesystem(path=root).fetch((name,), {"lines": "0"}))


async def test_a_missing_folder_is_unavailable_until_it_exists(tmp_path: Path) -> None:
    provider = Filesystem(path=tmp_path / "root")
    with pytest.raises(MountUnavailable, match="does not exist"):
        await provider.__aenter__()
    plant(tmp_path / "root", ["a"])
    async with provider:
        assert await walk(provider) == ["a"]


async def test_a_file_instead_of_a_folder_is_unavailable(root: Path) -> None:
    with pytest.raises(MountUnavailable, match="not a folder"):
        await Filesystem(path=root / "a.txt").__aenter__()


async def test_a_folder_that_is_removed_and_replaced_is_served_again(root: Path) -> None:
    provider = Filesystem(path=root)
    async with provider:
        assert await walk(provider) == SHOWN
        shutil.move(root, root.with_name("gone"))
        for attempt in (walk(provider), body(provider, "a.txt"), children(provider)):
            with pytest.raises(ResourceNotFound):
                await attempt
        plant(root, ["new.txt"])
        assert await walk(provider) == ["new.txt"]
        assert await body(provider, "new.txt") == "body of new.txt\n"
        assert await is_absent(provider, "a.txt")


async def test_metadata_and_content_of_a_fetch_come_from_one_open_file(root: Path) -> None:
    provider = Filesystem(path=root)
    resource, [content] = await settle(provider.fetch(("a.txt",), {}))
    assert resource == await settle(provider.metadata(("a.txt",)))
    assert [content] == list(await settle(provider.read(("a.txt",), {})))


async def test_a_fetched_directory_has_no_content(root: Path) -> None:
    provider = Filesystem(path=root)
    assert await settle(provider.fetch(("src",), {"lines": "1-2"})) == (
        provider.metadata(("src",)),
        (),
    )


@pytest.mark.guarantee("hidden-does-not-exist")
@pytest.mark.parametrize("path", [(".env",), ("gone",), ("a.txt", "below")])
async def test_hidden_and_missing_files_are_not_fetched(root: Path, path: tuple[str, ...]) -> None:
    (root / ".env").write_text("TOKEN=fake")
    with pytest.raises(ResourceNotFound):
        await settle(Filesystem(path=root).fetch(path, {}))


async def test_an_mpeg_stream_named_ts_is_no_typescript(tmp_path: Path) -> None:
    packet = b"G\x1f\xff\x10" + b"\xff" * 184
    (tmp_path / "film.ts").write_bytes(packet * 50)
    (tmp_path / "timed.ts").write_bytes((bytes(4) + packet) * 50)
    (tmp_path / "code.ts").write_text("// Guess\n" + "g" * (188 - 9))
    (tmp_path / "G.ts").write_text("G" * 188 * 3)
    (tmp_path / "torn.ts").write_bytes(packet * 3 + b"G")
    (tmp_path / "empty.ts").write_text("")
    folder = Filesystem(tmp_path)
    listed = await settle(folder.list((), after=None, limit=10))
    types = {each.name: each.mime_type for each in listed}
    streams = dict.fromkeys(("film.ts", "timed.ts"), "video/mp2t")
    others = dict.fromkeys(("torn.ts", "code.ts", "G.ts", "empty.ts"), "text/x-typescript")
    assert types == streams | others
    assert [folder.metadata((name,)).mime_type for name in types] == list(types.values())
    (torn,) = await settle(folder.read(("torn.ts",), {}))
    assert torn.mime_type == "video/mp2t"  # a read sees what the name and the size do not tell
