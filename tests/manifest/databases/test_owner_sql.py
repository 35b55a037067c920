"""The SQL that `sql` prints, run as it is by psql and mariadb on real servers."""
# ruff: noqa: S608

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from resource_server.manifest.databases.owner_sql import (
    CHANNEL,
    ExposedSchema,
    OwnedTable,
    notify_sql,
    role_sql,
)
from resource_server.manifest.databases.policy_sql import policy_sql
from resource_server.providers.database.engines.reflection import Column, Table, TableName
from resource_server.providers.database.options import ColumnOptions, ReadLimits, TableOptions
from resource_server.providers.database.policy import Policy
from tests.cases import for_each
from tests.providers.database.servers import unique_name
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
HOSTILE = ("plain", 'quo"te', "back`tick", "semi; drop table plain; --", "line\n\\! echo", "wild_%")


@dataclass
class Server:
    """A database of its own on a server, and the client that runs scripts in it."""

    name: str
    run: Callable[..., str]
    """Run a script as a user, by default the one who owns everything; return what it prints."""


def client(*command: str) -> Callable[..., str]:
    def run(script: str, *options: str) -> str:
        done = subprocess.run(
            [*command, *options],
            input=script,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode:
            raise PermissionError(done.stderr)
        return done.stdout

    return run


def connected(*command: str) -> Callable[..., str]:
    run = client(*command)
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    try:
        run("select 1;")
    except PermissionError:
        pytest.skip(f"{command[0]} reaches no server at 127.0.0.1")
    return run


@pytest.fixture
def postgresql() -> Iterator[Server]:
    base = ("psql", "-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1")
    admin = connected(*base, "-U", "postgres", "-d", "postgres")
    name = unique_name()
    admin(f'create database "{name}"')
    try:
        yield Server(name, client(*base, "-d", name, "-U", "postgres"))
    finally:
        admin(f'drop database "{name}" with (force)')
        admin(f'drop role if exists "{name}_reader"')


@pytest.fixture
def mariadb() -> Iterator[Server]:
    base = ("mariadb", "--no-defaults", "-N", "-B", "-h", "127.0.0.1")
    admin = connected(*base, "-uroot")
    name = unique_name()
    admin(f"create database `{name}`")
    try:
        yield Server(name, client(*base, "-D", name, "-uroot"))
    finally:
        admin(f"drop user if exists `{name}_reader`@`%`; drop database `{name}`")


def exposed(server: Server, engine: str, *tables: TableName) -> ExposedSchema:
    return ExposedSchema(server.name, engine, server.name, tables, ReadLimits())


def hiding(found: ExposedSchema, name: TableName, *hidden: str) -> ExposedSchema:
    """Return a schema with one table, which has the column `id` beside hidden ones."""
    columns = tuple(Column(each, "int", "integer") for each in ("id", *hidden))
    options = TableOptions(columns=ColumnOptions(hide=hidden))
    policy = Policy({"*": options}, "postgresql")
    table = Table(name, "table", columns)
    return found._replace(shown=[OwnedTable(table, policy.view(table))])


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def test_a_role_of_postgresql_reads_only_the_exposed_tables(postgresql: Server) -> None:
    run, reader = postgresql.run, ("-U", f"{postgresql.name}_reader")
    run(f"create schema {quoted('my schema')};")
    for name in (*HOSTILE, "hidden"):
        at = f"{quoted('my schema')}.{quoted(name)}"
        run(f"create table {at} (id int primary key, secret text); insert into {at} values (1);")
    tables = [TableName("my schema", name) for name in HOSTILE]
    script = role_sql(exposed(postgresql, "postgresql", *tables))
    assert run(script) == ""
    assert run(script) == "", "a second time"
    for name in HOSTILE:
        assert run(f"select id from {quoted('my schema')}.{quoted(name)};", *reader) == "1\n"
    refused = (
        'select * from "my schema".hidden;',
        'insert into "my schema".plain values (2);',
        'set default_transaction_read_only = off; update "my schema".plain set id = 3;',
        "create table mine (a int);",
        "create schema mine;",
        "create role other;",
    )
    for statement in refused:
        with pytest.raises(PermissionError, match=r"permission denied|read-only"):
            run(statement, *reader)
    assert (
        run("show default_transaction_read_only; show statement_timeout;", *reader) == "on\n15s\n"
    )
    # What is no longer exposed is taken back.
    run(role_sql(exposed(postgresql, "postgresql", tables[0])))
    with pytest.raises(PermissionError, match="permission denied"):
        run(f"select id from {quoted('my schema')}.{quoted(HOSTILE[1])};", *reader)
    assert run('select id from "my schema".plain;', *reader) == "1\n"


def test_a_login_of_mariadb_reads_only_the_exposed_tables(mariadb: Server) -> None:
    run, login = mariadb.run, f"`{mariadb.name}_reader`@`%`"
    reader = ("-u", f"{mariadb.name}_reader", "-ppass")
    for name in (*HOSTILE, "hidden"):
        at = backquoted(name)
        run(f"create table {at} (id int primary key); insert into {at} values (1);")
    tables = [TableName(None, name) for name in HOSTILE]
    script = role_sql(exposed(mariadb, "mariadb", *tables))
    assert run(script) == ""
    with pytest.raises(PermissionError, match="locked"):
        run("select 1;", "-u", f"{mariadb.name}_reader")
    run(f"alter user {login} identified by 'pass' account unlock;")
    assert run(script) == "", "a second time"
    for name in HOSTILE:
        assert run(f"select id from {backquoted(name)};", *reader) == "1\n"
    refused = (
        "select * from hidden;",
        "insert into plain values (2);",
        "create table mine (a int);",
        "create temporary table mine (a int);",
        "select 1 into outfile '/tmp/never';",
        "set global max_connections = 5;",
    )
    for statement in refused:
        with pytest.raises(PermissionError, match="denied"):
            run(statement, *reader)
    assert run("select load_file('/etc/hostname') is null;", *reader) == "1\n"
    assert run("select @@max_statement_time;", *reader).startswith("15")
    run(role_sql(exposed(mariadb, "mariadb", tables[0])))
    with pytest.raises(PermissionError, match="denied"):
        run(f"select id from {backquoted(HOSTILE[1])};", *reader)
    assert run("select id from plain;", *reader) == "1\n"


def test_only_visible_columns_are_granted(postgresql: Server, mariadb: Server) -> None:
    for server, engine, schema in (
        (postgresql, "postgresql", "public"),
        (mariadb, "mariadb", None),
    ):
        table = TableName(schema, "t")
        server.run("create table t (id int primary key, secret int); insert into t values (1, 2);")
        shown = hiding(exposed(server, engine, table), table, "secret")
        server.run(role_sql(shown))
        narrower = [
            line[3:] for line in role_sql(shown).splitlines() if "SELECT" in line and "--" in line
        ]
        assert len(narrower) == 2
        server.run("\n".join(narrower))
        if engine == "mariadb":
            login = f"`{server.name}_reader`@`%`"
            server.run(f"alter user {login} identified by 'pass' account unlock;")
        reader = ("-U",) if engine == "postgresql" else ("-ppass", "-u")
        assert server.run("select id from t;", *reader, f"{server.name}_reader") == "1\n"
        with pytest.raises(PermissionError, match="denied"):
            server.run("select secret from t;", *reader, f"{server.name}_reader")


def test_views_of_a_policy_are_made_whatever_the_names_are(
    postgresql: Server, mariadb: Server
) -> None:
    for server, engine, schema in (
        (postgresql, "postgresql", "public"),
        (mariadb, "mariadb", None),
    ):
        write = quoted if engine == "postgresql" else backquoted
        columns = [Column(name, "varchar(20)", "text") for name in HOSTILE]
        listed = ", ".join(f"{write(name)} varchar(20)" for name in HOSTILE)
        values = ", ".join(["'0123456789'"] * len(HOSTILE))
        masks = dict(zip(HOSTILE, ("hash", "last4", "redact") * 2, strict=True))
        policy = Policy({"*": TableOptions(columns=ColumnOptions(mask=masks))}, "postgresql")  # pyright: ignore[reportArgumentType]
        shown: list[OwnedTable] = []
        for name in HOSTILE:
            server.run(f"create table {write(name)} ({listed});")
            server.run(f"insert into {write(name)} values ({values});")
            table = Table(TableName(schema, name), "table", tuple(columns))
            shown.append(OwnedTable(table, policy.view(table)))
        found = exposed(server, engine)._replace(shown=shown, digest="d")
        assert server.run(policy_sql(found)) == ""
        assert server.run(policy_sql(found)) == "", "a second time"
        policies = f"{server.name}_sql"
        for name in HOSTILE:
            seen = server.run(f"select * from {write(policies)}.{write(name)};")
            assert "0123456789" not in seen
            assert seen.count("…6789") == seen.count("***") == 2
        if engine == "postgresql":
            server.run(f"drop owned by {write(policies)}; drop role {write(policies)};")
        else:
            server.run(f"drop user {write(policies)}; drop database {write(policies)};")


def test_the_views_of_a_policy_take_the_place_of_nothing_else(postgresql: Server) -> None:
    other = quoted(f"{postgresql.name}_sql")
    postgresql.run(f"create schema {other}; create view {other}.kept as select 1 as a;")
    with pytest.raises(PermissionError, match="holds something else"):
        postgresql.run(policy_sql(exposed(postgresql, "postgresql")))
    assert postgresql.run(f"select a from {other}.kept;") == "1\n"


def test_triggers_notify_of_every_commit_without_its_content(postgresql: Server) -> None:
    run = postgresql.run
    for name in HOSTILE:
        run(f"create table {quoted(name)} (id int primary key);")
    run("create view seen as select * from plain;")
    tables = [TableName("public", name) for name in (*HOSTILE, "seen")]
    view = TableName("public", "seen")
    script = notify_sql(
        exposed(postgresql, "postgresql", *tables)._replace(views=frozenset((view,)))
    )
    assert run(script) == ""
    assert run(script) == "", "a second time"
    heard = 'Asynchronous notification "resource_server" received from server process'
    for name in HOSTILE:
        table = quoted(name)
        for change in (f"insert into {table} values (1)", f"truncate {table}"):
            assert heard in run(f"listen {CHANNEL}; {change}; select 1;"), (name, change)
    assert heard not in run(f"listen {CHANNEL}; begin; insert into plain values (5); rollback;")
    (undo,) = [line.partition(": ")[2] for line in script.splitlines() if "To undo" in line]
    run(undo)
    assert heard not in run(f"listen {CHANNEL}; insert into plain values (6); select 1;")


def printed(*arguments: str | Path) -> str:
    """Run a command line in a process of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "resource_server", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_printed_login_can_serve_everything_exposed(postgresql: Server, tmp_path: Path) -> None:
    run, name = postgresql.run, postgresql.name
    run(
        "create table orders (id int primary key, status text, card text);"
        "insert into orders values (1, 'sent', '4111'), (2, 'draft', '5500');"
        "create view seen as select id from orders; create table audit_log (id int primary key);"
        "create schema other; create table other.t (id int primary key);"
    )
    manifest = (
        f"databases:\n  {name}:\n    url: postgresql://USER@127.0.0.1/{name}\n"
        "    schemas: [public]\n    require_readonly_role: READ_ONLY\n    tables:\n"
        "      audit_*: false\n      orders: {columns: {hide: [card]}, where: status <> 'draft'}\n"
    )
    file = tmp_path / "m.yaml"
    file.write_text(manifest.replace("USER", "postgres").replace("READ_ONLY", "false"))
    script = printed("sql", "--role", file)
    assert script.count("GRANT SELECT ON TABLE") == 2
    assert 'GRANT SELECT ("id", "status") ON "public"."orders"' in script
    run(script)
    assert run(printed("sql", "--notify", file)) == ""
    assert "resource_server" in run("listen resource_server; delete from orders where id = 2;")
    file.write_text(manifest.replace("USER", f"{name}_reader").replace("READ_ONLY", "true"))
    found = printed("list", file, "--all", "--json")
    tables = {uri for uri in ("orders", "seen", "audit_log", "t") if f'/{uri}"' in found}
    assert tables == {"orders", "seen"}
    row = printed("read", file, f"postgresql://{name}/public/orders/1")
    assert json.loads(row) == {"id": 1, "status": "sent"}


def test_the_login_printed_for_mariadb_can_serve_everything_exposed(
    mariadb: Server, tmp_path: Path
) -> None:
    run, name = mariadb.run, mariadb.name
    run(
        "create table orders (id int primary key, status varchar(9), card varchar(20));"
        "insert into orders values (1, 'sent', '4111'), (2, 'draft', '5500');"
        "create view seen as select id from orders; create table audit_log (id int primary key);"
    )
    manifest = (
        f"databases:\n  {name}:\n    url: mariadb://USER@127.0.0.1/{name}\n"
        "    require_readonly_role: READ_ONLY\n    tables:\n      audit_*: false\n"
        "      orders: {columns: {hide: [card]}, where: status <> 'draft'}\n"
    )
    file = tmp_path / "m.yaml"
    file.write_text(manifest.replace("USER", "root").replace("READ_ONLY", "false"))
    script = printed("sql", "--role", file)
    run(script)
    run(f"alter user `{name}_reader`@`%` identified by 'pass' account unlock;")
    narrower = [
        line[3:] for line in script.splitlines() if line.startswith("-- ") and "SELECT" in line
    ]
    for more in ("", "\n".join(narrower)):  # with all columns, then with those that are shown
        run(more)
        file.write_text(
            manifest.replace("USER", f"{name}_reader:pass").replace("READ_ONLY", "true")
        )
        found = printed("list", file, "--all", "--json")
        tables = {uri for uri in ("orders", "seen", "audit_log") if f'/{uri}"' in found}
        assert tables == {"orders", "seen"}
        assert printed("read", file, f"mariadb://{name}/orders/~rows?format=csv").split() == [
            "id,status",
            "1,sent",
        ]


def test_a_manifest_of_a_server_has_its_schemas_but_not_its_password(postgresql: Server) -> None:
    postgresql.run("create table orders (id int primary key, email text);")
    postgresql.run("comment on table orders is 'One per order';")
    url = f"postgresql+asyncpg://postgres:topsecret@127.0.0.1/{postgresql.name}"
    text = printed("init", url, "-o", "-")
    assert "topsecret" not in text
    (found,) = yaml.safe_load(text)["databases"].values()
    assert (found["url"], found["schemas"]) == ("${DATABASE_URL}", ["public"])
    assert found["tables"] == {"public.orders": {"description": "One per order"}}
    assert "public.orders:  # 0 rows, key id\n" in text
    without = f"postgresql://postgres@127.0.0.1/{postgresql.name}"
    (found,) = yaml.safe_load(printed("init", without, "-o", "-"))["databases"].values()
    assert found["url"] == without


@for_each("write", [role_sql, notify_sql])
@for_each("engine", ["sqlite", "mysql", "mariadb", "postgresql"])
def test_names_never_end_a_comment(write: Callable[[ExposedSchema], str], engine: str) -> None:
    name = "a\nhostile\r\u2028hostile"
    table = TableName(name if engine == "postgresql" else None, name)
    found = ExposedSchema("m", engine, "d", [TableName("s", "t")], ReadLimits(), frozenset([table]))
    text = write(hiding(found, table, name))
    assert not any(line.startswith("hostile") for line in text.splitlines())


def test_sql_that_is_not_needed_is_a_comment() -> None:
    sqlite = ExposedSchema("shop", "sqlite", "shop.db", [], ReadLimits())
    assert "Nothing to do." in role_sql(sqlite)
    assert "Nothing to do." in notify_sql(sqlite)
    assert "Nothing to do." in notify_sql(sqlite._replace(engine="mariadb"))
    assert "Nothing to do." in notify_sql(sqlite._replace(engine="postgresql"))
    every = role_sql(sqlite) + notify_sql(sqlite)
    assert all(line.startswith("-- ") for line in every.splitlines())


def test_the_role_of_mysql_has_no_option_that_only_mariadb_knows() -> None:
    found = ExposedSchema("shop", "mysql", "d", [TableName(None, "t")], ReadLimits())
    assert "MAX_STATEMENT_TIME" not in role_sql(found)
    assert "GRANT SELECT ON `d`.`t` TO `shop_reader`@`%`;" in role_sql(found)
