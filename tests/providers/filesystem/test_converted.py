"""Other formats of a folder's documents, in reads, metadata, searches and tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resource_server.errors import ConversionError, InvalidParameter, ResourceNotFound
from resource_server.provider import Content
from resource_server.provider import Path as Address
from resource_server.provider.search import SearchRequest
from resource_server.providers.filesystem import Filesystem
from resource_server.runtime.eager import settle
from tests.conversion.portable import pdf
from tests.protocol.tools.tooled import called, refusal, words
from tests.protocol.wire import Wire, server_of

pytestmark = pytest.mark.anyio

LATEST = "2025-11-25"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "report.pdf").write_bytes(pdf("Turnover 2026", "The margin is 17 %", ""))
    (tmp_path / "broken.pdf").write_bytes(pdf("x")[:200])
    (tmp_path / "hidden.pdf").write_bytes(pdf("The margin is secret"))
    (tmp_path / ".gitignore").write_text("hidden.pdf\n")
    (tmp_path / "shop.csv").write_text("name;price\nEarl Grey;4,50\nAssam;3,20\n")
    (tmp_path / "plain.txt").write_text("text")
    return tmp_path


async def read(folder: Path, path: str, **query: str) -> Content:
    (content,) = await settle(Filesystem(folder).read(Address(path.split("/")), query))
    return content


async def test_a_document_is_read_in_another_format_as_a_whole_or_in_part(folder: Path) -> None:
    whole = await read(folder, "report.pdf", format="markdown")
    assert isinstance(whole.data, str)
    assert "Turnover 2026" in whole.data
    assert whole.mime_type == "text/markdown"
    page = await read(folder, "report.pdf", pages="2")
    assert page.data == "## Page 2\n\nThe margin is 17 %\n\n- <https://example.com/2>\n"
    assert (await read(folder, "report.pdf", pages="2-2", lines="3-3")).data == (
        "The margin is 17 %\n"
    )
    picture = await read(folder, "report.pdf", format="png", pages="1")
    assert isinstance(picture.data, bytes)
    assert picture.data.startswith(b"\x89PNG")
    original = await read(folder, "report.pdf")
    assert isinstance(original.data, bytes)
    table = await read(folder, "shop.csv", format="markdown", rows="2-2", columns="name")
    assert "Assam" in str(table.data)
    assert "Earl" not in str(table.data)


@pytest.mark.parametrize(
    ("path", "query", "told"),
    [
        ("report.pdf", {"format": "html"}, "write markdown or png"),
        ("report.pdf", {"pages": "0"}, "write pages=3, 3-7 or 3-"),
        ("report.pdf", {"pages": "9"}, "no such pages"),
        ("report.pdf", {"pages": "7-3"}, "write pages=3, 3-7 or 3-"),
        ("report.pdf", {"columns": "a"}, "this document takes format, pages"),
        ("report.pdf", {"format": "markdown", "nonsense": "1"}, "unknown query parameter"),
        ("plain.txt", {"format": "markdown"}, "this document takes lines, bytes or tail"),
    ],
)
async def test_a_wrong_parameter_is_refused_with_a_right_one(
    folder: Path, path: str, query: dict[str, str], told: str
) -> None:
    with pytest.raises(InvalidParameter, match=told):
        await read(folder, path, **query)


async def test_what_cannot_be_converted_says_so_and_can_still_be_read(folder: Path) -> None:
    with pytest.raises(ConversionError, match="cannot be converted"):
        await read(folder, "broken.pdf", format="markdown")
    assert len((await read(folder, "broken.pdf")).data) == 200


async def test_a_hidden_document_has_no_other_format_either(folder: Path) -> None:
    for path in ("hidden.pdf", "missing.pdf"):
        with pytest.raises(ResourceNotFound):
            await read(folder, path, format="markdown")
        with pytest.raises(InvalidParameter):
            await read(folder, path, format="html")


async def test_metadata_and_reads_name_the_formats(folder: Path) -> None:
    provider = Filesystem(folder)
    described = provider.metadata(("report.pdf",))
    assert [each.name for each in described.formats] == ["markdown", "png"]
    assert provider.metadata(("plain.txt",)).formats == ()
    fetched, _ = await settle(provider.fetch(("report.pdf",), {}))
    assert fetched == described
    fetched, _ = await settle(provider.fetch(("report.pdf",), {"format": "markdown"}))
    assert fetched == described


async def test_conversions_can_be_switched_off(folder: Path) -> None:
    provider = Filesystem(folder, convert="off")
    assert provider.metadata(("report.pdf",)).formats == ()
    assert provider.parameters == {"lines", "bytes", "tail"}
    with pytest.raises(InvalidParameter):
        await settle(provider.read(("report.pdf",), {"format": "markdown"}))


@pytest.mark.parametrize("word", ["margin", "secret"])
async def test_converted_text_is_searched_with_the_place_of_each_line(
    folder: Path, word: str
) -> None:
    found = await Filesystem(folder).search(
        SearchRequest(text=word, where="text"), below=(), after=None, limit=10, deadline=10**9
    )
    lines = [(hit.resource.name, line.text) for hit in found.hits for line in hit.lines]
    assert lines == ([("report.pdf", "[page 2] The margin is 17 %")] if word == "margin" else [])
    assert found.skipped == 1


async def test_the_tool_reads_the_text_of_what_is_no_text(folder: Path) -> None:
    wire = Wire(await server_of(Filesystem(folder)), LATEST)

    async def tool(**arguments: Any) -> Any:
        return await called(wire, "read_resource", LATEST, **arguments)

    said = words(await tool(uri="test://one/report.pdf", pages="2"))
    assert said == "## Page 2\n\nThe margin is 17 %\n\n- <https://example.com/2>\n"
    assert "Turnover" in words(await tool(uri="test://one/report.pdf"))
    (block,) = (await tool(uri="test://one/report.pdf", format="png", pages=1))["content"]
    assert block["type"] == "image"
    assert "cannot be converted" in refusal(await tool(uri="test://one/broken.pdf"))
    raw = (await tool(uri="test://one/report.pdf", bytes="0-7"))["content"][0]
    assert raw["type"] == "resource"
    said = words(await tool(uri="test://one/shop.csv", format="markdown", rows=1))
    assert "Earl Grey" in said
    assert "Assam" not in said
