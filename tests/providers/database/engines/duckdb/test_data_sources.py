"""Data files as tables: kinds of files, names, dialects, and files that come, go and change."""

from __future__ import annotations

import gzip
import itertools
import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from string import ascii_uppercase
from typing import Any
from urllib.parse import quote

import duckdb
import pytest

from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.errors import MountUnavailable, ResourceNotFound
from resource_server.runtime.timing import Timing
from resource_server.subscriptions.broker import Broker
from tests.conversion.formats.zipped import unzipped, zipped
from tests.conversion.portable import xlsx
from tests.conversion.xls import xls
from tests.listeners import LIST, Recorder, mounted
from tests.providers.database.engines.duckdb.spreadsheets import ods
from tests.providers.database.served import FRESH, Served, timed_database
from tests.waiting import until

pytestmark = pytest.mark.anyio

QUIET_S = 0.3
"""Longer than two looks at the files, and their notifications."""
CSV = "id,name\n1,Ann\n2,Bo\n"
LINES = '{"id": 1, "name": "Ann"}\n{"id": 2, "name": "Bo"}\n'
PEOPLE = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bo"}]


def make(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files, in folders of their own where their names say so."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


TWO = "SELECT 1 AS id, 'Ann' AS name UNION ALL VALUES (2, 'Bo')"


def parquet(path: Path, sql: str = TWO) -> None:
    """Write the rows of a SELECT."""
    written = path.with_name("written")
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({sql}) TO '{written}' (FORMAT parquet)")
    written.rename(path)


@asynccontextmanager
async def served(url: str, **options: Any) -> AsyncGenerator[Served]:
    """Serve data files."""
    provider = timed_database(FRESH, url=url, interval=0.02, **options)
    async with Catalog([mounted(provider)], CatalogLimits(page_size=1000)) as catalog:
        problems = await catalog.start()
        assert problems == {}
        yield Served(catalog, "")


async def tables(view: Served) -> list[str]:
    """Return the addresses of the tables."""
    return await view.children()


async def _lists(view: Served, *names: str) -> bool:
    return await tables(view) == list(names)


async def rows(view: Served, table: str) -> list[dict[str, Any]]:
    """Return all rows of a table."""
    address = table if table.startswith("~t") else quote(table, safe="")
    found = await view.pages(f"{address}/~rows")
    return [row for page in found for row in page]


# -- kinds of files

CELLS = {(0, 0): "id", (0, 1): "name", (1, 0): 1.0, (1, 1): "Ann", (2, 0): 2.0, (2, 1): "Bo"}
SHEET = (
    '<row r="1"><c r="A1" t="inlineStr"><is><t>id</t></is></c>'
    '<c r="B1" t="inlineStr"><is><t>name</t></is></c></row>'
    '<row r="2"><c r="A2"><v>1</v></c><c r="B2" t="inlineStr"><is><t>Ann</t></is></c></row>'
    '<row r="3"><c r="A3"><v>2</v></c><c r="B3" t="inlineStr"><is><t>Bo</t></is></c></row>'
)
KINDS: Mapping[str, str | bytes] = {
    "csv": CSV,
    "CSV": CSV,
    "tsv": CSV.replace(",", "\t"),
    "csv.gz": gzip.compress(CSV.encode()),
    "tsv.gz": gzip.compress(CSV.replace(",", "\t").encode()),
    "jsonl": LINES,
    "ndjson": LINES,
    "jsonl.gz": gzip.compress(LINES.encode()),
    "ndjson.gz": gzip.compress(LINES.encode()),
    "xls": xls({"one": CELLS}),
    "xlsx": xlsx(SHEET),
    "ods": ods((("id", "name"), (1, "Ann"), (2, "Bo"))),
}


@pytest.mark.guarantee("as-shown-so-taken")
async def test_every_kind_of_file_has_the_same_rows(tmp_path: Path) -> None:
    for place, (kind, data) in enumerate(KINDS.items()):
        make(tmp_path, {f"people_{place}.{kind}": data})
    parquet(tmp_path / "parquet_people.parquet")
    async with served(f"files:{tmp_path}/*") as view:
        found = await tables(view)
        assert len(found) == len(KINDS) + 1
        for table in found:
            assert await rows(view, table) == PEOPLE, table
            assert await view.rows(table) == [f"{table}/1", f"{table}/2"]
            assert await view.json(f"{table}/2") == PEOPLE[1], table
            with pytest.raises(ResourceNotFound):
                await view.read(f"{table}/0")


@pytest.mark.parametrize("ragged", ["1,2", "1,2,x,4", "1,p,q,r", '1,"two\nlines",x,4,5'])
@pytest.mark.parametrize("pattern", ["a.csv", "*.csv"])
async def test_a_row_of_more_or_fewer_values_loses_no_other_row(
    tmp_path: Path, ragged: str, pattern: str
) -> None:
    others = "".join(f"{number},b,c\n" for number in range(20))
    make(tmp_path, {"a.csv": f"id,b,c\n{others}{ragged}\n"})
    async with served(f"files:{tmp_path}/{pattern}") as view:
        found = await rows(view, "a")
        assert [row["id"] for row in found] == [*range(20), 1]
        assert {row["c"] for row in found[:20]} == {"c"}


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Report 2024\n\nid,name,price\n1,a,2.5\n2,b,3.5\n", {"id": 1, "name": "a", "price": 2.5}),
        ("Report, 2024\n\nid,name,price\n1,a,2.5\n2,b,3.5\n", {"id": 1, "name": "a", "price": 2.5}),
        ("# exported\n# by x\nid,name\n1,a\n2,b\n", {"id": 1, "name": "a"}),
        ("text\nhello, world\nplain\n", {"text": "hello, world"}),
    ],
)
@pytest.mark.parametrize("more", [{}, {"b.csv": "id,name\n7,z\n"}])
async def test_lines_above_the_header_are_no_rows(
    tmp_path: Path, text: str, first: dict[str, Any], more: dict[str, str]
) -> None:
    make(tmp_path, {"a.csv": text, **more})
    async with served(f"files:{tmp_path}/*.csv") as view:
        found = (await rows(view, "a"))[0]
        assert {name: found[name] for name in first} == first
        assert "column1" not in found


RAGGED = {
    "one value a row": ("h0\n1\n2\n3\n1,EX,EX\n", 4),
    "names": ("name\n" + "".join(f"n{at}\n" for at in range(500)) + "Smith, John, Jr\n", 501),
    "signs": ("a,b\nx,|p|\n4,tab\t\n4,x;y\n1,//,EX,EX\n-5,NULL\n", 5),
}


@pytest.mark.guarantee("as-shown-so-taken")
@pytest.mark.parametrize("name", RAGGED)
async def test_a_ragged_file_keeps_every_row_and_value(tmp_path: Path, name: str) -> None:
    text, count = RAGGED[name]
    make(tmp_path, {"a.csv": text})
    async with served(f"files:{tmp_path}/a.csv") as view:
        found = await rows(view, "a")
        assert len(found) == count
        written = [[value for value in row.values() if value is not None] for row in found]
        lines = text.splitlines()[1:]
        assert [",".join(map(str, row)) for row in written] == lines


SPELLINGS = ("00123", "+4912", "1.10", "1_000", "12345678901234567890", "t", "y", "12:00:00+02")
NUMBERS = (
    ("1", "-20", [1, -20]),
    ("2.75", "3", [2.75, 3]),
    ("true", "false", [True, False]),
    ("2026-01-31", "2026-02-01", ["2026-01-31", "2026-02-01"]),
    ("nan", "inf", ["nan", "inf"]),
    ("NULL", "None", ["NULL", "None"]),
)


@pytest.mark.guarantee("as-shown-so-taken")
async def test_values_that_a_type_would_spell_otherwise_stay_text(tmp_path: Path) -> None:
    cells = "".join(_text_cell(f"{ascii_uppercase[at]}1", f"h{at}") for at in range(8))
    texts = "".join(_text_cell(f"{ascii_uppercase[at]}2", s) for at, s in enumerate(SPELLINGS))
    head = ",".join(f"h{at}" for at in range(8))
    expected = [{f"h{at}": spelling for at, spelling in enumerate(SPELLINGS)}]
    make(tmp_path, {"sheet.xlsx": xlsx(_row(1, cells) + _row(2, texts))})
    make(tmp_path, {"text.csv": f"{head}\n{','.join(SPELLINGS)}\n"})
    for at, (first, second, _) in enumerate(NUMBERS):
        make(tmp_path, {f"n{at}.csv": f"v,w\n{first},x\n{second},x\n"})
    async with served(f"files:{tmp_path}/*") as view:
        assert await rows(view, "sheet") == expected
        assert await rows(view, "text") == expected
        for at, (*_, values) in enumerate(NUMBERS):
            assert [row["v"] for row in await rows(view, f"n{at}")] == values


async def test_decimals_with_as_many_digits_each_are_exact_numbers(tmp_path: Path) -> None:
    make(tmp_path, {"even.csv": "id,price\n1,19.90\n2,5.00\n3,-0.05\n4,\n5,0.10\n"})
    make(
        tmp_path, {"uneven.csv": "id,price\n1,19.90\n2,5\n", "zero.csv": "id,v\n1,1.10\n2,-0.00\n"}
    )
    async with served(f"files:{tmp_path}/*") as view:
        prices = [row["price"] for row in await rows(view, "even")]
        assert prices == ["19.90", "5.00", "-0.05", None, "0.10"]
        (whole,) = (await view.json("even/~summary?sum=price"))["rows"]
        assert "24.95" in whole.values()
        assert [row["price"] for row in await rows(view, "uneven")] == ["19.90", "5"]
        assert [row["v"] for row in await rows(view, "zero")] == ["1.10", "-0.00"]


async def test_json_lines_have_every_member_and_the_types_of_all_lines(tmp_path: Path) -> None:
    late = '{"a": 1}\n' * 45_000 + '{"a": 2.75, "b": "x"}\n'
    kinds = (
        '{"id": 1, "ID": 2, "text": "007", "n": [1.50, {"k": null}], "m": 1, "big": 1}\n'
        '{"id": 2, "text": "", "n": [], "m": "1", "big": 12345678901234567890}\n'
        "no JSON\n"
    )
    make(tmp_path, {"late.jsonl": late, "kinds.jsonl": kinds})
    async with served(f"files:{tmp_path}/*") as view:
        last = await view.json("late/45001")
        assert last == {"a": 2.75, "b": "x"}
        assert await view.json("late/45000") == {"a": 1, "b": None}
        first, second, third = await rows(view, "kinds")
        assert (first["id"], first["ID_2"], first["text"]) == (1, 2, "007")
        assert (first["n"], first["m"], second["m"]) == ([1.5, {"k": None}], "1", "1")
        assert (second["text"], second["n"], third["value"]) == ("", [], "[no JSON] no JSON")
        assert int(second["big"]) == 12345678901234567890


async def test_objects_without_members_are_rows(tmp_path: Path) -> None:
    make(tmp_path, {"none.jsonl": "{}\n{}\n", "late.jsonl": "{}\n" * 1500 + '{"a": 5}\n'})
    async with served(f"files:{tmp_path}/*") as view:
        assert await rows(view, "none") == [{"column1": None}] * 2
        assert (await view.json("late/~summary"))["rows"] == [{"count": 1501}]
        assert await view.json("late/1501") == {"a": 5}


async def test_what_is_unusual_in_a_file_is_told_with_its_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(
        tmp_path,
        {
            "open.csv": 'a,b\n1,"x\n2,y\n3,z\n',
            "lines.jsonl": '{"a": 1}\n{"a": \n',
            "early.csv.gz": gzip.compress(CSV.encode())[:-12],
            "latin.csv": "id,name\n1,J\xfcrgen\n".encode("latin-1"),
            "end.parquet": b"PAR1 and no end",
        },
    )
    async with served(f"files:{tmp_path}/*") as view:
        assert await rows(view, "open") == [
            {"a": 1, "b": '"x'},
            {"a": 2, "b": "y"},
            {"a": 3, "b": "z"},
        ]
        assert await rows(view, "latin") == [{"id": 1, "name": "J\xfcrgen"}]
        assert await tables(view) == ["latin", "lines", "open"]
    told = "\n".join(caplog.messages)
    assert "open.csv: line 2: a quote is never closed; the line is read as it stands" in told
    assert "lines.jsonl: line 2: the line is no JSON" in told
    assert "left out: early.csv.gz: its compressed data ends early" in told
    assert "left out: end.parquet: its end is missing" in told


async def test_a_schema_says_how_rows_are_addressed(tmp_path: Path) -> None:
    make(tmp_path, {"a.csv": CSV})
    async with served(f"files:{tmp_path}/a.csv") as view:
        schema = await view.text("a/~schema")
        assert schema.endswith("\n\nRows are addressed by their number, from 1\n")
        schema = await view.json("a/~schema?format=json")
        assert schema["key"] == {"kind": "number", "columns": []}
        details = (await view.entry("a")).resource.details
        assert details is not None
        assert (details["table"]["key"], details["table"]["keyKind"]) == ([], "number")


def _row(number: int, *cells: str) -> str:
    return f'<row r="{number}">{"".join(cells)}</row>'


def _text_cell(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


async def test_errors_of_cells_are_read_as_their_text(tmp_path: Path) -> None:
    sheet = (
        _row(1, _text_cell("A1", "id"), _text_cell("B1", "share"))
        + _row(2, '<c r="A2"><v>1</v></c>', '<c r="B2" t="e"><f>1/0</f><v>#DIV/0!</v></c>')
        + _row(3, '<c r="A3"><v>2</v></c>', '<c r="B3"><v>0.5</v></c>')
    )
    expected = [{"id": 1, "share": "#DIV/0!"}, {"id": 2, "share": "0.5"}]
    data = ods((("id", "share"), (1, "#DIV/0!"), (2, "0.5")))
    make(tmp_path, {"a.xlsx": xlsx(sheet), "b.ods": data})
    async with served(f"files:{tmp_path}/*") as view:
        assert await rows(view, "a") == expected
        assert await rows(view, "b") == expected


async def test_a_column_without_a_value_below_its_name_leaves_no_sheet_out(tmp_path: Path) -> None:
    heads = _row(1, _text_cell("A1", "id"), _text_cell("B1", "note"))
    one = heads + _row(2, '<c r="A2"><v>1</v></c>')
    short = ods((("id", "note"), (1,), (2,)))
    make(tmp_path, {"a.xlsx": xlsx(heads, one, SHEET), "b.ods": short})
    async with served(f"files:{tmp_path}/*") as view:
        assert await tables(view) == ["a.Sheet1", "a.Sheet2", "a.Sheet3", "b"]
        assert await rows(view, "a.Sheet1") == []
        assert "`note`" in await view.text("a.Sheet1/~schema")
        assert await rows(view, "a.Sheet2") == [{"id": 1, "note": None}]
        assert await rows(view, "a.Sheet3") == PEOPLE
        assert await rows(view, "b") == [{"id": 1, "note": None}, {"id": 2, "note": None}]


async def test_a_sheet_that_cannot_be_a_table_leaves_only_itself_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = unzipped(xlsx(SHEET, SHEET, SHEET))
    renamed = parts["xl/workbook.xml"].replace(b'"Sheet2"', b'"SHEET1"')
    make(tmp_path, {"a.xlsx": zipped({**parts, "xl/workbook.xml": renamed})})
    async with served(f"files:{tmp_path}/a.xlsx") as view:
        assert await tables(view) == ["a.Sheet1", "a.Sheet3"]
    assert any("left out: a.SHEET1: another" in line for line in caplog.messages)


async def test_a_sheet_begins_with_its_first_row_that_has_a_value(tmp_path: Path) -> None:
    later = "".join(
        _row(at, _text_cell(f"B{at}", name), f'<c r="C{at}"><v>{value}</v></c>')
        for at, name, value in ((4, "Ann", 1), (6, "Bo", 2))
    )
    heads = _row(1, '<c r="A1" s="1"/>') + _row(3, _text_cell("B3", "name"), _text_cell("C3", "n"))
    make(tmp_path, {"a.xlsx": xlsx(heads + later)})
    async with served(f"files:{tmp_path}/a.xlsx") as view:
        found = await rows(view, "a")
    expected = [{"name": "Ann", "n": 1}, {"name": None, "n": None}, {"name": "Bo", "n": 2}]
    assert found == expected


async def test_durations_are_spelt_as_their_sheet_shows_them(tmp_path: Path) -> None:
    values = ("1.25347222222222", "0.25", "-0.5")
    cells = "".join(
        _row(at, f'<c r="A{at}" s="2"><v>{v}</v></c>') for at, v in enumerate(values, 2)
    )
    parts = unzipped(xlsx(_row(1, _text_cell("A1", "worked")) + cells))
    styles = parts["xl/styles.xml"].replace(b'"22"', b'"46"')  # [h]:mm:ss
    make(tmp_path, {"a.xlsx": zipped({**parts, "xl/styles.xml": styles})})
    async with served(f"files:{tmp_path}/a.xlsx") as view:
        shown = [row["worked"] for row in await rows(view, "a")]
    assert shown == ["30:05:00", "06:00:00", "-12:00:00"]


async def test_hidden_sheets_are_tables_that_say_so(tmp_path: Path) -> None:
    make(tmp_path, {"a.xlsx": xlsx(SHEET, SHEET, states=("visible", "hidden"))})
    async with served(f"files:{tmp_path}/a.xlsx") as view:
        assert await rows(view, "a.Sheet2") == PEOPLE
        assert "Hidden sheet." in await view.text("a.Sheet2/~schema")
        assert (await view.entry("a.Sheet2")).resource.description == "Hidden sheet."
        assert "Hidden" not in await view.text("a.Sheet1/~schema")


async def test_cells_beyond_the_first_row_and_times_of_days_are_read(tmp_path: Path) -> None:
    data = ods((("day",), ("2026-01-31 12:30:00", "more"), ("2026-02-01 00:00:00",)))
    make(tmp_path, {"a.ods": data, "b.ods": ods((("day",), ("2026-01-31",)))})
    async with served(f"files:{tmp_path}/*.ods") as view:
        first, second = await rows(view, "a")
        assert (first["day"], first["column2"]) == ("2026-01-31 12:30:00", "more")
        assert second["column2"] is None
        assert await rows(view, "b") == [{"day": "2026-01-31"}]


async def test_spreadsheets_that_documents_refuse_are_no_tables(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = unzipped(xlsx(SHEET))
    letters = (
        "".join(each) for each in itertools.product("ABCD", ascii_uppercase, ascii_uppercase)
    )
    diagonal = "".join(
        _row(number, _text_cell(f"{column}{number}", "x"))
        for number, column in enumerate(letters, 1)
    )
    refused = {
        "type.xlsx": (zipped({**parts, "xl/styles.xml": "<!DOCTYPE a><a/>"}), "document type"),
        "bomb.xlsx": (zipped({**parts, "xl/styles.xml": bytes(20 * 1024**2)}), "archive"),
        "wide.xlsx": (xlsx(diagonal), "more than 5,000,000 cells"),
    }
    make(tmp_path, {name: data for name, (data, _) in refused.items()})
    make(tmp_path, {"good.xlsx": xlsx(SHEET)})
    async with served(f"files:{tmp_path}/*") as view:
        assert await tables(view) == ["good"]
    for name, (_, reason) in refused.items():
        assert any(f"{name}: " in line and reason in line for line in caplog.messages), name


TYPES = {
    "TINYINT": ("-128", -128),
    "BIGINT": ("9223372036854775807", "9223372036854775807"),
    "DECIMAL(18,3)": ("12345.678", None),
    "DOUBLE": ("0.1", 0.1),
    "BOOLEAN": ("true", True),
    "DATE": ("'2026-01-31'", "2026-01-31"),
    "TIMESTAMP": ("'2026-01-31 12:30:00.5'", None),
    "VARCHAR": ("'Ünïcode 😀'", "Ünïcode 😀"),
    "UUID": ("'00000000-0000-0000-0000-000000000001'", "00000000-0000-0000-0000-000000000001"),
    "INTEGER[]": ("[1, 2, NULL]", [1, 2, None]),
    "STRUCT(a INTEGER, b VARCHAR)": ("{'a': 1, 'b': 'x'}", {"a": 1, "b": "x"}),
    "MAP(VARCHAR, INTEGER)": ("MAP {'k': 1}", {"k": 1}),
}


async def test_types_of_parquet_columns_keep_their_values(tmp_path: Path) -> None:
    each = ", ".join(
        f"({value})::{type} AS c{place}, NULL::{type} AS n{place}"
        for place, (type, (value, _)) in enumerate(TYPES.items())
    )
    parquet(tmp_path / "t.parquet", f"SELECT {each}")
    async with served(f"files:{tmp_path}/t.parquet") as view:
        (row,) = await rows(view, "t")
        for place, (type, (_, expected)) in enumerate(TYPES.items()):
            assert row[f"n{place}"] is None
            if expected is not None:
                assert row[f"c{place}"] == expected, type
        assert str(row["c2"]) == "12345.678"
        assert str(row["c6"]).startswith("2026-01-31T12:30:00.5")


NAMES = (
    "it's",
    'quo"te',
    "semi;colon",
    "100%",
    "a b",
    "[x]",
    "star*",
    "Ünïcode 😀",
    "select",
    "back\\slash",
    "new\nline",
    "$1",
    "{a,b}",
    "it''s -- x",
)


async def test_files_with_any_name_are_tables(tmp_path: Path) -> None:
    make(tmp_path, {f"{name}.csv": f"id,name\n1,{place}\n" for place, name in enumerate(NAMES)})
    for place, name in enumerate(NAMES):
        parquet(tmp_path / f"{name}2.parquet", f"SELECT {place} AS name")
    async with served(f"files:{quote(str(tmp_path))}/*") as view:
        for place, name in enumerate(NAMES):
            assert await rows(view, name) == [{"id": 1, "name": place}], name
            assert await rows(view, f"{name}2") == [{"name": place}], name


async def test_files_with_the_same_stem_keep_their_suffix(tmp_path: Path) -> None:
    make(tmp_path, {"a.csv": CSV, "A.tsv": "x\n1\n", "b/a.csv": "y\n2\n"})
    async with served(f"files:{tmp_path}/**/*") as view:
        assert await rows(view, "a.csv") == PEOPLE
        assert await rows(view, "A.tsv") == [{"x": 1}]
        assert await rows(view, "~tb~2Fa") == [{"y": 2}]


async def test_of_two_names_that_differ_in_case_one_is_left_out_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, {"a.csv": CSV, "A.csv": CSV})
    if (tmp_path / "A.csv").samefile(tmp_path / "a.csv"):
        pytest.skip("this file system ignores case")
    async with served(f"files:{tmp_path}/*.csv") as view:
        assert len(await tables(view)) == 1
    assert "another file has this name" in caplog.text


# -- patterns


async def test_a_pattern_that_matches_nothing_says_so_until_a_file_is_there(tmp_path: Path) -> None:
    provider = timed_database(FRESH, url=f"files:{tmp_path}/*.csv")
    with pytest.raises(MountUnavailable, match="no data file matches `url`"):
        await provider.__aenter__()
    make(tmp_path, {"people.csv": CSV})
    async with served(f"files:{tmp_path}/*.csv") as view:
        assert await rows(view, "people") == PEOPLE


async def test_a_pattern_takes_only_data_files_of_its_folder(tmp_path: Path) -> None:
    inside = tmp_path / "data"
    hidden = {".hidden.csv": CSV, ".git/x.csv": CSV, "deep/.y/z.csv": CSV}
    make(inside, {"a.csv": CSV, "notes.txt": "x", "deep/b.csv": CSV, "p.csv.bak": "x", **hidden})
    make(tmp_path, {"outside.csv": "id,name\n1,secret\n"})
    (inside / "link.csv").symlink_to(tmp_path / "outside.csv")
    (inside / "up").symlink_to(tmp_path)
    (inside / "folder.csv").mkdir()
    async with served(f"files:{inside}/**/*") as view:
        assert await tables(view) == ["a", "~tdeep~2Fb"]


async def test_a_new_file_becomes_a_table_and_a_lost_one_is_none(tmp_path: Path) -> None:
    make(tmp_path, {"a.csv": CSV})
    async with served(f"files:{tmp_path}/*.csv") as view:
        assert await tables(view) == ["a"]
        make(tmp_path, {"b.csv": "x\n5\n"})
        await until(lambda: _lists(view, "a", "b"))
        assert await rows(view, "b") == [{"x": 5}]
        (tmp_path / "a.csv").unlink()
        await until(lambda: _lists(view, "b"))
        with pytest.raises(ResourceNotFound):
            await view.json("a/~rows")


async def test_a_file_that_is_rewritten_keeps_no_other_waiting(tmp_path: Path) -> None:
    make(tmp_path, {f"f{number}.csv": f"id,name\n{number},x\n" for number in range(60)})
    async with served(f"files:{tmp_path}/*.csv") as view:
        assert len(await tables(view)) == 60
        await rows(view, "f1")
        make(tmp_path, {"f0.csv": "id,name\n0,rewritten\n"})
        begun = time.monotonic()
        for number in (1, 2, 3):
            assert await rows(view, f"f{number}") == [{"id": number, "name": "x"}]
        others = time.monotonic() - begun
        assert await rows(view, "f0") == [{"id": 0, "name": "rewritten"}]
        assert others < (time.monotonic() - begun) / 2


# -- one table of all files


async def test_one_table_of_all_files_has_the_columns_of_all(tmp_path: Path) -> None:
    make(tmp_path, {"1.csv": "id,name\n1,Ann\n", "2.csv": "id,city\n2,Rome\n", "3.csv": "id\n3\n"})
    async with served(f"files:{tmp_path}/*.csv?table=all") as view:
        assert await tables(view) == ["all"]
        assert await rows(view, "all") == [
            {"id": 1, "name": "Ann", "city": None},
            {"id": 2, "name": None, "city": "Rome"},
            {"id": 3, "name": None, "city": None},
        ]
        make(tmp_path, {"4.csv": "id,city\n4,Bonn\n"})

        async def has_more() -> bool:
            return len(await rows(view, "all")) == 4

        await until(has_more)


async def test_columns_of_other_types_under_one_table_hold_every_value(tmp_path: Path) -> None:
    parquet(tmp_path / "1.parquet", "SELECT 1 AS id")
    parquet(tmp_path / "2.parquet", "SELECT 2.5::DOUBLE AS id")
    make(tmp_path / "texts", {"1.csv": "id\n1\n", "2.csv": "id\nx\n"})
    async with served(f"files:{tmp_path}/*.parquet?table=all") as view:
        assert [row["id"] for row in await rows(view, "all")] == [1, 2.5]
    async with served(f"files:{tmp_path}/texts/*.csv?table=all") as view:
        assert [row["id"] for row in await rows(view, "all")] == ["1", "x"]


async def test_files_of_several_formats_are_not_one_table(tmp_path: Path) -> None:
    make(tmp_path, {"1.csv": CSV, "2.jsonl": LINES})
    provider = timed_database(FRESH, url=f"files:{tmp_path}/*?table=all")
    with pytest.raises(MountUnavailable, match="must have one format"):
        await provider.__aenter__()


# -- dialects of CSV

DIALECTS: Mapping[str, tuple[str | bytes, list[dict[str, Any]]]] = {
    "semicolons": ("id;name\n1;Ann\n2;Bo\n", PEOPLE),
    "pipes": ("id|name\n1|Ann\n2|Bo\n", PEOPLE),
    "CRLF": ("id,name\r\n1,Ann\r\n2,Bo\r\n", PEOPLE),
    "no last newline": ("id,name\n1,Ann\n2,Bo", PEOPLE),
    "a byte order mark": ("\ufeffid,name\n1,Ann\n2,Bo\n", PEOPLE),
    "quotes": (
        'id,name\n1,"An""n, x"\n2,"B\no"\n',
        [{"id": 1, "name": 'An"n, x'}, {"id": 2, "name": "B\no"}],
    ),
    "header only": ("id,name\n", []),
    "a late text": (
        "id,name\n" + "1,2\n" * 3000 + "x,y\n",
        [*({"id": "1", "name": "2"} for _ in range(3000)), {"id": "x", "name": "y"}],
    ),
    "leading zeros": (
        "zip,n\n01234,1\n00001,2\n",
        [{"zip": "01234", "n": 1}, {"zip": "00001", "n": 2}],
    ),
    "empty values": ("id,name\n1,\n,Bo\n", [{"id": 1, "name": None}, {"id": None, "name": "Bo"}]),
}


async def test_dialects_of_csv_are_found(tmp_path: Path) -> None:
    make(tmp_path, {f"{name}.csv": data for name, (data, _) in DIALECTS.items()})
    make(tmp_path, {"empty.csv": "", "good.csv": CSV})
    async with served(f"files:{tmp_path}/*.csv") as view:
        for name, (_, expected) in DIALECTS.items():
            assert await rows(view, name) == expected, name
        assert await rows(view, "good") == PEOPLE


@pytest.mark.deep
async def test_a_csv_of_a_thousand_columns_is_read_whole(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(1000)]
    line = ",".join(map(str, range(1000)))
    make(tmp_path, {"wide.csv": f"{','.join(names)}\n{line}\n{line}\n"})
    async with served(f"files:{tmp_path}/*.csv") as view:
        first, second = await rows(view, "wide")
        assert first == second == {f"c{number}": number for number in range(1000)}


async def test_a_file_that_cannot_be_read_leaves_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(
        tmp_path,
        {
            "bad.parquet": b"PAR1 no PAR1",
            "bad.csv.gz": gzip.compress(CSV.encode())[:-12],
            "bad.jsonl": '{"id": 1\n{{{',
            "bad.xlsx": b"PK\x03\x04 no",
            "latin.csv": "id,name\n1,J\xfcrgen\n".encode("latin-1"),
            "good.csv": CSV,
        },
    )
    async with served(f"files:{tmp_path}/*") as view:
        assert "good" in await tables(view)
        assert await rows(view, "good") == PEOPLE
        assert "bad.parquet" not in await tables(view)
    assert "a data file is left out" in caplog.text
    assert str(tmp_path) not in caplog.text


# -- subscriptions


@asynccontextmanager
async def followed(view: Served, *paths: str) -> AsyncGenerator[Recorder]:
    """Follow the listing and these paths."""
    live = Broker(view.catalog)
    recorder = Recorder()
    try:
        live.follow_list(recorder)
        for path in paths:
            await live.subscribe(view.base + path, recorder)
        await recorder.quiet(QUIET_S)
        yield recorder
    finally:
        await live.close()


async def test_data_files_have_the_time_that_they_take_to_be_opened(tmp_path: Path) -> None:
    make(tmp_path, {"a.csv": CSV})
    provider = timed_database(FRESH, url=f"files:{tmp_path}/a.csv")
    async with Catalog(
        [mounted(provider, timing=Timing(mount_start_s=0.001))], CatalogLimits(page_size=10)
    ) as catalog:
        assert await catalog.start() == {}
        assert await rows(Served(catalog, ""), "a") == PEOPLE


async def test_subscribers_hear_of_what_changed_and_of_nothing_else(tmp_path: Path) -> None:
    make(tmp_path, {"a.csv": CSV, "b.csv": CSV})
    async with (
        served(f"files:{tmp_path}/*.csv") as view,
        followed(view, "a/~rows", "b/~rows", "a/2") as recorder,
    ):
        make(tmp_path, {"a.csv": "id,name\n1,Ann\n2,Bob\n"})
        await recorder.of("a/~rows", "a/2")
        assert set(await recorder.quiet(QUIET_S)) == {"a/~rows", "a/2"}
        make(tmp_path, {"b.csv": CSV})
        assert await recorder.quiet(QUIET_S) == []
        make(tmp_path, {"c.csv": CSV})
        await recorder.of(LIST)
        assert set(await recorder.quiet(QUIET_S)) <= {LIST}
        (tmp_path / "b.csv").unlink()
        await recorder.of("b/~rows", LIST)
        assert set(await recorder.quiet(QUIET_S)) == {"b/~rows", LIST}
        make(tmp_path, {"b.csv": CSV})
        await recorder.of("b/~rows", LIST)
        assert json.loads(await view.text("b/~rows"))["rows"] == PEOPLE


@pytest.mark.parametrize("pattern", ["a.csv", "*.csv", "*.csv?table=a"])
async def test_subscribers_hear_that_the_last_file_is_gone_and_is_back(
    tmp_path: Path, pattern: str
) -> None:
    make(tmp_path, {"a.csv": CSV})
    async with (
        served(f"files:{tmp_path}/{pattern}") as view,
        followed(view, "a/~rows", "a/1") as recorder,
    ):
        (tmp_path / "a.csv").unlink()
        await recorder.of("a/~rows", "a/1", LIST)
        assert set(await recorder.quiet(QUIET_S)) == {"a/~rows", "a/1", LIST}
        assert await tables(view) == []
        with pytest.raises(ResourceNotFound):
            await view.json("a/~rows")
        make(tmp_path, {"a.csv": CSV})
        await recorder.of("a/~rows", "a/1", LIST)
        await recorder.quiet(QUIET_S)
        assert await rows(view, "a") == PEOPLE
        make(tmp_path, {"a.csv": "id,name\n1,Anna\n"})
        await recorder.of("a/~rows", "a/1")


async def test_a_file_that_is_missing_at_the_start_is_a_problem(tmp_path: Path) -> None:
    provider = timed_database(FRESH, url=f"files:{tmp_path}/a.csv")
    with pytest.raises(MountUnavailable, match="no data file matches `url`"):
        await provider.__aenter__()
    make(tmp_path, {"a.csv": CSV})
    async with provider:
        (tmp_path / "a.csv").unlink()
    with pytest.raises(MountUnavailable, match="no data file matches `url`"):
        await provider.__aenter__()


async def test_a_spreadsheet_that_ends_the_worker_leaves_the_other_files(tmp_path: Path) -> None:
    far = {(0, 0): "near", (65535, 255): "far out"}
    bomb = xls({f"sheet {number}": far for number in range(16)})
    make(tmp_path, {"people.csv": CSV, "bomb.xls": bomb})
    async with served(f"files:{tmp_path}/*") as view:
        assert await tables(view) == ["people"]
        assert await rows(view, "people") == PEOPLE
