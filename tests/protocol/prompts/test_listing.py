from __future__ import annotations

from typing import Any

import pytest
from mcp_types.methods import CACHEABLE_METHODS, validate_server_result

from resource_server.catalog.catalog import CatalogLimits
from resource_server.manifest.prompts import Prompt, PromptArgument, PromptMessage
from tests.cases import for_each
from tests.protocol.prompts.serving import got, server_of
from tests.protocol.wire import EVERY, MODERN, Wire, initialize
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio

HELLO = (PromptMessage(text="hello"),)
REVIEW = Prompt(
    title="Review a file",
    description="Asks for a review",
    arguments={
        "file": PromptArgument(title="File", description="A path", required=True),
        "focus": PromptArgument(default="x"),
    },
    messages=HELLO,
)


@for_each("revision", EVERY)
async def test_a_prompt_is_listed_with_its_arguments_in_every_revision(revision: str) -> None:
    server = await server_of({"review": REVIEW, "plain": Prompt(messages=HELLO)})
    result = await Wire(server, revision).result("prompts/list")
    validate_server_result("prompts/list", revision, result)
    file = {"name": "file", "title": "File", "description": "A path", "required": True}
    expected: dict[str, Any] = {
        "name": "review",
        "title": "Review a file",
        "description": "Asks for a review",
        "arguments": [file, {"name": "focus", "required": False}],
    }
    if revision < "2025-06-18":
        del expected["title"], file["title"]
    assert result["prompts"] == [expected, {"name": "plain"}]


@for_each("revision", EVERY)
async def test_prompts_are_paged(revision: str) -> None:
    names = [f"p{number}" for number in (3, 1, 2, 5, 4)]
    prompts = {name: Prompt(messages=HELLO) for name in names}
    wire = Wire(await server_of(prompts, limits=CatalogLimits(page_size=2)), revision)
    found: list[str] = []
    asked: dict[str, Any] = {}
    while True:
        page = await wire.result("prompts/list", asked)
        assert len(page["prompts"]) <= 2
        found += [prompt["name"] for prompt in page["prompts"]]
        if "nextCursor" not in page:
            break
        asked = {"cursor": page["nextCursor"]}
    assert found == names


@for_each("cursor", ["x", "x" * 100_000, "AAAA", "\0"])
async def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    wire = Wire(await server_of({"p": REVIEW}), "2025-11-25")
    assert (await wire.error("prompts/list", {"cursor": cursor}))["code"] == -32602


async def test_a_cursor_of_a_removed_prompt_is_refused() -> None:
    server = await server_of({"p": REVIEW, "q": REVIEW}, limits=CatalogLimits(page_size=1))
    wire = Wire(server, "2025-11-25")
    cursor = (await wire.result("prompts/list"))["nextCursor"]
    server.adopt(await server_of({"q": REVIEW}))
    assert (await wire.error("prompts/list", {"cursor": cursor}))["code"] == -32602


async def test_a_cursor_of_another_listing_is_refused() -> None:
    prompts = {"p": REVIEW, "q": REVIEW}
    wire = Wire(
        await server_of(prompts, Tree({"a": "", "b": ""}), limits=CatalogLimits(page_size=1)),
        "2025-11-25",
    )
    for method, other in (("resources/list", "prompts/list"), ("prompts/list", "resources/list")):
        cursor = (await wire.result(method))["nextCursor"]
        assert (await wire.error(other, {"cursor": cursor}))["code"] == -32602


async def test_a_listing_has_the_same_caching_hints_as_others() -> None:
    assert "prompts/list" in CACHEABLE_METHODS
    result = await Wire(await server_of({"p": REVIEW}), "2026-07-28").result("prompts/list")
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


@for_each("revision", EVERY)
@for_each(
    ("prompts", "reloads", "advertised"),
    [
        ({}, False, None),
        ({"p": REVIEW}, False, {"listChanged": False}),
        ({}, True, {"listChanged": True}),
    ],
)
async def test_prompts_are_advertised_if_there_are_some_or_a_session_may_get_some(
    revision: str, prompts: dict[str, Prompt], reloads: bool, advertised: object
) -> None:
    server = await server_of(prompts)
    server.reloads = reloads
    wire = Wire(server, revision if revision in MODERN else None)
    described = (
        await wire.result("server/discover")
        if revision in MODERN
        else wire.ask(initialize(revision))["result"]
    )
    if revision in MODERN and not prompts:
        advertised = None  # there is no session that a later reload would surprise
    assert described["capabilities"].get("prompts") == advertised


@for_each("revision", EVERY)
@for_each("reloads", [False, True])
async def test_prompts_that_are_not_advertised_have_no_methods(
    revision: str, reloads: bool
) -> None:
    server = await server_of({})
    server.reloads = reloads
    wire = Wire(server, revision)
    if revision in MODERN:
        assert (await wire.error("prompts/list"))["code"] == -32601
        assert (await wire.error(*got("p")))["code"] == -32601
    else:
        assert await wire.result("prompts/list") == {"prompts": []}
        assert (await wire.error(*got("p")))["code"] == -32602
    server.prompts = {"p": REVIEW}
    assert [each["name"] for each in (await wire.result("prompts/list"))["prompts"]] == ["p"]


@for_each("revision", EVERY)
async def test_an_unknown_prompt_is_refused_with_a_suggestion(
    revision: str,
) -> None:
    wire = Wire(await server_of({"review": REVIEW}), revision)
    error = await wire.error(*got("reviwe"))
    assert (error["code"], error["message"]) == (
        -32602,
        "No prompt has this name; did you mean 'review'?",
    )
    for name in ("", "x" * 1_000_000, "__class__", "review\0"):
        assert (await wire.error(*got(name)))["code"] == -32602


@for_each("revision", EVERY)
async def test_clients_are_notified_only_when_prompts_or_their_order_change(revision: str) -> None:
    server = await server_of({"p": REVIEW, "q": REVIEW})
    server.reloads = True
    wire = Wire(server, revision)
    if wire.modern:
        wire.start("subscriptions/listen", {"notifications": {"promptsListChanged": True}})
        await wire.notified(1)
    before = len(wire.notifications)
    server.adopt(await server_of({"p": REVIEW, "q": REVIEW}))
    await wire.quiet()
    assert len(wire.notifications) == before
    for number, names in enumerate(("qp", "q"), start=1):
        server.adopt(await server_of(dict.fromkeys(names, REVIEW)))
        told = await wire.notified(before + number)
        assert told[-1]["method"] == "notifications/prompts/list_changed"
