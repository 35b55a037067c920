"""The tables, columns and functions of parsed SQL."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from resource_server.providers.database.engines.duckdb import syntax
from tests.cases import for_each


def parsed(sql: str) -> Any:
    with duckdb.connect() as connection:
        ((text,),) = connection.execute(syntax.PARSE, [sql]).fetchall()
    return syntax.parsed_statement(text)


def test_what_a_statement_reads_is_told_by_its_names_in_lower_case() -> None:
    read = syntax.reads(
        parsed("select A.x, Sum(y) from T a join (select 1 as k from U) b using (K) where z > 1")
    )
    assert read.tables == {"t", "u"}
    assert read.columns == {"a", "x", "y", "k", "z"}
    assert {"sum"} <= read.functions
    assert (read.is_whole, read.is_anything) == (False, False)


@for_each(
    ("sql", "is_whole", "is_anything"),
    [
        ("select x from t, range(3), unnest([1])", False, False),
        ("select * from t", True, False),
        ("select count(*) from t", False, False),
        ("select t.x from t natural join u", True, False),
        ("select a from t pivot (sum(b) for x in (1, 2))", True, False),
        ("select x from t where y in (select columns(*) from u)", True, False),
        ("select x from read_csv('t.csv')", False, True),
        ("select x from main.range(3)", False, True),
        ("select name from (show tables)", True, True),
    ],
)
def test_a_statement_may_read_whole_tables_or_any(
    sql: str, is_whole: bool, is_anything: bool
) -> None:
    read = syntax.reads(parsed(sql))
    assert (read.is_whole, read.is_anything) == (is_whole, is_anything)


@for_each(
    ("sql", "expected"),
    [
        ("from t, S.U", ["S.U", "t"]),
        ("with x as (from t) from X", ["t"]),
        ("with x as (from x) from x", ["x"]),
        ("with x as (from y), y as (from t) from x, y", ["t", "y"]),
        ("with t as (select 1), main as (select 2) from main.t, t", ["main.t"]),
        ("select (with x as (from t) select 1 from x) from x", ["t", "x"]),
        ("with recursive x as (from x union all from x) from x", ["x"]),
        ("with x as materialized (from x) from x", ["x"]),
        ("from t where exists (from u) order by (select max(a) from v)", ["t", "u", "v"]),
    ],
)
def test_a_name_is_a_table_unless_it_certainly_is_an_expression(
    sql: str, expected: list[str]
) -> None:
    found = {".".join(syntax.table_path(node)) for node in syntax.tables(parsed(sql))}
    assert sorted(found) == expected


@for_each(
    ("sql", "reason"),
    [
        ("select 1; select 2", "more than one statement"),
        ("drop table t", "is not a SELECT"),
        ("selec 1", "syntax error"),
        (f"select {'(' * 3000}1{')' * 3000}", "nested too deeply"),
    ],
)
def test_only_one_select_is_parsed(sql: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parsed(sql)
