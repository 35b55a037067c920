"""The rules for `fetch`, `hides` and `explain`: they tell what the required methods tell."""

from __future__ import annotations

from collections.abc import Sequence

from resource_server.errors import ResourceError, ResourceNotFound
from resource_server.provider import (
    Path,
    Resource,
    SupportsExplain,
    SupportsFetch,
    SupportsHides,
)
from resource_server.testing.calls import Calls, show

_ABSENT: Path = ("no-such-3f9c",)
_MOST_HIDDEN = 24


async def check_fetch(calls: Calls, resources: Sequence[Resource]) -> None:
    """Compare the optional `fetch` with `metadata` and `read`."""
    fetches = calls.provider
    if not isinstance(fetches, SupportsFetch):
        return
    for resource in resources:
        path = resource.path
        metadata = await calls.metadata(path)
        is_document = resource.type == "document"
        for query in ({}, {"no-such-3f9c": "1"}) if is_document else ({},):
            found = await calls.fetch(fetches, path, query)
            read = await calls.read(path, query) if is_document else ()
            if isinstance(read, ResourceError):
                same = type(found) is type(read)
            else:
                told = [metadata, *(read or ())]
                same = isinstance(found, tuple) and [found[0], *found[1]] == told
            if not same:
                rule = "fetch gives what metadata and read give"
                calls.broken(rule, f"fetch({show(path)}, {query}) gave {show(found)}")
    found = await calls.fetch(fetches, _ABSENT, {})
    if found is not None and not isinstance(found, ResourceNotFound):
        rule = "a path that names nothing raises ResourceNotFound"
        calls.broken(rule, f"fetch({show(_ABSENT)}) gave {show(found)}")


async def check_hides(calls: Calls) -> None:
    """See whether what the optional `hides` names is hidden indeed, and no more than asked for."""
    hides = calls.provider
    if not isinstance(hides, SupportsHides):
        return
    for limit in (1, _MOST_HIDDEN):
        hidden = await calls.hides(hides, limit=limit)
        if len(hidden) > limit:
            rule = "hides returns at most `limit` items"
            calls.broken(rule, f"hides(limit={limit}) returned {len(hidden)}")
        for path, _ in hidden[:limit]:
            found = await calls.metadata(path)
            if found is not None and not isinstance(found, ResourceNotFound):
                rule = "what hides names raises ResourceNotFound"
                calls.broken(rule, f"metadata({show(path)}) gave {show(found)}")


async def check_explain(calls: Calls, resources: Sequence[Resource]) -> None:
    """Ask the optional `explain` about what is shown and what is not there."""
    explains = calls.provider
    if not isinstance(explains, SupportsExplain):
        return
    for path in [(), *(resource.path for resource in resources), _ABSENT]:
        await calls.explain(explains, path)
