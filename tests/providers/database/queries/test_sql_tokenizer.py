from __future__ import annotations

import contextlib
import sqlite3
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.providers.database.engines.contract import EngineName
from resource_server.providers.database.queries import sql_tokenizer
from resource_server.providers.database.queries.parameters import Parameter
from tests.cases import for_each
from tests.providers.database.declared_queries import ENGINES, declared


def used(sql: str, engine: EngineName) -> list[str]:
    tokens = sql_tokenizer.statement(sql, engine)
    return [token.text for token in tokens if token.kind == "parameter"]


@for_each(
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
@for_each("engine", ENGINES)
def test_parameters_are_found_outside_strings_and_comments(
    engine: EngineName, sql: str, found: list[str]
) -> None:
    assert used(sql, engine) == found


@for_each(
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
    """Return the value that a real engine computes."""
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
@for_each("engine", ["sqlite", "postgresql", "mariadb"])
async def test_strings_and_comments_end_where_the_engine_ends_them(engine: EngineName) -> None:
    query = declared(TRICKY[engine], {"a": Parameter(), "b": Parameter()}, engine)
    statement = query.bind({"a": "1", "b": "2"}).statement
    assert await answer(engine, statement.sql, statement.parameters) == EXPECTED[engine]


@given(st.text(alphabet="'\"`[]$a:E-/*#\\\n (;", max_size=40))
def test_strings_are_delimited_as_in_sqlite(text: str) -> None:
    try:
        query = declared(f"select {text}", {"a": Parameter()})
    except ValueError:
        return
    database = sqlite3.connect(":memory:")
    # SQLite refuses another number of values than it has placeholders.
    with contextlib.suppress(sqlite3.OperationalError):  # no SQL that means anything
        database.execute(query.sql, ("",) * len(query.order)).close()
    database.close()


@for_each(
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


@for_each("sql", ["select 1 /*! + 1 */", "select 1 /*M!100000 + 1 */"])
def test_comments_that_mysql_executes_are_refused(sql: str) -> None:
    with pytest.raises(ValueError, match="executable comment"):
        declared(sql, engine="mariadb")


@for_each(
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
def test_names_are_parsed_as_by_each_engine(engine: EngineName, sql: str, names: str) -> None:
    found = sql_tokenizer.references(sql_tokenizer.statement(sql, engine), engine)
    written = [".".join(name.parts) for name in found]
    assert " ".join(name for name in written if name not in ("select", "from", "as")) == names


def test_calls_and_texts_are_distinguished_from_references() -> None:
    sql = """with a as (select 1), b (x, y) as not materialized (select f(1), g.h (2))
        select c.d as e, count(*) from a as i join lateral (select 1) j on true in ('k')"""
    found = sql_tokenizer.references(sql_tokenizer.statement(sql, "sqlite"), "sqlite")
    called = [".".join(name.parts) for name in found if name.doubtful]
    assert {"f", "g.h", "count", "k"} <= set(called)
    assert {name.parts[0]: name.before for name in found}["i"] == "as"


@for_each("name", ['u&"orders"', 'U&"\\006frders"', '"a".U&"b" uescape \'!\''])
def test_names_written_as_unicode_escapes_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="write the name itself"):
        declared(f"select * from {name}", engine="postgresql")
    assert declared('select u & "b" from t', engine="postgresql").order == ()


def test_a_comment_between_strings_keeps_them_apart() -> None:
    tokens = sql_tokenizer.statement("select e'a' /* c */\n'b'", "postgresql")
    assert "".join([token.text for token in tokens]) == "select e'a' /**/\n'b'"
