from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from resource_server import media_types
from resource_server.documents.secrets import SECRETS
from resource_server.errors import (
    ConversionError,
    DeadlineExceeded,
    InvalidParameter,
    ResourceBusy,
    ResourceError,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import ByteSize
from resource_server.provider import Path as Address
from resource_server.provider.search import SearchPage, SearchRequest, Together, Unsearched, Where
from resource_server.providers.filesystem import Filesystem, file_search
from resource_server.providers.filesystem.directory import (
    Directory,
    DirectoryCache,
    DirectoryListing,
)
from resource_server.providers.filesystem.file_tree import WalkFrame
from resource_server.providers.filesystem.options import DirectoryOptions
from resource_server.runtime.eager import settle
from resource_server.runtime.timing import Timing
from resource_server.search.name_match import NameQuery
from resource_server.search.text_match import MAX_LINES
from tests.cases import for_each
from tests.providers.filesystem.trees import all_listed
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

WORD = "needle"
WAYS: tuple[Together, ...] = ("document", "most")


def make(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        file = root / name
        if name.endswith("/"):
            file.mkdir(parents=True, exist_ok=True)
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


async def look(
    folder: Filesystem,
    query: str,
    where: Where = "text",
    *,
    below: Address = (),
    after: str | None = None,
    limit: int = 1000,
    time_s: float = PATIENCE_S,
    count_s: float = 0,
) -> SearchPage:
    is_pattern = len(query) > 2 and query[0] == query[-1] == "/" and where == "text"
    sought = SearchRequest(
        text=query[1:-1] if is_pattern else query,
        where=where,
        is_pattern=is_pattern,
        count_s=count_s,
    )
    deadline = time.monotonic() + time_s
    return await folder.search(sought, below=below, after=after, limit=limit, deadline=deadline)


def paths(found: SearchPage) -> list[str]:
    return ["/".join(hit.resource.path) for hit in found.hits]


async def texts(folder: Filesystem, query: str = WORD, **options: Any) -> list[str]:
    return paths(await look(folder, query, "text", **options))


async def names(folder: Filesystem, query: str = WORD, **options: Any) -> list[str]:
    return paths(await look(folder, query, "names", **options))


async def pages(folder: Filesystem, query: str, where: Where, **options: Any) -> list[str]:
    found: list[str] = []
    after: str | None = None
    while True:
        page = await look(folder, query, where, after=after, **options)
        found += paths(page)
        after = page.next
        if after is None:
            return found


async def readable(folder: Filesystem) -> dict[str, str]:
    """Return the text of every listed document that is text, by its path.

    Text that is not in the encoding of its folder is read by a guess.
    """
    found: dict[str, str] = {}
    for resource in await all_listed(folder):
        if resource.type == "document":
            try:
                (content,) = await settle(folder.read(resource.path, {}))
                is_text = media_types.is_text(resource.mime_type or "")
                if is_text and isinstance(content.data, bytes) and content.data:
                    (content,) = await settle(folder.read(resource.path, {"format": "text"}))
            except ResourceTooLarge:
                found["/".join(resource.path)] = await in_ranges(folder, resource.path)
                continue
            except (ResourceError, ConversionError):
                continue
            if isinstance(content.data, str):
                found["/".join(resource.path)] = content.data
    return found


async def in_ranges(folder: Filesystem, path: Address) -> str:
    """Return the text of a document that is too large to be read at once."""
    text = ""
    query: Mapping[str, str] | None = {"bytes": "0-"}
    while query:
        (content,) = await settle(folder.read(path, query))
        text += str(content.data)
        query = content.truncated.next if content.truncated else None
    return text


ZOO: Mapping[str, str | bytes] = {
    "README.md": "a Needle in here\nand NEEDLE there",
    "needle.txt": "",
    "crlf.txt": "one\r\nneedle\r\nthree",
    "mark.txt": b"\xef\xbb\xbfneedle with a mark",
    "utf16.txt": "needle in UTF-16".encode("utf-16"),
    "utf16be.txt": b"\xfe\xff" + "needle in UTF-16".encode("utf-16-be"),
    "utf32.txt": "needle in UTF-32".encode("utf-32"),
    "invalid.txt": b"needle \xff\xfe then",
    "nul.txt": b"needle \0 then",
    "late-nul.txt": b"needle" + b"x" * 100_000 + b"\0",
    "late-mark.txt": b"\xef\xbb\xbfneedle" + b"\nx y" * 50_000,
    "late-invalid.txt": b"needle" + b"\xc3\xa4" * 100_000 + b"\xc3",
    "late.txt": ("x" * 60_000 + "\n") * 5 + "needle" + "ä" * 100_000,
    "picture.png": b"needle",
    "document.pdf": b"%PDF-1.4 needle",
    "unknown": "needle without a suffix",
    "unknown-pdf": b"%PDF-1.4\nneedle",
    "script": "#!/bin/sh\necho needle",
    "movie.ts": b"G" + b"needle".ljust(187) + b"G" + b"\0" * 300,
    "code.ts": "const needle = 1",
    "a/deep/er/needle.py": "x = 1\nneedle = 2\n",
    "a/other.py": "nothing",
    "latin/old.txt": "n\xe4dle and needle".encode("latin-1"),
    "wide/wide.txt": "needle n\xe4dle".encode("utf-16-le"),
    "straße.txt": "DIE STRASSE, die Nädle",
    "ignored.txt": "needle",
    ".gitignore": "ignored.txt\n*.log\n",
    "b/x.log": "needle",
    "b/kept.txt": "needle",
    "b/.ignore": "!x.log\n",
    ".hidden/needle.txt": "needle",
    ".needle": "needle",
    "server.pem": "needle",
    ".env.needle": "needle",
    "id_rsa.needle": "needle",
    "data/needle.csv": "needle",
    "data/deep/needle.csv": "needle",
    "contracts/needle.txt": "needle",
    "contracts/open/needle.txt": "needle",
    "scratch/needle.txt": "needle",
    "large/large.txt": "needle" + "x" * 5000,
    "large/small.txt": "needle",
    "empty.txt": "",
    "odd\udcff\n\u202ename.txt": "needle",
    "minified.js": "x" * 2_000_000 + "needle" + " y" * 1_000_000,
}

DIRECTORIES = {
    "latin": DirectoryOptions(encoding="latin-1"),
    "wide": DirectoryOptions(encoding="utf-16-le"),
    "data": DirectoryOptions(listed=False),
    "contracts": DirectoryOptions(readable=False),
    "contracts/open": DirectoryOptions(readable=True),
    "scratch": DirectoryOptions(exposed=False),
    "large": DirectoryOptions(max_size=ByteSize(100)),
}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Filesystem:
    root = tmp_path_factory.mktemp("zoo")
    make(root, ZOO)
    # A socket's own path may be no longer than 107 bytes.
    here = Path.cwd()
    os.chdir(root)
    try:
        os.mkfifo("needle-fifo.txt")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("needle-socket")
    finally:
        os.chdir(here)
    (root / "needle-link.txt").symlink_to("README.md")
    (root / "needle-out.txt").symlink_to("/etc/passwd")
    (root / "needle-loop").symlink_to(".")
    return Filesystem(root, directories=DIRECTORIES)


@for_each(
    ("query", "same"),
    [
        (WORD, "(?i)needle"),
        ("NÄDLE", "(?i)nädle"),
        ("straße", "(?i)strasse"),
        ("/^needle/", "^needle"),
        (r"/needle\w*$/", r"(?a)needle\w*$"),
        (r"/^x+$/", "^x+$"),
        (r"/[^x]$/", "[^x]$"),
    ],
)
async def test_a_search_finds_exactly_the_readable_matches(
    zoo: Filesystem, query: str, same: str
) -> None:
    matches = {
        path: [n for n, line in enumerate(content.split("\n"), 1) if re.search(same, line.rstrip())]
        for path, content in (await readable(zoo)).items()
    }
    found = await look(zoo, query)
    assert {
        "/".join(hit.resource.path): [line.number for line in hit.lines] for hit in found.hits
    } == {path: numbers[:MAX_LINES] for path, numbers in matches.items() if numbers}


async def test_the_zoo_contains_both_visible_and_hidden_matches(zoo: Filesystem) -> None:
    found = await texts(zoo)
    for path in ("README.md", "utf16.txt", "late.txt", "unknown", "latin/old.txt", "wide/wide.txt"):
        assert path in found
    for path in ("b/x.log", "b/kept.txt", "contracts/open/needle.txt", "large/small.txt"):
        assert path in found
    for path in ("invalid.txt", "late-invalid.txt"):
        assert path in found
    for path in ("late-nul.txt", "nul.txt", "picture.png", "unknown-pdf", "movie.ts"):
        assert path not in found
    hidden = ("ignored", "hidden", ".needle", ".pem", ".env", "id_rsa", "scratch", "data/", "link")
    for path in (*found, *await names(zoo), *await names(zoo, "*needle*")):
        assert not any(part in path for part in hidden), path
        assert "fifo" not in path
        assert "socket" not in path


async def test_hits_are_described_as_the_listing_does(zoo: Filesystem) -> None:
    for found in (await look(zoo, WORD), await look(zoo, WORD, "names")):
        assert found.hits
        for hit in found.hits:
            assert hit.resource == zoo.metadata(hit.resource.path)


async def test_names_are_those_of_the_listing_and_no_others(zoo: Filesystem) -> None:
    listed = [resource.path for resource in await all_listed(zoo)]
    for query in ("needle", "e", "*.txt", "a/", "a/**/*.py", "Straße", "[no"):
        fits = NameQuery(query)
        expected = {"/".join(path) for path in listed if fits.rank(path) is not None}
        found = await look(zoo, query, "names")
        assert set(paths(found)) == expected
        assert (found.looked_at, found.total) == (len(listed), len(listed))


async def test_unlisted_documents_are_found_only_below_their_own_path(zoo: Filesystem) -> None:
    for find in (names, texts):
        assert "data/needle.csv" not in await find(zoo)
        found = await find(zoo, below=("data",))
        assert sorted(found) == ["data/deep/needle.csv", "data/needle.csv"]
        assert await find(zoo, below=("data", "needle.csv")) == ["data/needle.csv"]


async def test_listed_unreadable_documents_are_found_only_by_name(zoo: Filesystem) -> None:
    path = "contracts/needle.txt"
    assert path in await names(zoo)
    assert path not in await texts(zoo)
    assert await texts(zoo, below=("contracts",)) == ["contracts/open/needle.txt"]
    assert await texts(zoo, below=("contracts", "needle.txt")) == []


@for_each("where", ["names", "text"])
@for_each(
    "below",
    [
        ("absent",),
        ("scratch",),
        ("scratch", "needle.txt"),
        (".hidden",),
        ("server.pem",),
        ("ignored.txt",),
        ("needle-link.txt",),
        ("needle-loop",),
        ("needle-fifo.txt",),
        ("README.md", "x"),
        ("..",),
        ("a\0",),
    ],
)
async def test_a_search_below_a_hidden_path_is_refused(
    zoo: Filesystem, below: Address, where: Where
) -> None:
    with pytest.raises(ResourceNotFound):
        await look(zoo, WORD, where, below=below)


async def test_a_search_below_a_path_considers_only_that_path(zoo: Filesystem) -> None:
    assert await texts(zoo, below=("a",)) == ["a/deep/er/needle.py"]
    assert await texts(zoo, below=("README.md",)) == ["README.md"]
    assert await texts(zoo, below=("a", "other.py")) == []
    assert await names(zoo, "other", below=("a", "other.py")) == ["a/other.py"]
    assert await names(zoo, "deep", below=("a", "deep")) == []


def secret(pattern: str) -> str:
    """Return a path that a pattern of the deny-list hides."""
    return pattern.strip("/").replace("**/", "x/").replace("*", "needle") + (
        "/needle.txt" if pattern.endswith("/") else ""
    )


async def test_secrets_are_not_found_by_name_or_content(tmp_path: Path) -> None:
    for number, pattern in enumerate(SECRETS):
        file = tmp_path / ("" if pattern.startswith("/") else f"d{number}") / secret(pattern)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("needle")
    (tmp_path / "shown.txt").write_text("needle")
    folder = Filesystem(tmp_path, hidden=True)
    assert await texts(folder) == ["shown.txt"]
    assert await names(folder, "needle") == []
    # Of all that was made only folders remain that are above what is hidden.
    for path in set(await names(folder, "*")) - {"shown.txt"}:
        assert (tmp_path / path).is_dir(), path


@pytest.mark.parametrize("where", ["names", "text"])
async def test_a_new_rule_applies_from_the_next_search_on(tmp_path: Path, where: Where) -> None:
    make(tmp_path, {"a/needle.txt": "needle", "b/needle.txt": "needle"})
    folder = Filesystem(tmp_path)
    assert len(paths(await look(folder, WORD, where))) == 2
    (tmp_path / "a/.gitignore").write_text("needle.txt")
    assert paths(await look(folder, WORD, where)) == ["b/needle.txt"]
    (tmp_path / "a/.gitignore").unlink()
    assert len(paths(await look(folder, WORD, where))) == 2


async def test_followed_links_lead_only_to_exposed_files(tmp_path: Path) -> None:
    make(tmp_path / "root", {"real/needle.txt": "needle", ".env": "needle", "x/.hid/y": "needle"})
    make(tmp_path, {"outside/needle.txt": "needle"})
    root = tmp_path / "root"
    for name, target in (
        ("needle-file", "real/needle.txt"),
        ("needle-folder", "real"),
        ("needle-secret", ".env"),
        ("needle-hidden", "x/.hid"),
        ("needle-outside", "../outside"),
        ("needle-absolute", str(root / "real")),
        ("real/needle-loop", ".."),
        ("needle-nowhere", "absent"),
    ):
        (root / name).symlink_to(target)
    folder = Filesystem(root, symlinks="within-root")
    found = ["needle-file", "needle-folder/needle.txt", "real/needle.txt"]
    assert await texts(folder) == found
    assert await texts(folder, below=("needle-folder",)) == ["needle-folder/needle.txt"]
    assert await texts(folder, below=("needle-file",)) == ["needle-file"]
    assert sorted(await names(folder)) == sorted([*found, "needle-folder"])
    # One loop is closed by a real folder, not by a link: a/b, up to a, down to b again.
    make(root, {"a/b/needle.txt": "needle"})
    (root / "a/b/up").symlink_to("..")
    (root / "to-b").symlink_to("a/b")
    walked = [resource.path for resource in await all_listed(folder)]
    assert sorted(await names(folder, "*")) == sorted(map("/".join, walked))
    assert await texts(folder) == list(await readable(folder))
    assert await texts(replace(folder, symlinks="deny")) == ["a/b/needle.txt", "real/needle.txt"]


async def test_open_fifos_and_devices_do_not_block_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {f"{at}/needle.txt": "needle" for at in range(3)})
    os.mkfifo(tmp_path / "1/a-fifo")
    assert len(await texts(Filesystem(tmp_path))) == 3
    # What becomes a FIFO after its directory was read is opened as one, and not waited for.
    seen = DirectoryCache.read
    swapped: list[int] = []

    def read(
        self: DirectoryCache, parent: Directory, name: str, status: os.stat_result, fd: int
    ) -> tuple[Directory, DirectoryListing]:
        found = seen(self, parent, name, status, fd)
        if name == "2" and not swapped:
            fifo = tmp_path / "2/needle.txt"
            fifo.unlink()
            os.mkfifo(fifo)
            writer = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
            os.write(writer, b"needle")
            swapped.append(writer)
        return found

    # Patched, so that the change certainly falls between listing and opening.
    monkeypatch.setattr(DirectoryCache, "read", read)
    assert await texts(Filesystem(tmp_path)) == ["0/needle.txt", "1/needle.txt"]
    os.close(*swapped)


async def test_a_file_swapped_for_a_link_during_a_search_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {"root/a.txt": "x", "root/d/b.txt": "x", "outside/b.txt": "needle"})
    folder = Filesystem(tmp_path / "root")
    seen = DirectoryCache.listing

    def listing(self: DirectoryCache, directory: Directory, fd: int) -> DirectoryListing:
        found = seen(self, directory, fd)
        file = tmp_path / "root" / directory.prefix / ("b.txt" if directory.prefix else "a.txt")
        file.unlink(missing_ok=True)
        file.symlink_to(tmp_path / "outside/b.txt")
        return found

    # Patched, so that the change certainly falls between listing and opening.
    monkeypatch.setattr(DirectoryCache, "listing", listing)
    assert await texts(folder) == []


async def test_files_that_vanish_or_change_during_a_search_are_skipped(tmp_path: Path) -> None:
    make(tmp_path, {f"d{at}/f{at}.txt": "needle\n" * 1000 for at in range(60)})
    folder = Filesystem(tmp_path)
    stop = threading.Event()

    def churn() -> None:
        at = 0
        while not stop.is_set():
            at = (at + 7) % 60
            file = tmp_path / f"d{at}/f{at}.txt"
            file.unlink(missing_ok=True)
            file.parent.rename(tmp_path / f"e{at}")
            (tmp_path / f"e{at}").rename(file.parent)
            file.write_text("needle\n" * 500)
            with file.open("r+") as opened:
                opened.truncate(3)

    changing = threading.Thread(target=churn)
    changing.start()
    try:
        for _ in range(30):
            for path in (*await texts(folder), *await names(folder, "*.txt")):
                assert path.endswith(".txt")
    finally:
        stop.set()
        changing.join()


async def test_unreadable_directories_and_documents_are_skipped(
    tmp_path: Path,
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    make(tmp_path, {"a/needle.txt": "needle", "b/needle.txt": "needle", "c.txt": "needle"})
    (tmp_path / "a").chmod(0)
    (tmp_path / "b/needle.txt").chmod(0)
    try:
        assert await texts(Filesystem(tmp_path)) == ["c.txt"]
    finally:
        (tmp_path / "a").chmod(0o700)


async def test_a_root_that_is_gone_is_not_found(tmp_path: Path) -> None:
    folder = Filesystem(tmp_path / "absent")
    for where in ("names", "text"):
        with pytest.raises(ResourceNotFound):
            await look(folder, WORD, where)


async def test_too_many_open_files_do_not_cause_an_empty_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {"a.txt": "needle"})
    folder = Filesystem(tmp_path)
    assert await texts(folder) == ["a.txt"]
    opened = os.open

    def failing(path: Any, *rest: Any, **options: Any) -> int:
        if path == "a.txt":
            raise OSError(24, "too many")
        return opened(path, *rest, **options)

    # Patched: a real limit would hit other descriptors of the process first.
    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(ResourceBusy):
        await texts(folder)


async def test_documents_over_the_limit_are_searched_whatever_their_claimed_size(
    tmp_path: Path,
) -> None:
    make(tmp_path, {"a.txt": b"needle" * 100_000, "b.txt": "needle"})
    with (tmp_path / "sparse.txt").open("wb") as sparse:
        sparse.truncate(1 << 40)
    assert await texts(Filesystem(tmp_path, max_size=ByteSize(1000))) == ["b.txt", "a.txt"]
    assert await texts(Filesystem(tmp_path)) == ["b.txt", "a.txt"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
async def test_a_file_without_a_size_is_read_to_its_end() -> None:
    folder = Filesystem(Path("/proc/sys/kernel"))
    assert "ostype" in await texts(folder, "linux")


@pytest.mark.parametrize("where", ["names", "text"])
@given(
    files=st.lists(st.text("abn./", min_size=1, max_size=9), max_size=30),
    limit=st.integers(1, 5),
    hurried=st.booleans(),
    counted=st.booleans(),
    below=st.booleans(),
)
async def test_each_hit_is_on_exactly_one_page(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[str],
    where: Where,
    limit: int,
    *,
    hurried: bool,
    counted: bool,
    below: bool,
) -> None:
    root = tmp_path_factory.mktemp("root")
    for name in files:
        file = root / "top" / ("x/" + name).replace(".", "_").replace("//", "/").strip("/")
        if not any(up.is_file() for up in file.parents) and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("n" if "n" in name else "m")
    (root / "top").mkdir(exist_ok=True)
    folder = Filesystem(root)
    place = ("top",) if below else ()
    whole = paths(await look(folder, "n", where, below=place))
    if hurried:
        folder.timing = Timing(search_document_s=0.0)
    time_s = 0.0 if hurried else 10.0
    count_s = 20.0 if counted else 0.0
    options = {"below": place, "limit": limit, "time_s": time_s, "count_s": count_s}
    paged = await pages(folder, "n", where, **options)
    assert sorted(paged) == sorted(whole)
    if not hurried and (counted or where == "names"):
        assert paged == whole


async def test_the_pages_of_a_window_end_with_it(tmp_path: Path) -> None:
    make(tmp_path, {f"{folder}/{at}.txt": "needle" for folder in "abc" for at in range(3)})
    folder = Filesystem(tmp_path)
    after = "a/0.txt\0b/1.txt\x000\0-"
    for is_there in (True, False):
        found = await look(folder, WORD, after=after)
        assert paths(found) == ["a/1.txt", "a/2.txt", "b/0.txt", "b/1.txt"][: 3 + is_there]
        assert (found.next, found.looked_at) == ("b/1.txt", 0)
        (tmp_path / "b/1.txt").unlink(missing_ok=True)
    rest = await look(folder, WORD, after="b/1.txt")
    assert paths(rest) == ["b/2.txt", "c/0.txt", "c/1.txt", "c/2.txt"]


async def test_matches_after_a_page_are_counted_on_each_page_of_its_window(tmp_path: Path) -> None:
    make(tmp_path, {f"{at}.txt": "needle\n" * at for at in range(10)})
    folder, after, counts = Filesystem(tmp_path), None, list[tuple[int, bool]]()
    while True:
        page = await look(folder, WORD, limit=3, count_s=PATIENCE_S, after=after)
        counts.append((page.beyond, page.is_counted))
        after = page.next
        if after is None:
            break
    assert counts == [(39, True), (24, True), (0, True)]


@given(
    documents=st.lists(
        st.lists(st.sampled_from(["red", "red tea", "a tea pot", "pot of red tea", "plum", "\0"])),
        max_size=8,
    ),
    words=st.permutations(["red", "tea", "pot", "plum"]),
    count=st.integers(2, 4),
    limit=st.integers(1, 8),
    lines=st.sampled_from([1, 7, 20]),
    max_size=st.sampled_from([9, 100_000]),
)
async def test_one_pass_finds_what_a_pass_for_each_way_of_the_words_finds(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[list[str]],
    words: list[str],
    *,
    count: int,
    limit: int,
    lines: int,
    max_size: int,
) -> None:
    root = tmp_path_factory.mktemp("root")
    make(root, {f"{at}/x{at % 3}.txt": "\n".join(each) for at, each in enumerate(documents)})
    make(
        root, {"latin.txt": "tea\nred, é".encode("latin-1"), "late.txt": "red " * 20_000 + "\ntea"}
    )
    asked = SearchRequest(
        text=" ".join(words[:count]),
        words=tuple(words[:count]),
        where="text",
        lines=lines,
        count_s=PATIENCE_S,
    )
    folder = Filesystem(root, max_size=ByteSize(max_size))
    options: dict[str, Any] = {
        "below": (),
        "after": None,
        "deadline": time.monotonic() + PATIENCE_S,
    }
    whole = await folder.search(structs.replace(asked, then=WAYS), **options, limit=limit)
    assert structs.replace(whole, later={}) == await folder.search(asked, **options, limit=limit)
    if max_size > 9 and len(whole.hits) < limit:
        assert "document" in whole.later
    room = limit - len(whole.hits)
    for way, page in whole.later.items():
        alone = structs.replace(asked, together=way)
        found = await folder.search(alone, **options, limit=max(room, 1))
        assert structs.replace(found, unsearched=()) == page
        room -= len(page.hits)


async def test_a_large_document_is_found_by_each_way_of_its_words(tmp_path: Path) -> None:
    make(tmp_path, {"line": "red tea\n" * 9, "document": "red\ntea\n" * 9, "most": "red\n" * 9})
    folder = Filesystem(tmp_path, max_size=ByteSize(9))
    asked = SearchRequest(text="red tea", words=("red", "tea"), where="text", then=WAYS)
    options: dict[str, Any] = {
        "below": (),
        "after": None,
        "deadline": time.monotonic() + PATIENCE_S,
    }
    for way in ("line", *WAYS):
        found = await folder.search(structs.replace(asked, together=way), **options, limit=9)
        assert paths(found) == [way]


DEFINED = {
    "db/models/query.py": "import copy\n\n\nclass QuerySet(AltersData):\n    pass\n",
    "admin/options.py": "for each in subclasses: self.get_queryset(each)\n" * 9,
    "admin/utils.py": "# the class QuerySet is imported late\n",
    "docs/howto.txt": "The class of a queryset\n",
    "conf/locale/pa/django.po": 'msgid "the class QuerySet"\n',
    "node_modules/orm/index.js": "the class QuerySet\n",
    "static/orm.min.js": "the class QuerySet",
}


async def test_a_definition_comes_before_uses_and_those_before_translations(
    tmp_path: Path,
) -> None:
    make(tmp_path, DEFINED)
    request = SearchRequest(text="class QuerySet", words=("class", "QuerySet"), where="text")
    page = await Filesystem(tmp_path).search(
        request, below=(), after=None, limit=100, deadline=time.monotonic() + PATIENCE_S
    )
    assert paths(page) == [
        "db/models/query.py",
        "admin/utils.py",
        "conf/locale/pa/django.po",
        "node_modules/orm/index.js",
        "static/orm.min.js",
        "docs/howto.txt",
        "admin/options.py",
    ]


async def test_a_search_continues_after_its_last_document_is_deleted(tmp_path: Path) -> None:
    make(tmp_path, {f"{folder}/{at}.txt": "needle" for folder in "abc" for at in range(3)})
    folder = Filesystem(tmp_path)
    first = await look(folder, WORD, limit=5)
    assert paths(first)[-1] == "b/1.txt"
    (tmp_path / "b/1.txt").unlink()
    rest = ["b/2.txt", "c/0.txt", "c/1.txt", "c/2.txt"]
    assert await texts(folder, after=first.next) == rest
    for file in (tmp_path / "b").iterdir():
        file.unlink()
    (tmp_path / "b").rmdir()
    assert await texts(folder, after=first.next) == rest[1:]


@pytest.mark.parametrize("where", ["names", "text"])
@pytest.mark.parametrize(
    "after", ["../x", "a//b", "b", "a\0../x", "a\0zzz", "\0zzz", "a\0a\0a", "\0" * 99]
)
async def test_a_forged_search_cursor_is_refused_or_harmless(
    tmp_path: Path, after: str, where: Where
) -> None:
    make(tmp_path, {"a/needle.txt": "needle", "b/needle.txt": "needle"})
    folder = Filesystem(tmp_path)
    try:
        found = await look(folder, WORD, where, below=("a",), after=after)
    except InvalidParameter:
        return
    assert not after.startswith(("b", ".", "a//"))
    assert {path.partition("/")[0] for path in paths(found)} <= {"a"}


def is_spent(_: object) -> bool:
    return True


async def test_a_truncated_search_reports_the_total(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {f"{folder}/{at}.txt": "x" for folder in "abc" for at in range(3)})
    folder = Filesystem(tmp_path)
    # Patched: how far a search gets in its time depends on the machine.
    monkeypatch.setattr(f"{file_search.__name__}._TimeShare.is_spent", is_spent)
    found = await look(folder, WORD)
    assert (found.looked_at, found.total, found.next) == (0, 9, "a")


async def test_a_document_that_exhausts_the_budget_is_skipped(tmp_path: Path) -> None:
    make(tmp_path, {"a.txt": b"a" * 3_000_000, "b.txt": "aab"})
    folder = Filesystem(tmp_path)
    folder.timing = Timing(search_document_s=0.0)
    found: list[str] = await pages(folder, "aab", "text", time_s=0.0)
    assert found == ["b.txt"]


@for_each("max_size", [ByteSize(10**7), ByteSize(1000)])
async def test_a_document_that_is_too_slow_only_on_a_later_page_is_named_there(
    tmp_path: Path, max_size: ByteSize
) -> None:
    filler = "x" * 79 + "\n"
    make(tmp_path, {"a.txt": "a needle\n" + filler * 9000, "b.txt": "class needle:"})
    found = await look(Filesystem(tmp_path, max_size=max_size), WORD, limit=1, count_s=9)
    assert (paths(found), found.unsearched) == (["b.txt"], ())
    folder = Filesystem(tmp_path, max_size=max_size)
    folder.timing = Timing(search_document_s=0.0)
    gaps: list[Unsearched] = []
    while found.next is not None:
        found = await look(folder, WORD, limit=1, time_s=0.0, after=found.next)
        assert not found.hits
        gaps += found.unsearched
    assert gaps == [Unsearched(("a.txt",), "too slow to search")]


async def test_a_large_document_that_ends_out_of_time_on_a_later_page_is_shown_once(
    tmp_path: Path,
) -> None:
    filler = "x" * 79 + "\n"
    make(tmp_path, {"a.txt": f"a needle\n{filler * 9000}class needle:", "b.txt": "a needle"})
    folder = Filesystem(tmp_path, max_size=ByteSize(1000))
    found = await look(folder, WORD, limit=1, count_s=9)
    shown = paths(found)
    folder = Filesystem(tmp_path, max_size=ByteSize(1000))
    folder.timing = Timing(search_document_s=0.0)
    while found.next is not None:
        found = await look(folder, WORD, limit=1, time_s=0.0, after=found.next)
        shown += paths(found)
    assert shown == ["a.txt", "b.txt"]


async def test_an_expression_prone_to_backtracking_ends_at_its_deadline(tmp_path: Path) -> None:
    make(tmp_path, {"a.txt": "ab" * 2_000_000, "b.txt": "x" * 100})
    found = await look(Filesystem(tmp_path), "/(a|b)*a(a|b){60}c/", time_s=0.3)
    assert not found.hits
    assert found.looked_at < 2 or found.next is None


async def test_a_cancelled_search_ends_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {f"{at}.txt": "x" for at in range(100)})
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    looked: list[str] = []
    matches = file_search.DocumentSearcher.matches

    def slowly(self: Any, fd: int, size: int, path: Address, *rest: Any) -> Any:
        looked.append(path[-1])
        begun.set()
        go_on.wait(10)
        return matches(self, fd, size, path, *rest)

    # Patched: the cancellation has to fall into the search of a document.
    monkeypatch.setattr(file_search.DocumentSearcher, "matches", slowly)
    close = WalkFrame.close

    def closing(frame: WalkFrame) -> None:
        close(frame)
        ended.set()

    # Patched: nothing else shows that the thread has ended.
    monkeypatch.setattr(WalkFrame, "close", closing)
    task = asyncio.ensure_future(look(Filesystem(tmp_path), WORD))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    assert await asyncio.to_thread(ended.wait, 10)
    assert len(looked) <= 2


class Disk:
    """A disk that hangs: every search of a document waits until it goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._looks = threading.Semaphore(0)
        self._goes_on = threading.Event()
        matches = file_search.DocumentSearcher.matches

        def waiting(document: Any, *rest: Any) -> Any:
            self._looks.release()
            self._goes_on.wait(10)
            return matches(document, *rest)

        # Patched: no real disk hangs on demand.
        monkeypatch.setattr(file_search.DocumentSearcher, "matches", waiting)

    async def looks(self, count: int) -> None:
        """Wait for this many more searches to reach it."""
        for _ in range(count):
            assert await asyncio.to_thread(self._looks.acquire, timeout=PATIENCE_S)

    @property
    def is_asked(self) -> bool:
        return self._looks.acquire(blocking=False)

    def go_on(self) -> None:
        self._goes_on.set()


async def test_hanging_searches_take_a_limited_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {"a.txt": "needle"})
    disk = Disk(monkeypatch)
    folder = Filesystem(tmp_path)
    tasks = [asyncio.ensure_future(look(folder, WORD)) for _ in range(20)]
    await disk.looks(4)
    assert await names(Filesystem(tmp_path), "a") == ["a.txt"]
    assert not disk.is_asked
    disk.go_on()
    assert all(paths(found) == ["a.txt"] for found in await asyncio.gather(*tasks))


async def test_a_cancelled_search_keeps_its_slot_until_its_thread_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {"a.txt": "needle"})
    disk = Disk(monkeypatch)
    folder = Filesystem(tmp_path)
    folder.timing = Timing(search_grace_s=0.0)
    tasks = [asyncio.ensure_future(look(folder, WORD)) for _ in range(12)]
    await disk.looks(4)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended)
    with pytest.raises(DeadlineExceeded, match="has not ended in time"):
        await look(folder, WORD, time_s=0.1)
    assert not disk.is_asked
    disk.go_on()
    assert await texts(folder) == ["a.txt"]


async def test_a_search_cancelled_at_any_moment_frees_its_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {"a.txt": "needle"})
    folder = Filesystem(tmp_path)
    for turns in range(12):
        tasks = [asyncio.ensure_future(look(folder, WORD)) for _ in range(6)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    disk = Disk(monkeypatch)
    tasks = [asyncio.ensure_future(look(folder, WORD)) for _ in range(4)]
    await disk.looks(4)
    disk.go_on()
    assert all(paths(found) == ["a.txt"] for found in await asyncio.gather(*tasks))


class Hours:
    """The time of the searches, which passes only where a test lets it."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    hours = Hours()
    # Patched: real time would make the shares of the searches depend on the machine.
    monkeypatch.setattr(file_search, "time", hours)
    return hours


async def test_a_search_that_waited_for_others_still_has_its_time_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: Hours
) -> None:
    make(tmp_path, {f"{at}.txt": WORD for at in range(9)})
    disk = Disk(monkeypatch)
    folder = Filesystem(tmp_path)
    sought = SearchRequest(text=WORD, where="text")

    async def one() -> SearchPage:
        return await folder.search(sought, below=(), after=None, limit=99, deadline=60.0)

    tasks = [asyncio.ensure_future(one()) for _ in range(5)]
    await disk.looks(4)
    hours.now = 60.1
    disk.go_on()
    found = await asyncio.gather(*tasks)
    assert sorted(len(each.hits) for each in found) == [1, 1, 1, 1, 9]


async def test_concurrent_searches_share_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: Hours
) -> None:
    make(tmp_path, {f"{at:03}.txt": "x" for at in range(200)})
    # Patched: with one thread it is certain which search goes how far.
    monkeypatch.setattr(file_search, "_MAX_SEARCHES", 1)
    matches = file_search.DocumentSearcher.matches
    all_wait = threading.Event()

    def taking_time(self: Any, *rest: Any) -> Any:
        assert all_wait.wait(30)
        hours.now += 1.0
        return matches(self, *rest)

    # Patched: each document takes a second of the test's own clock.
    monkeypatch.setattr(file_search.DocumentSearcher, "matches", taking_time)
    folder = Filesystem(tmp_path)
    sought = SearchRequest(text=WORD, where="text")

    async def one() -> SearchPage:
        return await folder.search(sought, below=(), after=None, limit=99, deadline=100.0)

    tasks = [asyncio.ensure_future(one()) for _ in range(5)]
    for _ in range(100):
        await asyncio.sleep(0)
    all_wait.set()
    found = await asyncio.gather(*tasks)
    assert all(15 <= each.looked_at <= 25 for each in found), [each.looked_at for each in found]


async def test_the_loop_stays_responsive_during_a_large_search(tmp_path: Path) -> None:
    make(tmp_path, {f"{at // 100}/{at}.txt": "word " * 2000 for at in range(3000)})
    folder = Filesystem(tmp_path)
    searching = asyncio.ensure_future(look(folder, "/w(o|0)+rd +z/"))
    turns = 0
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert not (await searching).hits
    assert turns > 100


async def test_a_count_of_more_lines_than_are_counted_is_not_exact(tmp_path: Path) -> None:
    make(tmp_path, {"a": WORD, "b": f"{WORD}\n" * 12_000})
    request = SearchRequest(text=WORD, where="text", count_s=PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    page = await Filesystem(tmp_path).search(
        request, below=(), after=None, limit=1, deadline=deadline
    )
    assert (page.beyond, page.is_counted) == (10_000, False)


async def test_a_picture_that_is_searched_alone_is_said_to_be_no_text(tmp_path: Path) -> None:
    make(tmp_path, {"a.png": b"\x89PNG", "b": b"\x00\x01"})
    for name in ("a.png", "b"):
        page = await look(Filesystem(tmp_path), "nowhere", below=(name,))
        assert [gap.why for gap in page.unsearched] == ["not text"]


@pytest.mark.deep
async def test_an_index_is_advised_once_for_many_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, {f"{number}.txt": b"" for number in range(file_search.MANY_DOCUMENTS + 1)})
    folder = Filesystem(tmp_path)
    for _ in range(2):
        await look(folder, WORD, time_s=100)
    (said,) = [each.message for each in caplog.records if "index: true" in each.message]
    assert said.startswith(f"searches of {tmp_path} look into 20001 files; ")
