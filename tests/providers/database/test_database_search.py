"""Scope of a database search, and its results as clients see them."""

from __future__ import annotations

import time

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.errors import ResourceNotFound
from resource_server.protocol.in_process_client import LocalClient
from resource_server.protocol.server import Server
from resource_server.provider.search import SearchRequest
from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.testing import check_provider
from tests.listeners import BASE, mounted
from tests.providers.database.conftest import ENGINES, OTHER_DRIVERS, urls_of
from tests.providers.database.owners import Owner
from tests.providers.database.searching import Searched, searched
from tests.providers.database.served import FRESH, timed_database
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio
url = urls_of(*ENGINES, *OTHER_DRIVERS)

TEAS = (
    "create table teas (id integer primary key, name varchar(99), maker varchar(99),"
    " note varchar(99))",
    "insert into teas values (1, 'Assam', 'Ceylon Tea Co', 'strong'),"
    " (2, 'Earl Grey', 'Twinings', 'a TEA with bergamot'), (3, 'Sencha', NULL, 'green tea'),"
    " (4, '100% Darjeeling', 'a_b', 'tea!')",
)
NAME = TableOptions(search=("name",))


# -- below


async def test_a_search_stays_below_the_given_path(owner: Owner) -> None:
    await owner.run(
        "create table items (a integer, b integer, name varchar(9), primary key (a, b))",
        "insert into items values (1, 1, 'tea'), (1, 2, 'tea'), (2, 1, 'tea'), (2, 2, '-')",
        *TEAS,
    )
    tables = {"items": NAME, "teas": NAME}
    async with searched(owner, tables=tables) as it:
        assert await it.found("a", below=("teas",)) == ["teas/1", "teas/2", "teas/3", "teas/4"]
        for limit in (1, 5):
            found = await it.found("tea", below=("items", "1"), limit=limit)
            assert found == ["items/1/1", "items/1/2"]
        assert await it.found("tea", below=("items", "2", "1")) == ["items/2/1"]
        assert await it.found("tea", below=("items", "2", "2")) == []
        assert await it.found("tea", below=("items", "~i1", "01")) == ["items/~i1/01"]
        if owner.prefix == "public/":
            schema = Searched(it.provider, "")
            assert await schema.found("assam", below=("public",)) == ["public/teas/1"]
        for below in (("gone",), ("items", "3"), ("items", "1", "9"), ("items", "x"), ("~r",)):
            with pytest.raises(ResourceNotFound):
                await it.page("tea", below=below)


async def test_a_search_matches_the_text_that_a_read_returns(owner: Owner) -> None:
    await owner.run(*TEAS)
    async with searched(owner) as it:
        assert await it.found("bergamot", below=("teas", "~rows")) == ["teas/~rows"]
        assert await it.found("MAKER", below=("teas", "~schema")) == ["teas/~schema"]
        assert await it.found("mak.r", below=("teas", "~schema"), is_pattern=True) == [
            "teas/~schema"
        ]
        assert await it.found("twin", below=("teas", "2", "~cell", "maker")) == [
            "teas/2/~cell/maker"
        ]
        assert await it.found("coffee", below=("teas", "~rows")) == []


async def test_a_search_runs_no_queries(owner: Owner) -> None:
    await owner.run(*TEAS)
    queries = {"q": Query(sql="select name from teas")}
    async with searched(owner, queries=queries, tables={"teas": NAME}) as it:
        for below in (("~query",), ("~query", "q")):
            found = await it.provider.search(
                SearchRequest(text="assam", where="text"),
                below=below,
                after=None,
                limit=5,
                deadline=time.monotonic() + PATIENCE_S,
            )
            assert (list(found.hits), found.next) == ([], None)
        with pytest.raises(ResourceNotFound):
            await it.provider.search(
                SearchRequest(text="assam", where="text"),
                below=("~query", "z"),
                after=None,
                limit=5,
                deadline=time.monotonic() + PATIENCE_S,
            )


async def test_unlisted_tables_are_found_only_below_their_own_path(owner: Owner) -> None:
    await owner.run(*TEAS)
    tables = {"teas": TableOptions(search=("name",), listed=False)}
    async with searched(owner, tables=tables) as it:
        assert await it.found("assam") == []
        assert await it.found("assam", below=("teas",)) == ["teas/1"]


# -- through the server


async def test_a_database_with_tools_and_search_keeps_the_contract(owner: Owner) -> None:
    await owner.run(*TEAS, "create view short as select name from teas")
    options = TableOptions(
        search=("name", "maker", "note"), columns=ColumnOptions(mask={"note": "hash"})
    )
    queries = {"all": Query(sql="select * from short"), "off": Query(sql="select 1", tool=False)}
    # A count that took too long once and not the next time would be other metadata.
    database = timed_database(FRESH, url=owner.url, tables={"teas": options}, queries=queries)
    await check_provider(database)


async def test_a_client_finds_tables_columns_and_rows_page_by_page(owner: Owner) -> None:
    await owner.run(*TEAS)
    provider = Database(
        url=owner.url, tables={"teas": NAME}, queries={"teas": Query(sql="select 1")}
    )
    async with Catalog([mounted(provider)]) as catalog, LocalClient(Server(catalog)) as client:

        async def found(**arguments: str) -> list[str]:
            uris: list[str] = []
            while True:
                result = await client.request(
                    "tools/call", {"name": "search_resources", "arguments": arguments}
                )
                structured = result["structuredContent"]
                uris += [structured["base"] + file["path"] for file in structured["files"]]
                if "next" not in structured:
                    return uris
                arguments["cursor"] = structured["next"]

        teas = f"{BASE}{owner.prefix}teas"
        assert await found(query="teas") == [teas, f"{BASE}~query/teas"]
        assert await found(query="maker") == [f"{teas}/~schema"]
        assert await found(query="a") == [
            *([f"{BASE}main"] if owner.engine == "duckdb" else []),
            teas,
            f"{BASE}~query/teas",
            f"{teas}/~schema",
            *(f"{teas}/{n}" for n in (1, 2, 3, 4)),
        ]
        assert await found(query="/^.{5}$/", uri=teas) == [f"{teas}/1"]
        assert await found(query="assam", uri=f"{teas}/1") == [f"{teas}/1"]
