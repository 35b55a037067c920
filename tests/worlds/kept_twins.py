"""Twins that once differed for a caller, each by a cause that is mended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.worlds.callers import CallerKind
from tests.worlds.folders import Directory, File, FolderTwins, HiddenNode, Link
from tests.worlds.twin_databases import ENGINES, DatabaseTwins
from tests.worlds.twins import Twins


def _databases(
    setup: tuple[str, ...],
    change: tuple[str, ...],
    people: dict[str, Any],
    *,
    engines: tuple[str, ...] = ENGINES,
    queries: dict[str, Any] | None = None,
    listens: bool = False,
) -> Iterator[Twins]:
    """Yield a case for each engine; `people` are the options of that table."""
    for engine in engines:
        tables = {"people": people, "vault": False}
        database = DatabaseTwins(engine, setup, change, tables, queries or {})
        yield Twins(
            None, database, CallerKind("2025-11-25"), {}, ("hush",), listens=listens, restarts=True
        )


_WHERE = {"where": "shown = 1"}
_HIDES = {"columns": {"hide": ["secret"]}}
_PEOPLE = "create table people (id integer primary key, num integer, shown integer)"

KEPT: tuple[Twins, ...] = (
    # A hidden row with NULL in a primary key, which SQLite allows, gave all rows other addresses.
    *_databases(
        (
            "create table people (name varchar(9) primary key, shown integer)",
            "insert into people values ('a', 1)",
        ),
        ("insert into people values (null, 0)",),
        _WHERE,
        engines=("sqlite",),
    ),
    # A unique index on a hidden column was preferred as the key, so rows had no address any more.
    *_databases(
        (
            "create table people (name varchar(9) not null, secret varchar(9) not null)",
            "create unique index by_name on people (name)",
            "insert into people values ('a', 'b')",
        ),
        ("create unique index a_secret on people (secret)",),
        _HIDES,
    ),
    # The condition of a partial index named a hidden column.
    *_databases(
        ("create table people (id integer primary key, num integer, secret varchar(9))",),
        ("create index by_num on people (num) where secret > 'a'",),
        _HIDES,
        engines=("sqlite", "postgresql"),
    ),
    # A foreign key to a hidden table took the DDL away.
    *_databases(
        (
            "create table vault (id integer primary key)",
            "create table people (id integer primary key, num integer)",
        ),
        ("alter table people add foreign key (num) references vault (id)",),
        {},
        engines=("postgresql",),
    ),
    # The conditions of a declared query saw rows before the manifest's condition.
    *_databases(
        (_PEOPLE, "insert into people values (1, 10, 1)"),
        ("insert into people values (2, 5, 0)",),
        {"where": "shown * 1 * 1 * 1 * 1 = 1"},
        queries={
            "divided": {
                "sql": "select id from people where 100 / (num - :i) > -1000 order by id",
                "parameters": {"i": {"type": "integer"}},
            }
        },
    ),
    # Subscribers to a table of many rows, and to one of them, were told of hidden commits.
    *_databases(
        (
            _PEOPLE,
            "insert into people with recursive n (i) as"
            " (select 1 union all select i + 1 from n where i < 1000) select i, i, 1 from n",
        ),
        ("insert into people values (2000, 1, 0)", "create table vault (id integer)"),
        _WHERE,
        listens=True,
    ),
    # A link that leads outside the root came with a notification.
    Twins(
        FolderTwins(
            (File("a.txt"),),
            (HiddenNode(None, Link("to", "/etc/passwd")),),
            {"symlinks": "within-root"},
        ),
        None,
        CallerKind("2025-11-25"),
        {},
        listens=True,
    ),
    # The start page of a fresh server called a mount with a hidden directory unavailable.
    Twins(
        FolderTwins(
            (File("a.txt"),),
            (HiddenNode(Directory("docs/hr"), None),),
            {"directories": {"docs/hr": {"access": {"scopes": ["hr:read"]}}}},
            access=True,
        ),
        None,
        CallerKind("2025-11-25", has_token=True),
        {},
        restarts=True,
    ),
)
