from __future__ import annotations

import codecs
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resource_server.errors import (
    InvalidParameter,
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import Content, Truncation
from resource_server.providers.filesystem import content, ranges
from resource_server.providers.filesystem.encoding import canonical_encoding
from resource_server.providers.filesystem.ranges import Range, parse_range

TEXT = "text/plain"


@contextmanager
def opened(path: str | Path) -> Generator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield fd
    finally:
        os.close(fd)


def read(
    path: str | Path,
    query: Mapping[str, str] | None = None,
    mime_type: str | None = TEXT,
    *,
    encoding: str = "utf-8",
    max_size: int = 1 << 20,
) -> Content:
    with opened(path) as fd:
        return content.read_content(
            fd,
            os.fstat(fd),
            mime_type,
            parse_range(query or {}),
            encoding=encoding,
            max_size=max_size,
        )


def read_now(path: str | Path, mime_type: str | None = TEXT) -> Content | None:
    with opened(path) as fd:
        return content.read_content_now(
            fd, os.fstat(fd), mime_type, encoding="utf-8", max_size=content.LOOP_BYTES * 2
        )


def read_on(path: Path, query: Mapping[str, str], **options: object) -> list[Content]:
    """Read a range and all that follow it."""
    parts: list[Content] = []
    following: Mapping[str, str] | None = query
    while following is not None:
        assert len(parts) < 1000
        parts.append(read(path, following, **options))  # type: ignore[arg-type]
        truncated = parts[-1].truncated
        following = truncated and truncated.next
    return parts


def encoded(parts: list[Content], encoding: str = "utf-8") -> bytes:
    return b"".join(p.data if isinstance(p.data, bytes) else p.data.encode(encoding) for p in parts)


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for the properties, which write it anew for each example."""
    return tmp_path_factory.mktemp("content") / "file"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


# --- parameters


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, None),
        ({"lines": "10-40"}, Range("lines", 10, 40)),
        ({"lines": "10-"}, Range("lines", 10)),
        ({"lines": "7-7"}, Range("lines", 7, 7)),
        ({"bytes": "0-65535"}, Range("bytes", 0, 65535)),
        ({"bytes": "100-"}, Range("bytes", 100)),
        ({"tail": "100"}, Range("tail", 100)),
        ({"lines": "007-010"}, Range("lines", 7, 10)),
    ],
)
def test_a_range_is_read_from_the_query(query: dict[str, str], expected: Range | None) -> None:
    assert parse_range(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        {"lines": "40-10"},
        {"lines": "0-10"},
        {"lines": "10"},
        {"lines": "-10"},
        {"lines": ""},
        {"lines": "1-2-3"},
        {"lines": " 1-2"},
        {"lines": "1-2\n"},
        {"lines": "+1-2"},
        {"lines": "1.0-2"},
        {"lines": "0x1-2"},
        {"lines": "\u0661-\u0662"},
        {"lines": "1-" + "9" * 16},
        {"lines": "1-" + "9" * 5000},
        {"bytes": "10-0"},
        {"bytes": "-1"},
        {"bytes": "-"},
        {"tail": "0"},
        {"tail": "-1"},
        {"tail": "1-2"},
        {"tail": "9" * 5000},
        {"line": "1-2"},
        {"Lines": "1-2"},
        {"": ""},
        {"\udcff": "\udcff"},
        {"lines": "1-2", "bytes": "0-1"},
        {"lines": "1-2", "x": "y"},
    ],
)
def test_what_is_no_range_is_refused_with_advice(query: dict[str, str]) -> None:
    with pytest.raises(InvalidParameter, match=r"lines|bytes|tail") as refused:
        parse_range(query)
    message = str(refused.value)
    assert len(message) < 200
    assert message.isprintable()
    message.encode()


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("utf-8", "utf-8"),
        ("UTF8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("latin-1", "iso8859-1"),
        ("cp1252", "cp1252"),
        ("utf-16", "utf-16-le"),
        ("shift_jis", "shift-jis"),
    ],
)
def test_an_encoding_has_one_name(name: str, canonical: str) -> None:
    assert canonical_encoding(name) == canonical
    codecs.lookup(canonical)


@pytest.mark.parametrize(
    "name",
    ["", "utf-9", "base64", "rot13", "zip", "idna", "punycode", "utf-7", "unicode_escape", "\0"],
)
def test_what_is_no_encoding_of_text_files_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no text encoding"):
        canonical_encoding(name)


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
def test_bytes_are_text_where_they_decode_and_a_blob_where_not(
    file: Path, data: bytes, mime_type: str, expected: str | bytes
) -> None:
    file.write_bytes(data)
    assert read(file, mime_type=mime_type) == Content(expected)
    assert read_now(file, mime_type) in (Content(expected), None)


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
def test_a_named_encoding_is_used_strictly_and_a_mark_outweighs_it(
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
def test_the_content_tells_the_type_that_the_name_does_not(
    file: Path, data: bytes, data_type: type, mime_type: str
) -> None:
    file.write_bytes(data)
    answer = read(file, mime_type=None)
    assert (type(answer.data), answer.mime_type) == (data_type, mime_type)


def test_text_of_a_legacy_encoding_without_a_known_name_is_plain_text(file: Path) -> None:
    file.write_bytes(b"caf\xe9")
    assert read(file, mime_type=None, encoding="cp1252") == Content("café", "text/plain")
    assert read(file, {"lines": "1-1"}, None, encoding="cp1252").data == "café"


def test_a_film_named_like_typescript_is_told_by_its_bytes(file: Path) -> None:
    file.write_bytes((b"G" + bytes(187)) * 4)
    assert read(file, mime_type="text/x-typescript").mime_type == "video/mp2t"
    file.write_bytes(b"G" * 1000)
    assert read(file, mime_type="text/x-typescript") == Content("G" * 1000)


def test_a_document_over_the_limit_says_how_to_read_its_first_lines(file: Path) -> None:
    file.write_bytes(b"a\n" * 6)
    assert read(file, max_size=12).data == "a\n" * 6
    with pytest.raises(ResourceTooLarge) as refused:
        read(file, max_size=11)
    assert (refused.value.size, refused.value.limit) == (12, 11)
    assert refused.value.next == {"lines": "1-1000"}


@pytest.mark.parametrize("mime_type", ["image/png", None])
def test_a_blob_over_the_limit_says_how_to_read_its_first_bytes(
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
def test_a_file_that_shrank_since_its_status_is_read_as_it_is(
    file: Path, query: dict[str, str]
) -> None:
    file.write_bytes(b"a\n" * 500)
    with opened(file) as fd:
        status = os.fstat(fd)
        file.write_bytes(b"b\n")
        answer = content.read_content(
            fd, status, TEXT, parse_range(query), encoding="utf-8", max_size=10_000
        )
        assert content.read_content_now(fd, status, TEXT, encoding="utf-8", max_size=10_000) is None
    assert answer.data in ("b\n", "")


def test_a_file_that_grew_since_its_status_is_read_as_it_is(file: Path) -> None:
    file.write_bytes(b"a\n")
    with opened(file) as fd:
        status = os.fstat(fd)
        file.write_bytes(b"a\nb\n")
        answer = content.read_content(fd, status, TEXT, encoding="utf-8", max_size=4)
        assert answer == Content("a\nb\n")
        assert content.read_content_now(fd, status, TEXT, encoding="utf-8", max_size=4) is None
        with pytest.raises(ResourceTooLarge):
            content.read_content(fd, status, TEXT, encoding="utf-8", max_size=3)


def test_no_more_than_the_cap_is_read(file: Path) -> None:
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


def test_what_may_take_long_leaves_the_event_loop(file: Path) -> None:
    file.write_bytes(b"a" * (content.LOOP_BYTES + 1))
    assert read_now(file) is None
    file.write_bytes(b"a")
    assert read_now(file, None) is None


# --- byte ranges


@pytest.mark.parametrize(
    ("query", "expected", "truncated"),
    [
        ("0-3", "0123", Truncation("requested", "bytes", 10, {"bytes": "4-7"})),
        ("4-7", "4567", Truncation("requested", "bytes", 10, {"bytes": "8-11"})),
        ("8-11", "89", Truncation("requested", "bytes", 10)),
        ("5-", "56789", Truncation("requested", "bytes", 10)),
        ("0-9", "0123456789", None),
        ("0-99", "0123456789", None),
        ("0-", "0123456789", None),
        ("9-9", "9", Truncation("requested", "bytes", 10)),
        ("10-20", "", Truncation("requested", "bytes", 10)),
        ("999999999999999-", "", Truncation("requested", "bytes", 10)),
    ],
)
def test_a_range_of_bytes_tells_the_total_and_what_follows(
    file: Path, query: str, expected: str, truncated: Truncation | None
) -> None:
    file.write_bytes(b"0123456789")
    assert read(file, {"bytes": query}) == Content(expected, None, truncated)


def test_a_range_longer_than_the_limit_is_cut_and_says_so(file: Path) -> None:
    file.write_bytes(b"0123456789")
    assert read(file, {"bytes": "1-9"}, max_size=4) == Content(
        "1234", None, Truncation("limit", "bytes", 10, {"bytes": "5-13"})
    )
    assert read(file, {"bytes": "1-"}, max_size=4) == Content(
        "1234", None, Truncation("limit", "bytes", 10, {"bytes": "5-"})
    )


def test_a_range_of_a_binary_document_is_exactly_its_bytes(file: Path) -> None:
    file.write_bytes("é".encode() * 5)
    answer = read(file, {"bytes": "1-4"}, "image/png")
    assert answer.data == ("é".encode() * 5)[1:5]


@pytest.mark.parametrize(
    ("query", "expected", "following"),
    [
        ("0-3", "a€", "4-7"),
        ("0-2", "a", "1-3"),
        ("1-1", "€", "4-4"),
        ("2-5", "b", "5-8"),
        ("2-6", "bé", "7-11"),
        ("2-2", "", "3-3"),
        ("5-5", "é", "7-7"),
    ],
)
def test_a_range_of_text_holds_whole_characters(
    file: Path, query: str, expected: str, following: str
) -> None:
    file.write_bytes("a€béz".encode())
    answer = read(file, {"bytes": query})
    assert answer.data == expected
    assert answer.truncated
    assert answer.truncated.next == {"bytes": following}


def test_a_range_in_a_legacy_encoding_ends_with_a_whole_character(file: Path) -> None:
    file.write_bytes("日本語".encode("shift_jis"))
    answer = read(file, {"bytes": "0-2"}, encoding="shift-jis")
    assert answer.data == "日"
    assert answer.truncated
    assert answer.truncated.next == {"bytes": "2-4"}


def test_a_range_that_does_not_decode_is_a_blob_of_these_bytes(file: Path) -> None:
    file.write_bytes(b"\xe9abc\xff\xe9xyz")
    assert read(file, {"bytes": "0-5"}).data == b"\xe9abc\xff\xe9"
    assert read(file, {"bytes": "0-8"}).data == b"\xe9abc\xff\xe9xyz"
    assert read(file, {"bytes": "1-3"}).data == "abc"
    file.write_bytes(b"\xc3\xa9\x80")
    assert read(file, {"bytes": "0-1"}).data == "é"
    assert read(file, {"bytes": "2-2"}).data == b"\x80"


marked = st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
texts = st.text(
    st.one_of(
        st.sampled_from("\n\nab\ré€\u0a0a\U0001f600\u2028"),
        st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"),
    ),
    max_size=60,
)
MARKS = {"utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"}


def spelled(text: str, encoding: str) -> bytes:
    mark = "\ufeff" if encoding in MARKS else ""
    return (mark + text).encode(encoding)


@given(texts, marked, st.integers(1, 20))
@example("é", "utf-8", 1)
@example("\U0001f600" * 3, "utf-16-be", 2)
def test_ranges_of_bytes_read_one_after_the_other_make_up_the_text(
    scratch: Path, text: str, encoding: str, length: int
) -> None:
    scratch.write_bytes(spelled(text, encoding))
    parts = read_on(scratch, {"bytes": f"0-{length - 1}"})
    assert "".join(p.data for p in parts if isinstance(p.data, str)) == text
    assert all(isinstance(p.data, str) for p in parts)


@given(st.binary(max_size=60), st.integers(1, 20), st.sampled_from([TEXT, "image/png"]))
@example(b"abc\x80def", 3, TEXT)
@example(b"\xe2\x82\xac\xff", 2, TEXT)
@example(b"\xc3\xa9\x80abc", 2, TEXT)
def test_ranges_of_any_bytes_read_one_after_the_other_make_up_the_file(
    scratch: Path, data: bytes, length: int, mime_type: str
) -> None:
    # A mark would be dropped from text, or make bytes of another encoding.
    data = data.lstrip(b"\xef\xff\xfe\0")
    scratch.write_bytes(data)
    parts = read_on(scratch, {"bytes": f"0-{length - 1}"}, mime_type=mime_type)
    assert encoded(parts) == data


@given(texts, st.integers(1, 20), st.integers(0, 10))
def test_ranges_in_a_legacy_encoding_make_up_the_file(
    scratch: Path, text: str, length: int, limit: int
) -> None:
    text += "日本語"
    data = text.encode("shift_jis", "ignore")
    scratch.write_bytes(data)
    parts = read_on(scratch, {"bytes": f"0-{length - 1}"}, encoding="shift_jis", max_size=limit)
    assert encoded(parts, "shift_jis") == data


# --- lines


@pytest.mark.parametrize(
    ("query", "expected", "truncated"),
    [
        ("1-2", "1\n2\n", Truncation("requested", "lines", None, {"lines": "3-4"})),
        ("2-2", "2\n", Truncation("requested", "lines", None, {"lines": "3-3"})),
        ("3-5", "3\n4\n5", Truncation("requested", "lines", 5)),
        ("4-9", "4\n5", Truncation("requested", "lines", 5)),
        ("2-", "2\n3\n4\n5", Truncation("requested", "lines", 5)),
        ("1-5", "1\n2\n3\n4\n5", None),
        ("1-", "1\n2\n3\n4\n5", None),
        ("6-9", "", Truncation("requested", "lines", 5)),
        ("999999999999999-", "", Truncation("requested", "lines", 5)),
    ],
)
def test_a_range_of_lines_tells_what_follows_and_the_total_at_the_end(
    file: Path, query: str, expected: str, truncated: Truncation | None
) -> None:
    file.write_bytes(b"1\n2\n3\n4\n5")
    assert read(file, {"lines": query}) == Content(expected, None, truncated)


def test_the_end_of_the_last_line_begins_no_other(file: Path) -> None:
    file.write_bytes(b"1\n2\n")
    assert read(file, {"lines": "2-3"}).truncated == Truncation("requested", "lines", 2)
    assert read(file, {"lines": "3-"}) == Content("", None, Truncation("requested", "lines", 2))
    assert read(file, {"tail": "1"}).data == "2\n"


def test_lines_over_the_limit_are_cut_after_a_whole_line(file: Path) -> None:
    file.write_bytes(b"11\n22\n33\n44\n")
    assert read(file, {"lines": "2-4"}, max_size=7) == Content(
        "22\n33\n", None, Truncation("limit", "lines", None, {"lines": "4-6"})
    )
    assert read(file, {"lines": "2-"}, max_size=7).truncated == Truncation(
        "limit", "lines", None, {"lines": "4-"}
    )


def test_a_line_over_the_limit_is_cut_and_goes_on_in_bytes(file: Path) -> None:
    file.write_bytes("a\né€é€\nb".encode())
    assert read(file, {"lines": "2-2"}, max_size=6) == Content(
        "é€", None, Truncation("limit", "lines", None, {"bytes": "7-12"})
    )


@pytest.mark.parametrize("query", [{"lines": "1-2"}, {"tail": "2"}])
def test_a_binary_document_has_no_lines(file: Path, query: dict[str, str]) -> None:
    file.write_bytes(b"\x89PNG\n\0")
    for mime_type in ("image/png", None):
        with pytest.raises(InvalidParameter, match="use bytes"):
            read(file, query, mime_type)


def test_text_that_does_not_decode_has_lines_of_bytes(file: Path) -> None:
    file.write_bytes(b"a\ncaf\xe9\nb\n")
    assert read(file, {"lines": "2-2"}).data == b"caf\xe9\n"
    assert read(file, {"lines": "3-3"}).data == "b\n"
    assert read(file, {"tail": "2"}).data == b"caf\xe9\nb\n"


@settings(max_examples=200)
@given(texts, marked, st.integers(1, 9), st.integers(0, 40))
@example("a\n\n\nb", "utf-8", 1, 4)
@example("\u0a0a\n\u0a0a", "utf-16-le", 1, 40)
@example("", "utf-8-sig", 1, 4)
def test_ranges_of_lines_read_one_after_the_other_make_up_the_text(
    scratch: Path, text: str, encoding: str, count: int, limit: int
) -> None:
    scratch.write_bytes(spelled(text, encoding))
    parts = read_on(scratch, {"lines": f"1-{count}"}, max_size=limit)
    assert "".join(p.data for p in parts if isinstance(p.data, str)) == text


@given(texts, marked, st.integers(1, 9))
def test_lines_and_tails_are_those_of_the_text(
    scratch: Path, text: str, encoding: str, count: int
) -> None:
    scratch.write_bytes(spelled(text, encoding))
    lines = text.split("\n")
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    assert read(scratch, {"tail": f"{count}"}).data == "".join(lines[-count:])
    assert read(scratch, {"lines": f"{count}-"}).data == "".join(lines[count - 1 :])
    assert read(scratch, {"lines": f"{count}-{count}"}).data == "".join(lines[count - 1 : count])


# --- tails


def test_a_tail_says_that_there_is_more_before_it(file: Path) -> None:
    file.write_bytes(b"1\n2\n3\n")
    assert read(file, {"tail": "2"}) == Content("2\n3\n", None, Truncation("requested", "lines"))
    assert read(file, {"tail": "3"}) == Content("1\n2\n3\n")
    assert read(file, {"tail": "999999999999999"}) == Content("1\n2\n3\n")


def test_a_tail_over_the_limit_is_the_last_lines_that_fit(file: Path) -> None:
    file.write_bytes(b"11\n22\n33\n")
    assert read(file, {"tail": "3"}, max_size=7) == Content(
        "22\n33\n", None, Truncation("limit", "lines")
    )


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_last_line_over_the_limit_is_cut_between_characters(file: Path, end: str) -> None:
    file.write_bytes(("a\n" + "€" * 9 + end).encode())
    assert read(file, {"tail": "1"}, max_size=10) == Content(
        "€€€" + end, None, Truncation("limit", "lines")
    )


def test_a_tail_over_an_odd_limit_keeps_code_units_whole(file: Path) -> None:
    file.write_bytes("\ufeffab\ncd\nef".encode("utf-16-le"))
    assert read(file, {"tail": "3"}, max_size=13).data == "cd\nef"


def test_lines_are_counted_across_blocks(file: Path) -> None:
    lines = [f"{number}\n" for number in range(1, 100_001)]
    file.write_text("".join(lines))
    assert read(file, {"tail": "60000"}).data == "".join(lines[-60_000:])
    answer = read(file, {"lines": "70000-90000"})
    assert answer.data == "".join(lines[69_999:90_000])
    assert read(file, {"lines": "100001-"}).truncated == Truncation("requested", "lines", 100_000)


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


def test_a_huge_document_is_refused_whole(huge: Path) -> None:
    with pytest.raises(ResourceTooLarge) as refused:
        read(huge)
    assert refused.value.size == (5 << 30) + 18


def test_the_beginning_and_the_end_of_a_huge_document_are_read_at_once(huge: Path) -> None:
    assert read(huge, {"lines": "1-2"}).data == "first\nsecond\n"
    assert read(huge, {"tail": "2"}).data == "last but one\nlast"
    answer = read(huge, {"bytes": f"{(5 << 30) + 1}-{(5 << 30) + 4}"})
    assert answer.data == "last"
    assert answer.truncated
    assert answer.truncated.total == (5 << 30) + 18


def test_a_line_without_end_is_cut_at_the_limit(huge: Path) -> None:
    answer = read(huge, {"lines": "3-3"}, max_size=1000)
    assert answer.data == bytes(1000)
    assert answer.truncated
    assert answer.truncated.next == {"bytes": "1013-2012"}
    assert read(huge, {"tail": "9"}, max_size=1000).data == "last but one\nlast"


def test_lines_far_into_a_huge_document_are_refused_with_advice(
    huge: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "SCAN_BYTES", 1 << 20)
    with pytest.raises(InvalidParameter, match="use bytes"):
        read(huge, {"lines": "4-5"})
