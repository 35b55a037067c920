from __future__ import annotations

import asyncio
import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import threading
import zipfile
from collections.abc import Callable, Mapping, Set
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from plugins.archive import Archive
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.contract_guard import GuardedProvider
from resource_server.catalog.mount import Mount
from resource_server.errors import (
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import ByteSize, Change, Resource
from resource_server.provider import Path as Member
from resource_server.subscriptions.interest import MountInterest
from resource_server.testing import check_provider, client
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

FILES = {
    "README.md": b"# Release\n",
    "docs/guide/install.md": b"pip install\n",
    "docs/index.md": "Grüße\n".encode(),
    "docs/empty": b"",
    "docs/\U0001f642 a#b?c%.txt": b"odd\n",
    "image.png": b"\x89PNG\r\n\x1a\n\0",
    "latin": "Grüße".encode("latin-1"),
}


def zip_of(file: Path, files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 2, 29, 12, 0, 0)), data, method)
    return file


def tar_bytes(files: Mapping[str, bytes], *extra: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1709208000
            archive.addfile(info, io.BytesIO(data))
        for info in extra:
            archive.addfile(info)
    return buffer.getvalue()


def tar_of(file: Path, files: Mapping[str, bytes], *extra: tarfile.TarInfo) -> Path:
    file.write_bytes(tar_bytes(files, *extra))
    return file


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


async def paths(archive: Archive) -> list[str]:
    return ["/".join(found.path) for found in await below(archive)]


async def below(archive: Archive) -> list[Resource]:
    return await GuardedProvider(archive).below((), (), 1000)


async def body(archive: Archive, path: str, **query: str) -> str | bytes:
    return (await archive.read(tuple(path.split("/")), query))[0].data


def stored(file: Path) -> Path:
    return zip_of(file, FILES, zipfile.ZIP_STORED)


def packed(pack: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    def make(file: Path) -> Path:
        file.write_bytes(pack(tar_bytes(FILES)))
        return file

    return make


MAKERS: dict[str, Callable[[Path], Path]] = {
    "zip": lambda file: zip_of(file, FILES),
    "stored zip": stored,
    "tar": packed(bytes),
    "tar.gz": packed(gzip.compress),
    "tar.bz2": packed(bz2.compress),
    "tar.xz": packed(lzma.compress),
}


@pytest.fixture(params=MAKERS.values(), ids=list(MAKERS))
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return request.param(tmp_path / "archive")


async def test_every_format_keeps_the_contract(file: Path) -> None:
    await check_provider(Archive(file))


async def test_every_format_has_the_same_tree_and_bodies(file: Path) -> None:
    archive = Archive(file)
    assert await paths(archive) == [
        "README.md",
        "docs",
        "docs/empty",
        "docs/guide",
        "docs/guide/install.md",
        "docs/index.md",
        "docs/\U0001f642 a#b?c%.txt",
        "image.png",
        "latin",
    ]
    for name, data in FILES.items():
        found = await body(archive, name)
        assert (found if isinstance(found, bytes) else found.encode()) == data


async def test_members_are_found_by_name_and_content(file: Path) -> None:
    async with Catalog([Mount("a", "archive://a/", Archive(file))]) as catalog:
        named = await catalog.search("*.MD", where="names")
        assert [hit.entry.uri for hit in named.hits] == [
            "archive://a/README.md",
            "archive://a/docs/index.md",
            "archive://a/docs/guide/install.md",
        ]
        text = str(FILES["docs/index.md"], "utf-8").split()[0]
        found = await catalog.search(text, where="text")
        assert "archive://a/docs/index.md" in [hit.entry.uri for hit in found.hits]


async def test_utf_8_is_text_and_anything_else_is_bytes(file: Path) -> None:
    archive = Archive(file)
    assert await body(archive, "docs/index.md") == "Grüße\n"
    assert await body(archive, "image.png") == FILES["image.png"]
    assert await body(archive, "latin") == FILES["latin"]


async def test_metadata_has_type_size_and_time(file: Path) -> None:
    found = await Archive(file).metadata(("docs", "index.md"))
    assert (found.mime_type, found.size) == ("text/markdown", 8)
    assert isinstance(found.last_modified, datetime)
    assert found.last_modified.isoformat() == "2024-02-29T12:00:00+00:00"


async def test_a_range_is_read_with_a_reference_to_the_rest(file: Path) -> None:
    archive = Archive(file, max_size=ByteSize(4))
    [content] = await archive.read(("docs", "guide", "install.md"), {"bytes": "4-"})
    assert content.data == "inst"
    assert content.truncated is not None
    assert (content.truncated.total, content.truncated.next) == (12, {"bytes": "8-11"})
    [rest] = await archive.read(("docs", "guide", "install.md"), {"bytes": "8-11"})
    assert (rest.data, rest.truncated and rest.truncated.next) == ("all\n", None)


async def test_a_member_over_the_limit_is_refused_with_its_first_range(file: Path) -> None:
    archive = Archive(file, max_size=ByteSize(4))
    with pytest.raises(ResourceTooLarge) as caught:
        await body(archive, "README.md")
    assert caught.value.next == {"bytes": "0-3"}


@pytest.mark.parametrize(
    "value", ["", "-", "5-2", "10-", "-5", "1-2-3", "x-y", "0-1,2-3", "\u0660-\u0663"]
)
async def test_an_unusable_range_is_an_invalid_parameter(tmp_path: Path, value: str) -> None:
    archive = Archive(zip_of(tmp_path / "a", FILES))
    with pytest.raises(InvalidParameter, match="bytes"):
        await body(archive, "README.md", bytes=value)


async def test_a_limit_of_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_size"):
        Archive(tmp_path / "a", max_size=ByteSize(0))


HOSTILE = [
    "/etc/passwd",
    "../up.txt",
    "a/../../up.txt",
    "a/./b.txt",
    "a//b.txt",
    "..",
    "a\\b.txt",
    "..\\up.txt",
    "C:/windows.txt",
    "c:up.txt",
    "a/" * 300 + "deep.txt",
    "n" * 5000,
    ".env",
    ".git/config",
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: name[:20])
@pytest.mark.parametrize("make", [zip_of, tar_of], ids=["zip", "tar"])
async def test_a_hostile_name_is_hidden_and_its_neighbour_is_visible(
    tmp_path: Path, make: Callable[[Path, Mapping[str, bytes]], Path], name: str
) -> None:
    archive = Archive(make(tmp_path / "a", {name: b"x", "b.txt": b"fine"}))
    assert await paths(archive) == ["b.txt"]
    assert await body(archive, "b.txt") == "fine"


async def test_hidden_names_are_visible_on_request(tmp_path: Path) -> None:
    archive = Archive(zip_of(tmp_path / "a", {".github/ci.yml": b"on: push"}), hidden=True)
    assert await body(archive, ".github/ci.yml") == "on: push"


async def test_a_zip_name_with_a_nul_is_not_truncated_to_another_name(tmp_path: Path) -> None:
    file = zip_of(tmp_path / "a", {"a.txtXevil": b"x", "b.txt": b"fine"})
    file.write_bytes(file.read_bytes().replace(b"a.txtXevil", b"a.txt\0evil"))
    assert await paths(Archive(file)) == ["b.txt"]


async def test_links_and_devices_are_hidden_and_files_are_visible(tmp_path: Path) -> None:
    links = [
        special("symlink", tarfile.SYMTYPE, "/etc/passwd"),
        special("hardlink", tarfile.LNKTYPE, "b.txt"),
        special("fifo", tarfile.FIFOTYPE),
        special("device", tarfile.CHRTYPE),
    ]
    archive = Archive(tar_of(tmp_path / "a", {"b.txt": b"fine"}, *links))
    assert await paths(archive) == ["b.txt"]


async def test_a_symlink_in_a_zip_is_hidden(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a", "w") as made:
        made.writestr(link, "/etc/passwd")
        made.writestr("b.txt", "fine")
    assert await paths(Archive(tmp_path / "a")) == ["b.txt"]


async def test_an_encrypted_member_is_hidden(tmp_path: Path) -> None:
    file = zip_of(tmp_path / "a", {"secret": b"x", "b.txt": b"fine"})
    data = bytearray(file.read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1
    file.write_bytes(data)
    assert await paths(Archive(file)) == ["b.txt"]


async def test_names_in_cp437_and_names_that_are_not_utf_8_are_decoded(tmp_path: Path) -> None:
    old = zip_of(tmp_path / "old.zip", {"u?.txt": b"x"})
    old.write_bytes(old.read_bytes().replace(b"u?.txt", b"u\x81.txt"))
    assert await paths(Archive(old)) == ["uü.txt"]
    raw = tmp_path / "raw.tar"
    with tarfile.open(raw, "w", format=tarfile.GNU_FORMAT, encoding="latin-1") as made:
        made.addfile(tarfile.TarInfo("ü.txt"))
    assert await paths(Archive(raw)) == ["\udcfc.txt"]
    await check_provider(Archive(raw))


async def test_the_last_of_two_members_with_the_same_name_wins(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(
        tar_bytes({"a": b"1", "b/c": b"1"})[:-10240] + tar_bytes({"a/d": b"2", "b": b"2"})
    )
    archive = Archive(file)
    assert await paths(archive) == ["a", "a/d", "b"]
    assert await body(archive, "b") == "2"


async def test_empty_archives_are_empty_collections(tmp_path: Path) -> None:
    for make in (zip_of, tar_of):
        assert await paths(Archive(make(tmp_path / "a", {}))) == []


async def test_an_unknown_query_parameter_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="'line'"):
        await body(Archive(zip_of(tmp_path / "a", FILES)), "README.md", line="1")


async def test_completion_extends_a_path_by_one_segment(file: Path) -> None:
    archive = Archive(file)
    assert await archive.complete("path", "do", given={}) == ["docs/"]
    assert await archive.complete("path", "docs/", given={}) == [
        "docs/empty",
        "docs/guide/",
        "docs/index.md",
        "docs/\U0001f642 a#b?c%.txt",
    ]
    assert await archive.complete("path", "docs/nowhere/x", given={}) == []
    assert await archive.complete("path", "README.md/x", given={}) == []


# -- bombs and damage


def declare(file: Path, size: int) -> Path:
    """Overwrite the unpacked size that a ZIP's directory claims for its first member."""
    data = bytearray(file.read_bytes())
    struct.pack_into("<L", data, data.index(b"PK\1\2") + 24, size)
    file.write_bytes(data)
    return file


async def test_a_bomb_that_understates_its_size_is_damaged_and_an_honest_member_is_read(
    tmp_path: Path,
) -> None:
    bomb = declare(zip_of(tmp_path / "bomb", {"a": bytes(50_000_000)}), 100)
    with pytest.raises(OSError, match="damaged"):
        await body(Archive(bomb), "a")
    honest = Archive(zip_of(tmp_path / "honest", {"a": bytes(100)}))
    assert await body(honest, "a") == bytes(100)


async def test_a_bomb_that_declares_its_size_is_too_large_but_readable_in_ranges(
    tmp_path: Path,
) -> None:
    archive = Archive(zip_of(tmp_path / "bomb", {"a": bytes(50_000_000)}))
    with pytest.raises(ResourceTooLarge):
        await body(archive, "a")
    assert await body(archive, "a", bytes="49999998-") == bytes(2)


async def test_a_range_beyond_the_unpacking_limit_is_refused(tmp_path: Path) -> None:
    archive = Archive(zip_of(tmp_path / "a", {"a": bytes(5000)}), max_unpacked=ByteSize(4000))
    with pytest.raises(InvalidParameter, match="4000"):
        await body(archive, "a", bytes="4500-")
    assert await body(archive, "a", bytes="3000-3001") == bytes(2)


async def test_a_stored_member_is_not_read_beyond_its_end(tmp_path: Path) -> None:
    file = zip_of(tmp_path / "a", {"a": b"1", ".secret": b"x" * 100}, zipfile.ZIP_STORED)
    assert await paths(Archive(declare(file, 50))) == []


async def refused(archive: Archive) -> str:
    with pytest.raises(MountUnavailable) as caught:
        async with archive:
            pass
    return str(caught.value)


async def test_a_compressed_tar_that_unpacks_endlessly_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(gzip.compress(tar_bytes({"zero": bytes(5_000_000), "b": b""})))
    limit = ByteSize(1_000_000)
    assert "larger than max_unpacked" in await refused(Archive(file, max_unpacked=limit))
    async with Archive(file) as archive:
        assert await paths(archive) == ["b", "zero"]


async def test_an_oversized_header_is_not_read(tmp_path: Path) -> None:
    info = special("././@PaxHeader", tarfile.XHDTYPE)
    info.size = 10_000_000
    header = info.tobuf(tarfile.USTAR_FORMAT) + bytes(10_000_000)
    file = tmp_path / "a"
    file.write_bytes(gzip.compress(header))
    assert "headers are too long" in await refused(Archive(file, max_members=1000))


@pytest.mark.parametrize("make", [zip_of, tar_of], ids=["zip", "tar"])
async def test_more_members_than_allowed_are_refused(
    tmp_path: Path, make: Callable[[Path, Mapping[str, bytes]], Path]
) -> None:
    file = make(tmp_path / "a", {f"{number}/a": b"" for number in range(50)})
    assert "max_members" in await refused(Archive(file, max_members=99))
    async with Archive(file, max_members=100) as archive:
        assert len(await paths(archive)) == 100


async def test_a_self_referential_tar_is_refused(tmp_path: Path) -> None:
    first = special("first", tarfile.REGTYPE).tobuf(tarfile.GNU_FORMAT)
    block = bytearray(special("loop", tarfile.REGTYPE).tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"\xff" * 10 + (0x10000 - 512).to_bytes(2, "big")  # a size of -512
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block)
    (tmp_path / "a").write_bytes(first + bytes(block) + bytes(1024))
    assert await refused(Archive(tmp_path / "a", max_members=1000))


NO_ARCHIVES: dict[str, Callable[[Path], object]] = {
    "missing": lambda file: None,
    "a folder": lambda file: file.mkdir(),
    "a FIFO": os.mkfifo,
    "empty": lambda file: file.write_bytes(b""),
    "text": lambda file: file.write_bytes(b"no archive" * 100),
    "a truncated zip": lambda file: file.write_bytes(zip_of(file, FILES).read_bytes()[:-30]),
    "a truncated tar": lambda file: file.write_bytes(tar_bytes({"a": bytes(5000)})[:3000]),
    "a truncated tar.gz": lambda file: file.write_bytes(
        gzip.compress(tar_bytes({"a": os.urandom(5000)}))[:3000]
    ),
    "a damaged tar": lambda file: file.write_bytes(
        tar_bytes({"a": b"1", "b": b"2"}).replace(b"ustar", b"USTAR").replace(b"USTAR", b"ustar", 1)
    ),
    "an endless chain of headers": lambda file: file.write_bytes(
        special("x", tarfile.XGLTYPE).tobuf(tarfile.USTAR_FORMAT) * 3000
    ),
}


@pytest.mark.parametrize("make", NO_ARCHIVES.values(), ids=NO_ARCHIVES)
async def test_an_incomplete_archive_is_refused_by_name(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "release.zip")
    assert "release.zip" in await refused(Archive(tmp_path / "release.zip"))


async def test_a_damaged_member_is_an_error_and_the_others_are_read(tmp_path: Path) -> None:
    file = zip_of(tmp_path / "a", {"a": b"aaaa", "b": b"bbbb"}, zipfile.ZIP_STORED)
    file.write_bytes(file.read_bytes().replace(b"aaaa", b"aaXa", 1))
    archive = Archive(file)
    with pytest.raises(OSError, match="damaged"):
        await body(archive, "a")
    assert await body(archive, "b") == "bbbb"


# -- replacement


async def test_a_replaced_archive_is_served_at_the_next_request(file: Path) -> None:
    async with Archive(file) as archive:
        before = await archive.metadata(())
        other = tar_of(file.with_name("other"), {"new.txt": b"new"})
        other.replace(file)
        assert await paths(archive) == ["new.txt"]
        assert await body(archive, "new.txt") == "new"
        with pytest.raises(ResourceNotFound):
            await body(archive, "README.md")
        assert (await archive.metadata(())).version != before.version


async def test_an_archive_that_vanishes_is_busy_until_it_is_back(tmp_path: Path) -> None:
    file = zip_of(tmp_path / "a", FILES)
    async with Archive(file) as archive:
        file.unlink()
        with pytest.raises(ResourceBusy) as caught:
            await paths(archive)
        assert str(tmp_path) not in str(caught.value)
        zip_of(file, {"b": b"back"})
        assert await body(archive, "b") == "back"


@pytest.mark.parametrize("make", [zip_of, tar_of], ids=["zip", "tar"])
@pytest.mark.parametrize("name", ["docs/index.md", "docs/new.md"])
async def test_a_changed_or_new_member_is_reported(
    tmp_path: Path, make: Callable[[Path, Mapping[str, bytes]], Path], name: str
) -> None:
    file = make(tmp_path / "a", FILES)

    def make_change() -> tuple[str, ...]:
        make(tmp_path / "b", {**FILES, name: b"new"}).replace(file)
        return tuple(name.split("/"))

    await check_provider(Archive(file), make_change=make_change)


async def test_in_a_replaced_zip_only_changed_members_have_a_new_version(tmp_path: Path) -> None:
    async def versions(files: Mapping[str, bytes]) -> dict[str, str | None]:
        found = await below(Archive(zip_of(tmp_path / "a", files)))
        return {"/".join(r.path): r.version for r in found if r.type == "document"}

    before = await versions(FILES)
    after = await versions({"first": b"", **FILES, "README.md": b"# Relaese\n", "latin": b"Gr"})
    assert {name for name in before if before[name] != after[name]} == {"README.md", "latin"}


class Impatient(MountInterest):
    """Has the file looked at more often than once a second."""

    async def next(self, within: float | None = None) -> tuple[Set[Member], Set[Member]]:
        return await super().next(within and 0.02)


async def test_an_archive_that_vanishes_and_returns_is_reported_each_time(tmp_path: Path) -> None:
    file = zip_of(tmp_path / "a", FILES)
    interest = Impatient()
    interest.listing = True
    async with Archive(file) as archive:
        changes = archive.changes(interest)
        interest.add(("README.md",))
        assert await anext(changes) == Change(("README.md",))
        file.unlink()
        assert await anext(changes) == Change(("README.md",))
        assert await anext(changes) == Change((), "children")
        zip_of(file, FILES)
        assert await anext(changes) == Change(("README.md",))
        assert await anext(changes) == Change((), "children")


@pytest.mark.parametrize("make", [zip_of, tar_of], ids=["zip", "tar"])
async def test_a_replaced_archive_reports_directories_with_different_children(
    tmp_path: Path, make: Callable[[Path, Mapping[str, bytes]], Path]
) -> None:
    file = make(tmp_path / "a", FILES)
    interest = Impatient()
    interest.listing = True
    interest.add(("README.md",))
    async with Archive(file) as archive:
        changes = archive.changes(interest)
        readme = Change(("README.md",))
        assert await anext(changes) == readme
        more = {**FILES, "docs/guide/other": b"", "new/deep/file": b""}
        make(tmp_path / "b", more).replace(file)
        assert await anext(changes) == readme
        told = {await anext(changes) for _ in range(4)}
        collections = [(), ("docs", "guide"), ("new",), ("new", "deep")]
        assert told == {Change(path, "children") for path in collections}
        for change in (lambda: os.utime(file), lambda: make(file, dict.fromkeys(more, b"other"))):
            change()
            assert await anext(changes) == readme
        interest.add(("last",))
        assert await anext(changes) == Change(("last",))


async def test_names_that_may_have_been_listed_between_two_changes_are_reported(
    tmp_path: Path,
) -> None:
    file = zip_of(tmp_path / "a", FILES)
    interest = MountInterest()
    interest.add(())
    async with Archive(file) as archive:
        changes = archive.changes(interest)
        assert await anext(changes) == Change(())
        for files in ({"other": b""}, FILES):
            zip_of(tmp_path / "b", files).replace(file)
            await paths(archive)
        assert await anext(changes) == Change((), "children")


async def test_a_change_before_the_first_subscription_is_reported(tmp_path: Path) -> None:
    file = zip_of(tmp_path / "a", FILES)
    interest = MountInterest()
    async with Archive(file) as archive:
        zip_of(file, {**FILES, "new": b"new"})
        changes = archive.changes(interest)
        interest.listing = True
        assert await anext(changes) == Change((), "children")


async def test_a_hanging_file_system_does_not_delay_the_end(tmp_path: Path) -> None:
    looks, hangs = threading.Event(), threading.Event()

    class Hanging(Archive):
        def _look(self) -> tuple[int, ...] | None:
            looks.set()
            hangs.wait()
            return super()._look()

    interest = MountInterest()
    interest.add(())
    changes = Hanging(zip_of(tmp_path / "a", FILES)).changes(interest)
    watch = asyncio.ensure_future(anext(changes))
    assert await asyncio.to_thread(looks.wait, PATIENCE_S)
    watch.cancel()
    try:
        await asyncio.wait([watch], timeout=PATIENCE_S)
        assert watch.cancelled()
    finally:
        hangs.set()


async def test_a_replaced_archive_notifies_of_the_members_that_differ(
    tmp_path: Path,
) -> None:
    file = zip_of(tmp_path / "a", FILES)
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    async with client(
        Archive(file), base="archive://a/", on_notification=told.put_nowait
    ) as connected:
        files: dict[str, bytes] = FILES
        # The notification after those of a replacement is of the next one.
        for added, changed in (
            (["README.md", "image.png", "latin"], ["README.md", "latin"]),
            (["docs/empty"], ["docs/empty"]),
        ):
            for name in added:
                await connected.request("resources/subscribe", {"uri": f"archive://a/{name}"})
            files = {**files, **dict.fromkeys(changed, b"new")}
            zip_of(tmp_path / "b", files).replace(file)
            messages = [await asyncio.wait_for(told.get(), PATIENCE_S) for _ in changed]
            uris = sorted(message["params"]["uri"] for message in messages)
            assert uris == [f"archive://a/{name}" for name in changed]


async def test_a_member_is_never_read_from_an_archive_that_is_being_replaced(
    tmp_path: Path,
) -> None:
    file = zip_of(tmp_path / "a", FILES)

    class Late(Archive):
        async def _current(self) -> Any:
            index = await super()._current()
            zip_of(file, {"README.md": b"other"})
            return index

    with pytest.raises(ResourceBusy, match="replaced"):
        await body(Late(file), "README.md")
    assert await body(Archive(file), "README.md") == "other"


async def test_reads_and_listings_leave_the_event_loop_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()
    open_file: Any = Path.open

    def opened(*args: Any, **options: Any) -> Any:
        threads.add(threading.current_thread())
        return open_file(*args, **options)

    archive = Archive(zip_of(tmp_path / "a", FILES))
    monkeypatch.setattr(Path, "open", opened)
    assert await body(archive, "README.md") == "# Release\n"
    assert threads
    assert threading.current_thread() not in threads
