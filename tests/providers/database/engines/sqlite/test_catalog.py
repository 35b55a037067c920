from __future__ import annotations

import pathlib
import sqlite3
from contextlib import closing

import pytest

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.reflection import ForeignKey, Index, TableName
from tests.providers.database.sqlite_databases import opened, reflected, write

pytestmark = pytest.mark.anyio

KEYS = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, a)": ("primary", ("id",)),
    "CREATE TABLE t(a, id INTEGER, PRIMARY KEY (id))": ("primary", ("id",)),
    "CREATE TABLE t(id INTEGER PRIMARY KEY DESC, a)": ("primary", ("id",)),
    "CREATE TABLE t(id INT PRIMARY KEY, a); INSERT INTO t VALUES (1, 1)": ("primary", ("id",)),
    "CREATE TABLE t(a, b, c, PRIMARY KEY (c, a))": ("primary", ("c", "a")),
    "CREATE TABLE t(a, b, PRIMARY KEY (b, a)) WITHOUT ROWID": ("primary", ("b", "a")),
    "CREATE TABLE t(a NOT NULL UNIQUE, b)": ("unique", ("a",)),
    "CREATE TABLE t(a UNIQUE, b)": ("rowid", ("rowid",)),
    "CREATE TABLE t(a NOT NULL, b NOT NULL, UNIQUE (b, a))": ("unique", ("b", "a")),
    "CREATE TABLE t(a NOT NULL, b NOT NULL, UNIQUE (b, a)); CREATE UNIQUE INDEX i ON t(b)": (
        "unique",
        ("b",),
    ),
    "CREATE TABLE t(a NOT NULL); CREATE UNIQUE INDEX i ON t(a) WHERE a > 1": ("rowid", ("rowid",)),
    "CREATE TABLE t(a NOT NULL); CREATE UNIQUE INDEX i ON t(abs(a))": ("rowid", ("rowid",)),
    "CREATE TABLE t(a TEXT COLLATE NOCASE NOT NULL);CREATE UNIQUE INDEX i ON t(a COLLATE BINARY)": (
        "rowid",
        ("rowid",),
    ),
    "CREATE TABLE t(a NOT NULL); CREATE INDEX i ON t(a)": ("rowid", ("rowid",)),
    "CREATE TABLE t(a)": ("rowid", ("rowid",)),
    "CREATE TABLE t(RowID)": ("rowid", ("_rowid_",)),
    "CREATE TABLE t(rowid, _rowid_)": ("rowid", ("oid",)),
    "CREATE TABLE t(rowid, _rowid_, oid)": ("none", ()),
    "CREATE VIEW t AS SELECT 1 AS id": ("none", ()),
    "CREATE VIRTUAL TABLE t USING fts5(a)": ("rowid", ("rowid",)),
    "CREATE VIRTUAL TABLE t USING fts4(a)": ("rowid", ("rowid",)),
    "CREATE VIRTUAL TABLE t USING rtree(id, a, b)": ("primary", ("id",)),
    "CREATE VIRTUAL TABLE f USING fts5(a); CREATE VIRTUAL TABLE t USING fts5vocab(f, row)": (
        "none",
        (),
    ),
}

KINDS = {
    "INTEGER": "integer",
    "INT": "integer",
    "bigint unsigned": "integer",
    "VARCHAR(10)": "text",
    "text": "text",
    "CLOB": "text",
    "BLOB": "any",
    "": "any",
    "REAL": "real",
    "double precision": "real",
    "FLOAT": "real",
    "NUMERIC": "numeric",
    "DECIMAL(10, 2)": "numeric",
    "weirdtype(3)": "numeric",
    "BOOLEAN": "boolean",
    "bool": "boolean",
    "DATE": "date",
    "TIME": "time",
    "DATETIME": "datetime",
    "TIMESTAMP": "datetime",
    "TIMESTAMP(6)": "datetime",
    "JSON": "json",
    "UUID": "uuid",
}


@pytest.mark.parametrize(("script", "expected"), KEYS.items())
async def test_the_key_addresses_every_row(
    tmp_path: pathlib.Path, script: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    async with opened(write(tmp_path / "shop.db", script)) as engine:
        table = await reflected(engine, "t")
        assert (table.key_kind, table.key) == expected


OTHER_KEYS = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL UNIQUE)": ["id", "a"],
    "CREATE TABLE t(id TEXT PRIMARY KEY, a NOT NULL UNIQUE)": ["id", "a", "rowid"],
    "CREATE TABLE t(d PRIMARY KEY, c NOT NULL UNIQUE, b NOT NULL UNIQUE, a UNIQUE) WITHOUT ROWID": (
        ["d", "b", "c"]
    ),
    "CREATE TABLE t(a COLLATE NOCASE NOT NULL, UNIQUE (a COLLATE BINARY))": ["rowid"],
    "CREATE TABLE t(a COLLATE NOCASE NOT NULL, UNIQUE (a COLLATE RTRIM))": ["rowid"],
    "CREATE TABLE t(a COLLATE NOCASE, PRIMARY KEY (a COLLATE BINARY))": ["rowid"],
    "CREATE TABLE t(a COLLATE NOCASE, PRIMARY KEY (a COLLATE BINARY)) WITHOUT ROWID": [],
    "CREATE TABLE t(a NOT NULL, UNIQUE (a COLLATE NOCASE)) -- COLLATE": ["a", "rowid"],
    "CREATE TABLE t(a COLLATE rtrim PRIMARY KEY)": ["a", "rowid"],
}


@pytest.mark.parametrize(("script", "keys"), OTHER_KEYS.items())
async def test_other_keys_are_ordered_by_preference(
    tmp_path: pathlib.Path, script: str, keys: list[str]
) -> None:
    async with opened(write(tmp_path / "shop.db", script)) as engine:
        table = await reflected(engine, "t")
        assert [*table.key, *(column for key in table.other_keys for column in key.columns)] == keys


async def test_a_table_made_while_the_engine_is_open_has_its_key(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", "CREATE TABLE t(a)")
    async with opened(path) as engine:
        await engine.tables()
        for name, key in (("one", "id INTEGER PRIMARY KEY"), ("two", "k TEXT PRIMARY KEY")):
            write(path, f"CREATE TABLE {name}({key})")
            table = await reflected(engine, name)
            assert (table.key_kind, table.key) == ("primary", (key.split()[0],))


async def test_a_generated_column_of_an_unknown_function_is_no_key(tmp_path: pathlib.Path) -> None:
    script = "CREATE TABLE t(a NOT NULL UNIQUE, g AS (unknown(a)))"
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.create_function("unknown", 1, str, deterministic=True)
        connection.executescript(script)
    async with opened(tmp_path / "shop.db") as engine:
        table = await reflected(engine, "t")
        assert (table.key_kind, table.key) == ("unique", ("a",))
        assert [column.is_address for column in table.columns] == [True, False]


async def test_a_column_in_a_collation_of_a_program_is_no_key(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.create_collation("own", lambda one, other: (one > other) - (one < other))
        connection.executescript(
            "CREATE TABLE t(a TEXT COLLATE own PRIMARY KEY, b TEXT COLLATE nocase NOT NULL UNIQUE)"
        )
    async with opened(path) as engine:
        table = await reflected(engine, "t")
        assert (table.key_kind, table.key) == ("unique", ("b",))
        assert [column.is_address for column in table.columns] == [False, True]


@pytest.mark.parametrize(("declared", "kind"), KINDS.items())
async def test_the_kind_of_a_column_follows_its_declared_type(
    tmp_path: pathlib.Path, declared: str, kind: str
) -> None:
    async with opened(write(tmp_path / "shop.db", f"CREATE TABLE t(a {declared})")) as engine:
        (column,) = (await reflected(engine, "t")).columns
        assert column.kind == kind
        assert column.type.lower() == declared.lower()


async def test_a_strict_table_has_its_declared_types(tmp_path: pathlib.Path) -> None:
    script = "CREATE TABLE t(a INT, b INTEGER, c REAL, d TEXT, e BLOB, f ANY) STRICT"
    async with opened(write(tmp_path / "shop.db", script)) as engine:
        table = await reflected(engine, "t")
        assert table.strict
        kinds = [column.kind for column in table.columns]
        assert kinds == ["integer", "integer", "real", "text", "blob", "any"]


async def test_columns_have_their_declared_properties(tmp_path: pathlib.Path) -> None:
    script = """
    CREATE TABLE t(
        id INTEGER PRIMARY KEY, a TEXT NOT NULL DEFAULT 'x)', b AS (a || 'y') VIRTUAL,
        c AS (upper(a)) STORED, "d e" REAL DEFAULT 1.5
    )"""
    async with opened(write(tmp_path / "shop.db", script)) as engine:
        table = await reflected(engine, "t")
        assert table.column_names == ("id", "a", "b", "c", "d e")
        assert [column.nullable for column in table.columns] == [False, False, True, True, True]
        assert [column.generated for column in table.columns] == [False, False, True, True, False]
        assert [column.default for column in table.columns] == [None, "'x)'", None, None, "1.5"]
        assert table.ddl is not None
        assert table.ddl.startswith("CREATE TABLE t(")
        assert table.comment is None


async def test_foreign_keys_use_the_spelling_of_the_referred_names(tmp_path: pathlib.Path) -> None:
    script = """
    CREATE TABLE Customers(Id INTEGER PRIMARY KEY);
    CREATE TABLE places(country, city, PRIMARY KEY (country, city));
    CREATE TABLE t(
        customer REFERENCES customers, city, country, gone REFERENCES missing(x),
        other REFERENCES CUSTOMERS(ID),
        FOREIGN KEY (country, city) REFERENCES places
    )"""
    async with opened(write(tmp_path / "shop.db", script)) as engine:
        customers, places = TableName(None, "Customers"), TableName(None, "places")
        assert (await reflected(engine, "t")).foreign_keys == (
            ForeignKey(("customer",), customers, ("Id",)),
            ForeignKey(("other",), customers, ("Id",)),
            ForeignKey(("country", "city"), places, ("country", "city")),
        )


async def test_indexes_list_their_columns(tmp_path: pathlib.Path) -> None:
    script = """
    CREATE TABLE t(a, b UNIQUE); CREATE INDEX i ON t(b, abs(a)); CREATE INDEX j ON t(a) WHERE a > 1
    """
    async with opened(write(tmp_path / "shop.db", script)) as engine:
        assert (await reflected(engine, "t")).indexes == (
            Index("i", ("b", None)),
            Index("j", ("a",), partial=True),
            Index("sqlite_autoindex_t_1", ("b",), unique=True),
        )


async def test_only_tables_created_by_users_are_listed(tmp_path: pathlib.Path) -> None:
    script = """
    CREATE TABLE b(id INTEGER PRIMARY KEY AUTOINCREMENT); CREATE VIEW a AS SELECT * FROM b;
    CREATE VIRTUAL TABLE docs USING fts5(x); CREATE VIRTUAL TABLE old USING fts4(x);
    CREATE VIRTUAL TABLE "my ""places" USING rtree(id, a, b); CREATE TABLE docs_contents(x);
    CREATE TABLE sqlite(x); CREATE TABLE b_content(x); INSERT INTO b DEFAULT VALUES; ANALYZE;
    """
    async with opened(write(tmp_path / "shop.db", script)) as engine:
        found = {info.name.name: info.type for info in await engine.tables()}
        assert found == {
            "a": "view",
            "b": "table",
            "b_content": "table",
            "docs": "virtual table",
            "docs_contents": "table",
            'my "places': "virtual table",
            "old": "virtual table",
            "sqlite": "table",
        }
        assert list(found) == sorted(found)


async def test_missing_and_broken_tables_are_not_found(tmp_path: pathlib.Path) -> None:
    script = "CREATE TABLE t(a); CREATE VIEW broken AS SELECT * FROM missing;"
    script += "CREATE VIRTUAL TABLE docs USING fts5(x);"
    async with opened(write(tmp_path / "shop.db", script)) as engine:
        for name in (
            "missing",
            "T",
            "broken",
            "docs_content",
            "sqlite_master",
            "",
            'a"b',
            "\udcff",
        ):
            with pytest.raises(ResourceNotFound):
                await reflected(engine, name)
        with pytest.raises(ResourceNotFound):
            await engine.table(TableName("main", "t"))
        assert (await reflected(engine, "t")).column_names == ("a",)
        assert (await reflected(engine, "docs")).column_names == ("x",)


async def test_a_changed_schema_is_detected(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", "CREATE TABLE t(a)")
    async with opened(path) as engine:
        assert (await reflected(engine, "t")).column_names == ("a",)
        states = [await engine.schema_state()]
        for script in ("ALTER TABLE t ADD COLUMN b", "CREATE TABLE u(x)", "DROP TABLE u"):
            write(path, script)
            states.append(await engine.schema_state())
        assert len(set(states)) == 4
        assert (await reflected(engine, "t")).column_names == ("a", "b")
        assert [info.name.name for info in await engine.tables()] == ["t"]
        write(path, "INSERT INTO t VALUES (1, 2)")
        assert await engine.schema_state() == states[-1]


async def test_an_estimate_comes_from_analyze(tmp_path: pathlib.Path) -> None:
    fill = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 500) "
    fill = f"INSERT INTO t {fill} SELECT x, x FROM c"
    path = write(tmp_path / "shop.db", f"CREATE TABLE t(a, b); {fill}")
    async with opened(path) as engine:
        name = TableName(None, "t")
        assert await engine.estimate(name) is None
        write(path, "CREATE INDEX i ON t(a); CREATE INDEX j ON t(b) WHERE b > 400; ANALYZE")
        assert await engine.estimate(name) == 500
        assert await engine.estimate(TableName(None, "missing")) is None


async def test_a_long_chain_of_foreign_keys_causes_no_recursion(tmp_path: pathlib.Path) -> None:
    chain = ";".join(
        f"CREATE TABLE t{n}(id INTEGER PRIMARY KEY, next REFERENCES t{n + 1})" for n in range(1500)
    )
    async with opened(write(tmp_path / "shop.db", f"BEGIN; {chain}; COMMIT")) as engine:
        (key,) = (await reflected(engine, "t0")).foreign_keys
        assert key.table.name == "t1"
