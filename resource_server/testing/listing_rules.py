"""Rules of `list` and `level`: order, completeness, resumption."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import cast

from msgspec.structs import replace

from resource_server.errors import InvalidParameter, ResourceError
from resource_server.provider import Path, Resource, ResourceType, SupportsLevels
from resource_server.testing.provider_calls import (
    SEGMENTS,
    Calls,
    brief,
    is_addressable,
)

PAGE = 100
_MAX_RESUMED = 24


class ListedTree:
    """The provider's resources from `list`, depth first, up to a budget.

    `whole` is False if the budget ended; `listed` are the resources of the global listing.
    """

    def __init__(self, calls: Calls, budget: int) -> None:
        self.resources: list[Resource] = []
        self.listed: list[Resource] = []
        self.whole = True
        self._calls = calls
        self._budget = budget

    async def explore(self) -> None:
        """List everything below the mount's own collection."""
        root = await self._calls.metadata(())
        if isinstance(root, Resource) and (root.path, root.type) == ((), "collection"):
            await self._explore((), listed=True)
        else:
            rule = "the path () is the mount's own collection"
            self._calls.broken(rule, f"metadata(()) gave {root!r}")

    async def _explore(self, parent: Path, *, listed: bool) -> None:
        children, ended = await self._children(parent)
        await _check_resuming(self._calls, parent, children, ended=ended)
        for child in children:
            if len(self.resources) == self._budget:
                self.whole = False
                return
            self.resources.append(child)
            if listed and child.listed:
                self.listed.append(child)
            if child.type == "collection":
                await self._explore(child.path, listed=listed and child.listed)

    async def _children(self, parent: Path) -> tuple[list[Resource], bool]:
        """Return the children of a collection, and whether they are complete."""
        children: dict[Path, Resource] = {}
        after: Path | None = None
        while len(children) <= self._budget:
            page = await self._calls.list(parent, after=after, limit=PAGE)
            if not isinstance(page, Sequence):
                rule = "every collection can be listed"
                self._calls.broken(
                    rule, f"list({brief(parent)}, after={brief(after)}) gave {page!r}"
                )
                break
            for child in page:
                if child.path in children:
                    rule = "a page begins strictly after `after`, and lists no child twice"
                    call = f"list({brief(parent)}, after={brief(after)})"
                    seen = f"{call} gave {brief(child.path)} again"
                    self._calls.broken(rule, seen)
                    return [*children.values()], False
                _check_path(self._calls, parent, child)
                children[child.path] = child
            if len(page) < PAGE:
                return [*children.values()], True
            after = page[-1].path
        self.whole = False
        return [*children.values()], False


def _check_path(calls: Calls, parent: Path, child: Resource) -> None:
    seen = f"list({brief(parent)}) gave {brief(child.path)}"
    if not child.path or child.path[:-1] != parent:
        calls.broken("a child's path is its parent's path plus one segment", seen)
        return
    if not is_addressable(child.path):
        calls.broken(SEGMENTS, seen)


async def _check_resuming(
    calls: Calls, parent: Path, children: Sequence[Resource], *, ended: bool
) -> None:
    """List again from the start, after a sample of children, and after a vanished child."""
    first = await calls.list(parent, limit=1)
    if _differ(first, children[:1]):
        rule = "a listing always has the same order"
        calls.broken(rule, f"list({brief(parent)}, limit=1) gave {paths(first)} the second time")
    for number in _sample(len(children), _MAX_RESUMED):
        expected = children[number + 1 : number + 4]
        if len(expected) < 3 and not ended:
            break
        after = children[number].path
        found = await calls.list(parent, after=after, limit=3)
        if _differ(found, expected):
            rule = "a listing resumes right after `after`, and only its last page is short"
            seen = f"list(after={brief(after)}, limit=3) gave {paths(found)}, not {paths(expected)}"
            calls.broken(rule, seen)
    for number in _sample(len(children), 3) if ended else ():
        vanished = (*parent, children[number].path[-1] + "0")
        found = await calls.list(parent, after=vanished, limit=len(children) + 1)
        # A path that cannot be a child, such as a malformed key, may be refused.
        if isinstance(found, Sequence):
            if not _differ(found, children[len(children) - len(found) :]):
                continue
        elif isinstance(found, InvalidParameter):
            continue
        rule = "a listing resumes at the position of a child that has disappeared"
        calls.broken(rule, f"list(after={brief(vanished)}) gave {paths(found)}")


def _as_known(found: object, expected: Sequence[Resource]) -> Sequence[Resource]:
    """Return the expected resources without the versions that `level` leaves out."""
    if not isinstance(found, Sequence):
        return expected
    given = cast("Sequence[object]", found)
    unknown = {one.path for one in given if isinstance(one, Resource) and one.version is None}
    return [replace(one, version=None) if one.path in unknown else one for one in expected]


async def check_level(calls: Calls, tree: ListedTree) -> None:
    """Compare the optional `level` with the tree, whole and resumed."""
    if not isinstance(calls.provider, SupportsLevels) or not tree.whole:
        return
    deepest = max((len(each.path) for each in tree.listed), default=0)
    types: tuple[ResourceType, ...] = ("collection", "document")
    for depth, type in product(range(1, deepest + 2), types):
        members = [each for each in tree.listed if len(each.path) == depth and each.type == type]
        limit = len(members) + 1
        found: Sequence[Resource] | ResourceError | None
        found = await calls.call("level", depth, type, after=None, limit=limit)
        known = _as_known(found, members)
        ordered: object = found
        if isinstance(found, Sequence):
            ordered = sorted(found, key=lambda each: each.path)
        if _differ(ordered, sorted(known, key=lambda each: each.path)):
            rule = "level gives the listed resources of one depth and type, each once"
            call = f"level({depth}, {type!r}, after=None, limit={limit})"
            calls.broken(rule, f"{call} gave {paths(found)}, not {paths(members)}")
            return
        whole = cast("Sequence[Resource]", found)
        for n in _sample(len(whole), _MAX_RESUMED):
            after = whole[n].path
            resumed = await calls.call("level", depth, type, after=after, limit=3)
            if _differ(resumed, whole[n + 1 : n + 4]):
                rule = "level resumes right after `after`, always in the same order"
                call = f"level({depth}, {type!r}, after={brief(after)}, limit=3)"
                expected = paths(whole[n + 1 : n + 4])
                calls.broken(rule, f"{call} gave {paths(resumed)}, not {expected}")


async def check_same(calls: Calls, tree: ListedTree, rule: str) -> None:
    """List the mount's own collection again; a difference breaks `rule`."""
    expected = [resource for resource in tree.resources if len(resource.path) == 1]
    found = await calls.list((), limit=PAGE)
    if tree.whole and _differ(found, expected[:PAGE]):
        calls.broken(rule, f"list(()) gave {paths(found)} the second time")


def paths(found: object) -> str:
    """Return the paths of a listing, or the error instead of it."""
    if not isinstance(found, Sequence):
        return repr(found)
    return brief([item.path for item in cast("Sequence[Resource]", found)])


def _differ(found: object, expected: Sequence[Resource]) -> bool:
    return not isinstance(found, Sequence) or [*cast("Sequence[object]", found)] != [*expected]


def _sample(count: int, most: int) -> Sequence[int]:
    """Return the indexes of `count` items, or `most` of them, the first and the last among them."""
    if count <= most:
        return range(count)
    return sorted({number * (count - 1) // (most - 1) for number in range(most)})
