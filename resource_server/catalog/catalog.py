"""All mounts as one space of URIs: route, list, describe, read, complete. Knows no files or tables.

The global listing is each listed mount in manifest order, depth first, a collection before its
children. Nothing is kept between two pages: a cursor names the last item, and the cost of a page
follows its length, not the size of what is served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

import msgspec

from resource_server import uris
from resource_server.catalog import completion, contract_guard, cursor, federated_search
from resource_server.catalog.contract_guard import Progress
from resource_server.catalog.federated_search import SearchResults
from resource_server.catalog.mount import FAILURES, CatalogEntry, Mount, log_failure
from resource_server.catalog.visibility import Visibility
from resource_server.errors import (
    InvalidParameter,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.provider import Content, Path, Resource, Template
from resource_server.provider.search import Where
from resource_server.runtime.eager import is_cancelled, settle, within

PATIENCE_S = 20.0
"""For one mount in a page of everything: `list` may be called a hundred times, one by one, and even
with a mount that hangs there should be an answer in the minute that hosts wait for one."""

_ALL = ""
_TEMPLATES = "templates"


class ReadItem(msgspec.Struct, frozen=True):
    """One item of a read: a document's content, or a child collection (`content` is None).

    `uri` is as asked for; `next_uri` reads on where the content was cut.
    """

    uri: str
    entry: CatalogEntry
    content: Content | None
    next_uri: str | None = None


class ListPage(msgspec.Struct, frozen=True):
    """Part of a listing; `next_cursor` is None at its end.

    `unavailable` names the mounts that are missing from it because they cannot serve now.
    """

    entries: Sequence[CatalogEntry]
    next_cursor: str | None
    unavailable: tuple[str, ...] = ()


class ReadResult(msgspec.Struct, frozen=True):
    """What a read returned; `complete` is False where children of a collection were left out.

    `collection` is the canonical URI of the collection that was read, and `children` what it was
    found to hold, up to the first that was one too many; None and empty for a document.
    """

    items: Sequence[ReadItem]
    complete: bool = True
    collection: str | None = None
    children: Sequence[Resource] = ()


class TemplateEntry(msgspec.Struct, frozen=True):
    """A template with its mount's base in front: what clients fill in."""

    uri_template: str
    template: Template
    mount: Mount


class TemplatePage(msgspec.Struct, frozen=True):
    """Part of the templates; `next_cursor` is None at the end."""

    templates: Sequence[TemplateEntry]
    next_cursor: str | None


class CompletionResult(msgspec.Struct, frozen=True):
    """Suggested values, best first, at most `ranking.MAX_COMPLETIONS` of `total`."""

    values: Sequence[str]
    total: int


class CatalogLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one answer may hold: items a page, children and bytes of a collection, hits."""

    page_size: int = 100
    collection_children: int = 64
    collection_bytes: int = 256 * 1024
    search_hits: int = 25
    alternatives: bool = False
    """Whether a document is read in all its formats at once."""


class Catalog:
    """All mounts. An async context manager: leaving it closes every provider it started.

    Every answer is one for who asks (`access.current`): it is made of the mounts that they see, and
    of each as they see it. So no other part has to know of scopes.

    Every method raises `ResourceNotFound` for a URI that no mount knows, `InvalidParameter` for a
    cursor or query that cannot be used, `ResourceBusy` where the mount cannot serve now, and what
    the provider raises.
    """

    def __init__(self, mounts: Sequence[Mount], limits: CatalogLimits | None = None) -> None:
        self.mounts = tuple(mounts)
        self.limits = limits or CatalogLimits()
        self.visibility = Visibility(self.mounts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # At once: of those that hang each is waited for.
        await asyncio.gather(*(mount.close() for mount in self.mounts))

    async def start(self) -> dict[str, str]:
        """Start every mount; return the problems of those that cannot serve, by mount name."""
        for mount in self.mounts:
            with suppress(ResourceBusy):
                await mount.start()
        return {mount.name: mount.problem for mount in self.mounts if mount.problem is not None}

    @property
    def watches(self) -> bool:
        """Whether any mount notices changes when they happen."""
        return any(mount.watches is not None for mount in self.mounts)

    def route(self, uri: str) -> tuple[Mount, Path, Mapping[str, str]]:
        """Return the mount of a URI with the path below it and the query; nothing is asked."""
        return self.visibility.current().route(uri)

    async def locate(self, uri: str) -> tuple[Mount, Path, Mapping[str, str]]:
        """Return the mount of a URI, started, with the path below it and the query."""
        found = self.route(uri)
        if found[0].problem is not None:
            await found[0].start()
        return found

    async def metadata(self, uri: str) -> CatalogEntry:
        """Return what may be known of a resource without reading it."""
        mount, path, _ = await self.locate(uri)
        return mount.entry(await settle(mount.provider.metadata(path)))

    # -- listing

    async def list(
        self, uri: str | None = None, after: str | None = None, progress: Progress | None = None
    ) -> ListPage:
        """Return a page of everything listed, or of the direct children of the collection `uri`.

        One of everything lacks the mounts that fail, or take longer than `PATIENCE_S`.
        `after` is the cursor of the page before.

        Raises:
            NotACollection: `uri` is a document.
        """
        if uri is None:
            return await self._list_all(after, progress)
        mount, path, _ = await self.locate(uri)
        scope = uris.join(mount.base, path)
        last = path + _resume(after, scope, mount.name)[-1:] if after else None
        size = self.limits.page_size
        children = await contract_guard.children(mount.provider, path, after=last, limit=size + 1)
        more = len(children) > size
        entries = [mount.entry(child) for child in children[:size]]
        return ListPage(entries, _cursor(scope, mount, entries[-1]) if more else None)

    async def _list_all(self, after: str | None, progress: Progress | None) -> ListPage:
        size = self.limits.page_size
        mounts = [mount for mount in self.visibility.current().mounts if mount.listed]
        last: Path | None = None
        if after:
            held = cursor.decode(after, scope=_ALL)
            names = [mount.name for mount in mounts]
            if held.mount not in names:
                raise InvalidParameter(cursor.INVALID)
            mounts = mounts[names.index(held.mount) :]
            last = held.path
        entries: list[CatalogEntry] = []
        unavailable: list[str] = []
        end = mounts[0] if mounts else None
        for mount in mounts:
            room = size - len(entries)
            found: Sequence[Resource] = ()
            try:
                if mount.problem is not None:
                    await mount.start()
                descent = contract_guard.descend(mount, after=last, limit=room + 1)
                found = await within(PATIENCE_S, descent)
                more = [mount.entry(resource) for resource in found[:room]]
            except (*FAILURES, asyncio.CancelledError) as error:
                if is_cancelled():
                    raise
                # One mount that fails, or hangs, must not take the listing of the others with it.
                log_failure(error, f"listing mount {mount.name} failed")
                unavailable.append(mount.name)
                continue
            finally:
                last = None
            if more:
                entries += more
                end = mount
            if progress is not None:
                progress(len(entries), None)
            if end is not None and len(found) > room:
                return ListPage(entries, _cursor(_ALL, end, entries[-1]), tuple(unavailable))
        return ListPage(entries, None, tuple(unavailable))

    # -- reading

    async def read(self, uri: str, progress: Progress | None = None) -> ReadResult:
        """Return a document's contents, or those of a collection's children, within the limits."""
        mount, path, query = await self.locate(uri)
        resource, contents = await contract_guard.fetch(mount, path, query)
        if resource.type == "document":
            entry = mount.entry(resource)
            return ReadResult(await self._bodies(mount, entry, uri, query, contents))
        if query:
            raise InvalidParameter("a collection takes no query parameters")
        return await self._read_collection(mount, path, progress)

    async def _bodies(
        self,
        mount: Mount,
        entry: CatalogEntry,
        uri: str,
        query: Mapping[str, str],
        contents: Sequence[Content],
    ) -> list[ReadItem]:
        if not self.limits.alternatives or query:
            contents = contents[:1]
        else:
            path = entry.resource.path
            for format in entry.resource.formats:
                more = await settle(mount.provider.read(path, {"format": format.name}))
                contents = [*contents, *more]
        return [
            ReadItem(uri, entry, content, _next_uri(entry, query, content)) for content in contents
        ]

    async def _read_collection(
        self, mount: Mount, path: Path, progress: Progress | None
    ) -> ReadResult:
        most = self.limits.collection_children
        children = await contract_guard.children(mount.provider, path, after=None, limit=most + 1)
        complete = len(children) <= most
        budget = self.limits.collection_bytes
        bodies: list[ReadItem] = []
        for done, child in enumerate(children[:most], start=1):
            if child.type == "collection":
                entry = mount.entry(child)
                bodies.append(ReadItem(entry.uri, entry, None))
            elif (child.size or 0) > budget:
                complete = False
            elif (read := await _read_child(mount, child.path)) is not None:
                body, size = read
                if size > budget:
                    complete = False
                else:
                    budget -= size
                    bodies.append(body)
            if progress is not None:
                progress(done, min(len(children), most))
        return ReadResult(bodies, complete, uris.join(mount.base, path), children)

    # -- searching

    async def search(
        self,
        query: str,
        *,
        uri: str | None = None,
        where: Where | None = None,
        after: str | None = None,
        progress: Progress | None = None,
    ) -> SearchResults:
        """Return a page of what is found in all that is listed, or below `uri`; see `searching`.

        By name, in text, or first by name and then in text. `after` is the cursor of the page
        before.
        """
        mounts, below = [mount for mount in self.visibility.current().mounts if mount.listed], None
        if uri is not None:
            mount, below, parameters = self.route(uri)
            if parameters:
                raise InvalidParameter("a search takes no query parameters in its URI")
            mounts = [mount]
        found = federated_search.search_mounts(
            mounts,
            query,
            below=below,
            where=where,
            after=after,
            size=self.limits.search_hits,
            progress=progress,
        )
        return await settle(found)

    # -- templates and completion

    async def templates(self, after: str | None = None) -> TemplatePage:
        """Return a page of the templates of all mounts, in manifest order."""
        mounts = self.visibility.current().mounts
        every = [entry for mount in mounts for entry in _templates(mount)]
        page, following = cursor.page(
            every,
            lambda entry: (entry.mount.name, entry.template.uri_template),
            after,
            scope=_TEMPLATES,
            size=self.limits.page_size,
        )
        return TemplatePage(page, following)

    async def complete(
        self, uri_template: str, variable: str, value: str, given: Mapping[str, str] | None = None
    ) -> CompletionResult:
        """Suggest values of a template's variable that fit what has been typed so far.

        Values for `{+path}` are percent-encoded segment by segment, ready to be filled in.

        Raises:
            InvalidParameter: no such template, or no such variable in it.
        """
        for mount in self.visibility.current().mounts:
            for entry in _templates(mount):
                if entry.uri_template == uri_template:
                    return await self._complete(entry, variable, value, given or {})
        raise InvalidParameter("no template has this URI; see resources/templates/list")

    async def _complete(
        self, entry: TemplateEntry, variable: str, value: str, given: Mapping[str, str]
    ) -> CompletionResult:
        variables = uris.template_variables(entry.template.uri_template)
        if variable not in variables:
            raise InvalidParameter(f"the template has no variable {variable!r}")
        provider = entry.mount.completes
        if provider is None:
            return CompletionResult((), 0)
        if entry.mount.problem is not None:
            await entry.mount.start()
        if len(value) > uris.MAX_URI_LENGTH:
            return CompletionResult((), 0)
        of_path = variables[variable] == "+"
        typed = uris.unquote_path(value) if of_path else value
        try:
            found = await settle(provider.complete(variable, typed, given=given))
        except ResourceNotFound:
            found = ()
        best, total = await settle(completion.ranked(typed, found))
        values = [uris.quote_path(text) if of_path else uris.display(text) for text in best]
        return CompletionResult(values, total)


async def _read_child(mount: Mount, path: Path) -> tuple[ReadItem, int] | None:
    """Return a child of a collection that is read, and its size; None where it cannot be."""
    try:
        resource, contents = await contract_guard.fetch(mount, path, {})
        content, entry = contents[0], mount.entry(resource)
        body = ReadItem(entry.uri, entry, content, _next_uri(entry, {}, content))
        return body, content_size(content)
    except (*FAILURES, asyncio.CancelledError) as error:
        if is_cancelled():
            raise
        log_failure(error, f"a child in mount {mount.name} could not be read")
        return None


def _templates(mount: Mount) -> list[TemplateEntry]:
    try:
        return [
            TemplateEntry(mount.base + template.uri_template, template, mount)
            for template in mount.provider.templates
        ]
    except FAILURES as error:
        log_failure(error, f"the templates of mount {mount.name} failed")
        return []


def _resume(after: str, scope: str, mount: str) -> Path:
    held = cursor.decode(after, scope=scope)
    if held.mount != mount or not held.path:
        raise InvalidParameter(cursor.INVALID)
    return held.path


def _cursor(scope: str, mount: Mount, last: CatalogEntry) -> str:
    return cursor.encode(cursor.ListCursor(scope, mount.name, last.resource.path))


def _next_uri(entry: CatalogEntry, query: Mapping[str, str], content: Content) -> str | None:
    if content.truncated is None or content.truncated.next is None:
        return None
    kept = {name: value for name, value in query.items() if name == "format"}
    return uris.with_query(entry.uri, {**kept, **content.truncated.next})


def content_size(content: Content | None) -> int:
    """Return the bytes of a content as it is sent, before base64."""
    if content is None:
        return 0
    data = content.data
    return len(data) if isinstance(data, bytes) or data.isascii() else len(data.encode())
