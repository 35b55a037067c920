from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.catalog.read_result import ReadItem
from resource_server.protocol import content_blocks
from resource_server.protocol.revisions import HANDSHAKE, LATEST_HANDSHAKE, MODERN, Revision
from resource_server.provider import Annotations, Content, Truncation
from tests.cases import for_each
from tests.providers_for_tests import Leaf, Tree

pytestmark = pytest.mark.anyio

REVISIONS = {**HANDSHAKE, **MODERN}
NODES: dict[str, Any] = {
    "text": "grüße",
    "logo": Leaf(b"\x89PNG", "image/png"),
    "tone": Leaf(b"RIFF", "audio/wav"),
    "blob": Leaf(b"\x00\xff", "application/zip"),
    "drawing": Leaf("<svg/>", "image/svg+xml"),
    "lines": "one\ntwo\n",
    "folder": {"empty": {}},
}

every = pytest.mark.parametrize("revision", REVISIONS.values(), ids=REVISIONS)


async def block(uri: str, revision: Revision = LATEST_HANDSHAKE) -> Any:
    """Return the block of the first item read, which the SDK has to accept."""
    mount = Mount("one", "test://one/", Tree(NODES), annotations=Annotations(priority=0.9))
    async with Catalog([mount]) as catalog:
        reading = await catalog.read(f"test://one/{uri}")
    made = json.loads(content_blocks.document_block(reading.items[0], revision))
    accept(made, revision)
    return made


def accept(made: Any, revision: Revision) -> None:
    envelope = {"resultType": "complete"} if revision.modern else {}
    result = {"messages": [{"role": "user", "content": made}], **envelope}
    validate_server_result("prompts/get", revision.name, result)


@every
async def test_text_is_embedded_with_its_metadata(revision: Revision) -> None:
    found = await block("text", revision)
    assert found["type"] == "resource"
    assert found["resource"]["text"] == "grüße"
    assert found["resource"]["uri"] == "test://one/text"
    assert found["resource"]["resourceType"] == "document"
    assert found["resource"]["annotations"]["priority"] == 0.9


@every
async def test_annotations_are_inside_the_resource_and_until_2025_11_25_beside_it(
    revision: Revision,
) -> None:
    found = await block("text", revision)
    inside = found["resource"]["annotations"]
    assert found.get("annotations") == (None if revision.modern else inside)


@every
async def test_an_image_is_an_image_block_with_its_resource_in_meta(revision: Revision) -> None:
    found = await block("logo", revision)
    assert (found["type"], found["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(found["data"]) == b"\x89PNG"
    described = found["_meta"]["resource-server/resource"]
    assert (described["uri"], described["size"]) == ("test://one/logo", 4)
    assert found["annotations"] == described["annotations"]


@every
async def test_audio_is_an_audio_block_in_revisions_that_have_one(revision: Revision) -> None:
    found = await block("tone", revision)
    if revision.name == "2024-11-05":
        assert base64.b64decode(found["resource"]["blob"]) == b"RIFF"
    else:
        assert (found["type"], found["mimeType"]) == ("audio", "audio/wav")
        assert base64.b64decode(found["data"]) == b"RIFF"


@every
async def test_other_bytes_are_embedded(revision: Revision) -> None:
    found = await block("blob", revision)
    assert base64.b64decode(found["resource"]["blob"]) == b"\x00\xff"


async def test_an_svg_image_is_embedded_as_text() -> None:
    assert (await block("drawing"))["resource"]["text"] == "<svg/>"


async def test_a_truncated_part_names_the_next_range() -> None:
    found = await block("lines?lines=1")
    assert found["resource"]["text"] == "one\n"
    notice = found["resource"]["_meta"]["resource-server/truncated"]
    assert notice["next"] == "test://one/lines?lines=2"


async def test_a_part_of_an_image_is_not_an_image_block() -> None:
    cut = Truncation("requested", "bytes", 4, {"bytes": "2-3"})
    async with Catalog([Mount("one", "test://one/", Tree(NODES))]) as catalog:
        entry = await catalog.metadata("test://one/logo")
    body = ReadItem("test://one/logo?bytes=0-1", entry, Content(b"\x89P", truncated=cut))
    found = json.loads(content_blocks.document_block(body, LATEST_HANDSHAKE))
    assert base64.b64decode(found["resource"]["blob"]) == b"\x89P"
    assert "resource-server/truncated" in found["resource"]["_meta"]


async def test_a_collection_below_is_embedded_without_a_body() -> None:
    found = await block("folder")
    assert (found["resource"]["text"], found["resource"]["resourceType"]) == ("", "collection")


@every
async def test_a_link_is_a_resource_link_or_in_older_revisions_the_uri(
    revision: Revision,
) -> None:
    async with Catalog([Mount("one", "test://one/", Tree(NODES))]) as catalog:
        entry = await catalog.metadata("test://one/text")
    found = json.loads(content_blocks.link_block(entry, revision))
    accept(found, revision)
    if revision.name < "2025-06-18":
        assert found == {"type": "text", "text": "test://one/text"}
    else:
        assert (found["type"], found["uri"]) == ("resource_link", "test://one/text")
        assert found["resourceType"] == "document"


def test_text_that_is_not_unicode_can_be_sent() -> None:
    assert json.loads(content_blocks.text_block("a\udcffb"))["text"] == "a\ufffdb"


@for_each("mime_type", ["text/plain", "imagery/png", "", "video/mp4"])
def test_other_media_types_have_no_block_type(mime_type: str) -> None:
    assert content_blocks.media_block(b"x", mime_type, LATEST_HANDSHAKE) is None
