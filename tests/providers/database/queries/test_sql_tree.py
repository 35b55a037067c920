"""The SQL of callers as a syntax tree, written anew from the tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pytest

from resource_server.providers.database.engines.contract import (
    EngineName,
    RefusedStatement,
    Statement,
)
from resource_server.providers.database.queries.sql_tree import MAX_CHARACTERS, SqlTree
from resource_server.providers.database.queries.sql_vocabulary import VOCABULARY

_TABLES = {"orders": ("id", "total", "status", "note"), "customers": ("id", "name")}


def _confined(sql: str, engine: EngineName = "postgresql", **values: object) -> Statement:
    schema = None if engine == "duckdb" else "policy"
    return SqlTree(sql, engine).confined(_TABLES, values, schema=schema)


def _unrefused(statements: Iterable[str], engine: EngineName) -> list[str]:
    found: list[str] = []
    for sql in statements:
        try:
            _confined(sql, engine)
        except (ValueError, RefusedStatement):
            continue
        found.append(sql)
    return found


def test_names_are_quoted_and_tables_belong_to_the_schema_of_the_policy() -> None:
    text = 'SELECT "o"."id" FROM "policy"."orders" AS "o" WHERE "o"."total" > $1'
    assert _confined("select O.id from Orders o where o.total > :least", least=5) == (text, (5,))


def test_parameters_are_placed_in_the_form_of_each_engine() -> None:
    sql = "select id from orders where :a is null or status = :a or note = :b"
    assert SqlTree(sql, "mariadb").parameters == ("a", "b")
    assert _confined(sql, a=1, b=2).parameters == (1, 2)
    assert "$1 IS NULL OR" in _confined(sql, a=1, b=2).sql
    mariadb = _confined(sql, "mariadb", a=1, b=2)
    assert mariadb.parameters == (1, 1, 2)
    assert mariadb.sql.count("%s") == 3


def test_text_with_escapes_becomes_a_parameter_and_percent_signs_stay() -> None:
    assert _confined("select 'it''s', 'a\\b'").parameters == ("a\\b",)
    assert _confined("select $$it's$$").parameters == ("it's",)
    likes = _confined("select id % 2 from orders where note like 'a\\_%'", "mariadb")
    assert likes.sql.startswith("SELECT `id` %% 2")
    assert likes.parameters == ("a\\_%",)


def test_a_name_is_resolved_in_one_way_only() -> None:
    shadowed = _confined("with orders as (select id from orders) select orders.id from orders")
    inner = 'WITH "with_0" AS (SELECT "id" FROM "policy"."orders" AS "orders")'
    assert shadowed.sql == f'{inner} SELECT "orders"."id" FROM "with_0" AS "orders"'
    for sql in (
        "with a as (select * from pg_class), pg_class as (select 1) select * from a",
        "select * from (with secrets as (select 1) select * from secrets) s, secrets",
        "with secrets as (select * from secrets) select 1",
    ):
        with pytest.raises(RefusedStatement, match="no such table"):
            _confined(sql)


def test_columns_are_those_of_the_nearest_table_subquery_or_definition() -> None:
    for sql in (
        "select s.n from (select status, count(*) n from orders group by 1) s",
        "select s.count from (select count(*) from orders) s",
        "select w.id, w.name from (select * from customers) w",
        "with recursive t(n) as (select 1 union select t.n + 1 from t) select t.n from t",
        "select c.id from customers c where exists (select 1 from orders o where o.id = c.id)",
        "select l.n from orders o, lateral (select count(*) n from customers where id = o.id) l",
        "select u.a from unnest(array[1, 2]) as u(a)",
        "select e.key, e.value from orders o, jsonb_each(cast(o.note as jsonb)) e",
        "select x.id, y.name from (orders x join customers y on x.id = y.id)",
    ):
        _confined(sql)


def test_columns_of_functions_are_columns_and_no_calls_of_other_functions() -> None:
    for sql in (
        "select g, g.g from generate_series(1, 3) g",
        "select generate_series.generate_series from generate_series(1, 3)",
        "select x.a, x.n from unnest(array['a']) with ordinality as x(a, n)",
        "select k.k from jsonb_object_keys('{}') k",
        "select e.value from json_array_elements('[]') e",
        "select o.id from orders o, lateral unnest(string_to_array(o.note, ',')) x where x.x > ''",
    ):
        _confined(sql)
    long = "a" * 63
    evading = (
        "select x.current_setting from unnest(array['a']) x(y)",
        "select pg_sleep.pg_sleep from unnest(array[9]) pg_sleep(y)",
        "select f.f from json_array_elements_text('[]') f",
        "select unnest.f from unnest(array['a'])",
        "select (select unnest.f from unnest(array['a'])) from (select 1 as f) unnest",
        "select (select s.v from (select 1 as f) x, (select x.f as v) s) from unnest(array[1]) x",
        f'select (select "{long}1".f from unnest(array[1]) "{long}2") from (select 1 f) "{long}1"',
        "select x.f from rows from (unnest(array['a'])) x",
    )
    assert not _unrefused(evading, "postgresql")
    with pytest.raises(RefusedStatement, match="ROWS FROM"):
        _confined("select * from rows from (unnest(array[1]), unnest(array[2])) x")


def test_functions_keep_their_names_and_arguments() -> None:
    examples: Sequence[tuple[str, EngineName]] = (
        ("MAX(a, b)", "postgresql"),
        ("DATE_PART('dow', a)", "postgresql"),
        ("TO_CHAR(a, 'Day DD')", "postgresql"),
        ("VARIANCE(a)", "postgresql"),
        ("STDDEV(a)", "mariadb"),
        ("IFNULL(a, b)", "mariadb"),
        ("DATE_FORMAT(a, '%%M')", "mariadb"),
        ("a REGEXP 'b'", "mariadb"),
    )
    for sql, engine in examples:
        written = re.sub('[`"]', "", _confined(f"select {sql.replace('%%', '%')}", engine).sql)
        assert written == f"SELECT {sql}"


def test_a_limit_is_the_least_of_two() -> None:
    for sql, written in (
        ("select 1", "SELECT 1 LIMIT 5"),
        ("select 1 limit 3", "SELECT 1 LIMIT 3"),
        ("select 1 limit 2, 9", "SELECT 1 LIMIT 5 OFFSET 2"),
        ("(select 1 union select 2) limit :n", "(SELECT 1 UNION SELECT 2) LIMIT 4"),
        ("((select 1 order by 1))", "SELECT 1 ORDER BY 1 LIMIT 5"),
    ):
        assert SqlTree(sql, "mariadb").confined({}, {"n": 4}, rows=5).sql == written
    with pytest.raises(RefusedStatement, match="LIMIT with a number"):
        SqlTree("select 1 limit :n", "mariadb").confined({}, {"n": "1"}, rows=5)


_ATTACKS = """
select pg_sleep(1)
select "pg_sleep"(1)
select pg_catalog.pg_sleep(1)
select e'a' -- c
 'b\\'' || pg_sleep(1)
select (1) operator(pg_catalog.+) 1
select x.pg_sleep from generate_series(9, 9) x
select o.current_setting from orders o
select ('max_connections'::text).current_setting
select (o).note from orders o
select 'orders'::regclass
select 'orders'::_regclass
select cast('x' as aclitem)
select null::pg_class
select current_user
select current_setting('a')
select * from pg_ls_dir('.')
select * from f() as materialized (values)
select * from rows from (pg_ls_dir('.')) t
select * from orders for update
select * from orders for share
select * into x from orders
select * from orders tablesample system (1)
select * from policy.orders
select policy.orders.id from orders
select * from only_there
with d as (delete from orders returning *) select * from d
select $1
select ?
select query_to_xml('select 1', true, true, '')
select xmlelement(name a)
select U&'\\0041'
select lpad('x', 1000000000)
select rpad('x', 10 * 1000)
"""


def test_what_reaches_past_the_policy_is_refused_on_postgresql() -> None:
    assert not _unrefused(re.split(r"\n(?! )", _ATTACKS.strip()), "postgresql")


def test_what_reaches_past_the_policy_is_refused_on_mariadb() -> None:
    statements = (
        "select sleep(1)",
        "select @a",
        "select @@version",
        "select @a := 1",
        "select version()",
        "select load_file('/etc/passwd')",
        "select * from orders limit rows examined 5",
        "select 5. lock in share mode",
        "select * from orders lock in share mode",
        "select * into outfile '/tmp/x' from orders",
        "select * from mysql.user",
        "select * from information_schema.tables",
        "select _utf8'a'",
        "select get_lock('a', 1)",
        "select benchmark(1000000, md5(1))",
        "select policy.f(1)",
        "select user()",
        "select * from orders procedure analyse()",
        "select uuid()",
        "select lpad('x', 1000000000, 'x')",
        "select 1 <@ `x`",
    )
    assert not _unrefused(statements, "mariadb")
    assert _confined("select 1 /*!50000 , sleep(1) */", "mariadb").sql == "SELECT 1"


def test_what_reaches_past_the_policy_is_refused_on_duckdb() -> None:
    statements = (
        "select * from 'x.csv'",
        "select * from read_csv('x')",
        "select * from duckdb_tables()",
        "select getenv('HOME')",
        "select current_setting('threads')",
        "from query('select 1')",
        "from query_table('orders')",
        "select * from glob('*')",
        "select * from information_schema.tables",
        "select * from main.orders",
        "select * from orders using sample 1",
        "describe orders",
        "summarize orders",
        "pivot orders on status",
    )
    assert not _unrefused(statements, "duckdb")


def test_statements_that_are_no_single_select_are_refused_for_their_author() -> None:
    for sql, message in (
        ("", "is empty"),
        ("((", "is empty"),
        ("delete from orders", "is not a SELECT"),
        ("explain select 1", "is not a SELECT"),
        ("select 1; select 2", "more than one statement"),
        ("select from where", "cannot be parsed"),
        ("select 'a", "cannot be parsed"),
        ("select '\0'", "NUL"),
        ("select " + "(" * 4000 + "1" + ")" * 4000, "nested too deeply"),
        ("select " + "1," * MAX_CHARACTERS, "characters"),
    ):
        with pytest.raises(ValueError, match=message):
            SqlTree(sql, "postgresql")


def test_a_refusal_names_the_table_or_column_for_near_names() -> None:
    with pytest.raises(RefusedStatement) as refused:
        _confined("select * from ordres")
    assert refused.value.table == "ordres"
    with pytest.raises(RefusedStatement) as refused:
        _confined("select o.totl from orders o")
    assert refused.value.column == "totl"
    with pytest.raises(RefusedStatement, match="no such function: nothing"):
        _confined("select nothing(1)")


def test_no_vocabulary_has_a_word_that_reads_more_than_tables() -> None:
    harmful = """
        user version database schema sleep benchmark load_file outfile procedure update delete
        pg_sleep current_setting set_config current_user session_user system_user dblink regclass
        operator tablesample share lock getenv read_csv glob query_table duckdb_tables pragma
        json_table xmlparse query_to_xml lo_get nextval setval currval txid_current copy execute
    """.split()
    for words in VOCABULARY.values():
        assert not words & set(harmful)
