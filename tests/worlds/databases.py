"""Databases of a world: schemas with rows, built on SQLite, PostgreSQL and MariaDB.

Definitions and values are SQL text, so that a failing case reads like the script of its database.
A generated definition may be one that the engine refuses; such a relation is left out when the
schema is built.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import pytest

from tests.providers.database.owners import Owner, owner_of
from tests.worlds.column_types import EngineName, quoted

ENGINES: tuple[EngineName, ...] = ("sqlite", "postgresql", "mariadb")

_MEMORY = next((path for path in ("/dev/shm",) if Path(path).is_dir()), None)  # noqa: S108
"""A file system in memory, where there is one."""

TAG = "tag"
"""The column that numbers the rows of every relation, in the order of `Relation.rows`."""


@dataclass(frozen=True)
class Relation:
    """A table or view with its rows."""

    name: str
    create: tuple[str, ...]
    """Statements that make it, and what it needs, in order."""
    columns: tuple[str, ...]
    """The columns whose values `rows` gives, without `TAG`."""
    rows: tuple[tuple[str, ...], ...]
    """SQL literals of the values; the place of a row is its tag."""
    into: tuple[str, ...]
    """The tables that the rows go into, in turn: its own name, children, or the table of a view."""
    finish: tuple[str, ...] = ()
    """Statements after the rows, such as indexes; what the engine refuses is left out."""


@dataclass(frozen=True)
class Schema:
    """The relations of one database."""

    engine: EngineName
    relations: tuple[Relation, ...]
    namespace: str = "public"
    """The name of the schema, on PostgreSQL."""
    settings: tuple[str, ...] = ()
    """Statements that set up the empty database; `{}` is its name."""


# -- databases that are built, read by their owner, and dropped


class LiveDatabase:
    """A database of one engine, emptied and built again for each schema."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._schema = Schema("sqlite", ())

    @property
    def url(self) -> str:
        """The URL of the database."""
        return self.owner.url

    async def build(self, schema: Schema) -> list[Relation]:
        """Make the schema in an empty database; return the relations that the engine accepts."""
        await self._clear(schema)
        self._schema = schema
        for statement in schema.settings:
            await self.owner.run(statement.replace("{}", self._database))
        built: list[Relation] = []
        for relation in schema.relations:
            with suppress(Exception):  # the engine's refusal, which is the engine's business
                await self._create(relation)
                built.append(relation)
        return built

    async def insert(self, relation: Relation, tags: Iterable[int]) -> None:
        """Insert rows, but those that the engine refuses, such as a second one of a key."""
        by_table: dict[str, list[int]] = {}
        for tag in tags:
            by_table.setdefault(relation.into[tag % len(relation.into)], []).append(tag)
        for table, some in by_table.items():
            try:
                await self.owner.run(self._insertion(relation, table, some))
            except Exception:
                for tag in some:
                    with suppress(Exception):
                        await self.owner.run(self._insertion(relation, table, [tag]))

    async def delete(self, relation: Relation, tag: int) -> None:
        """Delete a row."""
        table = relation.into[tag % len(relation.into)]
        await self.owner.run(f"DELETE FROM {self.quoted(table)} WHERE {TAG} = {tag}")  # noqa: S608

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT of the owner."""
        return await self.owner.rows(sql)

    def quoted(self, name: str) -> str:
        """Return a name as the engine writes it in SQL."""
        return quoted(self._schema.engine, name)

    @property
    def _database(self) -> str:
        return urlsplit(self.url).path[1:]

    async def _clear(self, schema: Schema) -> None:
        match schema.engine:
            case "sqlite" | "duckdb":
                await self._clear_file()
            case "postgresql":
                namespace = quoted("postgresql", schema.namespace)
                old = quoted("postgresql", self._schema.namespace)
                await self.owner.run(
                    f"ALTER DATABASE {self._database} RESET ALL;"
                    f" ALTER DATABASE {self._database} SET search_path = public, extensions;"
                    f" DROP SCHEMA IF EXISTS {old} CASCADE;"
                    f" DROP SCHEMA IF EXISTS {namespace} CASCADE; CREATE SCHEMA {namespace};"
                    f" SET search_path = {namespace}, extensions"
                )
            case "mariadb":
                await self.owner.clear()

    async def _clear_file(self) -> None:
        # Another file: connections of an earlier case may still have the old one open.
        await self.owner.close()
        self.owner.url = self.owner.own_url = _next_file(self.owner.url)
        await self.owner.open()
        if self.owner.engine == "sqlite":
            await self.owner.run("PRAGMA synchronous = OFF")

    async def _create(self, relation: Relation) -> None:
        await self.owner.run(*relation.create)
        await self.insert(relation, range(len(relation.rows)))
        for statement in relation.finish:
            with suppress(Exception):
                await self.owner.run(statement)
        # What cannot be read at all is refused, too: a view with an error, for example.
        await self.rows(f"SELECT {TAG} FROM {self.quoted(relation.name)}")  # noqa: S608

    def _insertion(self, relation: Relation, table: str, tags: Sequence[int]) -> str:
        engine = self._schema.engine
        names = ", ".join(self.quoted(name) for name in (TAG, *relation.columns))
        rows = ", ".join(f"({', '.join((str(tag), *relation.rows[tag]))})" for tag in tags)
        verb = {"sqlite": "INSERT OR IGNORE", "mariadb": "INSERT IGNORE"}.get(engine, "INSERT")
        end = " ON CONFLICT DO NOTHING" if engine == "postgresql" else ""
        return f"{verb} INTO {self.quoted(table)} ({names}) VALUES {rows}{end}"


def _next_file(url: str) -> str:
    """Remove the file of a URL; return the URL of another one."""
    path = Path(url.partition(":///")[2])
    path.unlink(missing_ok=True)
    return f"{url.partition(':')[0]}:///{path.with_stem(str(int(path.stem) + 1))}"


@asynccontextmanager
async def live_database(engine: EngineName) -> AsyncGenerator[LiveDatabase]:
    """Make an empty database, and drop it at the end; skips the test without a server."""
    async with AsyncExitStack() as stack:
        match engine:
            case "sqlite" | "duckdb":
                made = stack.enter_context(tempfile.TemporaryDirectory(dir=_MEMORY))
                owner = await stack.enter_async_context(owner_of(f"{engine}:///{made}/0.db"))
            case "postgresql":
                owner = await _postgres_owner(stack)
            case "mariadb":
                owner = await _mariadb_owner(stack)
        yield LiveDatabase(owner)


_shared: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[EngineName, asyncio.Task[LiveDatabase]]
] = WeakKeyDictionary()
_keepers: set[asyncio.Task[None]] = set()


async def shared_database(engine: EngineName) -> LiveDatabase:
    """Return a database for all cases of this event loop, which drops it when it ends.

    Raises:
        NoServer: there is no server of this engine.
    """
    loop = asyncio.get_running_loop()
    databases = _shared.setdefault(loop, {})
    if engine not in databases:
        databases[engine] = asyncio.create_task(_kept_database(engine))
    return await asyncio.shield(databases[engine])


async def _kept_database(engine: EngineName) -> LiveDatabase:
    made: asyncio.Future[LiveDatabase] = asyncio.get_running_loop().create_future()

    async def keep() -> None:
        try:
            async with live_database(engine) as database:
                made.set_result(database)
                await asyncio.Event().wait()  # until the loop ends and cancels its tasks
        except NoServer as error:
            made.set_exception(error)

    keeper = asyncio.create_task(keep())
    _keepers.add(keeper)
    keeper.add_done_callback(_keepers.discard)
    return await made


async def _postgres_owner(stack: AsyncExitStack) -> Owner:
    from tests.providers.database.postgres_databases import empty_postgres_database

    database = await _in_thread(stack, empty_postgres_database)
    for extension in ("citext", "ltree", "isn"):
        # Made by the administrator, outside of the schemas that are dropped.
        with suppress(Exception):
            await database.execute(
                "CREATE SCHEMA IF NOT EXISTS extensions;"
                " GRANT USAGE ON SCHEMA extensions TO PUBLIC;"
                f" CREATE EXTENSION {extension} SCHEMA extensions"
            )
    owner = await stack.enter_async_context(owner_of(database.url))
    await owner.run("SET synchronous_commit = off", "SET client_min_messages = error")
    return owner


async def _mariadb_owner(stack: AsyncExitStack) -> Owner:
    from tests.providers.database.mysql_databases import empty_mysql_database

    database = await _in_thread(stack, empty_mysql_database)
    owner = await stack.enter_async_context(owner_of(database.url))
    # Without strict mode: zero dates and other values that MariaDB alone accepts.
    await owner.run("SET NAMES utf8mb4", "SET sql_mode = 'NO_ENGINE_SUBSTITUTION'")
    await owner.run("SET system_versioning_alter_history = KEEP")
    return owner


async def _in_thread(stack: AsyncExitStack, manager: Any) -> Any:
    """Enter a synchronous context manager that runs event loops of its own."""
    entered = manager()
    try:
        value = await asyncio.to_thread(entered.__enter__)
    except pytest.skip.Exception as skipped:
        raise NoServer(str(skipped)) from None
    stack.push_async_callback(asyncio.to_thread, entered.__exit__, None, None, None)
    return value


class NoServer(Exception):
    """There is no server of this engine to test with."""
