"""Search for tables, queries and columns by name, on every engine."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.provider.search import MatchedLine
from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from tests.providers.database.conftest import ENGINES, OTHER_DRIVERS, urls_of
from tests.providers.database.owners import Owner
from tests.providers.database.searching import Searched, searched

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("other-drivers-answer-the-same")]
url = urls_of(*ENGINES, *OTHER_DRIVERS)

SHOP = (
    "create table orders (id integer primary key, customer integer, mail varchar(9))",
    "create table order_lines (id integer primary key, order_id integer, total integer)",
    "create table reorders (id integer primary key)",
    "create view old_orders as select id as num, mail as address from orders",
    "create table audit (id integer primary key, mail varchar(9), secret integer)",
)
QUERIES = {"best_orders": Query(sql="select 1"), "mailing": Query(sql="select 2")}


async def test_tables_views_and_queries_are_found_best_first(owner: Owner) -> None:
    await owner.run(*SHOP)
    async with searched(owner, queries=QUERIES) as it:
        for text in ("orders", "ORDERS", "oRDers"):
            assert await it.found(text, "names") == [
                "orders",
                "old_orders",
                "~query/best_orders",
                "reorders",
            ]
        assert await it.found("order", "names") == [
            "orders",
            "order_lines",
            "old_orders",
            "~query/best_orders",
            "reorders",
            "order_lines/~schema",
        ]
        assert await it.found("no such", "names") == []


async def test_globs_match_whole_names(owner: Owner) -> None:
    await owner.run(*SHOP)
    async with searched(owner, queries=QUERIES) as it:
        assert sorted(await it.found("*ORDERS", "names")) == [
            "old_orders",
            "orders",
            "reorders",
            "~query/best_orders",
        ]
        assert await it.found("order?", "names") == ["orders"]
        assert await it.found("cust*", "names") == ["orders/~schema"]
        assert await it.found("%rders", "names") == []


async def test_a_column_is_found_in_its_table_schema_with_a_matching_line(
    owner: Owner,
) -> None:
    await owner.run(*SHOP)
    async with searched(owner) as it:
        hits = await it.hits("mail", "names")
        assert [it.short(hit) for hit in hits] == ["audit/~schema", "orders/~schema"]
        [line] = hits[1].lines
        assert line.number == 3
        assert line.text.lower().startswith("mail ")
        [both] = await it.hits("order_lines/*", "names", below=("order_lines",))
        assert [line.number for line in both.lines] == [1, 2, 3]
        described = await it.provider.metadata(hits[0].resource.path)
        assert hits[0].resource == replace(described, version=None)


async def test_names_are_found_only_below_the_given_path(owner: Owner) -> None:
    await owner.run(*SHOP)
    async with searched(owner, queries=QUERIES) as it:
        assert await it.found("mail", "names", below=("orders",)) == ["orders/~schema"]
        assert await it.found("orders", "names", below=("orders",)) == []
        assert await it.found("total", "names", below=("order_lines", "~schema")) == [
            "order_lines/~schema"
        ]
        assert await it.found("total", "names", below=("orders", "~schema")) == []
        for below in (("gone",), ("gone", "~schema"), ("orders", "1"), ("orders", "~x")):
            with pytest.raises(ResourceNotFound):
                await it.page("orders", "names", below=below)


async def test_names_are_found_below_schemas_and_queries(owner: Owner) -> None:
    await owner.run(*SHOP)
    async with searched(owner, queries=QUERIES) as it:
        it = Searched(it.provider, "")
        assert await it.found("mail", "names", below=("~query",)) == ["~query/mailing"]
        assert await it.found("mail", "names", below=("~query", "mailing")) == ["~query/mailing"]
        assert await it.found("mail", "names", below=("~query", "best_orders")) == []
        with pytest.raises(ResourceNotFound):
            await it.page("mail", "names", below=("~query", "gone"))
        if owner.prefix == "public/":
            assert await it.found("public", "names") == ["public"]
            assert await it.found("reord", "names", below=("public",)) == ["public/reorders"]
            found = await it.found("public/reord", "names")
            assert found == ["public/reorders", "public/reorders/~schema"]
            with pytest.raises(ResourceNotFound):
                await it.page("mail", "names", below=("gone",))


async def test_hidden_names_are_not_found(owner: Owner) -> None:
    await owner.run(*SHOP)
    async with searched(owner) as it:
        assert await it.found("audit", "names") == ["audit"]
        assert await it.found("customer", "names") == ["orders/~schema"]
        assert await it.found("secret", "names") == ["audit/~schema"]
    tables = {"audit": False, "orders": TableOptions(columns=ColumnOptions(hide=("customer",)))}
    async with searched(owner, tables=tables) as it:
        assert await it.found("audit", "names") == []
        assert await it.found("customer", "names") == []
        assert await it.found("secret", "names") == []
        assert "audit" not in " ".join(await it.found("*", "names"))
        with pytest.raises(ResourceNotFound):
            await it.page("secret", "names", below=("audit",))


async def test_unlisted_tables_are_found_only_below_their_own_path(owner: Owner) -> None:
    await owner.run(*SHOP)
    async with searched(owner, tables={"audit": TableOptions(listed=False)}) as it:
        assert await it.found("audit", "names") == []
        assert await it.found("secret", "names") == []
        assert await it.found("secret", "names", below=("audit",)) == ["audit/~schema"]


async def test_pages_of_any_size_and_deadline_have_each_name_once(owner: Owner) -> None:
    await owner.run(*SHOP)
    async with searched(owner, queries=QUERIES) as it:
        for text in ("order", "mail", "*", "a"):
            every = await it.found(text, "names")
            assert len(set(every)) == len(every)
            for limit in (1, 2, 3, 5):
                assert await it.found(text, "names", limit=limit) == every
                hurried = await it.found(text, "names", limit=limit, within=-10.0)
                assert sorted(hurried) == sorted(every)


async def test_unusual_names_are_found_at_their_own_address(owner: Owner) -> None:
    table, column = 'a "b" %;/~é', "x\\_y `z`. ~/"
    await owner.run(
        f"create table {owner.quoted(table)} (id integer primary key,"
        f" {owner.quoted(column)} integer)"
    )
    async with searched(owner) as it:
        [hit] = await it.hits("%;", "names")
        assert (await it.provider.metadata(hit.resource.path)).type == "collection"
        [hit] = await it.hits("x\\_y", "names")
        assert hit.lines[0].number == 2
        assert "`z`" in hit.lines[0].text
        for limit in (1, 2):
            assert len(await it.found("?* *", "names", limit=limit)) == 2


@pytest.mark.parametrize("after", ["..", "a//b", "a\0..", "orders\0zzz"])
async def test_an_invalid_search_cursor_is_refused(owner: Owner, after: str) -> None:
    await owner.run(*SHOP)
    async with searched(owner) as it:
        with pytest.raises(InvalidParameter):
            await it.page("orders", "names", after=after)


async def test_a_line_stays_one_line_for_any_column_name(owner: Owner) -> None:
    if owner.is_generic and owner.engine == "mariadb":
        pytest.skip("SQLAlchemy reads a definition line by line")
    await owner.run(
        f"create table t (id integer primary key, {owner.quoted('new' + chr(10) + 'line')} integer)"
    )
    async with searched(owner) as it:
        [hit] = await it.hits("new", "names")
        assert hit.lines == (MatchedLine(2, hit.lines[0].text),)
        assert "\n" not in hit.lines[0].text
