"""The official clients use prompts of a server in a process of its own."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client import session
from mcp.client.subscriptions import PromptsListChanged
from mcp_types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    PromptListChangedNotification,
    PromptReference,
    TextContent,
    TextResourceContents,
)

from tests.cli.conftest import keep
from tests.clients import typescript
from tests.clients.conftest import BLOB, TEXT, TRANSPORTS, Reach, serve
from tests.clients.test_sdk_python import connect
from tests.protocol.wire import EVERY, MODERN
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
ROOT = "roots:\n  project: {path: .}\n"
PROMPTS = """\
prompts:
  review:
    title: Review a file
    description: Asks for a review
    arguments:
      file: {description: A path, required: true, complete: "file:///project/{+file}"}
      focus: {default: correctness, enum: [correctness, style]}
    messages:
      - {role: user, resource: "file:///project/{+file}"}
      - {role: assistant, text: "On {focus}: {{ok}}"}
  hello:
    messages: [{text: Hello}]
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, a picture, a sound, a collection, a secret, and prompts for them."""
    folder = tmp_path_factory.mktemp("prompts")
    (folder / "docs").mkdir()
    (folder / "docs/read me.md").write_text(TEXT, "utf-8")
    (folder / "docs/other.md").write_text("other\n", "utf-8")
    (folder / "logo.png").write_bytes(BLOB)
    (folder / "tone.wav").write_bytes(b"RIFF\0\xff")
    (folder / "server.pem").write_text("secret")
    (folder / "mcp-resources.yaml").write_text(ROOT + PROMPTS, "utf-8")
    return folder


@pytest.fixture(scope="module", params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=EVERY)
async def client(
    request: pytest.FixtureRequest, transport: str, top: Path, reach: Reach
) -> AsyncIterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param not in MODERN:
            patch.setattr(session, "LATEST_HANDSHAKE_VERSION", request.param)
        async with connect(reach(serve(top), transport), request.param) as client:
            assert client.protocol_version == request.param
            yield client


async def test_prompts_are_listed_with_their_arguments(client: Client) -> None:
    review, hello = (await client.list_prompts()).prompts
    assert (review.name, review.description) == ("review", "Asks for a review")
    assert review.title == ("Review a file" if client.protocol_version >= "2025-06-18" else None)
    found = [(each.name, each.description, each.required) for each in review.arguments or ()]
    assert found == [("file", "A path", True), ("focus", None, False)]
    assert (hello.name, hello.arguments) == ("hello", None)
    assert client.server_capabilities.prompts is not None
    assert client.server_capabilities.prompts.list_changed is True


async def test_a_prompt_embeds_the_requested_file(client: Client) -> None:
    asked = {"file": "docs/read%20me.md", "focus": "style"}
    shown, said = (await client.get_prompt("review", asked)).messages
    assert (shown.role, said.role) == ("user", "assistant")
    assert isinstance(shown.content, EmbeddedResource)
    assert isinstance(shown.content.resource, TextResourceContents)
    assert shown.content.resource.text == TEXT
    assert (shown.content.resource.meta or {})["resource-server/resourceType"] == "document"
    assert isinstance(said.content, TextContent)
    assert said.content.text == "On style: {ok}"


async def test_images_and_audio_are_sent_as_displayable_blocks(client: Client) -> None:
    picture, _ = (await client.get_prompt("review", {"file": "logo.png"})).messages
    assert isinstance(picture.content, ImageContent)
    assert base64.b64decode(picture.content.data) == BLOB
    sound, _ = (await client.get_prompt("review", {"file": "tone.wav"})).messages
    early = client.protocol_version == "2024-11-05"
    assert isinstance(sound.content, EmbeddedResource if early else AudioContent)


async def test_a_collection_has_a_message_for_each_child(client: Client) -> None:
    *children, _ = (await client.get_prompt("review", {"file": "docs"})).messages
    blocks = [each.content for each in children]
    names = [each.resource.uri for each in blocks if isinstance(each, EmbeddedResource)]
    assert names == ["file:///project/docs/other.md", "file:///project/docs/read%20me.md"]


async def test_an_unusable_argument_is_refused_by_name(client: Client) -> None:
    not_found = -32602 if client.protocol_version in MODERN else -32002
    for file in ("absent", "server.pem", "../../etc/passwd"):
        with pytest.raises(MCPError) as refused:
            await client.get_prompt("review", {"file": file})
        assert refused.value.error.code == not_found
        assert "'file'" in refused.value.error.message
    for given in ({}, {"file": "logo.png", "focus": "speed"}, {"file": "logo.png", "fous": ""}):
        with pytest.raises(MCPError) as refused:
            await client.get_prompt("review", given)
        assert refused.value.error.code == -32602


async def test_arguments_are_completed(client: Client) -> None:
    reference = PromptReference(name="review")
    found = await client.complete(reference, {"name": "file", "value": "docs/rea"})
    assert found.completion.values == ["docs/read me.md"]
    found = await client.complete(reference, {"name": "file", "value": "server"})
    assert found.completion.values == []
    found = await client.complete(reference, {"name": "focus", "value": "sty"})
    assert found.completion.values == ["style"]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_changed_prompts_in_the_manifest_are_notified_and_listed(
    revision: str, transport: str, tmp_path: Path, reach: Reach
) -> None:
    keep(tmp_path, ROOT)
    told = asyncio.Queue[object]()
    async with (
        asyncio.timeout(PATIENCE_S),
        connect(reach(serve(tmp_path), transport), revision, told) as client,
    ):
        if revision in MODERN:
            with pytest.raises(MCPError, match="Method not found"):
                await client.list_prompts()
            async with client.listen(prompts_list_changed=True) as stream:
                assert stream.honored.prompts_list_changed
                keep(tmp_path, ROOT + PROMPTS)
                assert await anext(stream) == PromptsListChanged()
        else:
            assert (await client.list_prompts()).prompts == []
            keep(tmp_path, ROOT + PROMPTS)
            while not isinstance(await told.get(), PromptListChangedNotification):
                pass
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert names == ["review", "hello"]


# -- TypeScript


@pytest.mark.deep
@typescript.NEEDS
@pytest.mark.parametrize(("kind", "transport", "asked_in"), typescript.cases(since="2024-11-05"))
def test_the_typescript_clients_use_prompts(
    top: Path, reach: Reach, kind: str, transport: str, asked_in: str
) -> None:
    asked: dict[str, Any] = {
        "client": kind,
        "revision": asked_in,
        "serving": reach(serve(top), transport),
        "complete": ["review", "file", "docs/rea"],
        "get": [
            ["review", {"file": "docs/read%20me.md", "focus": "style"}],
            ["review", {"file": "logo.png"}],
            ["hello", {}],
            ["review", {}],
        ],
    }
    seen = typescript.run("prompts.mjs", asked)
    assert (seen["revision"], seen["names"]) == (asked_in, ["review", "hello"])
    assert seen["completed"] == ["docs/read me.md"]
    (shown, said), (picture, _), (hello,), missing = seen["got"]
    assert shown["content"]["resource"]["text"] == TEXT
    assert said["content"]["text"] == "On style: {ok}"
    assert base64.b64decode(picture["content"]["data"]) == BLOB
    assert hello["content"]["text"] == "Hello"
    assert missing == -32602
