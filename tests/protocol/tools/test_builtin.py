"""The four tools that a catalog is offered as: what they say, in every revision."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from resource_server.catalog.catalog import CatalogLimits
from resource_server.errors import (
    InvalidParameter,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.protocol.server import ServerLimits
from resource_server.provider import Content, MaybeAwaitable, Path, Truncation
from resource_server.runtime.timing import Timing
from tests.protocol.tools.tooled import PICTURE, STRUCTURED, called, refusal, words
from tests.protocol.wire import EVERY, HANDSHAKE, Wire, server_of
from tests.providers_for_tests import Folder, Leaf, SlowTree, Tree, WatchedTree

pytestmark = pytest.mark.anyio

NODES: dict[str, Any] = {
    "a b.txt": "one\ntwo\nthree\n",
    "blob": b"\x00\xff",
    "folder": {"inner.txt": "tea", "empty": {}, "logo.png": Leaf(PICTURE, "image/png")},
    "formats": Leaf("x", formats={"html": "<p>x</p>"}),
    "hidden": Folder({"deep.txt": "deep"}),
    "logo.png": Leaf(PICTURE, "image/png"),
    "song.wav": Leaf(b"RIFF", "audio/wav"),
}


async def wired(revision: str, tree: type[Tree] = Tree, **more: Any) -> Wire:
    return Wire(await server_of(tree(NODES), **more), revision)


# -- resource_metadata


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("uri", ["test://one/formats", "test://one/folder", "test://one"])
async def test_metadata_is_equal_in_text_and_structured_content(revision: str, uri: str) -> None:
    wire = await wired(revision)
    result = await called(wire, "resource_metadata", revision, uri=uri)
    described = await wire.result("resources/metadata", {"uri": uri})
    assert json.loads(words(result)) == described["resource"]
    if revision in STRUCTURED:
        assert result["structuredContent"] == {"resource": described["resource"]}


# -- read_resource


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("tree", [Tree, SlowTree])
async def test_a_text_is_exactly_one_block(revision: str, tree: type[Tree]) -> None:
    wire = await wired(revision, tree)
    uri = "test://one/a%20b.txt"
    result = await called(wire, "read_resource", revision, uri=uri)
    assert result["content"] == [{"type": "text", "text": "one\ntwo\nthree\n"}]
    if revision in STRUCTURED:
        # Some hosts give their model nothing but this.
        read = await wire.result("resources/read", {"uri": uri})
        assert result["structuredContent"] == {"contents": read["contents"]}


@pytest.mark.parametrize("revision", EVERY)
async def test_images_and_audio_are_separate_blocks(revision: str) -> None:
    wire = await wired(revision)
    for name, kind, data in (("logo.png", "image", PICTURE), ("song.wav", "audio", b"RIFF")):
        uri = f"test://one/{name}"
        result = await called(wire, "read_resource", revision, uri=uri)
        (block,) = result["content"]
        encoded = base64.b64encode(data).decode()
        if kind == "audio" and revision == "2024-11-05":
            assert (block["type"], block["resource"]["blob"]) == ("resource", encoded)
        else:
            assert (block["type"], block["data"]) == (kind, encoded)
        if revision in STRUCTURED:
            (content,) = result["structuredContent"]["contents"]
            described = await wire.result("resources/metadata", {"uri": uri})
            assert content == described["resource"]


@pytest.mark.parametrize("revision", EVERY)
async def test_other_data_is_an_embedded_resource_with_all_its_metadata(revision: str) -> None:
    wire = await wired(revision)
    (block,) = (await called(wire, "read_resource", revision, uri="test://one/blob"))["content"]
    (read,) = (await wire.result("resources/read", {"uri": "test://one/blob"}))["contents"]
    assert block["type"] == "resource"
    assert block["resource"] == read
    mirrored = read["annotations"] if revision in HANDSHAKE else None
    assert block.get("annotations") == mirrored


@pytest.mark.parametrize("revision", EVERY)
async def test_a_part_names_the_uri_of_the_next_range(revision: str) -> None:
    wire = await wired(revision)
    asked = "test://one/a%20b.txt?lines=1"
    result = await called(wire, "read_resource", revision, uri=asked)
    text, notice = (block["text"] for block in result["content"])
    following = "test://one/a%20b.txt?lines=3"
    assert text == "one\n"
    assert notice == f"This is a part of 3 lines. Read on: uri={following}"
    if revision in STRUCTURED:
        assert result["structuredContent"]["truncated"] == {
            "reason": "requested",
            "unit": "lines",
            "total": 3,
            "next": following,
        }
    rest = words(await called(wire, "read_resource", revision, uri=following))
    assert rest.endswith("This is a part of 3 lines; the end of what can be read this way.")


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("tree", [Tree, SlowTree])
async def test_a_collection_is_a_table_and_its_documents(revision: str, tree: type[Tree]) -> None:
    wire = await wired(revision, tree)
    result = await called(wire, "read_resource", revision, uri="test://one/folder")
    table, inner, picture = result["content"]
    assert [row.split()[2] for row in table["text"].splitlines()[1:]] == [
        f"test://one/folder/{name}" for name in ("empty", "inner.txt", "logo.png")
    ]
    assert inner["resource"]["uri"] == "test://one/folder/inner.txt"
    assert inner["resource"]["text"] == "tea"
    assert picture["type"] == "image"
    if revision in STRUCTURED:
        contents = result["structuredContent"]["contents"]
        assert [each.get("text") for each in contents] == [None, "tea", None]


@pytest.mark.parametrize("revision", EVERY)
async def test_a_truncated_collection_is_marked(revision: str) -> None:
    wire = await wired(revision, limits=CatalogLimits(collection_children=2))
    result = await called(wire, "read_resource", revision, uri="test://one")
    assert words(result).endswith("Not all of it: 2 children were read. List them: uri=test://one")
    if revision in STRUCTURED:
        assert result["structuredContent"]["truncated"] == {"returned": 2, "more": True}


async def test_an_empty_collection_is_reported_as_empty() -> None:
    wire = await wired("2025-11-25")
    result = await called(wire, "read_resource", "2025-11-25", uri="test://one/folder/empty")
    assert words(result) == "There is nothing in this collection."
    assert result["structuredContent"] == {"contents": []}


async def test_an_unreadable_collection_is_not_reported_as_empty() -> None:
    nodes: dict[str, Any] = {"kept": Folder({"secret": Leaf(raises=ResourceNotFound())})}
    wire = Wire(await server_of(Tree(nodes)), "2025-11-25")
    result = await called(wire, "read_resource", "2025-11-25", uri="test://one/kept")
    assert words(result) == (
        "Nothing in this collection can be read here.\n"
        "Not all of it: 0 of 1 children were read. List them: uri=test://one/kept"
    )


async def test_a_document_is_read_in_all_formats_if_the_manifest_enables_them() -> None:
    wire = await wired("2025-11-25", limits=CatalogLimits(alternatives=True))
    result = await called(wire, "read_resource", "2025-11-25", uri="test://one/formats")
    assert [block["text"] for block in result["content"]] == ["x", "<p>x</p>"]


@pytest.mark.slow
@pytest.mark.parametrize("revision", HANDSHAKE)
@pytest.mark.parametrize("uri", ["test://one/a.txt", "test://one"])
async def test_a_change_between_read_and_subscribe_is_notified(revision: str, uri: str) -> None:
    tree = WatchedTree({"a.txt": "text"})
    async with await server_of(tree) as server:
        wire = Wire(server, revision)
        await called(wire, "read_resource", revision, uri=uri)
        await wire.result("resources/subscribe", {"uri": uri})
        await tree.asked(() if uri.endswith("one") else ("a.txt",))
        await wire.quiet()
        assert wire.updates == []
        await wire.result("resources/unsubscribe", {"uri": uri})
        tree.set("a.txt", to="longer text")
        await wire.result("resources/subscribe", {"uri": uri})
        await wire.notified(1)
        assert wire.updates == [uri]


# -- search_resources


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("tree", [Tree, SlowTree])
async def test_hits_are_quoted_with_their_lines_and_linked(revision: str, tree: type[Tree]) -> None:
    wire = await wired(revision, tree)
    result = await called(wire, "search_resources", revision, query="two")
    found = await wire.result("resources/metadata", {"uri": "test://one/a%20b.txt"})
    assert words(result).splitlines()[:2] == ["test://one/a%20b.txt", "  2: two"]
    links = [block for block in result["content"] if block["type"] != "text"]
    if revision in STRUCTURED:
        assert links == [{"type": "resource_link", **found["resource"]}]
        structured = result["structuredContent"]
        hit = {"resource": found["resource"], "lines": [{"number": 2, "text": "two"}]}
        assert structured["hits"] == [hit]
        assert structured["stopped"] is False
    else:
        assert links == []


@pytest.mark.parametrize("revision", EVERY)
async def test_a_search_continues_from_its_cursor(revision: str) -> None:
    wire = await wired(revision, limits=CatalogLimits(page_size=1))
    found: list[str] = []
    asked: dict[str, Any] = {"query": "inner", "in": "names"}
    while True:
        said = words(await called(wire, "search_resources", revision, **asked)).splitlines()
        found += [line for line in said if line.startswith("test://")]
        more = [line for line in said if "cursor=" in line]
        if not more:
            break
        asked["cursor"] = more[0].partition("cursor=")[2]
    assert found == ["test://one/folder/inner.txt"]


async def test_a_search_can_be_limited_to_names_or_text_below_a_collection() -> None:
    wire = await wired("2025-11-25")
    asked = {"query": "t", "uri": "test://one/folder"}
    for place, hits in (("names", ["inner.txt"]), ("text", ["inner.txt"])):
        result = await called(wire, "search_resources", "2025-11-25", **asked, **{"in": place})
        found = [each["resource"]["name"] for each in result["structuredContent"]["hits"]]
        assert [name for name in found if name in hits] == hits
        lines = [each.get("lines") for each in result["structuredContent"]["hits"]]
        assert all(lines) if place == "text" else not any(lines)


async def test_a_search_without_hits_is_reported_as_empty() -> None:
    result = await called(await wired("2025-11-25"), "search_resources", "2025-11-25", query="zzz")
    unsearched = "Not searched, as too large, not readable or not text: 4"
    assert words(result) == f"Nothing was found.\n{unsearched}"
    assert result["structuredContent"]["skipped"] == 4
    assert result["structuredContent"]["hits"] == []


# -- errors


async def test_a_document_cannot_be_listed() -> None:
    wire = await wired("2025-11-25")
    told = refusal(await called(wire, "list_resources", "2025-11-25", uri="test://one/blob"))
    assert told == "Not a collection: test://one/blob. It is a document: read it."


JUNK = [None, True, 5, 1.5, [], ["x"], {}, {"x": 1}]
PLACES: list[tuple[str, str, dict[str, Any]]] = [
    ("list_resources", "uri", {}),
    ("list_resources", "cursor", {}),
    ("read_resource", "uri", {}),
    ("resource_metadata", "uri", {}),
    ("search_resources", "query", {}),
    ("search_resources", "uri", {"query": "x"}),
    ("search_resources", "in", {"query": "x"}),
    ("search_resources", "cursor", {"query": "x"}),
]


@pytest.mark.slow
@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize(("name", "member", "others"), PLACES)
async def test_arguments_of_wrong_types_are_reported(
    revision: str, name: str, member: str, others: dict[str, Any]
) -> None:
    wire = await wired(revision)
    needed = (name, member) == ("search_resources", "query") or name not in (
        "list_resources",
        "search_resources",
    )
    for junk in JUNK:
        if junk is None and not needed:
            continue  # Models write it where there is nothing; see below.
        told = refusal(await called(wire, name, revision, **others, **{member: junk}))
        assert told.startswith("Invalid arguments: ")
        assert f"$.{member}" in told
    told = refusal(await called(wire, name, revision, **others, nonsense=1))
    assert told.startswith("Invalid arguments: Object contains unknown field `nonsense`")


async def test_null_counts_as_omitted_for_optional_arguments() -> None:
    wire = await wired("2025-11-25")
    listed = await called(wire, "list_resources", "2025-11-25")
    assert await called(wire, "list_resources", "2025-11-25", uri=None, cursor=None) == listed
    some = {"query": "blob"}
    found = await called(wire, "search_resources", "2025-11-25", **some)
    nothing = dict.fromkeys(("uri", "in", "cursor"))
    assert await called(wire, "search_resources", "2025-11-25", **some, **nothing) == found


@pytest.mark.parametrize("name", ["read_resource", "resource_metadata", "search_resources"])
async def test_a_missing_required_argument_is_named(name: str) -> None:
    told = refusal(await called(await wired("2025-11-25"), name, "2025-11-25"))
    needed = "query" if name == "search_resources" else "uri"
    assert told == f"Invalid arguments: Object missing required field `{needed}`"


@pytest.mark.slow
@pytest.mark.parametrize(
    "junk", ["", " ", "x" * 100_000, "\0", "\n", "\u202e", "%", "/(/", "/(a+)+$/", "[", "**/**/**"]
)
async def test_hostile_arguments_do_no_harm(junk: str) -> None:
    wire = await wired("2025-11-25")
    for name, member, others in PLACES:
        await called(wire, name, "2025-11-25", **others, **{member: junk})
    assert words(await called(wire, "read_resource", "2025-11-25", uri="test://one/a%20b.txt"))


@pytest.mark.parametrize("name", ["list_resources", "read_resource"])
async def test_a_catalog_tool_reports_the_progress_of_the_catalog(name: str) -> None:
    wire = await wired("2025-11-25", SlowTree, timing=Timing(progress_interval_s=0.0))
    uri = {"uri": "test://one"} if name == "read_resource" else {}
    asked = {"name": name, "arguments": uri, "_meta": {"progressToken": "t"}}
    await wire.result("tools/call", asked)
    assert wire.notifications
    assert {each["method"] for each in wire.notifications} == {"notifications/progress"}


# -- excerpts

SHORT = ServerLimits(tool_text_bytes=100)


class Ranged(Tree):
    """A tree whose documents are read in ranges of bytes as well, and not whole if too large."""

    max_size = 10**9

    def read(self, path: Path, query: Mapping[str, str]) -> MaybeAwaitable[Any]:
        data = str(self._node(path)).encode()
        if "bytes" not in query:
            if len(data) > self.max_size and not query:
                following = {"bytes": "0-99"}
                raise ResourceTooLarge(size=len(data), limit=self.max_size, next=following)
            return super().read(path, query)
        first, last = (int(part) for part in query["bytes"].split("-"))
        length = last - first + 1
        more = {"bytes": f"{last + 1}-{last + length}"} if last + 1 < len(data) else None
        cut = Truncation("requested", "bytes", len(data), more)
        return [Content(data[first : last + 1].decode(), truncated=cut)]


TEXT = "".join(f"line {number}\n" for number in range(1, 200))


@pytest.mark.slow
@pytest.mark.parametrize("max_size", [10**9, 50])
@pytest.mark.parametrize("revision", EVERY)
async def test_a_long_document_can_be_read_to_its_end_by_following_it(
    revision: str, max_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ranged, "max_size", max_size)
    wire = Wire(await server_of(Ranged({"long.txt": TEXT}), server_limits=SHORT), revision)
    uri, found = "test://one/long.txt", ""
    while uri:
        result = await called(wire, "read_resource", revision, uri=uri)
        text, notice = (block["text"] for block in result["content"])
        assert 0 < len(text) <= 100
        found += text
        _, _, uri = notice.partition("Read on: uri=")
        if revision in STRUCTURED:
            cut = result["structuredContent"]["truncated"]
            assert (cut["total"], cut.get("next", "")) == (len(TEXT), uri)
            # What follows is as long as was asked for.
            assert cut["reason"] == ("limit" if found == text else "requested")
    assert found == TEXT


async def test_long_binary_data_is_truncated() -> None:
    wire = Wire(
        await server_of(Tree({"blob": b"\x00\xff" * 200}), server_limits=SHORT), "2025-11-25"
    )
    result = await called(wire, "read_resource", "2025-11-25", uri="test://one/blob")
    block, notice = result["content"]
    assert len(base64.b64decode(block["resource"]["blob"])) == 100
    assert notice["text"].startswith("This is a part of 400 bytes")


async def test_an_image_is_sent_complete_or_not_at_all() -> None:
    tree = Tree({"logo.png": Leaf(PICTURE, "image/png")})
    limits = ServerLimits(tool_text_bytes=10)
    wire = Wire(await server_of(tree, server_limits=limits), "2025-11-25")
    asked = {"uri": "test://one/logo.png"}
    (block,) = (await called(wire, "read_resource", "2025-11-25", **asked))["content"]
    assert base64.b64decode(block["data"]) == PICTURE
    limits = ServerLimits(tool_media_bytes=len(PICTURE) - 1)
    wire = Wire(await server_of(tree, server_limits=limits), "2025-11-25")
    (block,) = (await called(wire, "read_resource", "2025-11-25", **asked))["content"]
    assert block["text"] == f"[{len(PICTURE)} bytes, too long to be shown by a tool]"


async def test_a_long_range_is_truncated_too() -> None:
    wire = Wire(await server_of(Ranged({"long.txt": TEXT}), server_limits=SHORT), "2025-11-25")
    asked = {"uri": "test://one/long.txt?bytes=10-999"}
    text, notice = (await called(wire, "read_resource", "2025-11-25", **asked))["content"]
    assert text["text"] == TEXT[10:110]
    assert notice["text"].endswith("Read on: uri=test://one/long.txt?bytes=110-209")


class ByLines(Tree):
    """A tree whose documents are read in ranges of lines."""

    def read(self, path: Path, query: Mapping[str, str]) -> MaybeAwaitable[Any]:
        if set(query) - {"lines"}:
            raise InvalidParameter("unknown query parameter")
        first, _, last = query.get("lines", "1-").partition("-")
        kept = str(self._node(path)).splitlines(keepends=True)[int(first) - 1 : int(last or 10**9)]
        return [Content("".join(kept))]


async def test_surplus_lines_are_truncated_at_a_line_end() -> None:
    wire = Wire(await server_of(ByLines({"long.txt": TEXT}), server_limits=SHORT), "2025-11-25")
    uri, found = "test://one/long.txt?lines=5-150", ""
    while uri:
        content = (await called(wire, "read_resource", "2025-11-25", uri=uri))["content"]
        assert content[0]["text"].endswith("\n")
        found += content[0]["text"]
        uri = content[1]["text"].partition("Read on: uri=")[2] if content[1:] else ""
    assert found == "".join(TEXT.splitlines(keepends=True)[4:150])


async def test_text_without_ranges_is_truncated_and_marked() -> None:
    for text in (TEXT, "ä" * 500):
        wire = Wire(await server_of(ByLines({"long.txt": text}), server_limits=SHORT), "2025-11-25")
        result = await called(wire, "read_resource", "2025-11-25", uri="test://one/long.txt")
        part, notice = (block["text"] for block in result["content"])
        assert text.startswith(part)
        assert 80 < len(part.encode()) <= 100
        total = len(text.encode())
        assert notice == (f"This is a part of {total} bytes; the end of what can be read this way.")
        cut = {"reason": "limit", "unit": "bytes", "total": total}
        assert result["structuredContent"]["truncated"] == cut
