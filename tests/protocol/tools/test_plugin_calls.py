"""Tools of providers: what they are given, what becomes of what they return or raise."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.errors import (
    CannotElicit,
    DeadlineExceeded,
    MountUnavailable,
    ResourceNotFound,
    ToolFailed,
)
from resource_server.protocol.server import Server
from resource_server.provider import Content
from resource_server.provider.tools import (
    Block,
    EmbeddedBlock,
    LinkBlock,
    MediaBlock,
    TextBlock,
    ToolRequest,
    ToolResult,
)
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.protocol.tools.tooled import (
    COUNTRY,
    PICTURE,
    Tooled,
    answering,
    called,
    raising,
    refusal,
    returning,
    said,
    saying,
    tool,
    wired,
    words,
)
from tests.protocol.wire import EVERY, HANDSHAKE, Wire, server_of
from tests.providers_for_tests import Tree
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

FORMS: Mapping[str, Any] = {"elicitation": {}}


# -- arguments


async def test_arguments_reach_the_tool_unchanged() -> None:
    seen: list[Mapping[str, Any]] = []

    async def call(arguments: Mapping[str, Any], _: ToolRequest) -> ToolResult:
        seen.append(arguments)
        return said("seen")

    wire = await wired(call, of=COUNTRY)
    await called(wire, "best", "2025-11-25", country="DE", count=2)
    assert seen == [{"country": "DE", "count": 2}]


# -- arguments that are missing


@for_each("revision", ["2025-06-18", "2025-11-25"])
async def test_a_person_is_asked_for_missing_arguments(revision: str) -> None:
    wire = await wired(saying("country", "count"), revision, COUNTRY, can=FORMS)
    call = wire.start("tools/call", {"name": "best", "arguments": {"count": 3}})
    question = await wire.asked()
    assert question["params"] == {
        "message": "best: please give country.",
        "requestedSchema": {
            "type": "object",
            "properties": {"country": {"type": "string", "minLength": 2}},
            "required": ["country"],
        },
    }
    wire.answer(question, {"action": "accept", "content": {"country": "DE"}})
    assert words((await wire.reply_to(call))["result"]) == "DE 3"


@for_each(
    ("given", "told"),
    [
        ({"count": "many"}, "Invalid arguments: count: 'many' is not of type 'integer'"),
        ({"contry": "DE"}, "known: country, count"),
    ],
)
async def test_no_question_is_asked_if_a_given_argument_is_invalid(given: Any, told: str) -> None:
    wire = await wired(raising(AssertionError("it was called")), of=COUNTRY, can=FORMS)
    assert told in refusal(await called(wire, "best", "2025-11-25", **given))
    assert wire.questions == []


async def test_in_the_modern_revision_a_question_is_a_result() -> None:
    wire = await wired(saying("country"), "2026-07-28", COUNTRY, can=FORMS)
    asked: dict[str, Any] = {"name": "best", "arguments": {}}
    result = await wire.result("tools/call", asked)
    assert result["resultType"] == "input_required"
    ((key, _),) = result["inputRequests"].items()
    answer = {"action": "accept", "content": {"country": "DE"}}
    again = await wire.result("tools/call", {**asked, "inputResponses": {key: answer}})
    assert (again["resultType"], words(again)) == ("complete", "DE")


@for_each(
    ("answer", "told"),
    [
        ({"action": "decline"}, "The user was asked for country, and prefers not to say."),
        ({"action": "cancel"}, "The user was asked for country, and has dismissed the question."),
        ({"action": "accept", "content": {"country": "D"}}, "Missing arguments: country."),
    ],
)
async def test_a_declined_or_cancelled_question_is_an_error_result(answer: Any, told: str) -> None:
    wire = await wired(raising(AssertionError("it was called")), of=COUNTRY, can=FORMS)
    call = wire.start("tools/call", {"name": "best"})
    wire.answer(await wire.asked(), answer)
    assert refusal((await wire.reply_to(call))["result"]).startswith(told)


@for_each("revision", EVERY)
async def test_without_elicitation_the_result_names_the_missing_arguments(revision: str) -> None:
    wire = await wired(raising(AssertionError("it was called")), revision, of=COUNTRY)
    told = refusal(await called(wire, "best", revision))
    assert told.startswith("Missing arguments: country. Call again with them.")


async def test_an_argument_that_no_form_can_request_is_named() -> None:
    several = tool("several", "ids", ids={"type": "array"})
    wire = await wired(raising(AssertionError("it was called")), of=several, can=FORMS)
    assert "Missing arguments: ids" in refusal(await called(wire, "several", "2025-11-25"))
    assert wire.questions == []


# -- results


@for_each("revision", EVERY)
async def test_each_block_is_sent_in_the_form_of_the_revision(revision: str) -> None:
    wire = await wired(
        returning(
            TextBlock("words"),
            MediaBlock(PICTURE, "image/png"),
            MediaBlock(b"RIFF", "audio/wav"),
            EmbeddedBlock(("a b.txt",)),
            EmbeddedBlock(("a b.txt",), Content("other words")),
            LinkBlock(("folder",)),
        ),
        revision,
    )
    text, picture, sound, whole, other, link = (await called(wire, "x", revision))["content"]
    assert text == {"type": "text", "text": "words"}
    assert picture == {
        "type": "image",
        "data": base64.b64encode(PICTURE).decode(),
        "mimeType": "image/png",
    }
    assert sound["type"] == ("text" if revision == "2024-11-05" else "audio")
    described = await wire.result("resources/metadata", {"uri": "test://one/a%20b.txt"})
    assert {**whole["resource"], "text": None} == {**described["resource"], "text": None}
    assert (whole["resource"]["text"], other["resource"]["text"]) == ("text", "other words")
    for block in (whole, other):
        assert block["resource"]["annotations"] == described["resource"]["annotations"]
        assert ("annotations" in block) == (revision in HANDSHAKE)
    folder = await wire.result("resources/metadata", {"uri": "test://one/folder"})
    if revision >= "2025-06-18":
        assert link == {"type": "resource_link", **folder["resource"]}
    else:
        assert link == {"type": "text", "text": "test://one/folder"}


@for_each("revision", EVERY)
async def test_a_structured_result_is_sent_if_the_revision_has_one(revision: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wire = await wired(returning(structured={"n": 1}), revision, tool("x", output=schema))
    result = await called(wire, "x", revision)
    assert words(result) == '{"n":1}'
    assert result.get("structuredContent") == ({"n": 1} if revision >= "2025-06-18" else None)


async def test_numbers_that_javascript_would_change_are_text_unless_a_schema_promises_numbers() -> (
    None
):
    held = {"n": 2**53 + 1, "d": Decimal("1.10"), "far": [2**70]}
    wire = await wired(returning(structured=held))
    sent = (await called(wire, "x", "2025-11-25"))["structuredContent"]
    assert sent == {"n": "9007199254740993", "d": "1.10", "far": [str(2**70)]}
    promised = tool("x", output={"type": "object", "properties": {"n": {"type": "integer"}}})
    wire = await wired(returning(structured=held), of=promised)
    assert (await called(wire, "x", "2025-11-25"))["structuredContent"]["n"] == 2**53 + 1


@for_each(
    "block",
    [LinkBlock(("none",)), EmbeddedBlock(("none",)), EmbeddedBlock(("none",), Content("forged"))],
)
async def test_a_block_cannot_expose_a_hidden_resource(block: Block) -> None:
    wire = await wired(returning(TextBlock("before"), block))
    assert "not found" in refusal(await called(wire, "x", "2025-11-25"))


@for_each("path", [("..", "a"), ("a/b",), (".",), ("\0",)])
async def test_a_block_can_refer_only_to_its_own_mount(path: tuple[str, ...]) -> None:
    server = await server_of(Tooled(("x", returning(LinkBlock(path)))), Tree({"a": "elsewhere"}))
    result = await called(Wire(server, "2025-11-25"), "x", "2025-11-25")
    assert result["isError"]
    assert "elsewhere" not in str(result)


@pytest.mark.parametrize(
    "returned",
    [
        None,
        "text",
        {"content": []},
        ToolResult([object()]),  # pyright: ignore[reportArgumentType]
        ToolResult([TextBlock(b"bytes")]),  # pyright: ignore[reportArgumentType]
        ToolResult(structured=[1]),  # pyright: ignore[reportArgumentType]
        ToolResult(structured={"x": object()}),
        ToolResult([EmbeddedBlock(("folder",))]),
        ToolResult(5),  # pyright: ignore[reportArgumentType]
    ],
)
async def test_an_invalid_tool_result_is_an_internal_error(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await wired(answering(returned))
    assert refusal(await called(wire, "x", "2025-11-25")) == "Internal error"
    assert "internal error in a tool" in caplog.text


async def test_a_tool_with_an_output_schema_has_a_structured_result() -> None:
    wire = await wired(returning(TextBlock("words")), of=tool("x", output={"type": "object"}))
    assert refusal(await called(wire, "x", "2025-11-25")) == "Internal error"


# -- errors


@for_each(
    ("error", "told"),
    [
        (ToolFailed("Ask the moon."), "Ask the moon."),
        (CannotElicit(), "this client cannot be asked for what is missing"),
        (ResourceNotFound(), "Resource not found"),
        (DeadlineExceeded(), "Time limit exceeded"),
        (MountUnavailable("/home/me is gone"), "Temporarily unavailable. Try again later."),
        (KeyError("the password"), "Internal error"),
        (SystemExit(3), "Internal error"),
        (TimeoutError("/home/me"), "Internal error"),
        (asyncio.CancelledError(), "Internal error"),
    ],
)
@for_each("revision", EVERY)
async def test_tool_errors_reach_the_model_unless_they_are_defects(
    revision: str, error: BaseException, told: str
) -> None:
    async def late(*_: object) -> ToolResult:
        await asyncio.sleep(0)
        raise error

    for call in (raising(error), late):
        wire = await wired(call, revision)
        assert refusal(await called(wire, "x", revision)).startswith(told)
    assert "/home" not in str(wire.messages)
    assert "password" not in str(wire.messages)


async def test_an_unavailable_mount_is_an_error_result() -> None:
    class Down(Tooled):
        async def __aenter__(self) -> None:
            raise MountUnavailable("no route to 10.0.0.1")

        async def __aexit__(self, *_: object) -> None: ...

    wire = Wire(Server(Catalog([Mount("m", "test://m/", Down(("x", returning())))])), "2025-11-25")
    told = refusal(await called(wire, "x", "2025-11-25"))
    assert told == "Temporarily unavailable. Try again later."


# -- time


async def test_a_tool_that_times_out_is_cancelled() -> None:
    timing = Timing(tool_timeout_s=0.05)
    ended = asyncio.Event()

    async def call(*_: object) -> ToolResult:
        try:
            return await asyncio.Event().wait() and said()
        finally:
            ended.set()

    told = refusal(await called(await wired(call, timing=timing), "x", "2025-11-25"))
    assert told == (
        "The tool took longer than 0.05 s, which no option raises. "
        "Ask for less, or try again later."
    )
    assert ended.is_set()


async def test_waiting_for_a_person_does_not_count_against_the_timeout() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def call(_: object, asked: ToolRequest) -> ToolResult:
        answer = await asked.elicit("n", "How many?", schema)
        return said(str(answer.content["n"]))

    wire = await wired(call, can=FORMS, timing=Timing(tool_timeout_s=0.1))
    id = wire.start("tools/call", {"name": "x"})
    question = await wire.asked()
    await wire.quiet()
    wire.answer(question, {"action": "accept", "content": {"n": 3}})
    assert words((await wire.reply_to(id))["result"]) == "3"


@pytest.mark.parametrize("revision", EVERY)
async def test_a_cancelled_call_ends_its_work_and_gets_no_response(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def call(*_: object) -> ToolResult:
        began.set()
        try:
            return await asyncio.Event().wait() and said()
        finally:
            ended.set()

    wire = await wired(call, revision)
    id = wire.start("tools/call", {"name": "x"})
    async with asyncio.timeout(PATIENCE_S):
        await began.wait()
        notice = {"method": "notifications/cancelled", "params": {"requestId": id}}
        wire.send({"jsonrpc": "2.0", **notice})
        await ended.wait()
    await wire.finished()
    assert [each for each in wire.replies if each["id"] == id] == []
    assert "internal error" not in caplog.text


@for_each("revision", EVERY)
async def test_tool_progress_is_sent_to_the_client_that_requested_it(revision: str) -> None:
    async def call(_: object, asked: ToolRequest) -> ToolResult:
        for done in (0, 50, 50, 20, 100, float("nan"), float("inf")):
            asked.progress(done, 100)
        asked.progress(100.5)
        return said("done")

    wire = await wired(call, revision)
    await wire.result("tools/call", {"name": "x", "_meta": {"progressToken": "t"}})
    told = [each["params"] for each in wire.notifications]
    assert told == [
        {"progressToken": "t", "progress": 0, "total": 100},
        {"progressToken": "t", "progress": 50, "total": 100},
        {"progressToken": "t", "progress": 100, "total": 100},
        {"progressToken": "t", "progress": 100.5},
    ]


async def test_frequent_tool_progress_does_not_flood_the_client() -> None:
    async def call(_: object, asked: ToolRequest) -> ToolResult:
        for done in range(10_000):
            asked.progress(done)
        return said("done")

    wire = await wired(call)
    await wire.result("tools/call", {"name": "x", "_meta": {"progressToken": "t"}})
    assert 5 <= len(wire.notifications) < 100


@for_each("revision", EVERY)
async def test_log_messages_of_a_tool_reach_clients_of_that_level(revision: str) -> None:
    async def call(_: object, asked: ToolRequest) -> ToolResult:
        asked.log("debug", "small")
        asked.log("warning", "large")
        return said("done")

    wire = await wired(call, revision)
    asked: dict[str, Any] = {"name": "x"}
    if wire.modern:
        asked["_meta"] = {"io.modelcontextprotocol/logLevel": "info"}
    else:
        await wire.result("logging/setLevel", {"level": "info"})
    await wire.result("tools/call", asked)
    assert [each["params"]["data"] for each in wire.notifications] == ["large"]
