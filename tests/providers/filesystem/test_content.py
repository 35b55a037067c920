from __future__ import annotations

import os
from pathlib import Path

import pytest

from resource_server.documents import ranges
from resource_server.documents.ranges import wanted_range
from resource_server.errors import (
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import Content
from resource_server.providers.filesystem import content
from tests.providers.filesystem.documents import TEXT, opened, read, read_now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


# --- whole documents


@pytest.mark.parametrize(
    ("data", "mime_type", "expected"),
    [
        (b"", TEXT, ""),
        ("naïve €\U0001f600\r\n".encode(), TEXT, "naïve €\U0001f600\r\n"),
        (b"\xef\xbb\xbfa,b", "text/csv", "a,b"),
        (b"\xff\xfea\0\n\0", TEXT, "a\n"),
        (b"\xfe\xff\0a", TEXT, "a"),
        (b"\xff\xfe\0\0a\0\0\0", TEXT, "a"),
        (b"\0\0\xfe\xff\0\0\0a", TEXT, "a"),
        ("\ufefftwo marks".encode("utf-8-sig"), TEXT, "\ufefftwo marks"),
        (b"caf\xe9", TEXT, b"caf\xe9"),
        (b"\xed\xa0\x80", TEXT, b"\xed\xa0\x80"),
        (b"\xff\xfe\x00\xd8", TEXT, b"\xff\xfe\x00\xd8"),
        (b"a\0b", TEXT, b"a\0b"),
        (b"\xef\xbb\xbfa\0b", TEXT, b"\xef\xbb\xbfa\0b"),
        (b"only ASCII", "image/png", b"only ASCII"),
        (b"only ASCII", "application/zip", b"only ASCII"),
        (b"only ASCII", "application/octet-stream", b"only ASCII"),
        (b"<svg/>", "image/svg+xml", "<svg/>"),
        (b"{}", "application/json", "{}"),
        (b"only ASCII", "application/x-of-the-manifest", "only ASCII"),
        (b"a\0b", "application/x-of-the-manifest", b"a\0b"),
    ],
)
def test_bytes_that_decode_are_text_and_others_a_blob(
    file: Path, data: bytes, mime_type: str, expected: str | bytes
) -> None:
    file.write_bytes(data)
    found = read(file, mime_type=mime_type)
    assert (found.data, found.mime_type) == (expected, None)
    assert found.size in (None, len(data))
    assert read_now(file, mime_type) in (found, None)


@pytest.mark.parametrize(
    ("data", "encoding", "expected"),
    [
        (b"caf\xe9 \x80", "cp1252", "café €"),
        (b"\x81", "cp1252", b"\x81"),
        (b"caf\xe9", "iso8859-1", "café"),
        (b"a\0b", "iso8859-1", b"a\0b"),
        ("日本".encode("shift_jis"), "shift-jis", "日本"),
        ("café".encode("utf-8-sig"), "cp1252", "café"),
        ("a\nb".encode("utf-16-le"), "utf-16-le", "a\nb"),
        ("a\nb".encode("cp500"), "cp500", "a\nb"),
    ],
)
def test_a_declared_encoding_is_strict_and_a_byte_order_mark_overrides_it(
    file: Path, data: bytes, encoding: str, expected: str | bytes
) -> None:
    file.write_bytes(data)
    assert read(file, encoding=encoding).data == expected


@pytest.mark.parametrize(
    ("data", "data_type", "mime_type"),
    [
        (b"#!/bin/sh\necho\n", str, "application/x-sh"),
        (b"just words", str, "text/plain"),
        (b"", str, "text/plain"),
        (b"a" * 5000 + b"\xff", bytes, "application/octet-stream"),
        (b"\xffwords", bytes, "application/octet-stream"),
    ],
)
def test_the_content_determines_the_type_if_the_name_does_not(
    file: Path, data: bytes, data_type: type, mime_type: str
) -> None:
    file.write_bytes(data)
    answer = read(file, mime_type=None)
    assert (type(answer.data), answer.mime_type) == (data_type, mime_type)


def test_text_of_a_legacy_encoding_without_a_known_name_is_plain_text(file: Path) -> None:
    file.write_bytes(b"caf\xe9")
    assert read(file, mime_type=None, encoding="cp1252") == Content("café", "text/plain", size=4)
    assert read(file, {"lines": "1-1"}, None, encoding="cp1252").data == "café"


def test_a_video_named_like_typescript_is_recognised_by_its_bytes(file: Path) -> None:
    file.write_bytes((b"G" + bytes(187)) * 4)
    assert read(file, mime_type="text/x-typescript").mime_type == "video/mp2t"
    file.write_bytes(b"G" * 1000)
    assert read(file, mime_type="text/x-typescript") == Content("G" * 1000)


def test_a_text_over_the_limit_is_refused_with_its_first_lines_as_range(file: Path) -> None:
    file.write_bytes(b"a\n" * 6)
    assert read(file, max_size=12).data == "a\n" * 6
    with pytest.raises(ResourceTooLarge) as refused:
        read(file, max_size=11)
    assert (refused.value.size, refused.value.limit) == (12, 11)
    assert refused.value.next == {"lines": "1-1000"}


@pytest.mark.parametrize("mime_type", ["image/png", None])
def test_a_blob_over_the_limit_is_refused_with_its_first_bytes_as_range(
    file: Path, mime_type: str | None
) -> None:
    file.write_bytes(b"a" * 12)
    with pytest.raises(ResourceTooLarge) as refused:
        read(file, mime_type=mime_type, max_size=11)
    assert refused.value.next == {"bytes": "0-65535"}


# --- what sizes claim


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_a_file_that_claims_no_size_is_read_to_its_end() -> None:
    answer = read("/proc/self/status")
    assert isinstance(answer.data, str)
    assert answer.data.startswith("Name:")
    assert answer.truncated is None
    assert read_now("/proc/self/status") is None
    tail = read("/proc/self/status", {"tail": "1"}).data
    assert isinstance(tail, str)
    assert tail.startswith("nonvoluntary_ctxt_switches")
    with pytest.raises(ResourceTooLarge):
        read("/proc/self/status", max_size=100)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no /proc")
def test_a_file_that_opens_but_cannot_be_read_is_not_found_or_busy() -> None:
    with pytest.raises((ResourceNotFound, ResourceBusy)):
        read("/proc/self/mem")


@pytest.mark.parametrize("query", [{}, {"lines": "1-"}, {"bytes": "0-"}, {"tail": "9"}])
def test_a_file_that_shrank_after_its_status_is_read_as_it_is(
    file: Path, query: dict[str, str]
) -> None:
    file.write_bytes(b"a\n" * 500)
    with opened(file) as fd:
        status = os.fstat(fd)
        file.write_bytes(b"b\n")
        answer = content.read_content(
            fd, status, TEXT, wanted_range(query), encoding="utf-8", max_size=10_000
        )
        assert content.read_content_now(fd, status, TEXT, encoding="utf-8", max_size=10_000) is None
    assert answer.data in ("b\n", "")


def test_a_file_that_grew_after_its_status_is_read_as_it_is(file: Path) -> None:
    file.write_bytes(b"a\n")
    with opened(file) as fd:
        status = os.fstat(fd)
        file.write_bytes(b"a\nb\n")
        answer = content.read_content(fd, status, TEXT, encoding="utf-8", max_size=4)
        assert answer == Content("a\nb\n")
        assert content.read_content_now(fd, status, TEXT, encoding="utf-8", max_size=4) is None
        with pytest.raises(ResourceTooLarge):
            content.read_content(fd, status, TEXT, encoding="utf-8", max_size=3)


def test_reading_stops_at_the_cap(file: Path) -> None:
    file.write_bytes(b"abcdef")
    with opened(file) as fd:
        assert ranges.read_all(fd, 4) == b"abcd"
        assert ranges.read_all(fd, 6) == ranges.read_all(fd, 600) == b"abcdef"


# --- on the event loop


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the kernel cannot tell what is cached")
def test_a_file_in_the_page_cache_is_read_without_waiting(file: Path) -> None:
    file.write_bytes(b"abc")
    with opened(file) as fd:
        ranges.read_all(fd, 3)
        # Some file systems cannot promise it; then a thread reads.
        assert content.read_cached(fd, 3) in (b"abc", None)
        assert content.read_cached(fd, 2) is None
        assert content.read_cached(fd, 4) is None


def test_slow_reads_leave_the_event_loop(file: Path) -> None:
    file.write_bytes(b"a" * (content.LOOP_BYTES + 1))
    assert read_now(file) is None
    file.write_bytes(b"a")
    assert read_now(file, None) is None


# --- huge documents


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """5 GiB that take no room, with two lines before the hole and two behind it."""
    path = tmp_path / "huge"
    with path.open("wb") as writer:
        writer.write(b"first\nsecond\n")
        writer.seek(5 << 30)
        writer.write(b"\nlast but one\nlast")
    return path


def test_a_full_read_of_a_huge_document_is_refused(huge: Path) -> None:
    with pytest.raises(ResourceTooLarge) as refused:
        read(huge)
    assert refused.value.size == (5 << 30) + 18
