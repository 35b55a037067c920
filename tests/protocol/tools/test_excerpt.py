"""Documents and collections too long for a tool's result: excerpts that say how to read on."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from resource_server.errors import InvalidParameter, ResourceTooLarge
from resource_server.protocol.server import ServerLimits
from resource_server.provider import Content, MaybeAwaitable, Path, Truncation
from tests.protocol.tools.tooled import PICTURE, STRUCTURED, called
from tests.protocol.wire import EVERY, Wire, server_of
from tests.providers_for_tests import Leaf, Tree

pytestmark = pytest.mark.anyio

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
