"""The error table: what a provider raises, and what a client is told of it in each revision."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import Content, Path
from tests.cases import for_each
from tests.protocol.wire import EVERY, HANDSHAKE, MODERN, Wire, server_of
from tests.providers_for_tests import Leaf, SlowTree, Tree

pytestmark = pytest.mark.anyio

URI = "test://one/bad"
NOT_FOUND = dict.fromkeys(HANDSHAKE, -32002) | dict.fromkeys(MODERN, -32602)
TREES = pytest.mark.parametrize("tree", [Tree, SlowTree])


async def error_of(tree: type[Tree], revision: str, raised: BaseException) -> dict[str, Any]:
    nodes: dict[str, Any] = {"bad": Leaf(raises=raised), "good": "fine"}
    wire = Wire(await server_of(tree(nodes)), revision)
    error = await wire.error("resources/read", {"uri": URI})
    good = await wire.result("resources/read", {"uri": "test://one/good"})
    assert good["contents"][0]["text"] == "fine"
    return error


@TREES
@pytest.mark.parametrize("revision", EVERY)
async def test_a_missing_resource_is_not_found_and_named(tree: type[Tree], revision: str) -> None:
    error = await error_of(tree, revision, ResourceNotFound())
    assert error["code"] == NOT_FOUND[revision]
    assert error["message"] == "Resource not found"
    assert error["data"] == {"uri": URI}


@pytest.mark.guarantee("refusal-looks-like-absence")
@for_each("revision", EVERY)
@for_each(
    "uri",
    [
        "test://one/absent",
        "test://one/a/b/c",
        "test://one//a",
        "test://one/%2e%2e/a",
        "test://one/../a",
        "test://one/a%2fb",
        "test://one/a%00",
        "test://one/a#fragment",
        "test://one/%zz",
        "test://one:80/a",
        "test://nobody/a",
        "other://one/a",
        "file:///etc/passwd",
        "one",
        "",
        "/",
        "test://one/" + "a" * 20_000,
        "test://one/a b",
        "test://one/\u0000",
    ],
)
async def test_all_missing_uris_produce_the_same_error(revision: str, uri: str) -> None:
    wire = Wire(await server_of(Tree({"a": "text"})), revision)
    expected = {
        "code": NOT_FOUND[revision],
        "message": "Resource not found",
        "data": {"uri": uri},
    }
    for method in ("resources/read", "resources/metadata", "resources/list"):
        assert await wire.error(method, {"uri": uri}) == expected


@TREES
@pytest.mark.parametrize("revision", EVERY)
async def test_the_children_of_a_document_are_bad_params(tree: type[Tree], revision: str) -> None:
    wire = Wire(await server_of(tree({"a": "text"})), revision)
    error = await wire.error("resources/list", {"uri": "test://one/a"})
    assert error["code"] == -32602
    assert error["message"] == "Not a collection"


@TREES
@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize(
    ("raised", "code", "data"),
    [
        (InvalidParameter("lines: not a range"), -32602, {}),
        (DeadlineExceeded(), -32011, {"retryable": True}),
        (MountUnavailable("/srv is gone"), -32012, {"retryable": True}),
        (ResourceBusy(), -32012, {"retryable": True}),
        (
            ResourceTooLarge(size=10, limit=5, next={"bytes": "0-4"}),
            -32010,
            {"size": 10, "limit": 5, "next": f"{URI}?bytes=0-4"},
        ),
    ],
)
async def test_each_provider_error_has_its_code_and_data(
    tree: type[Tree], revision: str, raised: Exception, code: int, data: dict[str, Any]
) -> None:
    error = await error_of(tree, revision, raised)
    assert error["code"] == code
    assert error["data"] == {"uri": URI, **data}
    assert "/srv" not in error["message"]


async def test_an_error_message_is_capitalized_valid_unicode() -> None:
    error = await error_of(Tree, "2025-11-25", InvalidParameter("wrong name 'a\udcff'"))
    assert error["message"] == "Wrong name 'a\ufffd'"


@pytest.mark.guarantee("refusal-looks-like-absence")
@TREES
@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize(
    "raised",
    [
        ValueError("secret /etc/path"),
        KeyError("secret"),
        OSError(2, "secret", "/etc/secret"),
        RecursionError("secret"),
        MemoryError("secret"),
        ExceptionGroup("secret", [ValueError("secret")]),
        BaseException("secret"),  # as extensions in Rust panic
        UnicodeEncodeError("utf-8", "secret", 0, 1, "secret"),
    ],
)
async def test_a_defect_is_an_internal_error_without_details(
    tree: type[Tree], revision: str, raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        error = await error_of(tree, revision, raised)
    assert error == {"code": -32603, "message": "Internal error"}
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert type(raised).__name__ in record.getMessage()
    assert "secret" not in record.getMessage()


class Confused(Tree):
    """Its own work was cancelled, by nobody who asked for it."""

    async def metadata(self, path: Any) -> Any:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        return await task


class ConfusedAtOnce(Tree):
    def metadata(self, path: Any) -> Any:
        raise asyncio.CancelledError


@for_each("tree", [Confused, ConfusedAtOnce])
async def test_a_provider_that_cancels_its_own_work_is_an_internal_error(
    tree: type[Tree],
) -> None:
    wire = Wire(await server_of(tree({})), "2025-11-25")
    error = await wire.error("resources/read", {"uri": URI})
    assert error["code"] == -32603


@for_each("revision", EVERY)
async def test_completion_of_an_unknown_prompt_template_or_variable_is_bad_params(
    revision: str,
) -> None:
    wire = Wire(await server_of(Tree({})), revision)
    argument = {"name": "path", "value": ""}
    template = {"type": "ref/resource", "uri": "test://one/{+path}"}
    cases: list[dict[str, Any]] = [
        {"ref": {"type": "ref/prompt", "name": "x"}, "argument": argument},
        {"ref": {**template, "uri": "test://one/{path}"}, "argument": argument},
        {"ref": template, "argument": {**argument, "name": "x"}},
    ]
    for params in cases:
        assert (await wire.error("completion/complete", params))["code"] == -32602
    assert await wire.result("completion/complete", {"ref": template, "argument": argument})


class Grouped(Tree):
    """A tree whose documents are read in a task group, which fails."""

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fail())
        return []

    async def _fail(self) -> None:
        raise OSError("secret")


async def test_a_failure_in_a_task_group_is_an_internal_error() -> None:
    wire = Wire(await server_of(Grouped({"bad": "x"})), "2025-11-25")
    error = await wire.error("resources/read", {"uri": URI})
    assert (error["code"], error["message"]) == (-32603, "Internal error")
