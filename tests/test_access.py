"""Access by scope: for who lacks the scopes, what needs them does not exist."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_server.access import EVERYBODY, OPEN, Access, Caller, acting
from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.mount import Mount
from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.protocol.server import Server
from resource_server.provider import Provider, Resource
from resource_server.providers.database.options import Query, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import DirectoryOptions
from resource_server.runtime.eager import settle
from resource_server.runtime.timing import Timing
from resource_server.subscriptions.topic import Topic
from resource_server.testing import check_provider
from tests.calm import ObservedBroker, observed_watches, settled
from tests.listeners import (
    IMPATIENT,
    LIST,
    PATIENCE_S,
    SETTLED_S,
    Folder,
    Recorder,
    impatient_folder,
    mounted,
    silence,
    uri_of,
)
from tests.protocol.wire import Wire
from tests.providers.database.served import timed_database
from tests.providers_for_tests import Tree, WatchedTree
from tests.spellings import host_spellings

pytestmark = pytest.mark.anyio

HR = frozenset(("hr:read",))
# However busy the machine is, keys are suggested and rows are counted.
UNHURRIED = Timing(key_completion_s=PATIENCE_S, row_count_s=PATIENCE_S)
CLERK = Caller("clerk", HR | {"mcp:read"})
GUEST = Caller("guest", frozenset(("mcp:read",)))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def runner() -> Generator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def needs(*scopes: str) -> Access:
    return Access(scopes=scopes)


# -- everything that can be asked, whatever the rules


DIRECTORIES = ("a", "a/b", "a/b/c", "d")
FILES = ("x.txt", "a/x.txt", "a/b/x.txt", "a/b/c/x.txt", "d/x.txt", "d/y.txt")
TABLES = ("apples", "bills", "cars")
QUERIES = {"one": None, "two": "bills"}
"""Each with the table that it reads."""
SCOPES = ("r", "s")
MOUNTS = ("one", "shop", "trees", "nested", "watched")
"""`nested` lies inside `one`; there are no rules for the last, and it tells of changes."""
PATHS = ("", *DIRECTORIES, *FILES)
ROWS = ("", "/~rows", "/~schema", "/1", "/2")
URIS = [
    *(uri_of(path) for path in PATHS),
    *(f"sqlite://shop/{table}{rest}" for table in TABLES for rest in ROWS),
    *(f"sqlite://shop/~query{rest}" for rest in ("", "/one", "/two")),
    *(uri_of(path, "test://trees/") for path in ("", "k", "k/l")),
    *(uri_of(path, "test://one/a/b/") for path in ("k", "k/l")),
]
HOST_URIS = [spelling for uri in URIS[::5] for spelling in host_spellings(uri)[1:4:2]]
TYPED = ("", "a", "a/", "a/b/", "a/b/c/", "d", "d/x", "k/")
TEMPLATES = ("test://one/{+path}", "test://trees/{+path}", "test://one/a/b/{+path}")

scopes = st.frozensets(st.sampled_from(SCOPES))
rules = st.fixed_dictionaries(
    {
        "directories": st.dictionaries(st.sampled_from(DIRECTORIES), scopes),
        "tables": st.dictionaries(st.sampled_from(TABLES), scopes),
        "queries": st.dictionaries(st.sampled_from(tuple(QUERIES)), scopes),
        "mounts": st.dictionaries(st.sampled_from(MOUNTS[:-1]), scopes),
    }
)


@functools.cache
def database_of(*tables: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        for table in tables:
            connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, name TEXT)")
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(1, "ann"), (2, "bob")])  # noqa: S608
        connection.commit()
        # Without any it is an empty file, as SQLite itself leaves it.
        return connection.serialize() if tables else b""


def make_database(file: Path, tables: Sequence[str]) -> None:
    file.write_bytes(database_of(*tables))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with a folder and a database that have everything."""
    place = tmp_path_factory.mktemp("whole")
    for name in DIRECTORIES:
        (place / "folder" / name).mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (place / "folder" / name).write_text(name)
    make_database(place / "shop.db", TABLES)
    return place


def make_catalog(
    folder: Path, file: Path, rules: Mapping[str, Mapping[str, frozenset[str]]]
) -> Catalog:
    queries = {
        name: query_of(name, access=needs(*rules["queries"].get(name, ()))) for name in QUERIES
    }
    return catalog_of(folder, file, queries, rules)


def query_of(name: str, access: Access = OPEN) -> Query:
    table = QUERIES[name]
    sql = f"SELECT name FROM {table}" if table else "SELECT 1 AS n"  # noqa: S608
    return Query(sql=sql, access=access)


def catalog_of(
    folder: Path,
    file: Path,
    queries: Mapping[str, Query],
    rules: Mapping[str, Mapping[str, frozenset[str]]],
    mounts: Sequence[str] = MOUNTS,
    *,
    hidden_tables: Sequence[str] = (),
) -> Catalog:
    directories = {
        key: DirectoryOptions(access=needs(*needed)) for key, needed in rules["directories"].items()
    }
    tables: dict[str, TableOptions | bool] = dict.fromkeys(hidden_tables, False)
    tables |= {key: TableOptions(access=needs(*needed)) for key, needed in rules["tables"].items()}
    trees: dict[str, Any] = {"k": {"l": "text"}}
    every: Mapping[str, tuple[str, Provider]] = {
        "one": ("test://one/", Filesystem(folder, directories=directories)),
        "shop": (
            "sqlite://shop/",
            timed_database(UNHURRIED, url=f"sqlite:///{file}", tables=tables, queries=queries),
        ),
        "trees": ("test://trees/", Tree(trees)),
        "nested": ("test://one/a/b/", Tree(trees)),
        "watched": ("test://watched/", WatchedTree(trees)),
    }
    found = [
        Mount(name, *every[name], access=rules["mounts"].get(name, frozenset[str]()))
        for name in mounts
    ]
    return Catalog(found, CatalogLimits(page_size=3, collection_children=2))


class Asker:
    """Asks everything that can be asked, and keeps all that is answered."""

    def __init__(self, wire: Wire, caller: Caller) -> None:
        self.wire = wire
        self.caller = caller
        self.answers: list[Any] = []

    async def everything(self) -> None:
        await self.pages("resources/list")
        await self.pages("resources/templates/list")
        for uri in (*URIS, *HOST_URIS):
            await self.pages("resources/list", uri=uri)
            await self.ask("resources/read", uri=uri)
            await self.ask("resources/metadata", uri=uri)
            if not self.wire.modern:
                await self.ask("resources/subscribe", uri=uri)
        for template in TEMPLATES:
            for typed in TYPED:
                await self.complete(template, "path", typed)
        rows = "sqlite://shop/{table}/{+key}"
        await self.complete(rows, "table", "")
        for table in TABLES:
            await self.complete(rows, "key", "", table=table)
        if self.wire.modern:
            wanted = {"resourcesListChanged": True, "resourceSubscriptions": [*URIS, *HOST_URIS]}
            with acting(self.caller):
                self.wire.start("subscriptions/listen", {"notifications": wanted}, "listen")
            self.answers += await self.wire.notified(1)

    async def complete(self, template: str, name: str, value: str, **given: str) -> None:
        await self.ask(
            "completion/complete",
            ref={"type": "ref/resource", "uri": template},
            argument={"name": name, "value": value},
            context={"arguments": given},
        )

    async def pages(self, method: str, **params: Any) -> None:
        reply = await self.ask(method, **params)
        while cursor := reply.get("result", {}).get("nextCursor"):
            reply = await self.ask(method, cursor=cursor, **params)

    async def ask(self, method: str, **params: Any) -> Any:
        with acting(self.caller):
            reply = await self.wire.call(method, params)
        # There are hundreds, and each is looked for among those that are kept.
        self.wire.messages.remove(reply)
        self.answers.append((method, params, {**reply, "id": 0}))
        return reply


async def observed(catalog: Catalog, caller: Caller) -> list[Any]:
    """Return all that a caller is told, whatever they ask."""
    found: list[Any] = []
    async with Server(catalog) as server:
        for revision in ("2025-11-25", "2026-07-28"):
            asker = Asker(Wire(server, revision), caller)
            await asker.everything()
            await asker.wire.connection.close()
            found += asker.answers
    return found


def link_tree(source: Path, to: Path, left_out: Sequence[str]) -> None:
    """Make the same tree of the very same files, some directories left out."""
    to.mkdir()
    for name in DIRECTORIES:
        if not any(f"{name}/".startswith(f"{out}/") for out in left_out):
            (to / name).mkdir()
    for name in FILES:
        if (to / name).parent.is_dir():
            os.link(source / name, to / name)


@pytest.mark.guarantee("hidden-does-not-exist")
@settings(max_examples=20, deadline=None)
@given(rules=rules, held=scopes)
def test_resources_requiring_other_scopes_look_missing_to_every_request(
    runner: asyncio.Runner,
    whole: Path,
    rules: Mapping[str, Mapping[str, frozenset[str]]],
    held: frozenset[str],
) -> None:
    lacking = {
        what: [name for name, needed in of.items() if not needed <= held]
        for what, of in rules.items()
    }
    place = Path(tempfile.mkdtemp(dir=whole))
    try:
        link_tree(whole / "folder", place / "part", lacking["directories"])
        tables = [name for name in TABLES if name not in lacking["tables"]]
        make_database(place / "part.db", tables)
        nothing: Mapping[str, Any] = {what: {} for what in rules}
        queries = {
            name: query_of(name)
            for name, table in QUERIES.items()
            if name not in lacking["queries"] and table not in lacking["tables"]
        }
        mounts = [name for name in MOUNTS if name not in lacking["mounts"]]
        part = catalog_of(
            place / "part",
            place / "part.db",
            queries,
            nothing,
            mounts,
            # Schemas have no DDL if the manifest hides any table, whether it exists or not.
            hidden_tables=lacking["tables"],
        )
        caller = Caller("somebody", held | {"other"})
        every = make_catalog(whole / "folder", whole / "shop.db", rules)
        assert runner.run(observed(every, caller)) == runner.run(observed(part, EVERYBODY))
    finally:
        shutil.rmtree(place)


async def test_providers_keep_the_contract_under_any_scopes(tmp_path: Path) -> None:
    for name in DIRECTORIES:
        (tmp_path / "tree" / name).mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (tmp_path / "tree" / name).write_text(name)
    make_database(tmp_path / "shop.db", TABLES)
    await check_provider(
        Filesystem(
            tmp_path / "tree",
            directories={
                "a/b": DirectoryOptions(access=needs("r")),
                "a/b/c": DirectoryOptions(access=needs("s")),
                "d": DirectoryOptions(access=needs("s")),
            },
        )
    )
    await check_provider(
        Database(
            f"sqlite:///{tmp_path}/shop.db",
            tables={"apples": TableOptions(access=needs("r", "s"))},
            queries={name: query_of(name, access=needs("s")) for name in QUERIES},
        )
    )


# -- what leads from what may be seen to what may not


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "shop.db"
    connection = sqlite3.connect(file)
    connection.executescript("""
        CREATE TABLE salaries (id INTEGER PRIMARY KEY, pay INTEGER);
        CREATE TABLE people (id INTEGER PRIMARY KEY, pay INTEGER REFERENCES salaries (id));
        INSERT INTO salaries VALUES (7, 90000);
        INSERT INTO people VALUES (1, 7);
    """)
    connection.close()
    return file


async def told_of_people(database: Database, caller: Caller) -> str:
    """Return all that is told of the table `people`, of its row, and of the queries."""
    async with Server(Catalog([Mount("shop", "sqlite://shop/", database)])) as server:
        wire = Wire(server, "2025-11-25")
        with acting(caller):
            told = [
                await wire.call(method, {"uri": f"sqlite://shop/{path}"})
                for method in ("resources/read", "resources/metadata", "resources/list")
                for path in ("", "people", "people/1", "people/~schema", "people/~rows")
            ]
        await wire.connection.close()
    return str(told)


async def test_a_row_reveals_nothing_of_a_table_hidden_from_the_caller(shop: Path) -> None:
    database = Database(
        f"sqlite:///{shop}", tables={"salaries": TableOptions(access=needs("hr:read"))}
    )
    assert "sqlite://shop/salaries/7" in await told_of_people(database, CLERK)
    assert "salaries" not in await told_of_people(database, GUEST)
    # In whatever order they ask: nothing of the one is kept for the other.
    assert "sqlite://shop/salaries/7" in await told_of_people(database, CLERK)


PAY = "sqlite://shop/~query/pay"


def paying(shop: Path, sql: str) -> Catalog:
    """Return a catalog with a query, and tables of which one needs a scope."""
    database = Database(
        f"sqlite:///{shop}",
        tables={"salar*": TableOptions(access=needs("hr:read"))},
        queries={"pay": Query(sql=sql)},
    )
    return Catalog([Mount("shop", "sqlite://shop/", database)])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(pay) AS pays FROM salaries",
        "SELECT * FROM Main.SALARIES",
        "SELECT * FROM people JOIN salaries s USING (id)",
        "SELECT p.id FROM people p, salaries",
        "SELECT p.id FROM people p JOIN people q ON p.id = q.id, people r, salaries s",
        "SELECT p.id FROM (people p, salaries s)",
        "SELECT * FROM (SELECT id FROM salaries) s",
        "SELECT * FROM people WHERE id IN (SELECT id FROM salaries)",
        "WITH s AS (SELECT * FROM salaries) SELECT * FROM s",
    ],
)
async def test_a_query_on_a_hidden_table_does_not_exist_for_the_caller(
    shop: Path, sql: str
) -> None:
    async with paying(shop, sql) as catalog:
        with acting(CLERK):
            await catalog.read(PAY)
            assert PAY in str(await catalog.list())
            assert "~query" in str(await catalog.templates())
        with acting(GUEST):
            assert PAY not in str(await catalog.list())
            assert "~query" not in str(await catalog.templates())
            for uri in (PAY, "sqlite://shop/~query"):
                with pytest.raises(ResourceNotFound):
                    await catalog.read(uri)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, pay AS salaries FROM people",
        "SELECT id, salaries FROM (SELECT 1 AS id, 2 AS salaries) GROUP BY id, salaries",
        "SELECT 'from salaries' AS salaries FROM people ORDER BY id, salaries",
    ],
)
async def test_a_query_with_a_column_named_like_a_hidden_table_stays_visible(
    shop: Path, sql: str
) -> None:
    async with paying(shop, sql) as catalog:
        with acting(GUEST):
            await catalog.read(PAY)


async def test_a_query_never_reads_a_table_hidden_from_the_caller(shop: Path) -> None:
    # That this is the name of a table is known to the database only.
    async with paying(
        shop, "SELECT 90000 AS pay FROM people WHERE (7, 90000) IN salaries"
    ) as catalog:
        with acting(CLERK):
            reading = await catalog.read(PAY)
        assert "90000" in str(reading.items[0].content)
        with acting(GUEST), pytest.raises(InvalidParameter, match="the database refuses this"):
            await catalog.read(PAY)


async def test_a_link_leads_only_to_paths_visible_to_the_caller(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("hr/pay.txt", "90000")
    folder.make("open")
    folder.link("open/pay.txt", "../hr/pay.txt")
    folder.link("open/hr", "../hr")
    provider = Filesystem(
        tmp_path,
        symlinks="within-root",
        directories={"hr": DirectoryOptions(access=needs("hr:read"))},
    )
    async with Catalog([mounted(provider)]) as catalog:
        for caller, count in (CLERK, 7), (GUEST, 2), (EVERYBODY, 7), (GUEST, 2):
            with acting(caller):
                assert len((await catalog.list()).entries) == count
                for path in ("hr/pay.txt", "open/pay.txt", "open/hr/pay.txt"):
                    if caller is GUEST:
                        with pytest.raises(ResourceNotFound):
                            await catalog.read(uri_of(path))
                    else:
                        await catalog.read(uri_of(path))


async def test_a_plugin_that_cannot_be_narrowed_is_hidden() -> None:
    class Failing(Tree):
        restrictions: Mapping[str, frozenset[str]] = {"option": HR}

        def narrowed(self, scopes: frozenset[str]) -> Provider:
            raise RuntimeError

    async with Catalog([mounted(Failing({"a": "x"})), mounted(Tree({}), "two")]) as catalog:
        with acting(CLERK):
            assert len((await catalog.list()).entries) == 3
        with acting(GUEST):
            assert [entry.uri for entry in (await catalog.list()).entries] == ["test://two"]


async def test_scope_dependent_results_are_cached_privately() -> None:
    def scope(*mounts: Mount) -> str:
        return Server(Catalog(mounts), cache_scope="public").cache_scope

    assert scope(mounted(Tree({}))) == "public"
    assert scope(mounted(Tree({})), mounted(Tree({}), "two", access=HR)) == "private"


async def test_a_mount_and_its_narrowed_mounts_close_together(tmp_path: Path) -> None:
    directories = {"hr": DirectoryOptions(access=needs("hr:read"))}
    mount = mounted(Filesystem(tmp_path, directories=directories))
    async with Catalog([mount]) as catalog:
        with acting(GUEST):
            await catalog.list()
            narrowed, _, _ = catalog.route(uri_of(""))
        assert narrowed is not mount
        assert narrowed.problem is None
    assert narrowed.problem == "closed"


# -- who is told of what


class Told:
    """What each of two callers is told."""

    def __init__(self, live: ObservedBroker) -> None:
        self.live = live
        self.clerk, self.guest = Recorder(), Recorder()

    async def subscribe(self, *paths: str) -> list[Topic]:
        """Subscribe for both, where they can."""
        found: list[Topic] = []
        for caller, recorder in (CLERK, self.clerk), (GUEST, self.guest):
            with acting(caller):
                self.live.follow_list(recorder)
                for path in paths:
                    try:
                        found.append(await self.live.subscribe(uri_of(path), recorder))
                    except ResourceNotFound:
                        assert caller is GUEST
        await self.quiet()
        return found

    async def quiet(self) -> tuple[set[str], set[str]]:
        """Wait until nothing is left to be told; return what was, to each."""
        await silence(SETTLED_S, self.clerk, self.guest)
        async with asyncio.timeout(PATIENCE_S):
            await settled(self.live)
        return set(self.clerk.take()), set(self.guest.take())


@asynccontextmanager
async def telling(*mounts: Mount) -> AsyncGenerator[Told]:
    async with Catalog(mounts) as catalog:
        live = ObservedBroker(catalog, IMPATIENT)
        try:
            with observed_watches():
                yield Told(live)
        finally:
            await live.close()


def guarded_folder(root: Path) -> Mount:
    directories = {"hr": DirectoryOptions(access=needs("hr:read"))}
    return mounted(impatient_folder(root, directories=directories, watch="inotify"))


@pytest.mark.guarantee("hidden-does-not-exist")
async def test_callers_are_not_notified_of_changes_hidden_from_them(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("hr/pay.txt")
    folder.write("a.txt")
    async with telling(guarded_folder(tmp_path)) as told:
        assert len(await told.subscribe("", "hr", "hr/pay.txt", "a.txt")) == 6
        folder.write("hr/pay.txt", "more")
        folder.write("hr/new.txt")
        await told.clerk.of("hr", "hr/pay.txt", LIST)
        assert (await told.quiet())[1] == set()
        folder.remove("hr")
        await told.clerk.of("", "hr", "hr/pay.txt", LIST)
        assert (await told.quiet())[1] == set()
        folder.write("a.txt", "more")
        folder.write("b.txt")
        await told.clerk.of("", "a.txt", LIST)
        await told.guest.of("", "a.txt", LIST)
        assert (await told.quiet())[1] <= {"", "a.txt", LIST}


async def test_callers_with_different_scopes_may_unsubscribe_in_any_order(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("a.txt")
    async with telling(mounted(WatchedTree({}), "two", access=HR), mounted(
        impatient_folder(tmp_path, watch="inotify")
    )) as told:  # fmt: skip
        clerk, guest = await told.subscribe("a.txt")
        # Of one and the same mount: it is watched for both.
        assert clerk is not guest
        assert clerk.runner is guest.runner
        told.live.unsubscribe(clerk.uri, told.clerk, clerk.rights)
        folder.write("a.txt", "more")
        await told.guest.of("a.txt")
        assert "a.txt" not in (await told.quiet())[0]
        assert guest.runner is not None
        assert guest.runner.interest.paths == {("a.txt",)}
        told.live.unsubscribe(guest.uri, told.guest, guest.rights)
        assert guest.runner is None


async def test_list_changes_of_hidden_mounts_are_not_notified() -> None:
    hidden, shown = WatchedTree({"a": "x"}), WatchedTree({"a": "x"})
    async with telling(mounted(hidden, "two", access=HR), mounted(shown)) as told:
        await told.subscribe()
        hidden.set("b", to="y")
        await told.clerk.of(LIST)
        assert (await told.quiet())[1] == set()
        shown.set("b", to="y")
        await told.guest.of(LIST)
        assert (await told.quiet())[0] == {LIST}


async def test_a_changed_rule_ends_subscriptions_to_hidden_resources(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("hr/pay.txt")
    async with telling(mounted(impatient_folder(tmp_path, watch="inotify"))) as told:
        assert len(await told.subscribe("hr/pay.txt")) == 2
        async with Catalog([guarded_folder(tmp_path)]) as other:
            told.live.replace_catalog(other, relist=True)
            await told.guest.of("hr/pay.txt", LIST)
            assert "hr/pay.txt" not in (await told.quiet())[0]
            folder.write("hr/pay.txt", "more")
            await told.clerk.of("hr/pay.txt")
            assert (await told.quiet())[1] == set()


async def test_callers_whose_visible_mounts_stay_get_no_list_change() -> None:
    shown = mounted(Tree({}))
    async with telling(shown) as told:
        await told.subscribe()
        other = Catalog([shown, mounted(Tree({}), "two", access=HR)])
        told.live.replace_catalog(other, relist=True)
        await told.clerk.of(LIST)
        assert await told.quiet() == ({LIST}, set())


async def test_narrowed_subscriptions_survive_a_new_catalog(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    folder.write("a.txt")
    kept = guarded_folder(tmp_path)
    async with telling(kept) as told:
        await told.subscribe("a.txt")
        told.live.replace_catalog(Catalog([kept, mounted(Tree({}), "two")]), relist=False)
        await told.quiet()
        folder.write("a.txt", "more")
        await told.guest.of("a.txt")
        await told.clerk.of("a.txt")


class Shifting(WatchedTree):
    """Changes while it is listed for the second caller."""

    told: Told | None = None

    async def list(self, parent: Any, *, after: Any, limit: int) -> Sequence[Resource]:
        found = await settle(super().list(parent, after=after, limit=limit))
        told, self.told = self.told, None
        if told is not None:
            self.set("b", to="new")
            await told.clerk.of("")
        return found


async def test_a_change_during_a_second_subscription_notifies_the_new_caller() -> None:
    tree = Shifting({"a": "x"})
    async with telling(mounted(tree)) as told:
        with acting(CLERK):
            await told.live.subscribe(uri_of(""), told.clerk)
        await tree.asked(())
        tree.told = told
        with acting(GUEST):
            await told.live.subscribe(uri_of(""), told.guest)
        await told.guest.of("")
