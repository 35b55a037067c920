"""The database provider on SQLite files, as the server and its clients use it."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from resource_server import plugins, uris
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.providers.database.options import ColumnOptions, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.subscriptions.broker import Broker
from resource_server.testing import check_provider
from tests.listeners import Recorder

pytestmark = pytest.mark.anyio

SHOP = Path(__file__).parents[3] / "examples" / "shop"
BASE = "sqlite://it/"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with the example's manifest and its own database."""
    spec = importlib.util.spec_from_file_location("make_shop", SHOP / "make.py")
    assert spec is not None
    assert spec.loader is not None
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    (tmp_path / "mcp-resources.yaml").write_bytes((SHOP / "mcp-resources.yaml").read_bytes())
    make.make(tmp_path / "shop.db")
    return tmp_path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "it.db"


def run(file: Path, *statements: str) -> None:
    """Change a database as another process would."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@asynccontextmanager
async def served(file: Path, **tables: TableOptions) -> AsyncGenerator[Catalog]:
    provider = Database(url=f"sqlite:///{file}", tables=tables)
    async with Catalog([Mount("it", BASE, provider)]) as catalog:
        await catalog.start()
        yield catalog


async def text(catalog: Catalog, path: str) -> str:
    reading = await catalog.read(BASE + path)
    content = reading.items[0].content
    assert content is not None
    assert isinstance(content.data, str)
    return content.data


async def children(catalog: Catalog, path: str = "") -> list[str]:
    """Return the direct children of a collection, page by page."""
    found: list[str] = []
    after = None
    while True:
        page = await catalog.list(BASE + path, after)
        found += [entry.uri.removeprefix(BASE) for entry in page.entries]
        after = page.next_cursor
        if after is None:
            return found


async def test_the_example_keeps_the_contract(shop: Path) -> None:
    manifest = plugins.find_with_plugins(str(shop))
    provider = plugins.load_provider(manifest.mounts[0], manifest)

    def change() -> tuple[str, ...]:
        now = "strftime('%Y-%m-%dT%H:%M:%fZ')"
        run(shop / "shop.db", f"update orders set status = 'paid', updated_at = {now} where id = 5")
        return ("orders", "5")

    await check_provider(provider, make_change=change)


async def test_the_pages_of_a_table_contain_all_rows_in_order(file: Path) -> None:
    run(file, "create table t (a text, b integer, c, primary key (a, b)) without rowid")
    rows = [(f"k{number % 7}", number, number / 3) for number in range(500)]
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executemany("insert into t values (?, ?, ?)", rows)
    async with served(file) as catalog:
        uri: str | None = f"{BASE}t/~rows?limit=37&format=columns"
        found: list[list[object]] = []
        while uri is not None:
            page = json.loads(await text(catalog, uri.removeprefix(BASE)))
            found += page["rows"]
            uri = page["next"]
    assert found == [list(row) for row in sorted(rows)]


async def test_rows_are_found_at_their_listed_address(file: Path) -> None:
    run(
        file,
        "create table t (k any primary key) strict",
        "insert into t values (5), ('5'), (5.5), (x'35'), (''), ('..'), ('a/b'), ('~x')",
    )
    async with served(file) as catalog:
        paths = [path for path in await children(catalog, "t") if "~rows" not in path]
        rows = [path for path in paths if not path.endswith("~schema")]
        assert len(rows) == 8
        for path in rows:
            assert (await catalog.metadata(BASE + path)).uri == BASE + path


async def test_a_composite_key_is_browsed_column_by_column(file: Path) -> None:
    run(
        file,
        "create table t (a integer, b text, primary key (a, b))",
        "insert into t values (1, 'x'), (1, 'y'), (2, 'x')",
    )
    async with served(file) as catalog:
        assert await children(catalog, "t") == ["t/~rows", "t/~schema", "t/1", "t/2"]
        assert await children(catalog, "t/1") == ["t/1/x", "t/1/y"]
        assert json.loads(await text(catalog, "t/2/x")) == {"a": 2, "b": "x"}


@pytest.fixture
def people(file: Path) -> dict[str, TableOptions]:
    run(
        file,
        "create table people (id integer primary key, name text, salary integer, mail text)",
        "insert into people values (1, 'Ada', 9, 'ada@example.org'), (2, 'Bo', 7, 'bo@x.org')",
    )
    return {
        "people": TableOptions(
            columns=ColumnOptions(hide=("salary",), mask={"mail": "redact"}), where="name <> 'Bo'"
        )
    }


@pytest.mark.parametrize("path", ["people/~rows", "people/1", "people/~rows?format=csv"])
async def test_hidden_and_masked_content_is_protected_on_every_path(
    file: Path, people: dict[str, TableOptions], path: str
) -> None:
    async with served(file, **people) as catalog:
        shown = await text(catalog, path)
    assert "Ada" in shown
    assert "***" in shown
    for secret in ("ada@", "salary", "Bo", "bo@"):
        assert secret not in shown


@pytest.mark.parametrize(
    "path", ["people/2", "people/1/~cell/salary", "people/x", "sqlite_master", "people/1/2"]
)
async def test_hidden_content_is_not_found(
    file: Path, people: dict[str, TableOptions], path: str
) -> None:
    async with served(file, **people) as catalog:
        with pytest.raises(ResourceNotFound):
            await catalog.read(BASE + path)


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=x", "after=x", "format=xml", "x=1", "columns=salary", "columns="),
        *("columns=name%0A", "columns=%22name", "columns=name,,name"),
    ],
)
async def test_unusable_row_parameters_are_refused(
    file: Path, people: dict[str, TableOptions], query: str
) -> None:
    async with served(file, **people) as catalog:
        with pytest.raises(InvalidParameter):
            await catalog.read(f"{BASE}people/~rows?{query}")


@pytest.mark.parametrize("columns", ["name", "%22name%22", "name,%22name%22"])
async def test_columns_are_a_line_of_csv(
    file: Path, people: dict[str, TableOptions], columns: str
) -> None:
    async with served(file, **people) as catalog:
        shown = await text(catalog, f"people/~rows?columns={columns}&format=csv")
    assert shown.splitlines()[0] == "name"


async def test_a_cell_is_read_in_full(file: Path) -> None:
    run(file, "create table t (id integer primary key, x)", "insert into t values (1, 'a')")
    long = "é" * 100_000
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("update t set x = ?", (long,))
    async with served(file) as catalog:
        assert json.loads(await text(catalog, "t/1"))["x"]["truncated"] is True
        assert await text(catalog, "t/1/~cell/x") == long


@pytest.mark.parametrize("journal", ["wal", "delete"])
async def test_commits_notify_only_the_affected_resources(file: Path, journal: str) -> None:
    run(
        file,
        f"pragma journal_mode = {journal}",
        "create table t (id integer primary key, x)",
        "insert into t values (1, 'a'), (2, 'a')",
    )
    async with served(file) as catalog:
        live, recorder = Broker(catalog), Recorder()
        for path in ("t/1", "t/2", "t", "t/~rows", "t/~schema"):
            await live.subscribe(BASE + path, recorder)
        await recorder.quiet(0.3)
        recorder.take()
        run(file, "update t set x = 'b' where id = 1")
        await recorder.until(lambda: len(recorder.told) >= 3)
        assert sorted(await recorder.quiet(0.3)) == ["t", "t/1", "t/~rows"]
        recorder.take()
        run(file, "delete from t where id = 2")
        await recorder.until(lambda: len(recorder.told) >= 3)
        assert sorted(await recorder.quiet(0.3)) == ["t", "t/2", "t/~rows"]
        recorder.take()
        run(file, "alter table t add column y")
        await recorder.until(lambda: f"{uris.display('t/~schema')}" in recorder.told)
        await live.close()


async def test_without_subscribers_nothing_is_notified(file: Path) -> None:
    run(file, "create table t (id integer primary key)")
    async with served(file) as catalog:
        live, recorder = Broker(catalog), Recorder()
        topic = await live.subscribe(f"{BASE}t/~schema", recorder)
        live.unsubscribe(topic.uri, recorder)
        run(file, "insert into t values (1)")
        assert await recorder.quiet(0.2) == []
        await live.close()
