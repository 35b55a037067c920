"""Arrow as tables: files and streams."""

from __future__ import annotations

import pytest

from resource_server.errors import ConversionError
from tests.conversion.formats.test_parquet import table, text
from tests.conversion.samples.columnar import FEATHER

STREAM = FEATHER[8:]
"""The same without the head of a file: what follows its end is not read."""


@pytest.mark.parametrize("document", [FEATHER, STREAM], ids=["file", "stream"])
def test_arrow_files_and_streams_are_read_and_unreadable_types_are_named(document: bytes) -> None:
    at = "2026-11-23T09:30:00+01:00"
    assert table("arrow", document) == {
        "columns": ["city", "stock", "day", "at", "tags", "map"],
        "rows": [
            ["Zürich", 17, "2026-11-23", at, ["a", "b"], "[map]"],
            ["Bern", None, "2026-11-23", at, [], "[map]"],
        ],
    }


def test_rows_of_batches_are_counted_from_the_first() -> None:
    assert table("arrow", FEATHER, rows="2-", columns="city")["rows"] == [["Bern"]]
    assert "Rows 1-1 of 2" in text("arrow", FEATHER, rows="1")


@pytest.mark.parametrize("document", [STREAM[:-40], STREAM[:100], FEATHER[:8] + FEATHER[20:]])
def test_a_stream_that_is_cut_is_read_to_a_batch_or_refused(document: bytes) -> None:
    try:
        found = table("arrow", document)
    except ConversionError as error:
        assert "damaged, or no Arrow" in str(error)  # noqa: PT017 - it may be read, too
    else:
        assert found["columns"][0] == "city"
