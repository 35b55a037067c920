"""The official clients are asked: their person, their model, and which folders they offer."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client import session
from mcp.client.session import ClientRequestContext
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    ResourceListChangedNotification,
    Root,
    RootsListChangedNotification,
    TextContent,
)
from pydantic import FileUrl

from tests.clients import typescript
from tests.clients.conftest import ROOT, TRANSPORTS, Reach
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
CANNOT = "cannot ask: this client cannot be asked for what is missing"

_ANSWERS: dict[str, str | int | float | bool | list[str] | None] = {"name": "Ada", "colour": "blue"}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


class Human:
    """Answers, and remembers what was asked."""

    def __init__(self, action: str = "accept") -> None:
        self.action = action
        self.asked: list[str] = []

    async def __call__(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append(params.message)
        if self.action == "error":
            return ErrorData(code=-32603, message="no")
        if self.action != "accept":
            return ElicitResult(action="decline")
        return ElicitResult(
            action="accept",
            content={name: _ANSWERS[name] for name in params.requested_schema["properties"]},
        )


def connect(target: list[str] | str, revision: str, **callbacks: Any) -> Client:
    mode = "auto" if revision >= "2026" else "legacy"
    if isinstance(target, str):
        return Client(target, mode=mode, **callbacks)
    parameters = StdioServerParameters(command=target[0], args=target[1:], cwd=ROOT)
    return Client(parameters, mode=mode, **callbacks)


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param < "2026":
        monkeypatch.setattr(session, "LATEST_HANDSHAKE_VERSION", request.param)
    return str(request.param)


async def called(client: Client, name: str) -> str:
    """Return what a tool says."""
    (block,) = (await client.call_tool(name, {})).content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_tool_asks_several_questions_in_sequence(
    asking: list[str], reach: Reach, transport: str, revision: str
) -> None:
    human = Human()
    async with connect(reach(asking, transport), revision, elicitation_callback=human) as client:
        assert client.protocol_version == revision
        assert await called(client, "paint") == "Ada in blue"
        assert human.asked == ["What is your name?", "Which colour?"]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_person_who_declines_is_not_asked_again(
    asking: list[str], reach: Reach, transport: str, revision: str
) -> None:
    human = Human("decline")
    async with connect(reach(asking, transport), revision, elicitation_callback=human) as client:
        assert await called(client, "greet") == "decline"
        assert len(human.asked) == 1


async def think(
    context: ClientRequestContext, params: CreateMessageRequestParams
) -> CreateMessageResult:
    assert (params.max_tokens, params.system_prompt) == (50, "Be brief.")
    content = TextContent(type="text", text="nothing")
    return CreateMessageResult(role="assistant", content=content, model="m")


async def offer_one(context: ClientRequestContext) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri=FileUrl("file:///work"), name="Work")])


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_tool_asks_person_model_and_client(
    asking: list[str], reach: Reach, transport: str, revision: str
) -> None:
    human = Human()
    callbacks: dict[str, Any] = {
        "elicitation_callback": human,
        "sampling_callback": think,
        "list_roots_callback": offer_one,
    }
    async with connect(reach(asking, transport), revision, **callbacks) as client:
        assert client.protocol_version == revision
        assert await called(client, "survey") == "Ada m: nothing file:///work in blue"
        assert human.asked == ["What is your name?", "Which colour?"]


@pytest.mark.parametrize(
    ("name", "told"), [("think", "offers no model"), ("where", "tells no roots")]
)
async def test_a_client_without_a_capability_is_not_asked(
    asking: list[str], revision: str, name: str, told: str
) -> None:
    async with connect(asking, revision, elicitation_callback=Human()) as client:
        assert await called(client, name) == f"cannot ask: this client {told}"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_prompt_asks_for_a_missing_argument(
    asking: list[str], reach: Reach, transport: str, revision: str
) -> None:
    human = Human()
    async with connect(reach(asking, transport), revision, elicitation_callback=human) as client:
        (message,) = (await client.get_prompt("hello")).messages
        assert isinstance(message.content, TextContent)
        assert message.content.text == "Hello Ada"
        assert human.asked == ["hello: please give name."]


async def test_a_client_without_elicitation_gets_an_error(asking: list[str], revision: str) -> None:
    async with connect(asking, revision) as client:
        assert await called(client, "greet") == CANNOT


async def test_a_client_that_fails_to_ask_counts_as_refusing(asking: list[str]) -> None:
    async with connect(asking, "2025-11-25", elicitation_callback=Human("error")) as client:
        assert await called(client, "greet") == "cannot ask: the client has refused the question"


async def test_the_folders_of_a_client_are_served_and_followed(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text("roots: {workspace: {from: client}}\n")
    offered = [Root(uri=FileUrl((tmp_path / "first").as_uri()), name="My project")]
    told = asyncio.Queue[object]()

    async def offer(context: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=offered)

    async def take(message: object) -> None:
        if isinstance(message, ResourceListChangedNotification):
            told.put_nowait(message)

    command = [sys.executable, "-m", "resource_server", "serve", str(manifest)]
    async with connect(
        command, "2025-11-25", list_roots_callback=offer, message_handler=take
    ) as client:

        async def listed() -> list[str]:
            await asyncio.wait_for(told.get(), PATIENCE_S)
            return [str(each.uri) for each in (await client.list_resources()).resources]

        assert await listed() == ["file:///My-project", "file:///My-project/a.txt"]
        offered.append(Root(uri=FileUrl((tmp_path / "second").as_uri())))
        # The client's own method is deprecated.
        await client.session.send_notification(RootsListChangedNotification())
        assert await listed() == [
            "file:///My-project",
            "file:///second",
            "file:///My-project/a.txt",
            "file:///second/a.txt",
        ]


async def test_the_latest_revision_requests_no_roots(tmp_path: Path) -> None:
    (tmp_path / "mcp-resources.yaml").write_text("roots: {workspace: {from: client}}\n")
    asked: list[object] = []

    async def offer(context: ClientRequestContext) -> ListRootsResult:
        asked.append(context)
        return ListRootsResult(roots=[])

    command = [sys.executable, "-m", "resource_server", "serve", str(tmp_path)]
    async with connect(command, "2026-07-28", list_roots_callback=offer) as client:
        assert client.protocol_version == "2026-07-28"
        assert (await client.list_resources()).resources == []
    assert asked == []


# -- TypeScript


@pytest.mark.deep
@typescript.NEEDS
@pytest.mark.parametrize(("kind", "transport", "asked_in"), typescript.cases(since="2025-06-18"))
def test_the_typescript_clients_answer_questions(
    asking: list[str], reach: Reach, kind: str, transport: str, asked_in: str
) -> None:
    asked = {
        "client": kind,
        "revision": asked_in,
        "serving": reach(asking, transport),
    }
    seen = typescript.run("asking.mjs", asked)
    assert seen == {
        "revision": asked_in,
        "said": "Ada in blue",
        "surveyed": "Ada m: nothing file:///work in blue",
        "prompted": "Hello Ada",
        "asked": [
            *("What is your name?", "Which colour?"),
            *("What is your name?", "Which colour?"),
            "hello: please give name.",
        ],
    }
