"""Which tools somebody is offered: in one order, each by a name of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from resource_server.access import Caller, acting
from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.mount import Mount
from resource_server.protocol import revisions
from resource_server.protocol.server import Server
from resource_server.protocol.tools import registry
from resource_server.protocol.tools.registry import ToolSettings, tool_cost
from resource_server.provider import MaybeAwaitable
from resource_server.provider.tools import Schema, Tool
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.protocol.tools.tooled import Tooled, always, called, tool, words
from tests.protocol.wire import EVERY, HANDSHAKE, Wire, initialize, server_of
from tests.providers_for_tests import Tree
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

FIXED = ["list_resources", "read_resource", "resource_metadata", "search_resources"]


def having(*names: str) -> Tooled:
    """Return a provider with tools that say their own names."""
    return Tooled(*((name, always(name)) for name in names))


async def told(wire: Wire, **params: object) -> list[dict[str, Any]]:
    return (await wire.result("tools/list", params))["tools"]


async def names(wire: Wire) -> list[str]:
    return [each["name"] for each in await told(wire)]


def served(
    *mounts: Mount, settings: ToolSettings | None = None, limits: CatalogLimits | None = None
) -> Server:
    return Server(Catalog(mounts, limits), tools=settings)


@for_each("revision", EVERY)
async def test_the_catalog_has_four_tools_and_the_first_requires_no_argument(revision: str) -> None:
    wire = Wire(await server_of(Tree({})), revision)
    first, *others = found = await told(wire)
    assert [each["name"] for each in found] == FIXED
    assert "required" not in first["inputSchema"]
    assert not (await wire.result("tools/call", {"name": first["name"]})).get("isError")
    assert all(each["inputSchema"]["required"] for each in others)
    for each in found:
        for schema in (each["inputSchema"], each.get("outputSchema", each["inputSchema"])):
            Draft202012Validator.check_schema(schema)
            assert (schema["type"], schema["additionalProperties"]) == ("object", False)


@for_each("revision", EVERY)
async def test_a_tool_has_only_the_members_that_its_revision_defines(revision: str) -> None:
    shown = Tool(name="x", description="X", title="An X", output_schema={"type": "object"})
    wire = Wire(await server_of(Tooled((shown, always("x")))), revision)
    for each in await told(wire):
        later = {"title", "outputSchema"} if revision >= "2025-06-18" else set[str]()
        if each["name"] == "read_resource":
            # Its result is content only: hosts give a model structured content in place of it.
            later -= {"outputSchema"}
        hints = {"annotations"} if revision >= "2025-03-26" else set[str]()
        assert set(each) == {"name", "description", "inputSchema"} | later | hints
        if hints:
            assert each["annotations"] == {
                "readOnlyHint": True,
                "idempotentHint": True,
                "openWorldHint": False,
            }


async def test_tools_of_providers_follow_in_the_order_of_the_mounts() -> None:
    server = await server_of(having("b", "a"), Tree({}), having("c"))
    wire = Wire(server, "2025-11-25")
    assert await names(wire) == [*FIXED, "b", "a", "c"]
    assert words(await called(wire, "c", "2025-11-25")) == "c"


async def test_a_duplicate_tool_name_is_prefixed_with_its_mount() -> None:
    server = await server_of(having("find", "read_resource"), having("find"))
    wire = Wire(server, "2025-11-25")
    assert await names(wire) == [*FIXED, "find", "one_read_resource", "two_find"]
    assert words(await called(wire, "two_find", "2025-11-25")) == "find"


async def test_every_name_has_the_prefix_of_the_manifest() -> None:
    mount = Mount("m", "test://m/", having("find", "list_resources"))
    wire = Wire(served(mount, settings=ToolSettings(prefix="acme_")), "2025-11-25")
    expected = [*(f"acme_{name}" for name in FIXED), "acme_find", "acme_m_list_resources"]
    assert await names(wire) == expected
    assert words(await called(wire, "acme_find", "2025-11-25")) == "find"
    unknown = await wire.error("tools/call", {"name": "find"})
    assert unknown["code"] == -32602


@for_each(
    ("settings", "left"),
    [
        (ToolSettings(search=False), [*FIXED[:3], "find"]),
        (ToolSettings(without=frozenset({"m"})), FIXED),
        (ToolSettings(enabled=False), []),
    ],
)
async def test_tools_disabled_by_the_manifest_do_not_exist(
    settings: ToolSettings, left: list[str]
) -> None:
    wire = Wire(served(Mount("m", "test://m/", having("find")), settings=settings), "2025-11-25")
    assert await names(wire) == left
    for name in {*FIXED, "find"} - set(left):
        assert (await wire.error("tools/call", {"name": name}))["code"] == -32602


async def test_tools_that_are_not_advertised_have_no_methods() -> None:
    settings = ToolSettings(enabled=False)
    wire = Wire(served(Mount("m", "test://m/", Tree({})), settings=settings), "2026-07-28")
    assert (await wire.error("tools/list"))["code"] == -32601
    assert (await wire.error("tools/call", {"name": FIXED[0]}))["code"] == -32601


@for_each("revision", EVERY)
@for_each(("enabled", "reloads"), [(True, False), (True, True), (False, True)])
async def test_tools_are_advertised_if_they_are_enabled(
    revision: str, enabled: bool, reloads: bool
) -> None:
    server = served(Mount("m", "test://m/", Tree({})), settings=ToolSettings(enabled=enabled))
    server.reloads = reloads
    if revision in HANDSHAKE:
        described = Wire(server).ask(initialize(revision))["result"]
    else:
        described = await Wire(server, revision).result("server/discover")
    expected = {"listChanged": reloads} if enabled else None
    assert described["capabilities"].get("tools") == expected


@for_each("revision", EVERY)
async def test_tools_are_paged_and_the_last_page_has_no_cursor(revision: str) -> None:
    mount = Mount("m", "test://m/", having("..", ".", *(f"t{n}" for n in range(4))))
    wire = Wire(served(mount, limits=CatalogLimits(page_size=3)), revision)
    found: list[str] = []
    asked: dict[str, Any] = {}
    for size in (3, 3, 3, 1):
        page = await wire.result("tools/list", asked)
        assert len(page["tools"]) == size
        found += [each["name"] for each in page["tools"]]
        asked = {"cursor": page.get("nextCursor")}
    assert asked["cursor"] is None
    assert found == [*FIXED, "..", ".", "t0", "t1", "t2", "t3"]


async def test_a_cursor_of_another_listing_is_refused() -> None:
    mounts = [Mount(name, f"test://{name}/", having(name)) for name in ("one", "two")]
    wire = Wire(served(*mounts, limits=CatalogLimits(page_size=1)), "2025-11-25")
    foreign = (await wire.result("resources/list"))["nextCursor"]
    for cursor in ("x", "é", foreign, "A" * 100_000):
        assert (await wire.error("tools/list", {"cursor": cursor}))["code"] == -32602
    last = (await wire.result("tools/list"))["nextCursor"]
    assert len(await told(wire, cursor=last)) == 1


async def test_tools_of_a_mount_are_hidden_without_its_scopes() -> None:
    secret = frozenset({"hr"})
    mounts = [
        Mount("hr", "test://hr/", having("find"), access=secret),
        Mount("docs", "test://docs/", having("find")),
    ]
    wire = Wire(served(*mounts), "2025-11-25")
    with acting(Caller("clerk", secret)):
        assert await names(wire) == [*FIXED, "find", "docs_find"]
    with acting(Caller("guest", frozenset())):
        # Nothing tells that the name is taken.
        assert await names(wire) == [*FIXED, "find"]
        error = await wire.error("tools/call", {"name": "docs_find"})
    assert (error["code"], error["message"]) == (-32602, "Unknown tool: docs_find")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (Tool(name="a b", description=""), "a name is"),
        (Tool(name="", description=""), "a name is"),
        (Tool(name="x" * 129, description=""), "a name is"),
        (tool("x", a={"type": "nonsense"}), "nonsense"),
        (tool("x", a={"pattern": "("}), "regex"),
        (tool("x", a={"pattern": "(?=a)"}), "RE2 has no pattern"),
        (tool("x", a={"patternProperties": {"a*": {}}}), "patternProperties"),
        (tool("x", a={"$ref": "https://example.org/schema"}), "$ref"),
        (tool("x", a={"default": b"bytes", "x": object()}), "not JSON"),
        (tool("x", a={"enum": ["x" * 70_000]}), "longer than"),
        (Tool(name="x", description="", input_schema={"type": "string"}), "'object'"),
        (tool("x", output={"type": "array"}), "'object'"),
        (Tool(name=5, description=""), "TypeError"),  # pyright: ignore[reportArgumentType]
        (Tool(name="x", description=5), "Error"),  # pyright: ignore[reportArgumentType]
        ("no tool at all", "AttributeError"),
    ],
)
async def test_a_tool_that_cannot_be_described_to_clients_is_left_out(
    broken: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Careless(Tooled):
        def tools(self) -> MaybeAwaitable[Sequence[Tool]]:
            return [broken, Tool(name="good", description="")]

    wire = Wire(await server_of(Careless()), "2025-11-25")
    assert await names(wire) == [*FIXED, "good"]
    (record,) = [each for each in caplog.records if "left out" in each.getMessage()]
    assert reason in record.getMessage()
    assert len(record.getMessage()) < 500


async def test_duplicate_tool_names_are_prefixed_once_and_then_left_out() -> None:
    class Twice(Tooled):
        def tools(self) -> MaybeAwaitable[Sequence[Tool]]:
            return [Tool(name=name, description="") for name in ("x", "x", "x", "one_x")]

    wire = Wire(await server_of(Twice()), "2025-11-25")
    assert await names(wire) == [*FIXED, "x", "one_x", "one_one_x"]


async def test_a_failing_provider_affects_no_other_tools(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(Tooled):
        def tools(self) -> MaybeAwaitable[Sequence[Tool]]:
            raise KeyError("the password")

    wire = Wire(await server_of(Failing(), having("x")), "2025-11-25")
    found = await wire.result("tools/list")
    assert [each["name"] for each in found["tools"]] == [*FIXED, "x"]
    assert found["_meta"] == {"resource-server/unavailable": ["one"]}
    assert "password" not in caplog.text


async def test_a_hanging_provider_affects_no_other_tools() -> None:
    class Hanging(Tooled):
        async def tools(self) -> Sequence[Tool]:
            while not released.is_set():
                with suppress(asyncio.CancelledError):  # nor does it end when it is cancelled
                    await released.wait()
            return []

    released = asyncio.Event()
    timing = Timing(tool_list_timeout_s=0.05)
    wire = Wire(await server_of(Hanging(), having("x"), timing=timing), "2025-11-25")
    assert await asyncio.wait_for(names(wire), PATIENCE_S) == [*FIXED, "x"]
    assert words(await called(wire, "x", "2025-11-25")) == "x"
    released.set()


async def test_a_provider_that_failed_is_asked_again_after_a_pause() -> None:
    class Recovering(Tooled):
        asked = 0

        def tools(self) -> MaybeAwaitable[Sequence[Tool]]:
            self.asked += 1
            if self.asked == 1:
                raise OSError
            return [Tool(name="x", description="")]

    provider = Recovering()
    wire = Wire(await server_of(provider, timing=Timing(mount_retry_s=60)), "2025-11-25")
    for _ in range(2):
        assert await names(wire) == FIXED
    assert provider.asked == 1
    provider = Recovering()
    wire = Wire(await server_of(provider, timing=Timing(mount_retry_s=0)), "2025-11-25")
    assert await names(wire) == FIXED
    assert await names(wire) == [*FIXED, "x"]


async def test_tools_are_requested_once_before_the_provider_is_entered() -> None:
    class Counting(Tooled):
        asked = 0

        async def __aenter__(self) -> None:
            raise AssertionError("nothing was asked of its resources")

        async def __aexit__(self, *_: object) -> None: ...

        async def tools(self) -> Sequence[Tool]:
            self.asked += 1
            await asyncio.sleep(0)
            return [Tool(name="x", description="")]

    provider = Counting()
    server = served(Mount("m", "test://m/", provider))
    for revision in EVERY:
        assert await names(Wire(server, revision)) == [*FIXED, "x"]
    assert provider.asked == 1


async def test_tools_beyond_the_limit_are_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    many = having(*(f"t{n}" for n in range(registry.MAX_TOOLS + 7)))
    server = served(Mount("m", "test://m/", many), limits=CatalogLimits(page_size=1000))
    found = await names(Wire(server, "2025-11-25"))
    assert len(found) == len(FIXED) + registry.MAX_TOOLS
    assert "7 more" in caplog.text


async def test_a_schema_without_a_type_is_sent_as_an_object() -> None:
    schema: Schema = {"properties": {"a": {"type": "string"}}}
    plain = Tool(name="x", description="", input_schema=schema)
    wire = Wire(await server_of(Tooled((plain, always("x")))), "2025-11-25")
    assert (await told(wire))[-1]["inputSchema"] == {"type": "object", **schema}


# -- cost


@for_each("revision", EVERY)
async def test_the_four_catalog_tools_cost_less_than_a_thousand_tokens(revision: str) -> None:
    server = await server_of(Tree({}))
    known = {**revisions.HANDSHAKE, **revisions.MODERN}[revision]
    found = await tool_cost(server.toolbox, known)
    assert found.count == 4
    assert 200 < found.tokens < 1000
    told = (await Wire(server, revision).result("tools/list"))["tools"]
    assert found.tokens == pytest.approx(len(json.dumps(told, separators=(",", ":"))) / 4, abs=10)


async def test_tools_on_every_page_are_counted() -> None:
    tools = [(f"t{number}", always("x")) for number in range(300)]
    found = await tool_cost((await server_of(Tooled(*tools))).toolbox, revisions.LATEST_MODERN)
    assert found.count == 304
    assert found.tokens > 5000
