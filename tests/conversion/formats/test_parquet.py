"""Parquet as tables, and what Arrow refuses alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from resource_server.conversion.pool import ConverterPool
from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider.conversion import ConversionRequest, Part
from tests.conversion.formats.confined import in_a_worker
from tests.conversion.formats.damaged import damaged
from tests.conversion.samples.columnar import FEATHER, ROWS, parquet

DOCUMENTS = {"parquet": parquet(), "arrow": FEATHER}


def request(format: str = "markdown", **options: str) -> ConversionRequest:
    return ConversionRequest(media_type="", format=format, options=options)


def text(module: str, document: bytes, format: str = "markdown", **options: str) -> str:
    parts = in_a_worker(module, document, request(format, **options))
    return "".join(str(part.data) for part in parts)


def table(module: str, document: bytes, **options: str) -> Any:
    return json.loads(text(module, document, "json", **options))


def test_parts_of_a_thousand_rows_have_their_number_and_the_total() -> None:
    parts: Sequence[Part] = in_a_worker("parquet", parquet(), request())
    assert [(part.number, part.total) for part in parts] == [(1, None), (1001, None), (2001, ROWS)]
    first, *_, last = parts
    assert str(first.data).startswith("Parquet; columns: who (varchar), amount (decimal(10,2)), ")
    assert "\n\nRows 1-1000\n\n| who | amount |" in str(first.data)
    assert str(last.data).startswith(f"Rows 2001-{ROWS} of {ROWS}\n\n| who |")


def test_values_are_json_where_json_has_them() -> None:
    assert table("parquet", parquet(), rows="17") == {
        "columns": [
            *("who", "amount", "number", "even", "tags", "place", "day", "at", "bytes"),
            *("nothing", "odd"),
        ],
        "rows": [
            [
                *("customer 17", "1.70", 17, False, ["a", "b"], {"city": "Zürich", "zip": 17}),
                *("2026-11-23", "2026-11-23 08:30:00+00", "[1 bytes]", None, "NaN"),
            ]
        ],
    }


@pytest.mark.parametrize(
    ("rows", "numbers"),
    [("1", [1]), ("2047-2050", [2047, 2048, 2049, 2050]), ("2999-", [2999, 3000])],
)
def test_a_range_of_rows_is_read_across_row_groups(rows: str, numbers: list[int]) -> None:
    found = table("parquet", parquet(), rows=rows, columns="number")
    assert found == {"columns": ["number"], "rows": [[number] for number in numbers]}


@pytest.mark.parametrize("module", DOCUMENTS)
def test_rows_after_the_last_one_are_none(module: str) -> None:
    assert in_a_worker(module, DOCUMENTS[module], request(rows="5000-6000")) == ()


@pytest.mark.parametrize("module", DOCUMENTS)
@pytest.mark.parametrize("options", [{"rows": "0"}, {"rows": "7-3"}, {"columns": "no such"}])
def test_options_that_fit_nothing_are_refused(module: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidParameter):
        text(module, DOCUMENTS[module], **options)


@pytest.mark.parametrize("module", DOCUMENTS)
@pytest.mark.parametrize("document", [b"", b"PAR1", b"ARROW1\0\0", b"no table", bytes(1000)])
def test_what_is_no_table_is_refused(module: str, document: bytes) -> None:
    with pytest.raises(ConversionError):
        text(module, document)


@pytest.mark.parametrize(("module", "count"), [("parquet", 12), ("arrow", 300)])
def test_damaged_documents_are_refused_or_read_and_others_follow(
    module: str, count: int, tmp_path: Path
) -> None:
    pool = ConverterPool()
    path = tmp_path / "damaged"

    def read(document: bytes) -> str:
        path.write_bytes(document)
        reference = f"resource_server.conversion.formats.{module}:convert"
        with path.open("rb") as file:
            return str(pool.convert(reference, file.fileno(), request(rows="1-3")).parts)

    for document in damaged(DOCUMENTS[module], count=count):
        with suppress(ConversionError):
            read(document)
    assert "Zürich" in read(DOCUMENTS[module])
    pool.close()


def test_a_worker_of_parquet_serves_one_document(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(parquet())
    pool = ConverterPool()
    reference = "resource_server.conversion.formats.parquet:convert"
    others = "resource_server.conversion.formats.delimited:convert"
    with path.open("rb") as file:
        for _ in range(2):
            assert pool.convert(reference, file.fileno(), request(rows="1")).parts
            assert pool.processes == []
        csv = ConversionRequest(media_type="text/csv")
        with suppress(ConversionError):
            pool.convert(others, file.fileno(), csv)
        kept = pool.processes
        file.seek(0)
        assert pool.convert(reference, file.fileno(), request(rows="1")).parts
        assert pool.processes == kept
    pool.close()
