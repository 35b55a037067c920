from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from resource_server.errors import (
    ResourceNotFound,
)
from resource_server.provider import (
    Path,
    Resource,
    ResourceType,
)
from resource_server.provider.tools import ToolRequest as ToolRequest
from resource_server.testing import ProviderViolations, check_provider
from tests.testing.shelf import SIGNATURE, Shelf, changed

pytestmark = pytest.mark.anyio


class IgnoresAfter(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        return await super().list(parent, after=None, limit=limit)


class RepeatsAfter(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        if after is not None:
            after = (*after[:-1], after[-1][:-1])
        return await super().list(parent, after=after, limit=limit)


class IgnoresLimit(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        return await super().list(parent, after=after, limit=1000)


class EndsEarly(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        return await super().list(parent, after=after, limit=2 if limit > 2 else limit)


class ChangesOrder(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = [*await super().list(parent, after=None, limit=1000)]
        if self.calls % 2:
            page.reverse()
        paths = [entry.path for entry in page]
        return page[paths.index(after) + 1 if after in paths else 0 :][:limit]


class NeedsItsCursor(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        if after is not None:
            self.find(after)
        return await super().list(parent, after=after, limit=limit)


class RestartsWithoutItsCursor(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = await super().list(parent, after=after, limit=limit)
        if after is not None and after not in self.items:
            return [*await super().list(parent, after=None, limit=2), *page][:1]
        return page


class ShowsGrandchildren(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = await super().list(parent, after=after, limit=limit)
        return changed(page, "empty", path=("a", "x", "empty"))


class NamesWithSlashes(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = await super().list(parent, after=after, limit=limit)
        return changed(page, "empty", path=("a", "em/pty"))


class ListsDicts(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Any:
        page = await super().list(parent, after=after, limit=limit)
        return [msgspec.to_builtins(entry) for entry in page]


class YieldsItems(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Any:
        page = await super().list(parent, after=after, limit=limit)
        return (entry for entry in page)


class ListsNowhere(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        try:
            return await super().list(parent, after=after, limit=limit)
        except ResourceNotFound:
            return []


class RootIsADocument(Shelf):
    async def metadata(self, path: Path) -> Resource:
        found = await super().metadata(path)
        return found if path else Resource(path=(), name="shelf")


class LosesItsWay(Shelf):
    async def metadata(self, path: Path) -> Resource:
        return msgspec.structs.replace(await super().metadata(path), path=("elsewhere",))


class ListsHiddenLevels(Shelf):
    async def level(
        self, depth: int, type: ResourceType, *, after: Path | None, limit: int
    ) -> Sequence[Resource]:
        rest = sorted(path for path in self.items if path > (after or ()) and len(path) == depth)
        return [self.entry(path) for path in rest if self.entry(path).type == type][:limit]


class RestartsLevels(Shelf):
    async def level(
        self, depth: int, type: ResourceType, *, after: Path | None, limit: int
    ) -> Sequence[Resource]:
        return await super().level(depth, type, after=None, limit=limit)


BROKEN: list[tuple[type[Shelf], str]] = [
    (IgnoresAfter, "a listing resumes right after `after`, and only its last page is short"),
    (RepeatsAfter, "a listing resumes right after `after`, and only its last page is short"),
    (EndsEarly, "a listing resumes right after `after`, and only its last page is short"),
    (IgnoresLimit, "a page has at most `limit` items"),
    (ChangesOrder, "a listing always has the same order"),
    (NeedsItsCursor, "a listing resumes at the position of a child that has disappeared"),
    (RestartsWithoutItsCursor, "a listing resumes at the position of a child that has disappeared"),
    (ShowsGrandchildren, "a child's path is its parent's path plus one segment"),
    (
        NamesWithSlashes,
        "a path segment is not empty, '.' or '..', has no '/' or NUL, and can be encoded in a URI",
    ),
    (ListsDicts, SIGNATURE),
    (YieldsItems, SIGNATURE),
    (ListsNowhere, "an absent path raises ResourceNotFound"),
    (RootIsADocument, "the path () is the mount's own collection"),
    (LosesItsWay, "the path () is the mount's own collection"),
    (ListsHiddenLevels, "level gives the listed resources of one depth and type, each once"),
    (RestartsLevels, "level resumes right after `after`, always in the same order"),
]


@pytest.mark.parametrize(("broken", "rule"), BROKEN, ids=[kind.__name__ for kind, _ in BROKEN])
async def test_each_broken_rule_is_reported(broken: type[Shelf], rule: str) -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(broken())
    assert any(sentence.startswith(rule) for sentence in caught.value.violations), caught.value
