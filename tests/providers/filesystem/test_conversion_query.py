"""Conversions that URI parameters ask for, and what is refused with the way that works."""

from __future__ import annotations

import pytest

from resource_server.conversion.registry import Converters
from resource_server.errors import InvalidParameter
from resource_server.providers.filesystem.conversion_query import RECODED, Wanted, parse_wanted
from resource_server.runtime.document_range import Range

PDF, CSV, MAIL = "application/pdf", "text/csv", "message/rfc822"


def parsed(media_type: str | None, name: str = "x", **query: str) -> Wanted:
    return parse_wanted(query, media_type, name, Converters())


def test_a_range_of_text_and_parts_of_a_document_go_together() -> None:
    found = parsed(PDF, pages="3-7", lines="2-")
    assert (found.request.format, found.request.first, found.request.last) == ("markdown", 3, 7)
    assert found.range == Range("lines", 2)
    # The range is no part of the text that it is one of.
    assert found.parameters == {"pages": "3-7"}
    assert not found.is_picture


def test_options_stay_options_and_a_format_is_none() -> None:
    found = parsed(CSV, format="json", rows="5-10", columns="a,b")
    assert found.request.options == {"rows": "5-10", "columns": "a,b"}
    assert (found.request.first, found.request.last) == (1, None)
    assert found.parameters == {"format": "json", "rows": "5-10", "columns": "a,b"}


@pytest.mark.parametrize("given", ["pages", "sheets"])
def test_any_unit_may_be_called_pages(given: str) -> None:
    found = parsed("application/vnd.oasis.opendocument.spreadsheet", **{given: "2"})
    assert (found.request.first, found.request.last, found.request.options) == (2, 2, {})


@pytest.mark.parametrize(
    ("media_type", "query", "reason"),
    [
        (PDF, {"format": "docx"}, "format cannot be 'docx'; write markdown or png"),
        (PDF, {"format": ""}, "format cannot be ''"),
        (PDF, {"format": "x" * 99}, f"format cannot be '{'x' * 40}'"),
        (PDF, {"pages": "0"}, "write pages=3, 3-7 or 3-"),
        (PDF, {"pages": ""}, "write pages=3, 3-7 or 3-"),
        (PDF, {"rows": "1"}, "unknown query parameter 'rows'; this document takes format, pages"),
        (PDF, {"nothing": "1"}, "unknown query parameter 'nothing'"),
        (PDF, {"format": "png", "pages": "1-2"}, "png is one picture at a time; write pages=1"),
        (PDF, {"format": "png", "pages": "2-"}, "png is one picture at a time; write pages=2"),
        (PDF, {"format": "png", "lines": "1-2"}, "png is read whole; leave out lines"),
        (PDF, {"lines": "1-2", "tail": "1"}, "lines and tail exclude each other"),
        (CSV, {"rows": "9-3"}, "write rows=3, 3-7 or 3-"),
        (CSV, {"columns": "a" * 1001}, "columns is too long"),
        (
            "application/vnd.oasis.opendocument.spreadsheet",
            {"sheets": "1", "pages": "1"},
            "give sheets or pages, not both",
        ),
        ("text/plain", {"format": "markdown"}, "this document takes lines, bytes or tail"),
        ("application/octet-stream", {"format": "markdown"}, "unknown query parameter 'format'"),
        ("application/octet-stream", {}, "this document has no other format"),
        (None, {"rows": "1"}, "unknown query parameter 'rows'"),
    ],
)
def test_what_a_document_does_not_have_is_refused(
    media_type: str | None, query: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidParameter) as refused:
        parsed(media_type, **query)
    assert reason in str(refused.value)


def test_text_may_be_asked_for_in_another_encoding() -> None:
    for query in ({"format": "text"}, {"encoding": "cp1252"}):
        assert parsed("text/plain", **query).converter == RECODED.converter
    assert parsed(None, format="text").converter == RECODED.converter
    with pytest.raises(InvalidParameter):
        parsed("application/octet-stream", format="text")
    # A converter that takes encodings itself is not replaced.
    assert parsed("application/gzip", "a.txt.gz", encoding="cp1252").converter.unit == "parts"
    with pytest.raises(InvalidParameter):
        parse_wanted({"format": "text"}, "text/plain", "x", Converters(()))
