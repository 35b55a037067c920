"""A client in the process, for scripts, notebooks and tests: resources, tables, search, tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

import msgspec

from resource_server import uris
from resource_server.access import EVERYBODY, Caller, acting
from resource_server.embedding.callers import named
from resource_server.embedding.embedded_server import Source, SourceServers
from resource_server.explorer.results import DocumentContent, Listing, ResourceMetadata
from resource_server.protocol.in_process_client import ErrorReply, LocalClient, error_in_words
from resource_server.protocol.server import Server
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

_ROWS_A_PAGE = "1000"


class ReadDocument(msgspec.Struct, frozen=True):
    """The contents of a document, the preferred one first."""

    contents: Sequence[DocumentContent]

    @property
    def text(self) -> str:
        """The text of the first content.

        Raises:
            ValueError: it is binary.
        """
        text = self.contents[0].text
        if text is None:
            raise ValueError(f"{self.contents[0].uri} is binary; use 'data'")
        return text

    @property
    def data(self) -> bytes:
        """The bytes of the first content; of text, in UTF-8."""
        return self.contents[0].data

    @property
    def truncated(self) -> Mapping[str, Any]:
        """Why it is less than the whole, and with `next` the URI of the rest; empty otherwise."""
        return self.contents[0].truncated


class TableRows(msgspec.Struct, frozen=True):
    """Rows of a table or a query. A sequence of mappings, each from column to value.

    Values are those of JSON: dates and times are ISO 8601, decimals and bytes are text.
    """

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[str] = ()
    is_complete: bool = True
    """Whether these are all rows."""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self.rows[index]

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return [row.get(name) for row in self.rows]

    def arrow(self) -> Any:
        """Return a `pyarrow.Table`.

        Raises:
            ImportError: pyarrow is not installed.
        """
        pyarrow: Any = import_module("pyarrow")
        return pyarrow.table({name: self.column(name) for name in self.columns})

    def pandas(self) -> Any:
        """Return a `pandas.DataFrame`.

        Raises:
            ImportError: pandas is not installed.
        """
        pandas: Any = import_module("pandas")
        return pandas.DataFrame({name: self.column(name) for name in self.columns})


class SearchMatch(msgspec.Struct, frozen=True):
    """A resource that a search has found."""

    uri: str
    lines: Sequence[tuple[int | str, str]] = ()
    """Lines that match, each with its number, or with the name of its column."""
    count: int = 0
    """How many match in all; 0 if only the name does."""


class SearchMatches(msgspec.Struct, frozen=True):
    """The results of a search."""

    found: Sequence[SearchMatch]
    is_complete: bool
    """Whether everything was searched, and every match is here."""
    text: str
    """The same as a model is given it, with what was not searched."""


class ModelTool(msgspec.Struct, frozen=True, rename="camel"):
    """A tool for models."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: Mapping[str, Any] = {}
    output_schema: Mapping[str, Any] | None = None


class CallResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a tool as a model is given it."""

    content: Sequence[Mapping[str, Any]]
    structured_content: Any = None
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "\n".join(str(each["text"]) for each in self.content if each["type"] == "text")


class ChangedResource(msgspec.Struct, frozen=True):
    """A resource that has changed since it was subscribed to, or since its last change."""

    uri: str


class _PageOfRows(msgspec.Struct, frozen=True):
    rows: Sequence[Mapping[str, Any]]
    next: str | None = None
    more: bool = True


class _Changes:
    """The changed resources of a subscription, each once until it is taken."""

    def __init__(self) -> None:
        self._changed: dict[str, None] = {}
        self._is_new = asyncio.Event()

    def take(self, message: Mapping[str, Any]) -> None:
        if message["method"] == "notifications/resources/updated":
            self._changed[message["params"]["uri"]] = None
            self._is_new.set()

    def __aiter__(self) -> AsyncIterator[ChangedResource]:
        return self

    async def __anext__(self) -> ChangedResource:
        while not self._changed:
            self._is_new.clear()
            await self._is_new.wait()
        uri = next(iter(self._changed))
        del self._changed[uri]
        return ChangedResource(uri)


class ResourceClient:
    """Reads what a source serves, as any client of one caller would. Made by `connect`."""

    def __init__(
        self, server: Server, client: LocalClient, caller: Caller, lifetime: AsyncExitStack
    ) -> None:
        self._server = server
        self._client = client
        self._caller = caller
        self._lifetime = lifetime

    async def close(self) -> None:
        """End the client and its server."""
        await self._lifetime.aclose()

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request of the protocol, such as `resources/templates/list`; return its result.

        Raises:
            ErrorReply: the server answered with an error; its text names the URI, and near ones.
        """
        with acting(self._caller):
            try:
                return await self._client.request(method, dict(params or {}))
            except ErrorReply as error:
                text = await error_in_words(self._server, error)
                raise ErrorReply(error.code, text, error.data) from None

    async def list(
        self, uri: str | None = None, *, limit: int | None = None
    ) -> Sequence[ResourceMetadata]:
        """Return the children of a collection, or everything that is listed, to the end.

        Raises:
            ErrorReply: there is no such collection, or it cannot be listed now.
        """
        method = "resources/list" if uri is None else "resources/directory/read"
        params: dict[str, Any] = {} if uri is None else {"uri": uri}
        found: list[ResourceMetadata] = []
        while limit is None or len(found) < limit:
            page = msgspec.convert(await self.request(method, params), Listing)
            found += page.resources
            if page.next_cursor is None:
                break
            params["cursor"] = page.next_cursor
        return found[:limit]

    async def metadata(self, uri: str) -> ResourceMetadata:
        """Return the metadata of a resource.

        Raises:
            ErrorReply: there is none, or it is unavailable now.
        """
        result = await self.request("resources/metadata", {"uri": uri})
        return msgspec.convert(result["resource"], ResourceMetadata)

    async def read(self, uri: str, parameters: Mapping[str, str] | None = None) -> ReadDocument:
        """Read a document; `parameters` are added to its URI: `{"lines": "10-40"}`.

        Raises:
            ErrorReply: there is none, or it cannot be read.
        """
        address = _with(uri, parameters or {})
        result = await self.request("resources/read", {"uri": address})
        return ReadDocument(msgspec.convert(result["contents"], tuple[DocumentContent, ...]))

    async def read_table(
        self, uri: str, parameters: Mapping[str, str] | None = None, *, limit: int | None = None
    ) -> TableRows:
        """Read the rows of a table, a page of one, a summary or a query, page after page.

        Without a `limit`, here or in the URI, these are all rows.

        Raises:
            ErrorReply: there is none, or it cannot be read.
            ValueError: the resource has no rows.
        """
        found = await self.metadata(uri)
        base = uri.partition("?")[0].rstrip("/")
        if found.is_collection:
            uri = f"{base}/~rows"
        query = {**uris.parse(uri).query, **(parameters or {})}
        if limit is None and query.get("limit", "").isdigit():
            limit = int(query["limit"])
        if uri.partition("?")[0].endswith("/~rows"):  # queries have their own parameters
            query.setdefault("limit", _ROWS_A_PAGE)
        address: str | None = _with(uri, {**query, "format": "json"})
        schema = await self._columns(found.uri if found.is_collection else base)
        rows: list[Mapping[str, Any]] = []
        names = list(schema)
        while address is not None and (limit is None or len(rows) < limit):
            page = await self._page(address)
            rows += page.rows
            address = page.next if page.more else None
        is_complete = address is None and (limit is None or len(rows) <= limit)
        kept, columns = _typed_rows(rows[:limit], names, schema)
        return TableRows(kept, columns, is_complete)

    async def _page(self, address: str) -> _PageOfRows:
        content = (await self.read(address)).contents[0]
        try:
            return msgspec.json.decode(content.text or "", type=_PageOfRows)
        except msgspec.DecodeError:
            reason = f"{content.uri} has no rows; name a table, its ~rows or a query"
            raise ValueError(reason) from None

    async def _columns(self, base: str) -> Mapping[str, str]:
        """Return the kinds of a table's columns by name; none for what has no schema."""
        table = base.removesuffix("/~rows")
        try:
            content = await self.read(f"{table}/~schema", {"format": "json"})
            columns = msgspec.json.decode(content.text)["columns"]
        except (ErrorReply, LookupError, ValueError):
            return {}
        return {each["name"]: each.get("kind", "") for each in columns}

    async def search(
        self, query: str, uri: str | None = None, *, limit: int = 100, **options: Any
    ) -> SearchMatches:
        """Find names and lines of text, at or below a URI if one is given.

        `options` are those of the tool `search_resources`: `files`, `context`, `case` and others.

        Raises:
            ErrorReply: the manifest has no tools.
            ValueError: the search is refused, with the reason.
        """
        arguments = {"query": query, "limit": limit, **options}
        if uri is not None:
            arguments["uri"] = uri
        result = await self.call_tool("search_resources", arguments)
        if result.is_error:
            raise ValueError(result.text)
        found: Mapping[str, Any] = result.structured_content
        matches = [_match(found.get("base", ""), each) for each in found.get("files", ())]
        return SearchMatches(matches, found["complete"] and "next" not in found, result.text)

    @asynccontextmanager
    async def subscribe(self, *uris: str) -> AsyncGenerator[AsyncIterator[ChangedResource]]:
        """Subscribe to resources while the block runs, and yield their changes as they come.

        Several changes of one resource before it is taken are one.

        Raises:
            ErrorReply: one cannot be subscribed to.
        """
        changes = _Changes()
        with acting(self._caller):
            client = LocalClient(self._server, on_notification=changes.take)
            async with client:
                for uri in uris:
                    await client.request("resources/subscribe", {"uri": uri})
                yield changes

    async def tools(self) -> Sequence[ModelTool]:
        """Return the tools that a model is offered.

        Raises:
            ErrorReply: the manifest has none.
        """
        result = await self.request("tools/list")
        return msgspec.convert(result["tools"], list[ModelTool])

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> CallResult:
        """Call a tool; an error of the tool is a result with `is_error`.

        Raises:
            ErrorReply: there is no such tool.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        return msgspec.convert(await self.request("tools/call", params), CallResult)


def _with(uri: str, parameters: Mapping[str, str]) -> str:
    if not parameters:
        return uri
    base = uri.partition("?")[0]
    return uris.with_query(base, {**uris.parse(uri).query, **parameters})


def _match(base: str, found: str | Mapping[str, Any]) -> SearchMatch:
    entry: Mapping[str, Any] = {"path": found} if isinstance(found, str) else found
    path: str = entry["path"]
    # What is not below the base has its URI.
    lines = [(number, text) for number, text, *_ in entry.get("lines", ())]
    count = max(entry.get("matches", 0), len(lines))
    return SearchMatch(path if "://" in path else f"{base}{path}", lines, count)


def _typed_rows(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], kinds: Mapping[str, str]
) -> tuple[Sequence[Mapping[str, Any]], Sequence[str]]:
    """Return rows with integers as such, which JSON has as text if they are large, and columns."""
    columns = [*names] or [*dict.fromkeys(name for row in rows for name in row)]
    integers = [name for name in columns if kinds.get(name) == "integer"]
    if not integers:
        return rows, columns
    typed = [{**row, **{name: _integer(row.get(name)) for name in integers}} for row in rows]
    return typed, columns


def _integer(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return value
    return value


class Connecting:
    """A client to be: `async with` it, or await it and close it."""

    def __init__(self, servers: SourceServers, caller: Caller) -> None:
        self._servers = servers
        self._caller = caller
        self._open: ResourceClient | None = None

    async def __aenter__(self) -> ResourceClient:
        if self._open is not None:
            raise RuntimeError("already connected; call resource_server.connect again")
        self._open = client = await self._connected()
        return client

    async def __aexit__(self, *_: object) -> None:
        client, self._open = self._open, None
        if client is not None:
            await client.close()

    def __await__(self) -> Generator[Any, None, ResourceClient]:
        return self._connected().__await__()

    async def _connected(self) -> ResourceClient:
        served = await self._servers.new()
        async with AsyncExitStack() as lifetime:
            server = await lifetime.enter_async_context(served)
            with acting(self._caller):
                local = await lifetime.enter_async_context(LocalClient(server))
            return ResourceClient(server, local, self._caller, lifetime.pop_all())


def connect(
    source: Source,
    *,
    caller: Caller = EVERYBODY,
    plugins: bool = True,
    timing: Timing = DEFAULT_TIMING,
) -> Connecting:
    """Return a client of a source, in this process, to be used with `async with`.

    In a notebook, `client = await connect(…)` and at the end `await client.close()` do the same.

    Args:
        source: a manifest, folder, database or URL, or a manifest as a mapping.
        caller: for whom it reads; by default everything that the manifest exposes is visible.
        plugins: whether plugin providers may run.
        timing: times that tests shorten.

    Raises:
        ManifestError: the source cannot be served; the text is that of the command line.
    """
    return Connecting(SourceServers(source, plugins=plugins, timing=timing), named(caller))
