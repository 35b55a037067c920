from __future__ import annotations

import asyncio
import datetime
import decimal
import functools
import ipaddress
import json
import math
import sqlite3
import uuid
from base64 import b64decode
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import InvalidParameter
from resource_server.providers.database.engines.contract import TruncatedValue
from resource_server.providers.database.engines.reflection import Column, ColumnKind
from resource_server.providers.database.formats.pages import json_column, json_columns
from resource_server.providers.database.formats.values import (
    INLINE_BLOB_BYTES,
    json_value,
    whole_cell,
)
from tests.cases import for_each

CELL = 1000
LARGEST = 2**53 - 1
PLAIN = Column("c", "", "any")
NAIVE = datetime.datetime.fromisoformat("2026-11-20T10:00:00")


def column(kind: ColumnKind, type: str = "", values: tuple[str, ...] = ()) -> Column:
    return Column("c", type, kind, values=values)


def sent(value: object, of: Column = PLAIN, *, cell: int = CELL) -> Any:
    """Return a value as clients get it; all ways to read it must agree."""
    alone = msgspec.json.encode(json_value(value, of, cell=cell))
    for place, *values in ((0, value, None), (1, None, value), (2, value, value, value)):
        values = cast("list[object]", values)
        assert msgspec.json.encode(json_column(values, of, cell=cell)[place]) == alone
    for other in (1, 1.5, "x"):
        assert msgspec.json.encode(json_column([other, value], of, cell=cell)[1]) == alone
    return json.loads(alone, parse_constant=pytest.fail)


@for_each(
    ("value", "form"),
    [
        (None, None),
        (True, True),
        (0, 0),
        (LARGEST, LARGEST),
        (-LARGEST, -LARGEST),
        (LARGEST + 1, str(LARGEST + 1)),
        (-LARGEST - 1, str(-LARGEST - 1)),
        (2**64, str(2**64)),
        (1.5, 1.5),
        (1e308, 1e308),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ("", ""),
        ("a\0é😀", "a\0é😀"),
        (decimal.Decimal("1.10"), "1.10"),
        (decimal.Decimal("1E-8"), "0.00000001"),
        (decimal.Decimal("1E+30"), "1" + "0" * 30),
        (decimal.Decimal("-0E-30"), "-0." + "0" * 30),
        (decimal.Decimal("NaN"), "NaN"),
        (decimal.Decimal("-Infinity"), "-Infinity"),
        (datetime.date(2026, 11, 20), "2026-11-20"),
        (datetime.time(10, 0, 0, 500), "10:00:00.000500"),
        (NAIVE, "2026-11-20T10:00:00"),
        (NAIVE.replace(tzinfo=datetime.UTC), "2026-11-20T10:00:00Z"),
        (datetime.timedelta(hours=-100, seconds=-1.5), "-100:00:01.500000"),
        (datetime.timedelta(0), "00:00:00"),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (ipaddress.ip_interface("10.0.0.1/8"), "10.0.0.1/8"),
        (b"", {"$blob": "", "bytes": 0}),
        (b"\0\xff", {"$blob": "AP8=", "bytes": 2}),
        (bytearray(b"ab"), {"$blob": "YWI=", "bytes": 2}),
        (memoryview(b"ab"), {"$blob": "YWI=", "bytes": 2}),
        ("caf\udce9", {"$blob": "Y2Fm6Q==", "bytes": 4}),
        ("\ud800", {"$blob": "7aCA", "bytes": 3}),
        ([1, None, "a"], [1, None, "a"]),
        ([[1.5, math.inf], [2**70, True]], [[1.5, "Infinity"], [str(2**70), True]]),
        ([b"x"], [{"$blob": "eA==", "bytes": 1}]),
        (["a\udcff"], [{"$blob": "Yf8=", "bytes": 2}]),
        ((1, "a", None), [1, "a", None]),
        ({"a": [decimal.Decimal("1.0")], "b\udcff": 1}, {"a": ["1.0"], "b\ufffd": 1}),
        (complex(1, 2), "(1+2j)"),
    ],
)  # fmt: skip
def test_each_value_has_its_documented_form(value: object, form: object) -> None:
    assert sent(value) == form


def test_not_a_number_is_a_string() -> None:
    assert sent(math.nan) == "NaN"
    assert json_column([1.0, math.nan], PLAIN, cell=CELL) == [1.0, "NaN"]


def test_text_over_the_limit_is_truncated_and_marked() -> None:
    assert sent("é" * 10, cell=10) == "é" * 10
    assert sent("é" * 11, cell=10) == {"$text": "é" * 10, "characters": 11, "truncated": True}


def test_a_long_decimal_is_truncated_like_text() -> None:
    assert sent(decimal.Decimal("1" * 50), cell=10)["characters"] == 50


def test_a_blob_is_complete_up_to_a_kibibyte_and_truncated_above() -> None:
    data = bytes(range(256)) * 5
    whole = sent(data[:INLINE_BLOB_BYTES], cell=2000)
    assert b64decode(whole["$blob"]) == data[:INLINE_BLOB_BYTES]
    assert "truncated" not in whole
    cut = sent(data, cell=2000)
    assert b64decode(cut["$blob"]) == data[:INLINE_BLOB_BYTES]
    assert (cut["bytes"], cut["truncated"]) == (1280, True)


def test_a_cell_limit_below_a_kibibyte_applies_to_blobs() -> None:
    assert sent(b"abcdef", cell=3) == {"$blob": "YWJj", "bytes": 6, "truncated": True}


@for_each("value", [[100] * 50, {"a": "x" * 100}, tuple(range(60))])
def test_an_array_or_object_over_the_limit_is_truncated_like_text(value: object) -> None:
    text = json.dumps(value, separators=(",", ":"))
    assert sent(value, cell=20) == {
        "$text": text[:20],
        "characters": len(text),
        "truncated": True,
    }


@for_each("text", ['{"a": 1.10}', "123456789012345678901234567890", '[1,"x"]', "[1e999]"])
def test_json_is_sent_verbatim(text: str) -> None:
    raw = msgspec.json.encode(json_value(text, column("json"), cell=CELL))
    assert raw.decode() == text


@for_each(
    "text", ["null", " null ", '{"$blob": "QQ=="}', '{"\\u0024text": ""}', '{"a": 1, "$json": 2}']
)
def test_json_that_looks_like_another_form_is_told_from_it(text: str) -> None:
    assert sent(text, column("json")) == {"$json": text}


@for_each("text", ["nope", "", "{'a': 1}", "NaN", '"\x01"', '"\\ud800"', "[" * 9999])
def test_json_that_does_not_parse_is_a_string(text: str) -> None:
    assert sent(text, column("json"), cell=10_000) == text


def test_json_that_is_not_unicode_is_a_blob() -> None:
    assert sent('"\udcff"', column("json")) == {"$blob": "Iv8i", "bytes": 3}


def test_json_over_the_limit_is_truncated_like_text() -> None:
    assert sent("[1, 2, 3]", column("json"), cell=5) == {
        "$text": "[1, 2",
        "characters": 9,
        "truncated": True,
    }


def test_zero_and_one_are_booleans_only_in_boolean_columns() -> None:
    values = [0, 1, 2, -1, None, "yes"]
    assert json_column(values, column("boolean"), cell=CELL) == [False, True, 2, -1, None, "yes"]
    assert json_column(values, column("integer"), cell=CELL) is values


def test_bits_are_a_number_but_a_blob_in_an_integer_column_is_not() -> None:
    assert sent(b"\x01\x05", column("integer", "BIT(12)")) == 0x105
    assert sent(b"\x01\x05", column("integer", "INTEGER"))["bytes"] == 2
    assert sent(b"\x01\x05", column("numeric", "BIT"))["bytes"] == 2


def test_a_set_is_text_in_the_order_of_its_declaration() -> None:
    assert sent({"a", "z"}, column("other", values=("z", "m", "a"))) == "z,a"
    assert sent({"z", "a"}) == "a,z"


def test_rows_of_plain_values_are_passed_on_unchanged() -> None:
    rows = [(1, "a", 1.5, None, True, NAIVE), (2, "é", 2.0, "b", None, NAIVE)]
    assert json_columns(rows, [PLAIN] * 6, cell=CELL) is None


def test_a_bad_cell_does_not_affect_others() -> None:
    rows = [(1, "a"), (2, "\udcff"), (3, "c")]
    columns = json_columns(rows, [PLAIN] * 2, cell=CELL)
    assert columns is not None
    converted = list(zip(*columns, strict=True))
    assert converted[::2] == rows[::2]
    assert converted[1][1].bytes == 1


def test_empty_rows_and_columns_are_accepted() -> None:
    assert json_columns([], [PLAIN], cell=CELL) is None
    assert json_columns([(), ()], [], cell=CELL) is None


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([LARGEST, LARGEST + 1, -LARGEST, -LARGEST - 1]),
    st.floats(),
    st.text(st.characters(), max_size=30),
    st.binary(max_size=30),
    st.decimals(),
    st.datetimes(),
    st.timedeltas(),
    st.lists(st.one_of(st.integers(), st.text(st.characters()), st.binary()), max_size=3),
)
KINDS: list[ColumnKind] = ["integer", "real", "text", "blob", "json", "boolean", "any"]


@given(st.lists(CELLS, max_size=20), st.sampled_from(KINDS), st.integers(1, 40))
def test_a_column_is_encoded_like_its_individual_values(
    values: list[object], kind: ColumnKind, cell: int
) -> None:
    together = json_column(values, column(kind), cell=cell)
    alone = [json_value(value, column(kind), cell=cell) for value in values]
    encoded = msgspec.json.encode(together)
    assert encoded == msgspec.json.encode(alone)
    json.loads(encoded, parse_constant=pytest.fail)


@given(st.binary(max_size=60))
def test_text_of_any_bytes_is_text_or_those_bytes(data: bytes) -> None:
    form = sent(data.decode("utf-8", "surrogateescape"))
    assert (form.encode() if isinstance(form, str) else b64decode(form["$blob"])) == data


def test_every_storage_class_of_sqlite_has_its_form() -> None:
    connection = sqlite3.connect(":memory:")
    connection.text_factory = functools.partial(str, encoding="utf-8", errors="surrogateescape")
    rows = connection.execute(
        "select 9223372036854775807, 9e999, null, x'00', cast(x'ff' as text), 'a' || char(0)"
    ).fetchall()
    connection.close()
    columns = json_columns(rows, [PLAIN] * 6, cell=CELL)
    assert columns is not None
    values = list(zip(*columns, strict=True))
    assert json.loads(msgspec.json.encode(values)) == [
        [
            "9223372036854775807",
            "Infinity",
            None,
            {"$blob": "AA==", "bytes": 1},
            {"$blob": "/w==", "bytes": 1},
            "a\0",
        ]
    ]


@for_each(
    ("value", "of", "data", "mime_type"),
    [
        ("a" * 5000, PLAIN, "a" * 5000, "text/plain"),
        ("", PLAIN, "", "text/plain"),
        (decimal.Decimal("1.10"), PLAIN, "1.10", "text/plain"),
        (math.inf, PLAIN, "Infinity", "text/plain"),
        (datetime.date(2026, 11, 20), PLAIN, "2026-11-20", "text/plain"),
        (5, PLAIN, "5", "application/json"),
        (None, PLAIN, "null", "application/json"),
        (True, PLAIN, "true", "application/json"),
        ([1, "a"], PLAIN, '[1,"a"]', "application/json"),
        ('{"a": 1.10}', column("json"), '{"a": 1.10}', "application/json"),
        (" [1 ]\n", column("json"), " [1 ]\n", "application/json"),
        ("nope", column("json"), "nope", "text/plain"),
        (b"\x05", column("integer", "bit(8)"), "5", "application/json"),
        (b"", PLAIN, b"", "application/octet-stream"),
        (b"\0\1\2", PLAIN, b"\0\1\2", "application/octet-stream"),
        (b"caf\xc3\xa9", PLAIN, "caf\xe9", "text/plain"),
        (b"caf\xe9", PLAIN, b"caf\xe9", "application/octet-stream"),
        ("caf\udce9", PLAIN, b"caf\xe9", "application/octet-stream"),
        (b"a" * 5000 + b"\0", PLAIN, b"a" * 5000 + b"\0", "application/octet-stream"),
    ],
)
def test_a_whole_cell_is_a_document_of_its_type(
    value: object, of: Column, data: str | bytes, mime_type: str
) -> None:
    assert whole_cell(value, of) == (data, mime_type)


def test_a_whole_blob_of_a_known_kind_has_its_media_type() -> None:
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\6\0\0\0" + bytes(2000)
    assert whole_cell(png, column("blob")) == (png, "image/png")


POSTGRESQL = "postgresql://postgres@127.0.0.1:5432/test"

AS_POSTGRESQL_WRITES_THEM = [
    "int4range(1,5)",
    "'empty'::int4range",
    "numrange(null,5.5,'[]')",
    "numrange(0.00000001,null)",
    "daterange('2020-01-01',null)",
    "tsrange('2020-01-01','2020-02-01 10:00:00.5')",
    "tstzrange('2020-01-01 00:00+00','2020-02-01 00:00+00')",
    "point(1,-2.5)",
    "point('infinity','nan')",
    "box(point(1,2),point(3,4))",
    "circle(point(1,2),3.5)",
    "line(point(1,2),point(3,4))",
    "lseg(point(1,2),point(3,4))",
    "path '[(1,2),(3,4)]'",
    "path '((1,2),(3,4))'",
    "polygon '((1,2),(3,4),(5,6))'",
    "B'1011010110'",
    "B''::varbit",
    "'10.0.0.0/8'::cidr",
    "'::1/64'::inet",
    "0.00000001::numeric(20,8)",
    "1e100::numeric",
    "'NaN'::numeric",
    "gen_random_uuid()",
    "'100:00:01.5'::interval + interval '0.000001 s'",
    "12.50::money",
    "'a b'::tsvector",
]


@for_each("expression", AS_POSTGRESQL_WRITES_THEM)
def test_values_without_a_json_form_are_spelled_as_in_postgresql(expression: str) -> None:
    ((value, text),) = _postgresql(f"select v, v::text from (select {expression} as v offset 0) q")
    assert sent(value) == text


@for_each(
    ("expression", "form"),
    [
        ("array[[1,2],[3,null]]", [[1, 2], [3, None]]),
        ("array[1.50]", ["1.50"]),
        ("array[int4range(1,2)]", ["[1,2)"]),
        ("'{[1,2),[5,6)}'::int4multirange", ["[1,2)", "[5,6)"]),
        ("array['\\xff'::bytea]", [{"$blob": "/w==", "bytes": 1}]),
        ("array['infinity'::float8]", ["Infinity"]),
        ("row(1,'x')::pg_temp.pair", {"a": 1, "B": "x"}),
        ("row(1, null, 'a'::text)", [1, None, "a"]),
        ("timestamptz '2020-01-01 00:00:00.5+02'", "2019-12-31T22:00:00.500000Z"),
        ("'12:00+02'::timetz", "12:00:00+02:00"),
    ],
)
def test_arrays_composites_and_times_of_postgresql_have_their_forms(
    expression: str, form: object
) -> None:
    ((value,),) = _postgresql(f"select {expression}")
    assert sent(value) == form


def _postgresql(sql: str) -> Sequence[Sequence[Any]]:
    asyncpg = pytest.importorskip("asyncpg")

    async def fetch() -> Any:
        try:
            connection = await asyncpg.connect(POSTGRESQL, timeout=10)
        except OSError:
            pytest.skip("no PostgreSQL at 127.0.0.1:5432")
        try:
            await connection.execute("set timezone = 'UTC'")
            await connection.execute('create type pg_temp.pair as (a int, "B" text)')
            return await connection.fetch(sql)
        finally:
            await connection.close()

    return asyncio.run(fetch())


def test_the_types_of_mariadb_have_their_forms() -> None:
    rows, names = _mariadb(
        "select cast(18446744073709551615 as unsigned) as big, 1.10 as number, 1e300 as real_,"
        " time'-100:00:01.5' as duration, date'2020-01-01' as day, x'00ff' as bytes_,"
        " timestamp'2020-01-01 10:00:00.5' as moment, '0000-00-00' as none, 'é' as text_,"
        " json_object('a', 1.10) as doc"
    )
    columns = [Column(name, "", "json" if name == "doc" else "any") for name in names]
    forms = json_columns(rows, columns, cell=CELL)
    assert forms is not None
    values = json.loads(msgspec.json.encode(list(zip(*forms, strict=True))))
    assert dict(zip(names, values[0], strict=True)) == {
        "big": "18446744073709551615",
        "number": "1.10",
        "real_": 1e300,
        "duration": "-100:00:01.500000",
        "day": "2020-01-01",
        "bytes_": {"$blob": "AP8=", "bytes": 2},
        "moment": "2020-01-01T10:00:00.500000",
        "none": "0000-00-00",
        "text_": "é",
        "doc": {"a": 1.1},
    }


def _mariadb(sql: str) -> tuple[Sequence[tuple[Any, ...]], Sequence[str]]:
    asyncmy = pytest.importorskip("asyncmy")

    async def fetch() -> Any:
        try:
            connection = await asyncmy.connect(
                host="127.0.0.1", port=3306, user="root", charset="utf8mb4", connect_timeout=10
            )
        except (OSError, asyncmy.errors.OperationalError):
            pytest.skip("no MariaDB at 127.0.0.1:3306")
        try:
            async with connection.cursor() as cursor:
                await cursor.execute(sql)
                return await cursor.fetchall(), [item[0] for item in cursor.description]
        finally:
            await connection.ensure_closed()

    return asyncio.run(fetch())


@for_each("kind", ["any", "json", "text", "blob"])
def test_the_beginning_of_a_value_is_encoded_as_truncated(kind: ColumnKind) -> None:
    text, blob = TruncatedValue("x" * 5000, 10**8), TruncatedValue(b"x" * 5000, 10**8)
    assert sent(text, column(kind)) == {
        "$text": "x" * CELL,
        "characters": 10**8,
        "truncated": True,
    }
    form = sent(blob, column(kind))
    assert b64decode(form.pop("$blob")) == b"x" * min(CELL, INLINE_BLOB_BYTES)
    assert form == {"bytes": 10**8, "truncated": True}
    for value in (text, blob):
        with pytest.raises(InvalidParameter, match="100000000"):
            whole_cell(value, column(kind))
