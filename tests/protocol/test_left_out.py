"""Every result that leaves something out says so, with the numbers that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from resource_server.catalog.catalog import CatalogLimits
from resource_server.manifest.prompts import Prompt, PromptMessage
from resource_server.protocol.server import Server, ServerLimits
from resource_server.protocol.tools.registry import ToolSettings
from resource_server.provider import ByteSize, Resource
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import DirectoryOptions
from resource_server.runtime.timing import Timing
from tests.protocol.wire import Wire, server_of
from tests.providers_for_tests import Broken, Tree

pytestmark = pytest.mark.anyio

REVISION = "2025-11-25"
LIMITS = CatalogLimits(page_size=3, collection_children=4, collection_bytes=64, search_hits=2)
SERVER_LIMITS = ServerLimits(tool_media_bytes=8)
BASE = "test://one"
TRUNCATED = "resource-server/truncated"


@pytest.fixture
async def server(tmp_path: Path) -> Server:
    files = {
        "many/1.txt": "word\n",
        "many/2.txt": "word\n",
        "many/3.txt": "word\n",
        "many/4.txt": "word\n",
        "many/5.txt": "word\n",
        "some/large.txt": "x" * 65,
        "some/small.txt": "x",
        "kept/secret.txt": "needle\n",
        "kept/open.txt": "needle\n",
        "kept/inner/a.txt": "x",
        "search/lines.txt": "needle\n" * 9,
        "search/binary.png": "needle",
        "search/large.txt": "needle " * 2_000,
        "search/wide.txt": "x" * 999 + "needle\n",
        "search/private/a.txt": "needle\n",
        "long.txt": "line of a long text\n" * 9,
        "longer.txt": "line of a long text\n" * 99,
        "picture.png": "0123456789",
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    names = tmp_path / "names"
    names.mkdir()
    for number in range(101):
        (names / f"{number:03}.txt").touch()
    root = Filesystem(
        tmp_path,
        max_size=ByteSize(10_000),
        directories={"search/private": DirectoryOptions(readable=False)},
    )
    tools = ToolSettings(budget=1000)
    server = await server_of(root, limits=LIMITS, server_limits=SERVER_LIMITS, tools=tools)
    message = PromptMessage(role="user", resource=f"{BASE}/some")
    server.prompts = {"all": Prompt(messages=(message,))}
    return server


@pytest.fixture
async def wire(server: Server) -> Wire:
    return Wire(server, REVISION)


async def tool(wire: Wire, name: str, **arguments: object) -> tuple[str, Any]:
    """Return the text of a tool's result, and its structured form."""
    result = await wire.result("tools/call", {"name": name, "arguments": arguments})
    text = "\n".join(block.get("text", "") for block in result["content"])
    return text, result.get("structuredContent")


@pytest.mark.guarantee("nothing-is-silently-short")
async def test_a_page_of_a_listing_has_the_cursor_of_the_next(wire: Wire) -> None:
    assert "nextCursor" in await wire.result("resources/list", {})
    assert "nextCursor" in await wire.result("resources/list", {"uri": f"{BASE}/many"})
    text, structured = await tool(wire, "list_resources", uri=f"{BASE}/names")
    count = len(structured["items"])
    notice = f"There is more after these {count}: call again with cursor={structured['next']}"
    assert notice in text


@pytest.mark.guarantee("nothing-is-silently-short")
@pytest.mark.parametrize(
    ("name", "notice", "told"),
    [
        ("many", {"returned": 4, "more": True}, "4 children were read"),
    ],
)
async def test_a_collection_that_is_read_in_part_says_how_much(
    wire: Wire, name: str, notice: dict[str, object], told: str
) -> None:
    result = await wire.result("resources/read", {"uri": f"{BASE}/{name}"})
    assert result["_meta"][TRUNCATED] == notice
    text, _ = await tool(wire, "read_resource", uri=f"{BASE}/{name}")
    assert f"[Truncated: {told}. List them: list_resources " in text


async def test_a_child_beyond_its_share_is_marked(wire: Wire) -> None:
    result = await wire.result("resources/read", {"uri": f"{BASE}/some"})
    large, small = result["contents"]
    assert (len(large["text"]), small["text"]) == (63, "x")
    assert large["_meta"][TRUNCATED] == {
        "reason": "limit",
        "unit": "bytes",
        "total": 65,
        "next": f"{BASE}/some/large.txt?bytes=63-65598",
    }
    assert TRUNCATED not in small["_meta"]
    text, _ = await tool(wire, "read_resource", uri=f"{BASE}/some")
    assert f'[Truncated. Read on: {{"uri":"{BASE}/some/large.txt?bytes=63-65598"}}]' in text


async def test_a_collection_with_children_that_cannot_be_read_says_so(wire: Wire) -> None:
    result = await wire.result("resources/read", {"uri": f"{BASE}/search/private"})
    assert result["_meta"][TRUNCATED] == {"returned": 0, "more": True, "total": 1}
    text, _ = await tool(wire, "read_resource", uri=f"{BASE}/search/private")
    assert "0 of 1 children were read" in text


@pytest.mark.guarantee("nothing-is-silently-short")
async def test_a_whole_collection_is_not_marked(wire: Wire) -> None:
    result = await wire.result("resources/read", {"uri": f"{BASE}/kept"})
    assert len(result["contents"]) == 3
    assert TRUNCATED not in result.get("_meta", {})


@pytest.mark.guarantee("nothing-is-silently-short")
async def test_a_part_of_a_document_has_the_total_and_the_next_part(wire: Wire) -> None:
    result = await wire.result("resources/read", {"uri": f"{BASE}/long.txt?bytes=0-9"})
    (content,) = result["contents"]
    notice = content["_meta"][TRUNCATED]
    assert (notice["total"], notice["unit"]) == (180, "bytes")
    assert notice["next"].startswith(f"{BASE}/long.txt?bytes=10-")


@pytest.mark.guarantee("nothing-is-silently-short")
async def test_a_document_that_a_tool_shortens_has_the_total_and_the_next_part(wire: Wire) -> None:
    text, _ = await tool(wire, "read_resource", uri=f"{BASE}/longer.txt")
    last = text.count("line of a long text")
    assert f"[Truncated: lines 1-{last} of 99. Read on: " in text
    assert f'"lines":"{last + 1}-"' in text
    text, _ = await tool(wire, "read_resource", uri=f"{BASE}/picture.png")
    assert "[10 bytes, too long to be shown by a tool]" in text


async def test_a_prompt_says_how_much_of_a_collection_it_has(wire: Wire) -> None:
    result = await wire.result("prompts/get", {"name": "all"})
    assert result["_meta"][TRUNCATED] == {"collections": 1, "more": True}
    last = result["messages"][-1]["content"]["text"]
    assert last == f"Some documents of {BASE}/some are truncated above; their URIs read them whole."


async def test_completions_have_their_number_and_whether_there_are_more(wire: Wire) -> None:
    found = await wire.result(
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": f"{BASE}/{{+path}}"},
            "argument": {"name": "path", "value": "names/"},
        },
    )
    completion = found["completion"]
    assert (len(completion["values"]), completion["total"]) == (100, 101)
    assert completion["hasMore"] is True


async def test_a_page_of_a_search_has_the_cursor_of_the_next(wire: Wire) -> None:
    text, structured = await tool(
        wire, "search_resources", query="word", uri=f"{BASE}/many", limit=2, **{"in": "text"}
    )
    assert len(structured["files"]) == 2
    assert f'"cursor":"{structured["next"]}"}}' in text.partition("There is more: ")[2]


@pytest.mark.guarantee("nothing-is-silently-short")
async def test_a_search_says_how_many_documents_it_skipped(wire: Wire) -> None:
    asked = {"query": "needle", "uri": f"{BASE}/search", "in": "text"}
    skipped = 0
    while asked:
        text, structured = await tool(wire, "search_resources", **asked)
        assert structured["complete"] is False
        skipped = structured.get("unsearchedCount", 0)
        assert ("; not searched: " in text.partition("\n")[0]) == (skipped > 0)
        cursor = structured.get("next")
        asked = {**asked, "cursor": cursor} if cursor else {}
    assert skipped == 2  # binary, not readable


async def test_a_search_that_runs_out_of_time_says_how_far_it_came() -> None:
    tree = Tree({f"{number:02}": "word" for number in range(30)})
    wire = Wire(await server_of(tree, timing=Timing(search_s=0)), REVISION)
    text, structured = await tool(wire, "search_resources", query="absent", **{"in": "text"})
    assert structured["stopped"] is True
    assert 0 < structured["lookedAt"] < 30
    assert f"Nothing yet in {structured['lookedAt']} documents" in text
    assert structured["next"] in text


@pytest.mark.guarantee("nothing-is-silently-short")
async def test_a_mount_that_is_missing_from_a_listing_or_search_is_named(tmp_path: Path) -> None:
    wire = Wire(await server_of(Filesystem(tmp_path / "gone")), REVISION)
    result = await wire.result("resources/list", {})
    assert result["_meta"]["resource-server/unavailable"] == ["one"]
    for name, arguments in (("list_resources", {}), ("search_resources", {"query": "x"})):
        text, structured = await tool(wire, name, **arguments)
        if name == "list_resources":
            assert structured["unavailable"] == ["one"]
            assert text.endswith(": one")
        else:
            assert structured["unsearched"] == [{"uri": f"{BASE}/", "why": "failed"}]
            assert "; not searched: mount one (failed)." in text.partition("\n")[0]


async def test_a_resource_whose_metadata_cannot_be_sent_is_listed_and_found() -> None:
    good, bad = (Resource(path=(name,), name=name) for name in ("good", "bad"))
    bad = msgspec.structs.replace(bad, version="\udcff")
    provider = Broken(
        list=lambda *_, **__: [bad, good],
        metadata=lambda path: good if path else Resource(path=(), name="root", type="collection"),
        read=lambda *_: [],
    )
    wire = Wire(await server_of(provider), REVISION)
    # Neither sends versions nor titles: nothing of this resource is in its way.
    _, structured = await tool(wire, "search_resources", query="d")
    assert structured["files"] == [{"path": "bad"}, {"path": "good"}]
    _, structured = await tool(wire, "list_resources", uri=BASE)
    assert structured["items"] == ["bad", "good"]


async def test_a_hit_says_how_many_lines_match_and_a_line_that_it_is_shortened(wire: Wire) -> None:
    asked = {"query": "needle", "in": "text", "limit": 5}
    text, structured = await tool(wire, "search_resources", uri=f"{BASE}/search/lines.txt", **asked)
    (file,) = structured["files"]
    assert (len(file["lines"]), file["matches"], file["next"]) == (5, 9, "5")
    assert (structured["matches"], structured["shown"], structured["next"]) == (9, 5, "5")
    assert "(9, 5 shown, cursor=5)" in text
    text, structured = await tool(wire, "search_resources", uri=f"{BASE}/search/wide.txt", **asked)
    (file,) = structured["files"]
    assert file["lines"][0][1].startswith("…x")
    assert "next" not in file


async def test_an_error_that_is_shortened_has_its_length(wire: Wire) -> None:
    text, _ = await tool(wire, "read_resource", uri=f"{BASE}/{'x' * 9_000}")
    assert text.endswith("characters in all)")
