"""CSV, TSV and JSON Lines as tables."""

# ruff: noqa: RUF001 - texts of other scripts

from __future__ import annotations

import csv
import io
import json
import resource
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.conversion.formats.delimited import convert
from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider.conversion import ConversionRequest, Part
from tests.cases import for_each
from tests.conversion.formats.confined import in_a_worker
from tests.conversion.formats.damaged import damaged

_CSV, _TSV, _JSON_LINES = "text/csv", "text/tab-separated-values", "application/jsonl"
_COUNT = 40_000
"""Rows of the documents of `_numbered`."""


def _parts(
    data: bytes, media_type: str = _CSV, name: str = "markdown", **options: str
) -> Sequence[Part]:
    request = ConversionRequest(media_type=media_type, format=name, options=options)
    return list(convert(io.BytesIO(data), request))


def _text(data: bytes, media_type: str = _CSV, **options: str) -> str:
    parts = _parts(data, media_type, **options)
    assert all(part.mime_type == "text/markdown" for part in parts)
    return "\n".join(str(part.data) for part in parts)


def _json(data: bytes, media_type: str = _CSV, **options: str) -> Any:
    parts = _parts(data, media_type, "json", **options)
    assert all(part.mime_type == "application/json" for part in parts)
    return json.loads("\n".join(str(part.data) for part in parts))


def _long(count: int) -> bytes:
    return b"id,name,half\n" + b"".join(
        b"%d,n%d,%d.5\n" % (number, number, number) for number in range(1, count + 1)
    )


@for_each(("delimiter", "name"), [(",", "comma"), (";", "semicolon"), ("\t", "tab"), ("|", "pipe")])
@for_each("end", ["\n", "\r\n", "\r"])
def test_the_delimiter_is_found(delimiter: str, name: str, end: str) -> None:
    lines = ["id {} name {} note", "1 {} Äpfel {} a-b", "2 {} Birnen {} c"]
    text = end.join(line.replace(" {} ", delimiter) for line in lines)
    table = _text(text.encode())
    assert f"Delimiter: {name}; encoding: utf-8; columns: id (integer), name (text)" in table
    assert "| id | name | note |\n| --- | --- | --- |\n| 1 | Äpfel | a-b |\n| 2 |" in table


def test_semicolons_win_over_decimal_commas() -> None:
    table = _text("Name;Preis;Höhe\nÄpfel;1,5;2,5\nBirnen;2,5;3,5\n".encode("cp1252"))
    assert "| Äpfel | 1,5 | 2,5 |" in table
    assert "semicolon; encoding: cp1252" in table


def test_the_delimiter_of_a_header_below_a_title_wins_over_decimal_commas() -> None:
    text = "Report 2024\n\nid|name\n" + "1,5|x\n" * 300
    assert "columns: id (text), name (text)" in _text(text.encode())


def test_a_cell_may_hold_delimiters_quotes_and_lines() -> None:
    data = b'a,b\n"1,2","say ""hi"""\n"x\ny | z",plain\n'
    assert '| 1,2 | say "hi" |\n| x<br>y \\| z | plain |' in _text(data)
    assert _json(data)["rows"] == [["1,2", 'say "hi"'], ["x\ny | z", "plain"]]


def test_quotes_may_be_escaped_by_backslashes() -> None:
    assert _json(b'a,b\n"say \\"hi\\", he said",2\n')["rows"] == [['say "hi", he said', 2]]


def test_excels_own_line_names_the_delimiter() -> None:
    assert _json(b"sep=;\na;b\n1;2\n") == {"columns": ["a", "b"], "rows": [[1, 2]]}


def test_columns_have_types() -> None:
    table = _text(
        b"i,n,b,d,t,code,mixed,empty\n"
        b"1,1.5,true,2026-01-02,2026-01-02T10:00:00Z,007,1,\n-2,2,false,2026-02-03,,08,x,\n"
    )
    for name in ("i (integer)", "n (number)", "b (boolean)", "d (date)", "t (time)"):
        assert name in table
    for name in ("code (text)", "mixed (text)", "empty (text)"):
        assert name in table


def test_json_has_numbers_where_nothing_is_lost() -> None:
    data = b"i,n,b,code\n1,1.5,true,007\n,2,false,12345678901234567890\n"
    assert _json(data)["rows"] == [
        [1, 1.5, True, "007"],
        [None, 2, False, "12345678901234567890"],
    ]
    lines = b'{"id": 9007199254740993, "x": 0.1}\n'
    assert _json(lines, _JSON_LINES)["rows"] == [["9007199254740993", 0.1]]
    as_written = [["1.10", "2e3", "True", "123456789012345.123456789012345"]]
    assert (
        _json(("\n".join(("a,b,c,d", *map(",".join, as_written)))).encode())["rows"] == as_written
    )


@for_each(
    ("data", "columns"),
    [
        (b"name,2020,2021\nA,5,6\n", ["name", "2020", "2021"]),
        (b"1,2\n3,4\n", ["column1", "column2"]),
        (b"Ann,30\nBob,25\n", ["column1", "column2"]),
        (b"name,city\nAnn,Rome\n", ["name", "city"]),
        (b"a,,a\n1,2,3\n", ["a", "column2", "a_2"]),
        (b"a,b\n1,2,3\n", ["a", "b", "column3"]),
    ],
)
def test_the_header_is_found(data: bytes, columns: list[str]) -> None:
    assert _json(data)["columns"] == columns


@for_each("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@for_each("media_type", [_CSV, _JSON_LINES])
def test_the_encoding_is_found(encoding: str, media_type: str) -> None:
    text = "name,city\nMüller,Zürich\nNaïve,Genève\n"
    if media_type == _JSON_LINES:
        text = '{"name": "Müller", "city": "Zürich"}\n'
    assert "| Müller | Zürich |" in _text(text.encode(encoding), media_type)


def test_one_foreign_character_after_much_ascii_is_read() -> None:
    data = _long(100_000) + "100001,Müller,1\n".encode("cp1252")
    assert "| Müller |" in _text(data, rows="100001-")


def test_a_damaged_byte_does_not_change_the_encoding() -> None:
    data = "имя,город\nАнна,Москва\n".encode() * 5 + b"\xff,x\n"
    assert "| Анна | Москва |" in _text(data)


def test_parts_have_at_most_a_thousand_rows() -> None:
    parts = _parts(_long(2500))
    assert [part.number for part in parts] == [1, 1001, 2001]
    assert parts[-1].total == 2500
    for part in parts:
        assert "| id | name | half |" in str(part.data)
    assert "Rows 2001-2500 of 2500" in str(parts[-1].data)
    assert "| 2500 | n2500 | 2500.5 |" in str(parts[-1].data)


@for_each("quoted", [False, True])
@for_each("media_type", [_CSV, _JSON_LINES])
@for_each(
    ("rows", "first", "last"),
    [
        ("1", 1, 1),
        ("1-3", 1, 3),
        ("999-1002", 999, 1002),
        ("30000-31500", 30_000, 31_500),
        ("39990-", 39_990, _COUNT),
        ("40000-900000", _COUNT, _COUNT),
    ],
)
def test_rows_are_given_by_number(
    rows: str, first: int, last: int, media_type: str, quoted: bool
) -> None:
    data = _numbered(media_type, quoted=quoted)
    found = _json(data, media_type, rows=rows)
    assert found["columns"] == ["id", "name"]
    assert [row[0] for row in found["rows"]] == list(range(first, last + 1))
    parts = _parts(data, media_type, rows=rows)
    assert parts[0].number == first
    assert parts[-1].total == _COUNT


@cache
def _numbered(media_type: str, *, quoted: bool) -> bytes:
    if media_type == _CSV:
        template = b'%d,"n\n%d"\n' if quoted else b"%d,n%d\r\n"
        head = b"id,name\n"
    else:
        template = b'\n{"id":%d,"name":"%d"}\n' if quoted else b'{"id":%d,"name":"%d"}\n'
        head = b""
    return head + b"".join(template % (number, number) for number in range(1, _COUNT + 1))


def test_rows_may_be_given_by_the_request() -> None:
    request = ConversionRequest(media_type=_CSV, first=2, last=3)
    (part,) = convert(io.BytesIO(_long(10)), request)
    assert "| 2 | n2 | 2.5 |\n| 3 | n3 | 3.5 |" in str(part.data)
    assert (part.number, part.total) == (2, 10)


@for_each("rows", ["0", "3-2", "x", "-5", "1-2-3", "1e3", "9" * 50])
def test_other_rows_are_refused(rows: str) -> None:
    with pytest.raises(InvalidParameter, match="write rows="):
        _parts(_long(3), rows=rows)


def test_there_are_no_rows_after_the_last() -> None:
    parts = _parts(_long(3), rows="4-")
    assert not any("| n" in str(part.data) for part in parts)


def test_columns_are_given_by_name_and_in_order() -> None:
    assert _json(_long(2), columns="half,id") == {
        "columns": ["half", "id"],
        "rows": [[1.5, 1], [2.5, 2]],
    }
    assert _json(b'"a,b",c\n1,2\n', columns='"a,b"')["columns"] == ["a,b"]
    with pytest.raises(InvalidParameter, match="no column 'price'; there are id, name, half"):
        _parts(_long(2), columns="id,price")


def test_json_lines_have_a_column_for_each_name() -> None:
    data = b'{"a": 1, "b": "x|y"}\n\n{"a": 2.5, "c": [1, {"z": null}], "d": true}\n'
    assert _json(data, _JSON_LINES) == {
        "columns": ["a", "b", "c", "d"],
        "rows": [[1, "x|y", None, None], [2.5, None, [1, {"z": None}], True]],
    }
    table = _text(data, _JSON_LINES)
    assert "columns: a (number), b (text), c (list), d (boolean)" in table
    assert '| 2.5 |  | \\[1, {"z": null}] | true |' in table


def test_json_lines_of_lists_and_values_are_rows() -> None:
    assert _json(b"[1, 2]\n[3]\n", _JSON_LINES)["rows"] == [[1, 2], [3, None]]
    assert _json(b'"x"\n5\n', _JSON_LINES) == {"columns": ["value"], "rows": [["x"], [5]]}


def test_a_broken_line_among_json_lines_is_shown() -> None:
    assert "[no JSON] {&" in _text(b'{"a": 1}\n{&\n', _JSON_LINES)
    with pytest.raises(ConversionError, match="no JSON"):
        _text(b"plain\ntext\n", _JSON_LINES)


@for_each("media_type", [_CSV, _TSV, _JSON_LINES])
def test_an_empty_file_has_no_rows(media_type: str) -> None:
    assert "No rows" in _text(b"", media_type)
    assert _json(b"", media_type) == {"columns": [], "rows": []}


def test_binary_data_is_refused() -> None:
    with pytest.raises(ConversionError, match="no text"):
        _text(bytes(range(256)) * 10)


# Control characters make a file binary.
_CELLS = st.text(
    st.characters(
        codec="utf-8",
        exclude_categories=("Cc",),
        include_characters="\n\t",
        exclude_characters="\ufeff",
    ),
    max_size=8,
)


@given(st.lists(st.lists(_CELLS, min_size=3, max_size=3), min_size=1, max_size=5))
def test_all_cells_of_written_tables_are_read(rows: list[list[str]]) -> None:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows([["head-a", "head-b", "head-c"], *rows])
    found = _json(buffer.getvalue().encode())
    shown = [[_as_written(cell) for cell in row] for row in found["rows"]]
    assert len(shown) == len(rows)
    for row, expected in zip(shown, rows, strict=True):
        for cell, written in zip(row, expected, strict=True):
            assert cell == written or isinstance(cell, float | int)


def _as_written(cell: object) -> object:
    return "" if cell is None else cell


@for_each(
    "hostile",
    [
        b'a,b\n"' + b"x" * 4_000_000,
        b"," * 1_000_000,
        b"\n" * 1_000_000,
        b'"' * 1_000_000,
        b'a,"b\n' * 100_000,
        b"a" * 4_000_000,
        b"a,b\n" + b"\0" * 1_000_000,
        b"a;b,c|d\te\n" * 60_000,
    ],
)
def test_hostile_tables_end_soon(hostile: bytes) -> None:
    for media_type in (_CSV, _JSON_LINES):
        begin = time.process_time()
        with suppress(ConversionError):
            _parts(hostile, media_type)
        assert time.process_time() - begin < 5


@for_each("line", [b"[" * 100_000, b"9" * 10_000, b'{"a":' * 50_000, b"NaN", b"1e999"])
def test_hostile_json_is_passed_over(line: bytes) -> None:
    assert "| 1 |" in _text(b'{"a": 1}\n' + line + b"\n", _JSON_LINES)
    _json(b'{"a": 1}\n' + line + b"\n", _JSON_LINES)


def test_half_a_surrogate_pair_does_not_make_json_lines_unreadable() -> None:
    for name in ("markdown", "json"):
        request = ConversionRequest(media_type=_JSON_LINES, format=name)
        (part,) = in_a_worker("delimited", b'{"a": "fact \\ud83d"}\n', request)
        assert "fact \ufffd" in str(part.data)


def test_infinity_and_nan_are_text_in_json() -> None:
    text = "".join(str(part.data) for part in _parts(b"[NaN, [-1e999]]\n", _JSON_LINES, "json"))
    assert '["NaN", ["-1e999"]]' in text


@for_each("depth", [*range(900, 1000, 7), 5000])
def test_deep_json_lines_raise_nothing_but_conversion_errors(depth: int) -> None:
    for name in ("markdown", "json"):
        with suppress(ConversionError):
            _parts(b'{"a": ' + b"[" * depth + b"]" * depth + b"}\n", _JSON_LINES, name)


@for_each(
    ("document", "media_type"),
    [
        ('id;name;"note"\n1;Äpfel;"a\nb"\n2;Birnen;"say ""x"""\n'.encode(), _CSV),
        ("id,name\n1,日本\n2,語学\n".encode("cp932"), _CSV),
        ("id\tname\n1\tx\n".encode("utf-16"), _TSV),
        (b'{"a": 1, "b": [true, null]}\n{"a": "x", "c": {"d": 2.5}}\n', _JSON_LINES),
    ],
)
def test_damaged_documents_raise_nothing_but_conversion_errors(
    document: bytes, media_type: str
) -> None:
    begin = time.process_time()
    for data in damaged(document, count=300):
        for name in ("markdown", "json"):
            with suppress(ConversionError):
                _parts(data, media_type, name)
    assert time.process_time() - begin < 60


@pytest.mark.deep
def test_a_range_of_a_file_of_one_gigabyte_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    block = b"".join(b"%07d,some text of a row,%d.5\n" % (n, n) for n in range(30_000))
    count = (1 << 30) // len(block)
    with path.open("wb") as file:
        file.write(b"id,text,value\n")
        for _ in range(count):
            file.write(block)
    last = 30_000 * count
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for rows in ("5-6", f"{last - 1}-"):
        request = ConversionRequest(media_type=_CSV, options={"rows": rows})
        with path.open("rb") as file:
            (part,) = convert(file, request)
            assert not file.closed
        assert str(part.data).count("some text of a row") == 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 * 1024
    path.unlink()


def test_a_confined_worker_reads_tables() -> None:
    data = _long(1500)
    for media_type, document in ((_CSV, data), (_CSV, data.decode().encode("utf-16"))):
        request = ConversionRequest(media_type=media_type)
        parts = in_a_worker("delimited", document, request)
        assert [part.number for part in parts] == [1, 1001]
        assert "| 1500 | n1500 | 1500.5 |" in str(parts[1].data)


def test_rows_are_given_as_csv_of_one_form() -> None:
    data = b'{"a": 1, "b": "x, y"}\n{"a": null, "b": "z"}\n{"a": [1], "b": ""}\n'
    parts = _parts(data, "application/jsonl", "csv", rows="1-2")
    assert [part.data for part in parts] == ['a,b\n1,"x, y"\n,z\n']
    many = "".join(str(part.data) for part in _parts(_long(2500), _CSV, "csv"))
    assert many.encode() == _long(2500)
