from __future__ import annotations

import asyncio
import inspect
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from resource_server import plugins
from resource_server.errors import (
    InvalidParameter,
    ManifestError,
    MountUnavailable,
    NotACollection,
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.manifest.load import load
from resource_server.provider import (
    Annotations,
    Content,
    Resource,
    SupportsComplete,
    SupportsExplain,
    SupportsWalk,
)
from resource_server.provider import Path as Address
from resource_server.providers.filesystem import Filesystem, content, file_tree
from resource_server.providers.filesystem.directory import DirectoryCache
from resource_server.providers.filesystem.options import (
    DirectoryOptions,
    Secrets,
)
from resource_server.providers.filesystem.root import Root
from resource_server.runtime.eager import settle
from tests.providers.filesystem.watch.descriptors import few_descriptors

pytestmark = pytest.mark.anyio


def from_manifest(root: Path, options: Mapping[str, object]) -> Filesystem:
    """Return the provider of a root with these options, as a manifest makes it."""
    file = root.parent / "mcp-resources.yaml"
    file.write_text(json.dumps({"roots": {"r": {"path": str(root), **options}}}))
    manifest = plugins.find_with_plugins(str(file))
    provider = plugins.load_provider(manifest.mounts[0], manifest)
    assert isinstance(provider, Filesystem)
    return provider


TREE = (
    "README.md",
    "a.txt",
    "a/x.txt",
    "a/b/y.txt",
    "a-b/z.txt",
    "empty/",
    "src/main.py",
    "src/build/out.o",
    "src/.gitignore",
    "src/deep/er/file.md",
    ".hidden/x",
    "server.pem",
)
SHOWN = [
    "README.md",
    "a",
    "a/b",
    "a/b/y.txt",
    "a/x.txt",
    "a-b",
    "a-b/z.txt",
    "a.txt",
    "empty",
    "src",
    "src/deep",
    "src/deep/er",
    "src/deep/er/file.md",
    "src/main.py",
]


def plant(root: Path, names: Iterable[str]) -> Path:
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("build\n" if name.endswith(".gitignore") else f"body of {name}\n")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return plant(tmp_path / "root", TREE)


def address(path: str) -> Address:
    return tuple(path.split("/")) if path else ()


def names(resources: Sequence[Resource]) -> list[str]:
    return ["/".join(entry.path) for entry in resources]


async def walk(provider: Filesystem, limit: int = 100) -> list[str]:
    """Return all that is listed, fetched in pages."""
    found: list[str] = []
    after: Address | None = None
    while True:
        page = await settle(provider.walk(after=after, limit=limit))
        found += names(page)
        if len(page) < limit:
            return found
        after = page[-1].path


async def children(provider: Filesystem, parent: str = "", limit: int = 100_000) -> list[str]:
    return names(await settle(provider.list(address(parent), after=None, limit=limit)))


async def body(provider: Filesystem, path: str, **query: str) -> str | bytes:
    [content] = await settle(provider.read(address(path), query))
    return content.data


async def is_absent(provider: Filesystem, path: str) -> bool:
    """Say whether every way to a path ends in the same answer as for one that never was."""
    for attempt in (
        lambda: provider.metadata(address(path)),
        lambda: provider.read(address(path), {}),
        lambda: provider.list(address(path), after=None, limit=10),
    ):
        try:
            await settle(attempt())
        except ResourceNotFound:
            continue
        return False
    typed = path.rpartition("/")[0]
    offered = await settle(provider.complete("path", f"{typed}/" if typed else "", given={}))
    return path not in offered and f"{path}/" not in offered


def test_the_provider_has_every_ability_it_claims(root: Path) -> None:
    provider = Filesystem(path=root)
    assert isinstance(provider, SupportsWalk)
    assert isinstance(provider, SupportsComplete)
    assert isinstance(provider, SupportsExplain)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 14, 100])
async def test_the_walk_is_depth_first_by_name_whatever_the_page(root: Path, limit: int) -> None:
    assert await walk(Filesystem(path=root), limit) == SHOWN


async def test_a_walk_gives_what_lists_give(root: Path) -> None:
    provider = Filesystem(path=root)

    async def below(parent: str) -> list[str]:
        found: list[str] = []
        for name in await children(provider, parent):
            found.append(name)
            if provider.metadata(address(name)).type == "collection":
                found += await below(name)
        return found

    assert await below("") == SHOWN


async def test_a_list_in_pages_is_the_list(root: Path) -> None:
    provider = Filesystem(path=root)
    found: list[str] = []
    after: Address | None = None
    while page := await settle(provider.list((), after=after, limit=1)):
        found += names(page)
        after = page[-1].path
    assert found == ["README.md", "a", "a-b", "a.txt", "empty", "src"]


async def test_a_list_goes_on_after_a_name_that_has_vanished(root: Path) -> None:
    provider = Filesystem(path=root)
    (root / "a.txt").unlink()
    page = await settle(provider.list((), after=("a.txt",), limit=2))
    assert names(page) == ["empty", "src"]


async def test_a_walk_goes_on_at_the_place_of_what_has_vanished(root: Path) -> None:
    provider = Filesystem(path=root)
    for after, expected in (
        ("a/b/zzz", "a/x.txt"),
        ("a/bb/c/d", "a/x.txt"),
        ("a.txt/was/a/directory", "empty"),
        ("zzz", None),
        ("A", "README.md"),
        ("src/build/out.o", "src/deep"),
        ("\udcff", None),
    ):
        page = await settle(provider.walk(after=address(after), limit=1))
        assert names(page) == ([expected] if expected else [])


async def test_a_file_that_becomes_a_directory_between_pages_is_walked(root: Path) -> None:
    provider = Filesystem(path=root)
    assert (await walk(provider))[-1] == "src/main.py"
    (root / "src/main.py").unlink()
    plant(root, ["src/main.py/inner.txt"])
    page = await settle(provider.walk(after=address("src/deep/er/file.md"), limit=9))
    assert names(page) == ["src/main.py", "src/main.py/inner.txt"]
    assert [entry.type for entry in page] == ["collection", "document"]


async def test_metadata_equals_the_entry_of_a_listing(root: Path) -> None:
    provider = Filesystem(path=root)
    for entry in await settle(provider.walk(after=None, limit=100)):
        assert provider.metadata(entry.path) == entry


def test_a_document_and_a_collection_say_what_is_known(root: Path) -> None:
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


@pytest.mark.parametrize("name", [".env", "private.key", ".hidden"])
def test_nothing_tells_when_something_hidden_comes_or_goes(root: Path, name: str) -> None:
    provider = Filesystem(path=root)
    before = provider.metadata(("src",))
    (root / "src" / name).touch()
    assert provider.metadata(("src",)) == before
    (root / "src" / name).unlink()
    assert provider.metadata(("src",)) == before


async def test_a_file_is_read_and_so_is_a_part_of_it(root: Path) -> None:
    provider = Filesystem(path=root)
    assert await body(provider, "a/x.txt") == "body of a/x.txt\n"
    assert await body(provider, "a/x.txt", bytes="8-8") == "a"


async def test_a_small_file_in_the_page_cache_is_read_at_once(root: Path) -> None:
    provider = Filesystem(path=root)
    await body(provider, "a.txt")
    assert not inspect.isawaitable(provider.read(("a.txt",), {}))


async def test_a_rule_that_begins_to_hide_is_soon_obeyed_by_reads(root: Path) -> None:
    provider = Filesystem(path=root)
    assert await body(provider, "a/x.txt") == "body of a/x.txt\n"
    (root / ".gitignore").write_text("x.txt\n")
    with pytest.raises(ResourceNotFound):
        provider.metadata(address("a/x.txt"))
    deadline = time.monotonic() + 10
    with suppress(ResourceNotFound):
        while await body(provider, "a/x.txt"):
            assert time.monotonic() < deadline


async def test_a_collection_is_not_read(root: Path) -> None:
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


async def test_a_file_over_the_limit_is_refused_whole_and_read_in_ranges(root: Path) -> None:
    provider = from_manifest(root, {"max_size": "10B"})
    with pytest.raises(ResourceTooLarge):
        await body(provider, "a.txt")
    assert await body(provider, "a.txt", bytes="0-3") == "body"


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
async def test_what_is_hidden_cannot_be_guessed(root: Path, hidden: str, legitimate: str) -> None:
    plant(root, ["scratch/x"])
    provider = Filesystem(path=root, directories={"scratch": DirectoryOptions(exposed=False)})
    assert await is_absent(provider, hidden)
    assert not await is_absent(provider, legitimate)


async def test_an_unlisted_directory_is_a_child_but_not_in_the_walk(root: Path) -> None:
    provider = Filesystem(path=root, directories={"a": DirectoryOptions(listed=False)})
    assert await walk(provider) == [name for name in SHOWN if name.split("/")[0] != "a"]
    page = await settle(provider.walk(after=address("a/b/y.txt"), limit=1))
    assert names(page) == ["a-b"]
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


def test_directories_have_their_words_and_hand_down_annotations(root: Path) -> None:
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


async def test_completion_goes_a_segment_at_a_time(root: Path) -> None:
    provider = Filesystem(path=root)

    async def offered(value: str) -> list[str]:
        return sorted(await settle(provider.complete("path", value, given={})))

    assert await offered("") == ["README.md", "a-b/", "a.txt", "a/", "empty/", "src/"]
    assert await offered("read") == ["README.md"]
    assert await offered("src/") == ["src/deep/", "src/main.py"]
    assert await offered("src/de") == ["src/deep/"]
    for value in ("nope/", "src/../", "../", "/etc/", "src//", "a.txt/", "\0/", "src/build/"):
        assert await offered(value) == []
    assert await settle(provider.complete("lines", "1", given={"path": "a.txt"})) == ()


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("README.md", "exposed"),
        ("src/build", "ignored by .gitignore:1 'build' in src/"),
        ("src/build/out.o", "in 'src/build': ignored by .gitignore:1 'build' in src/"),
        ("server.pem", "secret: matches '*.pem'"),
        (".hidden", "name begins with a dot"),
        ("a/x.txt", "excluded by '/a/*.txt'"),
        ("link", "symbolic link"),
        ("pipe", "neither a file nor a directory"),
        ("nope", "no such file or directory"),
        ("a.txt/x", "'a.txt' is a file: nothing lies below it"),
        ("empty", "exposed"),
        ("a-b/z.txt", "listed, never read: readable: false"),
    ],
)
def test_explain_names_the_rule(root: Path, path: str, sentence: str) -> None:
    (root / "link").symlink_to("a.txt")
    os.mkfifo(root / "pipe")
    provider = Filesystem(
        path=root,
        exclude=("/a/*.txt",),
        directories={"a-b": DirectoryOptions(readable=False)},
    )
    assert provider.explain(address(path)) == sentence


async def test_a_listing_of_a_document_is_refused(root: Path) -> None:
    with pytest.raises(NotACollection):
        await settle(Filesystem(path=root).list(("a.txt",), after=None, limit=1))


async def test_links_are_absent_unless_they_are_followed(root: Path) -> None:
    (root / "link.txt").symlink_to("a.txt")
    (root / "folder").symlink_to("a")
    provider = Filesystem(path=root)
    assert await walk(provider) == SHOWN
    for path in ("link.txt", "folder", "folder/x.txt"):
        assert await is_absent(provider, path)


async def test_links_within_the_root_lead_to_what_is_exposed(root: Path) -> None:
    (root / "link.txt").symlink_to("a.txt")
    (root / "src/folder").symlink_to("../a/b/..")
    provider = Filesystem(path=root, symlinks="within-root")
    found = await walk(provider)
    assert set(found) - set(SHOWN) == {
        "link.txt",
        "src/folder",
        "src/folder/b",
        "src/folder/b/y.txt",
        "src/folder/x.txt",
    }
    assert await walk(provider, 1) == found
    assert await body(provider, "src/folder/b/y.txt") == "body of a/b/y.txt\n"
    assert await body(provider, "link.txt") == "body of a.txt\n"
    assert provider.metadata(("link.txt",)).size == 14
    offered = await settle(provider.complete("path", "src/f", given={}))
    assert offered == ["src/folder/"]


@pytest.mark.parametrize(
    "target",
    [
        "../outside",
        "../outside/file",
        "/etc/hosts",
        "server.pem",
        ".hidden/x",
        "src/build/out.o",
        "src/build",
        "a/../../outside/file",
        "../root/a.txt",
        "../a.txt",
        "/a.txt",
        "nowhere",
        "link",
        "pipe",
    ],
)
async def test_a_link_to_what_is_not_exposed_is_absent(root: Path, target: str) -> None:
    plant(root.parent, ["outside/file", "a.txt"])
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(target)
    provider = Filesystem(path=root, symlinks="within-root")
    assert await walk(provider) == SHOWN
    assert await is_absent(provider, "link")
    assert await is_absent(provider, "link/file")


async def test_loops_of_links_end(root: Path) -> None:
    (root / "a/up").symlink_to("..")
    (root / "a/self").symlink_to(".")
    (root / "a/b/other").symlink_to("../../a-b")
    (root / "a-b/back").symlink_to("../a")
    plant(root, ["p/q/"])
    (root / "p/q/link").symlink_to("../../p")
    (root / "s").symlink_to("p/q")
    provider = Filesystem(path=root, symlinks="within-root")
    found = await walk(provider)
    assert "a/b/other/z.txt" in found
    assert "a-b/back/b/y.txt" in found
    assert "s/link" in found
    for path in ("a/up", "a/self", "a/b/other/back", "a-b/back/b/other", "p/q/link", "s/link/q"):
        assert path not in found
        assert await is_absent(provider, path)


@pytest.mark.parametrize("name", ["server.pem", "nowhere", "a.txt"])
async def test_a_bad_range_is_refused_before_anything_is_said_of_the_document(
    root: Path, name: str
) -> None:
    with pytest.raises(InvalidParameter):
        await settle(Filesystem(path=root).fetch((name,), {"lines": "0"}))


@pytest.mark.parametrize("target", ["p/sub", "p/sub/", "p/sub/../sub/."])
def test_metadata_behind_a_link_never_comes_from_outside_whatever_is_swapped(
    root: Path, tmp_path_factory: pytest.TempPathFactory, target: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "sub").mkdir()
    os.utime(outside / "sub", (1000, 1000))
    plant(root, ["p/sub/"])
    (root / "link").symlink_to(target)
    (root / "q").symlink_to(outside)
    provider = Filesystem(path=root, symlinks="within-root")
    assert provider.metadata(("link",)).type == "collection"
    swap = "import os,sys\na,b,c=sys.argv[1:]\nwhile True:\n"
    swap += " os.rename(a,c);os.rename(b,a);os.rename(a,b);os.rename(c,a)\n"
    names = [str(root / name) for name in ("p", "q", "r")]
    with subprocess.Popen([sys.executable, "-c", swap, *names]) as swapping:
        try:
            for _ in range(4000):
                with suppress(ResourceNotFound):
                    assert provider.metadata(("link",)).last_modified != 1000
        finally:
            swapping.kill()


HOSTILE_NAMES = (
    b"with space",
    b"quote'\"",
    b"new\nline",
    b"100%",
    b"a#b",
    b"what?",
    b"a:b",
    b"back\\slash",
    "emoji \N{ROCKET}".encode(),
    "bidi \N{RIGHT-TO-LEFT OVERRIDE}txt".encode(),
    b"invalid \xff\xfe",
    b"x" * 255,
)


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=repr)
async def test_a_name_of_any_bytes_is_listed_and_read(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).write_text("body")
    provider = Filesystem(path=tmp_path)
    [entry] = await settle(provider.walk(after=None, limit=9))
    assert os.fsencode(entry.path[0]) == name
    entry.name.encode()
    assert await body(provider, entry.path[0]) == "body"
    assert provider.metadata(entry.path) == entry


async def test_what_is_neither_file_nor_directory_is_absent(root: Path) -> None:
    os.mkfifo(root / "a" / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "a" / "socket"))
        provider = Filesystem(path=root)
        assert await children(provider, "a") == ["a/b", "a/x.txt"]
        assert await is_absent(provider, "a/pipe")
        assert await is_absent(provider, "a/socket")


async def test_a_tree_300_levels_deep_is_walked_in_any_page(tmp_path: Path) -> None:
    path = tmp_path
    for _ in range(300):
        path /= "d"
        path.mkdir()
        (path / "f").touch()
    provider = Filesystem(path=tmp_path)
    found = await walk(provider, 1000)
    assert len(found) == 600
    assert found[-1] == "d/f"
    assert await walk(provider, 150) == found
    assert await body(provider, "/".join(["d"] * 300) + "/f") == ""


async def test_a_deep_walk_holds_few_descriptors(tmp_path: Path) -> None:
    deep = plant(tmp_path, ["root/" + "d/" * 200])
    provider = Filesystem(path=deep / "root")
    await walk(provider)
    with few_descriptors(80):
        assert len(await walk(provider, 1000)) == 200


async def test_a_walk_without_descriptors_is_busy_rather_than_short(tmp_path: Path) -> None:
    deep = plant(tmp_path, ["root/" + "d/" * 50])
    provider = Filesystem(path=deep / "root")
    await walk(provider)
    with few_descriptors(20), pytest.raises(ResourceBusy):
        await walk(provider, 1000)


async def test_a_directory_of_20_000_names_is_read_off_the_loop_once(tmp_path: Path) -> None:
    expected = sorted(f"{number * 7919 % 20_000:x}.txt" for number in range(20_000))
    for name in expected:
        os.mknod(tmp_path / name)
    provider = Filesystem(path=tmp_path)
    first = provider.list((), after=None, limit=100)
    assert inspect.isawaitable(first)
    assert names(await first) == expected[:100]
    assert await walk(provider, 5000) == expected
    os.utime(tmp_path, (1_700_000_000.5, 1_700_000_000.5))
    while inspect.isawaitable(page := provider.list((), after=("5",), limit=3)):
        await page  # as long as the directory counts as just changed
    assert names(page) == [name for name in expected if name > "5"][:3]


async def test_the_root_of_the_machine_is_listed_lazily() -> None:
    provider = Filesystem(path=Path("/"))
    async with provider:
        assert provider.metadata(()).name == "/"
        assert "proc" in await children(provider)
        assert len(await settle(provider.walk(after=("proc",), limit=50))) == 50
        assert "processor" in str(await body(provider, "proc/cpuinfo"))


async def test_a_missing_folder_is_unavailable_and_serves_when_it_comes(tmp_path: Path) -> None:
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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_directory_that_cannot_be_opened_is_listed_and_skipped(root: Path) -> None:
    (root / "a").chmod(0)
    try:
        found = await walk(Filesystem(path=root))
    finally:
        (root / "a").chmod(0o755)
    assert found == [name for name in SHOWN if not name.startswith("a/")]


async def test_pages_under_churn_neither_repeat_nor_miss_what_stays(tmp_path: Path) -> None:
    staying = [f"{folder}/{name}-stays" for folder in "abcdef" for name in range(40)]
    plant(tmp_path, staying)
    stop = threading.Event()

    def churn() -> None:
        number = 0
        while not stop.is_set():
            folder = tmp_path / "abcdef"[number % 6]
            (folder / f"{number % 97}-comes").touch()
            (folder / f"{(number + 40) % 97}-comes").unlink(missing_ok=True)
            number += 1

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        provider = Filesystem(path=tmp_path)
        for _ in range(10):
            found = await walk(provider, 7)
            assert len(found) == len(set(found))
            assert set(staying) <= set(found)
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "utf-9"}, "utf-9"),
        ({"encoding": "base64"}, "base64"),
        ({"include": ("[a",)}, r"include: '\[a'"),
        ({"exclude": ("#x",)}, "exclude: '#x'"),
        ({"types": {"*.x": "html"}}, "no media type"),
        ({"directories": {"../x": DirectoryOptions()}}, "no path below the root"),
    ],
)
def test_wrong_options_are_refused_with_what_was_found(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Filesystem(path=tmp_path, **options)


def test_wrong_nested_options_are_refused() -> None:
    with pytest.raises(ValueError, match=r"secrets\.allow"):
        Secrets(allow=("[a",))
    with pytest.raises(ValueError, match="nope"):
        DirectoryOptions(encoding="nope")


async def test_the_manifest_builds_every_option(root: Path) -> None:
    provider = from_manifest(
        root,
        {
            "include": ["**", "!empty/"],
            "exclude": ["a-b/"],
            "gitignore": False,
            "hidden": True,
            "symlinks": "within-root",
            "max_size": "1MiB",
            "encoding": "latin-1",
            "types": {"*.md": "text/x-notes"},
            "secrets": {"allow": ["*.pem"]},
            "directories": {"a": {"title": "A", "annotations": {"audience": ["user"]}}},
            "watch": "off",
        },
    )
    found = await walk(provider)
    assert {"server.pem", ".hidden/x", "src/build/out.o", "src/.gitignore"} <= set(found)
    assert not {"a-b", "empty"} & set(found)
    assert provider.metadata(("README.md",)).mime_type == "text/x-notes"
    assert provider.metadata(("a",)).title == "A"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("secrets: {alow: []}", "roots.r.secrets.alow: unknown option; did you mean 'allow'?"),
        ("directories: {a: {titel: A}}", "titel: unknown option; did you mean 'title'?"),
        ("directories: {a: {annotations: {prio: 1}}}", "did you mean 'priority'?"),
        ("directories: {a: {annotations: {priority: 2}}}", "roots.r.directories.a.annotations"),
        ("symlinks: follow", "roots.r.symlinks: expected one of deny, within-root"),
        ("watch: sometimes", "roots.r.watch: expected one of"),
        ("max_size: big", "roots.r.max_size: not a size"),
    ],
)
def test_the_manifest_refuses_wrong_options(root: Path, options: str, problem: str) -> None:
    manifest = root / "mcp-resources.yaml"
    manifest.write_text(f"roots:\n  r:\n    path: .\n    {options}\n")
    with pytest.raises(ManifestError) as refused:
        load(manifest)
    assert problem in str(refused.value)


async def test_what_is_hidden_is_named_with_its_rule_and_only_at_the_top(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=fake")
    (tmp_path / ".gitignore").write_text("out/\n")
    (tmp_path / "out/deep").mkdir(parents=True)
    (tmp_path / "out/deep/file").touch()
    (tmp_path / "src").mkdir()
    (tmp_path / "src/x.bak").touch()
    os.mkfifo(tmp_path / "pipe")
    provider = Filesystem(path=tmp_path, exclude=("*.bak",), hidden=True)
    hidden = list(await settle(provider.hides(limit=10)))
    assert hidden == [
        ((".env",), "secret: matches '*.env'"),
        (("out",), "ignored by .gitignore:1 'out/'"),
        (("pipe",), "neither a file nor a directory"),
        (("src", "x.bak"), "excluded by '*.bak'"),
    ]
    assert await settle(provider.hides(limit=2)) == hidden[:2]


async def test_metadata_and_content_of_a_fetch_are_of_one_opening(root: Path) -> None:
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


@pytest.mark.parametrize("path", [(".env",), ("gone",), ("a.txt", "below")])
async def test_what_is_hidden_or_absent_is_not_fetched(root: Path, path: tuple[str, ...]) -> None:
    (root / ".env").write_text("TOKEN=fake")
    with pytest.raises(ResourceNotFound):
        await settle(Filesystem(path=root).fetch(path, {}))


@pytest.fixture
def folding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the file system find names in any case, as that of macOS does."""
    stat, open_file, status = Root.stat, Root.open_file, DirectoryCache.status

    def folded(path: Address) -> Address:
        return tuple(segment.lower() for segment in path)

    def folding_stat(self: Root, path: Address) -> os.stat_result:
        return stat(self, folded(path))

    def folding_open(self: Root, path: Address, **how: Any) -> tuple[int, os.stat_result]:
        return open_file(self, folded(path), **how)

    def folding_status(self: DirectoryCache, path: str) -> os.stat_result:
        return status(self, path.lower())

    def folds(_path: str) -> bool:
        return True

    monkeypatch.setattr(file_tree, "folds_names", folds)
    monkeypatch.setattr(Root, "stat", folding_stat)
    monkeypatch.setattr(Root, "open_file", folding_open)
    monkeypatch.setattr(DirectoryCache, "status", folding_status)


@pytest.mark.usefixtures("folding")
@pytest.mark.parametrize(
    "path", [("PRIVATE", "x.txt"), ("private", "x.txt"), ("HIDE.TXT",), ("Shown.txt",)]
)
async def test_another_spelling_of_a_name_reaches_nothing(tmp_path: Path, path: Address) -> None:
    (tmp_path / "private").mkdir()
    for name in ("private/x.txt", "hide.txt", "shown.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("private/\nhide.txt\n")
    provider = Filesystem(path=tmp_path)
    with pytest.raises(ResourceNotFound):
        provider.metadata(path)
    with pytest.raises(ResourceNotFound):
        await settle(provider.read(path, {}))
    assert provider.metadata(("shown.txt",)).name == "shown.txt"
    assert await settle(provider.read(("shown.txt",), {}))


async def test_a_folder_that_hangs_takes_no_more_threads_than_a_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gone", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "large.txt").write_bytes(b"x" * 600_000)  # is read in a thread
    gone, there = Filesystem(tmp_path / "gone"), Filesystem(tmp_path / "there")
    answers, waiting, read = threading.Event(), threading.Semaphore(0), content.read_content
    inode = (tmp_path / "gone/large.txt").stat().st_ino

    def hangs(fd: int, *args: Any, **options: Any) -> Content:
        if os.fstat(fd).st_ino == inode:
            waiting.release()
            answers.wait(60)
        return read(fd, *args, **options)

    async def reading(folder: Filesystem) -> int:
        async with asyncio.timeout(20):
            (found,) = await settle(folder.read(("large.txt",), {}))
        return len(found.data)

    monkeypatch.setattr(content, "read_content", hangs)
    try:
        for _ in range(3):
            reads = [asyncio.ensure_future(reading(gone)) for _ in range(60)]
            await asyncio.sleep(0.2)
            # What is cancelled keeps its thread: nothing ends it.
            for each in reads:
                each.cancel()
            await asyncio.wait(reads)
        assert await reading(there) == 600_000
        hanging = 0
        while waiting.acquire(blocking=False):
            hanging += 1
        assert 1 < hanging <= 32
    finally:
        answers.set()
    assert await reading(gone) == 600_000
