from __future__ import annotations

from collections.abc import Mapping

import pytest

from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.providers.database.engines.contract import EngineName, Statement
from resource_server.providers.database.options import Query, ReadLimits
from resource_server.providers.database.queries.declared import DeclaredQueries, DeclaredQuery
from resource_server.providers.database.queries.parameters import Parameter
from tests.cases import for_each
from tests.providers.database.declared_queries import ENGINES, INTEGER, declared

# -- placeholders


def test_placeholders_are_written_in_the_style_of_each_engine() -> None:
    sql = "select a % 5, '%' from t where x = :b and y > :a or x<:b -- 100%"
    both = {"a": INTEGER, "b": Parameter()}
    given_values = {"a": "7", "b": "x"}
    sqlite = declared(sql, both).bind(given_values).statement[:2]
    assert sqlite == ("select a % 5, '%' from t where x = ? and y > ? or x<?", ("x", 7, "x"))
    postgres = declared(sql, both, "postgresql").bind(given_values).statement[:2]
    assert postgres == ("select a % 5, '%' from t where x = $1 and y > $2 or x<$1", ("x", 7))
    mysql = declared(sql, both, "mysql").bind(given_values).statement[:2]
    assert mysql == ("select a %% 5, '%%' from t where x = %s and y > %s or x<%s", ("x", 7, "x"))


def test_a_placeholder_never_merges_with_the_preceding_word() -> None:
    assert declared("select 1 limit:n", {"n": INTEGER}, "postgresql").sql == "select 1 limit $1"


# -- refused declarations


@for_each(
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
@for_each("engine", ENGINES)
def test_sql_that_is_not_one_select_is_refused(engine: EngineName, sql: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        declared(sql, engine=engine)


@for_each(
    "sql",
    [
        "select ';' -- ;\n",
        "with a as (select 1) select * from a;",
        "values (1)",
        "(select 1) union (select 2)",
        "/* ; */ SELECT 1",
    ],
)
@for_each("engine", ENGINES)
def test_sql_that_is_one_select_is_accepted(engine: EngineName, sql: str) -> None:
    assert declared(sql, engine=engine).order == ()


def test_parameters_of_the_sql_must_match_the_declared_ones() -> None:
    with pytest.raises(ValueError, match=r":contry is not declared; did you mean 'country'\?"):
        declared("select :contry", {"country": Parameter()})
    with pytest.raises(ValueError, match=r"parameters.total: there is no :total in the SQL"):
        declared("select :a", {"a": Parameter(), "total": Parameter()})
    with pytest.raises(ValueError, match=r"no :totl in the SQL; did you mean 'total'\?"):
        declared("select :a, :total", {"a": Parameter(), "totl": Parameter(), "total": Parameter()})


@for_each("name", ["format", "a b", "1a", "", "é", "a" * 65])
def test_invalid_parameter_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="parameters"):
        declared("select 1", {name: Parameter()})


@for_each("name", ["..", "a/b", "", "~x", "a b", "{x}"])
def test_invalid_query_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name of a query"):
        DeclaredQuery(name, Query(sql="select 1"), "sqlite", ReadLimits())


def test_every_unusable_query_is_reported() -> None:
    bad = {"a": Query(sql="delete from t"), "b": Query(sql="select 1"), "c": Query(sql="select :x")}
    with pytest.raises(ValueError, match=r"(?s)^queries\.a: sql: .*\nqueries\.c: sql: ") as raised:
        DeclaredQueries(bad, "sqlite", ReadLimits())
    assert "queries.b" not in str(raised.value)


# -- binding of values


def test_unknown_missing_and_invalid_parameters_are_reported_together() -> None:
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


def test_the_format_parameter_is_not_bound() -> None:
    query = declared("select :a", {"a": INTEGER})
    assert query.bind({"a": "5", "format": "csv"}).statement.parameters == (5,)


def test_a_default_or_null_replaces_a_missing_parameter() -> None:
    query = declared(
        "select :a, :b", {"a": Parameter(default="x"), "b": Parameter(optional=True)}, "mysql"
    )
    assert query.is_complete
    assert query.bind({}).statement.parameters == ("x", None)
    assert query.bind({"a": "", "b": ""}).statement.parameters == ("", "")
    assert not declared("select :a", {"a": Parameter()}).is_complete


# -- the limit of rows


def test_a_limit_parameter_outside_the_sql_limits_the_rows() -> None:
    limit = {"limit": Parameter(type="integer", default=10, maximum=100)}
    query = declared("select 1", limit)
    assert query.bind({})[:2] == (Statement("select 1"), 10)
    assert query.bind({"limit": "100"}).limit == 100
    for text in ("0", "-1", "101", "x"):
        with pytest.raises(InvalidParameter, match="limit"):
            query.bind({"limit": text})


def test_a_limit_parameter_in_the_sql_is_bound() -> None:
    query = declared("select 1 limit :limit", {"limit": INTEGER}, rows=7)
    assert query.bind({"limit": "0"})[:2] == (Statement("select 1 limit ?", (0,)), 7)


def test_a_query_returns_one_page_of_rows_by_default() -> None:
    limits = ReadLimits(rows=50, max_rows=200)
    limit = {"limit": Parameter(type="integer", optional=True)}
    assert declared("select 1", limits=limits).bind({}).limit == 50
    assert declared("select 1", limits=limits, rows=120).bind({}).limit == 120
    assert declared("select 1", limit, limits=limits).bind({}).limit == 50
    assert declared("select 1", limit, limits=limits).bind({"limit": "999"}).limit == 200
    assert declared("select 1", limit, limits=limits, rows=120).bind({"limit": "999"}).limit == 120


@for_each(
    ("options", "says"),
    [
        ({"type": "string"}, "limit.type: string"),
        ({"type": "integer", "default": 0}, "limit.default: 0 is not a number of rows"),
        ({"type": "integer", "default": 50}, "limit.default: 50 exceeds `rows` \\(20\\)"),
        ({"type": "integer", "maximum": 50}, "limit.maximum: 50 exceeds `rows` \\(20\\)"),
    ],
)
def test_an_invalid_row_limit_is_refused(options: Mapping[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        declared("select 1", {"limit": Parameter(**options)}, rows=20)  # pyright: ignore[reportArgumentType]


# -- templates and completion


def test_a_template_has_the_required_parameters_and_describes_all() -> None:
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
    assert template.uri_template == "~query/top?country={country}"
    assert template.optional == ("limit", "format")
    assert (template.title, template.type) == ("Best", "document")
    assert template.description == (
        "Who buys most.\n"
        "country: ISO code: text of at most 1000 characters\n"
        "Optional URI parameters:\n"
        "limit: an integer of 64 bits; by default 10\n"
        "format: json, columns, csv, markdown, vega-lite, svg, png"
    )


def test_a_template_with_several_or_no_required_parameters_is_a_uri_with_just_these() -> None:
    queries = {
        "two": Query(sql="select :a, :b", parameters={"a": Parameter(), "b": INTEGER}),
        "none": Query(sql="select :a", parameters={"a": Parameter(optional=True)}),
    }
    two, none = DeclaredQueries(queries, "sqlite", ReadLimits()).templates
    assert two.uri_template == "~query/two?a={a}&b={b}"
    assert none.uri_template == "~query/none"
    assert none.optional == ("a", "format")


def test_completion_suggests_values_declared_in_the_manifest() -> None:
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


def test_completion_considers_only_queries_with_the_given_parameters() -> None:
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


# -- ORDER BY on MySQL


@for_each(
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
def test_mysql_gets_a_limit_so_that_it_keeps_the_order(sql: str, kept: bool) -> None:
    query = declared(sql, engine="mysql", rows=7)
    assert query.sql == (sql if kept else f"{sql}\nLIMIT 8")
    assert declared(sql, engine="postgresql", rows=7).sql == sql
