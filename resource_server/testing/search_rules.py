"""Rules of `search`: hits exist, come once, and do not depend on the deadline."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.provider import Path, Resource
from resource_server.provider.search import Hit, SearchRequest, SupportsSearch
from resource_server.testing.provider_calls import Calls, brief, is_below

_ABSENT = "no-such-3f9c"
_LIMIT = 3
_MAX_PAGES = 200
_MAX_WORDS = 4
_ODD = ("*", "[", "%", "_", "'", '"', "\\", ".*", "\u202e", "x" * 1000)
_WORD = re.compile(r"\w{3,40}")
_SHORT_DEADLINE_S, _LONG_DEADLINE_S = 0.0, 10.0


async def check_search(calls: Calls, resources: Sequence[Resource]) -> None:
    """Search for names, for words in documents, for absent text and for special characters."""
    if not isinstance(calls.provider, SupportsSearch):
        return
    names = [resource.path[-1] for resource in resources if resource.path][:_MAX_WORDS]
    words = await _words(calls, resources)
    sought = [SearchRequest(text=text, where="names") for text in (*names, *_ODD)]
    sought += [SearchRequest(text=text, where="text") for text in (*words, *_ODD)]
    for each in sought:
        await _check(calls, each)
    for below in [resource.path for resource in resources if resource.type == "collection"][:2]:
        for each in (*sought[: len(names)], *sought[-len(words) - len(_ODD) :]):
            await _check(calls, each, below)
    await _check_refusals(calls)


async def _words(calls: Calls, resources: Sequence[Resource]) -> Sequence[str]:
    words: list[str] = []
    for resource in resources:
        if resource.type == "document" and len(words) < _MAX_WORDS:
            contents = await calls.read(resource.path)
            if isinstance(contents, Sequence) and contents and isinstance(contents[0].data, str):
                words += _WORD.findall(contents[0].data)[:1]
    return words


async def _check(calls: Calls, sought: SearchRequest, below: Path = ()) -> None:
    call = f"search({brief(sought.text)}, {sought.where!r}, below={brief(below)})"
    hits = await _all(calls, sought, below, _LONG_DEADLINE_S)
    hurried = await _all(calls, sought, below, _SHORT_DEADLINE_S)
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


async def _all(calls: Calls, sought: SearchRequest, below: Path, time_s: float) -> list[Hit] | None:
    """Return all hits, page by page; None on failure."""
    hits: list[Hit] = []
    after: str | None = None
    for _ in range(_MAX_PAGES):
        deadline = time.monotonic() + time_s
        found = await calls.call(
            "search", sought, below=below, after=after, limit=_LIMIT, deadline=deadline
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
            "search", sought, below=(_ABSENT,), after=None, limit=_LIMIT, deadline=deadline
        )
        if found is not None and not isinstance(found, ResourceNotFound):
            rule = "an absent path raises ResourceNotFound"
            calls.broken(rule, f"search(below={brief((_ABSENT,))}) gave {brief(found)}")
    broken = SearchRequest(text="(", where="text", is_pattern=True)
    found = await calls.call(
        "search", broken, below=(), after=None, limit=_LIMIT, deadline=deadline
    )
    if found is not None and not isinstance(found, InvalidParameter):
        rule = "an invalid pattern raises InvalidParameter"
        calls.broken(rule, f"search('(') gave {brief(found)}")
