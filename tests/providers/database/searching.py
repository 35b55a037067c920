"""Searches of a database as the server runs them: page by page to the end."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from resource_server.provider import Path
from resource_server.provider.search import Hit, SearchPage, SearchRequest, Where
from resource_server.providers.database.provider import Database
from resource_server.runtime.option_types import Duration
from tests.providers.database.owners import Owner
from tests.waiting import PATIENCE_S

MOST_PAGES = 500


class Searched:
    """A searched database. Paths start with a table, on every engine."""

    def __init__(self, provider: Database, prefix: str) -> None:
        self.provider = provider
        self._prefix = tuple(prefix.split("/")[:-1])

    async def page(
        self,
        text: str,
        where: Where = "text",
        *,
        below: Path = (),
        after: str | None = None,
        limit: int = 100,
        within: float = PATIENCE_S,
        is_pattern: bool = False,
        **asked: Any,
    ) -> SearchPage:
        """Return one page of results; by default from the whole database."""
        return await self.provider.search(
            SearchRequest(text=text, where=where, is_pattern=is_pattern, **asked),
            below=(*self._prefix, *below) if below else (),
            after=after,
            limit=limit,
            deadline=time.monotonic() + within,
        )

    async def hits(self, text: str, where: Where = "text", **options: Any) -> list[Hit]:
        """Return the results of all pages."""
        found: list[Hit] = []
        after: str | None = options.pop("after", None)
        limit: int = options.get("limit", 100)
        for _ in range(MOST_PAGES):
            page = await self.page(text, where, after=after, **options)
            assert len(page.hits) <= limit
            assert page.next is None or page.next != after
            found += page.hits
            after = page.next
            if after is None:
                return found
        raise AssertionError("the search has no end")

    def unsearched(self, page: SearchPage) -> dict[str, str]:
        """Return the tables that were not searched whole, with what was not."""
        return {gap.path[-1]: gap.why for gap in page.unsearched}

    def short(self, hit: Hit) -> str:
        """Return the path of a hit, without the schema."""
        path = hit.resource.path
        return "/".join(path[len(self._prefix) :] if path[0] != "~query" else path)

    async def found(self, text: str, where: Where = "text", **options: Any) -> list[str]:
        """Return the paths of all hits."""
        return [self.short(hit) for hit in await self.hits(text, where, **options)]


@asynccontextmanager
async def searched(owner: Owner, **options: Any) -> AsyncGenerator[Searched]:
    """Search a database; `options` are those of the manifest."""
    if owner.is_generic:
        options.setdefault("interval", Duration(0))  # it believes no reflection for any time
    async with Database(url=owner.url, **options) as provider:
        yield Searched(provider, owner.prefix)
