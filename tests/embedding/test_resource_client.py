"""The client in a program's own process: what it reads, for whom, and in which loops."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

import resource_server
from resource_server import Caller, ErrorReply, ManifestError, ResourceClient
from tests.waiting import PATIENCE_S, block_until

pytestmark = pytest.mark.anyio

MANIFEST = """
roots:
  docs: {path: docs}
  staff: {path: docs, access: {scopes: [staff]}}
databases:
  shop:
    url: sqlite:///shop.db
    queries:
      cheap:
        sql: select id, name from item where cents < :most order by id
        parameters: {most: {type: integer}}
"""
LARGE = 2**60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("one\ntwo\nthree\n", "utf-8")
    (tmp_path / "docs" / "b.bin").write_bytes(b"\x00\xff")
    (tmp_path / "mcp-resources.yaml").write_text(MANIFEST, "utf-8")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, cents INTEGER)")
        database.execute("CREATE TABLE empty (id INTEGER PRIMARY KEY, name TEXT)")
        rows = [(number, f"item {number}", number * 10) for number in range(1, 2501)]
        database.executemany("INSERT INTO item VALUES (?, ?, ?)", [*rows, (LARGE, "large", 1)])
    return tmp_path


@pytest.fixture
async def client(folder: Path) -> AsyncGenerator[ResourceClient]:
    async with resource_server.connect(folder) as client:
        yield client


async def test_a_listing_goes_to_its_end_unless_a_limit_is_given(client: ResourceClient) -> None:
    everything = [each.uri for each in await client.list()]
    assert {"file:///docs", "file:///docs/a.txt", "sqlite://shop/item"} <= {*everything}
    rows = await client.list("sqlite://shop/item")
    assert len(rows) == 2503  # the rows, and two views of the table
    assert [each.uri for each in await client.list("sqlite://shop/item", limit=3)] == [
        each.uri for each in rows[:3]
    ]


async def test_a_document_is_text_or_bytes(client: ResourceClient) -> None:
    found = await client.read("file:///docs/a.txt", {"lines": "2-2"})
    assert found.text == "two\n"
    assert found.truncated["next"].startswith("file:///docs/a.txt?lines=3")
    binary = await client.read("file:///docs/b.bin")
    assert (binary.data, binary.truncated) == (b"\x00\xff", {})
    with pytest.raises(ValueError, match=r"file:///docs/b\.bin is binary"):
        _ = binary.text


async def test_a_table_is_read_page_after_page_with_whole_integers(client: ResourceClient) -> None:
    table = await client.read_table("sqlite://shop/item")
    assert (len(table), table.columns, table.is_complete) == (2501, ["id", "name", "cents"], True)
    assert table.column("id") == [*range(1, 2501), LARGE]
    assert table[0] == {"id": 1, "name": "item 1", "cents": 10}


async def test_less_than_a_whole_table_says_so(client: ResourceClient) -> None:
    for table in (
        await client.read_table("sqlite://shop/item", limit=1500),
        await client.read_table("sqlite://shop/item/~rows?limit=1500"),
        await client.read_table("sqlite://shop/item/~rows", {"limit": "1500"}),
    ):
        assert (len(table), table.is_complete) == (1500, False)
    every = await client.read_table("sqlite://shop/item/~rows?where.id.le=2", limit=2)
    assert (len(every), every.is_complete) == (2, True)


async def test_a_table_without_rows_has_its_columns(client: ResourceClient) -> None:
    table = await client.read_table("sqlite://shop/empty")
    assert ([*table], table.columns) == ([], ["id", "name"])


async def test_queries_and_summaries_are_tables(client: ResourceClient) -> None:
    query = await client.read_table("sqlite://shop/~query/cheap", {"most": "21"})
    assert [row["name"] for row in query] == ["item 1", "item 2", "large"]
    summary = await client.read_table("sqlite://shop/item/~summary?by=name&limit=2")
    assert summary[0].keys() == {"name", "count"}


async def test_a_table_is_an_arrow_table_or_a_frame(client: ResourceClient) -> None:
    table = await client.read_table("sqlite://shop/item", limit=2)
    arrow = table.arrow()
    assert [str(field.type) for field in arrow.schema] == ["int64", "string", "int64"]
    assert arrow.to_pylist() == [*table]
    assert table.pandas()["cents"].sum() == 30


async def test_what_has_no_rows_is_no_table(client: ResourceClient) -> None:
    for uri in ("file:///docs/a.txt", "sqlite://shop/item/~schema"):
        with pytest.raises((ValueError, ErrorReply)):
            await client.read_table(uri)


async def test_an_error_names_what_is_near(client: ResourceClient) -> None:
    with pytest.raises(ErrorReply, match=r"file:///docs/A\.txt; did you mean file:///docs/a\.txt"):
        await client.read("file:///docs/A.txt")


async def test_a_search_has_uris_and_lines_and_says_whether_it_is_whole(
    client: ResourceClient,
) -> None:
    found = await client.search("two", "file:///docs")
    assert [(each.uri, each.lines) for each in found.found] == [
        ("file:///docs/a.txt", [(2, "two")])
    ]
    part = await client.search("item", "sqlite://shop/item", limit=2)
    assert (len(part.found) <= 2, part.is_complete) == (True, False)
    with pytest.raises(ValueError, match="expression"):
        await client.search("/(/")


async def test_tools_are_called_as_a_model_calls_them(client: ResourceClient) -> None:
    assert "query_table" in {each.name for each in await client.tools()}
    arguments = {"uri": "sqlite://shop/item", "limit": 1}
    assert (await client.call_tool("query_table", arguments)).text.startswith("id,name,cents")
    assert (await client.call_tool("read_resource", {"uri": "file:///no"})).is_error
    with pytest.raises(ErrorReply):
        await client.call_tool("nothing")


async def test_changes_are_told_while_the_subscription_lasts(
    folder: Path, client: ResourceClient
) -> None:
    uri = "file:///docs/a.txt"
    async with client.subscribe(uri) as changes:
        (folder / "docs" / "a.txt").write_text("more\n", "utf-8")
        change = await asyncio.wait_for(anext(changes), PATIENCE_S)
        assert (change.uri, (await client.read(uri)).text) == (uri, "more\n")
    with pytest.raises(ErrorReply):
        async with client.subscribe("file:///docs/nothing.txt"):
            pass


async def test_a_client_reads_for_its_caller(folder: Path) -> None:
    async with resource_server.connect(folder, caller=Caller("ada", frozenset())) as client:
        assert "file:///staff" not in {each.uri for each in await client.list()}
        with pytest.raises(ErrorReply):
            await client.read("file:///staff/a.txt")
        async with client.subscribe("file:///docs/a.txt"):
            pass
        with pytest.raises(ErrorReply):
            async with client.subscribe("file:///staff/a.txt"):
                pass


async def test_a_connection_is_used_again_but_not_twice_at_once(folder: Path) -> None:
    connection = resource_server.connect(folder)
    for _ in range(2):
        async with connection as client:
            assert await client.list("file:///docs")
            with pytest.raises(RuntimeError, match="already connected"):
                async with connection:
                    pass
            assert (await client.read("file:///docs/a.txt")).text.startswith("one")


async def test_a_notebook_awaits_a_client_and_closes_it(folder: Path) -> None:
    before = asyncio.all_tasks()
    client = await resource_server.connect(folder)
    assert await client.list("file:///docs")
    await client.close()
    assert asyncio.all_tasks() <= before


async def test_a_read_that_is_given_up_is_cancelled_and_the_next_one_works(
    client: ResourceClient,
) -> None:
    with anyio.move_on_after(0):
        await client.read_table("sqlite://shop/item")
    reading = asyncio.create_task(client.read_table("sqlite://shop/item"))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert (await client.read("file:///docs/a.txt")).text.startswith("one")


def test_threads_have_clients_in_loops_of_their_own(folder: Path) -> None:
    found: list[str] = []

    async def read() -> None:
        async with resource_server.connect(folder) as client:
            found.append((await client.read("file:///docs/a.txt", {"lines": "1-1"})).text)

    before = set(threading.enumerate())
    threads = [threading.Thread(target=anyio.run, args=(read,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == ["one\n"] * 3
    # Threads of workers end a little after their loop.
    block_until(lambda: set(threading.enumerate()) <= before)


def test_a_wrong_source_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="no such file or folder"):
        resource_server.connect(tmp_path / "nothing")
