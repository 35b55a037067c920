"""Results of tools: their errors, with advice for the model, and their limit."""

from __future__ import annotations

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    MountUnavailable,
    ResourceBusy,
    ResourceTooLarge,
)
from resource_server.protocol.server import ServerLimits
from resource_server.provider.tools import EmbeddedBlock, TextBlock, ToolResult
from tests.cases import for_each
from tests.protocol.tools.tooled import answering, called, refusal, returning, wired, words
from tests.protocol.wire import EVERY, Wire, server_of
from tests.providers_for_tests import Leaf, Tree

pytestmark = pytest.mark.anyio


async def test_a_resource_too_large_without_ranges_names_a_readable_part() -> None:
    error = ResourceTooLarge(size=5000, limit=10, next={"page": "1"})
    wire = Wire(await server_of(Tree({"x": Leaf(raises=error)})), "2025-11-25")
    told = refusal(await called(wire, "read_resource", "2025-11-25", uri="test://one/x"))
    assert "Resource has 5000 bytes" in told
    assert told.endswith('Read a part: {"uri":"test://one/x?page=1"}')


async def test_data_over_the_limit_of_a_result_is_refused() -> None:
    wire = Wire(
        await server_of(
            Tree({"blob": b"\0" * 2000}), server_limits=ServerLimits(tool_result_bytes=1000)
        ),
        "2025-11-25",
    )
    told = refusal(await called(wire, "read_resource", "2025-11-25", uri="test://one/blob"))
    assert "Ask for less" in told


@for_each("revision", EVERY)
@for_each("name", ["list_resources", "read_resource", "resource_metadata"])
async def test_a_missing_resource_is_an_error_result(revision: str, name: str) -> None:
    wire = Wire(await server_of(Tree({})), revision)
    told = refusal(await called(wire, name, revision, uri="test://one/none"))
    assert told.startswith("Resource not found: test://one/none. ")


@for_each(
    ("error", "advice"),
    [
        (DeadlineExceeded(), "Ask for less, or try again later."),
        (ResourceBusy(), "Try again later."),
        (MountUnavailable("/home/me is gone"), "Try again later."),
        (KeyError("/home/me"), "Internal error"),
    ],
)
@for_each("revision", EVERY)
async def test_a_provider_error_is_a_result_with_advice(
    revision: str, error: Exception, advice: str
) -> None:
    wire = Wire(await server_of(Tree({"x": Leaf(raises=error)})), revision)
    told = refusal(await called(wire, "read_resource", revision, uri="test://one/x"))
    assert told.endswith(advice)
    assert "/home" not in told


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
