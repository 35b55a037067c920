"""Changes made by a database's owner, as subscribers are notified of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from resource_server.errors import ResourceBusy
from resource_server.provider import Change
from resource_server.providers.database.options import (
    ChangeHint,
    ColumnOptions,
    Query,
    TableOptions,
)
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.providers.database.reading import exposed_table
from resource_server.runtime.option_types import Duration
from resource_server.subscriptions.broker import Broker
from resource_server.subscriptions.interest import MountInterest
from tests.listeners import BASE, LIST, Recorder
from tests.providers.database.conftest import ENGINES, OTHER_DRIVERS, urls_of
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.served import UNHURRIED, Served, served
from tests.waiting import PATIENCE_S, block, until

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("other-drivers-answer-the-same")]
url = urls_of(*ENGINES, *OTHER_DRIVERS)

QUIET_S = 0.25
"""Longer than two polls of a database and their notifications."""
HINT = TableOptions(change=ChangeHint(column="moved"))


@pytest.fixture(autouse=True)
def patient_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the change mark on a busy machine, too: without it all rows are compared."""
    monkeypatch.setattr(exposed_table, "_CHANGE_MARK_S", PATIENCE_S)


TABLE = "CREATE TABLE t (id integer PRIMARY KEY, x varchar(20), moved integer)"


class Followed:
    """A served database and the notifications of its subscribers."""

    def __init__(self, view: Served, live: Broker) -> None:
        self._view = view
        self._live = live
        self._recorder = Recorder()
        self._prefix = view.base.partition("://")[2].partition("/")[2]

    async def subscribe(self, *paths: str) -> None:
        for path in paths:
            await self._live.subscribe(self._view.base + path, self._recorder)

    async def subscribe_at_root(self, *paths: str) -> None:
        """Subscribe to paths of the database, which begin with no schema."""
        for path in paths:
            await self._live.subscribe(BASE + path, self._recorder)

    async def tells_at_root(self, *paths: str) -> None:
        """Assert that exactly these paths of the database are notified."""
        await self._recorder.of(*paths)
        assert set(await self._recorder.quiet(QUIET_S)) == set(paths)

    def follow_list(self) -> None:
        self._live.follow_list(self._recorder)

    async def lists(self, path: str) -> bool:
        """Return whether a resource is in the global listing."""
        return self._view.base + path in [entry.uri for entry in await self._view.entries()]

    async def settled(self) -> None:
        """Wait until all earlier changes are notified."""
        await self._recorder.quiet(QUIET_S)

    async def tells(self, *paths: str) -> None:
        """Assert that exactly these are notified."""
        await self._recorder.of(*(path if path == LIST else self._prefix + path for path in paths))
        told = {path.removeprefix(self._prefix) for path in await self._recorder.quiet(QUIET_S)}
        assert told == set(paths)

    async def tells_nothing(self) -> None:
        assert await self._recorder.quiet(QUIET_S) == []


@asynccontextmanager
async def followed(owner: Owner, *paths: str, **options: Any) -> AsyncGenerator[Followed]:
    """Serve a database with a short polling interval and subscribe to these paths."""
    async with served(owner, interval=0.02, **options) as view:
        live = Broker(view.catalog)
        try:
            scene = Followed(view, live)
            await scene.subscribe(*paths)
            yield scene
        finally:
            await live.close()


# The `change` column.


@pytest.fixture
async def table(owner: Owner) -> Owner:
    await owner.run(TABLE)
    await owner.insert("t", (1, "a", 1), (2, "a", None))
    return owner


ALL = ("t", "t/~rows", "t/1", "t/2")


async def test_changes_are_reported_when_the_hint_column_advances(table: Owner) -> None:
    async with followed(table, *ALL, "t/1/~cell/x", tables={"t": HINT}) as scene:
        await scene.settled()
        await table.run("UPDATE t SET x = 'b', moved = 2 WHERE id = 1")
        await scene.tells("t", "t/~rows", "t/1", "t/1/~cell/x")
        await table.run("UPDATE t SET x = 'b', moved = 3 WHERE id = 2")
        await scene.tells("t", "t/~rows", "t/2")
        await table.run("DELETE FROM t WHERE id = 1")
        await scene.tells("t", "t/~rows", "t/1", "t/1/~cell/x")


async def test_a_change_that_leaves_the_hint_column_unchanged_causes_no_query(table: Owner) -> None:
    async with followed(table, *ALL, tables={"t": HINT}) as scene:
        await scene.settled()
        await table.run("UPDATE t SET x = 'b', moved = 2 WHERE id = 1")
        await scene.tells("t", "t/~rows", "t/1")
        await table.run("UPDATE t SET x = 'c' WHERE id = 1")
        await scene.tells_nothing()
        # Both are notified with the next change of the mark.
        await table.run("UPDATE t SET x = 'c', moved = 3 WHERE id = 2")
        await scene.tells(*ALL)


async def test_rows_with_a_null_hint_are_detected_by_the_number_of_rows(table: Owner) -> None:
    await table.run("DELETE FROM t WHERE id = 1")
    async with followed(table, "t", "t/~rows", "t/2", tables={"t": HINT}) as scene:
        await scene.settled()
        await table.run("INSERT INTO t VALUES (3, 'a', NULL)")
        await scene.tells("t", "t/~rows")
        await table.run("DELETE FROM t WHERE id = 2")
        await scene.tells("t", "t/~rows", "t/2")


async def test_changes_before_the_first_comparison_are_reported(table: Owner) -> None:
    row, other = ((*table.prefix.split("/")[:-1], "t", key) for key in "12")
    interest = MountInterest()
    async with Database(url=table.url, tables={"t": HINT}, limits=UNHURRIED) as database:
        interest.add(row)
        await table.run("UPDATE t SET x = 'b' WHERE id = 1")
        found = cast("AsyncGenerator[Change]", database.changes(interest))
        async with asyncio.timeout(PATIENCE_S), aclosing(found) as changes:
            assert await anext(changes) == Change(row)
            # By now the column is known.
            interest.add(other)
            await table.run("UPDATE t SET x = 'b' WHERE id = 2")
            while await anext(changes) != Change(other):
                pass


async def test_a_schema_change_is_reported_regardless_of_the_hint_column(table: Owner) -> None:
    async with followed(table, *ALL, tables={"t": HINT}) as scene:
        await scene.settled()
        await table.run("UPDATE t SET x = 'b', moved = 2 WHERE id = 1")
        await scene.tells("t", "t/~rows", "t/1")
        await table.run("ALTER TABLE t ADD COLUMN y integer")
        await scene.tells(*ALL)


async def test_the_hint_column_reports_changes_beyond_the_compared_rows(table: Owner) -> None:
    rows = ", ".join(f"({number}, 'a', 1)" for number in range(3, 1001))
    await table.run(f"INSERT INTO t VALUES {rows}", "CREATE TABLE other (id integer)")
    async with followed(table, "t", tables={"t": HINT}) as scene:
        await scene.tells_nothing()
        await table.run("UPDATE t SET x = 'b', moved = 2 WHERE id = 1000")
        await scene.tells("t")
        await table.run("INSERT INTO t VALUES (2000, 'a', 1)")
        await scene.tells("t")
        await table.run("INSERT INTO other VALUES (1)")
        await scene.tells_nothing()
        # All subscribed rows can be compared.
        await table.run("DELETE FROM t WHERE id > 500")
        await scene.tells("t")
        await table.run("UPDATE t SET moved = 3, x = 'c' WHERE id = 500")
        await scene.tells("t")


async def test_the_hint_column_counts_from_the_subscription_on(table: Owner) -> None:
    rows = ", ".join(f"({number}, 'a', 1)" for number in range(3, 1001))
    await table.run(f"INSERT INTO t VALUES {rows}", "CREATE TABLE other (id integer)")
    async with followed(table, "other", tables={"t": HINT}) as scene:
        await scene.settled()
        await scene.subscribe("t")
        await scene.tells_nothing()
        await table.run("UPDATE t SET x = 'b', moved = 2 WHERE id = 1000")
        await scene.tells("t")
        # A change of the schema does not hide one of the column.
        await table.run("UPDATE t SET x = 'c', moved = 3 WHERE id = 1000", "DROP TABLE other")
        await scene.tells("t", "other")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE t SET x = 'hidden', moved = 9 WHERE id = 2",
        "INSERT INTO t VALUES (3, 'hidden', 9)",
        "UPDATE t SET moved = 9 WHERE x = 'hidden'",
    ],
)
async def test_changes_of_filtered_out_rows_are_not_reported(table: Owner, change: str) -> None:
    await table.run("INSERT INTO t VALUES (4, 'hidden', 5)")
    options = TableOptions(change=ChangeHint(column="moved"), where="x <> 'hidden'")
    async with followed(table, *ALL, tables={"t": options}) as scene:
        await scene.settled()
        await table.run("UPDATE t SET x = 'b', moved = 2 WHERE id = 1")
        await scene.tells("t", "t/~rows", "t/1")
        await table.run(change)
        if "id = 2" in change:
            await scene.tells("t", "t/~rows", "t/2")
        else:
            await table.run("UPDATE t SET x = 'c' WHERE id = 1")
            await scene.tells_nothing()


async def test_a_hidden_hint_column_still_reports_changes(table: Owner) -> None:
    options = TableOptions(
        change=ChangeHint(column="MOVED"), columns=ColumnOptions(hide=("moved",))
    )
    async with followed(table, *ALL, tables={"t": options}) as scene:
        await scene.settled()
        await table.run("UPDATE t SET x = 'b', moved = 2 WHERE id = 1")
        await scene.tells("t", "t/~rows", "t/1")
        await table.run("UPDATE t SET x = 'c' WHERE id = 1")
        await scene.tells_nothing()


@pytest.mark.parametrize("column", ["no such", "broken"])
async def test_an_unreadable_hint_column_is_ignored(
    owner: Owner, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    await owner.run("CREATE TABLE base (id integer PRIMARY KEY, x varchar(20))")
    await owner.insert("base", (1, "a"), (2, "a"))
    # An overflow, or a subquery with two rows: an error as soon as it is read.
    of_sqlite = owner.engine == "sqlite"
    broken = "abs(-9223372036854775807 - id)" if of_sqlite else "(SELECT id FROM base)"
    await owner.run(f"CREATE VIEW t AS SELECT id, x, {broken} AS broken FROM base")
    options = TableOptions(key=("id",), change=ChangeHint(column=column))
    columns = ColumnOptions(hide=("broken",))
    shown = TableOptions(key=options.key, change=options.change, columns=columns)
    async with followed(owner, "t/1", "t/~rows", tables={"t": shown}) as scene:
        await scene.settled()
        for text in ("b", "c"):
            await owner.run(f"UPDATE base SET x = '{text}' WHERE id = 1")
            await scene.tells("t/1", "t/~rows")
    assert "has failed" not in caplog.text


# The schema.


async def test_schema_changes_of_hidden_tables_are_not_reported(
    table: Owner,
) -> None:
    async with followed(table, "t/1", "t/~schema", tables={"secret": False}) as scene:
        scene.follow_list()
        await scene.settled()
        await table.run("CREATE TABLE secret (id integer PRIMARY KEY)")
        await scene.tells_nothing()
        await table.run("ALTER TABLE secret ADD COLUMN y integer", "DROP TABLE secret")
        await scene.tells_nothing()
        await table.run("ALTER TABLE t ADD COLUMN y integer")
        await scene.tells("t/1", "t/~schema")
        await table.run("CREATE TABLE u (id integer PRIMARY KEY)")
        await scene.tells(LIST)
        await table.run("DROP TABLE u")
        await scene.tells(LIST)


async def test_a_new_index_is_notified_to_subscribers_of_the_table(table: Owner) -> None:
    async with followed(table, "t", "t/~schema", "t/1") as scene:
        await scene.settled()
        await table.run("CREATE INDEX by_x ON t (x)")
        await scene.tells("t", "t/~schema")


# Queries.


QUERIES = {
    "named": Query(sql="SELECT id, x FROM t ORDER BY id", rows=2),
    "other": Query(sql="SELECT 1 AS one"),
    "given": Query(
        sql="SELECT x FROM t WHERE id = :id", parameters={"id": Parameter(type="integer")}
    ),
}


async def test_subscribers_of_the_queries_are_notified_of_changed_results(table: Owner) -> None:
    async with followed(table, queries=QUERIES) as scene:
        await scene.subscribe_at_root("~query")
        await scene.settled()
        await table.run("UPDATE t SET x = 'b' WHERE id = 1")
        await scene.tells_at_root("~query")
        await table.run("UPDATE t SET moved = 7 WHERE id = 1")
        await scene.tells_nothing()


async def test_a_query_is_notified_when_its_result_becomes_truncated(table: Owner) -> None:
    async with followed(table, queries=QUERIES) as scene:
        await scene.subscribe_at_root("~query/named")
        await scene.settled()
        await table.run("INSERT INTO t VALUES (3, 'c', 1)")
        await scene.tells_at_root("~query/named")


# Hidden rows, columns and tables.


HIDDEN_CHANGES = (
    "CREATE TABLE secret (id integer PRIMARY KEY)",
    "INSERT INTO secret VALUES (1)",
    "INSERT INTO t VALUES (5000, 'hidden', 5, 'a', 'a')",
    "UPDATE t SET y = 'other' WHERE x = 'hidden'",
    "DELETE FROM t WHERE x = 'hidden'",
    "UPDATE t SET y = 'b', moved = moved + 1 WHERE id IN (1, 1000)",
    "UPDATE t SET z = 'b', moved = moved + 1 WHERE id IN (1, 1000)",
    "ALTER TABLE secret ADD COLUMN w integer",
    "DROP TABLE secret",
)


@pytest.mark.guarantee("hidden-changes-nothing")
@pytest.mark.parametrize("hint", [None, ChangeHint(column="moved")])
async def test_no_subscriber_is_notified_of_hidden_changes(
    owner: Owner, hint: ChangeHint | None
) -> None:
    await owner.run(
        "CREATE TABLE t (id integer PRIMARY KEY, x varchar(20), moved integer, y varchar(20),"
        " z varchar(20))"
    )
    await owner.insert("t", *((number, "a", 1, "a", "a") for number in range(1, 1201)))
    columns = ColumnOptions(hide=("moved", "y"), mask={"z": "redact"})
    options = TableOptions(where="x <> 'hidden'", columns=columns, change=hint)
    tables = {"t": options, "secret": False}
    paths = ("t", "t/1", "t/1000", "t/~schema", "t/~rows", "t/~rows?limit=5", "t/1/~cell/x")
    # Other drivers refuse a query of a table that is partly hidden.
    queries = {"named": Query(sql="select 1 as x") if owner.is_generic else QUERIES["named"]}
    async with followed(owner, "", *paths, tables=tables, queries=queries) as scene:
        await scene.subscribe_at_root("", "~query", "~query/named")
        scene.follow_list()
        await scene.settled()
        for change in HIDDEN_CHANGES:
            await owner.run(change)
            await scene.tells_nothing()
        # A subscribed row beyond those that are compared counts for its table.
        await owner.run("UPDATE t SET x = 'b', moved = moved + 1 WHERE id = 1000")
        await scene.tells("t", "t/1000")
        await owner.run("UPDATE t SET x = 'hidden', moved = moved + 1 WHERE id = 1000")
        await scene.tells("t", "t/1000")


# Precision of changes in the metadata.


async def details(view: Served, path: str) -> Any:
    """Return `changes` of a table's metadata."""
    details = (await view.entry(path)).resource.details
    return None if details is None else details.get("changes")


GATES = {
    "sqlite": {"gate": "commits", "interval": 0.05},
    "postgresql": {"gate": "commits", "interval": 0.25},
    "mariadb": {"gate": "counters", "interval": 1.0},
    "duckdb": {"gate": "commits", "interval": 0.25},
}


async def test_metadata_of_a_database_describes_commit_detection(owner: Owner) -> None:
    async def told(**options: Any) -> Any:
        async with served(owner, **options) as view:
            return (await view.catalog.metadata(BASE)).resource.details

    expected = {"gate": "reads", "interval": 0.0} if owner.is_generic else GATES[owner.engine]
    assert (await told())["changes"] == expected
    assert (await told(interval=0.125))["changes"] == {**expected, "interval": 0.125}
    notify = {"gate": "notify", "interval": 1.0} if owner.prefix == "public/" else expected
    assert (await told(watch="notify"))["changes"] == notify
    assert await told(watch="off") == {"engine": owner.engine}


async def test_metadata_of_a_table_describes_the_precision_of_changes(owner: Owner) -> None:
    await owner.run(TABLE, "CREATE TABLE u (id integer PRIMARY KEY)", "CREATE VIEW v AS SELECT 1 a")
    hidden = TableOptions(change=HINT.change, columns=ColumnOptions(hide=("moved",)))
    async with served(owner, tables={"t": HINT, "u": TableOptions(rows=False)}) as view:
        assert await details(view, "t") == {"precision": "row", "column": "moved"}
        assert await details(view, "v") == {"precision": "table"}
        assert await details(view, "u") is None
    async with served(owner, tables={"t": hidden}) as view:
        assert await details(view, "t") == {"precision": "row"}
    missing = TableOptions(change=ChangeHint(column="secret"))
    async with served(owner, tables={"t": missing}) as view:
        assert await details(view, "t") == {"precision": "row"}
    async with served(owner, tables={"t": HINT}, watch="off") as view:
        assert await details(view, "t") is None


# Paths without a comparison.


async def test_a_table_dropped_between_the_first_listing_and_the_watch_is_reported(
    table: Owner,
) -> None:
    async with followed(table) as scene:
        assert await scene.lists("t")
        await table.run("DROP TABLE t")
        scene.follow_list()
        await scene.tells(LIST)


async def test_unreadable_rows_do_not_end_the_watch(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    await owner.run("CREATE TABLE base (id integer PRIMARY KEY, n bigint)")
    await owner.insert("base", (1, 1), (2, 1))
    of_sqlite = owner.engine == "sqlite"
    computed = "abs(n)" if of_sqlite else "(SELECT id FROM base b WHERE b.id <= base.n)"
    await owner.run(f"CREATE VIEW t AS SELECT id, {computed} AS n FROM base")
    async with followed(owner, "t/1", "t/2", tables={"t": TableOptions(key=("id",))}) as scene:
        await scene.settled()
        await owner.run(f"UPDATE base SET n = {-(2**63) if of_sqlite else 2} WHERE id = 1")
        await scene.settled()
        await owner.run("UPDATE base SET n = 0 WHERE id = 1")
        await scene.tells("t/1")
    assert "has failed" not in caplog.text


async def test_a_row_read_in_another_version_is_compared_again(owner: Owner) -> None:
    await owner.run(TABLE)
    await owner.insert("t", (1, "a", 1))
    path = (*owner.prefix.split("/")[:-1], "t", "1")
    interest = MountInterest()
    async with Database(url=owner.url, interval=Duration(0.02), limits=UNHURRIED) as database:
        interest.add(path)
        found = cast("AsyncGenerator[Change]", database.changes(interest))
        async with asyncio.timeout(PATIENCE_S), aclosing(found) as changes:
            # The row is new: there is nothing to compare it with.
            assert [await anext(changes), await anext(changes)] == [Change(path)] * 2
            before = (await database.metadata(path)).version
            await owner.run("UPDATE t SET x = 'b'")
            # A short-lived version that the watch does not see.
            assert (await database.metadata(path)).version != before
            await owner.run("UPDATE t SET x = 'a'")
            assert await anext(changes) == Change(path)
            while (await database.metadata(path)).version != before:
                assert await anext(changes) == Change(path)


async def test_a_temporarily_missing_file_does_not_end_the_watch(tmp_path: Path) -> None:
    file, path = tmp_path / "it.db", ("t", "1")
    url = f"sqlite:///{file}"
    async with owner_of(url) as owner:
        await owner.run(TABLE)
        await owner.insert("t", (1, "a", 1))
    interest = MountInterest()
    async with Database(url=url, interval=Duration(0.02), limits=UNHURRIED) as database:
        interest.add(path)
        found = cast("AsyncGenerator[Change]", database.changes(interest))
        async with asyncio.timeout(PATIENCE_S), aclosing(found) as changes:
            assert [await anext(changes), await anext(changes)] == [Change(path)] * 2
            file.rename(tmp_path / "away.db")
            told = asyncio.ensure_future(anext(changes))
            await asyncio.wait([told], timeout=QUIET_S)
            assert not told.done()
            (tmp_path / "away.db").rename(file)
            async with owner_of(url) as owner:
                await owner.run("UPDATE t SET x = 'b'")
            assert await told == Change(path)


async def test_a_database_that_stays_busy_is_asked_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, path, asked = f"sqlite:///{tmp_path / 'it.db'}", ("t", "1"), list[float]()

    async def state(_: object) -> object:
        asked.append(asyncio.get_running_loop().time())
        if len(asked) <= 5:
            raise ResourceBusy
        return ()

    async with owner_of(url) as owner:
        await owner.run(TABLE)
        await owner.insert("t", (1, "a", 1))
        interest = MountInterest()
        async with Database(url=url, interval=Duration(0.02), limits=UNHURRIED) as database:
            interest.add(path)
            found = cast("AsyncGenerator[Change]", database.changes(interest))
            async with asyncio.timeout(PATIENCE_S), aclosing(found) as changes:
                assert [await anext(changes), await anext(changes)] == [Change(path)] * 2
                monkeypatch.setattr(exposed_table.ExposedTableCache, "state", state)
                told = asyncio.ensure_future(anext(changes))
                await owner.run("UPDATE t SET x = 'b'")
                assert await told == Change(path)
    assert all(asked[at + 1] - asked[at] > 0.04 * 2**at for at in range(1, 5))


async def test_a_watch_that_ends_at_any_point_leaves_no_tasks(table: Owner) -> None:
    path = (*table.prefix.split("/")[:-1], "t", "~schema")
    async with Database(url=table.url, limits=UNHURRIED) as database:
        # Listing all tables may use a connection of its own.
        await database.metadata(path)
        before = asyncio.all_tasks()
        for turns in range(12):
            interest, told = MountInterest(), asyncio.Event()
            interest.add(path)
            watching = asyncio.create_task(follow(database, interest, told))
            await told.wait()
            interest.remove(path)
            # Meanwhile it releases its connection: there are no subscriptions any more.
            for _ in range(turns):
                await asyncio.sleep(0)
            watching.cancel()
            await asyncio.wait([watching])
            # A connection is cleaned up after the statement.
            await until(lambda: asyncio.all_tasks() <= before)


async def test_a_watch_can_end_at_the_moment_of_a_poll(table: Owner) -> None:
    path = (*table.prefix.split("/")[:-1], "t", "1")
    loop = asyncio.get_running_loop()
    async with Database(url=table.url, interval=Duration(0.02), limits=UNHURRIED) as database:
        for _ in range(5):
            interest, ending = MountInterest(), loop.create_future()
            interest.add(path)
            found = cast("AsyncGenerator[Change]", database.changes(interest))
            async with asyncio.timeout(PATIENCE_S):
                async with aclosing(found) as changes:
                    assert [await anext(changes), await anext(changes)] == [Change(path)] * 2
                    # Both are due in the same iteration of the loop, and the end comes first.
                    loop.call_later(0.001, ending.set_result, None)
                    block(0.05)
                    await ending


async def follow(database: Database, interest: MountInterest, told: asyncio.Event) -> None:
    async with aclosing(cast("AsyncGenerator[Change]", database.changes(interest))) as changes:
        async for _ in changes:
            told.set()


async def test_a_table_that_loses_its_hidden_column_is_notified_as_removed(owner: Owner) -> None:
    await owner.run(TABLE)
    await owner.insert("t", (1, "a", 1))
    tables = {"t": TableOptions(columns=ColumnOptions(hide=("x",)))}
    async with followed(owner, *ALL[:3], tables=tables) as scene:
        scene.follow_list()
        await scene.settled()
        await owner.run("ALTER TABLE t RENAME COLUMN x TO y")
        await scene.tells(*ALL[:3], LIST)
        assert not await scene.lists("t")
