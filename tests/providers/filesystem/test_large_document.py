"""Search of documents that are too large to be held: to their end, with the right line numbers."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resource_server.documents.encoding import TextEncoding
from resource_server.errors import InvalidParameter
from resource_server.provider import ByteSize
from resource_server.provider import Path as Address
from resource_server.provider.search import SearchPage, SearchRequest, Unsearched
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.large_document import LargeSearch, Place
from resource_server.runtime.timing import Timing
from resource_server.search.text_match import LineQuery
from tests.cases import for_each
from tests.protocol.tools.tooled import called, words
from tests.protocol.wire import Wire, server_of

pytestmark = pytest.mark.anyio

LATEST = "2025-11-25"
GIB = 1024**3
SMALL = ByteSize(1000)
"""A `max_size` above which documents are searched in blocks."""
LOG = "".join(
    f"line {number} needle\n" if number % 7 == 0 else "x\n" for number in range(1, 90_001)
)


def now(_: str = "") -> None:
    return None


def served(folder: Path) -> Filesystem:
    filesystem = Filesystem(folder, max_size=SMALL)
    filesystem.timing = Timing(search_document_s=0)
    return filesystem


async def page(
    folder: Filesystem, text: str, *, below: Address = (), after: str | None = None, **more: Any
) -> SearchPage:
    """Return a page that is as short as one can be."""
    asked = SearchRequest(text=text, where="text", lines=100_000, **more)
    return await folder.search(
        asked, below=below, after=after, limit=1000, deadline=time.monotonic()
    )


async def numbers(
    folder: Filesystem,
    text: str,
    below: Address = (),
    between: Callable[[int], object] = id,
    **more: Any,
) -> list[int]:
    """Return the numbers of all matching lines, page by page; `between` is called after each."""
    found: list[int] = []
    after: str | None = None
    count = 0
    while True:
        here = await page(folder, text, below=below, after=after, **more)
        found += [line.number for hit in here.hits for line in hit.lines]
        after, count = here.next, count + 1
        if after is None:
            return found
        between(count)


async def gaps(folder: Filesystem, text: str) -> list[Unsearched]:
    """Return what was not searched, of all pages."""
    found: list[Unsearched] = []
    after: str | None = None
    while True:
        here = await page(folder, text, after=after)
        found += [gap for gap in here.unsearched if gap.count]
        after = here.next
        if after is None:
            return found


# -- blocks

line = st.text("ab\x00é ", max_size=12)


@given(
    st.lists(line, max_size=40),
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "cp1252"]),
    st.sampled_from([64, 128, 256]),
    st.integers(0, 45),
    st.integers(1, 5),
)
@example(["ab"] * 10, "utf-8", 64, 3, 2)
def test_blocks_find_the_lines_that_the_whole_finds(
    lines: list[str], codec: str, size: int, after_line: int, keep: int
) -> None:
    text = "\n".join(lines)
    request = SearchRequest(text="ab", where="text", after_line=after_line)
    whole = LineQuery(request).matches(text.encode(), keep=1000)
    fd = os.memfd_create("document")
    try:
        os.write(fd, text.encode(codec))
        encoding = TextEncoding.detect(b"", codec)
        place: Place | None = Place(after_line=after_line)
        alone: list[tuple[int, str]] = []
        count = 0
        while place is not None:
            search = LargeSearch(fd, place, request, encoding, now, block_bytes=(size, size))
            found = search.stretch(keep, is_alone=True)
            alone += [(each.number, each.text) for each in found.matches.lines]
            count += found.matches.count
            place = found.next
        assert alone == [(each.number, each.text) for each in whole.lines]
        assert count == whole.count
        search = LargeSearch(
            fd, Place(after_line=after_line), request, encoding, now, block_bytes=(size, size)
        )
        found = search.stretch(1000, is_alone=False)
        assert (found.matches.lines, found.matches.count) == (whole.lines, whole.count)
        assert found.next is None
    finally:
        os.close(fd)


def test_a_line_longer_than_a_block_matches_once() -> None:
    fd = os.memfd_create("document")
    os.write(fd, b"first\n" + b"needle " * 30_000 + b"\nlast needle\n")
    search = LargeSearch(
        fd,
        Place(),
        SearchRequest(text="needle", where="text"),
        TextEncoding.detect(b"", "utf-8"),
        now,
        block_bytes=(16_384, 16_384),
    )
    found = search.stretch(9, is_alone=False).matches
    os.close(fd)
    assert ([each.number for each in found.lines], found.count) == ([2, 3], 2)


@for_each("codec", ["utf-8", "utf-16-le"])
def test_the_last_lines_match_once_though_no_line_end_follows(codec: str) -> None:
    # Over two overlaps, and less than a block.
    text = "x\n" * 6000 + "needle one\nfoo\nneedle two"
    fd = os.memfd_create("document")
    os.write(fd, text.encode(codec))
    request = SearchRequest(text="needle", where="text")
    search = LargeSearch(fd, Place(), request, TextEncoding.detect(b"", codec), now)
    found = search.stretch(9, is_alone=False).matches
    os.close(fd)
    assert [(each.number, each.text) for each in found.lines] == [
        (6001, "needle one"),
        (6003, "needle two"),
    ]
    assert found.count == 2


def test_a_block_is_decoded_in_pieces_between_which_the_search_can_end() -> None:
    mib = 1024**2
    checked = [time.thread_time()]

    def check() -> None:
        checked.append(time.thread_time())

    fd = os.memfd_create("document")
    # Lone surrogates: each is an error of the decoder.
    os.write(fd, "needle\n".encode("utf-16-le") + b"\x00\xdc" * (mib // 2))
    request = SearchRequest(text="needle", where="text")
    encoding = TextEncoding.detect(b"", "utf-16-le")
    search = LargeSearch(fd, Place(), request, encoding, check, block_bytes=(mib * 2, mib * 2))
    found = search.stretch(9, is_alone=False).matches
    check()
    os.close(fd)
    steps = [after - before for before, after in itertools.pairwise(checked)]
    assert (found.count, max(steps) < sum(steps) / 3) == (1, True)


long_line = st.builds(
    "".join, st.lists(st.sampled_from(["ab ", "needle ", "c", "\u010a "]), max_size=30)
)


@given(
    st.lists(long_line, min_size=1, max_size=14),
    st.sampled_from(["utf-8", "utf-16-le"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([0, 3]),
)
def test_blocks_of_a_document_number_and_count_lines_of_any_length(
    lines: list[str], codec: str, newline: str, after_line: int
) -> None:
    expected = [number for number, each in enumerate(lines, 1) if "needle" in each]
    fd = os.memfd_create("document")
    os.write(fd, newline.join(lines).encode(codec))
    request = SearchRequest(text="needle", where="text", after_line=after_line)
    encoding = TextEncoding.detect(b"", codec)
    for keep in (1000, 2):
        place: Place | None = Place(after_line=after_line)
        found: list[int] = []
        count = 0
        while place is not None:
            search = LargeSearch(
                fd, place, request, encoding, now, block_bytes=(64, 256), overlap=16
            )
            page = search.stretch(keep, is_alone=keep == 2)
            found += [each.number for each in page.matches.lines]
            count += page.matches.count
            place = page.next
        assert found == [at for at in expected if at > after_line]
        assert count == len(expected)
    os.close(fd)


def test_a_line_that_crosses_pages_is_quoted_with_the_first_only() -> None:
    lines = [*["needle"] * 19, "needle " * 30_000, *["needle"] * 30]
    fd = os.memfd_create("document")
    os.write(fd, "\n".join(lines).encode())
    request = SearchRequest(text="needle", where="text")
    place: Place | None = Place()
    pages: list[list[int]] = []
    count = 0
    while place is not None:
        encoding = TextEncoding.detect(b"", "utf-8")
        begin = Place.parse(place.text())
        search = LargeSearch(fd, begin, request, encoding, now, block_bytes=(16_384, 16_384))
        found = search.stretch(20, is_alone=True)
        pages.append([each.number for each in found.matches.lines])
        count += found.matches.count
        place = found.next
    os.close(fd)
    assert pages == [list(range(1, 21)), list(range(21, 41)), list(range(41, 51))]
    assert count == 50


def test_a_block_that_begins_within_a_character_is_checked_to_its_end() -> None:
    fd = os.memfd_create("document")
    os.write(fd, b"x" + "é".encode() * 40 + b"\n" + "größe\n".encode("latin-1"))
    request = SearchRequest(text="größe", where="text")
    encoding = TextEncoding.detect(b"", "utf-8")
    search = LargeSearch(fd, Place(), request, encoding, now, block_bytes=(64, 64), overlap=16)
    assert not search.stretch(9, is_alone=True).is_utf8
    os.close(fd)


# -- pages


@for_each("below", [(), ("app.log",)])
async def test_every_line_is_on_exactly_one_page(tmp_path: Path, below: Address) -> None:
    (tmp_path / "app.log").write_text(LOG)
    (tmp_path / "z.txt").write_text("needle")
    folder = served(tmp_path)
    expected = [number for number in range(1, 90_001) if number % 7 == 0]
    count: list[int] = []
    found = await numbers(folder, "needle", below, count.append)
    assert found[: len(expected)] == expected
    assert len(count) > 3
    assert found[len(expected) :] == ([] if below else [1])


async def test_an_unfinished_page_says_how_far_it_came(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(LOG)
    here = await page(served(tmp_path), "nowhere", below=("app.log",))
    (gap,) = here.unsearched
    assert (gap.path, gap.count) == (("app.log",), 0)
    assert gap.why.endswith("of 375KB searched so far")


async def test_utf16_is_searched_in_blocks_too(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes("\ufeff".encode("utf-16-le") + LOG.encode("utf-16-le"))
    found = await numbers(served(tmp_path), "line 89998 needle")
    assert found == []
    assert await numbers(served(tmp_path), "line 89999") == [89_999]
    assert await numbers(served(tmp_path), "line 89992 NEEDLE") == [89992]


async def test_an_expression_is_searched_in_blocks_too(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(LOG)
    found = await numbers(served(tmp_path), r"^line \d+99 needle$", is_pattern=True)
    assert found == [
        number for number in range(1, 90_001) if number % 7 == 0 and number % 100 == 99
    ]


async def test_large_text_in_another_encoding_is_searched_as_far_as_it_is_ascii(
    tmp_path: Path,
) -> None:
    (tmp_path / "app.log").write_bytes(LOG.encode() + "größe needle\n".encode("latin-1"))
    folder = served(tmp_path)
    assert (await numbers(folder, "needle"))[-1] == 90_001
    assert [gap.why for gap in await gaps(folder, "größe")] == [
        "partly not UTF-8, and too large to guess its encoding"
    ]


async def test_binary_documents_stay_unsearched_whatever_their_size(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"needle" * 1000)
    (tmp_path / "b").write_bytes(b"\0needle" * 1000)
    assert await numbers(served(tmp_path), "needle") == []
    assert [gap.why for gap in await gaps(served(tmp_path), "needle")] == ["not text"] * 2


async def test_matches_far_into_a_document_of_a_folder_are_shown_though_it_is_left(
    tmp_path: Path,
) -> None:
    with (tmp_path / "app.log").open("wb") as file:
        file.seek(4 * GIB)
        file.write(b"needle\n" + LOG.encode())
    (tmp_path / "z.txt").write_text("needle")
    folder = served(tmp_path)
    here = await page(folder, "needle")
    assert [hit.resource.path for hit in here.hits] == [("app.log",)]
    assert [gap.why for gap in here.unsearched] == ["4.0GB: its first 4.0GB were searched"]
    after = await page(folder, "needle", after=here.next)
    assert ([hit.resource.path for hit in after.hits], after.next) == ([("z.txt",)], None)


# -- documents that change


def appended(file: Path) -> None:
    file.write_text(LOG + "the end\n")


def cut(file: Path) -> None:
    os.truncate(file, 3)


def renewed(file: Path) -> None:
    file.unlink()
    file.write_text("the end\n" + LOG)


def piped(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def turned_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def linked(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Path.unlink, []),
        (cut, []),
        (appended, [90_001]),
        (renewed, [1]),
        (piped, []),
        (turned_directory, []),
        (linked, []),
    ],
)
async def test_a_document_that_changes_between_pages_is_searched_as_it_is(
    tmp_path: Path, change: Callable[[Path], object], expected: list[int]
) -> None:
    file = tmp_path / "app.log"
    file.write_text(LOG)
    # Kept: a new file gets another inode.
    os.link(file, tmp_path / ".kept")

    def once(count: int) -> None:
        if count == 1:
            change(file)

    assert await numbers(served(tmp_path), "the end", between=once) == expected


@for_each(
    "after",
    [
        "//",
        "//1/app.log",
        "//1.1.0.1.0.x",
        "//1.1.0.1.0.x/../app.log",
        "//-1.0.0.1.0.x/app.log",
        "//9.9.9.1.0./a//b",
        f"//{'9' * 30}.0.0.1.0.x/app.log",
        "//1.1.0.1.0.0123456789/app.log",
    ],
)
async def test_a_forged_place_is_refused(tmp_path: Path, after: str) -> None:
    (tmp_path / "app.log").write_text(LOG)
    with pytest.raises(InvalidParameter):
        await page(served(tmp_path), "needle", after=after)


async def test_a_forged_place_shows_nothing_hidden(tmp_path: Path) -> None:
    (tmp_path / ".hidden.log").write_text(LOG)
    here = await page(served(tmp_path), "needle", after="//0.0.0.1.0./.hidden.log")
    assert (list(here.hits), here.unsearched) == ([], ())


# -- by the tool


async def test_a_number_near_the_end_of_3_gib_is_found(tmp_path: Path) -> None:
    with (tmp_path / "app.log").open("wb") as file:
        file.write(b"begin\n")
        file.truncate(3 * GIB)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"".join(b"id %d\n" % number for number in range(50_000)))
    wire = Wire(await server_of(Filesystem(tmp_path)), LATEST)
    for uri in ({}, {"uri": "test://one/app.log"}):
        result = await called(wire, "search_resources", LATEST, query='"id 49990"', **uri)
        assert words(result) == "1 match\ntest://one/app.log (1)\n49993: id 49990"
        assert result["structuredContent"]["complete"] is True


@for_each("head", [b"hello\n", b""])
async def test_a_sparse_file_of_1_tib_is_searched_by_its_data(tmp_path: Path, head: bytes) -> None:
    with (tmp_path / "app.log").open("wb") as file:
        file.write(head)
        file.truncate(1024 * GIB)
    wire = Wire(await server_of(Filesystem(tmp_path)), LATEST)
    result = await called(wire, "search_resources", LATEST, query="nowhere")
    assert words(result) == "Nothing was found."


async def test_pages_of_a_large_document_pass_over_no_line(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(LOG)
    wire = Wire(await server_of(Filesystem(tmp_path, max_size=SMALL)), LATEST)
    asked: dict[str, Any] = {"query": "needle", "uri": "test://one/app.log", "limit": 1000}
    found: list[int] = []
    for _ in range(4):
        result = (await called(wire, "search_resources", LATEST, **asked))["structuredContent"]
        found += [row[0] for row in result["files"][0]["lines"]]
        assert result["complete"] is False
        asked["cursor"] = result["next"]
    assert found == [number * 7 for number in range(1, len(found) + 1)]
    assert len(found) > 2000


async def test_the_lines_of_a_large_document_are_counted_in_one_call(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(LOG[: len(LOG) // 2])
    wire = Wire(await server_of(Filesystem(tmp_path, max_size=SMALL)), LATEST)
    asked: dict[str, Any] = {"query": "needle", "uri": "test://one/app.log"}
    for limit in ({}, {"limit": 1}):
        result = await called(wire, "search_resources", LATEST, show="counts", **limit, **asked)
        content = result["structuredContent"]
        assert content["counts"] == {"app.log": LOG[: len(LOG) // 2].count("needle")}
        assert content["complete"] is True
