"""The SQL of callers as a syntax tree, written anew from the tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import process_time
from typing import cast

import pytest

from resource_server.providers.database.engines.contract import (
    EngineName,
    RefusedStatement,
    Statement,
)
from resource_server.providers.database.queries.callers.sql_tree import MAX_CHARACTERS, SqlTree
from resource_server.providers.database.queries.callers.sql_vocabulary import VOCABULARY

_SERVERS: Sequence[EngineName] = ("postgresql", "mariadb", "mysql")
_TABLES = {"orders": ("id", "total", "status", "note"), "customers": ("id", "name")}


def _confined(sql: str, engine: EngineName = "postgresql", **values: object) -> Statement:
    return SqlTree(sql, engine).confined(_TABLES, values, schema="policy")


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
    assert _confined("select O.id from Orders o where o.total > :least", least=5)[:2] == (
        text,
        (5,),
    )


def test_parameters_are_placed_in_the_form_of_each_engine() -> None:
    sql = "select id from orders where :a is null or status = :a or note = :b"
    assert SqlTree(sql, "mariadb").parameters == ("a", "b")
    assert _confined(sql, a=1, b=2).parameters == (1, 2)
    assert "$1 IS NULL OR" in _confined(sql, a=1, b=2).sql
    mariadb = _confined(sql, "mariadb", a=1, b=2)
    assert mariadb.parameters == (1, 1, 2)
    assert mariadb.sql.count("%s") == 3


def test_searches_of_text_that_a_statement_makes_are_bounded_and_those_of_columns_are_not() -> None:
    plain = (
        "select id from orders where note like 'a%' and lower(status) like :q",
        "select x.id from (select id from orders where note like 'a%') x",
        "select strpos(orders.note, 'a'), trim(both 'x' from note) from orders join customers"
        " using (id)",
    )
    assert _confined("select id from orders where note @> '{1}' or array[id] && array[1]").sql
    for sql in plain:
        values: dict[str, object] = {"q": "b%"} if ":q" in sql else {}
        assert "LEFT(" not in _confined(sql, "postgresql", **values).sql, sql
    made = _confined(
        "select note like '%' || status, strpos(n, 'a') from (select note n) x, orders"
    )
    assert '"note" LIKE LEFT(\'%\' || "status", 1000)' in made.sql
    assert "STRPOS(LEFT(\"n\", 1000000), 'a')" in made.sql
    located = _confined("select locate(note, status) from orders", "mariadb").sql
    assert "LOCATE(LEFT(`note`, 1000), `status`)" in located
    for sql in (
        f"select note like '{'a' * 1001}' from orders",
        f"select replace(note, cast('{'a' * 1001}' as text), '') from orders",
        "select note like any(string_to_array(status, ',')) from orders",
        "select array_agg(id) @> array_agg(id) from orders",
        "select array[1] && a from (select array_agg(id) as a from orders) x",
    ):
        with pytest.raises(RefusedStatement):
            _confined(sql)
    with pytest.raises(RefusedStatement):
        _confined("select note like :q from orders", q="a" * 1001)


def test_text_with_escapes_becomes_a_parameter_and_percent_signs_stay() -> None:
    assert _confined("select 'it''s', 'a\\b'").parameters == ("a\\b",)
    assert _confined("select $$it's$$").parameters == ("it's",)
    likes = _confined("select id % 2 from orders where note like 'a\\_%'", "mariadb")
    assert likes.sql.startswith("SELECT `id` %% 2")
    assert likes.parameters == ("a\\_%",)


def test_a_name_is_resolved_in_one_way_only() -> None:
    shadowed = _confined("with orders as (select id from orders) select orders.id from orders")
    inner = 'WITH "with_0" AS (SELECT "id" FROM "policy"."orders" AS "orders_2")'
    assert shadowed.sql == f'{inner} SELECT "orders"."id" FROM "with_0" AS "orders"'
    for sql in (
        "with a as (select * from pg_class), pg_class as (select 1) select * from a",
        "select * from (with secrets as (select 1) select * from secrets) s, secrets",
        "with secrets as (select * from secrets) select 1",
    ):
        with pytest.raises(RefusedStatement, match="no such table"):
            _confined(sql)


def test_a_source_has_a_name_of_its_own_on_postgresql() -> None:
    inner = "select x.id from orders x where x.id in (select x.id from customers x)"
    assert 'FROM "policy"."customers" AS "x_2"' in _confined(inner).sql
    rows = _confined("select x from orders x where exists (select x from customers x)").sql
    assert 'SELECT "x_2" FROM "policy"."customers" AS "x_2"' in rows
    series = "select (select d from generate_series(1, 2) d) from generate_series(1, 2) d"
    assert 'AS "d_2"("d")' in _confined(series).sql


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
        f'select (select "{long}1".f from unnest(array[1]) "{long}2") from (select 1 f) "{long}1"',
        "select x.f from rows from (unnest(array['a'])) x",
    )
    assert not _unrefused(evading, "postgresql")
    with pytest.raises(RefusedStatement, match=r"ROWS.FROM"):
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
with w(a) as (select 1 as pg_typeof) select x.pg_typeof from w x
select x.pg_typeof from (select 1 as pg_typeof) as x(a)
select x.pg_typeof from (select 'pg_typeof'::text) x
select x.pg_typeof from (select 1 a, 2 k) l join (select 2 k, 3 pg_typeof) r using (k) as x(a, b, c)
select x.key from generate_series(1, 2) x
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
select note collate "owner" from orders
select note collate public."C" from orders
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
        "select 1 /*!50000 , sleep(1) */",
        "select 1 /*M!100000 , sleep(1) */",
        "select status from orders group by rollup(status)",
        "select regexp_like('a', 'a')",
        "select mode(1)",
        "select 'a' collate 'latin1_swedish_ci'",
        "select 0x41 + 0",
        "select * from orders o join customers c join orders p on p.id = c.id",
        "select status between false and id not in (1, 7) from orders",
        "select id not between 1 and id not between 1 and 6 from orders",
        "select * from orders partition (p0)",
        "select * from orders for system_time all",
        "select id from orders where note sounds like 'a'",
        "select uuid()",
        "select lpad('x', 1000000000, 'x')",
        "select 1 <@ `x`",
    )
    assert not _unrefused(statements, "mariadb")
    assert _confined("select 1 /* , sleep(1) */", "mariadb").sql == "SELECT 1"


def test_statements_that_are_no_single_select_are_refused_for_their_author() -> None:
    for sql, message in (
        ("", "is empty"),
        ("-- nothing", "is empty"),
        ("((", "not closed"),
        ("delete from orders", "is not a SELECT"),
        ("explain select 1", "is not a SELECT"),
        ("select 1; select 2", "more than one statement"),
        ("select from where", "cannot be parsed"),
        ("select 'a", "cannot be parsed"),
        ("select '\0'", "NUL"),
        ("select " + "(" * 1900 + "1" + ")" * 1900, "nested too deeply"),
        ("select " + "1," * MAX_CHARACTERS, "characters"),
    ):
        with pytest.raises(ValueError, match=message):
            SqlTree(sql, "postgresql")


def test_text_that_only_the_parser_understands_is_refused() -> None:
    for sql in (
        "select 1_000",
        "select 1a",
        "select 0x1F",
        "select id, , note from orders",
        "select id, from orders",
        "select id from orders where id in (1, )",
        "select coalesce(, 1)",
        "select position('n' in note from orders",
        "select id from orders where id between 1 3",
        "select 1 < < 2",
        "with a as (1 as x) select a.x from a",
        "select |/ 4 + 5",
        "select case when true then 'a' 'b' end",
        "select id { 'a' : 1 } from orders",
    ):
        with pytest.raises((ValueError, RefusedStatement)):
            _confined(sql)
    with pytest.raises(ValueError, match="words and signs"):
        SqlTree("select 1" + "+1" * 3000, "postgresql")


@pytest.mark.deep
def test_the_longest_statements_take_time_in_proportion_to_their_length() -> None:
    def seconds(sql: str, engine: EngineName) -> float:
        times: list[float] = []
        for _ in range(3):  # one may pay for the garbage of other tests
            start = process_time()
            with suppress(ValueError, RefusedStatement):
                _confined(sql, engine)
            times.append(process_time() - start)
        return min(times)

    for first, repeated, last in (
        ("select note", "[1]", " from orders"),
        ("select 1 from orders", ", orders", ""),
        ("select 1", ", orders.id", " from orders"),
        ("select 1 from orders", " join orders on orders.id = 1", ""),
    ):
        parts = repeated.replace("[", "[ ").split()
        most = 3_600 // (len(parts) + repeated.count(".") * 2 + 2)
        short, long = (first + repeated * n + last for n in (most // 4, most))
        assert seconds(long, "postgresql") < 10 * max(seconds(short, "postgresql"), 0.05)


def test_deeply_nested_statements_take_no_exponential_time() -> None:
    for engine in _SERVERS:
        for before, after in (
            ("array[", "]"),
            ("date(", ")"),
            ("not (", " in (1))"),
            ("not (", ") between 1 and 2"),
            ("row(", ")"),
            ("(", " is not null)"),
            ("timestamp (", ")"),
        ):
            begun = process_time()
            with suppress(ValueError, RefusedStatement):
                _confined(f"select {before * 30}1{after * 30}", engine)
            assert process_time() - begun < 10, (engine, before)
    with pytest.raises(ValueError, match="nested too deeply"):
        SqlTree(f"select {'array[' * 30}1{']' * 30}", "postgresql")
    assert _confined(f"select {'array[' * 6}1{']' * 6}", "postgresql")


def test_joins_that_use_up_the_steps_of_the_parser_are_named() -> None:
    for engine in _SERVERS:
        for join in ("join", *(["straight_join"] if engine.startswith("m") else [])):
            sql = "select * from a" + "".join(f" {join} b{n}" for n in range(20))
            with pytest.raises(ValueError, match="20 joins without a condition, more than can be"):
                SqlTree(sql, engine)
            few = "select * from a" + "".join(f" {join} b{n}" for n in range(6))
            assert SqlTree(few, engine)
        assert SqlTree("select * from a" + " cross join b" * 20, engine)
        assert SqlTree("select * from a" + " join b on true" * 20, engine)


def test_what_is_written_is_written_alike() -> None:
    for engine, sql, written in (
        ("postgresql", "select ~ -1, - -1", "SELECT ~ -1, - -1"),
        ("postgresql", "select note::jsonb -> 'a.b'", """SELECT CAST("note" AS JSONB) -> 'a.b'"""),
        (
            "postgresql",
            "select string_agg(distinct a, '-')",
            "SELECT STRING_AGG(DISTINCT \"a\", '-')",
        ),
        ("postgresql", "select current_time", "SELECT CURRENT_TIME"),
        ("postgresql", "select a ?| b, a @? b, a #- b, a # b", None),
        ("postgresql", "select a not in (1) > b", 'SELECT "a" NOT IN (1) > "b"'),
        ("postgresql", "select a !~ 'b' > c, 2 ^ a", """SELECT "a" !~ 'b' > "c", 2 ^ "a\""""),
        ("mariadb", "select a not between 1 and 2 < b", "SELECT `a` NOT BETWEEN 1 AND 2 < `b`"),
        ("mariadb", "select 1 from dual where 1 = 1", "SELECT 1 WHERE 1 = 1"),
        ("mariadb", "select a->'$.b' , a <= 2 mod 3", None),
        ("mariadb", "select json_value(a, '$.b')", "SELECT JSON_VALUE(`a`, '$.b')"),
    ):
        canonical = _confined(sql, cast("EngineName", engine)).sql
        assert written is None or canonical == written


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
