from __future__ import annotations

import codecs

import pytest

from resource_server.providers.filesystem.encoding import canonical_encoding
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
