"""Tables as they are reflected: their keys and identifiers."""

from __future__ import annotations

import sqlite3

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.providers.database.engines.reflection import (
    Column,
    FoundKey,
    Key,
    Table,
    TableName,
    best_first,
    names_in_sql,
    quoted,
)

COLUMNS = tuple(Column(name, "int", "integer") for name in "abc")
TABLE = Table(TableName(None, "t"), "table", COLUMNS)
ROWID = Column("rowid", "INTEGER", "integer")


@pytest.mark.parametrize("name", ["t", "", 'a"b', '"', "a`b", "a.b", "a;--", "\u2028", "é"])
def test_a_quoted_name_is_that_name(name: str) -> None:
    database = sqlite3.connect(":memory:")
    assert database.execute(f"select 1 as {quoted(name)}").description[0][0] == name
    # SQLite knows the quotes of MariaDB, too.
    assert database.execute(f"select 1 as {quoted(name, 'mariadb')}").description[0][0] == name
    assert quoted(name, "mysql")[:1] == "`"
    assert quoted(name, "postgresql") == quoted(name, "sqlite") == quoted(name)


def test_the_primary_key_is_first_and_then_the_shortest() -> None:
    found = [
        FoundKey(False, ("x", "y"), ("a", "b")),
        FoundKey(False, ("z",), ("c",)),
        FoundKey(True, ("x", "y", "z"), ("a", "b", "c")),
        FoundKey(False, ("y",), ("b",)),
    ]
    assert best_first(found) == [
        Key("primary", ("a", "b", "c")),
        Key("unique", ("b",)),
        Key("unique", ("c",)),
        Key("unique", ("a", "b")),
    ]
    assert best_first([]) == []


def test_a_table_has_the_first_key_and_the_others_as_alternatives() -> None:
    keys = [Key("unique", ("b", "a")), Key("unique", ("c",))]
    found = TABLE.with_key(keys)
    assert [column.name for column in found.key_columns] == ["b", "a"]
    assert (found.key_names, found.other_keys) == (("b", "a"), (keys[1],))
    none = found.with_key([])
    assert (none.key_kind, none.key, none.key_columns, none.other_keys) == ("none", (), (), ())


@pytest.mark.parametrize(("kind", "names"), [("rowid", ("rowid",)), ("number", ())])
def test_a_key_that_is_no_column_has_one_of_its_own(kind: str, names: tuple[str, ...]) -> None:
    key = Key("rowid" if kind == "rowid" else "number", ("rowid",))
    found = msgspec.structs.replace(TABLE, rowid=ROWID).with_key([key])
    assert found.key_columns == (ROWID,)
    assert found.key_names == names
    assert "rowid" not in found.column_names


NAMES = st.builds(
    TableName, st.sampled_from(["s", "S", "", None]), st.sampled_from("t T s_t _t".split())
)


@given(st.lists(NAMES, unique=True))
def test_every_table_has_a_name_of_its_own_in_the_sql_of_callers(tables: list[TableName]) -> None:
    names = names_in_sql(tables)
    assert len({name.casefold() for name in names}) == len(tables)
    for name, table in zip(names, tables, strict=True):
        assert name.rstrip("_").endswith(table.name.rstrip("_"))


def test_the_first_of_tables_of_one_name_keeps_it() -> None:
    tables = [TableName("a", "t"), TableName("b", "T"), TableName("c", "b_t"), TableName("b", "u")]
    assert names_in_sql(tables) == ["t", "b_T", "c_b_t", "u"]
    assert names_in_sql([]) == []
