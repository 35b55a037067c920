"""One manifest through each mounting: the contract of providers holds, and answers are the same.

What each mounting answers is made a provider again, which the kit for plugin authors then checks;
and each document is, byte for byte, the one that the command serves over stdio.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import httpx2
import pybase64
import pytest
from fastmcp import Client as FastMcpClient
from fastmcp import FastMCP
from mcp import Client, MCPError
from mcp.server import Server

import resource_server
from resource_server import ErrorReply, uris
from resource_server.errors import InvalidParameter, NotACollection, ResourceNotFound
from resource_server.provider import Content, Resource, Template
from resource_server.provider import Path as Segments
from resource_server.testing import check_provider
from tests.embedding.parents import ask, parent, within
from tests.protocol.wire import CLIENT

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("mounted-alike")]

BASE = "file:///tree/"
Json: TypeAlias = dict[str, Any]


class Way(Protocol):
    """What can be asked of every mounting."""

    async def everything(self) -> Sequence[Json]:
        """Return all of the global listing."""
        ...

    async def children(self, uri: str) -> Sequence[Json]:
        """Return the children of a collection."""
        ...

    async def metadata(self, uri: str) -> Json:
        """Return the metadata of a resource."""
        ...

    async def read(self, uri: str) -> Sequence[Json]:
        """Return the contents of a document."""
        ...


class Refused(Exception):
    """The mounting has no such resource, or refuses the request."""


class RawWay:
    """A way on which any method of the protocol can be sent."""

    def __init__(self, send: Callable[[str, Json], Awaitable[Json]]) -> None:
        self._send = send

    async def _pages(self, method: str, params: Json) -> Sequence[Json]:
        found: list[Json] = []
        while True:
            page = await self._send(method, params)
            found += page["resources"]
            if "nextCursor" not in page:
                return found
            params = {**params, "cursor": page["nextCursor"]}

    async def everything(self) -> Sequence[Json]:
        return await self._pages("resources/list", {})

    async def children(self, uri: str) -> Sequence[Json]:
        return await self._pages("resources/directory/read", {"uri": uri})

    async def metadata(self, uri: str) -> Json:
        return (await self._send("resources/metadata", {"uri": uri}))["resource"]

    async def read(self, uri: str) -> Sequence[Json]:
        return (await self._send("resources/read", {"uri": uri}))["contents"]


class SpecWay:
    """A way on which only the methods of every SDK can be sent: metadata is that of the list."""

    def __init__(
        self,
        listed: Callable[[], Awaitable[Sequence[Any]]],
        read: Callable[[str], Awaitable[Sequence[Any]]],
    ) -> None:
        self._listed = listed
        self._read = read

    async def everything(self) -> Sequence[Json]:
        return [_plain(each) for each in await self._listed()]

    async def children(self, uri: str) -> Sequence[Json]:
        inside = [each for each in await self.everything() if each["uri"].startswith(f"{uri}/")]
        return [each for each in inside if "/" not in each["uri"].removeprefix(f"{uri}/")]

    async def metadata(self, uri: str) -> Json:
        for each in await self.everything():
            if each["uri"] == uri:
                return each
        raise Refused(uri)

    async def read(self, uri: str) -> Sequence[Json]:
        try:
            return [_plain(each) for each in await self._read(uri)]
        except MCPError as error:
            raise Refused(str(error)) from None


def _plain(found: Any) -> Json:
    return found.model_dump(by_alias=True, mode="json", exclude_none=True)


@asynccontextmanager
async def through_stdio(manifest: Path) -> AsyncGenerator[Way]:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "resource_server", "serve", manifest),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert program.stdin
    assert program.stdout
    writer, reader, ids, turn = program.stdin, program.stdout, count(1), asyncio.Lock()

    async def send(method: str, params: Json) -> Json:
        message = {"jsonrpc": "2.0", "id": next(ids), "method": method, "params": params}
        async with turn:
            writer.write(f"{json.dumps(message)}\n".encode())
            return _result(json.loads(await reader.readline()))

    await send(
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
    )
    yield RawWay(send)
    writer.close()
    await program.wait()


def _result(reply: Json) -> Json:
    if "error" in reply:
        raise Refused(reply["error"]["message"])
    return reply["result"]


@asynccontextmanager
async def through_asgi(manifest: Path) -> AsyncGenerator[Way]:
    app = parent(resource_server.asgi_app(manifest))
    async with within(app) as client:

        async def send(method: str, params: Json) -> Json:
            response: httpx2.Response = await ask(client, "/files/mcp", method, params)
            return _result(response.json())

        yield RawWay(send)


@asynccontextmanager
async def through_connect(manifest: Path) -> AsyncGenerator[Way]:
    async with resource_server.connect(manifest) as client:

        async def send(method: str, params: Json) -> Json:
            try:
                return await client.request(method, params)
            except ErrorReply as error:
                raise Refused(str(error)) from None

        yield RawWay(send)


@asynccontextmanager
async def through_fastmcp(manifest: Path) -> AsyncGenerator[Way]:
    mcp = FastMCP("parent")
    mcp.add_provider(resource_server.fastmcp.provider(manifest))
    async with FastMcpClient(mcp) as client:
        yield SpecWay(client.list_resources, client.read_resource)


@asynccontextmanager
async def through_sdk(manifest: Path) -> AsyncGenerator[Way]:
    server = Server("parent", **resource_server.sdk.handlers(manifest))
    async with Client(server) as client:

        async def listed() -> Sequence[Any]:
            page = await client.list_resources()
            found = [*page.resources]
            while page.next_cursor is not None:
                page = await client.list_resources(cursor=page.next_cursor)
                found += page.resources
            return found

        async def read(uri: str) -> Sequence[Any]:
            return (await client.read_resource(uri)).contents

        yield SpecWay(listed, read)


MOUNTINGS: Mapping[str, Callable[[Path], AbstractAsyncContextManager[Way]]] = {
    "asgi_app": through_asgi,
    "connect": through_connect,
    "fastmcp": through_fastmcp,
    "sdk": through_sdk,
}


class Mounted:
    """What a mounting answers, as a provider again."""

    templates: Sequence[Template] = ()

    def __init__(self, way: Way) -> None:
        self._way = way

    async def list(self, parent: Segments, *, after: Segments | None, limit: int) -> list[Resource]:
        if (await self.metadata(parent)).type == "document":
            raise NotACollection
        found = [self._resource(each) for each in await self._way.children(_uri(parent))]
        paths = [each.path for each in found]
        start = 0 if after is None else paths.index(after) + 1 if after in paths else len(found)
        return found[start : start + limit]

    async def metadata(self, path: Segments) -> Resource:
        try:
            return self._resource(await self._way.metadata(_uri(path)))
        except (Refused, ValueError):
            raise ResourceNotFound from None

    async def read(self, path: Segments, query: Mapping[str, str]) -> Sequence[Content]:
        if query:
            raise InvalidParameter("none are passed on here")
        if (await self.metadata(path)).type == "collection":
            raise ResourceNotFound
        try:
            found = await self._way.read(_uri(path))
        except Refused:
            raise ResourceNotFound from None
        return [Content(_data(each), each.get("mimeType")) for each in found]

    def _resource(self, found: Json) -> Resource:
        meta: Json = found.get("_meta", {})
        kind = meta.get("resource-server/resourceType", "document")
        return Resource(
            path=uris.parse(found["uri"]).path[1:],
            name=found["name"],
            type=kind,
            mime_type=found.get("mimeType"),
            size=found.get("size"),
            version=meta.get("resource-server/version"),
        )


def _uri(path: Segments) -> str:
    return uris.join(BASE, path).removesuffix("/")


def _data(found: Json) -> str | bytes:
    return pybase64.b64decode(found["blob"]) if "blob" in found else found["text"]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """A tree with an empty file, nested folders, bytes, and names that have to be encoded."""
    tree = tmp_path / "tree"
    (tree / "b" / "deep" / "er").mkdir(parents=True)
    (tree / "empty.txt").touch()
    (tree / "grüße & co %20.md").write_text("# Grüße\n", "utf-8")
    (tree / "b" / "data.bin").write_bytes(bytes(range(256)))
    (tree / "b" / "deep" / "er" / "x+y=z.txt").write_text("plus\r\n", "utf-8")
    for number in range(12):
        (tree / "b" / f"n{number}.txt").write_text(f"{number}\n", "utf-8")
    file = tmp_path / "mcp-resources.yaml"
    file.write_text("server: {page_size: 5}\nroots: {tree: {path: tree}}\n", "utf-8")
    return file


@pytest.mark.parametrize("name", MOUNTINGS)
async def test_what_a_mounting_answers_keeps_the_contract_of_a_provider(
    name: str, manifest: Path
) -> None:
    async with MOUNTINGS[name](manifest) as way:
        await check_provider(Mounted(way))


async def _answers(way: Way) -> dict[str, Any]:
    """Return each listed resource with what all ways know of it, and each document's contents."""
    found: dict[str, Any] = {}
    for each in await way.everything():
        kind = each["_meta"]["resource-server/resourceType"]
        # The default of FastMCP for an unknown media type is a text's.
        contents = await way.read(each["uri"]) if kind == "document" else ()
        bodies = [(one["uri"], one.get("mimeType"), _data(one)) for one in contents]
        found[each["uri"]] = (each["name"], kind, bodies)
    return found


async def test_each_mounting_answers_what_the_command_does_over_stdio(manifest: Path) -> None:
    async with through_stdio(manifest) as way:
        expected = await _answers(way)
    assert len(expected) == 20
    for name, through in MOUNTINGS.items():
        async with through(manifest) as way:
            assert await _answers(way) == expected, name
