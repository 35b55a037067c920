"""The tool `read_resource`: documents and collections, in parts, within the budget."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from resource_server.catalog.catalog import CatalogLimits
from resource_server.errors import ResourceNotFound, ResourceTooLarge
from resource_server.protocol.server import ServerLimits
from resource_server.protocol.tools.registry import ToolSettings
from resource_server.provider import ByteSize, Content, Truncation
from resource_server.providers.filesystem import Filesystem
from tests.cases import for_each
from tests.conversion.portable import xlsx
from tests.protocol.tools.tooled import PICTURE, called, described, refusal, words
from tests.protocol.wire import EVERY, HANDSHAKE, Wire, server_of
from tests.providers_for_tests import Folder, Leaf, SlowTree, Tree

pytestmark = pytest.mark.anyio

NODES: dict[str, Any] = {
    "a b.txt": "one\ntwo\nthree\n",
    "blob": b"\x00\xff",
    "folder": {"inner.txt": "tea", "empty": {}, "logo.png": Leaf(PICTURE, "image/png")},
    "formats": Leaf("x", formats={"html": "<p>x</p>"}),
    "logo.png": Leaf(PICTURE, "image/png"),
    "song.wav": Leaf(b"RIFF", "audio/wav"),
}
LATEST = "2025-11-25"
TEXT = "".join(f"line {number}\n" for number in range(1, 400))


async def wired(revision: str = LATEST, tree: type[Tree] = Tree, **more: Any) -> Wire:
    return Wire(await server_of(tree(NODES), **more), revision)


async def read(wire: Wire, uri: str, **arguments: object) -> str:
    return words(await called(wire, "read_resource", LATEST, uri=uri, **arguments))


async def parts(wire: Wire, uri: str, **arguments: object) -> list[str]:
    """Return the texts of all calls, each made with the arguments that the one before names."""
    budget = wire.connection.server.toolbox.settings.budget
    found: list[str] = []
    asked: dict[str, Any] | None = {"uri": uri, **arguments}
    while asked is not None:
        result = await called(wire, "read_resource", LATEST, **asked)
        text, *notices = (block["text"] for block in result["content"])
        assert len(text) == 1 or len(words(result)) <= max(budget, len(text))
        assert text or not found
        found.append(text)
        asked = None
        for notice in notices:
            if notice.startswith(("[The end: ", "[More follows: ")):
                continue  # all of what was asked for
            assert notice.startswith("[Truncated: ")
            asked = json.loads(notice.partition("Read on: ")[2].removesuffix("]"))
    return found


def folder(path: Path, files: Mapping[str, str | bytes], **options: Any) -> Filesystem:
    for name, data in files.items():
        (path / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return Filesystem(path, **options)


# -- whole documents


@for_each("revision", EVERY)
@for_each("tree", [Tree, SlowTree])
async def test_a_text_is_exactly_one_block_and_nothing_else(
    revision: str, tree: type[Tree]
) -> None:
    wire = await wired(revision, tree)
    result = await called(wire, "read_resource", revision, uri="test://one/a%20b.txt")
    assert result["content"] == [{"type": "text", "text": "one\ntwo\nthree\n"}]
    # Some hosts give their model the structured content alone, without images.
    assert "structuredContent" not in result
    assert "outputSchema" not in await described(wire, "read_resource")


@for_each("revision", EVERY)
async def test_images_and_audio_are_separate_blocks(revision: str) -> None:
    wire = await wired(revision)
    for name, kind, data in (("logo.png", "image", PICTURE), ("song.wav", "audio", b"RIFF")):
        result = await called(wire, "read_resource", revision, uri=f"test://one/{name}")
        (block,) = result["content"]
        encoded = base64.b64encode(data).decode()
        if kind == "audio" and revision == "2024-11-05":
            assert (block["type"], block["resource"]["blob"]) == ("resource", encoded)
        else:
            assert (block["type"], block["data"]) == (kind, encoded)


@for_each("revision", EVERY)
async def test_other_data_is_an_embedded_resource_with_all_its_metadata(revision: str) -> None:
    wire = await wired(revision)
    (block,) = (await called(wire, "read_resource", revision, uri="test://one/blob"))["content"]
    (content,) = (await wire.result("resources/read", {"uri": "test://one/blob"}))["contents"]
    assert block["type"] == "resource"
    assert block["resource"] == content
    mirrored = content["annotations"] if revision in HANDSHAKE else None
    assert block.get("annotations") == mirrored


async def test_a_document_is_read_in_all_formats_if_the_manifest_enables_them() -> None:
    wire = await wired(limits=CatalogLimits(alternatives=True))
    assert await read(wire, "test://one/formats") == "x\n<p>x</p>"
    tree = Tree({"formats": Leaf("x", formats={"html": "y" * 2000})})
    limits = CatalogLimits(alternatives=True)
    wire = Wire(await server_of(tree, limits=limits, tools=ToolSettings(budget=500)), LATEST)
    said = await read(wire, "test://one/formats")
    assert said == "x\n[Truncated: too long in further formats; ask for format=html]"


@for_each("revision", EVERY)
async def test_a_part_that_the_provider_truncates_names_the_rest(revision: str) -> None:
    wire = await wired(revision)
    asked = "test://one/a%20b.txt?lines=1"  # the tree's own parameter
    result = await called(wire, "read_resource", revision, uri=asked)
    text, notice = (block["text"] for block in result["content"])
    assert text == "one\n"
    following = "test://one/a%20b.txt?lines=3"
    assert notice == f'[More follows. Read on: {{"uri":"{following}"}}]'
    rest = words(await called(wire, "read_resource", revision, uri=following))
    assert rest.endswith("[Truncated: a part of 3 lines; there is no way to the rest.]")


# -- ranges

RANGES: list[tuple[dict[str, object], str]] = [
    ({"lines": "2-3"}, "two\nthree\n\n[More follows: lines=4-]"),
    ({"lines": "4-"}, "vier\n[The end: 4 lines in all.]"),
    ({"lines": "3-99"}, "three\nvier\n[The end: 4 lines in all.]"),
    ({"lines": "1-"}, "one\ntwo\nthree\nvier"),
    ({"lines": "2"}, "two\n\n[More follows: lines=3-]"),
    ({"lines": 2}, "two\n\n[More follows: lines=3-]"),
    ({"tail": 2}, "three\nvier"),
    ({"tail": "2"}, "three\nvier"),
    ({"tail": 99}, "one\ntwo\nthree\nvier"),
    ({"bytes": "4-6"}, "two\n[More follows: bytes=7-]"),
    ({"bytes": "14-"}, "vier\n[The end: 18 bytes in all.]"),
    ({"lines": "", "tail": None, "bytes": "", "format": ""}, "one\ntwo\nthree\nvier"),
    ({"number": True}, "1: one\n2: two\n3: three\n4: vier"),
    ({"number": True, "lines": "3-"}, "3: three\n4: vier\n[The end: 4 lines in all.]"),
    ({"number": True, "tail": 1}, "4: vier"),
]
WRONG: list[tuple[dict[str, object], str]] = [
    ({"lines": "3-2"}, "Lines 3-2 end before they begin; write lines=2-3"),
    ({"lines": "-2"}, "for the last lines write tail=2"),
    ({"lines": -2}, "for the last lines write tail=2"),
    ({"lines": "0-2"}, "Lines count from 1; write lines=1-2"),
    ({"lines": "0"}, "Lines count from 1; write lines=1-1"),
    ({"lines": "a-b"}, "Lines cannot be 'a-b'; write 10-40 or 10-, counted from 1"),
    ({"lines": "1-2-3"}, "write 10-40 or 10-"),
    ({"lines": "9" * 16}, "write 10-40 or 10-"),
    ({"lines": "5-9"}, "Lines 5-9 begin behind the end: the document has 4 lines; write lines=1-4"),
    ({"lines": "99999-"}, "the document has 4 lines; write lines=1-4"),
    ({"bytes": "18-20"}, "Bytes 18-20 begin behind the end: the document has 18 bytes"),
    ({"bytes": "9-3"}, "Bytes 9-3 end before they begin; write bytes=3-9"),
    ({"bytes": "-3"}, "write 0-999 or 1000-, counted from 0"),
    ({"tail": 0}, "Tail cannot be '0'; write a number of lines such as 100"),
    ({"tail": -5}, "Tail cannot be '-5'"),
    ({"lines": "1-2", "bytes": "0-9"}, "Lines and bytes exclude each other; give one of them"),
    ({"lines": "1-2", "tail": 3}, "Lines and tail exclude each other; give one of them"),
    ({"number": True, "bytes": "0-9"}, "Number counts lines; give lines instead of bytes"),
    ({"rows": 0}, "Rows cannot be '0'; write a number of rows, at least 1"),
    ({"rows": "many"}, "write a number of rows, at least 1"),
]
FOUR = "one\ntwo\nthree\nvier"


KINDS = ("native", "whole")


async def of_kind(
    kind: str, path: Path, data: str | bytes, name: str = "x.txt", **more: Any
) -> Wire:
    """Return a client of a provider with ranges of its own, or of one without."""
    provider = folder(path, {name: data}) if kind == "native" else Tree({name: data})
    return Wire(await server_of(provider, **more), LATEST)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_range_is_read_whoever_provides_the_document(kind: str, tmp_path: Path) -> None:
    wire = await of_kind(kind, tmp_path, FOUR)
    for arguments, text in RANGES:
        assert await read(wire, "test://one/x.txt", **arguments) == text, arguments


@pytest.mark.parametrize("kind", KINDS)
async def test_a_wrong_range_is_refused_with_a_right_one(kind: str, tmp_path: Path) -> None:
    wire = await of_kind(kind, tmp_path, FOUR)
    for arguments, text in WRONG:
        result = await called(wire, "read_resource", LATEST, uri="test://one/x.txt", **arguments)
        assert text in refusal(result), arguments


async def test_a_range_of_the_uri_still_works_but_not_a_second_one(tmp_path: Path) -> None:
    wire = await of_kind("native", tmp_path, FOUR)
    assert await read(wire, "test://one/x.txt?tail=1") == "vier"
    for arguments in ({"tail": 1}, {"lines": "1-2"}):
        result = await called(
            wire, "read_resource", LATEST, uri="test://one/x.txt?tail=1", **arguments
        )
        assert "The URI has tail already; give one range" in refusal(result)


async def test_a_character_is_never_cut() -> None:
    text = "aé中😀b"
    wire = Wire(await server_of(Tree({"x": text})), LATEST)
    found = ""
    for at in range(0, len(text.encode()), 2):
        found += (await read(wire, "test://one/x", bytes=f"{at}-{at + 1}")).partition("\n[")[0]
    assert found == text


async def test_an_empty_document_is_read(tmp_path: Path) -> None:
    for kind in ("native", "whole"):
        wire = await of_kind(kind, tmp_path, "")
        assert await read(wire, "test://one/x.txt") == ""
        assert await read(wire, "test://one/x.txt", tail=3) == ""
        assert await read(wire, "test://one/x.txt", number=True) == ""


# -- the budget


@pytest.mark.parametrize("budget", [1, 300, 2000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arguments", [{}, {"lines": "5-350"}])
async def test_a_long_text_is_read_to_its_end_by_following_it(
    budget: int, kind: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    text = TEXT if budget > 1 else "one\ntwo\n"
    if budget == 1:
        arguments = {"lines": "1-2"} if arguments else {}
    wire = await of_kind(kind, tmp_path, text, tools=ToolSettings(budget=budget))
    found = await parts(wire, "test://one/x.txt", **arguments)
    kept = text if budget == 1 or not arguments else "".join(TEXT.splitlines(keepends=True)[4:350])
    assert "".join(found) == kept
    if budget > 1:
        assert all(each.endswith("\n") for each in found)


@pytest.mark.parametrize("kind", KINDS)
async def test_numbered_lines_go_on_with_their_numbers(kind: str, tmp_path: Path) -> None:
    wire = await of_kind(kind, tmp_path, TEXT, tools=ToolSettings(budget=400))
    found = "".join(await parts(wire, "test://one/x.txt", number=True))
    assert found == "".join(f"{n}: line {n}\n" for n in range(1, 400))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_line_longer_than_the_budget_is_cut_and_read_on(
    kind: str, encoding: str, tmp_path: Path
) -> None:
    text = "short\n" + "中é" * 900 + "\nend\n"
    if kind == "native":
        provider: Any = folder(tmp_path, {"x.txt": text.encode(encoding)})
    else:
        provider = Tree({"x.txt": text})
    wire = Wire(await server_of(provider, tools=ToolSettings(budget=700)), LATEST)
    found = await parts(wire, "test://one/x.txt")
    assert found[0] == "short\n"
    assert "".join(found) == text


async def test_a_line_of_5_mb_costs_no_more_than_the_budget(tmp_path: Path) -> None:
    wire = await of_kind("native", tmp_path, "x" * 5_000_000 + "\nlast\n")
    for arguments in ({}, {"lines": "1-2"}, {"tail": 2}, {"bytes": "10-"}, {"number": True}):
        said = await read(wire, "test://one/x.txt", **arguments)
        assert 20_000 < len(said) <= 25_000 or said.startswith("last\n"), arguments
        assert "[Truncated" in said


@pytest.mark.parametrize("budget", [300, 3000])
async def test_a_document_too_large_to_be_read_whole_is_read_in_parts(
    budget: int, tmp_path: Path
) -> None:
    provider = folder(tmp_path, {"x.txt": TEXT, "y.txt": "é" * 2000}, max_size=ByteSize(1000))
    wire = Wire(await server_of(provider, tools=ToolSettings(budget=budget)), LATEST)
    assert "".join(await parts(wire, "test://one/x.txt")) == TEXT
    assert "".join(await parts(wire, "test://one/y.txt")) == "é" * 2000


@pytest.mark.parametrize("kind", KINDS)
async def test_a_long_tail_keeps_its_end_and_names_what_is_before(
    kind: str, tmp_path: Path
) -> None:
    wire = await of_kind(kind, tmp_path, TEXT, tools=ToolSettings(budget=400))
    said = await read(wire, "test://one/x.txt", tail=100)
    text, notice = said.rsplit("\n[", 1)
    assert text.endswith("line 399\n")
    assert notice.startswith("Truncated: lines 3")
    before = json.loads(notice.partition("Those before: ")[2].removesuffix("]"))
    assert before["lines"].startswith("300-")
    last = int(before["lines"].partition("-")[2])
    assert text.startswith(f"line {last + 1}\n")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["blob", "picture.png"])
async def test_long_binary_data_is_read_to_its_end_by_following_it(
    kind: str, name: str, tmp_path: Path
) -> None:
    data = b"\x00\xff" * 2000
    wire = await of_kind(kind, tmp_path, data, name=name, tools=ToolSettings(budget=2000))
    asked: dict[str, Any] | None = {"uri": f"test://one/{name}", "bytes": "10-"}
    found = b""
    while asked is not None:
        result = await called(wire, "read_resource", LATEST, **asked)
        assert len(json.dumps(result["content"][0])) <= 2000
        found += base64.b64decode(result["content"][0]["resource"]["blob"])
        notice = words(result)
        asked = json.loads(notice.partition("Read on: ")[2][:-1]) if notice else None
    assert found == data[10:]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_range_of_binary_data_is_that_range_or_an_error(kind: str, tmp_path: Path) -> None:
    data = bytes(range(256)) * 100
    wire = await of_kind(kind, tmp_path, data, name="blob")
    asked: dict[str, Any] = {"uri": "test://one/blob"}
    result = await called(wire, "read_resource", LATEST, **asked, bytes="20000-20009")
    assert base64.b64decode(result["content"][0]["resource"]["blob"]) == data[20000:20010]
    told = refusal(await called(wire, "read_resource", LATEST, **asked, bytes="25600-"))
    assert "begin behind the end: the document has 25600 bytes; write bytes=0-25599" in told
    for part in ({"lines": "3-4"}, {"tail": 2}):
        refusal(await called(wire, "read_resource", LATEST, **asked, **part))


@pytest.mark.parametrize("convert", ["auto", "off"])
async def test_lines_of_text_in_another_encoding_go_on_behind_them(
    convert: str, tmp_path: Path
) -> None:
    lines = [f"z\xe4hler {number:05}\n".encode("latin-1") for number in range(2000)]
    files = folder(tmp_path, {"x.txt": b"".join(lines)}, convert=convert)
    wire = Wire(await server_of(files, tools=ToolSettings(budget=2000)), LATEST)
    asked: dict[str, Any] | None = {"uri": "test://one/x.txt", "lines": "1500-"}
    found = b""
    while asked is not None:
        result = await called(wire, "read_resource", LATEST, **asked)
        notice = words(result)
        if convert == "off":
            found += base64.b64decode(result["content"][0]["resource"]["blob"])
        else:
            found += notice.partition("\n[")[0].encode("latin-1")
        following = notice.partition("Read on: ")[2]
        asked = json.loads(following[:-1]) if following else None
    assert found == b"".join(lines[1499:])


@pytest.mark.parametrize("whole", [True, False])
async def test_what_is_no_image_block_counts_as_everything_does(
    whole: bool, tmp_path: Path
) -> None:
    pictures = {f"{number}.png": b"\x89PNG" + bytes(40_000) for number in range(20)}
    drawings = {f"{number}.svg": "<svg>" + "x" * 9_000 for number in range(20)}
    limits = CatalogLimits(collection_bytes=100_000) if whole else CatalogLimits()
    wire = Wire(await server_of(folder(tmp_path, pictures | drawings), limits=limits), LATEST)
    result = await called(wire, "read_resource", LATEST, uri="test://one")
    counted = [block for block in result["content"] if block["type"] != "image"]
    assert len(json.dumps(counted, ensure_ascii=False)) < 26_000
    assert "Truncated" in words(result)


async def test_a_picture_too_large_to_be_read_is_not_sent_in_part(tmp_path: Path) -> None:
    tree = folder(tmp_path, {"x.png": bytes(50_000)}, max_size=ByteSize(10_000))
    wire = Wire(await server_of(tree), LATEST)
    said = await read(wire, "test://one/x.png")
    assert said == "[50000 bytes, too long to be shown by a tool]"


async def test_all_formats_together_are_within_the_budget() -> None:
    html = {"html": "<p>" + "y" * 900}
    for size in (100, 900, 1900, 5000):
        tree = Tree({"x": Leaf("line\n" * (size // 5), formats=html)})
        wire = Wire(
            await server_of(
                tree, limits=CatalogLimits(alternatives=True), tools=ToolSettings(budget=2000)
            ),
            LATEST,
        )
        said = await read(wire, "test://one/x")
        assert len(said) <= 2000
        assert ("<p>" in said) == (size == 100)


async def test_the_end_of_a_long_line_names_the_call_that_has_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("a\n" + "b" * 3000 + "\n")
    tools = ToolSettings(budget=1000)
    wire = Wire(await server_of(Filesystem(tmp_path), tools=tools), LATEST)
    result = await called(wire, "read_resource", LATEST, uri="test://one/long.txt", tail=1)
    notice = re.search(r"From its beginning: (.*)\]", words(result))
    assert notice is not None
    text = ""
    while notice is not None:
        part = await called(wire, "read_resource", LATEST, **json.loads(notice[1]))
        text += part["content"][0]["text"]
        notice = re.search(r"Read on: (.*)\]", words(part))
    assert text == "b" * 3000 + "\n"


async def test_a_tail_that_the_provider_limits_names_what_is_before(tmp_path: Path) -> None:
    tree = folder(tmp_path, {"x.txt": TEXT}, max_size=ByteSize(1000))
    wire = Wire(await server_of(tree), LATEST)
    text, notice = (await read(wire, "test://one/x.txt", tail=300)).rsplit("\n[", 1)
    assert text.endswith("line 399\n")
    before = json.loads(notice.partition("Those before: ")[2].removesuffix("]"))
    first, _, last = before["lines"].partition("-")
    assert first == "100"
    assert text.startswith(f"line {int(last) + 1}\n")


async def test_a_tail_of_a_document_too_long_to_count_names_what_is_before(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.write(b"begin\n")
        file.truncate(300 << 20)
        file.seek(0, 2)
        file.write(("\n" + TEXT).encode())
    tools = ToolSettings(budget=1000)
    wire = Wire(await server_of(Filesystem(tmp_path), tools=tools), LATEST)
    text, notice = (await read(wire, "test://one/huge.txt", tail=300)).rsplit("\n[", 1)
    assert text.endswith("line 399\n")
    assert notice.startswith("Truncated: only the last ")
    asked = json.loads(notice.partition("What is before: ")[2].removesuffix("]"))
    before = (await called(wire, "read_resource", LATEST, **asked))["content"][0]["text"]
    assert len(before) > 500
    assert TEXT.endswith(before + text)


async def test_an_empty_document_has_the_lines_that_are_asked_for(tmp_path: Path) -> None:
    wire = Wire(await server_of(folder(tmp_path, {"x.txt": ""})), LATEST)
    assert await read(wire, "test://one/x.txt", lines="1-40") == ""


class Paged(Tree):
    """A document whose pages are read by number."""

    def read(self, path: Any, query: Mapping[str, str]) -> Any:
        page = int(query.get("page", "1"))
        text = "".join(f"row {number}\n" for number in range(page * 100, page * 100 + 100))
        mark = Truncation("limit", "rows", 500, {"page": str(page + 1)}) if page < 5 else None
        return [Content(text, truncated=mark)]


async def test_a_range_of_a_page_never_claims_the_end_of_the_document() -> None:
    wire = Wire(await server_of(Paged({"x": "y"}), tools=ToolSettings(budget=500)), LATEST)
    asked: dict[str, Any] | None = {"uri": "test://one/x", "lines": "90-"}
    found = ""
    while asked is not None:
        result = await called(wire, "read_resource", LATEST, **asked)
        text, *notices = (block["text"] for block in result["content"])
        found += text
        assert not any("The end" in notice for notice in notices[:-1])
        (notice,) = notices or [""]
        asked = json.loads(notice.partition("Read on: ")[2][:-1]) if "Read on" in notice else None
    assert found == "".join(f"row {number}\n" for number in range(189, 600))
    told = refusal(await called(wire, "read_resource", LATEST, uri="test://one/x", tail=3))
    assert told.startswith("Tail would be that of this page")


async def test_an_image_is_sent_complete_or_not_at_all() -> None:
    asked = {"uri": "test://one/logo.png"}
    wire = await wired(tools=ToolSettings(budget=1))
    (block,) = (await called(wire, "read_resource", LATEST, **asked))["content"]
    assert base64.b64decode(block["data"]) == PICTURE
    wire = await wired(server_limits=ServerLimits(tool_media_bytes=len(PICTURE) - 1))
    (block,) = (await called(wire, "read_resource", LATEST, **asked))["content"]
    assert block["text"] == f"[{len(PICTURE)} bytes, too long to be shown by a tool]"


async def test_what_a_plugin_cannot_give_whole_is_read_as_it_says() -> None:
    error = ResourceTooLarge(size=5000, limit=10, next={"page": "1"})
    wire = Wire(await server_of(Tree({"x": Leaf(raises=error)})), LATEST)
    told = refusal(await called(wire, "read_resource", LATEST, uri="test://one/x"))
    assert told.endswith('Read a part: {"uri":"test://one/x?page=1"}')


# -- collections


@for_each("revision", EVERY)
@for_each("tree", [Tree, SlowTree])
async def test_a_collection_is_a_list_and_its_documents(revision: str, tree: type[Tree]) -> None:
    wire = await wired(revision, tree)
    result = await called(wire, "read_resource", revision, uri="test://one/folder")
    listed, inner, picture = result["content"]
    assert listed["text"].splitlines() == [
        "Below test://one/folder/ (path, bytes):",
        "empty/",
        "inner.txt 3",
        "logo.png 10",
    ]
    assert inner == {"type": "text", "text": "inner.txt:\ntea"}
    assert picture["type"] == "image"


@for_each("revision", EVERY)
async def test_a_truncated_collection_is_marked(revision: str) -> None:
    wire = await wired(revision, limits=CatalogLimits(collection_children=2))
    result = await called(wire, "read_resource", revision, uri="test://one")
    assert words(result).endswith(
        '[Truncated: 2 children were read. List them: list_resources {"uri":"test://one"}]'
    )


async def test_documents_of_a_collection_that_do_not_fit_are_listed() -> None:
    tree = Tree({"a": "x" * 300, "b": "y" * 900, "c": "z"})
    wire = Wire(await server_of(tree, tools=ToolSettings(budget=800)), LATEST)
    said = await read(wire, "test://one")
    assert len(said) <= 800
    assert said.startswith("Below test://one/ (path, bytes):\na 300\nb 900\nc 1\na:\nxxx")
    assert said.endswith(
        'c:\nz\n[Truncated: 2 of 3 children were read. List them: list_resources {"uri":"test://one"}]'
    )


async def test_parts_of_a_collection_are_refused(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for provider in (Tree({"sub": {}}), Filesystem(tmp_path)):
        wire = Wire(await server_of(provider), LATEST)
        for arguments in ({"lines": "1-2"}, {"rows": 3}, {"format": "csv"}, {"number": True}):
            result = await called(wire, "read_resource", LATEST, uri="test://one/sub", **arguments)
            assert "It is a collection, which is read whole: leave out" in refusal(result)


async def test_an_empty_collection_is_reported_as_empty() -> None:
    wire = await wired()
    said = await read(wire, "test://one/folder/empty")
    assert said == "There is nothing in this collection."


async def test_an_unreadable_collection_is_not_reported_as_empty() -> None:
    nodes: dict[str, Any] = {"kept": Folder({"secret": Leaf(raises=ResourceNotFound())})}
    wire = Wire(await server_of(Tree(nodes)), LATEST)
    assert await read(wire, "test://one/kept") == (
        "Nothing in this collection can be read here.\n"
        '[Truncated: 0 of 1 children were read. List them: list_resources {"uri":"test://one/kept"}]'
    )


async def test_rows_of_a_workbook_are_read_as_csv_and_another_format_is_named(
    tmp_path: Path,
) -> None:
    cells = "".join(f'<row r="{at}"><c r="A{at}"><v>{at}</v></c></row>' for at in range(1, 20))
    (tmp_path / "book.xlsx").write_bytes(xlsx(cells))
    wire = Wire(await server_of(Filesystem(tmp_path)), LATEST)
    listed = await called(wire, "list_resources", LATEST)
    uri = f"{listed['structuredContent']['base']}book.xlsx"
    result = await called(wire, "read_resource", LATEST, uri=uri, format="csv", rows="1-10")
    assert result["content"][0]["text"] == "".join(f"{at}\n" for at in range(1, 12))
    result = await called(wire, "read_resource", LATEST, uri=uri, format="tsv", rows="1-10")
    assert "write markdown or csv" in refusal(result)
