"""Declared queries as trees: the tables and functions they name, and sources in their place."""

from __future__ import annotations

from resource_server.providers.database.queries.declared_functions import CalledFunction
from resource_server.providers.database.queries.query_tree import QueryTree


def test_tables_are_those_that_are_no_common_table_expressions() -> None:
    tree = QueryTree('with c as (select * from S.A) select * from c, B, "B"', "postgresql")
    assert tree.tables() == {("s", "a"), ("b",), ("B",)}
    assert tree.definitions() == {"c"}
    assert QueryTree("select 1", "postgresql").tables() == frozenset()
    assert QueryTree("select * from A", "mariadb").tables() == {("A",)}


def test_functions_are_those_without_a_syntax_of_their_own() -> None:
    tree = QueryTree("select count(*), S.mine(1), other(2) from t", "postgresql")
    assert {CalledFunction("s", "mine"), CalledFunction("", "other")} <= tree.functions()
    plain = QueryTree(
        "select cast(a as int), a is null, case when a then 1 end from t", "postgresql"
    )
    assert plain.functions() == frozenset()


def test_sources_take_the_place_of_tables_with_their_names() -> None:
    sql = "select * from t where a = :x and b = :y and c = :x and d like '5%'"
    source = {("t",): "(select 1)"}
    text, order = QueryTree(sql, "postgresql").replaced(source)
    assert '(select 1) AS "t"' in text.replace(" t ", ' "t" ')
    assert order == ("x", "y")
    assert text.count("$1") == 2
    text, order = QueryTree(sql, "mariadb").replaced(source)
    assert "(select 1)" in text
    assert order == ("x", "y", "x")
    assert (text.count("%s"), text.count("%%")) == (3, 1)


def test_a_table_without_a_source_stays() -> None:
    text, order = QueryTree("select * from t", "postgresql").replaced({("u",): "(select 1)"})
    assert ("(select 1)" in text, order) == (False, ())
