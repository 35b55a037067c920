from __future__ import annotations

import inspect
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from resource_server.errors import (
    NotACollection,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.provider import Path as Address
from resource_server.provider import ResourceType
from resource_server.provider.search import SearchRequest
from resource_server.providers.filesystem import Filesystem, file_tree
from resource_server.providers.filesystem.contained_root import ContainedRoot
from resource_server.providers.filesystem.directory import DirectoryCache
from resource_server.runtime.eager import settle
from tests.providers.filesystem.trees import (
    SHOWN,
    TREE,
    address,
    all_listed,
    body,
    children,
    is_absent,
    names,
    plant,
    walk,
)
from tests.providers.filesystem.watch.descriptors import few_descriptors
from tests.waiting import grow_old

pytestmark = pytest.mark.anyio


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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return plant(tmp_path / "root", TREE)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 14, 100])
async def test_the_levels_have_every_entry_once_for_every_page_size(root: Path, limit: int) -> None:
    assert await walk(Filesystem(path=root), limit) == SHOWN


async def test_levels_have_the_same_entries_as_lists(root: Path) -> None:
    provider = Filesystem(path=root)

    async def below(parent: str) -> list[str]:
        found: list[str] = []
        for name in await children(provider, parent):
            found.append(name)
            if provider.metadata(address(name)).type == "collection":
                found += await below(name)
        return found

    assert await below("") == SHOWN


@pytest.mark.guarantee("every-row-once")
async def test_the_pages_of_a_list_make_up_the_list(root: Path) -> None:
    provider = Filesystem(path=root)
    found: list[str] = []
    after: Address | None = None
    while page := await settle(provider.list((), after=after, limit=1)):
        found += names(page)
        after = page[-1].path
    assert found == ["README.md", "a", "a-b", "a.txt", "empty", "src"]


async def test_a_list_continues_after_a_deleted_name(root: Path) -> None:
    provider = Filesystem(path=root)
    (root / "a.txt").unlink()
    page = await settle(provider.list((), after=("a.txt",), limit=2))
    assert names(page) == ["empty", "src"]


async def test_a_level_continues_at_the_position_of_a_deleted_path(root: Path) -> None:
    provider = Filesystem(path=root)
    expected_after: list[tuple[str, ResourceType, str | None]] = [
        ("a/aa", "document", "a/x.txt"),
        ("a/zzz", "document", "a-b/z.txt"),
        ("a.txt/was-a-directory", "document", "src/main.py"),
        ("a/bb", "collection", "src/deep"),
        ("zzz", "collection", None),
        ("A", "document", "a/x.txt"),
        ("src/build", "collection", "src/deep"),
        ("\udcff/x", "document", None),
    ]
    for after, type, expected in expected_after:
        page = await settle(provider.level(2, type, after=address(after), limit=1))
        assert names(page) == ([expected] if expected else [])


async def test_a_first_listing_asks_for_no_ignore_file_by_name_below_the_root(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    access = os.access

    def recording(path: str, mode: int) -> bool:
        asked.append(os.path.relpath(path, root))
        return access(path, mode)

    monkeypatch.setattr(os, "access", recording)
    level = await settle(Filesystem(path=root).level(4, "document", after=None, limit=9))
    assert names(level) == ["src/deep/er/file.md"]
    assert [name for name in asked if name.startswith(("a", "empty", "src/deep"))] == []


async def test_a_page_goes_on_in_a_thread_where_the_loop_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, [f"{number:03}/note.md" for number in range(100)])
    read = DirectoryCache.read
    threads: dict[str, list[int]] = {}

    def recording(self: DirectoryCache, parent: Any, name: str, status: Any, fd: int) -> Any:
        threads.setdefault(name, []).append(threading.get_ident())
        return read(self, parent, name, status, fd)

    monkeypatch.setattr(DirectoryCache, "read", recording)
    page = await settle(Filesystem(path=tmp_path).level(2, "document", after=None, limit=200))
    assert len(page) == 100
    assert all(len(idents) == 1 for idents in threads.values())
    on_the_loop = [name for name, [ident] in threads.items() if ident == threading.get_ident()]
    assert 0 < len(on_the_loop) < 100


async def test_a_page_that_passes_many_known_directories_goes_on_in_a_thread(
    tmp_path: Path,
) -> None:
    many = plant(tmp_path / "many", [f"{number:03}/x/y.md" for number in range(300)])
    few = plant(tmp_path / "few", [f"{a}/{b}.md" for a in range(10) for b in range(10)])
    grow_old(tmp_path)  # what changed just now is not cached
    provider = Filesystem(path=many)
    documents = partial(provider.level, 2, "document", after=None, limit=100)
    await settle(provider.level(3, "document", after=None, limit=1000))
    page = documents()
    assert not isinstance(page, list)
    assert await settle(page) == []
    provider = Filesystem(path=few)
    await settle(provider.level(2, "document", after=None, limit=100))
    page = provider.level(2, "document", after=None, limit=100)
    assert isinstance(page, list)
    assert len(page) == 100


def open_descriptors(below: Path) -> int:
    """Return how many descriptors are open on files and folders below one."""
    links = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return sum(link.startswith(str(below)) for link in links)


async def test_a_page_given_up_between_loop_and_thread_leaves_no_descriptor(tmp_path: Path) -> None:
    plant(tmp_path, [f"{number:03}/note.md" for number in range(100)])
    provider = Filesystem(path=tmp_path)
    await settle(provider.list((), after=None, limit=1))  # opens the root itself
    before = open_descriptors(tmp_path)
    page = provider.level(2, "document", after=None, limit=200)
    assert not isinstance(page, list)
    assert open_descriptors(tmp_path) > before
    cast("Coroutine[Any, Any, Any]", page).close()
    del page
    assert open_descriptors(tmp_path) == before


async def test_a_file_that_becomes_a_directory_between_pages_is_listed_as_such(root: Path) -> None:
    provider = Filesystem(path=root)
    assert (await walk(provider))[-1] == "src/main.py"
    (root / "src/main.py").unlink()
    plant(root, ["src/main.py/inner.txt"])
    page = [
        entry for entry in await all_listed(provider) if entry.path > address("src/deep/er/file.md")
    ]
    assert names(page) == ["src/main.py", "src/main.py/inner.txt"]
    assert [entry.type for entry in page] == ["collection", "document"]


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


@pytest.mark.guarantee("links-stay-inside")
async def test_links_within_the_root_lead_to_exposed_files(root: Path) -> None:
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


@pytest.mark.guarantee("links-stay-inside")
@pytest.mark.parametrize(
    "target",
    [
        "../outside",
        "../outside/file",
        "../root_private",
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
async def test_a_link_to_a_hidden_file_is_absent(root: Path, target: str) -> None:
    plant(root.parent, ["outside/file", "root_private/file", "a.txt"])
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


@pytest.mark.guarantee("links-stay-inside")
@pytest.mark.parametrize("target", ["p/sub", "p/sub/", "p/sub/../sub/."])
def test_metadata_behind_a_swapped_link_never_comes_from_outside(
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


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=repr)
async def test_a_name_of_any_bytes_is_listed_and_read(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).write_text("body")
    provider = Filesystem(path=tmp_path)
    [entry] = await all_listed(provider)
    assert os.fsencode(entry.path[0]) == name
    entry.name.encode()
    assert await body(provider, entry.path[0]) == "body"
    assert provider.metadata(entry.path) == entry


async def test_fifos_and_sockets_are_absent(root: Path) -> None:
    os.mkfifo(root / "a" / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "a" / "socket"))
        provider = Filesystem(path=root)
        assert await children(provider, "a") == ["a/b", "a/x.txt"]
        assert await is_absent(provider, "a/pipe")
        assert await is_absent(provider, "a/socket")


@pytest.mark.deep
async def test_a_tree_300_levels_deep_is_listed_in_any_page(tmp_path: Path) -> None:
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


async def test_a_deep_level_uses_few_descriptors(tmp_path: Path) -> None:
    deep = plant(tmp_path, ["root/" + "d/" * 200])
    provider = Filesystem(path=deep / "root")
    await walk(provider)
    with few_descriptors(80):
        assert len(await walk(provider, 1000)) == 200


async def test_a_level_without_descriptors_is_busy_rather_than_short(tmp_path: Path) -> None:
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
        assert len(await settle(provider.level(2, "document", after=("proc",), limit=20))) == 20
        assert "processor" in str(await body(provider, "proc/cpuinfo"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_an_unopenable_directory_is_listed_but_not_entered(root: Path) -> None:
    (root / "a").chmod(0)
    try:
        found = await walk(Filesystem(path=root))
    finally:
        (root / "a").chmod(0o755)
    assert found == [name for name in SHOWN if not name.startswith("a/")]


@pytest.mark.guarantee("every-row-once")
async def test_pages_under_churn_have_every_stable_file_exactly_once(tmp_path: Path) -> None:
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


@pytest.fixture
def folding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the file system find names in any case, as that of macOS does."""
    stat, open_file, status = ContainedRoot.stat, ContainedRoot.open_file, DirectoryCache.status

    def folded(path: Address) -> Address:
        return tuple(segment.lower() for segment in path)

    def folding_stat(self: ContainedRoot, path: Address) -> os.stat_result:
        return stat(self, folded(path))

    def folding_open(self: ContainedRoot, path: Address, **how: Any) -> tuple[int, os.stat_result]:
        return open_file(self, folded(path), **how)

    def folding_status(self: DirectoryCache, path: str) -> os.stat_result:
        return status(self, path.lower())

    def folds(_path: str) -> bool:
        return True

    # Patched: Linux has no file system at hand that ignores case.
    monkeypatch.setattr(file_tree, "folds_names", folds)
    monkeypatch.setattr(ContainedRoot, "stat", folding_stat)
    monkeypatch.setattr(ContainedRoot, "open_file", folding_open)
    monkeypatch.setattr(DirectoryCache, "status", folding_status)


@pytest.mark.usefixtures("folding")
@pytest.mark.parametrize(
    "path", [("PRIVATE", "x.txt"), ("private", "x.txt"), ("HIDE.TXT",), ("Shown.txt",)]
)
async def test_another_spelling_of_a_name_is_not_found(tmp_path: Path, path: Address) -> None:
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


@pytest.mark.parametrize("hidden", [False, True])
async def test_a_mounted_config_map_has_each_key_once(tmp_path: Path, *, hidden: bool) -> None:
    version = tmp_path / "..2026_01_02"
    (version / "items").mkdir(parents=True)
    for name in ("app.yaml", "items/a.txt", "server.pem", ".dotted", "..double"):
        (version / name).write_text(name)
    (tmp_path / "..data").symlink_to(version.name)
    for name in ("app.yaml", "items", "server.pem", ".dotted"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    (tmp_path / "one").symlink_to("items/../app.yaml")
    (tmp_path / "outside").symlink_to("../..data/app.yaml")
    folder = Filesystem(path=tmp_path, symlinks="within-root", hidden=hidden)
    shown = ["app.yaml", "items", "items/a.txt", "one"]
    shown = [".dotted", *shown] if hidden else shown
    for _ in range(2):  # also once the directories are cached
        assert await walk(folder) == shown
        for name in ("..data", "..data/app.yaml", f"{version.name}/app.yaml"):
            with pytest.raises(ResourceNotFound):
                folder.metadata(tuple(name.split("/")))
            with pytest.raises(ResourceNotFound):
                await settle(folder.read(tuple(name.split("/")), {}))
    (content,) = await settle(folder.read(("app.yaml",), {}))
    assert content.data == "app.yaml"
    request = SearchRequest(text="app.yaml", where="text")
    found = await settle(
        folder.search(request, below=(), after=None, limit=9, deadline=time.monotonic() + 30)
    )
    assert [hit.resource.path for hit in found.hits] == [("app.yaml",), ("one",)]
    without = Filesystem(path=tmp_path, hidden=True)
    assert without.metadata((version.name, "app.yaml")).name == "app.yaml"
