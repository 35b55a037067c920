"""`search_resources` where one resource is found twice, or the time is over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from resource_server.catalog.catalog import CatalogLimits
from resource_server.runtime.timing import Timing
from tests.protocol.tools.tooled import called, words
from tests.protocol.wire import Wire, server_of
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio

REVISION = "2025-11-25"


async def found(tree: Mapping[str, Any], **asked: Any) -> dict[str, Any]:
    wire = Wire(await server_of(Tree(tree)), REVISION)
    return await called(wire, "search_resources", REVISION, **asked)


@pytest.mark.parametrize("where", [{}, {"uri": "test://one/README.md"}])
async def test_a_resource_found_by_name_and_text_is_linked_once(where: dict[str, Any]) -> None:
    result = await found({"README.md": "read me", "b.txt": "no"}, query="ea", **where)
    links = [block["uri"] for block in result["content"] if block["type"] == "resource_link"]
    assert links == ["test://one/README.md"]
    hits = result["structuredContent"]["hits"]
    assert [each["resource"]["uri"] for each in hits] == links * 2
    assert words(result).splitlines() == [*links, *links, "  1: read me"]


async def test_a_search_that_times_out_reports_its_position() -> None:
    tree = Tree({f"{at}.txt": "x" for at in range(8)})
    limits, timing = CatalogLimits(search_walk_page=4), Timing(search_s=0.0)
    wire = Wire(await server_of(tree, limits=limits, timing=timing), REVISION)
    said: list[str] = []
    asked: dict[str, Any] = {"query": "nowhere"}
    while True:
        result = await called(wire, "search_resources", REVISION, **asked)
        said += re.findall("Stopped after .*", words(result))
        more = result["structuredContent"].get("nextCursor")
        if more is None:
            break
        asked["cursor"] = more
    assert said == [
        "Stopped after 4 resources by name.",
        "Stopped after 8 resources by name.",
        "Stopped after 8 resources by name.",
        "Stopped after 4 resources in text.",
        "Stopped after 8 resources in text.",
    ]
