"""`tools/list` and `tools/call`: pages of tools, unusable params, calls that come too fast."""

from __future__ import annotations

import pytest

from resource_server.protocol.server import ServerLimits
from resource_server.provider.tools import TextBlock
from tests.protocol.tools.tooled import COUNTRY, called, refusal, returning, saying, wired, words

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("junk", [None, 5, "x", [], ["x"], True])
async def test_arguments_that_are_not_an_object_are_bad_params(junk: object) -> None:
    wire = await wired(returning())
    for name in ("x", "list_resources"):
        error = await wire.error("tools/call", {"name": name, "arguments": junk})
        assert error["code"] == -32602
        assert "$.arguments" in error["message"]


@pytest.mark.parametrize("name", ["nothing", "", "X", "x ", "../x", "x" * 10_000, "\N{SNOWMAN}"])
async def test_an_unknown_tool_is_bad_params(name: str) -> None:
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
@pytest.mark.parametrize("name", [b"best", b"read_resource", b"search", b"list_resources"])
async def test_invalid_json_is_refused_and_the_next_call_is_served(
    name: bytes, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await wired(returning(TextBlock("fine")), of=COUNTRY)
    head = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"%b","arguments":'
    for member in (b'"country"', b'"uri"', b'"query"'):
        wire.send(head % name + raw.replace(b'"country"', member) + b"}}")
        reply = await wire.next_reply()
        assert reply.get("error", {}).get("code") != -32603
        assert "error" in reply or reply["result"]["isError"] or name == b"list_resources"
    assert "internal error" not in caplog.text
    assert words(await called(wire, "best", "2025-11-25", country="DE")) == "fine"


async def test_the_last_of_duplicate_members_wins() -> None:
    wire = await wired(saying("country"), of=COUNTRY)
    wire.send(
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"best","arguments":'
        b'{"country":5,"country":"DE"}}}'
    )
    assert words((await wire.reply_to(7))["result"]) == "DE"


async def test_calls_beyond_the_rate_limit_are_refused_with_a_delay() -> None:
    limits = ServerLimits(tool_calls_per_s=0.001, tool_call_burst=3)
    wire = await wired(returning(TextBlock("fine")), limits=limits)
    results = [await wire.result("tools/call", {"name": "x"}) for _ in range(4)]
    assert [words(each) for each in results[:3]] == ["fine"] * 3
    assert refusal(results[3]).startswith("Too many calls. Wait ")
    # What is no call is not counted.
    assert len((await wire.result("tools/list"))["tools"]) == 5


async def test_calls_of_other_clients_do_not_count_against_the_rate() -> None:
    limits = ServerLimits(tool_calls_per_s=0.001, tool_call_burst=1)
    wire = await wired(returning(TextBlock("fine")), limits=limits)
    told: list[str] = []
    for owner in ("10.0.0.1", "10.0.0.2", "10.0.0.1"):
        wire.connection.owner = owner
        told.append(words(await wire.result("tools/call", {"name": "x"})))
    assert told[:2] == ["fine", "fine"]
    assert told[2].startswith("Too many calls.")
