"""The generic engine: Firebird, which nothing else here knows, and answers as of other engines."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from resource_server.access import Caller, acting
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
    ResourceUnreadable,
)
from resource_server.manifest.databases.database_url import parse_database_url
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.generic.engine import GenericEngine
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.options import (
    ColumnOptions,
    Query,
    ReadLimits,
    TableOptions,
)
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.runtime.option_types import Duration
from tests.cases import for_each
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.served import FRESH, Served, served
from tests.providers.database.servers import proxy_to, with_parts
from tests.providers.database.sqlite_databases import write
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

SHOP = (
    "create table customers (id integer primary key, name varchar(50) not null, mail varchar(50),"
    " country char(2))",
    "create table orders (id integer primary key, customer integer references customers (id),"
    " total decimal(10, 2), placed date, note varchar(200))",
    "insert into customers values (1, 'Ada', 'ada@example.org', 'DE')",
    "insert into customers values (2, 'Bo', null, 'FR')",
    "insert into customers values (3, 'Cy 100%', 'cy@example.org', null)",
    "insert into orders values (10, 1, 12.50, '2026-01-02', 'first; \"quoted\", é')",
    "insert into orders values (11, 1, 7.25, '2026-02-03', null)",
    "insert into orders values (12, 3, null, '2026-02-03', '-- none')",
    "insert into orders values (13, 2, 100.00, null, 'a,b')",
)
FLAGS = (
    "create table flags (id integer primary key, yes boolean)",
    "insert into flags values (1, true), (2, false), (3, null)",
)
READS = (
    *(f"flags/~rows?format={format}" for format in ("json", "columns", "csv", "markdown")),
    *(f"flags/~rows?where.yes={value}&count" for value in ("true", "false")),
    "flags/~summary?by=yes&sort=yes",
    "flags/2",
    *(f"orders/~rows?{query}&format={format}" for query, format in product(
        (
            "limit=2",
            "sort=-total",
            "sort=placed,-id",
            "where.total.gt=7.25",
            "where.placed=2026-02-03&sort=-id",
            "where.note.null=true",
            "where.note.like=%25a%25",
            "where.id.in=10,13",
            "where.customer.ne=1",
            "columns=id,note&limit=3",
            "count",
        ),
        ("json", "columns", "csv", "markdown"),
    )),
    "orders/~summary?by=customer&sum=total&sort=-count",
    "orders/~summary?by=placed&min=total&max=id",
    "orders/~summary?sum=id",
    "customers/~rows",
    "customers/2",
    "orders/10",
    "orders/12/~cell/note",
)  # fmt: skip
"""Addresses of which the generic engine and the database's own give the same bytes."""


@pytest.fixture
async def firebird(firebird_url: str) -> AsyncIterator[Owner]:
    async with owner_of(firebird_url) as owner:
        await owner.clear()
        await owner.run(*SHOP)
        yield owner


GENERIC = {
    "sqlite": "sqlite+pysqlite",
    "postgresql": "postgresql+psycopg",
    "mysql": "mariadb+pymysql",
}


@pytest.mark.guarantee("other-drivers-answer-the-same")
@pytest.mark.parametrize("url", ["sqlite", "postgresql", "mariadb"], indirect=True)
async def test_answers_are_those_of_the_native_engine(url: str) -> None:
    native, _, place = url.partition("://")
    if native != "sqlite":
        pytest.importorskip(GENERIC[native].partition("+")[2])
    found: list[dict[str, object]] = []
    for scheme in (native, GENERIC[native]):
        async with owner_of(f"{scheme}://{place}") as owner:
            if scheme == native:
                await owner.clear()
                await owner.run(*SHOP, *FLAGS)
            async with served(owner, timing=FRESH) as it:
                found.append({path: await _read(it, path) for path in READS})
    assert found[0] == found[1]


async def _read(it: Served, path: str) -> str:
    # A cursor tells the types of the columns, which each engine writes in its own words.
    return re.sub(r"after=[\w%-]+", "after=", (await it.text(path)).replace(it.base, ""))


async def test_rows_of_firebird_are_listed_read_and_paged(firebird: Owner) -> None:
    async with served(firebird) as it:
        assert await it.children() == ["customers", "orders"]
        assert await it.rows("orders") == ["orders/10", "orders/11", "orders/12", "orders/13"]
        assert await it.json("orders/10") == {
            "id": 10,
            "customer": 1,
            "total": "12.50",
            "placed": "2026-01-02",
            "note": 'first; "quoted", é',
            "_links": {"customer": f"{it.base}customers/1"},
        }
        pages = await it.pages("orders/~rows?limit=3&sort=-total")
        assert [[row["id"] for row in page] for page in pages] == [[13, 10, 11], [12]]
        assert (await it.json("orders/~rows?where.note.like=A,%25"))["rows"][0]["id"] == 13
        summary = await it.json("orders/~summary?by=customer&avg=id&sum=total")
        assert [row["avg.id"] for row in summary["rows"]] == [10.5, 13.0, 12.0]
        for missing in ("orders/99", "orders/x", "orders/99999999999999", "nothing/1"):
            with pytest.raises(ResourceNotFound):
                await it.read(missing)


async def test_hidden_and_masked_columns_of_firebird_stay_so(firebird: Owner) -> None:
    tables = {
        "customers": TableOptions(
            columns=ColumnOptions(hide=("country",), mask={"mail": "redact"}), where="id < 3"
        ),
    }
    queries = {
        "fine": Query(sql="select id from orders where total > :least order by id", parameters={
            "least": Parameter(type="number")}),
        "nosy": Query(sql="select country from customers"),
        "nosier": Query(sql="select rdb$relation_name from rdb$relations"),
    }  # fmt: skip
    async with served(firebird, tables=tables, queries=queries) as it:
        rows = (await it.json("customers/~rows"))["rows"]
        assert rows == [
            {"id": 1, "name": "Ada", "mail": "***"},
            {"id": 2, "name": "Bo", "mail": None},
        ]
        with pytest.raises(ResourceNotFound):
            await it.read("customers/3")
        assert await it.query("fine?least=10") == [{"id": 10}, {"id": 13}]
        for query in ("nosy", "nosier"):
            with pytest.raises(InvalidParameter, match="refuses this query"):
                await it.query(query)
        for filter in ("where.country=DE", "where.mail=x", "sort=mail"):
            with pytest.raises(InvalidParameter):
                await it.read(f"customers/~rows?{filter}")


async def test_a_condition_that_firebird_refuses_serves_nothing_of_its_table(
    firebird: Owner,
) -> None:
    provider = Database(firebird.url, tables={"orders": TableOptions(where="nothing = 1")})
    async with provider:
        problems = dict(await provider.warnings())
        assert "Firebird refuses it" in problems["tables.orders.where"]
        assert [each.path for each in await provider.list((), after=None, limit=9)] == [
            ("customers",)
        ]


async def test_names_of_firebird_are_found_in_every_spelling(firebird: Owner) -> None:
    names = ["low", "MiXed", 'a"b', "a.b", "semi;colon", "per%cent", "col:on", "select", "Ü 1"]
    for place, name in enumerate(names):
        quoted = '"' + name.replace('"', '""') + '"'
        await firebird.run(
            f"create table {quoted} (id integer primary key, {quoted} integer)",
            f"insert into {quoted} values (1, {place})",
        )
    async with served(firebird) as it:
        tables = {entry.resource.name: entry for entry in await it.entries("")}
        for place, name in enumerate(names):
            path = tables[name].uri.removeprefix(it.base)
            assert await it.json(f"{path}/1") == {"id": 1, name: place}


async def test_numbers_of_firebird_are_compared_by_all_their_digits(firebird: Owner) -> None:
    await firebird.run(
        "create table n (k numeric(18, 6) primary key, x numeric(9, 2))",
        "insert into n values (0.000001, 1.25)",
        "insert into n values (123456789012.345678, 2)",
    )
    queries = {
        "above": Query(
            sql="select x from n where k > :least order by k",
            parameters={"least": Parameter(type="number")},
        )
    }
    async with served(firebird, queries=queries) as it:
        assert await it.rows("n") == ["n/0.000001", "n/123456789012.345678"]
        assert (await it.json("n/0.000001"))["x"] == "1.25"
        for filters, count in (
            ("where.k=0.000001", 1),
            ("where.k.gt=0.0000009", 2),
            ("where.k.lt=0.0000011", 1),
            ("where.x=1.2500001", 0),
            ("where.x=1.250000000000000000000", 1),
        ):
            assert len((await it.json(f"n/~rows?{filters}"))["rows"]) == count, filters
        assert await it.query("above?least=0.000001") == [{"x": "2.00"}]
        for number in ("123456789012.345678901", "99999999999999999999"):
            with pytest.raises(InvalidParameter, match="value"):
                await it.read(f"n/~rows?where.k.lt={number}")
        summary = await it.json("n/~summary?avg=x")
        assert summary["rows"][0]["avg.x"] == 1.625


async def test_exact_numbers_that_firebird_computes_are_no_integers(firebird: Owner) -> None:
    await firebird.run(
        'create table c (id bigint, "Big" bigint, x numeric(9, 2), twice computed by (x * 2),'
        ' more computed by ("Big" + 1))',
        'insert into c (id, "Big", x) values (1, 9, 12.30)',
        'create view v as select id, x * 0.5 as half, "Big" * 2 as "Two" from c',
    )
    async with served(firebird) as it:
        for path, types in (
            ("c", ["BIGINT", "BIGINT", "NUMERIC(9, 2)", "NUMERIC(18, 2)", "BIGINT"]),
            ("v", ["BIGINT", "NUMERIC(18, 3)", "BIGINT"]),
        ):
            schema = await it.json(f"{path}/~schema?format=json")
            assert [each["type"] for each in schema["columns"]] == types
        assert (await it.json("v/~rows?where.half=6.15"))["rows"] == [
            {"id": 1, "half": "6.150", "Two": 18}
        ]
        assert (await it.json("c/~rows?where.twice.gt=24.59&columns=id"))["rows"] == [{"id": 1}]


async def test_keys_of_firebird_are_found_by_their_index(firebird: Owner) -> None:
    await firebird.run(
        "create table t (k varchar(200) primary key)",
        "create table b (k varchar(9) character set octets primary key)",
        "insert into t values ('a')",
        "insert into b values (x'00ff')",
    )
    row_by_row = (
        "select sum(r.mon$record_seq_reads) from mon$table_stats t join mon$record_stats r"
        " on r.mon$stat_id = t.mon$record_stat_id"
        " where t.mon$stat_group = 0 and t.mon$table_name in ('T', 'B')"
    )
    async with served(firebird) as it:
        before = await firebird.rows(row_by_row)
        assert await it.json("t/a") == {"k": "a"}
        assert (await it.json("b/~bAP8"))["k"]["bytes"] == 2
        assert (await it.json("t/~rows?where.k.ge=a"))["rows"] == [{"k": "a"}]
        assert await firebird.rows(row_by_row) == before


SLOW = "select count(*) from rdb$fields a, rdb$fields b, rdb$fields c, rdb$fields d"


async def test_a_view_of_firebird_that_fails_is_not_blamed_on_the_caller(firebird: Owner) -> None:
    await firebird.run("create view v as select 1 / (id - id) as x from customers")
    async with served(firebird) as it:
        with pytest.raises(ResourceUnreadable, match="a value that it computes"):
            await it.read("v/~rows")


@pytest.mark.guarantee("rows-are-the-callers")
@for_each("type", ("varchar(20)", "char(20)", "blob sub_type 1"))
async def test_texts_of_firebird_without_a_character_set_are_compared_as_they_are(
    firebird: Owner, type: str
) -> None:
    await firebird.run(f"recreate table t (id integer not null, owner {type} character set none)")
    for place, data in enumerate((b"alice", "é".encode(), "é".encode("cp1252"), b"\xff\xfe")):
        await firebird.run(f"insert into t values ({place}, x'{data.hex()}')")
    for where, found in (("owner", {"é": [1], "ÿþ": []}), ("not owner", {"é": [0, 2, 3]})):
        options = {"t": TableOptions(where=f"{where} = :claims.sub", key=("id",))}
        async with served(firebird, tables=options, timing=FRESH) as it:
            for sub, ids in {**found, "漢字漢字": [0, 1, 2, 3] if where != "owner" else []}.items():
                with acting(Caller("somebody", frozenset(), claims={"sub": sub})):
                    rows = (await it.json("t/~rows?columns=id"))["rows"]
                    assert [row["id"] for row in rows] == ids, (where, sub)


async def is_idle(owner: Owner) -> bool:
    """Return whether the slow query runs no more."""
    running = "select 1 from mon$statements where mon$state = 1 and mon$sql_text like ?"
    return not await owner.rows(running, f"%{SLOW[:60]}%")


async def test_a_statement_of_firebird_ends_in_the_database_at_its_deadline(
    firebird: Owner,
) -> None:
    limits = ReadLimits(query_timeout=Duration(0.5))
    async with served(firebird, queries={"slow": Query(sql=SLOW)}, limits=limits) as it:
        with pytest.raises(DeadlineExceeded):
            await it.query("slow")

        await until(lambda: is_idle(firebird))
        assert await it.json("customers/1")


async def test_a_database_of_firebird_is_closed_while_its_statements_end(firebird: Owner) -> None:
    for _ in range(20):  # what would be closed twice ends the process
        async with Database(firebird.url, interval=Duration(0)) as provider:
            reads = [provider.read(("customers", "~rows"), {}) for _ in range(3)]
            tasks = [asyncio.ensure_future(read) for read in reads]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_lost_connection_of_firebird_is_replaced(
    firebird: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    parts = urlsplit(firebird.url)
    async with proxy_to("127.0.0.1", parts.port or 0) as proxy:
        url = with_parts(firebird.url, port=proxy.port)
        async with Database(url, interval=Duration(0)) as provider:
            await provider.read(("customers", "1"), {})
            await proxy.cut()
            with pytest.raises((ResourceBusy, DeadlineExceeded)):
                await provider.read(("customers", "1"), {})
            await proxy.restore()

            async def is_read() -> object:
                try:
                    return await provider.read(("customers", "1"), {})
                except (ResourceBusy, DeadlineExceeded):
                    return None

            await until(is_read)
    assert "Exception" not in caplog.text


async def test_databases_of_the_same_name_on_two_servers_are_two(firebird: Owner) -> None:
    from tests.providers.database.firebird_databases import empty_firebird_database

    found: list[list[str]] = []
    with empty_firebird_database() as other:
        async with owner_of(other) as owner:
            await owner.run(*SHOP, "update customers set name = 'Ü'")
        for url in (firebird.url, other, firebird.url):
            named = urlunsplit(urlsplit(url)._replace(path="/it", query=""))
            async with Database(named) as provider, Database(other):
                read = await provider.read(("customers", "1"), {})
                found.append([json.loads(each.data)["name"] for each in read])
    assert found == [["Ada"], ["Ü"], ["Ada"]]


async def test_what_another_request_reflects_anew_changes_the_state_of_the_schema(
    tmp_path: Path,
) -> None:
    file, name = write(tmp_path / "it.sqlite", "create table t (a)"), TableName(None, "t")
    engine = GenericEngine(f"sqlite+pysqlite:///{file}", interval=0)
    await engine.open()
    try:
        await engine.table(name)
        states = [await engine.schema_state()]
        for statement in ("alter table t add b", "drop table t", "create table t (a)"):
            write(file, statement)
            with suppress(ResourceNotFound):
                await engine.table(name)
            states.append(await engine.schema_state())
            assert await engine.schema_state() == states[-1]
        write(file, "drop table t")
        await engine.tables()
        write(file, "create table t (a)")
        states.append(await engine.schema_state())
        assert len(states) == len(set(states))
    finally:
        await engine.close()


@pytest.mark.parametrize("url", ["mariadb+pymysql"], indirect=True)
async def test_a_statement_that_the_database_itself_ends_in_time_is_over_its_deadline(
    url: str,
) -> None:
    engine = GenericEngine(url)
    await engine.open()
    try:
        slow = Statement("SET STATEMENT max_statement_time = 0.05 FOR SELECT SLEEP(9) = 0")
        with pytest.raises(DeadlineExceeded):
            await engine.run_own(slow, limit=1, within=PATIENCE_S)
    finally:
        await engine.close()


async def test_a_locked_database_is_busy_and_not_gone(tmp_path: Path) -> None:
    file = write(tmp_path / "it.sqlite", "create table t (id integer primary key)")
    async with Database(f"sqlite+pysqlite:///{file}?timeout=0.1") as provider:
        assert len(await provider.list((), after=None, limit=9)) == 1
        with closing(sqlite3.connect(file)) as writer:
            writer.execute("begin exclusive")
            with pytest.raises(ResourceBusy, match="locked by a writer"):
                await provider.read(("t", "~rows"), {})
            async with Database(f"sqlite+pysqlite:///{file}?immutable=1") as unlocked:
                assert await unlocked.read(("t", "~rows"), {})


@pytest.mark.parametrize(
    ("place", "told"), [(0, "the file is not a SQLite database"), (100, "the database file is dam")]
)
async def test_a_damaged_file_is_no_fault_of_a_statement(
    tmp_path: Path, place: int, told: str
) -> None:
    file = write(tmp_path / "it.sqlite", "create table t (id integer primary key)")
    content = file.read_bytes()
    file.write_bytes(content[:place] + b"\xff" * 1000 + content[place + 1000 :])
    provider = Database(f"sqlite+pysqlite:///{file}")
    with pytest.raises(MountUnavailable, match=told):
        async with provider:
            await provider.list((), after=None, limit=9)


async def test_a_large_blob_of_firebird_is_whole_in_its_cell(firebird: Owner) -> None:
    await firebird.run("create table blobs (id integer primary key, b blob, t blob sub_type 1)")
    data, text = bytes(range(256)) * 1000, "é" * 100_000
    await firebird.rows("insert into blobs values (?, ?, ?)", 1, data, text)
    async with served(firebird) as it:
        content = (await it.read("blobs/1/~cell/b")).content
        assert content is not None
        assert content.data == data
        assert await it.text("blobs/1/~cell/t") == text
        assert (await it.json("blobs/1"))["b"]["bytes"] == len(data)


def test_sql_of_callers_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match=r"^sql: this engine takes no SQL of callers"):
        Database("firebird+firebird://h/x", sql=True)


def test_a_claim_in_a_query_is_refused_where_it_is_not_known_how_texts_compare() -> None:
    with pytest.raises(ValueError, match=r"^queries.mine: sql: has :claims.sub, and") as refused:
        Database("oracle+oracledb://h/x", queries={"mine": Query(sql="select :claims.sub from t")})
    assert str(refused.value).endswith(
        "it is not known how Oracle compares texts: write the condition as `where` of a table, "
        "with a column of integers, dates, booleans or UUIDs"
    )


async def test_a_condition_may_have_a_colon_in_a_text(firebird: Owner) -> None:
    tables = {"orders": TableOptions(where="note <> 'at 10:30' and id < 11")}
    async with served(firebird, tables=tables) as it:
        assert await it.rows("orders") == ["orders/10"]


async def test_what_cannot_be_proven_is_said_by_check(firebird: Owner) -> None:
    async with Database(firebird.url) as provider:
        problems = [message for _, message in await provider.warnings()]
    assert "the login may do more than read: what it is granted, which Firebird does not tell" in (
        " ".join(problems)
    )
    strict = Database(firebird.url, require_readonly_role=True)
    with pytest.raises(MountUnavailable, match="may do more than read"):
        async with strict:
            pass


async def test_the_session_of_firebird_cannot_write(firebird: Owner) -> None:
    queries = {"w": Query(sql="select gen_id(counter, 1) from rdb$database")}
    await firebird.run("create sequence counter")
    async with served(firebird, queries=queries) as it:
        await it.query("w")  # a generator has no transaction: what the login may call, it may call
    provider = Database(firebird.url)
    async with provider:
        engine: Any = provider.engine
        with (
            pytest.raises(Exception, match="read-only"),
            engine._sqlalchemy.connect() as connection,
        ):
            connection.exec_driver_sql("insert into customers (id, name) values (9, 'x')")


@for_each(
    ("url", "said"),
    [
        ("mssql://sa:pw@127.0.0.1/x", "SQL Server needs a package: pip install pymssql"),
        ("sqlserver://sa:pw@127.0.0.1/x", "SQL Server needs a package: pip install pymssql"),
        ("oracle://a:pw@127.0.0.1/x", "Oracle needs a package: pip install oracledb"),
        ("trino://a:pw@127.0.0.1/x", "Trino needs a package: pip install trino"),
        ("clickhousedb://a:pw@h/x", "ClickHouse needs a package: pip install clickhouse-connect"),
        ("bigquery://x/y", "BigQuery needs a package: pip install sqlalchemy-bigquery"),
        ("snowflake://a:pw@h/x", "Snowflake needs a package: pip install snowflake-sqlalchemy"),
        ("nosuch://a:pw@h/x", "unknown engine; write sqlite:///"),
        ("postgresql+nosuch://a:pw@h/x", "no driver 'nosuch' is installed"),
        ("jdbc:sqlserver://h:1;databaseName=x;password=pw", "write mssql+pymssql://USER:PASSWORD@h:1/x"),
        ("jdbc:postgresql://h/x?password=pw", "write postgresql://USER:PASSWORD@h/x"),
        ("jdbc:oracle:thin:@//h:1521/x", "write oracle+oracledb://USER:PASSWORD@h:1521?service_name=x"),
        ("jdbc:firebirdsql://h:3050//data/x.fdb", "write firebird+firebird://USER:PASSWORD@h:3050//data/x.fdb"),
        ("Driver={ODBC Driver 18};Server=h;Pwd=pw", "an ODBC connection string"),
        ("duckdb+duckdb_engine:///x.duckdb", "write duckdb:///shop.duckdb"),
    ],
)  # fmt: skip
def test_a_url_of_what_is_not_here_is_answered_with_what_to_do(url: str, said: str) -> None:
    async def served() -> None:
        async with Database(parse_database_url(url).text):
            pass

    with pytest.raises((ValueError, MountUnavailable)) as caught:
        asyncio.run(served())
    assert said in str(caught.value)
    assert "pw" not in f"{caught.value!s}{caught.value!r}"


def test_the_commands_tell_no_password_of_a_url_that_cannot_be_served() -> None:
    for url in (
        "mssql://sa:secret@127.0.0.1/x",
        "jdbc:sqlserver://h:1;password=secret",
        "Driver={ODBC};Pwd=secret",
    ):
        found = subprocess.run(
            [sys.executable, "-m", "resource_server", "list", url],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        told = found.stdout + found.stderr
        assert found.returncode in (1, 2)
        assert "mssql+pymssql" in told or "pip install pymssql" in told
        assert "secret" not in told
        assert "Traceback" not in told
