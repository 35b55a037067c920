"""Types of columns on each engine, each with the values at its edges, as SQL text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from hypothesis import strategies as st

EngineName: TypeAlias = Literal["sqlite", "postgresql", "mariadb", "duckdb"]


def quoted(engine: EngineName, name: str) -> str:
    """Return a name as the engine writes it in SQL."""
    mark = "`" if engine == "mariadb" else '"'
    return mark + name.replace(mark, mark * 2) + mark


def literal(engine: EngineName, text: str) -> str:
    """Return a text as a SQL literal."""
    if engine == "mariadb":
        text = text.replace("\\", "\\\\")
    if engine == "sqlite" and "\0" in text:
        return f"CAST(x'{text.encode().hex()}' AS TEXT)"
    return "'" + text.replace("'", "''") + "'"


class ColumnType(NamedTuple):
    """A type of columns with its interesting values."""

    type: str
    literals: Sequence[str]


# ruff: noqa: RUF001  # letters that look alike are the point
_TEXTS = (
    *("", " ", "  ", "a", "A", "a ", "a  ", " a", "aa", "ab", "b", "B", "ä", "Ä", "a\u0308", "ß"),
    *("ss", "SS", "i", "I", "ı", "İ", "z", "é", "e", "E", "ﬁ", "fi", "\u200b", "\u202e", "\ufeff"),
    *("\uffff", "\ufffd", "😀", "😁", "\U0010ffff", "~", "~n", "~ta", "~t", "~i5", "~r5.5", "~b"),
    *("~rows", "~schema", "~cell", ".", "..", "a/b", "/", "%", "%2F", "%s", "\\", "\\\\", "'", '"'),
    *("`", "\n", "\t", "\r", "\x7f", "\x01", "0", "00", "5", "05", "5.0", "-0", "1e3", "NaN"),
    *("nan",),
    *("inf", "-inf", "Infinity", "true", "t", "null", "NULL", "2026-11-20", "10:00", "?", "#", "&"),
    *("+", "=", ",", ";", ":", "[", "{}", "_", "-", "--", "ſ", "S", "s", "Straße", "STRASSE"),
    *("zzz",),
)
_LONG = ("x" * 300, "é" * 200, "😀" * 100)


LONG = {
    "sqlite": "hex(zeroblob(5000))",
    "postgresql": "repeat('x', 9000)",
    "mariadb": "repeat('x', 9000)",
    "duckdb": "repeat('x', 9000)",
}
"""Texts that are too long for a URI; indexes store them, compressed."""


def _text_literals(engine: EngineName, *, long: bool = False) -> tuple[str, ...]:
    texts = (*_TEXTS, *_LONG) if long else _TEXTS
    literals = [literal(engine, text) for text in texts]
    return (*literals, LONG[engine]) if long else tuple(literals)


def _quote_all(*texts: str) -> tuple[str, ...]:
    return tuple(f"'{text}'" for text in texts)


def around(*bits: int, unsigned: bool = False) -> tuple[str, ...]:
    """Return the integers at the edges of these widths."""
    found = ["0", "1", "2", "7", "10"] if unsigned else ["0", "1", "-1", "2", "7", "10", "-10"]
    for width in bits:
        least, greatest = (0, 2**width) if unsigned else (-(2 ** (width - 1)), 2 ** (width - 1))
        found += [str(least), str(least + 1), str(greatest - 1), str(greatest - 2)]
    return tuple(found)


_REALS = (
    *("0", "-0.0", "1", "-1", "0.1", "1.5", "1e300", "-1e300", "1e-300", "5e-324", "1e15", "1e16"),
    *("123456789.125", "9007199254740993", "0.30000000000000004", "3.4028235e38", "1e22", "1e23"),
)
_JSON = _quote_all(
    *(
        "{}",
        "[]",
        "1",
        "1.0",
        "null",
        '"null"',
        '"a"',
        '"1"',
        '{"a": 1}',
        '[1, "x"]',
        "1e400",
        "true",
    ),
    *('{"$blob": "QQ=="}', '{"$text": "a", "characters": 9}', '{"$json": "1"}', "9007199254740993"),
)
_DECIMALS = ("0", "-0", "1", "1.0", "1.10", "-1.1", "0.0001", "12345.6", "99999999.99", "-5", "1e5")

# PostgreSQL reads a quoted literal as a value of any type.
_POSTGRES_TYPES: tuple[ColumnType, ...] = (
    ColumnType("smallint", _quote_all(*around(16))),
    ColumnType("integer", _quote_all(*around(16, 32))),
    ColumnType("bigint", _quote_all(*around(32, 64))),
    ColumnType("oid", _quote_all(*around(31, 32, unsigned=True))),
    ColumnType(
        "real", _quote_all("0", "-0", "1", "0.1", "1e30", "1e-30", "NaN", "Infinity", "16777217")
    ),
    ColumnType(
        "double precision", _quote_all(*_REALS[:12], *_REALS[12:], "NaN", "Infinity", "-Infinity")
    ),
    ColumnType(
        "numeric", _quote_all(*_DECIMALS, *_REALS, "NaN", "Infinity", "-Infinity", "1" * 60)
    ),
    ColumnType("numeric(10,2)", _quote_all(*_DECIMALS, "NaN")),
    ColumnType("numeric(5,-2)", _quote_all("100", "12300", "-500", "0")),
    ColumnType("money", _quote_all("0", "1.10", "-1.10", "92233720368547758.07")),
    ColumnType("text", _text_literals("postgresql", long=True)),
    ColumnType('text COLLATE "C"', _text_literals("postgresql")),
    ColumnType('text COLLATE "en-x-icu"', _text_literals("postgresql")),
    ColumnType('text COLLATE "ci"', _text_literals("postgresql")),
    ColumnType('varchar COLLATE "ai"', _text_literals("postgresql")),
    ColumnType("varchar(5)", _text_literals("postgresql")),
    ColumnType("char(4)", _text_literals("postgresql")),
    ColumnType('char(4) COLLATE "ci"', _text_literals("postgresql")),
    ColumnType('"char"', _quote_all("", "a", "A", "~", "\x7f", "é", "/")),
    ColumnType("name", _text_literals("postgresql")),
    ColumnType("citext", _text_literals("postgresql")),
    ColumnType(
        "bytea", _quote_all("", "\\x00", "\\xff", "\\x61", "\\x6161", "\\x00ff00", "\\x7e6e")
    ),
    ColumnType("boolean", _quote_all("true", "false")),
    ColumnType(
        "date",
        _quote_all(
            *("2026-11-20", "1970-01-01", "0001-01-01", "0001-01-01 BC", "0044-03-15 BC"),
            *("4713-01-01 BC", "9999-12-31", "10000-01-01", "12026-01-01", "999999-12-31"),
            *("1000000-01-01", "5874897-12-31", "infinity", "-infinity", "2024-02-29"),
            *("0004-02-29 BC",),
        ),
    ),
    ColumnType(
        "time",
        _quote_all(
            "00:00", "24:00", "23:59:60", "10:00:00.5", "10:00:00.000001", "23:59:59.999999"
        ),
    ),
    ColumnType(
        "timetz",
        _quote_all(
            *("00:00+00", "10:00+00", "10:00+01", "09:00+00", "11:00+01", "10:00:00.5-05:30"),
            *("10:00+15:59:59", "10:00-15:59:59", "10:00+00:00:01", "24:00+00", "24:00-15:59"),
            *("00:00+15:59", "10:00:00.000001+00"),
        ),
    ),
    ColumnType(
        "timestamp",
        _quote_all(
            *("2026-11-20 10:00", "2026-11-20 10:00:00.000001", "1970-01-01", "0001-01-01"),
            *("0001-01-01 BC", "4713-11-24 BC", "9999-12-31 23:59:59.999999", "10000-01-01"),
            *("294276-12-31 23:59:59.999999", "infinity", "-infinity", "100000-01-01"),
            *("99999-01-01",),
        ),
    ),
    ColumnType(
        "timestamptz",
        _quote_all(
            *("2026-11-20 10:00+00", "2026-11-20 10:00:00.5+05:30", "0001-01-01+00"),
            *("0001-01-01 BC+00", "9999-12-31 23:59:59.999999+00", "9999-12-31 23:30-01"),
            *("0001-01-01 00:30+01", "10000-01-01+00", "infinity", "-infinity", "294276-12-31+00"),
        ),
    ),
    ColumnType(
        "timestamp(0)", _quote_all("2026-11-20 10:00:00.4", "2026-11-20 10:00:00.6", "infinity")
    ),
    ColumnType(
        "interval",
        _quote_all(
            "0", "1 day", "24:00", "1 mon", "30 days", "-1 day", "1 year 2 mons 3 days", "1 us"
        ),
    ),
    ColumnType(
        "uuid",
        _quote_all(
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "123E4567-e89b-12d3-a456-426614174000",
        ),
    ),
    ColumnType(
        "inet",
        _quote_all("10.0.0.1", "10.0.0.1/8", "10.0.0.0/8", "::1", "::1/64", "::ffff:1.2.3.4"),
    ),
    ColumnType(
        "cidr",
        _quote_all("10.0.0.0/8", "10.0.0.0/16", "10.0.0.1", "::/0", "0.0.0.0/0", "2001:db8::/32"),
    ),
    ColumnType(
        "macaddr", _quote_all("08:00:2b:01:02:03", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00")
    ),
    ColumnType("macaddr8", _quote_all("08:00:2b:01:02:03:04:05", "ff:ff:ff:ff:ff:ff:ff:ff")),
    ColumnType("bit(3)", _quote_all("000", "101", "111")),
    ColumnType("varbit(9)", _quote_all("", "0", "1", "01", "101010101")),
    ColumnType("json", _JSON),
    ColumnType("jsonb", (*_JSON, "'{\"a\": 1.0}'")),
    ColumnType("jsonb[]", _quote_all("{}", "{1}", "{NULL,null}", '{"\\"x\\"",1}')),
    ColumnType("integer[]", _quote_all("{}", "{1}", "{1,2}", "{NULL}", "{{1},{2}}", "[0:1]={1,2}")),
    ColumnType("text[]", _quote_all("{}", "{a}", "{NULL}", '{"NULL"}', '{"a,b"}', '{""}')),
    ColumnType("int4range", _quote_all("empty", "[1,2)", "(,)", "[1,)", "(,5]")),
    ColumnType("numrange", _quote_all("empty", "[1,2)", "[1.0,2)", "(1,2]")),
    ColumnType(
        "daterange", _quote_all("empty", "[2026-01-01,2026-02-01)", "(,)", "[2026-01-01,infinity)")
    ),
    ColumnType("int4multirange", _quote_all("{}", "{[1,2)}", "{[1,2),[5,7)}")),
    ColumnType("pg_lsn", _quote_all("0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF")),
    ColumnType("xid", _quote_all("0", "5", "4294967295")),
    ColumnType("xid8", _quote_all("0", "5", "18446744073709551615", "9223372036854775808")),
    ColumnType("tid", _quote_all("(0,0)", "(0,1)", "(4294967295,65535)")),
    ColumnType("regclass", _quote_all("pg_class", "pg_type", "0", "4294967295")),
    ColumnType("regtype", _quote_all("integer", "text", "0")),
    ColumnType("regproc", _quote_all("now", "0")),
    ColumnType("point", _quote_all("(0,0)", "(1,2)")),
    ColumnType("tsvector", _quote_all("", "a b", "a:1A")),
    ColumnType("oidvector", _quote_all("", "1 2", "3")),
    ColumnType("ltree", _quote_all("", "a", "a.b", "A.b")),
    ColumnType("ean13", _quote_all("9780393040029", "4006381333931")),
    ColumnType('"E"', _text_literals("postgresql")),
    ColumnType('"D_text"', _text_literals("postgresql")),
    ColumnType('"D_int"', _quote_all(*around(32))),
    ColumnType('"D_ci"', _text_literals("postgresql")),
    ColumnType('"D_enum"', _text_literals("postgresql")),
    ColumnType('"D_array"', _quote_all("{}", "{1}", "{1,2}")),
    ColumnType('"P"', _quote_all("(1,a)", "(2,)", "(,)", '(1,"a b")')),
)
LABELS = (
    "b",
    "a",
    "A",
    "",
    " ",
    "a ",
    "~n",
    "a/b",
    "..",
    "\\",
    "a\\b",
    "a'b",
    'a"b',
    "a,b",
    "%",
    "5",
)
POSTGRES_SETUP = {
    "ci": "CREATE COLLATION \"ci\" (provider = icu, locale = 'und-u-ks-level2',"
    " deterministic = false)",
    "ai": "CREATE COLLATION \"ai\" (provider = icu, locale = 'und-u-ks-level1',"
    " deterministic = false)",
    "E": 'CREATE TYPE "E" AS ENUM ({labels})',
    "D_text": 'CREATE DOMAIN "D_text" AS text CHECK (length(value) < 200)',
    "D_int": 'CREATE DOMAIN "D_int" AS integer NOT NULL',
    "D_ci": 'CREATE DOMAIN "D_ci" AS text COLLATE "ci"',
    "D_enum": 'CREATE DOMAIN "D_enum" AS "E"',
    "D_array": 'CREATE DOMAIN "D_array" AS integer[]',
    "P": 'CREATE TYPE "P" AS (x integer, y text)',
}
"""Statements that make types and collations by name, each after those that it needs."""

_SQLITE_ANY = (
    LONG["sqlite"],
    *around(32, 53, 64),
    *("-0.0", "0.1", "1.5", "5.0", "9e999", "-9e999", "1e300", "5e-324", "9007199254740993.0"),
    *("9223372036854775807.0", "-9223372036854775808.0", "1e15", "1e16", "123456789.125"),
    *("x''", "x'00'", "x'35'", "x'61'", "x'ff'", "x'7e6e'", "x'6162'", "x'e4'"),
    *("CAST(x'ff' AS TEXT)", "CAST(x'61ff' AS TEXT)", "CAST(x'e4' AS TEXT)"),
    *("CAST(x'6100' AS TEXT)",),
    *("CAST(x'610062' AS TEXT)", "CAST(x'eda080' AS TEXT)", "CAST(x'c080' AS TEXT)"),
    *("CAST(x'00' AS TEXT)",),
    *_quote_all("2026-11-20", "2026-11-20 10:00", "2026-11-20T10:00:00Z", "10:00", "10:00:00.5"),
    *_quote_all("9223372036854775808", "123e4567-e89b-12d3-a456-426614174000", "0x10", " 5", "5 "),
    *_quote_all("1e400", "-9223372036854775809", "20261120", "2026-11-20T10:00:00+05:30", "1.10"),
)
_SQLITE_NAMES = (
    *("INTEGER", "INT", "BIGINT", "BIGINT UNSIGNED", "TEXT", "TEXT COLLATE NOCASE"),
    *("TEXT COLLATE RTRIM",),
    *("BLOB", "REAL", "NUMERIC", "", "COLLATE NOCASE", "COLLATE RTRIM", "DATE", "TIME", "DATETIME"),
    *("TIMESTAMP", "BOOLEAN", "JSON", "UUID", "VARCHAR(10)", "DECIMAL(10,2)", "FLOATING POINT"),
    *("CHARINT",),
    *("STRING", "DATE COLLATE NOCASE", "UUID COLLATE NOCASE", "BLOB COLLATE NOCASE", "ANY"),
    *("INTEGER COLLATE NOCASE",),
    *("INT UNSIGNED", "UNSIGNED BIG INT", "JSONB", "BIT", "DOUBLE PRECISION", "timestamptz"),
)
_SQLITE_STRICT = (
    "INTEGER",
    "INT",
    "TEXT",
    "TEXT COLLATE NOCASE",
    "REAL",
    "BLOB",
    "ANY",
    "ANY COLLATE NOCASE",
)
_SQLITE_TYPES = tuple(
    ColumnType(type, (*_text_literals("sqlite"), *_SQLITE_ANY)) for type in _SQLITE_NAMES
)
SQLITE_STRICT_TYPES = tuple(
    ColumnType(type, (*_text_literals("sqlite"), *_SQLITE_ANY)) for type in _SQLITE_STRICT
)

_MARIADB_DATES = _quote_all(
    *("2026-11-20", "0000-00-00", "2026-00-00", "2026-11-00", "0000-01-01", "0001-01-01"),
    *("9999-12-31", "1000-01-01", "1970-01-01", "2024-02-29"),
)
_MARIADB_TIMES = _quote_all(
    *("00:00", "-00:00:01", "838:59:59", "-838:59:59", "10:00:00.5", "23:59:59.999999", "24:00"),
    *("100:00:00", "-10:00:00.000001", "838:59:58.999999", "00:00:00.000001"),
)
_MARIADB_DATETIMES = (
    *_MARIADB_DATES,
    *_quote_all("2026-11-20 10:00:00.000001", "2026-11-20 10:00:00.5", "2026-00-00 10:00"),
    *_quote_all("9999-12-31 23:59:59.999999", "0000-00-00 10:00:00", "2026-11-20 10:00:00"),
)
_MARIADB_COLLATIONS = (
    *("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_nopad_bin"),
    *("utf8mb4_unicode_520_nopad_ci", "utf8mb4_uca1400_as_cs", "utf8mb4_uca1400_ai_ci"),
    *("utf8mb4_turkish_ci", "latin1_swedish_ci", "latin1_bin", "utf8mb3_general_ci"),
    *("utf16_general_ci",),
    *("binary", "koi8r_general_ci", "latin1_general_cs", "utf8mb4_german2_ci", "ucs2_bin"),
    *("sjis_japanese_ci",),
)


def _mariadb_text(type: str) -> list[ColumnType]:
    return [
        ColumnType(
            f"{type} CHARACTER SET {name.partition('_')[0]} COLLATE {name}",
            _text_literals("mariadb"),
        )
        for name in _MARIADB_COLLATIONS
    ]


_MARIADB_TYPES: tuple[ColumnType, ...] = (
    ColumnType("tinyint", around(8)),
    ColumnType("tinyint(1)", ("0", "1", "2", "-1", "127")),
    ColumnType("tinyint unsigned", around(8, unsigned=True)),
    ColumnType("smallint", around(16)),
    ColumnType("mediumint", around(24)),
    ColumnType("int", around(32)),
    ColumnType("int(10) unsigned zerofill", around(32, unsigned=True)),
    ColumnType("bigint", around(32, 64)),
    ColumnType("bigint unsigned", around(63, 64, unsigned=True)),
    ColumnType("float", _REALS),
    ColumnType("float(7,3)", _DECIMALS),
    ColumnType("double", _REALS),
    ColumnType("double(10,2)", _DECIMALS),
    ColumnType("double unsigned", ("0", "1.5", "1e300")),
    ColumnType("decimal(10,2)", _DECIMALS),
    ColumnType("decimal(65,0)", (*around(64), "9" * 65, "-" + "9" * 65)),
    ColumnType("decimal(65,30)", (*_DECIMALS, "9" * 35, "0." + "0" * 29 + "1")),
    ColumnType("decimal(10,2) unsigned zerofill", ("0", "1.10", "5")),
    *_mariadb_text("varchar(40)"),
    *_mariadb_text("char(10)"),
    *_mariadb_text("text"),
    ColumnType("varchar(40)", _text_literals("mariadb", long=True)),
    ColumnType("tinytext", _text_literals("mariadb")),
    ColumnType("binary(3)", ("''", "'a'", "'A'", "'a '", "x'00'", "x'ff'", "x'6100'", "'a/b'")),
    ColumnType("varbinary(10)", ("''", "'a'", "'A'", "'a '", "x'00'", "x'ff'", "x'6100'", "'~n'")),
    ColumnType("blob", ("''", "'a'", "'A'", "'a '", "x'00'", "x'ff'", "x'6100'", "'~n'")),
    ColumnType("date", _MARIADB_DATES),
    ColumnType("time", _MARIADB_TIMES),
    ColumnType("time(6)", _MARIADB_TIMES),
    ColumnType("datetime", _MARIADB_DATETIMES),
    ColumnType("datetime(3)", _MARIADB_DATETIMES),
    ColumnType("datetime(6)", _MARIADB_DATETIMES),
    ColumnType(
        "timestamp", (*_MARIADB_DATETIMES, "'2038-01-19 03:14:07'", "'1970-01-01 00:00:01'")
    ),
    ColumnType("timestamp(6) NULL", (*_MARIADB_DATETIMES, "'2038-01-19 03:14:07.999999'")),
    ColumnType("year", ("0", "1901", "2155", "'0'", "2026", "1970", "70")),
    ColumnType("enum({labels})", (*_text_literals("mariadb"), "1", "2", "0")),
    ColumnType("enum({labels}) COLLATE utf8mb4_bin", (*_text_literals("mariadb"), "1", "2", "3")),
    ColumnType("set('a','b','c d')", ("''", "'a'", "'b'", "'a,b'", "'c d'", "7")),
    ColumnType("bit(1)", ("0", "1")),
    ColumnType("bit(9)", ("0", "1", "511", "256")),
    ColumnType("bit(64)", ("0", "1", "18446744073709551615")),
    ColumnType("boolean", ("true", "false", "2")),
    ColumnType("json", _JSON),
    ColumnType("inet6", ("'::1'", "'::'", "'::ffff:1.2.3.4'", "'2001:db8::1'")),
    ColumnType("inet4", ("'0.0.0.0'", "'10.0.0.1'", "'255.255.255.255'")),
    ColumnType(
        "uuid",
        (
            "'00000000-0000-0000-0000-000000000000'",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
            "'123e4567-e89b-12d3-a456-426614174000'",
            "'123e4567-e89b-42d3-8456-426614174001'",
            "'00000000-0000-1000-8000-000000000001'",
        ),
    ),
    ColumnType("point", ("ST_GeomFromText('POINT(0 0)')", "ST_GeomFromText('POINT(1 2)')")),
)

# DuckDB reads a quoted literal as a value of any type, too.
_DUCKDB_TYPES: tuple[ColumnType, ...] = (
    ColumnType("TINYINT", around(8)),
    ColumnType("SMALLINT", around(16)),
    ColumnType("INTEGER", around(32)),
    ColumnType("BIGINT", around(53, 64)),
    ColumnType("HUGEINT", around(64, 128)[:-4] + _quote_all(*around(128))),
    ColumnType("UTINYINT", around(8, unsigned=True)),
    ColumnType("UINTEGER", around(32, unsigned=True)),
    ColumnType("UBIGINT", _quote_all(*around(63, 64, unsigned=True))),
    ColumnType("UHUGEINT", _quote_all(*around(63, 64, 127, 128, unsigned=True))),
    ColumnType("BIGNUM", _quote_all(*around(64, 128), "9" * 60)),
    ColumnType(
        "FLOAT", _quote_all("0", "-0", "1", "0.1", "1e30", "NaN", "inf", "-inf", "16777217")
    ),
    ColumnType("DOUBLE", _quote_all(*_REALS, "NaN", "inf", "-inf")),
    ColumnType("DECIMAL(10,2)", _quote_all("0", "1", "1.10", "-1.1", "99999999.99", "-5")),
    ColumnType("DECIMAL(38,10)", _quote_all("0", "1.10", "9" * 28, "0.0000000001")),
    ColumnType("VARCHAR", _text_literals("duckdb", long=True)),
    ColumnType("VARCHAR COLLATE NOCASE", _text_literals("duckdb")),
    ColumnType("ENUM({labels})", _text_literals("duckdb")),
    ColumnType("BLOB", ("''", "'a'::BLOB", "'\\x00'::BLOB", "'\\xFF'::BLOB", "'abcd'::BLOB")),
    ColumnType("BOOLEAN", ("true", "false")),
    ColumnType(
        "DATE",
        _quote_all(
            *("2026-11-20", "0001-01-01", "9999-12-31", "10000-01-01", "0001-01-01 (BC)"),
            *("0044-03-15 (BC)", "infinity", "-infinity", "1970-01-01", "5877642-06-25 (BC)"),
            *("5881580-07-10",),
        ),
    ),
    ColumnType("TIME", _quote_all("00:00:00", "23:59:59.999999", "24:00:00", "10:00:00.5")),
    ColumnType("TIME_NS", _quote_all("00:00:00", "23:59:59.999999999", "10:00:00.5")),
    ColumnType(
        "TIMETZ", _quote_all("10:00:00+00", "10:00:00+01", "09:00:00+00", "24:00:00+15:59:59")
    ),
    *(
        ColumnType(
            type,
            _quote_all(
                *("2026-11-20 10:00:00", "2026-11-20 10:00:00.5", "1970-01-01", "infinity"),
                *("-infinity", *far),
            ),
        )
        for type, far in (
            ("TIMESTAMP", ("0001-01-01", "9999-12-31 23:59:59.999999", "0044-03-15 (BC) 10:00")),
            ("TIMESTAMP", ("294246-01-01", "10000-01-01 00:00:01", "2026-11-20 10:00:00.000001")),
            ("TIMESTAMP_S", ("0001-01-01", "10000-01-01", "0044-03-15 (BC) 10:00:00")),
            ("TIMESTAMP_MS", ("0001-01-01", "10000-01-01", "2026-11-20 10:00:00.001")),
            ("TIMESTAMP_NS", ("2026-11-20 10:00:00.000000001", "2026-11-20 10:00:00.000001")),
            (
                "TIMESTAMPTZ",
                ("2026-11-20 10:00:00+05:30", "0001-01-01", "294246-01-01", "10000-01-01"),
            ),
        )
    ),
    ColumnType(
        "INTERVAL", ("'1 month'", "'30 days'", "'24 hours'", "'1 day'", "'-1 day'", "'1 us'")
    ),
    ColumnType(
        "UUID",
        _quote_all(
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "123E4567-e89b-12d3-a456-426614174000",
        ),
    ),
    ColumnType("BIT", _quote_all("0", "1", "01", "101")),
    ColumnType("JSON", _JSON),
    ColumnType("JSON[]", ("['1', '\"x\"']::JSON[]", "[]", "['null']::JSON[]", "[NULL]")),
    ColumnType("INTEGER[]", ("[]", "[1]", "[1, 2]", "[NULL]")),
    ColumnType("VARCHAR[]", ("[]", "['a']", "['a,b']", "['']")),
    ColumnType("INTEGER[2]", ("[1, 2]", "[2, 1]")),
    ColumnType("STRUCT(a INTEGER, b VARCHAR)", ("{'a': 1, 'b': 'x'}", "{'a': NULL, 'b': ''}")),
    ColumnType("MAP(VARCHAR, INTEGER)", ("MAP {'a': 1}", "MAP {}")),
    ColumnType("UNION(n INTEGER, s VARCHAR)", ("1", "'x'")),
)

TYPES = {
    "postgresql": _POSTGRES_TYPES,
    "sqlite": _SQLITE_TYPES,
    "mariadb": _MARIADB_TYPES,
    "duckdb": _DUCKDB_TYPES,
}


@st.composite
def random_value(draw: st.DrawFn, engine: EngineName, type: str) -> str:
    """Return a literal beyond the listed ones, for types of numbers and texts."""
    lower = type.lower()
    if "int" in lower and "range" not in lower and "[]" not in lower:
        return f"'{draw(st.integers(-(2**63), 2**63 - 1))}'"
    alphabet = st.characters(blacklist_categories=("Cs",), blacklist_characters="\0")
    return literal(engine, draw(st.text(alphabet, max_size=6)))
