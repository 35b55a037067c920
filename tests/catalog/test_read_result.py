"""What a read returns: the way to the rest, text formats and sizes."""

from __future__ import annotations

import pytest

from resource_server.catalog.mount import CatalogEntry
from resource_server.catalog.read_result import (
    ReadItem,
    ReadResult,
    content_size,
    next_uri,
    text_format,
)
from resource_server.provider import Content, Format, Resource, Truncation

RESOURCE = Resource(path=("a",), name="a", type="document")
ENTRY = CatalogEntry("test://0/a%20b", RESOURCE, RESOURCE)


def cut(**following: str) -> Content:
    return Content("x", truncated=Truncation("limit", "lines", None, following or None))


def test_the_rest_is_read_in_the_same_format_and_by_no_other_parameter() -> None:
    query = {"format": "csv", "lines": "1-2", "columns": "a"}
    assert next_uri(ENTRY, query, cut(lines="3-")) == "test://0/a%20b?format=csv&lines=3-"
    assert next_uri(ENTRY, query, cut(format="json")) == "test://0/a%20b?format=json"
    assert next_uri(ENTRY, {}, cut(sheet="a&b=c d")) == "test://0/a%20b?sheet=a%26b%3Dc%20d"


@pytest.mark.parametrize("content", [Content("x"), cut()])
def test_a_content_without_a_way_to_the_rest_has_no_next_uri(content: Content) -> None:
    assert next_uri(ENTRY, {"format": "csv"}, content) is None


def test_only_a_collection_is_shortened_by_a_truncated_document() -> None:
    items = [ReadItem("u", ENTRY, None), ReadItem("u", ENTRY, cut())]
    assert ReadResult(items, collection="test://0").is_shortened
    assert not ReadResult(items).is_shortened
    assert not ReadResult(items[:1], collection="test://0").is_shortened
    assert not ReadResult([], collection="test://0").is_shortened


def test_a_document_that_is_no_text_has_its_first_format_of_text() -> None:
    picture, text = Format("png", "image/png"), Format("markdown", "text/markdown")

    def found(mime_type: str | None, *formats: Format) -> Format | None:
        document = Resource(
            path=("a",), name="a", type="document", mime_type=mime_type, formats=formats
        )
        return text_format(document)

    assert found("application/pdf", picture, text) == text
    assert found("application/pdf", picture) is None
    assert found("application/pdf") is None
    assert found("text/csv", text) is None
    assert found(None, text) is None


@pytest.mark.parametrize(
    ("data", "size"), [("", 0), ("abc", 3), ("é😀", 6), (b"\xff\0", 2), (b"", 0)]
)
def test_a_size_is_in_bytes(data: str | bytes, size: int) -> None:
    assert content_size(Content(data)) == size
    assert content_size(None) == 0
