from __future__ import annotations

import sqlite3
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from resource_server.providers.database.engines.sqlite.schema_names import (
    read_schema,
    table_options,
)


def test_schema_entries_agree_with_pragma_table_list() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(
            """
            CREATE TABLE "using fts5"(x); CREATE VIRTUAL TABLE "x using y" USING "fts5"(a);
            CREATE VIRTUAL TABLE f3 USING fts3(a); CREATE VIRTUAL TABLE r USING rtree_i32(a,b,c);
            CREATE TABLE f3_stat(x); CREATE TABLE f3_docsize(x); CREATE VIEW v AS SELECT 1;
            CREATE TABLE w(a PRIMARY KEY) WITHOUT ROWID; CREATE TABLE s(a INT) STRICT;
            CREATE VIRTUAL TABLE "b]r" USING fts5(x)
            """
        )
        schema = read_schema(connection)
        listed = connection.execute("PRAGMA main.table_list").fetchall()
        types = {name: kind for _, name, kind, *_ in listed if not name.startswith("sqlite_")}
        shadows = {name for name, kind in types.items() if kind == "shadow"}
        assert shadows == set(schema.shadows)
        kinds = {"virtual": "virtual table"}
        expected = {n: kinds.get(k, k) for n, k in types.items() if k != "shadow"}
        assert {name: entry.type for name, entry in schema.entries.items()} == expected


@given(
    comment=st.text(st.characters(exclude_characters="*\0", codec="utf-8")),
    literal=st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    strict=st.booleans(),
    rowid=st.booleans(),
)
def test_table_options_are_parsed_as_by_sqlite(
    comment: str, literal: str, strict: bool, rowid: bool
) -> None:
    options = [*(["strict"] if strict else []), *([] if rowid else ["Without  Rowid"])]
    quoted = literal.replace("'", "''")
    sql = f"CREATE TABLE t(a TEXT DEFAULT '{quoted}', b INT PRIMARY KEY)/*{comment}*/"
    sql += f",/* ) {comment}*/".join(options)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(sql)
        ((without, is_strict),) = connection.execute(
            "SELECT wr, strict FROM pragma_table_list WHERE name = 't'"
        )
        (kept,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 't'").fetchone()
    found = table_options(kept)
    assert ("STRICT" in found, "WITHOUT ROWID" in found) == (bool(is_strict), bool(without))
