"""Tools of providers: what they are given, what becomes of what they return or raise."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.errors import (
    CannotElicit,
    DeadlineExceeded,
    MountUnavailable,
    ResourceNotFound,
    ToolFailed,
)
from resource_server.protocol.server import Server, ServerLimits
from resource_server.provider import Content
from resource_server.provider.tools import (
    Block,
    EmbeddedBlock,
    LinkBlock,
    MediaBlock,
    TextBlock,
    Tool,
    ToolRequest,
    ToolResult,
)
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from tests.protocol.tools.tooled import PICTURE, Call, Tooled, called, refusal, said, tool, words
from tests.protocol.wire import EVERY, HANDSHAKE, Wire, server_of
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio

FORMS: Mapping[str, Any] = {"elicitation": {}}
COUNTRY = tool(
    "best", "country", country={"type": "string", "minLength": 2}, count={"type": "integer"}
)


async def wired(
    call: Any,
    revision: str = "2025-11-25",
    of: str | Tool = "x",
    *,
    limits: ServerLimits | None = None,
    timing: Timing = DEFAULT_TIMING,
    **more: Any,
) -> Wire:
    nodes = {"a b.txt": "text", "logo.png": PICTURE, "folder": {"c.txt": "c"}}
    server = await server_of(Tooled((of, call), nodes=nodes), server_limits=limits, timing=timing)
    return Wire(server, revision, **more)


def shaped(schema: Mapping[str, Any]) -> Tool:
    return Tool(name="x", description="", input_schema=schema)


def returning(*blocks: Block, structured: Mapping[str, Any] | None = None) -> Call:
    return answering(ToolResult(blocks, structured))


def answering(result: Any) -> Call:
    def call(_: Mapping[str, Any], __: ToolRequest) -> ToolResult:
        return result

    return call


def saying(*names: str) -> Call:
    """Return a tool that says these of its arguments."""

    def call(given: Mapping[str, Any], _: ToolRequest) -> ToolResult:
        return said(" ".join(str(given[name]) for name in names))

    return call


def raising(error: BaseException) -> Call:
    def call(*_: object) -> ToolResult:
        raise error

    return call


# -- arguments


async def test_arguments_reach_the_tool_as_they_were_sent() -> None:
    seen: list[Mapping[str, Any]] = []

    async def call(arguments: Mapping[str, Any], _: ToolRequest) -> ToolResult:
        seen.append(arguments)
        return said("seen")

    wire = await wired(call, of=COUNTRY)
    await called(wire, "best", "2025-11-25", country="DE", count=2)
    assert seen == [{"country": "DE", "count": 2}]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"country": 5}, "country: 5 is not of type 'string'"),
        ({"country": "D"}, "country: 'D' is too short"),
        ({"country": "DE", "x": 1}, "'x' was unexpected"),
        ({"country": "DE", "count": "2"}, "count: '2' is not of type 'integer'"),
        ({"country": "DE", "count": 1.5}, "count: 1.5 is not of type 'integer'"),
        ({"country": "DE", "count": True}, "count: True is not of type 'integer'"),
        ({"country": None}, "country: None is not of type 'string'"),
        ({"country": ["DE"] * 100_000}, "longer than"),
        ({"country": ["DE"] * 10_000}, "is not of type 'string'"),
    ],
)
@pytest.mark.parametrize("revision", EVERY)
async def test_arguments_that_break_the_schema_are_said_to(
    revision: str, arguments: dict[str, Any], problem: str
) -> None:
    wire = await wired(raising(AssertionError("it was called")), revision, of=COUNTRY)
    told = refusal(await called(wire, "best", revision, **arguments))
    assert problem in told
    assert len(told) < 500


@pytest.mark.parametrize("junk", [None, 5, "x", [], ["x"], True])
async def test_arguments_that_are_no_object_are_bad_params(junk: object) -> None:
    wire = await wired(returning())
    for name in ("x", "list_resources"):
        error = await wire.error("tools/call", {"name": name, "arguments": junk})
        assert error["code"] == -32602
        assert "$.arguments" in error["message"]


@pytest.mark.parametrize("name", ["nothing", "", "X", "x ", "../x", "x" * 10_000, "\N{SNOWMAN}"])
async def test_a_tool_that_is_none_is_bad_params(name: str) -> None:
    error = await (await wired(returning())).error("tools/call", {"name": name})
    assert error["code"] == -32602
    assert error["message"].startswith("Unknown tool: ")
    assert len(error["message"]) < 200


@pytest.mark.parametrize(
    "raw",
    [
        b'{"country":"DE","count":NaN}',
        b'{"country":"DE","count":1e999}',
        b'{"country":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"country":"\xff"}',
        b'{"country":"\\ud800"}',
    ],
)
async def test_what_is_no_json_is_refused_and_the_next_call_is_served(raw: bytes) -> None:
    wire = await wired(returning(TextBlock("fine")), of=COUNTRY)
    head = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"best","arguments":'
    wire.send(head + raw + b"}}")
    reply = await wire.next_reply()
    assert "error" in reply or reply["result"]["isError"]
    assert words(await called(wire, "best", "2025-11-25", country="DE")) == "fine"


async def test_of_a_member_that_is_there_twice_the_last_counts() -> None:
    wire = await wired(saying("country"), of=COUNTRY)
    wire.send(
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"best","arguments":'
        b'{"country":5,"country":"DE"}}}'
    )
    assert words((await wire.reply_to(7))["result"]) == "DE"


# -- arguments that are missing


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_person_is_asked_for_what_is_missing(revision: str) -> None:
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


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"count": "many"}, "Invalid arguments: count: 'many' is not of type 'integer'"),
        ({"contry": "DE"}, "known: country, count"),
    ],
)
async def test_nobody_is_asked_where_what_was_given_is_wrong(given: Any, told: str) -> None:
    wire = await wired(raising(AssertionError("it was called")), of=COUNTRY, can=FORMS)
    assert told in refusal(await called(wire, "best", "2025-11-25", **given))
    assert wire.questions == []


async def test_a_person_is_asked_by_the_result_where_that_is_the_way() -> None:
    wire = await wired(saying("country"), "2026-07-28", COUNTRY, can=FORMS)
    asked: dict[str, Any] = {"name": "best", "arguments": {}}
    result = await wire.result("tools/call", asked)
    assert result["resultType"] == "input_required"
    ((key, _),) = result["inputRequests"].items()
    answer = {"action": "accept", "content": {"country": "DE"}}
    again = await wire.result("tools/call", {**asked, "inputResponses": {key: answer}})
    assert (again["resultType"], words(again)) == ("complete", "DE")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"action": "decline"}, "The user was asked for country, and prefers not to say."),
        ({"action": "cancel"}, "The user was asked for country, and has dismissed the question."),
        ({"action": "accept", "content": {"country": "D"}}, "Missing arguments: country."),
    ],
)
async def test_who_does_not_answer_is_told_of_politely(answer: Any, told: str) -> None:
    wire = await wired(raising(AssertionError("it was called")), of=COUNTRY, can=FORMS)
    call = wire.start("tools/call", {"name": "best"})
    wire.answer(await wire.asked(), answer)
    assert refusal((await wire.reply_to(call))["result"]).startswith(told)


@pytest.mark.parametrize("revision", EVERY)
async def test_without_anybody_to_ask_the_result_names_what_is_missing(revision: str) -> None:
    wire = await wired(raising(AssertionError("it was called")), revision, of=COUNTRY)
    told = refusal(await called(wire, "best", revision))
    assert told.startswith("Missing arguments: country. Call again with them.")


async def test_what_no_form_can_ask_for_is_named() -> None:
    several = tool("several", "ids", ids={"type": "array"})
    wire = await wired(raising(AssertionError("it was called")), of=several, can=FORMS)
    assert "Missing arguments: ids" in refusal(await called(wire, "several", "2025-11-25"))
    assert wire.questions == []


# -- results


@pytest.mark.parametrize("revision", EVERY)
async def test_each_block_is_sent_as_the_revision_has_it(revision: str) -> None:
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


@pytest.mark.parametrize("revision", EVERY)
async def test_a_structured_result_is_sent_where_the_revision_has_one(revision: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wire = await wired(returning(structured={"n": 1}), revision, tool("x", output=schema))
    result = await called(wire, "x", revision)
    assert words(result) == '{"n":1}'
    assert result.get("structuredContent") == ({"n": 1} if revision >= "2025-06-18" else None)


@pytest.mark.parametrize(
    "block",
    [LinkBlock(("none",)), EmbeddedBlock(("none",)), EmbeddedBlock(("none",), Content("forged"))],
)
async def test_what_nobody_may_see_is_not_to_be_had_by_a_block(block: Block) -> None:
    wire = await wired(returning(TextBlock("before"), block))
    assert "not found" in refusal(await called(wire, "x", "2025-11-25"))


@pytest.mark.parametrize("path", [("..", "a"), ("a/b",), (".",), ("\0",)])
async def test_a_block_leads_nowhere_but_into_its_own_mount(path: tuple[str, ...]) -> None:
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
async def test_a_result_that_is_none_is_an_internal_error(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await wired(answering(returned))
    assert refusal(await called(wire, "x", "2025-11-25")) == "Internal error"
    assert "internal error in a tool" in caplog.text


async def test_a_tool_with_an_output_schema_has_a_structured_result() -> None:
    wire = await wired(returning(TextBlock("words")), of=tool("x", output={"type": "object"}))
    assert refusal(await called(wire, "x", "2025-11-25")) == "Internal error"


async def test_a_result_over_the_limit_is_refused() -> None:
    limits = ServerLimits(tool_result_bytes=1000)
    long = "x" * 600
    for result in (
        ToolResult([TextBlock(long), TextBlock(long)]),
        ToolResult(structured={"a": long * 2}),
    ):
        wire = await wired(answering(result), limits=limits)
        assert "Ask for less" in refusal(await called(wire, "x", "2025-11-25"))
    wire = await wired(returning(TextBlock(long)), limits=limits)
    assert words(await called(wire, "x", "2025-11-25")) == long
    # What comes after that is not even read.
    blocks = TextBlock(long), TextBlock(long), EmbeddedBlock(("none",))
    wire = await wired(returning(*blocks), limits=limits)
    assert "Ask for less" in refusal(await called(wire, "x", "2025-11-25"))


# -- errors


@pytest.mark.parametrize(
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
@pytest.mark.parametrize("revision", EVERY)
async def test_what_a_tool_raises_is_told_to_the_model_unless_it_is_a_defect(
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


async def test_a_mount_that_cannot_serve_is_a_result_that_says_so() -> None:
    class Down(Tooled):
        async def __aenter__(self) -> None:
            raise MountUnavailable("no route to 10.0.0.1")

        async def __aexit__(self, *_: object) -> None: ...

    wire = Wire(Server(Catalog([Mount("m", "test://m/", Down(("x", returning())))])), "2025-11-25")
    told = refusal(await called(wire, "x", "2025-11-25"))
    assert told == "Temporarily unavailable. Try again later."


# -- time


async def test_a_tool_that_takes_too_long_is_ended() -> None:
    timing = Timing(tool_timeout_s=0.05)
    ended = asyncio.Event()

    async def call(*_: object) -> ToolResult:
        try:
            return await asyncio.Event().wait() and said()
        finally:
            ended.set()

    told = refusal(await called(await wired(call, timing=timing), "x", "2025-11-25"))
    assert told == "The tool took longer than 0.05 s. Ask for less, or try again later."
    assert ended.is_set()


async def test_the_time_of_a_person_is_not_the_time_of_the_tool() -> None:
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
async def test_a_call_that_is_cancelled_ends_the_work_and_is_never_answered(
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
    async with asyncio.timeout(10):
        await began.wait()
        notice = {"method": "notifications/cancelled", "params": {"requestId": id}}
        wire.send({"jsonrpc": "2.0", **notice})
        await ended.wait()
    await wire.finished()
    assert [each for each in wire.replies if each["id"] == id] == []
    assert "internal error" not in caplog.text


@pytest.mark.parametrize("revision", EVERY)
async def test_the_steps_of_a_tool_are_told_to_who_asked(revision: str) -> None:
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


async def test_a_tool_that_tells_of_every_step_does_not_flood_its_client() -> None:
    async def call(_: object, asked: ToolRequest) -> ToolResult:
        for done in range(10_000):
            asked.progress(done)
        return said("done")

    wire = await wired(call)
    await wire.result("tools/call", {"name": "x", "_meta": {"progressToken": "t"}})
    assert 5 <= len(wire.notifications) < 100


@pytest.mark.parametrize("revision", EVERY)
async def test_what_a_tool_logs_is_told_to_who_asked_for_its_level(revision: str) -> None:
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


async def test_calls_that_come_too_fast_are_told_to_wait() -> None:
    limits = ServerLimits(tool_calls_per_s=0.001, tool_call_burst=3)
    wire = await wired(returning(TextBlock("fine")), limits=limits)
    results = [await wire.result("tools/call", {"name": "x"}) for _ in range(4)]
    assert [words(each) for each in results[:3]] == ["fine"] * 3
    assert refusal(results[3]).startswith("Too many calls at once. Wait ")
    # What is no call is not counted.
    assert len((await wire.result("tools/list"))["tools"]) == 5


async def test_calls_of_others_are_none_of_ones_own() -> None:
    limits = ServerLimits(tool_calls_per_s=0.001, tool_call_burst=1)
    wire = await wired(returning(TextBlock("fine")), limits=limits)
    told: list[str] = []
    for owner in ("10.0.0.1", "10.0.0.2", "10.0.0.1"):
        wire.connection.owner = owner
        told.append(words(await wire.result("tools/call", {"name": "x"})))
    assert told[:2] == ["fine", "fine"]
    assert told[2].startswith("Too many calls at once.")


async def test_a_schema_may_refer_to_its_own_definitions() -> None:
    schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "additionalProperties": {"$ref": "#/$defs/node"}}},
    }
    Draft202012Validator.check_schema(schema)
    wire = await wired(returning(TextBlock("fine")), of=shaped(schema))
    assert words(await called(wire, "x", "2025-11-25", tree={"a": {"b": {}}})) == "fine"
    told = refusal(await called(wire, "x", "2025-11-25", tree={"a": {"b": 5}}))
    assert "tree.a.b: 5 is not of type 'object'" in told


def deep(levels: int) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 5000 + "b"),
        ({"$ref": "#/$defs/endless"}, "x"),
        ({"$ref": "#/$defs/twice"}, deep(100)),
        ({"uniqueItems": True}, [{"a": n} for n in range(15_000)]),
        ({"additionalProperties": {"$ref": "#/properties/a"}}, deep(600)),
    ],
)
async def test_checking_arguments_takes_bounded_time(schema: Any, value: object) -> None:
    definitions = {
        "endless": {"anyOf": [{"$ref": "#/$defs/endless"}, {"$ref": "#/$defs/endless"}]},
        "twice": {
            "additionalProperties": {
                "allOf": [{"$ref": "#/$defs/twice"}, {"$ref": "#/$defs/twice"}]
            }
        },
    }
    whole = {"type": "object", "properties": {"a": schema}, "$defs": definitions}
    wire = await wired(returning(TextBlock("fine")), of=shaped(whole))
    async with asyncio.timeout(5):
        result = await wire.result("tools/call", {"name": "x", "arguments": {"a": value}})
    assert words(result) == "fine" or refusal(result)


@pytest.mark.parametrize(
    ("items", "unique"),
    [([1, 2], True), ([1, 1.0], False), ([1, True], True), ([{"a": 1}, {"a": 1.0}], False)],
)
async def test_items_are_compared_as_json_has_them(items: Sequence[object], unique: bool) -> None:
    several = tool("x", ids={"type": "array", "uniqueItems": True})
    wire = await wired(returning(TextBlock("fine")), of=several)
    result = await wire.result("tools/call", {"name": "x", "arguments": {"ids": items}})
    assert bool(result.get("isError")) == (not unique)
