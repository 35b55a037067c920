"""The official Python client talks to the server in a process of its own, in every revision."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Literal

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import session
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent
from mcp_types import (
    BlobResourceContents,
    EmptyResult,
    ListResourcesResult,
    PaginatedRequestParams,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
    Request,
    Resource,
    ResourceListChangedNotification,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    Result,
    SubscribeRequest,
    SubscribeRequestParams,
    TextResourceContents,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)
from pydantic import ConfigDict

from tests.cases import for_each
from tests.clients.conftest import BLOB, TEXT, TRANSPORTS, Reach, Target, serve
from tests.protocol.wire import EVERY, HANDSHAKE, MODERN
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
README = "file:///project/docs/read%20me.md"
WATCHED = "file:///project/watched/read%20me.md"


class ListParams(PaginatedRequestParams):
    """`resources/list` with the `uri` of SEP-2093."""

    uri: str


class ListChildren(Request[ListParams, Literal["resources/list"]]):
    method: Literal["resources/list"] = "resources/list"
    params: ListParams


class Metadata(Request[ReadResourceRequestParams, Literal["resources/metadata"]]):
    method: Literal["resources/metadata"] = "resources/metadata"
    params: ReadResourceRequestParams


class Raw(Result):
    """A result with whatever it holds."""

    model_config = ConfigDict(extra="allow")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def connect(target: Target, revision: str, told: asyncio.Queue[object] | None = None) -> Client:
    async def take(message: object) -> None:
        if told is not None:
            told.put_nowait(message)

    mode = "auto" if revision in MODERN else "legacy"
    if isinstance(target, str):
        return Client(target, mode=mode, message_handler=take)
    parameters = StdioServerParameters(command=target[0], args=target[1:], cwd=ROOT)
    return Client(parameters, mode=mode, message_handler=take)


@pytest.fixture(scope="module", params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=EVERY)
async def client(
    request: pytest.FixtureRequest, transport: str, serving: list[str], reach: Reach
) -> AsyncIterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param not in MODERN:
            patch.setattr(session, "LATEST_HANDSHAKE_VERSION", request.param)
        async with connect(reach(serving, transport), request.param) as client:
            assert client.protocol_version == request.param
            yield client


async def listing(client: Client) -> list[Resource]:
    found: list[Resource] = []
    page = await client.list_resources()
    found += page.resources
    while page.next_cursor is not None:
        page = await client.list_resources(cursor=page.next_cursor)
        found += page.resources
    return found


@pytest.mark.guarantee("every-revision")
async def test_all_pages_of_the_listing_are_read(client: Client, listed: list[str]) -> None:
    assert [str(resource.uri) for resource in await listing(client)] == listed


async def test_the_typed_client_keeps_the_resource_type_in_meta(client: Client) -> None:
    found = {str(resource.uri): resource for resource in await listing(client)}
    for uri, kind in ((README, "document"), ("file:///project/docs", "collection")):
        assert (found[uri].meta or {})["resource-server/resourceType"] == kind


@pytest.mark.guarantee("every-revision")
async def test_text_and_blobs_are_read(client: Client) -> None:
    (text,) = (await client.read_resource(README)).contents
    assert isinstance(text, TextResourceContents)
    assert (text.text, text.mime_type) == (TEXT, "text/markdown")
    assert (text.meta or {})["resource-server/resourceType"] == "document"
    (blob,) = (await client.read_resource("file:///project/logo.png")).contents
    assert isinstance(blob, BlobResourceContents)
    assert base64.b64decode(blob.blob) == BLOB


async def test_a_collection_is_read_with_its_children(client: Client) -> None:
    contents = (await client.read_resource("file:///project/docs")).contents
    assert [str(content.uri) for content in contents] == [README]


async def test_not_found_has_the_code_of_the_revision(client: Client) -> None:
    with pytest.raises(MCPError) as refused:
        await client.read_resource("file:///project/absent")
    assert refused.value.error.code == (-32602 if client.protocol_version in MODERN else -32002)
    assert refused.value.error.data == {"uri": "file:///project/absent"}


async def test_templates_are_listed_and_their_variables_completed(client: Client) -> None:
    shapes = (await client.list_resource_templates()).resource_templates
    assert "file:///project/{+path}" in [shape.uri_template for shape in shapes]
    reference = ResourceTemplateReference(uri="file:///project/{+path}")
    found = await client.complete(reference, {"name": "path", "value": "docs/"})
    assert found.completion.values == ["docs/read me.md"]


async def test_raw_requests_reach_the_extension(client: Client) -> None:
    asked = Metadata(params=ReadResourceRequestParams(uri=README))
    described = (await client.session.send_request(asked, Raw)).model_extra
    assert described is not None
    assert described["resource"]["resourceType"] == "document"
    assert described["resource"]["capabilities"] == {"list": False, "subscribe": True}
    children = ListChildren(params=ListParams(uri="file:///project"))
    found = await client.session.send_request(children, ListResourcesResult)
    assert [str(resource.uri) for resource in found.resources] == [
        "file:///project/docs",
        "file:///project/logo.png",
        "file:///project/notes",
    ]


@for_each("revision", ["2025-11-25", "2026-07-28"])
async def test_progress_reaches_the_client(
    revision: str, transport: str, slow: Callable[[], list[str]], reach: Reach
) -> None:
    seen: list[tuple[float, float | None]] = []

    async def watch(progress: float, total: float | None, message: str | None) -> None:
        assert message is None
        seen.append((progress, total))

    async with connect(reach(slow(), transport), revision) as client:
        asked = ReadResourceRequest(params=ReadResourceRequestParams(uri="test://slow/many"))
        await client.session.send_request(asked, ReadResourceResult, progress_callback=watch)
    assert seen == [(done, 5) for done in range(1, 6)]


@for_each("revision", ["2025-11-25", "2026-07-28"])
async def test_a_client_timeout_cancels_the_request(
    revision: str, transport: str, slow: Callable[[], list[str]], reach: Reach
) -> None:
    async with connect(reach(slow(), transport), revision) as client:

        async def count(name: str, wanted: str) -> None:
            found = None
            while found != wanted:
                (content,) = (await client.read_resource(f"test://slow/{name}")).contents
                assert isinstance(content, TextResourceContents)
                found = content.text

        async def time_out() -> None:
            await count("begun", "1")
            patience.deadline = anyio.current_time()

        with anyio.move_on_after(20) as patience:
            async with anyio.create_task_group() as group:
                group.start_soon(time_out)
                await client.read_resource("test://slow/never")
        assert patience.cancelled_caught
        async with asyncio.timeout(PATIENCE_S):
            await count("cancelled", "1")


@pytest.mark.guarantee("updates-arrive")
@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_subscribed_resources_notify_the_client(
    revision: str,
    transport: str,
    changing: Callable[[], Path],
    reach: Reach,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "LATEST_HANDSHAKE_VERSION", revision)
    folder, told = changing(), asyncio.Queue[object]()
    target = reach(serve(folder), transport)
    async with asyncio.timeout(PATIENCE_S), connect(target, revision, told) as client:
        capabilities = client.server_capabilities.resources
        assert capabilities is not None
        assert (capabilities.subscribe, capabilities.list_changed) == (True, True)
        await client.read_resource(WATCHED)
        append(folder / "watched/read me.md", "between reading and subscribing")
        subscribe = SubscribeRequest(params=SubscribeRequestParams(uri=WATCHED))
        await client.session.send_request(subscribe, EmptyResult)
        await updated(told)
        append(folder / "watched/read me.md", "after subscribing, and longer")
        await updated(told)
        unsubscribe = UnsubscribeRequest(params=UnsubscribeRequestParams(uri=WATCHED))
        await client.session.send_request(unsubscribe, EmptyResult)
        append(folder / "watched/read me.md", "not told of")
        (folder / "new").write_text("")
        assert isinstance(await told.get(), ResourceListChangedNotification)


def append(file: Path, text: str) -> None:
    """Change a file in one step: to write it anew is to empty it first, which may be told of."""
    with file.open("a") as opened:
        opened.write(text)


async def updated(told: asyncio.Queue[object]) -> None:
    message = await told.get()
    assert isinstance(message, ResourceUpdatedNotification)
    assert message.params.uri == WATCHED


@pytest.mark.guarantee("updates-arrive")
async def test_a_listen_notifies_the_client(
    transport: str, changing: Callable[[], Path], reach: Reach
) -> None:
    folder = changing()
    target = reach(serve(folder), transport)
    async with asyncio.timeout(PATIENCE_S), connect(target, "2026-07-28") as client:
        if transport == "stdio":
            # Over HTTP a listen knows nothing of what was read by another request.
            await client.read_resource(WATCHED)
            append(folder / "watched/read me.md", "between reading and listening")
        wanted = [WATCHED, "file:///project/absent"]
        async with client.listen(
            resources_list_changed=True, resource_subscriptions=wanted
        ) as stream:
            assert stream.honored.resource_subscriptions == [WATCHED]
            assert stream.honored.resources_list_changed
            assert stream.honored.tools_list_changed is None
            if transport == "stdio":
                assert await anext(stream) == ResourceUpdated(WATCHED)
            append(folder / "watched/read me.md", "while listening, and longer")
            assert await anext(stream) == ResourceUpdated(WATCHED)
            (folder / "new").write_text("")
            event: ServerEvent = await anext(stream)
            assert event == ResourcesListChanged()
