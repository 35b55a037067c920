"""Declared queries that try to read what the policy hides.

Each runs in two worlds that look alike to a client and differ in all that is hidden. Its outcome
must be the same in both: whatever differs would tell of hidden data.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Literal, NamedTuple

import duckdb
import msgspec
import pytest

from resource_server.errors import ResourceError
from resource_server.providers.database.engines.duckdb import catalog
from resource_server.providers.database.engines.duckdb.causes import STATEMENT
from resource_server.providers.database.options import (
    ColumnOptions,
    Query,
    ReadLimits,
    TableOptions,
)
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.declared import DeclaredQuery
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.runtime.eager import settle
from resource_server.runtime.timing import Timing
from resource_server.testing.tool_rules import SilentToolRequest
from tests.providers.database.engines.duckdb.attacks import Attack, attacks
from tests.providers.database.served import timed_database

pytestmark = pytest.mark.anyio

SECRET: Final = "SECRET"  # noqa: S105  found wherever it should not be
POLICY: Mapping[str, TableOptions | Literal[False]] = {
    "orders": TableOptions(
        columns=ColumnOptions(hide=("card",), mask={"mail": "hash"}),
        where="status <> 'draft' and card <> 'SECRET'",
    ),
    "audit": False,
    "straße": False,
    "strasse": TableOptions(),
}
POLICY_OF_FILES: Mapping[str, TableOptions | Literal[False]] = {
    f"{name}.parquet" if name in ("straße", "strasse") else name: options
    for name, options in POLICY.items()
}
"""Files whose names differ by case folding only are served with their suffixes."""
SCHEMAS: Mapping[str, TableOptions | Literal[False]] = {
    **POLICY,
    "back.open": TableOptions(where="amount < 100"),
    "back.*": False,
}
TABLES = (
    "create table orders (id integer, customer integer, total integer, status varchar,"
    " card varchar, mail varchar)",
    "create table customers (id integer, name varchar)",
    "insert into customers values (1, 'Ann'), (2, 'Bo')",
    "create table audit (id integer, line varchar)",
    "create table strasse (x integer)",
    "insert into strasse values (1)",
    'create table "straße" (line varchar)',
)
MORE = (
    "create schema back",
    "create table back.ledger (id integer, line varchar)",
    "create table back.open (id integer, amount integer)",
    "insert into back.open values (1, 10)",
    "create view recent as select id, card from orders",
    "create macro twice(x) as x * 2",
    "create macro leak() as table select * from main.orders",
    "create macro leaked() as (select max(total) from main.orders)",
    "create macro relayed() as leaked()",
)
REFUSED: Final = "InvalidParameter: the database refuses this query"
CAUSES: Final = frozenset(cause.told for cause in STATEMENT.values())
SILENT: Final = Timing(query_check_delay_s=1000.0)
"""Without a check of the queries after the start."""
ATTACKS = attacks()
IDEAS: Mapping[str, Sequence[str]] = {
    "database": tuple(dict.fromkeys(attack.idea for attack in ATTACKS)),
    "files": (
        "hidden columns by name",
        "names of columns",
        "tables by other names",
        "common table expressions",
        "files",
        "settings and the environment",
        "functions that read tables by their names",
        "parameters",
    ),
}
"""The ideas of the attacks in each arena."""


class World(NamedTuple):
    """What is hidden in one of the worlds."""

    word: str
    drafts: tuple[int, ...]
    """Totals of hidden orders."""


WORLDS = (World(f"{SECRET}one", (6666,)), World(f"{SECRET}other", (9999, 1234, 1)))


def fill(connection: duckdb.DuckDBPyConnection, world: World) -> None:
    """Create the tables, with what is visible and what is hidden."""
    for sql in TABLES:
        connection.execute(sql)
    word = world.word
    rows: list[tuple[object, ...]] = [
        (1, 1, 5, "sent", f"{word}card1", f"{word}@1"),
        *((60 + n, 1, n, "draft", f"{word}card", f"{word}@2") for n in world.drafts),
        (3, 2, 7, "10%", f"{word}card3", f"{word}@3"),
    ]
    connection.executemany("insert into orders values (?, ?, ?, ?, ?, ?)", rows)
    for total in world.drafts:
        connection.execute("insert into audit values (?, ?)", [total, f"{word} line"])
        connection.execute('insert into "straße" values (?)', [f"{word} street"])


def database_url(folder: Path, world: World) -> str:
    """Return the URL of a new database file."""
    path = folder / "it.duckdb"
    with duckdb.connect(path) as connection:
        fill(connection, world)
        for sql in MORE:
            connection.execute(sql)
        for total in world.drafts:
            connection.execute("insert into back.ledger values (?, ?)", [total, world.word])
            connection.execute("insert into back.open values (2, ?)", [1000 + total])
        connection.execute(f"create sequence numbers start {len(world.drafts)}")
    return f"duckdb:///{path}"


def files_url(folder: Path, world: World) -> str:
    """Return the URL of new data files."""
    with duckdb.connect() as connection:
        fill(connection, world)
        for name in ("orders", "customers", "audit", "strasse", "straße"):
            path = folder / "data" / f"{name}.parquet"
            path.parent.mkdir(exist_ok=True)
            connection.execute(f"copy \"{name}\" to '{path}'")
    return f"files:{folder}/data/*.parquet"


class Outcome(NamedTuple):
    """What an attack gives to a client: an error, or columns and rows."""

    error: str
    columns: object = ()
    rows: object = ()


class Arena:
    """Two worlds, each served with attacks as queries."""

    def __init__(self, kind: str) -> None:
        self.name = "it" if kind == "database" else "memory"
        """Name of the database in SQL."""
        self.ideas = IDEAS[kind]
        self.refused: dict[Attack, str] = {}
        """The reasons of attacks that are no queries, for the manifest's author."""
        self.declared = set[Attack]()
        self._sides: list[tuple[Database, str]] = []

    def queries(self, folder: str) -> Mapping[str, Query]:
        """Return the attacks that are queries, each by its place."""
        found: dict[str, Query] = {}
        for place, attack in enumerate(ATTACKS):
            if attack.idea not in self.ideas:
                continue
            sql = attack.sql.replace("{dir}", folder).replace("{db}", self.name)
            parameters = {} if attack.value is None else {"p": Parameter()}
            query = Query(sql=sql, parameters=parameters, tool=True)
            try:
                DeclaredQuery("q", query, "duckdb", ReadLimits())
            except ValueError as error:
                self.refused[attack] = str(error)
            else:
                self.declared.add(attack)
                found[f"q{place}"] = query
        return found

    def add(self, database: Database, folder: str) -> None:
        """Add the open database of a world."""
        self._sides.append((database, folder))

    async def outcomes(self, attack: Attack) -> list[Outcome]:
        """Return the outcome in each of the worlds."""
        return await asyncio.gather(*(_outcome(attack, *side) for side in self._sides))


async def _outcome(attack: Attack, database: Database, folder: str) -> Outcome:
    value = attack.value and attack.value.replace("{dir}", folder)
    arguments = {} if value is None else {"p": value}
    name = f"q{ATTACKS.index(attack)}"
    try:
        result = await settle(database.call_tool(name, arguments, SilentToolRequest()))
    except ResourceError as error:
        return Outcome(f"{type(error).__name__}: {error}")
    told = msgspec.json.encode(result.structured).decode().replace(folder, "{dir}")
    answer = msgspec.json.decode(told)
    rows = answer["rows"]
    if "order by" not in attack.sql:
        rows.sort(key=str)
    return Outcome("", answer["columns"], rows)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def arena(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Arena]:
    is_database = request.param == "database"
    arena = Arena(request.param)
    async with AsyncExitStack() as stack:
        for world in WORLDS:
            folder = tmp_path_factory.mktemp("world")
            (folder / "secret.csv").write_text(f"word\n{world.word}\n")
            make = database_url if is_database else files_url
            database = timed_database(
                SILENT,
                url=make(folder, world),
                tables=SCHEMAS if is_database else POLICY_OF_FILES,
                queries=arena.queries(str(folder)),
            )
            arena.add(await stack.enter_async_context(database), str(folder))
        yield arena


@pytest.mark.deep
@pytest.mark.guarantee("hidden-changes-nothing")
@pytest.mark.parametrize("arena", [*IDEAS], indirect=True)
async def test_no_attack_tells_anything_of_what_is_hidden(arena: Arena) -> None:
    tried = set[str]()
    for attack in (each for each in ATTACKS if each.idea in arena.ideas):
        if attack in arena.refused:
            assert SECRET not in arena.refused[attack] or SECRET in attack.sql
            continue
        one, other = await arena.outcomes(attack)
        tried.add(attack.idea)
        assert one == other, attack.sql
        assert SECRET not in str(one) or SECRET in attack.sql, attack.sql
        cause = one.error.removeprefix(f"{REFUSED}: ")
        is_plain = cause in CAUSES or one.error in ("", REFUSED) or "p must be text" in one.error
        assert is_plain, (attack.sql, one.error)
    assert tried == {*arena.ideas}


async def test_a_refused_attack_is_told_to_the_author_in_plain_words(tmp_path: Path) -> None:
    arena = Arena("database")
    declared = list(arena.queries(str(tmp_path)).items())
    queries = dict(declared[::15])
    database = timed_database(
        SILENT, url=database_url(tmp_path, WORLDS[0]), tables=SCHEMAS, queries=queries
    )
    async with database:
        warnings = [said for option, said in await database.warnings() if "queries" in option]
    assert len(warnings) > len(queries) / 3
    for said in [*warnings, *arena.refused.values()]:
        assert 5 < len(said) < 1000
        assert "Traceback" not in said


# -- the nearest requests that must work

ANSWERED: Mapping[str, list[list[object]]] = {
    "select id, total, status from orders order by id": [[1, 5, "sent"], [3, 7, "10%"]],
    "select sum(twice(total)) as n from orders": [[24]],
    "select name, count(*) as n from customers c join orders o on o.customer = c.id group by all"
    " order by all": [["Ann", 1], ["Bo", 1]],
}


async def answers(database: Database, name: str) -> object:
    """Return the rows of a query, as JSON."""
    result = await settle(database.call_tool(name, {}, SilentToolRequest()))
    return msgspec.json.decode(msgspec.json.encode(result.structured))["rows"]


async def test_a_plain_query_of_what_is_visible_is_answered(tmp_path: Path) -> None:
    queries = {f"q{n}": Query(sql=sql, tool=True) for n, sql in enumerate(ANSWERED)}
    url = database_url(tmp_path, WORLDS[0])
    async with Database(url=url, tables=SCHEMAS, queries=queries) as database:
        assert [each for each in await database.warnings() if "queries" in each[0]] == []
        assert [await answers(database, name) for name in queries] == [*ANSWERED.values()]


MACROS = (
    "create macro cards() as (select max(card) from main.orders)",
    "create view shown as select cards() as c",
    "create macro range(a) as table select * from main.audit",
    "create macro back.range(a) as table select * from main.audit",
    "create macro back.json_each(a) as table select * from main.audit",
    "create macro counted() as (select max(line) from it.main.range(1))",
)
REFUSED_QUERIES: Mapping[str, str] = {
    "a view of a macro over hidden columns": "select * from shown",
    "a query like one of the server": catalog.DATABASE,
    "a macro of the file by its whole name": "select * from it.main.range(1)",
    "a macro of another schema": "select * from back.range(1)",
    "a macro of another schema by its whole name": "select * from it.back.json_each('1')",
    "a macro of a macro": "select counted()",
}


async def test_macros_of_the_file_and_queries_like_the_servers_are_refused(tmp_path: Path) -> None:
    url = database_url(tmp_path, WORLDS[0])
    with duckdb.connect(tmp_path / "it.duckdb") as connection:
        for sql in MACROS:
            connection.execute(sql)
    queries = {f"q{n}": Query(sql=sql, tool=True) for n, sql in enumerate(REFUSED_QUERIES.values())}
    queries["own"] = Query(sql="from range(2)", tool=True)
    async with Database(url=url, tables=SCHEMAS, queries=queries) as database:
        outcomes = {
            idea: await _outcome_of(database, name)
            for name, idea in zip(queries, REFUSED_QUERIES, strict=False)
        }
        assert await answers(database, "own") == [[0], [1]]
    told = REFUSED.partition(": ")[2]
    assert {idea: each for idea, each in outcomes.items() if told not in each} == {}


async def _outcome_of(database: Database, name: str) -> str:
    try:
        return f"answered: {await answers(database, name)}"
    except ResourceError as error:
        return str(error)
