from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.providers.database.engines.contract import EngineName
from resource_server.providers.database.options import Query, ReadLimits
from resource_server.providers.database.queries import sql_tokenizer
from resource_server.providers.database.queries.declared import DeclaredQueries, DeclaredQuery
from resource_server.providers.database.queries.parameters import Parameter, ParameterType

ENGINES: tuple[EngineName, ...] = ("sqlite", "postgresql", "mysql", "mariadb")
INTEGER = Parameter(type="integer")


def declared(
    sql: str,
    parameters: Mapping[str, Parameter] | None = None,
    engine: EngineName = "sqlite",
    *,
    rows: int | None = None,
    limits: ReadLimits | None = None,
) -> DeclaredQuery:
    query = Query(sql=sql, parameters=parameters or {}, rows=rows)
    return DeclaredQuery("q", query, engine, limits or ReadLimits())


def used(sql: str, engine: EngineName) -> list[str]:
    tokens = sql_tokenizer.statement(sql, engine)
    return [token.text for token in tokens if token.kind == "parameter"]


def value(text: str, **options: object) -> object:
    parameter = Parameter(**options)  # pyright: ignore[reportArgumentType]
    return declared("select :p", {"p": parameter}, "postgresql").bind({"p": text}).statement[1][0]


# -- where parameters are


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select :a, (:b)+:a", ["a", "b", "a"]),
        ("select ':a' || ' it''s :a' || :b", ["b"]),
        ("select 1 /* :a '*/ + :b -- :c\n + :d", ["b", "d"]),
        ("select 1 -- it's\n + :a", ["a"]),
        ("select limit:a", ["a"]),
        ("select :a::int", ["a"]),
        ("select x::b", []),
        ("select x := 5", []),
        ("select 1 from t where a=:a;\n ; -- done", ["a"]),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_parameters_are_found_outside_strings_and_comments(
    engine: EngineName, sql: str, found: list[str]
) -> None:
    assert used(sql, engine) == found


@pytest.mark.parametrize(
    ("engine", "sql", "found"),
    [
        ("sqlite", 'select ":a" + `:b` + [:c] + :d', ["d"]),
        ("sqlite", r"select '\' || :a || '\'", ["a"]),
        ("sqlite", "select 1 /* /* */ + :a", ["a"]),
        ("sqlite", "select 1 -- \r + :a", []),
        ("postgresql", 'select ":a" + [:c]', ["c"]),
        ("postgresql", r"select E'\' :a' || :b", ["b"]),
        ("postgresql", r"select '\' || :a || '\'", ["a"]),
        ("postgresql", "select e'x' -- it's\n '\\' :a' || :b", ["b"]),
        ("postgresql", "select 'x'\n'\\' || :a", ["a"]),
        ("postgresql", "select $$ :a $x$ ' $$ || $t$ :b $$ $t$ || :c", ["c"]),
        ("postgresql", "select a$b$, :a, c$b$", ["a"]),
        ("postgresql", "select é$b$, :a, é$b$", ["a"]),
        ("postgresql", "select 1 /* /* */ :a */ + :b", ["b"]),
        ("postgresql", "select 1 -- \r + :a", ["a"]),
        ("postgresql", "select doc ? 'k', doc ?| array[:a]", ["a"]),
        ("mysql", r"""select 'it\'s :a', "\" :b", ' :c', `:d`, :e""", ["e"]),
        ("mysql", "select 1 # :a '\n + :b", ["b"]),
        ("mysql", "select 5--:a", ["a"]),
        ("mysql", "select 5 -- :a", []),
    ],
)
def test_each_engine_has_its_own_quotes_and_comments(
    engine: EngineName, sql: str, found: list[str]
) -> None:
    assert used(sql, engine) == found


TRICKY = {
    "sqlite": r"""
        select :a || ':a' || '\' || (select ":a" from (select 'x' as ":a")) -- :a '
        || [y:a] /* ' :a /* */ || `z:a` || :b || :a || '%s' from (select 'y' "y:a", 'z' "z:a");
    """,
    "postgresql": r"""
        select :a::text || ':a' || '\' || (select ":a" from (select 'x' as ":a") s) -- :a '
        || E'y\' :a' /* ' :a /* */ :a */ || $t$ z:a$$ $t$ || :b || :a || '%s';
    """,
    "mariadb": r"""
        select concat(:a, ':a', '\'', (select `:a` from (select 'x' as `:a`) s), -- :a '
        "y\" :a" /* ' :a /* */, :b, # :a '
        :a, '%s');
    """,
}
EXPECTED = {
    "sqlite": r"1:a\xyz2" + "1%s",
    "postgresql": r"1:a\xy' :a z:a$$ 2" + "1%s",
    "mariadb": "1:a'xy\" :a2" + "1%s",
}


async def answer(engine: EngineName, sql: str, parameters: tuple[object, ...]) -> object:
    """Return the value that a real engine computes; its drivers have no types."""
    if engine == "sqlite":
        database = sqlite3.connect(":memory:")
        (found,) = database.execute(sql, parameters).fetchone()
        database.close()
        return found
    driver: Any = import_module("asyncpg" if engine == "postgresql" else "asyncmy")
    try:
        if engine == "postgresql":
            connection = await driver.connect("postgresql://postgres@127.0.0.1:5432/postgres")
        else:
            connection = await driver.connect(host="127.0.0.1", port=3306, user="root")
    except Exception as error:
        pytest.skip(f"no {engine} at its local port: {type(error).__name__}")
    if engine == "postgresql":
        found = await connection.fetchval(sql, *parameters)
        await connection.close()
        return found
    async with connection.cursor() as cursor:
        await cursor.execute(sql, parameters)
        (found,) = await cursor.fetchone()
    await connection.ensure_closed()
    return found


@pytest.mark.anyio
@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "mariadb"])
async def test_the_engine_itself_agrees_where_strings_and_comments_end(engine: EngineName) -> None:
    query = declared(TRICKY[engine], {"a": Parameter(), "b": Parameter()}, engine)
    statement = query.bind({"a": "1", "b": "2"}).statement
    assert await answer(engine, statement.sql, statement.parameters) == EXPECTED[engine]


@given(st.text(alphabet="'\"`[]$a:E-/*#\\\n (;", max_size=40))
def test_what_is_taken_for_a_string_by_sqlite_is_taken_for_one_here(text: str) -> None:
    try:
        query = declared(f"select {text}", {"a": Parameter()})
    except ValueError:
        return
    database = sqlite3.connect(":memory:")
    # One value too many or too few is refused: SQLite counts as many places.
    with contextlib.suppress(sqlite3.OperationalError):  # no SQL that means anything
        database.execute(query.sql, ("",) * len(query.order)).close()
    database.close()


def test_places_are_written_as_each_engine_wants_them() -> None:
    sql = "select a % 5, '%' from t where x = :b and y > :a or x<:b -- 100%"
    both = {"a": INTEGER, "b": Parameter()}
    given_values = {"a": "7", "b": "x"}
    sqlite = declared(sql, both).bind(given_values).statement
    assert sqlite == ("select a % 5, '%' from t where x = ? and y > ? or x<?", ("x", 7, "x"))
    postgres = declared(sql, both, "postgresql").bind(given_values).statement
    assert postgres == ("select a % 5, '%' from t where x = $1 and y > $2 or x<$1", ("x", 7))
    mysql = declared(sql, both, "mysql").bind(given_values).statement
    assert mysql == ("select a %% 5, '%%' from t where x = %s and y > %s or x<%s", ("x", 7, "x"))


def test_a_place_never_runs_into_the_word_before_it() -> None:
    assert declared("select 1 limit:n", {"n": INTEGER}, "postgresql").sql == "select 1 limit $1"


# -- what is refused when the manifest is loaded


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("select 1; select 2", "more than one statement"),
        ("select 1; drop table t", "more than one statement"),
        ("-- nothing", "sql: is empty"),
        (" ; ", "sql: is empty"),
        ("delete from t", "is not a SELECT"),
        ("explain select 1", "is not a SELECT"),
        ("select 1) union (select 2", "unbalanced parentheses"),
        ("select (1", "unbalanced parentheses"),
        ("select 'a", "unclosed '"),
        ("select 1 /* a", "unclosed comment"),
        ("select 1\0", "NUL"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_sql_that_is_not_one_select_is_refused(engine: EngineName, sql: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        declared(sql, engine=engine)


@pytest.mark.parametrize(
    "sql",
    [
        "select ';' -- ;\n",
        "with a as (select 1) select * from a;",
        "values (1)",
        "(select 1) union (select 2)",
        "/* ; */ SELECT 1",
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_sql_that_is_one_select_is_taken(engine: EngineName, sql: str) -> None:
    assert declared(sql, engine=engine).order == ()


@pytest.mark.parametrize(
    ("engine", "sql"),
    [
        ("sqlite", "select ?"),
        ("sqlite", "select ?1"),
        ("sqlite", "select @a"),
        ("sqlite", "select $a"),
        ("sqlite", "select :1"),
        ("postgresql", "select $1"),
        ("mysql", "select ?"),
    ],
)
def test_other_spellings_of_parameters_are_refused(engine: EngineName, sql: str) -> None:
    with pytest.raises(ValueError, match="write it as :name"):
        declared(sql, engine=engine)


@pytest.mark.parametrize("sql", ["select 1 /*! + 1 */", "select 1 /*M!100000 + 1 */"])
def test_comments_that_mysql_executes_are_refused(sql: str) -> None:
    with pytest.raises(ValueError, match="executable comment"):
        declared(sql, engine="mariadb")


def test_parameters_of_the_sql_and_the_declared_ones_are_the_same() -> None:
    with pytest.raises(ValueError, match=r":contry is not declared; did you mean 'country'\?"):
        declared("select :contry", {"country": Parameter()})
    with pytest.raises(ValueError, match=r"parameters.total: there is no :total in the SQL"):
        declared("select :a", {"a": Parameter(), "total": Parameter()})
    with pytest.raises(ValueError, match=r"no :totl in the SQL; did you mean 'total'\?"):
        declared("select :a, :total", {"a": Parameter(), "totl": Parameter(), "total": Parameter()})


@pytest.mark.parametrize("name", ["format", "a b", "1a", "", "é", "a" * 65])
def test_names_that_no_parameter_can_have_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="parameters"):
        declared("select 1", {name: Parameter()})


@pytest.mark.parametrize("name", ["..", "a/b", "", "~x", "a b", "{x}"])
def test_names_that_no_query_can_have_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name of a query"):
        DeclaredQuery(name, Query(sql="select 1"), "sqlite", ReadLimits())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"type": "integer", "default": "5"}, "default: '5' is not an integer"),
        ({"type": "integer", "default": True}, "default: true is not an integer"),
        ({"type": "integer", "default": 5.5}, "default: 5.5 is not an integer"),
        (
            {"type": "integer", "default": 500, "maximum": 100},
            "default: 500 is not .* of at most 100",
        ),
        ({"type": "integer", "default": 2**63}, "default: 9223372036854775808 is not an integer"),
        ({"type": "number", "examples": (float("inf"),)}, "examples: inf is not a number"),
        ({"type": "date", "default": "2026-02-30"}, "default: '2026-02-30' is not a date"),
        ({"default": 5}, "default: 5 is not text; put it in quotes"),
        ({"examples": (False,)}, "examples: false is not text"),
        ({"enum": ("a", "b"), "default": "c"}, "default: 'c' is not in enum"),
        ({"enum": ("a",), "examples": ("c",)}, "examples: 'c' is not in enum"),
        ({"type": "integer", "enum": (1, "x")}, "enum: 'x' is not an integer"),
        ({"type": "boolean", "enum": (1, 0)}, "enum: a boolean has only the values"),
        ({"minimum": 1}, "minimum: 1 cannot be a bound of text"),
        ({"type": "number", "maximum": float("nan")}, "maximum: nan cannot be a bound"),
        ({"type": "integer", "minimum": 5, "maximum": 1}, "minimum: 5 exceeds the maximum"),
        ({"default": "a", "optional": True}, "optional: true, but there is a default"),
        ({"default": "abc", "max_length": 2}, "default: 'abc' is not text of at most 2"),
    ],
)
def test_options_of_a_parameter_that_contradict_each_other_are_refused(
    options: Mapping[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        Parameter(**options)  # pyright: ignore[reportArgumentType]


def test_every_query_that_cannot_be_used_is_told() -> None:
    bad = {"a": Query(sql="delete from t"), "b": Query(sql="select 1"), "c": Query(sql="select :x")}
    with pytest.raises(ValueError, match=r"(?s)^queries\.a: sql: .*\nqueries\.c: sql: ") as raised:
        DeclaredQueries(bad, "sqlite", ReadLimits())
    assert "queries.b" not in str(raised.value)


# -- what clients give


@pytest.mark.parametrize(
    ("type", "text", "expected"),
    [
        ("string", "", ""),
        ("string", "'; drop table t --", "'; drop table t --"),
        ("integer", "9223372036854775807", 2**63 - 1),
        ("integer", "-9223372036854775808", -(2**63)),
        ("integer", "007", 7),
        ("number", "5.5e3", 5500.0),
        ("number", "-.5", -0.5),
        ("boolean", "1", True),
        ("boolean", "false", False),
        ("date", "2026-01-31", date(2026, 1, 31)),
        ("datetime", "2026-01-31T12:30:00Z", datetime(2026, 1, 31, 12, 30, tzinfo=UTC)),
        ("datetime", "2026-01-31", datetime(2026, 1, 31)),  # noqa: DTZ001
    ],
)
def test_text_becomes_a_value_of_the_type(type: ParameterType, text: str, expected: object) -> None:
    assert value(text, type=type) == expected


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("string", "x" * 1001),
        ("string", "a\0b"),
        ("string", "\udc80"),
        ("integer", "9223372036854775808"),
        ("integer", "1" * 5000),
        ("integer", "1_000"),
        ("integer", "٣"),
        ("integer", "5.0"),
        ("integer", ""),
        ("integer", "5\n"),
        ("number", "nan"),
        ("number", "Infinity"),
        ("number", "1e999"),
        ("number", "0x10"),
        ("number", "1" * 5000),
        ("boolean", "yes"),
        ("boolean", "2"),
        ("date", "2026-02-30"),
        ("date", "31.1.2026"),
        ("date", "2026-01-31T00:00:00"),
        ("datetime", "now"),
        ("datetime", "0001-01-01T00:00:00+23:00"),
        ("datetime", "2026-01-31T12:30:00" + "0" * 100),
    ],
)
def test_text_that_is_no_value_of_the_type_is_refused_with_what_is_expected(
    type: ParameterType, text: str
) -> None:
    with pytest.raises(InvalidParameter, match=r"^p must be (a|an|text|true) ?") as raised:
        value(text, type=type)
    assert len(str(raised.value)) < 160


@given(
    st.text(max_size=200),
    st.sampled_from(("string", "integer", "number", "boolean", "date", "datetime")),
)
def test_whatever_is_given_is_a_value_or_refused_in_one_line(
    text: str, type: ParameterType
) -> None:
    refused = ""
    try:
        value(text, type=type, max_length=10)
    except InvalidParameter as error:
        refused = str(error)
    assert not refused or refused.isprintable()
    assert len(refused) < 160


def test_at_most_forty_characters_of_a_value_are_echoed() -> None:
    for text in ("z" * 300, "\x01" * 300, "\x01" * 39):
        with pytest.raises(InvalidParameter) as raised:
            value(text, type="integer")
        echoed = str(raised.value).partition("not '")[2].removesuffix("'")
        assert len(echoed) == 40


@pytest.mark.parametrize(
    ("options", "good", "bad", "expected"),
    [
        (
            {"type": "integer", "minimum": 1, "maximum": 100},
            "100",
            "101",
            "an integer from 1 to 100",
        ),
        ({"type": "number", "minimum": 0.5}, "0.5", "0.4", "a number of at least 0.5"),
        ({"type": "integer", "maximum": 5}, "-5", "6", "an integer of at most 5"),
        ({"enum": ("DE", "FR")}, "DE", "de", "one of DE, FR"),
        ({"type": "integer", "enum": (1, 2)}, "02", "3", "one of 1, 2"),
        ({"max_length": 2}, "äö", "abc", "text of at most 2 characters, not 3 characters"),
    ],
)
def test_bounds_and_enums_hold(
    options: Mapping[str, object], good: str, bad: str, expected: str
) -> None:
    value(good, **options)
    with pytest.raises(InvalidParameter, match=f"p must be {expected}"):
        value(bad, **options)


def test_what_is_unknown_missing_or_wrong_is_told_at_once() -> None:
    query = declared(
        "select :country, :since, :n",
        {"country": Parameter(), "since": Parameter(type="date"), "n": INTEGER},
    )
    with pytest.raises(InvalidParameter) as raised:
        query.bind({"contry": "DE", "since": "x", "n": "5"})
    assert str(raised.value) == (
        "unknown query parameter 'contry'; did you mean 'country'?; "
        "country is required: text of at most 1000 characters; "
        "since must be a date such as 2026-01-31, not 'x'"
    )
    with pytest.raises(InvalidParameter, match="the parameters are country, since, n, format"):
        query.bind({"zzz": "1", "country": "DE", "since": "2026-01-01", "n": "5"})


def test_format_is_left_to_whoever_writes_the_result() -> None:
    query = declared("select :a", {"a": INTEGER})
    assert query.bind({"a": "5", "format": "csv"}).statement.parameters == (5,)


def test_a_default_or_null_stands_for_what_is_not_given() -> None:
    query = declared(
        "select :a, :b", {"a": Parameter(default="x"), "b": Parameter(optional=True)}, "mysql"
    )
    assert query.is_complete
    assert query.bind({}).statement.parameters == ("x", None)
    assert query.bind({"a": "", "b": ""}).statement.parameters == ("", "")
    assert not declared("select :a", {"a": Parameter()}).is_complete


def test_values_are_bound_as_each_driver_takes_them() -> None:
    sql = "select :d, :t, :b, :n"
    parameters = {
        "d": Parameter(type="date"),
        "t": Parameter(type="datetime"),
        "b": Parameter(type="boolean"),
        "n": Parameter(type="number"),
    }
    texts = {"d": "2026-01-31", "t": "2026-01-31T12:00:00+02:00", "b": "true", "n": "5"}
    noon = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))

    def bound(engine: EngineName) -> tuple[object, ...]:
        return declared(sql, parameters, engine).bind(texts).statement.parameters

    assert bound("sqlite") == ("2026-01-31", "2026-01-31T12:00:00+02:00", 1, 5.0)
    assert bound("postgresql") == (date(2026, 1, 31), noon, True, 5)
    assert isinstance(bound("postgresql")[3], int)
    naive = datetime(2026, 1, 31, 10)  # noqa: DTZ001
    assert bound("mariadb") == (date(2026, 1, 31), naive, True, 5.0)


# -- how many rows


def test_a_limit_that_the_sql_does_not_use_is_the_number_of_rows() -> None:
    limit = {"limit": Parameter(type="integer", default=10, maximum=100)}
    query = declared("select 1", limit)
    assert query.bind({}) == (("select 1", ()), 10)
    assert query.bind({"limit": "100"}).limit == 100
    for text in ("0", "-1", "101", "x"):
        with pytest.raises(InvalidParameter, match="limit"):
            query.bind({"limit": text})


def test_a_limit_that_the_sql_uses_is_a_value() -> None:
    query = declared("select 1 limit :limit", {"limit": INTEGER}, rows=7)
    assert query.bind({"limit": "0"}) == (("select 1 limit ?", (0,)), 7)


def test_the_rows_of_a_query_are_those_of_a_page_unless_it_says_otherwise() -> None:
    limits = ReadLimits(rows=50, max_rows=200)
    limit = {"limit": Parameter(type="integer", optional=True)}
    assert declared("select 1", limits=limits).bind({}).limit == 50
    assert declared("select 1", limits=limits, rows=120).bind({}).limit == 120
    assert declared("select 1", limit, limits=limits).bind({}).limit == 50
    assert declared("select 1", limit, limits=limits).bind({"limit": "999"}).limit == 200
    assert declared("select 1", limit, limits=limits, rows=120).bind({"limit": "999"}).limit == 120


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"type": "string"}, "limit.type: string"),
        ({"type": "integer", "default": 0}, "limit.default: 0 is not a number of rows"),
        ({"type": "integer", "default": 50}, "limit.default: 50 exceeds `rows` \\(20\\)"),
        ({"type": "integer", "maximum": 50}, "limit.maximum: 50 exceeds `rows` \\(20\\)"),
    ],
)
def test_a_limit_that_cannot_be_a_number_of_rows_is_refused(
    options: Mapping[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        declared("select 1", {"limit": Parameter(**options)}, rows=20)  # pyright: ignore[reportArgumentType]


# -- what clients are told


def test_a_template_names_the_parameters_and_says_what_they_are() -> None:
    query = Query(
        sql="select :country",
        title="Best",
        description="Who buys most.",
        parameters={
            "country": Parameter(description="ISO code", examples=("DE",)),
            "limit": Parameter(type="integer", default=10),
        },
    )
    (template,) = DeclaredQueries({"top": query}, "sqlite", ReadLimits()).templates
    assert template.uri_template == "~query/top{?country,limit,format}"
    assert (template.title, template.type) == ("Best", "document")
    assert template.description == (
        "Who buys most.\n"
        "country: ISO code: text of at most 1000 characters\n"
        "limit: an integer of 64 bits; by default 10"
    )


def test_completion_gives_what_the_manifest_knows_of_a_parameter() -> None:
    query = declared(
        "select :a, :b, :c, :d",
        {
            "a": Parameter(enum=("DE", "FR"), examples=("DE",)),
            "b": Parameter(examples=("x", "y"), default="z"),
            "c": Parameter(type="boolean", default=True),
            "d": INTEGER,
        },
    )
    assert query.complete("a", "d") == ["DE"]
    assert query.complete("b", "") == ["x", "y", "z"]
    assert query.complete("c", "") == ["true", "false"]
    assert query.complete("d", "") == []
    assert query.complete("zzz", "") == ()


def test_completion_keeps_to_the_queries_that_take_what_is_given() -> None:
    queries = DeclaredQueries(
        {
            "p": Query(sql="select :a", parameters={"a": Parameter(examples=("1",))}),
            "q": Query(
                sql="select :a, :b",
                parameters={"a": Parameter(examples=("2",)), "b": Parameter()},
            ),
        },
        "sqlite",
        ReadLimits(),
    )
    assert queries.complete("a", "", {}) == ["1", "2"]
    assert queries.complete("a", "", {"b": "x", "format": "csv"}) == ["2"]


def test_queries_are_found_by_name_in_the_order_of_the_manifest() -> None:
    queries = DeclaredQueries(
        {"b": Query(sql="select 1"), "a": Query(sql="select 2")}, "sqlite", ReadLimits()
    )
    assert list(queries) == ["b", "a"]
    assert len(queries) == 2
    assert queries.get("a").title == "a"
    with pytest.raises(ResourceNotFound):
        queries.get("c")
    assert not DeclaredQueries({}, "sqlite", ReadLimits())


# -- names in SQL


@pytest.mark.parametrize(
    ("engine", "sql", "names"),
    [
        ("sqlite", "select \"A\".b, [c d] from `e`.'f' as g", "A.b c d e.f g"),
        ("sqlite", "select * from a . /* . */ b.c", "a.b.c"),
        ("postgresql", 'select A."B""c", $$d$$, \'e\' from F', 'a.B"c f'),
        ("postgresql", f"select * from {'X' * 70}", "x" * 63),
        ("postgresql", f'select * from "{"ä" * 32}"', "ä" * 31),
        ("mysql", 'select A, `b``c`, "d e" from 1a.$b.2', "A b`c d e 1a.$b.2"),
        ("mysql", "select 1.5, 0x1f, x from .y", "5 0x1f x from.y"),
    ],
)
def test_names_are_found_as_each_engine_reads_them(
    engine: EngineName, sql: str, names: str
) -> None:
    found = sql_tokenizer.references(sql_tokenizer.statement(sql, engine), engine)
    written = [".".join(name.parts) for name in found]
    assert " ".join(name for name in written if name not in ("select", "from", "as")) == names


def test_what_is_given_a_name_and_what_is_called_is_told() -> None:
    sql = """with a as (select 1), b (x, y) as not materialized (select f(1), g.h (2))
        select c.d as e, count(*) from a as i join lateral (select 1) j on true in ('k')"""
    found = sql_tokenizer.references(sql_tokenizer.statement(sql, "sqlite"), "sqlite")
    assert [name.parts[0] for name in found if name.defines] == ["a", "b"]
    called = [".".join(name.parts) for name in found if name.doubtful]
    assert {"f", "g.h", "count", "k"} <= set(called)
    assert {name.parts[0]: name.before for name in found}["i"] == "as"


@pytest.mark.parametrize("name", ['u&"orders"', 'U&"\\006frders"', '"a".U&"b" uescape \'!\''])
def test_names_that_are_written_in_numbers_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="write the name itself"):
        declared(f"select * from {name}", engine="postgresql")
    assert declared('select u & "b" from t', engine="postgresql").order == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_names_that_stand_for_tables_are_nobody_elses(engine: EngineName) -> None:
    quote = "`" if engine in ("mysql", "mariadb") else '"'
    with pytest.raises(ValueError, match="is reserved"):
        declared(f"with {quote}~rows 0{quote} as (select 1) select 1", engine=engine)
    assert declared("select 1 -- ~rows 0", engine=engine).order == ()


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("select a from t order by a", False),
        ("select a from t union select b from t order by 1 desc", False),
        ("select a from t order by a limit 5", True),
        ("select a from t order by a for update", True),
        ("select a from (select a from t order by a) s", True),
        ("select a, rank() over (order by a) from t", True),
        ("(select a from t order by a limit 5) union (select 1) order by 1", False),
        ("select `order` from t limit 5", True),
    ],
)
def test_mysql_is_given_a_limit_without_which_it_would_not_order(sql: str, kept: bool) -> None:
    query = declared(sql, engine="mysql", rows=7)
    assert query.sql == (sql if kept else f"{sql}\nLIMIT 8")
    assert declared(sql, engine="postgresql", rows=7).sql == sql
