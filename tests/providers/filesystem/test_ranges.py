from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resource_server.documents import ranges
from resource_server.documents.ranges import wanted_range
from resource_server.errors import (
    InvalidParameter,
)
from resource_server.provider import Content, Truncation
from resource_server.runtime.document_range import Range
from tests.cases import for_each
from tests.providers.filesystem.documents import TEXT, read


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


@for_each(
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
    assert wanted_range(query) == expected


@for_each(
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
def test_an_invalid_range_is_refused_with_advice(query: dict[str, str]) -> None:
    with pytest.raises(InvalidParameter, match=r"lines|bytes|tail") as refused:
        wanted_range(query)
    message = str(refused.value)
    assert len(message) < 200
    assert message.isprintable()
    message.encode()


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
def test_a_range_of_bytes_has_the_total_and_the_next_range(
    file: Path, query: str, expected: str, truncated: Truncation | None
) -> None:
    file.write_bytes(b"0123456789")
    assert read(file, {"bytes": query}) == Content(expected, None, truncated)


def test_a_range_longer_than_the_limit_is_truncated_and_marked(file: Path) -> None:
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
def test_a_range_of_text_contains_whole_characters(
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
def test_consecutive_byte_ranges_make_up_the_text(
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
def test_consecutive_ranges_of_any_bytes_make_up_the_file(
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


@pytest.mark.parametrize(
    ("query", "expected", "truncated"),
    [
        ("1-2", "1\n2\n", Truncation("requested", "lines", 5, {"lines": "3-4"})),
        ("2-2", "2\n", Truncation("requested", "lines", 5, {"lines": "3-3"})),
        ("3-5", "3\n4\n5", Truncation("requested", "lines", 5)),
        ("4-9", "4\n5", Truncation("requested", "lines", 5)),
        ("2-", "2\n3\n4\n5", Truncation("requested", "lines", 5)),
        ("1-5", "1\n2\n3\n4\n5", None),
        ("1-", "1\n2\n3\n4\n5", None),
        ("6-9", "", Truncation("requested", "lines", 5)),
        ("999999999999999-", "", Truncation("requested", "lines", 5)),
    ],
)
def test_a_range_of_lines_has_the_next_range_and_the_total(
    file: Path, query: str, expected: str, truncated: Truncation | None
) -> None:
    text = "1\n2\n3\n4\n5"
    file.write_text(text)
    offset = text.index(expected) if expected and truncated is not None else None
    assert read(file, {"lines": query}) == Content(expected, None, truncated, offset=offset)


def test_a_final_line_end_starts_no_new_line(file: Path) -> None:
    file.write_bytes(b"1\n2\n")
    assert read(file, {"lines": "2-3"}).truncated == Truncation("requested", "lines", 2)
    assert read(file, {"lines": "3-"}) == Content(
        "", None, Truncation("requested", "lines", 2), offset=4
    )
    assert read(file, {"tail": "1"}).data == "2\n"


def test_lines_over_the_limit_are_truncated_after_a_whole_line(file: Path) -> None:
    file.write_bytes(b"11\n22\n33\n44\n")
    assert read(file, {"lines": "2-4"}, max_size=7) == Content(
        "22\n33\n", None, Truncation("limit", "lines", 4, {"lines": "4-6"}), offset=3
    )
    assert read(file, {"lines": "2-"}, max_size=7).truncated == Truncation(
        "limit", "lines", 4, {"lines": "4-"}
    )


def test_a_line_over_the_limit_is_truncated_and_continues_in_bytes(file: Path) -> None:
    file.write_bytes("a\né€é€\nb".encode())
    assert read(file, {"lines": "2-2"}, max_size=6) == Content(
        "é€", None, Truncation("limit", "lines", 3, {"bytes": "7-12"}), offset=2
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
def test_consecutive_line_ranges_make_up_the_text(
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


def test_a_tail_is_marked_if_there_is_more_before_it(file: Path) -> None:
    file.write_bytes(b"1\n2\n3\n")
    requested = Truncation("requested", "lines", 3)
    assert read(file, {"tail": "2"}) == Content("2\n3\n", None, requested, offset=2)
    assert read(file, {"tail": "3"}) == Content("1\n2\n3\n")
    assert read(file, {"tail": "999999999999999"}) == Content("1\n2\n3\n")


def test_a_tail_over_the_limit_is_the_last_lines_that_fit(file: Path) -> None:
    file.write_bytes(b"11\n22\n33\n")
    assert read(file, {"tail": "3"}, max_size=7) == Content(
        "22\n33\n", None, Truncation("limit", "lines", 3), offset=3
    )


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_last_line_over_the_limit_is_truncated_between_characters(file: Path, end: str) -> None:
    file.write_bytes(("a\n" + "€" * 9 + end).encode())
    assert read(file, {"tail": "1"}, max_size=10) == Content(
        "€€€" + end, None, Truncation("limit", "lines", 2), offset=20
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


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """5 GiB that take no room, with two lines before the hole and two behind it."""
    path = tmp_path / "huge"
    with path.open("wb") as writer:
        writer.write(b"first\nsecond\n")
        writer.seek(5 << 30)
        writer.write(b"\nlast but one\nlast")
    return path


def test_both_ends_of_a_huge_document_are_read_quickly(huge: Path) -> None:
    assert read(huge, {"lines": "1-2"}).data == "first\nsecond\n"
    assert read(huge, {"tail": "2"}).data == "last but one\nlast"
    answer = read(huge, {"bytes": f"{(5 << 30) + 1}-{(5 << 30) + 4}"})
    assert answer.data == "last"
    assert answer.truncated
    assert answer.truncated.total == (5 << 30) + 18


def test_an_endless_line_is_truncated_at_the_limit(huge: Path) -> None:
    answer = read(huge, {"lines": "3-3"}, max_size=1000)
    assert answer.data == bytes(1000)
    assert answer.truncated
    assert answer.truncated.next == {"bytes": "1013-2012"}
    assert read(huge, {"tail": "9"}, max_size=1000).data == "last but one\nlast"


def test_lines_far_into_a_huge_document_are_refused_with_advice(
    huge: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Patched: no option sets the limit, and reaching it takes seconds.
    monkeypatch.setattr(ranges, "SCAN_BYTES", 1 << 20)
    with pytest.raises(InvalidParameter, match="use bytes"):
        read(huge, {"lines": "4-5"})
