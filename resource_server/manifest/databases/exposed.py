"""What is exposed of a database, for those who may give rights to it."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from resource_server.manifest.databases import url as database_url
from resource_server.provider import Path
from resource_server.providers.database.addressing import address
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.options import ReadLimits
from resource_server.providers.database.policy.policy import Policy
from resource_server.providers.database.provider import Database
from resource_server.runtime.eager import settle

_PAGE = 1000


class Exposed(NamedTuple):
    """What is exposed of a database."""

    mount: str
    engine: str
    """`sqlite`, `postgresql`, `mysql` or `mariadb`."""
    database: str
    tables: Sequence[TableName]
    """In the order of the database, views as well."""
    limits: ReadLimits
    views: frozenset[TableName] = frozenset()
    """Those of the tables that no trigger can be put on."""
    columns: Mapping[TableName, Sequence[str]] = {}
    """The columns that are shown, of tables that hide some."""


def is_database(provider: object) -> TypeGuard[Database]:
    """Whether a provider is one of those that `of` takes."""
    return isinstance(provider, Database)


async def of(mount: str, database: Database) -> Exposed:
    """Return what the database of a mount exposes now; it is opened for that.

    Raises:
        MountUnavailable: it cannot be opened.
    """
    url = database_url.parse(database.url)
    if url.engine == "sqlite":  # nobody has rights to it that could be given
        return Exposed(mount, url.engine, "", (), database.limits)
    # Whoever may give rights has more than a reader needs.
    database = dataclasses.replace(database, require_readonly_role=False)
    async with database:
        engine = database.engine
        names = [table async for table in _tables(database)]
        types = {info.name: info.type for info in await engine.tables()}
        policy = Policy(database.tables, engine.name)
        columns: dict[TableName, Sequence[str]] = {}
        for name in names:
            options = policy.of(name)
            if options is not None and options.columns.hide:
                columns[name] = policy.view(await engine.table(name)).table.column_names
        return Exposed(
            mount=mount,
            engine=engine.name,
            database=url.database,
            tables=names,
            limits=database.limits,
            views=frozenset(table for table in names if "view" in types.get(table, "table")),
            columns=columns,
        )


async def _tables(database: Database, parent: Path = ()) -> AsyncIterator[TableName]:
    """Yield the tables that clients see, in order."""
    after: Path | None = None
    while True:
        page = await settle(database.list(parent, after=after, limit=_PAGE))
        for resource in page:
            match address.parse_address(resource.path, has_schemas=database.engine.has_schemas):
                case address.TableAddress(table):
                    yield table
                case address.SchemaAddress():
                    async for table in _tables(database, resource.path):
                        yield table
                case _:
                    pass
        if len(page) < _PAGE:
            return
        after = page[-1].path
