"""A database mounted in a catalog and read by URI, as by clients."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.mount import CatalogEntry
from resource_server.catalog.read_result import ReadItem
from resource_server.providers.database.options import ReadLimits
from resource_server.providers.database.provider import Database
from resource_server.runtime.option_types import Duration
from resource_server.runtime.server_key import ServerKey
from resource_server.runtime.timing import Timing
from tests.listeners import BASE, mounted
from tests.providers.database.owners import Owner
from tests.waiting import PATIENCE_S, PATIENT

FRESH = replace(PATIENT, schema_cache_s=0.0, row_count_cache_s=0.0, row_count_s=PATIENCE_S)
"""Without caches, and with time to count a few rows and to complete keys on a busy machine."""
UNHURRIED = ReadLimits(timeout=Duration(PATIENCE_S), query_timeout=Duration(PATIENCE_S))
"""A busy machine takes more than two seconds to start a worker of DuckDB."""


class Served:
    """A catalog of one database. Paths start with a table, on every engine."""

    def __init__(self, catalog: Catalog, prefix: str) -> None:
        self.catalog = catalog
        self.base = BASE + prefix

    async def read(self, path: str) -> ReadItem:
        """Return the only item of a document."""
        (body,) = (await self.catalog.read(self.base + path)).items
        return body

    async def text(self, path: str) -> str:
        content = (await self.read(path)).content
        assert content is not None
        assert isinstance(content.data, str)
        return content.data

    async def json(self, path: str) -> Any:
        return json.loads(await self.text(path))

    async def query(self, name: str) -> Any:
        """Return the rows of a declared query; `name` may end in URI parameters."""
        (body,) = (await self.catalog.read(f"{BASE}~query/{name}")).items
        assert body.content is not None
        return json.loads(body.content.data)["rows"]

    async def entry(self, path: str) -> CatalogEntry:
        return await self.catalog.metadata(self.base + path)

    async def entries(self, path: str | None = None) -> list[CatalogEntry]:
        """Return the children of a collection, or the whole listing, page by page."""
        uri = None if path is None else (self.base + path)
        page = await self.catalog.list(uri)
        found = list(page.entries)
        while page.next_cursor is not None:
            assert len(found) < 10_000, "the listing has no end"
            page = await self.catalog.list(uri, page.next_cursor)
            found += page.entries
        return found

    async def children(self, path: str = "") -> list[str]:
        return [entry.uri.removeprefix(self.base) for entry in await self.entries(path)]

    async def rows(self, path: str) -> list[str]:
        """Return the paths of a table's rows, or of those below a part of the key."""
        documents = (f"{path}/~rows", f"{path}/~schema")
        return [child for child in await self.children(path) if child not in documents]

    async def pages(self, path: str) -> list[list[Any]]:
        """Return the rows of every page from this one on."""
        found: list[list[Any]] = []
        while path:
            page = await self.json(path)
            assert page["more"] == (page["next"] is not None)
            found.append(page["rows"])
            assert len(found) < 500, "the pages have no end"
            path = (page["next"] or "").removeprefix(self.base)
        return found


def timed_database(timing: Timing, **options: Any) -> Database:
    """Return the provider with this timing; `options` are those of the manifest."""
    # A subclass, so that narrowed copies have these times, too.
    timed: type[Database] = type("TimedDatabase", (Database,), {"timing": timing})
    return timed(**options)


@asynccontextmanager
async def served(
    owner: Owner,
    *,
    page_size: int = 100,
    timing: Timing = PATIENT,
    key: ServerKey | None = None,
    **options: Any,
) -> AsyncGenerator[Served]:
    """Serve a database with options of the manifest, unhurried unless `limits` says otherwise."""
    options.setdefault("limits", UNHURRIED)
    if owner.is_generic:
        options.setdefault("interval", Duration(0))  # it believes no reflection for any time
    provider = timed_database(timing, url=owner.url, **options)
    mount = mounted(provider, key=key, timing=PATIENT)
    async with Catalog([mount], CatalogLimits(page_size=page_size), PATIENT) as catalog:
        assert await catalog.start() == {}
        yield Served(catalog, owner.prefix)
