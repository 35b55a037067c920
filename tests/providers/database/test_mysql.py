"""MariaDB or MySQL: what is read, and that nothing is written, whatever an author says."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.providers.database.engine import Engine, Statement
from resource_server.providers.database.mysql import Mysql
from resource_server.providers.database.table import ForeignKey, Index, TableName
from tests.providers.database.servers import (
    Commits,
    assert_secrets_kept,
    attempt,
    eventually,
    proxy_to,
    server_url,
    skip_without,
    unique_name,
    with_parts,
)

asyncmy: Any = pytest.importorskip("asyncmy")
pytestmark = pytest.mark.anyio

ADMIN = server_url("RESOURCE_SERVER_TEST_MYSQL", "mysql://root@127.0.0.1:3306/mysql")

SCHEMA = r"""
CREATE TABLE customers (
  id int AUTO_INCREMENT PRIMARY KEY COMMENT 'Which one',
  name varchar(100) NOT NULL,
  feeling enum('sad', 'it''s ok'),
  letters set('x', 'y'),
  size int DEFAULT 7,
  balance decimal(10, 2),
  doubled int GENERATED ALWAYS AS (size * 2) STORED,
  facts json,
  happy boolean,
  flags bit(5),
  made datetime(3),
  day date,
  took time(2),
  picture blob,
  ratio double,
  `odd ``"name` text) ENGINE=InnoDB COMMENT 'Who buys';
CREATE TABLE orders (
  region varchar(20) NOT NULL, number int NOT NULL, customer int,
  PRIMARY KEY (region, number), KEY by_number (number),
  CONSTRAINT bought FOREIGN KEY (customer) REFERENCES customers (id)) ENGINE=InnoDB;
CREATE TABLE codes (a int NOT NULL, b int NOT NULL, c int UNIQUE, long_one varchar(200) NOT NULL,
  UNIQUE (long_one(5)), UNIQUE (a, b)) ENGINE=InnoDB;
CREATE TABLE keyless (x int) ENGINE=InnoDB;
CREATE TABLE old (id int PRIMARY KEY) ENGINE=MyISAM;
CREATE VIEW names AS SELECT id, name FROM customers;
CREATE TABLE victims (id int PRIMARY KEY, name varchar(100)) ENGINE=InnoDB;
INSERT INTO customers (name, feeling, letters, balance, facts, happy, flags, made, took, picture,
  ratio) VALUES ('Ann', 'sad', 'x,y', 1.10, '{"a": 1}', true, b'101', '2026-11-20 10:00:00.5',
  '-838:59:59', x'00ff', 0.1), ('Bob', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE FUNCTION writes() RETURNS int MODIFIES SQL DATA
  BEGIN INSERT INTO victims VALUES (1000, 'x')| RETURN 1| END;
CREATE FUNCTION writes_old() RETURNS int MODIFIES SQL DATA
  BEGIN INSERT INTO old VALUES (1000)| RETURN 1| END;
CREATE FUNCTION sets_mode() RETURNS int
  BEGIN SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'| RETURN 1| END;
CREATE FUNCTION sets_limit() RETURNS int
  BEGIN SET SESSION group_concat_max_len = 5| RETURN 1| END;
CREATE FUNCTION sets_variable() RETURNS int BEGIN SET @evil = 5| RETURN 1| END
"""

HOSTILE = (
    "INSERT INTO victims VALUES (1000, 'x')",
    "INSERT INTO victims VALUES (1000, 'x') RETURNING id",
    "REPLACE INTO victims VALUES (1, 'x')",
    "UPDATE victims SET name = ''",
    "DELETE FROM victims",
    "DELETE FROM victims RETURNING id",
    "TRUNCATE victims",
    "DROP TABLE victims",
    "CREATE TABLE evil (x int)",
    "CREATE TEMPORARY TABLE evil (x int)",
    "CREATE TABLE evil AS SELECT 1",
    "ALTER TABLE victims ADD COLUMN evil int",
    "RENAME TABLE victims TO evil",
    "WITH w AS (SELECT 1) DELETE FROM victims",
    "SELECT writes()",
    "SELECT writes_old()",
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "COMMIT; DELETE FROM victims",
    "SELECT 1; DELETE FROM victims",
    "SELECT 1) q; DELETE FROM victims; SELECT * FROM (SELECT 1",
    "SELECT 1) q UNION SELECT * FROM (SELECT 2",
    "SELECT 1 INTO OUTFILE '/tmp/resource_server_evil'",
    "SELECT 1 INTO DUMPFILE '/tmp/resource_server_evil'",
    "SELECT 1 INTO @evil",
    "SELECT 1) q UNION SELECT 2 INTO OUTFILE '/tmp/resource_server_evil' FROM (SELECT 3",
    "SELECT 1) q INTO OUTFILE '/tmp/resource_server_evil' #",
    "SELECT 1 /*",
    "SELECT 1 /*!, 2) q; DELETE FROM victims */",
    "SELECT 1 #\n) q; DELETE FROM victims #",
    "SELECT 1 -- \n) q; DELETE FROM victims -- ",
    "SET SESSION TRANSACTION READ WRITE",
    "SET @@tx_read_only = 0",
    "SET @@transaction_read_only = 0",
    "SET SESSION max_statement_time = 0",
    "SET GLOBAL max_connections = 1",
    "SET @evil = 1",
    "SET autocommit = 0",
    "START TRANSACTION READ WRITE",
    "LOCK TABLES victims WRITE",
    "FLUSH TABLES WITH READ LOCK",
    "ANALYZE TABLE victims",
    "OPTIMIZE TABLE victims",
    "CHECK TABLE victims",
    "HANDLER victims OPEN",
    "LOAD DATA INFILE '/etc/passwd' INTO TABLE victims",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE victims",
    "PREPARE evil FROM 'DELETE FROM victims'",
    "EXECUTE evil",
    "EXECUTE IMMEDIATE 'DELETE FROM victims'",
    "CALL nothing()",
    "DO SLEEP(0)",
    "KILL 1",
    "SHUTDOWN",
    "GRANT ALL ON *.* TO evil",
    "CREATE USER evil",
    "USE mysql",
    "SHOW TABLES",
    "DESCRIBE victims",
    "EXPLAIN SELECT 1",
    "INSTALL PLUGIN evil SONAME 'evil.so'",
    "",
    ";",
    ")",
    "%s",
    "SELECT %s",
    "SELECT %(x)s",
    "SELECT 100%",
)

PASSING = (
    # These run, since they are SELECTs; what they did must be gone afterwards.
    "SELECT GET_LOCK('evil', 0)",
    "SELECT @evil := 5",
    "SELECT sets_mode()",
    "SELECT sets_limit()",
    "SELECT sets_variable()",
    "SELECT LAST_INSERT_ID(77)",
    "SELECT id FROM victims FOR UPDATE",
    "SELECT id FROM victims LOCK IN SHARE MODE",
    "SELECT SQL_CALC_FOUND_ROWS id FROM victims",
    # NULL: the login lacks the privilege FILE.
    "SELECT LOAD_FILE('/etc/passwd')",
)

ENDLESS = (
    "SELECT SLEEP(60)",
    "SELECT BENCHMARK(1000000000000, MD5('x'))",
    "SELECT COUNT(*) FROM victims a, victims b, victims c, victims d, victims e, victims f,"
    " victims g, victims h WHERE a.name < b.name",
    "SELECT SUM(SLEEP(id)) AS s FROM victims",
)

LEGITIMATE = (
    ("SELECT id, name FROM victims ORDER BY id", 10),
    ("SELECT id FROM victims -- all of them", 10),
    ("SELECT id FROM victims # all of them", 10),
    ("/* some */ SELECT id FROM victims WHERE id < 4", 3),
    ("WITH w AS (SELECT 1 AS x) SELECT * FROM w", 1),
    ("SELECT 'COMMIT; DELETE FROM victims' AS x", 1),
    ("(SELECT 1 AS a) UNION ALL (SELECT 2)", 2),
    ("SELECT id, COUNT(*) OVER () AS n FROM victims LIMIT 2", 2),
    ("SELECT SLEEP(0.01) AS s", 1),
    ("SELECT name FROM victims WHERE name LIKE 'name 1%%'", 10),
    ("SELECT '?' AS mark", 1),
)

STATE = """
SELECT @@session.sql_mode AS m, @@group_concat_max_len AS g, @evil AS v, IS_USED_LOCK('evil') AS l,
  LAST_INSERT_ID() AS i, DATABASE() AS d, @@autocommit AS a,
  @@character_set_client AS c, @@collation_connection AS o, SLEEP(0.02) AS s
"""


class Database:
    """The module's own database, with a login that may write all of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.user = name
        self.url = with_parts(ADMIN, database=name, login=f"{name}:hunter2secret")

    async def run(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements as the administrator and return the rows of the last."""
        connection = await connect(self.name if database is None else database)
        try:
            async with connection.cursor() as cursor:
                for sql in statements:
                    await cursor.execute(sql)
                return list(await cursor.fetchall())
        finally:
            await connection.ensure_closed()

    async def checksum(self) -> object:
        """Return what differs when anything was written."""
        tables = await self.run("SHOW FULL TABLES")
        sums = await self.run("CHECKSUM TABLE victims, customers, orders, codes, keyless, old")
        created = await self.run("SHOW CREATE TABLE victims")
        users = await self.run("SELECT COUNT(*) FROM mysql.user WHERE user = 'evil'")
        return tables, sums, created, users


async def connect(database: str) -> Any:
    parts = urlsplit(ADMIN)
    return await asyncmy.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        db=database,
        autocommit=True,
        connect_timeout=5,
    )


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    async def reach() -> None:
        await (await connect("mysql")).ensure_closed()

    skip_without("MariaDB or MySQL", reach)
    made = Database(unique_name())

    async def make() -> None:
        await made.run(
            f"CREATE DATABASE {made.name} CHARACTER SET utf8mb4",
            f"CREATE USER {made.user} IDENTIFIED BY 'hunter2secret'",
            f"GRANT ALL ON {made.name}.* TO {made.user}",
            database="mysql",
        )
        await made.run(*(part.replace("|", ";") for part in SCHEMA.split(";\n")))
        rows = ", ".join(f"({number}, 'name {number}')" for number in range(1, 51))
        await made.run(f"INSERT INTO victims VALUES {rows}")

    async def drop() -> None:
        await made.run(
            f"DROP DATABASE IF EXISTS {made.name}",
            f"DROP USER IF EXISTS {made.user}",
            database="mysql",
        )

    try:
        asyncio.run(make())
        yield made
    finally:
        asyncio.run(drop())


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[Mysql]:
    made = Mysql(database.url, interval=0.1)
    await made.open()
    yield made
    await made.close()


async def rows(engine: Engine, sql: str, *parameters: object, limit: int = 100) -> Any:
    return await engine.fetch(Statement(sql, parameters), limit=limit, within=10)


# The catalogue.


async def test_tables_are_those_a_user_would_count(engine: Mysql) -> None:
    assert engine.name in {"mariadb", "mysql"}
    assert not engine.has_schemas
    found = {info.name.name: info for info in await engine.tables()}
    assert list(found) == ["codes", "customers", "keyless", "names", "old", "orders", "victims"]
    assert found["customers"].comment == "Who buys"
    assert found["names"].type == "view"
    assert found["names"].comment is None


async def test_a_table_is_reflected_with_all_that_readers_need(engine: Mysql) -> None:
    table = await engine.table(TableName(None, "customers"))
    columns = {column.name: column for column in table.columns}
    assert table.key == ("id",)
    assert table.key_kind == "primary"
    assert table.comment == "Who buys"
    assert [(column.name, column.kind) for column in table.columns] == [
        ("id", "integer"),
        ("name", "text"),
        ("feeling", "text"),
        ("letters", "text"),
        ("size", "integer"),
        ("balance", "numeric"),
        ("doubled", "integer"),
        ("facts", "json"),
        ("happy", "boolean"),
        ("flags", "other"),
        ("made", "datetime"),
        ("day", "date"),
        ("took", "time"),
        ("picture", "blob"),
        ("ratio", "real"),
        ('odd `"name', "text"),
    ]
    assert columns["feeling"].values == ("sad", "it's ok")
    assert columns["letters"].values == ("x", "y")
    assert columns["id"].comment == "Which one"
    assert columns["id"].default == "auto_increment"
    assert columns["doubled"].generated
    assert columns["size"].default == "7"
    assert not columns["name"].nullable
    assert columns["size"].nullable


async def test_keys_are_primary_or_unique_and_never_null(engine: Mysql) -> None:
    async def key(name: str) -> tuple[tuple[str, ...], str]:
        table = await engine.table(TableName(None, name))
        return table.key, table.key_kind

    assert await key("orders") == (("region", "number"), "primary")
    assert await key("codes") == (("a", "b"), "unique")
    assert await key("keyless") == ((), "none")
    assert await key("names") == ((), "none")


async def test_foreign_keys_and_indexes_are_named(engine: Mysql) -> None:
    table = await engine.table(TableName(None, "orders"))
    referred = ForeignKey(("customer",), TableName(None, "customers"), ("id",))
    assert table.foreign_keys == (referred,)
    assert Index("by_number", ("number",)) in table.indexes


async def test_views_tell_their_definition_and_tables_have_none(engine: Mysql) -> None:
    assert "customers" in ((await engine.table(TableName(None, "names"))).ddl or "")
    assert (await engine.table(TableName(None, "customers"))).ddl is None


@pytest.mark.parametrize("name", ["absent", "Victims", "victims ", "user", "a' OR '1'='1", "\x00"])
async def test_what_is_no_table_of_this_database_is_not_found(engine: Mysql, name: str) -> None:
    with pytest.raises(ResourceNotFound):
        await engine.table(TableName(None, name))
    with pytest.raises(ResourceNotFound):
        await engine.table(TableName("mysql", "user"))


async def test_the_estimate_is_that_of_the_statistics(engine: Mysql, database: Database) -> None:
    assert await engine.estimate(TableName(None, "names")) is None
    await database.run("ANALYZE TABLE victims")
    assert await engine.estimate(TableName(None, "victims")) == 50


SCHEMA_CHANGES = (
    "CREATE TABLE made (id int)",
    "ALTER TABLE keyless ADD COLUMN made int",
    "ALTER TABLE keyless CHANGE made renamed int",
    "ALTER TABLE keyless ALTER COLUMN renamed SET DEFAULT 5",
    "ALTER TABLE keyless MODIFY x int COMMENT 'told'",
    "ALTER TABLE keyless ADD UNIQUE (x)",
    "CREATE OR REPLACE VIEW names AS SELECT id, name FROM customers WHERE id > 0",
    "DROP TABLE made",
)


async def test_the_schema_state_differs_after_every_change_of_the_schema(
    engine: Mysql, database: Database
) -> None:
    for change in SCHEMA_CHANGES:
        before = await engine.schema_state()
        await database.run("UPDATE victims SET name = CONCAT(name, '') WHERE id = 1")
        assert await engine.schema_state() == before
        await database.run(change)
        assert await engine.schema_state() != before, change


async def test_privileges_name_what_goes_beyond_reading(engine: Mysql, database: Database) -> None:
    names = [privilege.name for privilege in await engine.privileges()]
    assert names == [f"ALL PRIVILEGES on {database.name}.*"]
    administrator = Mysql(with_parts(ADMIN, database=database.name))
    await administrator.open()
    try:
        found = [privilege.name for privilege in await administrator.privileges()]
        assert "ALL PRIVILEGES" in found or {"FILE", "SUPER"}.issubset(found)
    finally:
        await administrator.close()


async def test_a_login_that_may_only_read_has_no_privileges_to_name(database: Database) -> None:
    user = unique_name()
    await database.run(
        f"CREATE USER {user} IDENTIFIED BY 'x'", f"GRANT SELECT ON {database.name}.* TO {user}"
    )
    engine = Mysql(with_parts(database.url, login=f"{user}:x"))
    try:
        await engine.open()
        assert await engine.privileges() == []
        assert len((await rows(engine, "SELECT id FROM victims")).rows) == 50
    finally:
        await engine.close()
        await database.run(f"DROP USER {user}")


# Reading.


async def test_rows_are_cut_at_the_limit_and_say_so(engine: Mysql) -> None:
    found = await rows(engine, "SELECT id, name FROM victims ORDER BY id", limit=2)
    assert found == (("id", "name"), [(1, "name 1"), (2, "name 2")], True)
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = %s", 7)
    assert found == (("id", "name"), [(7, "name 7")], False)
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = %s", -1)
    assert found == (("id", "name"), [], False)


async def test_values_come_as_the_server_writes_them(engine: Mysql, database: Database) -> None:
    found = await rows(
        engine,
        "SELECT feeling, letters, balance, facts, happy, flags, made, took, picture, ratio"
        " FROM customers ORDER BY id",
    )
    assert found.rows == [
        (
            "sad",
            "x,y",
            Decimal("1.10"),
            '{"a": 1}',
            1,
            b"\x05",
            datetime.datetime(2026, 11, 20, 10, 0, 0, 500000),  # noqa: DTZ001
            datetime.timedelta(days=-35, seconds=3601),
            b"\x00\xff",
            0.1,
        ),
        (None,) * 10,
    ]
    await database.run(
        "SET SESSION sql_mode = ''", "UPDATE customers SET day = '0000-00-00' WHERE id = 2"
    )
    assert (await rows(engine, "SELECT day FROM customers WHERE id = 2")).rows == [("0000-00-00",)]


@pytest.mark.parametrize(
    "text",
    ["'", '"', "\\", "\\' OR 1=1 -- ", "%s", "%", "\x00", "☃𝄞", "name 1'; DROP TABLE victims"],
)
async def test_a_bound_value_is_nothing_but_itself(engine: Mysql, text: str) -> None:
    assert (await rows(engine, "SELECT %s", text)).rows == [(text,)]
    found = await engine.query(Statement("SELECT %s AS x", (text,)), limit=2, within=5)
    assert found.rows == [(text,)]


async def test_a_bound_value_is_itself_where_backslashes_are_not_special(
    engine: Mysql, database: Database
) -> None:
    text = "\\' OR 1=1 -- "
    before = (await database.run("SELECT @@GLOBAL.sql_mode"))[0][0]
    await database.run("SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'")
    try:
        other = Mysql(database.url)
        await other.open()
        assert (await rows(other, "SELECT %s", text)).rows == [(text,)]
        assert (await rows(other, "SELECT id FROM victims WHERE name = %s", text)).rows == []
        await other.close()
    finally:
        await database.run(f"SET GLOBAL sql_mode = '{before}'")


async def test_our_own_statements_cannot_write_either(engine: Mysql, database: Database) -> None:
    before = await database.checksum()
    for sql in (
        "SELECT writes()",
        "SELECT writes_old()",
        "DELETE FROM victims",
        "SELECT 1; SELECT 2",
    ):
        with pytest.raises(InvalidParameter):
            await rows(engine, sql)
    assert await database.checksum() == before


async def test_a_table_that_is_gone_has_changed(engine: Mysql, database: Database) -> None:
    await database.run("CREATE TABLE gone (x int)", "INSERT INTO gone VALUES (1)")
    assert (await rows(engine, "SELECT * FROM gone")).columns == ("x",)
    await database.run("ALTER TABLE gone ADD y int")
    assert await rows(engine, "SELECT * FROM gone") == (("x", "y"), [(1, None)], False)
    await database.run("DROP TABLE gone")
    with pytest.raises(ResourceBusy):
        await rows(engine, "SELECT * FROM gone")


# What authors may say.


async def test_hostile_queries_write_nothing_and_leave_nothing_behind(
    engine: Mysql, database: Database
) -> None:
    async def states() -> set[tuple[object, ...]]:
        # As many as there are connections, each takes one.
        asked = (engine.query(Statement(STATE), limit=1, within=10) for _ in range(2))
        return {row for found in await asyncio.gather(*asked) for row in found.rows}

    before = await database.checksum()
    state = await states()
    assert len(state) == 1
    for sql in HOSTILE:
        with contextlib.suppress(ValueError):
            assert await attempt(engine, sql) == "refused", sql
    for sql in PASSING:
        assert await attempt(engine, sql) in {"answered", "refused"}, sql
        assert await states() == state, sql
    assert await states() == state
    assert await database.checksum() == before
    found = await engine.query(Statement("SELECT LOAD_FILE('/etc/passwd') AS x"), limit=1, within=5)
    assert found.rows == [(None,)]


async def test_a_login_that_may_write_files_writes_none(database: Database) -> None:
    engine = Mysql(with_parts(ADMIN, database=database.name))
    await engine.open()
    try:
        for sql in HOSTILE:
            if " INTO OUTFILE " in sql or " INTO DUMPFILE " in sql:
                assert await attempt(engine, sql) == "refused", sql
        path = "/tmp/resource_server_evil"  # noqa: S108  # of the server, which has none
        found = await engine.query(
            Statement("SELECT LOAD_FILE(%s) AS x", (path,)), limit=1, within=5
        )
        assert found.rows == [(None,)]
    finally:
        await engine.close()


async def test_hostile_queries_are_not_run_by_a_check(engine: Mysql, database: Database) -> None:
    before = await database.checksum()
    for sql in (*HOSTILE, *PASSING, *ENDLESS):
        with contextlib.suppress(ValueError, DeadlineExceeded):
            await engine.check(sql, [])
    assert await database.checksum() == before


async def test_endless_queries_are_stopped_on_the_server_too(
    engine: Mysql, database: Database
) -> None:
    for sql in ENDLESS:
        assert await attempt(engine, sql) == "stopped", sql

    async def idle() -> bool:
        running = await database.run(
            "SELECT id FROM information_schema.processlist WHERE command <> 'Sleep' AND user ="
            f" '{database.user}'"
        )
        return not running

    await eventually(idle)
    assert (await rows(engine, "SELECT COUNT(*) FROM victims")).rows == [(50,)]


@pytest.mark.parametrize(("sql", "count"), LEGITIMATE)
async def test_the_nearest_legitimate_query_is_answered(
    engine: Mysql, sql: str, count: int
) -> None:
    found = await engine.query(Statement(sql), limit=10, within=10)
    assert len(found.rows) == count
    assert await engine.check(sql, []) == found.columns


async def test_a_query_takes_parameters_and_says_what_it_lacks(engine: Mysql) -> None:
    sql = "SELECT name FROM victims WHERE id = %s OR name = %s ORDER BY 1"
    found = await engine.query(Statement(sql, (3, "name 5")), limit=1, within=5)
    assert found == (("name",), [("name 3",)], True)
    assert await engine.check(sql, ["id", "name"]) == ("name",)
    with pytest.raises(ValueError, match="other parameters"):
        await engine.check(sql, ["id"])
    with pytest.raises(ValueError, match="nmae"):
        await engine.check("SELECT nmae FROM victims", [])


# Limits.


async def test_stuck_queries_do_not_delay_rows(engine: Mysql) -> None:
    sleep = Statement("SELECT SLEEP(60) AS s")
    stuck = [
        *(asyncio.create_task(engine.query(sleep, limit=1, within=60)) for _ in range(6)),
        *(
            asyncio.create_task(engine.fetch(sleep, limit=1, within=60, lane="slow"))
            for _ in range(6)
        ),
    ]
    await asyncio.sleep(0)
    assert (await rows(engine, "SELECT COUNT(*) FROM victims")).rows == [(50,)]
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)


async def test_what_a_cancelled_caller_asked_is_stopped(engine: Mysql, database: Database) -> None:
    # The server would stop it by itself much later.
    endless = Statement("SELECT BENCHMARK(1000000000000, MD5('cancelled'))")
    task = asyncio.create_task(engine.fetch(endless, limit=1, within=600))
    running = (
        "SELECT id FROM information_schema.processlist WHERE info LIKE '%MD5(''cancelled%'"
        " AND id <> CONNECTION_ID()"
    )

    async def runs() -> bool:
        return bool(await database.run(running))

    async def stopped() -> bool:
        return not await runs()

    await eventually(runs)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(stopped)


async def test_closing_stops_what_runs(database: Database) -> None:
    engine = Mysql(database.url)
    await engine.open()
    task = asyncio.create_task(
        engine.query(Statement("SELECT SLEEP(60) AS closing"), limit=1, within=60)
    )
    connected = f"SELECT id FROM information_schema.processlist WHERE user = '{database.user}'"

    async def runs() -> bool:
        return bool(await database.run(connected + " AND info LIKE '%closing%'"))

    async def gone() -> bool:
        return not await database.run(connected)

    await eventually(runs)
    await engine.close()
    with pytest.raises(DeadlineExceeded):
        await task
    await eventually(gone)


# Failures.

UNUSABLE: list[tuple[Callable[[str], str], str]] = [
    (lambda url: url.replace("hunter2secret", "hunter2wrong"), "refuses the login"),
    (lambda url: with_parts(url, login="nobody_zq:hunter2secret"), "refuses the login"),
    (lambda url: with_parts(url, database="absent_zq"), "refuses the login|no such database"),
    (lambda url: with_parts(url, database=""), "names no database"),
    (lambda url: with_parts(url, port=1), "cannot be reached"),
    (lambda url: url.replace("127.0.0.1", "absent-zq.invalid"), "cannot be reached"),
    (lambda url: url + "?hunter2option=1", "options of the URL"),
    (lambda _: "hunter2secret", "cannot be read"),
    (lambda url: with_parts(url, port=99999), "cannot be"),
]


@pytest.mark.parametrize(("change", "says"), UNUSABLE)
async def test_a_database_that_cannot_be_opened_is_unavailable_and_keeps_its_secrets(
    database: Database,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[str], str],
    says: str,
) -> None:
    caplog.set_level(0)
    engine = Mysql(change(database.url))
    with pytest.raises(MountUnavailable, match=says) as raised:
        await engine.open()
    await engine.close()
    secret = ("hunter2", "nobody_zq", "absent_zq", "absent-zq", "127.0.0.1", database.user)
    assert_secrets_kept(raised.value, caplog, *secret)


async def test_a_missing_driver_names_what_brings_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asyncmy", None)
    with pytest.raises(MountUnavailable, match=r"pip install 'resource-server\[mysql\]'"):
        await Mysql(database.url).open()


async def test_a_server_that_goes_and_comes_back_is_used_again(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    parts = urlsplit(ADMIN)
    async with proxy_to(parts.hostname or "127.0.0.1", parts.port or 3306) as proxy:
        engine = Mysql(with_parts(database.url, port=proxy.port))
        await engine.open()
        try:
            await asyncio.gather(*(rows(engine, "SELECT SLEEP(0.1)") for _ in range(4)))
            running = asyncio.create_task(rows(engine, "SELECT SLEEP(60)"))
            await asyncio.sleep(0.3)
            await proxy.cut()
            with pytest.raises(ResourceBusy) as lost:
                await running
            with pytest.raises(MountUnavailable) as unreachable:
                await rows(engine, "SELECT 1")
            await proxy.restore()
            assert (await rows(engine, "SELECT 1")).rows == [(1,)]
        finally:
            await engine.close()
    for error in (lost.value, unreachable.value):
        assert_secrets_kept(error, caplog, "hunter2", database.user, database.name, "127.0.0.1")


async def test_connections_that_died_while_idle_are_replaced(
    engine: Mysql, database: Database
) -> None:
    await asyncio.gather(*(rows(engine, "SELECT SLEEP(0.1)") for _ in range(4)))
    ids = await database.run(
        f"SELECT id FROM information_schema.processlist WHERE user = '{database.user}'"
    )
    await database.run(*(f"KILL {number}" for (number,) in ids))
    for _ in range(6):
        assert (await rows(engine, "SELECT 1")).rows == [(1,)]


# Changes.


async def test_every_commit_is_noticed(engine: Mysql, database: Database) -> None:
    commits = Commits(engine)
    try:
        await commits.beyond(0)
        for sql in (
            "UPDATE victims SET name = 'changed' WHERE id = 50",
            "INSERT INTO old VALUES (5)",
            "TRUNCATE old",
            "CREATE TABLE noticed (x int)",
            "DROP TABLE noticed",
        ):
            seen = commits.seen
            await database.run(sql)
            await commits.beyond(seen)
        connection = await connect(database.name)
        async with connection.cursor() as cursor:
            await cursor.execute("BEGIN")
            await cursor.execute("UPDATE victims SET name = 'later' WHERE id = 49")
            await commits.quiet(0.5)
            seen = commits.seen
            await cursor.execute("COMMIT")
        await connection.ensure_closed()
        await commits.beyond(seen)
    finally:
        await commits.stop()


async def test_what_was_committed_while_the_server_was_away_is_told_of(
    database: Database,
) -> None:
    parts = urlsplit(ADMIN)
    async with proxy_to(parts.hostname or "127.0.0.1", parts.port or 3306) as proxy:
        engine = Mysql(with_parts(database.url, port=proxy.port), interval=0.05)
        await engine.open()
        commits = Commits(engine)
        try:
            await commits.beyond(0)
            await proxy.cut()
            await database.run("UPDATE victims SET name = 'away' WHERE id = 47")
            # As long as it takes to try in vain.
            await asyncio.sleep(0.3)
            seen = commits.seen
            await proxy.restore()
            await commits.beyond(seen)
            seen = commits.seen
            await database.run("UPDATE victims SET name = 'again' WHERE id = 47")
            await commits.beyond(seen)
        finally:
            await commits.stop()
            await engine.close()
