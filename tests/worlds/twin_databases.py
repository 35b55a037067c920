"""Twin databases: two states of one database that differ only in what is hidden."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hypothesis import strategies as st

from resource_server.manifest.databases.owner_sql import is_database
from resource_server.provider import Provider
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.policy_logins import drop_statements, login_url, policy_statements
from tests.providers.database.servers import server_url, unique_name, with_parts
from tests.worlds.requests import STATEMENTS

POSTGRES = server_url("RESOURCE_SERVER_TEST_POSTGRES", "postgresql://postgres@127.0.0.1/postgres")
MYSQL = server_url("RESOURCE_SERVER_TEST_MYSQL", "mysql://root@127.0.0.1:3306/mysql")
ENGINES = ("sqlite", "postgresql", "mariadb")
KINDS = (*ENGINES, "duckdb")
_FILES = ("sqlite", "duckdb")
"""Those that need no login for the SQL of callers."""
"""DuckDB is slow to start: the cases that are kept are those of the others."""
_BASES = {"postgresql": "postgresql://shop/public/", "duckdb": "duckdb://shop/main/"}


@dataclass(frozen=True)
class DatabaseTwins:
    """A database, and how what is hidden in it changes."""

    engine: str
    setup: tuple[str, ...]
    """SQL that makes the first world."""
    change: tuple[str, ...]
    """SQL that makes the second world of the first."""
    tables: dict[str, Any] = field(default_factory=dict[str, Any])
    """The option `tables` of the manifest."""
    queries: dict[str, Any] = field(default_factory=dict[str, Any])
    """The option `queries` of the manifest."""
    takes_sql: bool = True
    """Whether callers may send SQL."""

    @property
    def base(self) -> str:
        """URI of the tables."""
        return _BASES.get(self.engine, f"{self.engine}://shop/")

    @property
    def needs_login(self) -> bool:
        """Whether SQL of callers runs with a login of its own."""
        return self.takes_sql and self.engine not in _FILES

    def options(self, url: str) -> Mapping[str, Any]:
        """Return the options of the database in the manifest."""
        options: dict[str, Any] = {"url": url, "tables": self.tables, "queries": self.queries}
        if self.engine != "sqlite":
            options["interval"] = "20ms"
        if self.takes_sql:
            options["sql"] = (
                {"url": login_url(url, self.engine, urlsplit(url).path[1:])}
                if self.needs_login
                else True
            )
        if self.engine == "postgresql":
            options["schemas"] = ["public"]
        return {**options, "uri": f"{self.engine}://shop/"}


class NoServerError(Exception):
    """No server of an engine listens."""


@asynccontextmanager
async def new_database(engine: str, place: Path) -> AsyncGenerator[Owner]:
    """Create an empty database, yield its owner, and drop it.

    Raises:
        NoServerError: no server of this engine listens.
    """
    if engine.partition("+")[0] in _FILES:
        async with owner_of(f"{engine}:///{place}/shop.db") as owner:
            yield owner
        return
    server = POSTGRES if engine == "postgresql" else MYSQL
    name = unique_name()
    try:
        administrator = owner_of(server)
        admin = await administrator.__aenter__()
    except Exception as error:
        raise NoServerError(engine) from error
    charset = " CHARACTER SET utf8mb4" if engine == "mariadb" else ""
    try:
        await admin.run(f"CREATE DATABASE {name}{charset}")
        try:
            async with owner_of(with_parts(server, database=name)) as owner:
                yield owner
        finally:
            force = " WITH (FORCE)" if engine == "postgresql" else ""
            await admin.run(f"DROP DATABASE {name}{force}", *drop_statements(engine, name))
    finally:
        await administrator.__aexit__(None, None, None)


async def run(owner: Owner, statements: Sequence[str]) -> None:
    """Run statements; one that a constraint or an earlier one rules out has no effect."""
    for statement in statements:
        with suppress(Exception):
            await owner.run(statement)


async def make_policy(owner: Owner, provider: Provider, engine: str) -> None:
    """Make the views and the login for callers' SQL, as the owner of a server does."""
    assert is_database(provider)
    for statement in await policy_statements(provider, engine, urlsplit(owner.url).path[1:]):
        await owner.run(statement)


# -- generation


@dataclass(frozen=True)
class Alteration:
    """A statement that changes nothing that is visible."""

    sql: str
    hides: tuple[str, ...] = ()
    """Columns of `people` that must be hidden for this."""
    engines: tuple[str, ...] = KINDS
    needs_where: bool = False
    """Whether it changes rows that a condition must hide."""
    masks: bool = False
    """Whether the column `pin` must be masked."""


_SERVERS = ENGINES[1:]
_LAST4 = {
    "sqlite": "update people set pin = {} || substr(pin, -4) where shown = 1 and id < 2000",
    "postgresql": "update people set pin = {} || right(pin, 4) where shown = 1 and id < 2000",
    "mariadb": "update people set pin = concat({}, right(pin, 4)) where shown = 1 and id < 2000",
    "duckdb": "update people set pin = concat({}, right(pin, 4)) where shown = 1 and id < 2000",
}
_LONG = {
    "sqlite": "replace(hex(zeroblob(600000)), '0', 'x')",
    "postgresql": "repeat('x', 1200000)",
    "mariadb": "repeat('x', 1200000)",
    "duckdb": "repeat('x', 1200000)",
}
_HIDDEN = "shown = 0 or shown is null"
ALTERATIONS: tuple[Alteration, ...] = (
    # Hidden columns: values, indexes, definitions
    Alteration("update people set secret = null", ("secret",)),
    Alteration("update people set secret = 'hush'", ("secret",)),
    Alteration("update people set secret = 'other' where id = 0", ("secret",)),
    Alteration(
        "update people set secret = replace(hex(zeroblob(600000)), '0', 'x')",
        ("secret",),
        ("sqlite",),
    ),
    Alteration("update people set note = 'hush'", ("note",)),
    Alteration("create index by_secret on people (secret)", ("secret",)),
    Alteration("create index by_secret_and_num on people (num, secret)", ("secret",)),
    Alteration("create unique index a_secret on people (secret)", ("secret",)),
    Alteration("create unique index a_secret_and_name on people (name, secret)", ("secret",)),
    Alteration(
        "create index by_length on people (length(secret))", ("secret",), ("sqlite", "postgresql")
    ),
    Alteration(
        "create index by_some on people (num) where secret > 'a'",
        ("secret",),
        ("sqlite", "postgresql"),
    ),
    Alteration("update people set extra = 5", ("extra",)),
    Alteration("update people set extra = id", ("extra",)),
    Alteration("alter table people add unique (extra)", ("extra",), _SERVERS),
    Alteration("create index by_extra on people (extra)", ("extra",)),
    Alteration("alter table people alter column secret type text", ("secret",), ("postgresql",)),
    Alteration("alter table people alter column secret set not null", ("secret",), ("postgresql",)),
    Alteration(
        "alter table people alter column secret set default 'num'", ("secret",), ("postgresql",)
    ),
    Alteration("alter table people add unique (secret)", ("secret",), _SERVERS),
    Alteration("comment on column people.secret is 'hush'", ("secret",), ("postgresql",)),
    Alteration(
        "alter table people modify secret varchar(40) not null comment 'hush'",
        ("secret",),
        ("mariadb",),
    ),
    Alteration("alter table people modify secret text", ("secret",), ("mariadb",)),
    Alteration("alter table people add constraint c check (secret <> 'zz')", ("secret",), _SERVERS),
    Alteration(
        "alter table people add foreign key (secret) references words (word)", ("secret",), _SERVERS
    ),
    Alteration("create statistics s on num, secret from people", ("secret",), ("postgresql",)),
    # Masked values
    Alteration("another pin", masks=True),
    Alteration("a long pin", masks=True),
    Alteration("create index by_pin on people (pin)", ("pin",)),
    Alteration("update people set pin = 'hush'", ("pin",)),
    # Hidden rows
    Alteration(f"delete from people where {_HIDDEN}", needs_where=True),
    Alteration(f"update people set note = 'hush more' where {_HIDDEN}", needs_where=True),
    Alteration(f"update people set num = num + 50 where {_HIDDEN}", needs_where=True),
    Alteration(f"update people set num = null where {_HIDDEN}", needs_where=True),
    Alteration(f"update people set name = null where {_HIDDEN}", needs_where=True),
    Alteration("update people set shown = -1 where shown = 0", needs_where=True),
    # Hidden tables
    Alteration("create table vault (id integer primary key, plan varchar(40))"),
    Alteration(
        "create table vault (id integer primary key, o integer,"
        " foreign key (o) references orders (id))"
    ),
    Alteration("insert into vault (id) values (1)"),
    Alteration("delete from vault"),
    Alteration("drop table vault"),
    Alteration("create view view_vault as select * from people"),
    Alteration("drop view view_vault"),
    Alteration("alter table vault add column other integer"),
    Alteration("create table other_vault (secret integer)"),
    Alteration(
        "alter table people add foreign key (num) references vault (id)", (), ("postgresql",)
    ),
    Alteration("create trigger t after insert on vault begin select 1; end", (), ("sqlite",)),
    Alteration("analyze", (), ("sqlite",)),
    Alteration("insert into blocked values (99)"),
    Alteration(
        "create schema other; create table other.people (id integer primary key)",
        (),
        ("postgresql",),
    ),
    Alteration("drop schema other cascade", (), ("postgresql",)),
)
_WHERES = (
    "shown = 1",
    "shown = 1 and id is not null",
    "shown = 1 and num < 100",
    "shown * 1 * 1 * 1 * 1 = 1",  # PostgreSQL tries cheap conditions first
    "shown = 1 and id not in (select id from blocked)",
    None,
)
_TEXT_INDEXES = {
    "sqlite": (
        "create virtual table texts using fts5(note, secret, content='people')",
        "create trigger added after insert on people begin"
        " insert into texts(rowid, note, secret) values (new.rowid, new.note, new.secret); end",
        "create trigger removed after delete on people begin insert into texts(texts, rowid, note,"
        " secret) values ('delete', old.rowid, old.note, old.secret); end",
        "create virtual table parts using fts5(name, note, content='people', tokenize='trigram')",
        "create trigger parted after insert on people begin"
        " insert into parts(rowid, name, note) values (new.rowid, new.name, new.note); end",
    ),
    "postgresql": (
        "create extension pg_trgm",
        "create index on people using gin (to_tsvector('simple', note))",
        "create index on people using gin (to_tsvector('english', name || ' ' || secret))",
        "create index on people using gin (name gin_trgm_ops, note gin_trgm_ops)",
        "create index on people using gin (secret gin_trgm_ops)",
    ),
    "mariadb": (
        "alter table people add fulltext (note)",
        "alter table people add fulltext (name, secret)",
    ),
}
"""Indexes of the words and parts of visible and hidden text."""
_PRIMARY = ("primary key (id)", "primary key (name)", "primary key (num, name)", "", "")
_UNIQUE = ("unique (num)", "unique (name)", "unique (num, name)", "unique (secret)", "unique (id)")
_INDEXES = (
    "create index by_note on people (note)",
    "create index by_lower on people (lower(name))",
    "create index by_num on people (num desc)",
)
_QUERIES: Mapping[str, str] = {
    "all": "select * from people order by id",
    "named": "select id, name from people where name = :n order by id",
    "count": "select count(*) as n from people",
    "divided": "select id from people where 100 / (num - :i) > -1000 order by id",
    "quotient": "select id, 100 / (num - :i) as q from people order by id",
    "greatest": "select max(num) as m, min(id) as l from people",
    "cast": "select id from people where cast(note as decimal) > :i order by id",
    "joined": "select o.id, p.name from orders o join people p on p.id = o.person order by o.id",
    "outer": "select o.id, p.name from orders o left join people p on p.id = o.person"
    " order by o.id",
    "grouped": "select num, count(*) as c from people group by num order by num",
    "numbered": "select id, row_number() over (order by id) as r from people order by id",
    "hidden column": "select secret from people order by id",
    "by hidden column": "select id from people order by secret, id",
    "extra column": "select id, extra from people order by id",
    "hidden table": "select count(*) as n from vault",
    "if hidden": "select id from orders where exists (select 1 from vault) order by id",
    "view": "select * from seen order by id",
    "length": "select id from people where 10 / (length(note) - :i) > -100 order by id",
    "in": "select id from people where id in (select person from orders) order by id",
    "with": "with p as (select * from people)"
    " select id from p where 9 / (num - :i) < 99 order by id",
    "scalar": "select (select max(num) from people) as m from orders order by id",
    "having": "select num from people group by num having 9 / (num - :i) < 99 order by num",
    "power": "select id from people where sqrt(abs(num) - :i) >= 0 order by id",
}
_DECLARED: Mapping[str, Mapping[str, str]] = {
    engine: {
        **_QUERIES,
        # There both are confined in the same way.
        **({f"sql {n}": sql for n, sql in enumerate(STATEMENTS)} if engine == "sqlite" else {}),
    }
    for engine in KINDS
}
"""The queries of the manifest."""
WORDS = ("alpha", "hush", "secret", "12", "vault", "n", "h1")
"""Words of values, hidden or not, and of names."""
VALUES = ("1", "3", "5", "101", "201", "hush", "h1", "n0")
"""Arguments of queries."""
GUESSES = (
    *(f"people/{key}" for key in (5, 15, 1000, 0, "h1", "n0", "n1/..", 1, 3, "1/h0", "5/h1")),
    *(f"people/{key}/~cell/{column}" for key in (0, 5, "n0") for column in ("secret", "pin")),
    *(f"people/~rows?columns={column}" for column in ("secret", "shown", "extra", "id,pin")),
    "vault",
    "vault/~rows",
    "vault/~schema",
    "vault/1",
    "other_vault",
    "blocked/~schema",
)
"""Paths of hidden things and of others, below the tables."""
_NOTES = ("alpha", "beta", "12", "", "alpha beta gamma")
_HIDEABLE: tuple[str, ...] = ("secret", "shown", "pin", "note", "extra")
_REQUIRABLE: tuple[str, ...] = ("id", "name", "num", "secret")
_MANY = 1100
"""Rows of a table beyond what a subscription compares."""


def _sql(value: object) -> str:
    if value is None:
        return "null"
    return f"'{value}'" if isinstance(value, str) else str(value)


@st.composite
def database_twins(draw: st.DrawFn, engine: str) -> DatabaseTwins:
    """Generate a database whose table `people` has hidden parts, beside hidden tables."""
    hide: set[str] = draw(st.sets(st.sampled_from(_HIDEABLE)))
    where = draw(st.sampled_from(_WHERES))
    columns: dict[str, Any] = {"hide": sorted(hide)}
    if "pin" not in hide:
        columns["mask"] = {"pin": draw(st.sampled_from(("redact", "last4")))}
    options: dict[str, Any] = {"columns": columns}
    if where:
        options["where"] = where
    # Mostly the default, which is all that is text.
    search = draw(st.sampled_from((None, None, ["name", "note", "secret", "pin"], False)))
    if search is not None:
        options["search"] = search
    if draw(st.sampled_from((False, False, True))):
        options["key"] = draw(st.sampled_from((["num"], ["id"], ["name"], ["secret"])))
    if draw(st.sampled_from((False, False, True))):
        options["change"] = {"column": draw(st.sampled_from(("num", "secret", "id")))}
    declared = _DECLARED[engine]
    names = draw(st.sets(st.sampled_from(tuple(declared)), max_size=5))
    alterations = st.sampled_from(
        [
            each
            for each in ALTERATIONS
            if engine in each.engines
            and hide.issuperset(each.hides)
            and (where or not each.needs_where)
            and ("pin" not in hide or not each.masks)
        ]
    ).map(lambda each: _statement(each, engine))
    rows = st.lists(_hidden_rows, min_size=1, max_size=5) if where else st.just([])
    return DatabaseTwins(
        engine,
        (
            *_schema(draw, engine, hide, options.get("key")),
            *draw(rows),
            *draw(st.lists(alterations, max_size=9)),
        ),
        (*draw(st.lists(alterations, min_size=4, max_size=16)), *draw(rows)),
        {"people": options, "*vault": False, "blocked": False},
        {name.replace(" ", "_"): _query(declared[name]) for name in sorted(names)},
        engine == "sqlite" or draw(st.booleans()),
    )


def _statement(alteration: Alteration, engine: str) -> str:
    if alteration.masks:
        return _LAST4[engine].format("'hush'" if "another" in alteration.sql else _LONG[engine])
    return alteration.sql


def _query(sql: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    if ":n" in sql:
        parameters["n"] = {"type": "string"}
    if ":i" in sql:
        parameters["i"] = {"type": "integer"}
    return {"sql": sql, "parameters": parameters}


def _schema(draw: st.DrawFn, engine: str, hide: set[str], declared: list[str] | None) -> list[str]:
    """Return the statements that make the tables and their visible rows."""
    required: set[str] = draw(st.sets(st.sampled_from(_REQUIRABLE)))
    types = {
        "id": "integer",
        "name": "varchar(40)",
        "num": "integer",
        "note": "varchar(60)",
        "shown": "integer",
        "pin": "text",
        "secret": draw(st.sampled_from(("varchar(40)", "varchar(40) default 'hush'"))),
    }
    if draw(st.booleans()):
        types = {"secret": types.pop("secret"), **types}
    elif "secret" not in hide and draw(st.booleans()):
        del types["secret"]
    # A table without a column that the manifest hides is not served, so twins have it alike.
    if "extra" in hide:
        types["extra"] = "integer"
    columns = [
        f"{name} {type_}{' not null' if name in required else ''}" for name, type_ in types.items()
    ]
    # A change of what is hidden may move a row of DuckDB, whose place is its address without a key.
    primary = _PRIMARY[:1] if engine == "duckdb" else _PRIMARY
    keys = [draw(st.sampled_from(primary)), *draw(st.sets(st.sampled_from(_UNIQUE)))]
    keys = [key for key in keys if key and ("secret" not in key or "secret" in types)]
    statements = [
        "create table words (word varchar(40) primary key)",
        "create table blocked (id integer)",
        f"create table people ({', '.join((*columns, *sorted(keys)))})",
        "create table orders (id integer primary key, person integer, amount integer)",
        "create view seen as select max(id) as id, max(name) as name from people where shown = 1",
        *sorted(draw(st.sets(st.sampled_from(_INDEXES)))),
        *draw(st.sampled_from(((), _TEXT_INDEXES.get(engine, ())))),
    ]
    # Rows without a key have no order of their own, but for SQLite's rowids.
    ordered = engine == "sqlite" or _has_key(keys, required, hide, declared)
    for place in range(draw(st.integers(1, 4)) if ordered else 1):
        note, pin = draw(st.sampled_from(_NOTES)), f"pin{place}-123{place}"
        statements.append(_insertion(10 * place, f"n{place}", 2 * place, note, 1, pin))
        statements.append(f"insert into orders values ({place}, {10 * place}, {place % 2})")
    if ordered and draw(st.sampled_from((*[False] * 9, True))):
        statements.append(
            "insert into people (id, name, num, note, shown, pin) with recursive n (i) as "
            f"(select 2000 union all select i + 1 from n where i < {2000 + _MANY})"
            " select i, concat('m', i), i, 'many', 1, 'manymany' from n"
        )
    return statements


def _has_key(
    constraints: list[str], required: set[str], hide: set[str], declared: list[str] | None
) -> bool:
    """Return whether visible columns address the rows."""
    if declared is not None:
        return not hide.intersection(declared)
    for constraint in constraints:
        columns = set(constraint.partition("(")[2].rstrip(")").split(", "))
        is_required = constraint.startswith("primary") or columns <= required
        if is_required and not hide & columns:
            return True
    return False


def _insertion(*values: object) -> str:
    listed = ", ".join(map(_sql, values))
    return f"insert into people (id, name, num, note, shown, pin) values ({listed})"


# Beside the visible rows, with their keys, or with NULL in them; a constraint may refuse some.
_hidden_rows = st.builds(
    _insertion,
    st.sampled_from((5, 15, 1000, -1, 0, None)),
    st.sampled_from(("h0", "h1", "n0x", "", None, None)),
    st.sampled_from((1, 3, 5, 101, 201, -1, None, None)),
    st.sampled_from(("hush", "hush alpha", "7x", "12", "", None)),
    st.sampled_from((0, None)),
    st.sampled_from(("hush-9999", "", None)),
)
