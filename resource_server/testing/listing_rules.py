"""Rules of `list`, `level` and `search`: order, completeness, resumption, deadlines."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import product
from typing import cast

from msgspec.structs import replace

from resource_server.errors import InvalidParameter, ResourceError, ResourceNotFound
from resource_server.provider import Path, Resource, ResourceType, SupportsLevels
from resource_server.provider.search import Hit, SearchRequest, SupportsSearch
from resource_server.testing.provider_calls import SEGMENTS, Calls, brief, is_addressable, is_below

PAGE = 100
_MAX_RESUMED = 24
_ABSENT = "no-such-3f9c"
_HITS_PAGE = 3
_MAX_PAGES = 200
_MAX_WORDS = 4
_ODD = ("*", "[", "%", "_", "'", '"', "\\", ".*", "\u202e", "x" * 1000)
_WORD = re.compile(r"\w{3,40}")
_SHORT_DEADLINE_S, _LONG_DEADLINE_S = 0.0, 10.0


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


async def check_search(calls: Calls, resources: Sequence[Resource]) -> None:
    """Search for names, for words in documents, for absent text and for special characters."""
    if not isinstance(calls.provider, SupportsSearch):
        return
    names = [resource.path[-1] for resource in resources if resource.path][:_MAX_WORDS]
    words = await _words(calls, resources)
    sought = [SearchRequest(text=text, where="names") for text in (*names, *_ODD)]
    sought += [SearchRequest(text=text, where="text") for text in (*words, *_ODD)]
    for each in sought:
        await _check_found(calls, each)
    for below in [resource.path for resource in resources if resource.type == "collection"][:2]:
        for each in (*sought[: len(names)], *sought[-len(words) - len(_ODD) :]):
            await _check_found(calls, each, below)
    await _check_refusals(calls)


async def _words(calls: Calls, resources: Sequence[Resource]) -> Sequence[str]:
    words: list[str] = []
    for resource in resources:
        if resource.type == "document" and len(words) < _MAX_WORDS:
            contents = await calls.read(resource.path)
            if isinstance(contents, Sequence) and contents and isinstance(contents[0].data, str):
                words += _WORD.findall(contents[0].data)[:1]
    return words


async def _check_found(calls: Calls, sought: SearchRequest, below: Path = ()) -> None:
    call = f"search({brief(sought.text)}, {sought.where!r}, below={brief(below)})"
    hits = await _all_hits(calls, sought, below, _LONG_DEADLINE_S)
    hurried = await _all_hits(calls, sought, below, _SHORT_DEADLINE_S)
    if hits is None or hurried is None:
        return
    found = [hit.resource.path for hit in hits]
    if len(set(found)) < len(found):
        calls.broken("a search returns each resource once", f"{call} gave {brief(found)}")
    if {hit.resource.path for hit in hurried} != set(found):
        rule = "a search that reaches its deadline resumes until everything is found"
        calls.broken(rule, f"{call} gave {brief(found)}, but not with short deadlines")
    for hit in hits:
        await _check_hit(calls, call, sought, below, hit)


async def _check_hit(calls: Calls, call: str, sought: SearchRequest, below: Path, hit: Hit) -> None:
    path = hit.resource.path
    if not is_below(path, [below]):
        calls.broken("every hit is at or below `below`", f"{call} gave {brief(path)}")
    metadata = await calls.metadata(path)
    if not isinstance(metadata, Resource) or metadata.type != hit.resource.type:
        calls.broken(
            "every hit exists",
            f"{call} gave {brief(path)}, metadata {brief(metadata)}",
        )
    if not hit.lines:
        if sought.where == "text":
            rule = "a hit in text has a matching line"
            calls.broken(rule, f"{call} gave {brief(path)} without one")
        return
    if any(line.number < 1 or "\n" in line.text for line in hit.lines):
        calls.broken(
            "a matched line has a number of 1 or more and no line ending",
            f"{call} gave {brief(hit.lines)}",
        )
    if sought.where == "text" and hit.resource.type == "document":
        contents = await calls.read(path)
        if isinstance(contents, ResourceNotFound):
            calls.broken("a hit in text can be read", f"{call} gave {brief(path)}")


async def _all_hits(
    calls: Calls, sought: SearchRequest, below: Path, time_s: float
) -> list[Hit] | None:
    """Return all hits, page by page; None on failure."""
    hits: list[Hit] = []
    after: str | None = None
    for _ in range(_MAX_PAGES):
        deadline = time.monotonic() + time_s
        found = await calls.call(
            "search", sought, below=below, after=after, limit=_HITS_PAGE, deadline=deadline
        )
        if isinstance(found, InvalidParameter) and after is None:
            return None  # unsupported
        if found is None or isinstance(found, Exception):
            calls.broken(
                "every existing collection can be searched",
                f"search(below={brief(below)}) gave {found!r}",
            )
            return None
        hits += found.hits
        if found.next is None:
            return hits
        if found.next == after:
            calls.broken(
                "every page of a search makes progress",
                f"search(after={brief(after)}) gave the same `next`",
            )
            return None
        after = found.next
    return None


async def _check_refusals(calls: Calls) -> None:
    deadline = time.monotonic() + _LONG_DEADLINE_S
    for where in ("names", "text"):
        sought = SearchRequest(text="a", where=where)
        found = await calls.call(
            "search", sought, below=(_ABSENT,), after=None, limit=_HITS_PAGE, deadline=deadline
        )
        if found is not None and not isinstance(found, ResourceNotFound):
            rule = "an absent path raises ResourceNotFound"
            calls.broken(rule, f"search(below={brief((_ABSENT,))}) gave {brief(found)}")
    broken = SearchRequest(text="(", where="text", is_pattern=True)
    found = await calls.call(
        "search", broken, below=(), after=None, limit=_HITS_PAGE, deadline=deadline
    )
    if found is not None and not isinstance(found, InvalidParameter):
        rule = "an invalid pattern raises InvalidParameter"
        calls.broken(rule, f"search('(') gave {brief(found)}")
