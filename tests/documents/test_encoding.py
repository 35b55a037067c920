from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.documents.encoding import (
    PIECE_BYTES,
    canonical_encoding,
    decodes_as_utf8,
)
from tests.cases import for_each


@for_each(
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
def test_an_encoding_has_one_canonical_name(name: str, canonical: str) -> None:
    assert canonical_encoding(name) == canonical
    codecs.lookup(canonical)


@for_each(
    "name",
    ["", "utf-9", "base64", "rot13", "zip", "idna", "punycode", "utf-7", "unicode_escape", "\0"],
)
def test_an_encoding_that_is_not_for_text_files_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no text encoding"):
        canonical_encoding(name)


def now() -> None:
    return None


@given(st.text(max_size=20), st.integers(0, 80), st.integers(0, 80))
def test_a_part_of_text_is_utf8_wherever_it_is_cut(text: str, begin: int, end: int) -> None:
    data = text.encode()
    assert decodes_as_utf8(data[begin:end], now, is_part=True)
    assert decodes_as_utf8(data, now)
    for other in (b"\xff", "é".encode("latin-1")):
        assert not decodes_as_utf8(data[begin:] + other + b"aaaa" + data[:end], now, is_part=True)


def test_whether_bytes_are_utf8_is_found_in_pieces() -> None:
    checked: list[int] = []
    data = "é".encode() * PIECE_BYTES * 2
    assert decodes_as_utf8(data, lambda: checked.append(1))
    assert not decodes_as_utf8(data + b"\xff", now)
    assert len(checked) == 3
