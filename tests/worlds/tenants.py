"""Callers by claims: one server with the rows of all is to each as a server with its rows alone.

A case has two databases: one with the rows of several people, of which another caller reads first,
and one with the rows of a single caller. Both are sent the same requests by that caller, each
chosen by the responses before it, and answer with the same bytes. While the caller listens, the
rows of others change, of which nothing is told, and then its own, of which it is told.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from resource_server.access import Caller
from resource_server.catalog import mount
from resource_server.protocol.server import Server
from resource_server.providers.database import row_claims
from resource_server.providers.database.engines.postgres import engine as postgres_engine
from resource_server.subscriptions.topic import Topic, Topics
from tests.providers.database.owners import Owner
from tests.providers.database.servers import unique_name, with_parts
from tests.waiting import quiet_for, steady, until
from tests.worlds import manifests, twin_databases
from tests.worlds.callers import GUEST_SCOPES, HANDSHAKE, MODERN, CallerKind, Client, client_of
from tests.worlds.harness import Property, Tally, Violation
from tests.worlds.requests import Conversation, Step, steps
from tests.worlds.twin_databases import NoServerError

_QUIET_S = 0.2
_OWNERS = ("alice", "ALICE", "alice ", 'o\'brien \\ "x"', "bob", "\u2028%s $1 :x", "5")
_GENERIC = "sqlite+pysqlite"
"""The generic engine, on SQLite."""
_BASES = {
    "postgresql": "postgresql://shop/public/",
    "duckdb": "duckdb://shop/main/",
    _GENERIC: "sqlite://shop/",
}
_CONDITIONS: Mapping[str, Callable[[Mapping[str, Any], str, int], bool]] = {
    "owner = :claims.sub": lambda claims, owner, _: claims.get("sub") == owner,
    "team in :claims.org.teams": lambda claims, _, team: team in claims["org"]["teams"],
    "owner in (select m.login from members m where m.person = :claims.sub)": (
        lambda claims, owner, _: claims.get("sub") == owner
    ),
    "team <= :claims.level and owner = :claims.sub": (
        lambda claims, owner, team: claims.get("sub") == owner and team <= claims["level"]
    ),
}
_BY_SETTINGS = "settings"
"""The rows are those of row-level security, on PostgreSQL."""
_QUERIES: Mapping[str, Mapping[str, Any]] = {
    "mine": {"sql": "select id, note from people where owner = :claims.sub order by id"},
    "every": {"sql": "select count(*) as n, min(name) as least from people"},
    "orders": {"sql": "select o.id, p.name from orders o join people p on p.id = o.person"},
}


@dataclass(frozen=True)
class Tenant(CallerKind):
    """A caller with a token that has these claims, as JSON."""

    claims: str = "{}"

    @property
    def caller(self) -> Caller:
        """The caller as a transport knows it."""
        return Caller("guest", GUEST_SCOPES, claims=json.loads(self.claims))


@dataclass(frozen=True)
class Tenants:
    """A database of several people, the caller, and another caller before it."""

    engine: str
    condition: str
    rows: tuple[tuple[str, int], ...]
    """The owner and the team of each row of both tables."""
    caller: Tenant
    other: Tenant
    steps: tuple[Step, ...] = ()
    listens: bool = False
    opens_pages: bool = True


class _World:
    """A database with the rows of all, or with those of the caller alone, and its server."""

    def __init__(self, case: Tenants, place: Path, owner: Owner, *, is_alone: bool) -> None:
        self._case = case
        self._place = place
        self._owner = owner
        self._is_alone = is_alone
        self.role = ""

    def is_own(self, row: tuple[str, int]) -> bool:
        claims = json.loads(self._case.caller.claims)
        if self._case.condition == _BY_SETTINGS:
            # A setting is a text: that of the number 5 is the owner '5'.
            sub = claims.get("sub")
            text = sub if isinstance(sub, str) else json.dumps(sub)
            return sub is not None and text == row[0]
        return _CONDITIONS[self._case.condition](claims, *row)

    async def make(self) -> None:
        await self._owner.run(*_schema(self._case.engine, self._case.condition))
        for place, row in enumerate(self._case.rows):
            if not self._is_alone or self.is_own(row):
                await self._insert(3 * place, row)
        for person in _OWNERS:
            await self._owner.insert("members", (person, person))
        if self._case.condition == _BY_SETTINGS:
            await self._secure()

    async def _insert(self, place: int, row: tuple[str, int]) -> None:
        owner, team = row
        note = ("apple pie", "alpha 7x", "12", "")[place % 4]
        person = (place, f"n{place}", place % 5, note, 1, f"pin{place}", owner, team)
        await self._owner.insert("people", person)
        await self._owner.insert("orders", (place, place, place % 3, owner, team))

    async def _secure(self) -> None:
        self.role = unique_name()
        await self._owner.run(
            f"create role {self.role} login password 'x'",
            f"grant usage on schema public to {self.role}",
            f"grant select on people, orders, members to {self.role}",
        )
        for table in ("people", "orders"):
            await self._owner.run(
                f"alter table {table} enable row level security",
                f"create policy own on {table} using (owner = current_setting('app.user', true))",
            )

    async def close(self) -> None:
        if self.role:
            await self._owner.run(f"drop owned by {self.role}", f"drop role {self.role}")

    async def change(self, *, own: bool) -> None:
        """Change, remove and add rows of the caller, or of others."""
        if self._is_alone and not own:
            return
        rows = [3 * at for at, row in enumerate(self._case.rows) if self.is_own(row) is own]
        for n, place in enumerate(rows):
            sql = "delete from {} where id = {}" if n % 2 else "update {} set {} where id = {}"
            for table, change in (("people", "note = 'changed'"), ("orders", "amount = 99")):
                given = (table, place) if n % 2 else (table, change, place)
                await self._owner.run(sql.format(*given))
        for row in [row for row in self._case.rows if self.is_own(row) is own][:1]:
            await self._insert(1000 + own, row)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[Server]:
        async with manifests.build(self._manifest(), manifests.PATIENT) as server:
            await server.catalog.start()
            yield server

    def _manifest(self) -> Path:
        engine, condition = self._case.engine, self._case.condition
        scheme = _base(engine).partition(":")[0]
        options: dict[str, Any] = {"url": self._owner.url, "uri": f"{scheme}://shop/"}
        options["queries"] = dict(_QUERIES)
        tables: dict[str, Any] = {"columns": {"mask": {"pin": "hash"}}}
        options["tables"] = {"members": False, "people": tables, "orders": {}}
        if condition == _BY_SETTINGS:
            options["url"] = with_parts(self._owner.url, login=f"{self.role}:x")
            options["settings"] = {"app.user": "claims.sub", "request.jwt.claims": "claims"}
        else:
            options["tables"] |= {"people": {**tables, "where": condition}}
            options["tables"] |= {"orders": {"where": condition}}
        if engine in ("sqlite", "duckdb"):
            options["sql"] = True
        if engine != "sqlite":
            options["interval"] = "20ms"
        if engine == "postgresql":
            options["schemas"] = ["public"]
        return manifests.write(
            self._place,
            {
                "http": {"auth": {"tokens": ["not-used-by-any-caller"]}},
                "databases": {"shop": options},
            },
        )


def _schema(engine: str, condition: str) -> Sequence[str]:
    """Return statements that make the tables, with a collation that a condition must overrule."""
    collation = " collate nocase" if engine in ("sqlite", _GENERIC) else ""
    exact = " collate utf8mb4_nopad_bin" if engine == "mariadb" else ""
    if "members" in condition:  # their columns are compared as the database compares them
        collation = exact
    owner = f"owner varchar(40){collation}"
    return (
        "create table people (id integer primary key, name varchar(40), num integer,"
        f" note varchar(60), shown integer, pin varchar(20), {owner}, team integer)",
        "create table orders (id integer primary key, person integer, amount integer,"
        f" {owner}, team integer)",
        f"create table members (person varchar(40){exact} primary key, login varchar(40){exact})",
        "create view seen as select * from people",
    )


async def check(case: Tenants, tally: Tally) -> None:
    """Compare the server of all with the server of one."""
    place = Path(tempfile.mkdtemp(prefix="worlds-"))
    try:
        async with AsyncExitStack() as stack:
            worlds: list[_World] = []
            for name in ("all", "alone"):
                (place / name).mkdir()
                new = twin_databases.new_database(case.engine, place / name)
                owner = await stack.enter_async_context(new)
                world = _World(case, place / name, owner, is_alone=name == "alone")
                stack.push_async_callback(world.close)
                await world.make()
                worlds.append(world)
            await _compare(case, worlds[0], worlds[1], tally)
    except NoServerError as missing:
        tally.count(f"cases without {missing}")
    finally:
        shutil.rmtree(place)


async def _compare(case: Tenants, shared: _World, alone: _World, tally: Tally) -> None:
    async with shared.served() as server, alone.served() as other:
        # Whatever the other caller leaves behind: caches, mounts, topics, connections.
        async with client_of(server, case.other) as neighbour:
            await _talk(case, neighbour)
            if case.listens:
                await _subscribe(neighbour, _targets(case))
            first = await _listening(case, shared, server, tally)
        _assert_same(first, await _listening(case, alone, other, tally), tally)


async def _listening(case: Tenants, world: _World, server: Server, tally: Tally) -> Client:
    """Send all requests; then change rows while the client listens, and send them again."""
    async with client_of(server, case.caller) as client:
        await _talk(case, client)
        if not case.listens:
            return client
        await _subscribe(client, _targets(case))
        told = client.notifications
        await steady(lambda: len(told), _QUIET_S)
        before = len(told)
        await world.change(own=False)
        await quiet_for(_QUIET_S)
        if more := told[before:]:
            raise Violation(f"a change of the rows of others is told: {more}")
        await world.change(own=True)
        if any(map(world.is_own, case.rows)):
            await until(lambda: told[before:])
        await steady(lambda: len(told), _QUIET_S)
        tally.count("silences")
        await _talk(case, client)
        return client


def _base(engine: str) -> str:
    return _BASES.get(engine, f"{engine}://shop/")


def _targets(case: Tenants) -> list[str]:
    base = _base(case.engine)
    return [f"{base}people/~rows", f"{base}orders/~rows?count", f"{base}people/~summary?by=team"]


async def _subscribe(client: Client, targets: Sequence[str]) -> None:
    if client.kind.is_modern:
        client.listen(list(targets))
        await until(lambda: client.notifications)  # the acknowledgement
        return
    for uri in targets:
        await client.ask("resources/subscribe", {"uri": uri})


async def _talk(case: Tenants, client: Client) -> None:
    base = _base(case.engine)
    guesses = [f"{base}people/{3 * place}" for place in range(len(case.rows))]
    conversation = Conversation(
        client,
        [*guesses, f"{base}people/~summary?by=owner", f"{base}orders/~rows?count", f"{base}seen"],
        ("apple", "n3"),
        ("n3", "7"),
        {"schema": "public", "table": "people"},
        opens_pages=case.opens_pages,
    )
    await conversation.explore()
    for step in case.steps:
        await conversation.take(step)


def _assert_same(one: Client, other: Client, tally: Tally) -> None:
    for shared, alone in zip(one.exchanges, other.exchanges, strict=False):
        if shared != alone:
            raise Violation(
                f"answered differently: {shared.request}\nof all:   {shared.response[:900]!r}\n"
                f"of one: {alone.response[:900]!r}"
            )
    tally.count("requests", len(one.exchanges))


# -- cases


@st.composite
def cases(
    draw: st.DrawFn,
    engines: Sequence[str] = (
        *["sqlite"] * 4,
        *["postgresql"] * 2,
        *("mariadb", "duckdb", _GENERIC),
    ),
    conditions: Sequence[str] = (*_CONDITIONS, _BY_SETTINGS),
    *,
    listens: bool | None = None,
    lacks_claims: bool = False,
) -> Tenants:
    """Generate callers who share a server."""
    engine = draw(st.sampled_from(engines))
    usable = [each for each in conditions if each != _BY_SETTINGS or engine == "postgresql"]
    row = st.tuples(st.sampled_from(_OWNERS), st.integers(1, 4))
    rows = draw(st.lists(row, min_size=4, max_size=9))
    people = draw(st.permutations(_OWNERS))
    revision = st.sampled_from((*HANDSHAKE[-1:], MODERN))
    return Tenants(
        engine,
        draw(st.sampled_from(usable)),
        (*rows, (people[0], 1), (people[1], 2)),
        Tenant(draw(revision), True, draw(_claims(people[0], lacks=lacks_claims))),
        Tenant(draw(revision), True, draw(_claims(people[1], lacks=False))),
        tuple(draw(st.lists(steps, max_size=6))),
        draw(st.sampled_from((False, False, True))) if listens is None else listens,
        draw(st.sampled_from((False, False, False, True))),
    )


def _claims(person: str, *, lacks: bool) -> st.SearchStrategy[str]:
    teams = st.lists(st.integers(1, 4), max_size=2, unique=True)
    sub = st.just(person)
    if lacks:
        sub, teams = st.sampled_from((None, {"a": 1}, 5, "x" * 5000)), st.just(list[int]())
    claims = {"org": st.fixed_dictionaries({"teams": teams}), "level": st.integers(1, 4)}
    return st.fixed_dictionaries({"sub": sub, **claims}).map(json.dumps)


# -- sabotages


@contextmanager
def _patched(owner: object, name: str, replacement: object) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, replacement)
        yield


def _without_values(_: object) -> bytes:
    return b"{}"


def _any_topic(self: Topics, uri: str, _: object) -> Topic | None:
    return next((each for each in self.all() if each.uri == uri), None)


async def _apply_once(connection: Any, statement: Any) -> None:
    """Set what no statement on the connection has set before, for the whole session."""
    for name, value in getattr(statement, "settings", ()):
        known = await connection.fetchval("SELECT current_setting($1, true)", name)
        if not known:
            await connection.execute("COMMIT")
            await connection.execute(f"SELECT set_config('{name}', $1, false)", value)
            await connection.execute("BEGIN READ ONLY")


def _by_collation(column: str, texts: Sequence[Any], *_: object) -> str:
    return f"({' OR '.join(f'{column} = {each.sql}' for each in texts)})"


SABOTAGES: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    # Callers share the mount of the first one, whatever their claims.
    "values of a mount": lambda: _patched(mount, "_encode", _without_values),
    # A claim that is missing shows everything.
    "missing claim": lambda: _patched(row_claims, "NOTHING", "1 = 1"),
    # Subscribers share the topic of the first one.
    "values of a topic": lambda: _patched(Topics, "get", _any_topic),
    # A connection keeps the settings of a caller.
    "settings of a connection": lambda: _patched(postgres_engine, "apply_settings", _apply_once),
    # Texts are equal as the collation says.
    "collation": lambda: _patched(row_claims, "_same_text", _by_collation),
}
"""Ways to mix callers, by the name of what is left out."""

_OF_SQLITE = cases(("sqlite",), listens=False)
_SABOTAGED: Mapping[str, st.SearchStrategy[Tenants]] = {
    "values of a mount": _OF_SQLITE,
    "missing claim": cases(("sqlite",), listens=False, lacks_claims=True),
    "values of a topic": cases(("sqlite",), ("owner = :claims.sub",), listens=True),
    "settings of a connection": cases(("postgresql",), (_BY_SETTINGS,), listens=False),
    "collation": cases(("sqlite", "mariadb", _GENERIC), ("owner = :claims.sub",), listens=False),
}

PROPERTY = Property(
    name="tenants",
    cases=st.one_of(cases(), cases(), cases(lacks_claims=True)),
    check=check,
    sabotages=SABOTAGES,
    sabotaged=_SABOTAGED,
    weight=3,
)
