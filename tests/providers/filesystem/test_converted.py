"""Other formats of a folder's documents, in reads, metadata, searches and tools."""

from __future__ import annotations

import asyncio
import base64
import gzip
import html
import io
import json
import lzma
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest
from PIL import Image

from resource_server.access import Access
from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.mount import Mount
from resource_server.cli import runner
from resource_server.conversion import registry
from resource_server.conversion.disk_cache import SUFFIX
from resource_server.conversion.pool import Conversion, ConverterPool, shared
from resource_server.conversion.registry import Converters
from resource_server.errors import (
    ConversionError,
    ConversionTooSlow,
    InvalidParameter,
    ResourceNotFound,
)
from resource_server.manifest.load import load
from resource_server.manifest.prompts import Prompt, PromptMessage
from resource_server.plugins import load_provider
from resource_server.protocol.server import Server
from resource_server.provider import Content
from resource_server.provider import Path as Address
from resource_server.provider.search import SearchRequest
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.converted import ConvertedDocuments, NotConvertedYet
from resource_server.providers.filesystem.directory import is_fresh
from resource_server.providers.filesystem.options import DirectoryOptions
from resource_server.runtime import extras
from resource_server.runtime.eager import settle
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.conversion.formats.zipped import zipped
from tests.conversion.pools import LINUX
from tests.conversion.portable import SCAN, pdf, xlsx
from tests.conversion.samples import SAMPLES
from tests.protocol.tools.tooled import called, refusal, words
from tests.protocol.wire import Wire, server_of
from tests.waiting import PATIENCE_S, PATIENT, until

pytestmark = pytest.mark.anyio

LATEST = "2025-11-25"
_PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "report.pdf").write_bytes(pdf("Turnover 2026", "The margin is 17 %", ""))
    (tmp_path / "broken.pdf").write_bytes(pdf("x")[:200])
    (tmp_path / "hidden.pdf").write_bytes(pdf("The margin is secret"))
    (tmp_path / ".gitignore").write_text("hidden.pdf\n")
    (tmp_path / "shop.csv").write_text("name;price\nEarl Grey;4,50\nAssam;3,20\n")
    (tmp_path / "plain.txt").write_text("text")
    return tmp_path


@pytest.fixture
def shelf(folder: Path) -> Path:
    """More documents, some of them odd."""
    (folder / "book.xlsx").write_bytes(xlsx('<row r="1"><c r="A1"><v>1</v></c></row>'))
    Image.new("L", (9, 9)).save(folder / "photo.png")
    (folder / "notes.txt.gz").write_bytes(gzip.compress(b"text\n"))
    (folder / "empty.ipynb").write_text('{"nbformat": 4, "cells": []}')
    space = "http://schemas.openxmlformats.org/presentationml/2006/main"
    main = f'<p:presentation xmlns:p="{space}"/>'
    (folder / "empty.pptx").write_bytes(zipped({"ppt/presentation.xml": main}))
    other = zipped({"ppt/presentation.xml": "<presentation/>"})
    (folder / "other.pptx").write_bytes(other)
    (folder / "zero.eml").write_bytes(b"Subject: x\n\nbefore\0after\n")
    return folder


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
        ("report.pdf", {"pages": "9"}, "no such pages: it has 3"),
        ("report.pdf", {"format": "png", "pages": "9"}, "no such pages: it has 3"),
        ("report.pdf", {"format": "png", "pages": "1-2"}, "one picture at a time; write pages=1"),
        ("report.pdf", {"format": "png", "lines": "1-2"}, "png is read whole; leave out lines"),
        ("shop.csv", {"format": "markdown", "rows": "7-3"}, "write rows=3, 3-7 or 3-"),
        ("shop.csv", {"format": "markdown", "rows": "900"}, "no such rows: it has 2$"),
        ("shop.csv", {"rows": "3-", "columns": "name"}, "no such rows: it has 2$"),
        ("book.xlsx", {"rows": "7-", "format": "csv"}, "the sheet has no such rows: it has 0$"),
        ("shop.csv", {"format": "markdown", "columns": "x"}, "^there is no column 'x'; there are"),
        ("book.xlsx", {"rows": "a"}, "write rows=3, 3-7 or 3-"),
        ("book.xlsx", {"sheet": "x"}, "^the document has no sheet 'x'; its sheets are Sheet1"),
        ("book.xlsx", {"columns": "x"}, "^there is no column 'x'; there are 1$"),
        ("book.xlsx", {"sheets": "3"}, "no such sheets: it has 1"),
        ("photo.png", {"max": "5"}, "max cannot be '5'; write pixels from 16 to 4096"),
        ("notes.txt.gz", {"encoding": "klingon"}, "^there is no encoding 'klingon'; write one"),
        ("notes.txt.gz", {"encoding": "utf-16"}, "^the text is not utf-16"),
        ("report.pdf", {"pages": "7-3"}, "write pages=3, 3-7 or 3-"),
        ("report.pdf", {"columns": "a"}, "this document takes format, pages, lines, bytes or tail"),
        ("report.pdf", {"page": "1"}, "unknown .* 'page'; this document takes format, pages,"),
        ("book.xlsx", {"page": "1"}, "takes format, sheets, sheet, rows, columns, lines, bytes or"),
        ("plain.txt", {"page": "1"}, "'page'; this document takes lines, bytes or tail"),
        ("report.pdf", {"format": "markdown", "nonsense": "1"}, "unknown query parameter"),
        ("plain.txt", {"format": "markdown"}, "this document takes lines, bytes or tail"),
    ],
)
async def test_a_wrong_parameter_is_refused_with_a_right_one(
    shelf: Path, path: str, query: dict[str, str], told: str
) -> None:
    with pytest.raises(InvalidParameter, match=told):
        await read(shelf, path, **query)


@pytest.mark.parametrize("name", ["empty.ipynb", "empty.pptx"])
async def test_a_document_without_parts_is_empty(shelf: Path, name: str) -> None:
    found = await read(shelf, name, format="markdown")
    assert (found.data, found.mime_type) == ("", "text/markdown")
    with pytest.raises(ConversionError, match="no PPTX"):
        await read(shelf, "other.pptx", format="markdown")
    unit = "cells" if name.endswith(".ipynb") else "slides"
    with pytest.raises(InvalidParameter, match=f"no such {unit}"):
        await read(shelf, name, **{unit: "2"})


async def test_a_conversion_with_zero_bytes_is_text(shelf: Path) -> None:
    found = await read(shelf, "zero.eml", format="markdown")
    assert "before\ufffdafter" in str(found.data)


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
    assert described.details == {"parameters": "pages=3-7"}
    assert provider.metadata(("plain.txt",)).formats == ()
    fetched, _ = await settle(provider.fetch(("report.pdf",), {}))
    assert fetched == described
    fetched, _ = await settle(provider.fetch(("report.pdf",), {"format": "markdown"}))
    assert fetched == described


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_every_format_that_metadata_offers_is_read_as_it_is_offered(shelf: Path) -> None:
    for sample in SAMPLES:
        (shelf / sample.name).write_bytes(sample.data)
        if sample.name.endswith((".csv", ".tsv", ".html", ".jsonl")):
            text = sample.data.decode("utf-8-sig" if b"\xef\xbb\xbf" in sample.data else "latin-1")
            (shelf / f"wide-{sample.name}").write_bytes(text.encode("utf-16"))
    cells: list[Any] = [
        {"cell_type": "markdown", "metadata": {}, "source": "# a notebook"},
        {
            "cell_type": "code",
            "source": "plot()",
            "outputs": [{"output_type": "display_data", "data": {"image/png": _PIXEL}}],
        },
    ]
    (shelf / "second cell.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
    (shelf / "no picture.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells[:1]}))
    (shelf / "plain.pdf.gz").write_bytes(gzip.compress(pdf("x")))
    (shelf / "table.csv.xz").write_bytes(lzma.compress(b"a,b\n1,2\n"))
    (shelf / "all.tgz").write_bytes(gzip.compress(b"x"))
    (shelf / "broken.pdf").unlink()
    (shelf / "other.pptx").unlink()
    (shelf / "empty.ipynb").unlink()
    wire = Wire(await server_of(Filesystem(shelf)), LATEST)
    offered: set[tuple[str, str]] = set()
    for name in names_in(shelf):
        uri = f"test://one/{name.replace(' ', '%20')}"
        if name in (".gitignore", "hidden.pdf"):
            continue
        metadata = await wire.result("resources/metadata", {"uri": uri})
        for format in metadata["resource"]["_meta"].get("resource-server/formats", ()):
            read = await wire.result("resources/read", {"uri": format["uri"]})
            (found,) = read["contents"]
            assert found["mimeType"] == format["mimeType"], format
            assert found.get("blob") or found["text"] or name == "empty.pptx"
            offered.add((name, format["name"]))
    assert {("second cell.ipynb", "png"), ("report.pdf", "png"), ("photo.png", "webp")} <= offered
    assert {("notes.txt.gz", "text"), ("wide-semicolons.csv", "json")} <= offered
    assert {("plain.pdf.gz", "markdown"), ("table.csv.xz", "json")} <= offered
    assert (
        not {("plain.pdf.gz", "text"), ("all.tgz", "text"), ("no picture.ipynb", "png")} & offered
    )
    last = base64.b64decode(_PIXEL)
    (found,) = await settle(Filesystem(shelf).read(("second cell.ipynb",), {"format": "png"}))
    assert found.data == last


@pytest.mark.parametrize("written", ["off", "false", "[]"])
@pytest.mark.parametrize("section", ["roots: {r: {", "providers: {r: {use: filesystem, "])
async def test_conversions_can_be_switched_off(folder: Path, section: str, written: str) -> None:
    provider = mounted(folder, section, written)
    assert provider.metadata(("report.pdf",)).formats == ()
    assert provider.parameters == {"lines", "bytes", "tail"}
    assert not [each for each in provider.templates if "format" in each.uri_template]
    assert await completed(provider, "format", path="report.pdf") == []
    with pytest.raises(InvalidParameter):
        await settle(provider.read(("report.pdf",), {"format": "markdown"}))


@pytest.mark.parametrize("written", ["[pdf]", "[application/pdf, xlsx]", "[PDF]"])
async def test_only_listed_kinds_are_converted(folder: Path, written: str) -> None:
    provider = mounted(folder, "roots: {r: {", written)
    assert provider.metadata(("report.pdf",)).formats
    assert provider.metadata(("shop.csv",)).formats == ()
    assert await settle(provider.read(("report.pdf",), {"format": "markdown"}))
    with pytest.raises(InvalidParameter, match="lines, bytes or tail"):
        await settle(provider.read(("shop.csv",), {"format": "markdown"}))
    (folder / "letter.eml").write_text("Subject: margin\n\nmargin")
    page = await provider.search(
        SearchRequest(text="margin", where="text"), below=(), after=None, limit=9, deadline=10**9
    )
    found = {line.text for hit in page.hits for line in hit.lines}
    assert "[page 2] The margin is 17 %" in found
    assert "Subject: margin" in found  # as it is, not as Markdown


def mounted(folder: Path, section: str, written: str) -> Filesystem:
    manifest = folder / "mcp-resources.yaml"
    manifest.write_text(f"{section}path: ., convert: {written}}}}}\n")
    (spec,) = load(manifest).mounts
    assert isinstance(spec.use, str)
    provider = load_provider(spec, load(manifest), allow_plugins=False)
    assert isinstance(provider, Filesystem)
    provider.timing = PATIENT
    return provider


def unhurried(folder: Path, **options: Any) -> Filesystem:
    """Serve a folder; a search waits for each conversion, on a busy machine, too."""
    provider = Filesystem(folder, **options)
    provider.timing = PATIENT
    return provider


async def completed(provider: Filesystem, variable: str, typed: str = "", **given: str) -> Any:
    return list(await settle(provider.complete(variable, typed, given=given)))


async def test_formats_and_sheets_of_a_document_are_completed(folder: Path) -> None:
    (folder / "book.xlsx").write_bytes(xlsx("", "", ""))
    (folder / "broken.xlsx").write_bytes(b"PK")
    provider = Filesystem(folder)
    assert await completed(provider, "format", path="report.pdf") == ["markdown", "png"]
    assert await completed(provider, "format", "MARK", path="report.pdf") == ["markdown"]
    assert {"markdown", "png", "json", "csv", "text", "webp"} == {
        *await completed(provider, "format")
    }
    assert await completed(provider, "sheet", path="book.xlsx") == ["Sheet1", "Sheet2", "Sheet3"]
    assert await completed(provider, "sheet", "2", path="book.xlsx") == ["Sheet2"]
    for path in ("plain.txt", "hidden.pdf", "missing.pdf", "../report.pdf", "/", "\0", ""):
        assert path == "" or await completed(provider, "format", path=path) == []
        assert await completed(provider, "sheet", path=path) == []
    for path in ("broken.xlsx", "report.pdf"):
        assert await completed(provider, "sheet", path=path) == []
    with pytest.raises(InvalidParameter):
        await read(folder, "book.xlsx", format="sheet-names")


async def test_a_client_completes_the_format_of_a_template(folder: Path) -> None:
    wire = Wire(await server_of(Filesystem(folder)), LATEST)
    templates = (await wire.result("resources/templates/list"))["resourceTemplates"]
    (template,) = [each for each in templates if "{format}" in each["uriTemplate"]]
    assert len(json.dumps(template)) < 400
    asked = {
        "ref": {"type": "ref/resource", "uri": template["uriTemplate"]},
        "argument": {"name": "format", "value": "p"},
        "context": {"arguments": {"path": "report.pdf"}},
    }
    assert (await wire.result("completion/complete", asked))["completion"]["values"] == ["png"]


@pytest.mark.parametrize("word", ["margin", "secret"])
async def test_converted_text_is_searched_with_the_place_of_each_line(
    folder: Path, word: str
) -> None:
    found = await unhurried(folder).search(
        SearchRequest(text=word, where="text"), below=(), after=None, limit=10, deadline=10**9
    )
    lines = [(hit.resource.name, line.text) for hit in found.hits for line in hit.lines]
    assert lines == ([("report.pdf", "[page 2] The margin is 17 %")] if word == "margin" else [])
    (gap,) = found.unsearched
    assert (gap.path, gap.by_itself) == (("broken.pdf",), False)
    assert gap.why == "cannot be converted: it is damaged, or no PDF"


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


async def test_conversions_are_kept_on_disk_between_starts(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "kept"

    async def page() -> Any:
        served = Filesystem(folder, cache=cache, hidden=True)
        (content,) = await settle(served.read(("report.pdf",), {"format": "markdown"}))
        return content.data

    # Documents that changed this moment are not kept: another change might not be told apart.
    os.utime(folder / "report.pdf", (1, 1))
    deadline = time.monotonic() + PATIENCE_S
    while not (cache.exists() and list(cache.iterdir())):
        assert time.monotonic() < deadline
        assert "Turnover 2026" in await page()
    (kept,) = cache.iterdir()
    before = kept.read_bytes()
    (folder / "report.pdf").write_bytes(pdf("Other words"))
    assert "Other words" in await page()
    assert kept.read_bytes() == before


async def test_a_cache_that_cannot_keep_anything_is_warned_of(folder: Path) -> None:
    private, shared = folder / "private", folder / "shared"
    private.mkdir(mode=0o700)
    shared.mkdir()
    shared.chmod(0o777)
    for cache, told in {
        folder / "plain.txt": "it is no folder",
        shared: "others may write to the folder",
    }.items():
        warnings = await settle(Filesystem(folder, cache=cache).warnings())
        assert warnings == [("cache", f"converted documents cannot be kept there: {told}")]
    for cache in (private, folder / "missing"):
        assert await settle(Filesystem(folder, cache=cache).warnings()) == []
    assert await settle(Filesystem(folder, cache=shared, convert="off").warnings()) == []


async def test_kept_conversions_are_served_by_no_root(folder: Path) -> None:
    (folder / f"x{SUFFIX}").write_text("text of a document")
    assert f"x{SUFFIX}" not in [
        resource.name
        for resource in await settle(Filesystem(folder).list((), after=None, limit=99))
    ]
    with pytest.raises(ResourceNotFound):
        await read(folder, f"x{SUFFIX}")


ENCODED = {
    "cp1252": "Der Bär wählt Müller und Größe für die Übung.\n",
    "koi8-r": "Съешь же ещё этих мягких французских булок, да выпей чаю.\n",
    "cp932": "これは日本語の文章です。会議は月曜日の午前十時に始まります。\n",
    "gb18030": "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏\n",
}


@pytest.mark.parametrize("encoding", ENCODED)
async def test_text_in_another_encoding_is_read_by_a_guess_or_as_it_is_told(
    tmp_path: Path, encoding: str
) -> None:
    words = ENCODED[encoding]
    (tmp_path / "notes.txt").write_bytes(words.encode(encoding))
    served = Filesystem(tmp_path)
    _, (original,) = await settle(served.fetch(("notes.txt",), {}))
    assert original.data == words.encode(encoding)
    resource, (guessed,) = await settle(served.fetch(("notes.txt",), {"format": "text"}))
    assert [format.name for format in resource.formats] == ["text"]
    assert guessed.data == words
    assert guessed.mime_type == "text/plain"
    assert resource.details == {"encoding": encoding, "guessed": True}
    resource, (told,) = await settle(served.fetch(("notes.txt",), {"encoding": encoding}))
    assert told.data == words
    assert resource.details == {"encoding": encoding, "guessed": False}
    assert (await read(tmp_path, "notes.txt", encoding=encoding, lines="2-")).data == ""


async def test_text_in_the_encoding_of_its_folder_has_no_other_format(folder: Path) -> None:
    resource, _ = await settle(Filesystem(folder).fetch(("plain.txt",), {}))
    assert resource.formats == ()


@pytest.mark.parametrize("encoding", ["klingon", "base64", "utf-8", "", "../x", "zlib", "idna"])
async def test_an_encoding_that_is_none_or_does_not_fit_is_refused(
    tmp_path: Path, encoding: str
) -> None:
    (tmp_path / "notes.txt").write_bytes(b"Gr\xf6\xdfe")
    with pytest.raises(InvalidParameter):
        await read(tmp_path, "notes.txt", encoding=encoding)


async def test_binary_bytes_are_no_text_in_any_encoding(tmp_path: Path) -> None:
    (tmp_path / "noise.txt").write_bytes(bytes(range(256)) * 8)
    with pytest.raises(ConversionError):
        await read(tmp_path, "noise.txt", format="text")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99))
    with pytest.raises(InvalidParameter):
        await read(tmp_path, "logo.png", encoding="cp1252")


async def hits(folder: Path, word: str, **options: Any) -> set[str]:
    """Return the names of the documents with a word in their text."""
    request = SearchRequest(text=word, where="text")
    found = await unhurried(folder, **options).search(
        request, below=(), after=None, limit=10, deadline=10**9
    )
    return {hit.resource.name for hit in found.hits}


@pytest.mark.parametrize("cell", ["[Draft] *5", "a|b", "C:\\\\srv\\_x", "~5 < 7"])
async def test_a_search_finds_cells_as_they_are_written(tmp_path: Path, cell: str) -> None:
    rows = f'<row r="1"><c r="A1" t="inlineStr"><is><t>{html.escape(cell)}</t></is></c></row>'
    (tmp_path / "book.xlsx").write_bytes(xlsx(rows))
    assert await hits(tmp_path, cell) == {"book.xlsx"}


_TABLE = "| a | b |\n| --- | --- |\n| path C:\\.venv \\* | end |\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.log.gz", "| path C:\\.venv \\* end\n"),
        ("a.log.gz", _TABLE),
        ("a.csv.gz", _TABLE),
        ("a.eml", f"Subject: a\n\n{_TABLE}"),
    ],
    ids=["line", "log", "csv", "mail"],
)
async def test_a_search_finds_lines_like_rows_as_they_are_written(
    tmp_path: Path, name: str, text: str
) -> None:
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert await hits(tmp_path, r"C:\.venv \*") == {name}


async def test_a_search_finds_cells_of_a_document_as_they_are_shown(tmp_path: Path) -> None:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    cell = r"<w:tc><w:p><w:r><w:t>C:\.venv \* a|b</w:t></w:r></w:p></w:tc>"
    body = f"<w:body><w:tbl><w:tr>{cell * 2}</w:tr></w:tbl></w:body>"
    document = f'<w:document xmlns:w="{space}">{body}</w:document>'
    (tmp_path / "a.docx").write_bytes(zipped({"word/document.xml": document.encode()}))
    assert await hits(tmp_path, r"C:\.venv \* a|b") == {"a.docx"}


async def test_a_search_finds_words_in_other_encodings(tmp_path: Path) -> None:
    for encoding, text in ENCODED.items():
        (tmp_path / f"{encoding}.txt").write_bytes(text.encode(encoding))
    (tmp_path / "plain.txt").write_text("Müller\n", encoding="utf-8")
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)) * 8)
    assert await hits(tmp_path, "Müller") == {"cp1252.txt", "plain.txt"}
    assert await hits(tmp_path, "wählt") == {"cp1252.txt"}
    assert await hits(tmp_path, "und") == {"cp1252.txt"}
    assert await hits(tmp_path, "булок") == {"koi8-r.txt"}
    assert await hits(tmp_path, "会議") == {"cp932.txt"}
    assert await hits(tmp_path, "玄黄") == {"gb18030.txt"}
    assert await hits(tmp_path, "wählt", convert="off") == set()


async def test_reads_do_not_wait_for_conversions_of_other_documents(folder: Path) -> None:
    picture = io.BytesIO()
    Image.new("L", (4000, 4000)).save(picture, "JPEG", progressive=True)
    data = picture.getvalue()
    scan = data[data.rindex(b"\xff\xda") : -2]
    endless = data[:-2] + scan * 300 + data[-2:]
    served = Filesystem(folder)
    names = [f"{number}.jpg" for number in range(40)]
    for name in names:
        (folder / name).write_bytes(endless)
    reads = [settle(served.read((name,), {"format": "webp"})) for name in names]
    tasks = [asyncio.ensure_future(each) for each in reads]
    await anyio.lowlevel.checkpoint()  # they begin
    await settle(served.read(("plain.txt",), {"lines": "1-1"}))
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    # The workers are those of all tests.
    pool, deadline = shared(), time.monotonic() + PATIENCE_S
    while pool.counts.waiting or len(pool.processes) < pool.counts.workers:
        assert time.monotonic() < deadline
        await anyio.lowlevel.checkpoint()


@pytest.mark.deep
async def test_all_views_of_a_folder_share_their_conversions(folder: Path) -> None:
    (folder / "other").mkdir()
    rules = {"other": DirectoryOptions(access=Access(scopes=("a",)))}
    served = Filesystem(folder, directories=rules)
    views = [served.narrowed(scopes) for scopes in (frozenset[str](), frozenset(("a",)))]
    counts = [shared().counts.converted]
    deadline = time.monotonic() + PATIENCE_S
    # What changed this moment is not kept.
    while counts[-1] not in counts[:-1]:
        assert time.monotonic() < deadline
        await settle(views[0].read(("report.pdf",), {"format": "markdown"}))
        counts.append(shared().counts.converted)
    await settle(views[1].read(("report.pdf",), {"format": "markdown"}))
    assert shared().counts.converted == counts[-1]


def test_those_who_want_the_same_at_the_same_time_share_one_conversion(folder: Path) -> None:
    os.utime(folder / "report.pdf", (1, 1))
    pool = ConverterPool()
    try:
        documents = ConvertedDocuments(pool, Converters())
        wanted = documents.wanted({"format": "markdown"}, "application/pdf")
        begin = threading.Barrier(8)

        def convert(_: int) -> Conversion:
            with (folder / "report.pdf").open("rb") as file:
                begin.wait(PATIENCE_S)
                return documents.convert(file.fileno(), wanted)

        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(convert, range(8)))
        assert len({each.parts for each in found}) == 1
        assert pool.counts.converted == 1
    finally:
        pool.close()


def test_a_document_that_was_prepared_is_not_converted_again(folder: Path) -> None:
    os.utime(folder / "report.pdf", (1, 1))
    pool = BusyPool()
    pool.free.set()
    try:
        timing = Timing(search_convert_s=PATIENCE_S)
        text = ConvertedDocuments(pool, Converters(), timing=timing).text_of(())
        text.prepare(os.open(folder / "report.pdf", os.O_RDONLY), "report.pdf")
        with (folder / "report.pdf").open("rb") as file:
            (whole,) = text.texts(file.fileno(), "report.pdf", None)
            assert b"margin" in whole.data
        assert pool.counts.converted == 1
    finally:
        pool.close()


def test_the_first_conversion_waits_for_the_worker_that_was_started_for_it(folder: Path) -> None:
    pool = ConverterPool()
    try:
        timing = Timing(search_convert_s=PATIENCE_S)
        text = ConvertedDocuments(pool, Converters(), timing=timing).text_of(())
        for name in ("a.txt", "report.pdf", "report.pdf"):
            text.expect(name)
        with (folder / "report.pdf").open("rb") as file:
            (whole,) = text.texts(file.fileno(), "report.pdf", None)
        assert b"margin" in whole.data
        assert len(pool.processes) == pool.counts.converted == 1
    finally:
        pool.close()


@pytest.mark.parametrize(("files", "workers"), [(None, 1), ("*.txt", 0)])
async def test_a_search_starts_a_worker_before_it_comes_to_the_first_document(
    tmp_path: Path, files: str | None, workers: int
) -> None:
    (tmp_path / "first.txt").write_text("the margin")
    (tmp_path / "report.pdf").write_bytes(pdf("The margin"))
    pool = ConverterPool()
    provider = Filesystem(tmp_path)
    vars(provider)["converted"] = ConvertedDocuments(pool, Converters())
    try:
        for where in ("names", "text"):
            request = SearchRequest(text="margin", where=where, files=files)
            page = await provider.search(
                request, below=(), after=None, limit=1, deadline=time.monotonic()
            )
            assert pool.counts.converted == 0
        assert [hit.resource.path for hit in page.hits] == [("first.txt",)]
        await until(lambda: pool.counts.workers == workers)
    finally:
        pool.close()


@LINUX
def test_no_second_worker_starts_before_one_has_worked_for_longer_than_a_start(
    folder: Path,
) -> None:
    pool = ConverterPool()
    before = descriptors()
    try:
        text = ConvertedDocuments(pool, Converters()).text_of(())
        text.prepare(os.open(folder / "report.pdf", os.O_RDONLY), "report.pdf")
        assert descriptors() == before
        assert pool.counts.workers == pool.counts.waiting == 0
    finally:
        pool.close()


class BusyPool(ConverterPool):
    """A pool whose workers are busy until it is set free, with enough for two of them."""

    @property
    def is_worth_two(self) -> bool:
        return True

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()

    def convert(self, *positional: Any, **named: Any) -> Conversion:
        assert self.free.wait(PATIENCE_S)
        return super().convert(*positional, **named)


class Cancelled(Exception):
    """The caller is gone."""


def cancelled() -> None:
    raise Cancelled


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@for_each("documents", [1, 20])
@LINUX
def test_cancelled_searches_of_documents_hold_few_descriptors(
    tmp_path: Path, documents: int
) -> None:
    pool = BusyPool()
    text = ConvertedDocuments(pool, Converters()).text_of(())
    paths = [tmp_path / f"{number}.pdf" for number in range(documents)]
    for path in paths:
        path.write_bytes(pdf("The margin"))
    before = descriptors()
    try:
        for at in range(20):
            with paths[at % documents].open("rb") as file, pytest.raises(Cancelled):
                list(text.texts(file.fileno(), "x.pdf", cancelled))
        assert descriptors() - before <= 3
        pool.free.set()
        with paths[0].open("rb") as file:
            (whole,) = text.texts(file.fileno(), "x.pdf", lambda: None)
        assert b"margin" in whole.data
        assert pool.counts.converted <= 3
    finally:
        pool.free.set()
        pool.close()


@LINUX
def test_documents_that_are_prepared_while_others_are_converted_hold_few_descriptors(
    folder: Path,
) -> None:
    pool = BusyPool()
    text = ConvertedDocuments(pool, Converters()).text_of(())
    before = descriptors()
    try:
        for _ in range(100):
            text.prepare(os.open(folder / "report.pdf", os.O_RDONLY), "report.pdf")
        assert descriptors() - before <= 3
    finally:
        pool.free.set()
        pool.close()


def test_a_document_that_waits_behind_searches_waits_once(folder: Path) -> None:
    for name in ("first.pdf", "report.pdf"):
        (folder / name).write_bytes(INVOICES)
        os.utime(folder / name, (1, 1))
    pool = ConverterPool()
    try:
        timing = Timing(search_convert_s=0.0)
        text = ConvertedDocuments(pool, Converters(), timing=timing).text_of(())
        begun: list[bool] = []
        for name in ("first.pdf", "report.pdf", "report.pdf"):
            with (folder / name).open("rb") as file, pytest.raises(NotConvertedYet) as raised:
                list(text.texts(file.fileno(), name, None))
            begun.append(raised.value.is_begun)
        assert begun == [False, False, True]
    finally:
        pool.close()


@for_each(("retry_s", "tries"), [(60.0, 1), (0.0, 2)])
def test_a_search_tries_once_more_a_conversion_that_was_too_slow_only_after_some_time(
    folder: Path, retry_s: float, tries: int
) -> None:
    path = folder / "shop.csv"
    os.utime(path, ns=(1, 1))
    deadline = time.monotonic() + PATIENCE_S
    while is_fresh(path.stat()):
        assert time.monotonic() < deadline
    pool = ConverterPool(time_s=0.001)
    try:
        timing = Timing(conversion_retry_s=retry_s)
        text = ConvertedDocuments(pool, Converters(), timing=timing).text_of(())
        for _ in range(2):
            with path.open("rb") as file, pytest.raises(ConversionTooSlow):
                list(text.recoded(file.fileno(), lambda: None))
        assert pool.counts.failed == tries
    finally:
        pool.close()


def test_a_document_that_changes_while_it_is_converted_is_not_kept(folder: Path) -> None:
    path = folder / "report.pdf"
    pool = ConverterPool()
    try:
        documents = ConvertedDocuments(pool, Converters())
        wanted = documents.wanted({"format": "markdown"}, "application/pdf")
        for word in ("first", "other"):
            # The same size, within a tick of the clock: only the bytes differ.
            path.write_bytes(pdf(word))
            with path.open("rb") as file:
                (part,) = documents.convert(file.fileno(), wanted).parts
            assert word in str(part.data)
    finally:
        pool.close()


async def test_the_read_of_a_folder_has_the_text_of_its_documents(folder: Path) -> None:
    # A folder's documents do not wait long for the start of a worker.
    await read(folder, "report.pdf", format="markdown")
    for budget, is_whole in ((256 * 1024, True), (200, False)):
        limits = CatalogLimits(collection_bytes=budget)
        wire = Wire(await server_of(Filesystem(folder), limits=limits), LATEST)
        contents = (await wire.result("resources/read", {"uri": "test://one/"}))["contents"]
        report, broken = (
            next(each for each in contents if each["uri"] == f"test://one/{name}")
            for name in ("report.pdf", "broken.pdf")
        )
        assert report["mimeType"] == "text/markdown"
        assert "Turnover 2026" in report["text"]
        assert ("The margin is 17 %" in report["text"]) == is_whole
        assert broken["mimeType"] == "application/pdf"
        assert "blob" in broken
        if not is_whole:
            following = report["_meta"]["resource-server/truncated"]["next"]
            (rest,) = (await wire.result("resources/read", {"uri": following}))["contents"]
            assert report["text"] + rest["text"] == str(
                (await read(folder, "report.pdf", format="markdown")).data
            )
        said = words(await called(wire, "read_resource", LATEST, uri="test://one/"))
        assert "report.pdf:\n## Page 1\n\nTurnover 2026" in said
        assert ('[Truncated. Read on: {"uri":"test://one/report.pdf?format=' in said) != is_whole
    (single,) = (await wire.result("resources/read", {"uri": "test://one/report.pdf"}))["contents"]
    assert single["mimeType"] == "application/pdf"
    assert "blob" in single


@pytest.mark.parametrize(
    ("address", "media_type", "told"),
    [
        ("report.pdf", "text/markdown", "Turnover 2026"),
        ("report.pdf?pages=2", "text/markdown", "## Page 2"),
        ("report.pdf?lines=3-3", "text/markdown", "Turnover 2026"),
        ("report.pdf?format=png", "image/png", None),
        ("report.pdf?bytes=0-7", "application/pdf", None),
        ("shop.csv", "text/csv", "Earl Grey;4,50"),
    ],
)
async def test_a_prompt_embeds_the_text_of_what_is_no_text(
    folder: Path, address: str, media_type: str, told: str | None
) -> None:
    wire = await prompting(folder, address)
    (message,) = (await wire.result("prompts/get", {"name": "p"}))["messages"]
    if message["content"]["type"] == "image":
        assert message["content"]["mimeType"] == media_type
        return
    resource = message["content"]["resource"]
    assert resource["mimeType"] == media_type
    if told is None:
        assert "blob" in resource
    else:
        assert resource["text"].startswith(told) or told in resource["text"]


@pytest.mark.parametrize("name", ["broken.pdf", "hidden.pdf"])
async def test_a_prompt_whose_document_cannot_be_converted_says_so(folder: Path, name: str) -> None:
    error = await (await prompting(folder, name)).error("prompts/get", {"name": "p"})
    told = "cannot be converted" if name == "broken.pdf" else "cannot be read"
    assert told in error["message"]
    assert str(folder) not in str(error)


async def prompting(folder: Path, address: str) -> Wire:
    prompt = Prompt(messages=(PromptMessage(resource=f"test://one/{address}"),))
    catalog = Catalog([Mount("one", "test://one/", Filesystem(folder))])
    return Wire(Server(catalog, prompts={"p": prompt}), LATEST)


async def test_the_tool_reads_text_in_another_encoding_by_a_guess(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes((ENCODED["cp1252"] * 3).encode("cp1252"))
    wire = Wire(await server_of(Filesystem(tmp_path)), LATEST)
    whole = await called(wire, "read_resource", LATEST, uri="test://one/notes.txt")
    assert words(whole).count("Müller") == 3
    part = await called(wire, "read_resource", LATEST, uri="test://one/notes.txt", lines="2-2")
    assert words(part).startswith(ENCODED["cp1252"])
    assert words(part).count("Müller") == 1


@pytest.mark.parametrize("query", [{}, {"format": "markdown"}])
async def test_the_first_read_looks_at_installed_packages_off_the_loop(
    folder: Path, query: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = lookers(monkeypatch)
    provider = Filesystem(folder)
    assert await settle(provider.read(("report.pdf",), query))
    assert threads
    assert threading.main_thread() not in threads
    del threads[:]
    assert await settle(provider.read(("shop.csv",), query))
    assert threads == []


async def test_serve_looks_at_installed_packages_before_the_first_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = lookers(monkeypatch)
    runner.find_converters_soon()
    await until(registry.has_found_packages)
    assert threading.main_thread() not in threads


def lookers(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Forget the installed packages; return the threads that look at them from now on."""
    threads: list[threading.Thread] = []
    look: Any = extras.entry_points

    def entry_points(group: str) -> Any:
        threads.append(threading.current_thread())
        return look(group)

    monkeypatch.setattr(extras, "entry_points", entry_points)
    registry.entries.cache_clear()
    return threads


# -- documents too long for one read


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("long")
    rows = "".join(f"{number},words of row {number}\n" for number in range(1, 250_001))
    (made / "rows.csv").write_text(f"id,text\n{rows}")
    (made / "log.txt.gz").write_bytes(gzip.compress(rows.encode()))
    (made / "log.eml").write_text(f"Subject: A long log\n\n{rows}")
    (made / "log.html").write_text(f"<p>first</p><pre>{rows}</pre><p>über and out</p>")
    cell: dict[str, Any] = {"cell_type": "raw", "metadata": {}, "source": rows}
    (made / "log.ipynb").write_text(json.dumps({"nbformat": 4, "cells": [cell]}))
    (made / "latin.txt").write_bytes(f"{rows}Ende für heute, and out\n".encode("latin-1"))
    return made


async def test_a_table_that_is_cut_ends_with_a_row_and_goes_on_with_the_next(long: Path) -> None:
    found = await read(long, "rows.csv", format="json", columns="text")
    first = json.loads(str(found.data))["rows"]
    assert first[0] == ["words of row 1"]
    assert found.truncated is not None
    following = {"format": "json", "columns": "text", "rows": f"{len(first) + 1}-"}
    assert found.truncated.next == following
    rest = await read(long, "rows.csv", **following)
    assert json.loads(str(rest.data))["rows"][0] == [f"words of row {len(first) + 1}"]
    table = await read(long, "rows.csv", format="markdown", rows="7-240000")
    assert table.truncated is not None
    assert table.truncated.next is not None
    last = str(table.data).rstrip().rpartition("\n")[2]
    number = int(table.truncated.next["rows"].removesuffix("-240000")) - 1
    assert last == f"| {number} | words of row {number} |"


async def test_a_compressed_text_that_is_cut_goes_on_by_its_parts(long: Path) -> None:
    whole = gzip.decompress((long / "log.txt.gz").read_bytes()).decode()
    text, query = "", {"format": "text"}
    while True:
        found = await read(long, "log.txt.gz", **query)
        text += str(found.data)
        if found.truncated is None:
            break
        assert found.truncated.next is not None
        query = dict(found.truncated.next)
    assert text == whole


LONG = {"log.txt.gz": "text", "latin.txt": "text"} | dict.fromkeys(
    ("rows.csv", "log.eml", "log.html", "log.ipynb"), "markdown"
)
"""Documents of more than 4 MiB of text, with the format that has it."""


@for_each("name", LONG)
async def test_a_text_of_any_converter_is_read_to_its_end_by_lines_and_bytes(
    long: Path, name: str
) -> None:
    given = {"format": LONG[name]}
    end = await read(long, name, **given, tail="2")
    assert end.truncated is not None
    assert end.truncated.total is not None
    assert "words of row 250000" in str(end.data) or "and out" in str(end.data)
    at = f"{end.truncated.total // 2}-{end.truncated.total // 2 + 1}"
    middle = await read(long, name, **given, lines=at)
    assert "words of row 12" in str(middle.data)
    assert middle.truncated is not None
    assert middle.truncated.total in (None, end.truncated.total)
    for query in ({"lines": "1-"}, {"bytes": "0-"}):
        text, query = "", {**given, **query}
        while query is not None:
            found = await read(long, name, **query)
            text += str(found.data)
            query = found.truncated and found.truncated.next
        for row in (1, 100_000, 200_000, 249_999, 250_000):
            assert text.count(f"words of row {row}\n") + text.count(f"words of row {row} |\n") == 1
        assert text.endswith(str(end.data))
        lines = text.splitlines(keepends=True)
        assert len(lines) == end.truncated.total
        first, _, last = at.partition("-")
        assert middle.data == "".join(lines[int(first) - 1 : int(last)])


async def test_the_tool_reads_a_csv_of_70000_rows_to_its_end(tmp_path: Path) -> None:
    rows = "".join(f"{n},{'x' * 60} row {n}\n" for n in range(1, 70_001))
    (tmp_path / "rows.csv").write_text(f"id,text\n{rows}")
    wire = Wire(await server_of(Filesystem(tmp_path)), LATEST)
    uri = "test://one/rows.csv"
    found = await called(
        wire, "read_resource", LATEST, uri=uri, format="markdown", lines="60000-60001"
    )
    assert len(re.findall(r"row \d+ \|\n", words(found))) == 2
    arguments: dict[str, Any] = {"uri": uri, "format": "markdown", "lines": "69900-"}
    read: list[str] = []
    while True:
        found = await called(wire, "read_resource", LATEST, **arguments)
        read += re.findall(r"row (\d+) \|", words(found))
        notice = re.search(r"Read on: (.*)\]", words(found))
        if notice is None:
            break
        arguments = json.loads(notice[1])
    assert read == [str(number) for number in range(int(read[0]), 70_001)]
    beyond = {"uri": uri, "format": "markdown", "lines": "99999999-"}
    given = {"name": "read_resource", "arguments": beyond}
    assert "begin behind the end" in refusal(await wire.result("tools/call", given))
    last = await called(
        wire, "read_resource", LATEST, uri=uri, format="markdown", tail=2, number=True
    )
    assert re.fullmatch(r"\d+: \| 69999 .*\n\d+: \| 70000 .*\n", words(last))


async def test_a_search_tells_of_a_document_that_it_does_not_reach_the_end_of(long: Path) -> None:
    found = await settle(
        unhurried(long).search(
            SearchRequest(text="row 249999", where="text", files="{rows.csv,log.txt.gz}"),
            below=(),
            after=None,
            limit=5,
            deadline=time.monotonic() + PATIENCE_S,
        )
    )
    assert [hit.resource.path for hit in found.hits] == [("rows.csv",)]
    assert [gap.path for gap in found.unsearched] == [("log.txt.gz",)]
    recoded = SearchRequest(text="Ende für heute", where="text", files="latin.txt")
    found = await settle(
        unhurried(long).search(
            recoded, below=(), after=None, limit=5, deadline=time.monotonic() + PATIENCE_S
        )
    )
    assert (found.hits, [gap.path for gap in found.unsearched]) == ([], [("latin.txt",)])


@for_each(
    ("name", "query", "line"),
    [
        ("log.txt.gz", "row 249999", 249_999),
        ("latin.txt", "Ende für heute", 250_001),
        ("log.html", "über and out", 250_001),
    ],
)
async def test_a_document_searched_alone_is_searched_to_its_end(
    long: Path, name: str, query: str, line: int
) -> None:
    found = await settle(
        unhurried(long).search(
            SearchRequest(text=query, where="text"),
            below=(name,),
            after=None,
            limit=5,
            deadline=time.monotonic() + PATIENCE_S,
        )
    )
    assert [each.number for hit in found.hits for each in hit.lines] == [line]
    assert (found.next, found.unsearched) == (None, ())


INVOICES = pdf(*[f"INV-{number:05}" for number in range(300)])


async def test_page_251_of_300_is_found_in_the_folder_and_in_the_document(tmp_path: Path) -> None:
    (tmp_path / "manual.pdf").write_bytes(INVOICES)
    os.utime(tmp_path / "manual.pdf", (1, 1))
    wire = Wire(await server_of(unhurried(tmp_path)), LATEST)
    for uri in ({"uri": "test://one/manual.pdf"}, {}):
        result = await called(wire, "search_resources", LATEST, query="INV-00250", **uri)
        assert words(result).splitlines()[2].endswith(": [page 251] INV-00250")
        assert result["structuredContent"]["complete"] is True


async def test_a_search_names_documents_with_pictures_in_the_place_of_text(tmp_path: Path) -> None:
    (tmp_path / "book.pdf").write_bytes(pdf("The needle", SCAN, ""))
    (tmp_path / "other.pdf").write_bytes(pdf("The needle", ""))
    (tmp_path / "scan.pdf").write_bytes(pdf(SCAN, SCAN))
    wire = Wire(await server_of(unhurried(tmp_path)), LATEST)
    result = await called(wire, "search_resources", LATEST, query="needle")
    assert words(result).splitlines()[0] == (
        "2 matches in 2 of 3 documents; not searched: book.pdf (partly pictures without text), "
        "scan.pdf (only pictures without text)"
    )
    asked = {"query": "needle", "uri": "test://one/scan.pdf"}
    result = await called(wire, "search_resources", LATEST, **asked)
    assert words(result) == "0 matches; not searched: scan.pdf (only pictures without text)"
    assert result["structuredContent"]["complete"] is False


async def test_a_slow_document_of_a_folder_is_named_and_the_next_search_has_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "manual.pdf").write_bytes(INVOICES)
    os.utime(tmp_path / "manual.pdf", (1, 1))
    provider = Filesystem(tmp_path)
    provider.timing = Timing(search_convert_s=0.0)
    wire = Wire(await server_of(provider), LATEST)
    asked = {"query": "INV-00250"}
    result = await called(wire, "search_resources", LATEST, **asked)
    expected = "0 matches; not searched: manual.pdf (111KB, not converted yet). Search it by "
    assert words(result).startswith(expected)
    again = json.loads(words(result).removeprefix(expected))
    assert again == {**asked, "uri": "test://one/manual.pdf"}

    async def is_found() -> bool:
        result = await called(wire, "search_resources", LATEST, **asked)
        return "[page 251] INV-00250" in words(result)

    await until(is_found)


async def test_a_document_that_is_searched_alone_is_converted_within_the_call(
    tmp_path: Path,
) -> None:
    (tmp_path / "manual.pdf").write_bytes(INVOICES)
    provider = Filesystem(tmp_path)
    provider.timing = Timing(search_convert_s=0.0)
    wire = Wire(await server_of(provider), LATEST)
    asked = {"query": "INV-00250", "uri": "test://one/manual.pdf"}
    result = await called(wire, "search_resources", LATEST, **asked)
    assert words(result).splitlines()[0] == "1 match"


async def test_a_document_that_is_not_converted_in_time_is_named_with_the_call_that_goes_on(
    tmp_path: Path,
) -> None:
    # So many pages that no scheduler gives the worker the time for them in one wait.
    pages = pdf(*[f"INV-{number:05}" for number in range(900)])
    (tmp_path / "manual.pdf").write_bytes(pages)
    os.utime(tmp_path / "manual.pdf", (1, 1))
    provider = Filesystem(tmp_path)
    provider.timing = Timing(search_document_s=0.0)
    timing = Timing(search_alone_s=0.0)
    wire = Wire(await server_of(provider, timing=timing), LATEST)
    asked = {"query": "INV-00250", "uri": "test://one/manual.pdf", "in": "text"}
    result = await called(wire, "search_resources", LATEST, **asked)
    assert "manual.pdf (334KB, not converted yet). Search it by " in words(result)

    async def is_found() -> bool:
        result = await called(wire, "search_resources", LATEST, **asked)
        return words(result).startswith("1 match\n")

    await until(is_found)


async def test_a_workbook_as_csv_is_its_first_sheet_with_the_way_to_the_next(
    tmp_path: Path,
) -> None:
    cells = [f'<row r="1"><c r="A1"><v>{number}</v></c></row>' for number in (1, 2, 3)]
    (tmp_path / "book.xlsx").write_bytes(xlsx(*cells))
    query: dict[str, str] | None = {"format": "csv"}
    sheets: list[str | bytes] = []
    while query is not None:
        found = await read(tmp_path, "book.xlsx", **query)
        sheets.append(found.data)
        query = None if found.truncated is None else dict(found.truncated.next or {})
    assert sheets == ["1\n", "2\n", "3\n"]
    with pytest.raises(ConversionError, match="one sheet at a time; write sheet=NAME"):
        await read(tmp_path, "book.xlsx", format="csv", sheets="1-2")
    (named,) = [await read(tmp_path, "book.xlsx", format="csv", sheet="Sheet2")]
    assert (named.data, named.truncated) == ("2\n", None)


@pytest.mark.parametrize("query", [("pages", "slides"), ("slides", "pages")])
async def test_two_names_of_the_same_parts_are_refused(shelf: Path, query: tuple[str, str]) -> None:
    with pytest.raises(InvalidParameter, match="give slides or pages, not both"):
        await read(shelf, "empty.pptx", **dict.fromkeys(query, "1"))


async def test_tools_read_mail_and_notebooks_as_they_are_searched(tmp_path: Path) -> None:
    head = (
        b"Date: Tue, 1 Sep 2026 08:00:00 +0000\nX-Other: 1\nSubject: =?utf-8?q?Gr=C3=B6=C3=9Fe?=\n"
    )
    (tmp_path / "a.eml").write_bytes(head + b"\nhello\n")
    cell: dict[str, Any] = {"cell_type": "markdown", "metadata": {}, "source": ["Größe"]}
    notebook: dict[str, Any] = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    (tmp_path / "b.ipynb").write_text(json.dumps(notebook))
    wire = Wire(await server_of(unhurried(tmp_path)), LATEST)
    found = await called(wire, "search_resources", LATEST, query="Größe")
    places = {
        "a.eml": re.search(r"(\d+): - Subject: Größe", words(found)),
        "b.ipynb": re.search(r"(\d+): \[cell 1\] Größe", words(found)),
    }
    for name, place in places.items():
        assert place is not None, words(found)
        line = await called(
            wire, "read_resource", LATEST, uri=f"test://one/{name}", lines=f"{place[1]}-{place[1]}"
        )
        assert "Größe\n" in words(line)


async def test_the_tool_takes_rows_as_a_number_or_a_range(folder: Path) -> None:
    wire = Wire(await server_of(Filesystem(folder)), LATEST)

    uri = "test://one/shop.csv?format=markdown"

    async def asked(rows: str | int) -> str:
        return words(await called(wire, "read_resource", LATEST, uri=uri, rows=rows))

    assert "Earl Grey" in await asked(1)
    assert "Assam" not in await asked("1")
    assert "Earl Grey" not in await asked("2-2")
    assert "Assam" in await asked("2-")
    for rows in ("0", "2-x", "-", "x"):
        given = {"name": "read_resource", "arguments": {"uri": uri, "rows": rows}}
        assert "5-10" in refusal(await wire.result("tools/call", given))


async def test_a_collection_has_text_in_another_encoding_as_its_own_read_has_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "menu.txt").write_bytes("café crème\n".encode("latin-1"))
    (tmp_path / "notes.txt").write_bytes((ENCODED["cp1252"] * 3).encode("cp1252"))
    (tmp_path / "marked.txt").write_bytes("café crème\n".encode("utf-16"))
    wire = Wire(await server_of(Filesystem(tmp_path)), LATEST)
    contents = (await wire.result("resources/read", {"uri": "test://one/"}))["contents"]
    assert len(contents) == 3
    for each in contents:
        own = await wire.result("resources/read", {"uri": each["uri"]})
        assert own["contents"] == [each]


def test_a_conversion_that_takes_too_long_names_the_parts_and_may_be_tried_again(
    folder: Path,
) -> None:
    pool = ConverterPool(time_s=0.001)
    documents = ConvertedDocuments(pool, Converters())
    fd = os.open(folder / "shop.csv", os.O_RDONLY)
    try:
        os.utime(folder / "shop.csv", (1e9, 1e9))
        wanted = documents.wanted({"format": "markdown", "lines": "1-2"}, "text/csv")
        for _ in range(2):
            with pytest.raises(ConversionError, match=r"takes longer .*; read a part: rows=1-100"):
                documents.read(fd, wanted)
        assert pool.counts.failed == 2
    finally:
        os.close(fd)
        pool.close()


_KINDS = {each.name.rpartition(".")[2]: (each.name, each.data) for each in SAMPLES}


@pytest.mark.parametrize("kind", sorted(_KINDS.keys() - {"parquet", "gz", "bz2", "xz", "zst"}))
async def test_a_compressed_document_is_converted_like_the_plain_one(
    tmp_path: Path, kind: str
) -> None:
    name, data = _KINDS[kind]
    (tmp_path / name).write_bytes(data)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
    folder = Filesystem(tmp_path)
    plain = await settle(folder.metadata((name,)))
    inside = await settle(folder.metadata((f"{name}.gz",)))
    offered = {each.name for each in plain.formats} - ({"png"} if kind == "ipynb" else set())
    assert offered <= {each.name for each in inside.formats}
    for format in offered:
        one = {"pages": "1"} if format == "png" and kind == "pdf" else {}
        expected = await read(tmp_path, name, format=format, **one)
        assert await read(tmp_path, f"{name}.gz", format=format, **one) == expected


async def test_links_to_one_file_are_what_their_names_say(tmp_path: Path) -> None:
    for first, second in (("a.csv", "b.tsv"), ("a.csv.gz", "b.html.gz")):
        data = b"<p>x,y</p>\n1,2\n"
        (tmp_path / first).write_bytes(gzip.compress(data) if first.endswith("gz") else data)
        os.link(tmp_path / first, tmp_path / second)
        folder = Filesystem(tmp_path)
        found = [
            (await settle(folder.read((name,), {"format": "markdown"})))[0].data
            for name in (first, first, second)  # what is read at once is not kept
        ]
        assert found[1] != found[2]


async def test_a_compressed_table_is_also_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert (await read(tmp_path, "a.csv.gz", format="text", lines="2-2")).data == "1,2\n"
    assert (await read(tmp_path, "a.csv.gz", parts="1")).data == "a,b\n1,2\n"
    assert "| 1 | 2 |" in str((await read(tmp_path, "a.csv.gz", rows="1")).data)
    rows = await read(tmp_path, "a.csv.gz", format="json", rows="1", columns="b")
    assert json.loads(str(rows.data)) == {"columns": ["b"], "rows": [[2]]}
    with pytest.raises(InvalidParameter, match="takes format, parts, encoding"):
        await read(tmp_path, "a.csv.gz", format="text", rows="1")
