from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from resource_server.errors import DeadlineExceeded, ResourceBusy, ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.database.options import ReadLimits, TableOptions
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.declared import DeclaredQueries
from resource_server.providers.database.reading.documents import Documents
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from resource_server.providers.database.reading.tree import DatabaseTree
from resource_server.runtime.option_types import Duration
from tests.providers.database.owners import Owner, numbered
from tests.providers.database.served import FRESH
from tests.providers.database.served import served as served_as_usual

pytestmark = pytest.mark.anyio
served = partial(served_as_usual, timing=FRESH)


async def test_tables_and_views_are_listed_by_name(owner: Owner) -> None:
    await owner.run(
        "create table pears (id integer primary key)",
        "create table apples (id integer primary key)",
        "create view fruits as select id from apples",
    )
    async with served(owner) as it:
        assert await it.children() == ["apples", "fruits", "pears"]
        entries = {entry.resource.name: entry for entry in await it.entries("")}
        assert {entry.resource.type for entry in entries.values()} == {"collection"}
        for name, entry in entries.items():
            assert (await it.entry(name)).uri == entry.uri


async def test_the_global_listing_has_tables_and_their_documents_and_no_rows(owner: Owner) -> None:
    await numbered(owner, 3)
    async with served(owner) as it:
        uris = [entry.uri for entry in await it.entries()]
    assert uris[-3:] == [it.base + path for path in ("t", "t/~rows", "t/~schema")]
    assert not any(uri.endswith("/1") for uri in uris)


async def test_a_table_has_its_key_and_row_count_in_its_details(owner: Owner) -> None:
    await numbered(owner, 12)
    async with served(owner) as it:
        details = (await it.entry("t")).resource.details
        assert details is not None
        assert details["table"] == {
            "type": "table",
            "key": ["id"],
            "keyKind": "primary",
            "rowCount": 12,
            "rowCountKind": "exact",
        }
        await owner.run("delete from t where id > 5")
        details = (await it.entry("t")).resource.details
        assert details is not None
        assert details["table"]["rowCount"] == 5


LOCKS = {
    "sqlite": (("begin exclusive",), "rollback"),
    "postgresql": (("begin", "lock table t in access exclusive mode"), "rollback"),
    "mariadb": (("lock tables t write",), "unlock tables"),
}
"""How an owner locks the table `t`, and unlocks it."""


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_a_locked_table_is_described_without_its_rows(owner: Owner, url: str) -> None:
    await numbered(owner, 3)
    lock, unlock = LOCKS[owner.engine]
    timing = replace(FRESH, row_count_s=1.0)
    limits = ReadLimits(timeout=Duration(1.0))
    async with served_as_usual(owner, timing=timing, limits=limits) as it:
        await owner.run(*lock)
        details = (await it.entry("t")).resource.details
        await owner.run(unlock)
    assert details is not None
    assert details["table"].get("rowCountKind") != "exact"


@pytest.mark.parametrize("url", ["sqlite", "postgresql", "mariadb"], indirect=True)
async def test_observers_hear_of_versions_and_absence_but_not_of_failed_reads(owner: Owner) -> None:
    await numbered(owner, 3)
    table = (*owner.prefix.split("/")[:-1], "t")
    seen: list[tuple[Path, str | None]] = []
    async with Database(url=owner.url) as database:
        engine = database.engine
        limits = ReadLimits(timeout=Duration(0.5))
        exposed = ExposedTableCache(engine, Policy({}, engine.name), limits)
        queries = DeclaredQueries({}, engine.name, limits)
        documents = Documents(engine, exposed, queries, limits, lambda path, query=None: "")
        tree = DatabaseTree(engine, exposed, queries, limits, documents, watched=True)
        tree.observers.add(lambda path, version: seen.append((path, version)))
        version = (await tree.resource((*table, "1"))).version
        with pytest.raises(ResourceNotFound):
            await tree.resource((*table, "4"))
        expected = [((*table, "1"), version), ((*table, "4"), None)]
        assert version is not None
        assert seen == expected
        lock, unlock = LOCKS[owner.engine]
        await owner.run(*lock)
        with pytest.raises((DeadlineExceeded, ResourceBusy)):
            await tree.resource((*table, "1"))
        await owner.run(unlock)
        assert seen == expected


async def test_an_empty_table_has_its_documents_and_an_empty_page(owner: Owner) -> None:
    await numbered(owner, 0)
    async with served(owner) as it:
        assert await it.children("t") == ["t/~rows", "t/~schema"]
        assert await it.json("t/~rows") == {"rows": [], "next": None, "more": False}


@pytest.mark.parametrize("page_size", [1, 2, 3, 100])
async def test_children_are_listed_page_by_page(owner: Owner, page_size: int) -> None:
    await numbered(owner, 5)
    async with served(owner, page_size=page_size) as it:
        children = await it.children("t")
    assert children == ["t/~rows", "t/~schema", "t/1", "t/2", "t/3", "t/4", "t/5"]


async def test_a_title_and_a_description_come_from_the_manifest(owner: Owner) -> None:
    await numbered(owner, 1)
    options = TableOptions(title="Things", description="All of them", listed=False)
    async with served(owner, tables={"t": options}) as it:
        resource = (await it.entry("t")).resource
        assert (resource.title, resource.description) == ("Things", "All of them")
        assert it.base + "t" not in [entry.uri for entry in await it.entries()]
        assert "Things" in await it.text("t/~schema")
