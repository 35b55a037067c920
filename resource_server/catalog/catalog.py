"""All mounts as one space of URIs: routing, listing, reading, searching and completion.

A listing stores nothing between two pages: a cursor names the last item, and the cost of a page
depends on its length, not on the number of resources.
"""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self, TypeAlias, TypeVar

import msgspec

from resource_server import access, media_types, uris
from resource_server.access import Caller, Rights, usable_claim
from resource_server.catalog import cursor, fallback_search, federated_search, skill_catalog
from resource_server.catalog.collection_read import CollectionReader
from resource_server.catalog.contract_guard import Progress
from resource_server.catalog.cursor import ListCursor
from resource_server.catalog.federated_search import SearchOptions, SearchResults
from resource_server.catalog.global_listing import GlobalListing, ListingBounds, ListPage
from resource_server.catalog.mount import CatalogEntry, Mount, log_failure
from resource_server.catalog.read_result import (
    NO_PARAMETERS,
    ReadItem,
    ReadResult,
    next_uri,
    table_facts,
    text_format,
)
from resource_server.catalog.skill_catalog import SkillEntry, SkillPage
from resource_server.catalog.tree_listing import TreeListing
from resource_server.errors import InvalidParameter, ResourceBusy, ResourceError, ResourceNotFound
from resource_server.provider import Path, Resource, Template
from resource_server.provider.search import Where
from resource_server.runtime.eager import TimeLimit, settle
from resource_server.runtime.near_name import as_typed
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.search.name_match import rank_completions

T = TypeVar("T")

Address: TypeAlias = tuple[Mount, Path, Mapping[str, str]]
"""What a URI leads to: its mount, the path below it and the URI parameters."""

_MAX_KEPT = 1024
"""Maximum rights of callers whose mounts are cached."""
_NO_OPTIONS = SearchOptions()
_TEMPLATES = "templates"
_encode = msgspec.json.Encoder(order="sorted").encode
_CHILDREN = 1000
"""Children of one page that is searched for a name."""


class TemplateEntry(msgspec.Struct, frozen=True):
    """A template below its mount's base URI, as clients see it."""

    uri_template: str
    template: Template
    mount: Mount


class TemplatePage(msgspec.Struct, frozen=True):
    """A page of templates; `next_cursor` is None on the last one."""

    templates: Sequence[TemplateEntry]
    next_cursor: str | None


class CompletionResult(msgspec.Struct, frozen=True):
    """Suggested values, best first, at most `name_match.MAX_COMPLETIONS` of `total`."""

    values: Sequence[str]
    total: int


class CatalogLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Size limits of one result."""

    page_size: int = 100
    """Maximum items of a page, the first one of a listing of resources."""
    next_page_size: int | None = None
    """Maximum items of its further pages; None for the size of the first."""
    listing_max: int = 10_000
    """Maximum resources of the global listing."""
    listing_depth: int = 20
    """Maximum levels below a mount in the global listing."""
    collection_children: int = 1000
    """Maximum children returned by a read of a collection."""
    collection_bytes: int = 256 * 1024
    """Maximum bytes returned by a read of a collection, shared among its documents."""
    links_to_binary: bool = False
    """Whether a read of a collection has links in the place of blobs."""
    search_hits: int = 25
    """Maximum hits of a search page."""
    search_walk_page: int = fallback_search.WALK_PAGE
    """Resources listed at a time when a mount is searched by walking it."""
    alternatives: bool = False
    """Whether one read returns a document in all its formats."""


class VisibleMounts:
    """The mounts that callers with the same rights see, in manifest order."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self.mounts = tuple(mounts)
        self.by_claims = [mount for mount in self.mounts if mount.is_by_claims]
        """Those that are closed when nobody has used them for a while."""
        self._routes: dict[tuple[str, str], list[tuple[Path, Mount]]] = {}
        for mount in self.mounts:
            base = uris.parse(mount.base)
            self._routes.setdefault((base.scheme, base.authority), []).append((base.path, mount))
        for routes in self._routes.values():
            routes.sort(key=lambda route: len(route[0]), reverse=True)

    def route(self, uri: str) -> Address:
        """Return the address of a URI.

        Raises:
            ResourceNotFound: no visible mount has this URI.
        """
        address = self._address(uris.parse(uri))
        if address is None:
            raise ResourceNotFound
        return address

    def other_addresses(self, uri: str) -> Iterator[Address]:
        """Return the addresses that a URI may have had before a host changed it."""
        return filter(None, map(self._address, uris.other_readings(uri)))

    def _address(self, reference: uris.Reference) -> Address | None:
        for base, mount in self._routes.get((reference.scheme, reference.authority), ()):
            if reference.path[: len(base)] == base:
                return mount, reference.path[len(base) :], reference.query
        return None


class Visibility:
    """The visible mounts, by the rights of callers.

    A mount whose `access` requires other scopes is left out. One with hidden parts, or with rows by
    claims, is replaced by a mount with a narrowed provider. All requests and notifications go
    through these mounts. `claims` are those of callers without tokens.
    """

    def __init__(self, mounts: Sequence[Mount], claims: Mapping[str, Any]) -> None:
        self.scopes = frozenset[str]().union(
            *(mount.access | mount.inner_access for mount in mounts)
        )
        """All scopes that any mount or part of one requires."""
        self.claims = frozenset[str]().union(*(mount.claims for mount in mounts))
        """Names of all claims that any mount uses."""
        self.is_same_for_all = not (self.scopes or self.claims)
        """Whether every caller sees the same."""
        self._own_claims = claims
        self._all = VisibleMounts(mounts)
        # The least recently used first.
        self._known = OrderedDict[Rights, VisibleMounts]()
        self._rights: dict[int, tuple[Caller, Rights]] = {}
        """The rights of callers by their identity: the requests of one token have one caller."""

    def current(self) -> VisibleMounts:
        """Return the mounts that the current caller sees."""
        return self._all if self.is_same_for_all else self.of(access.current())

    def of(self, caller: Caller) -> VisibleMounts:
        """Return the mounts that a caller sees."""
        return self.with_rights(self.rights(caller))

    def rights(self, caller: Caller) -> Rights:
        """Return what decides what a caller sees."""
        if not self.claims:
            return Rights(caller.scopes)
        if (known := self._rights.get(id(caller))) is not None:
            return known[1]
        claims = self._own_claims if caller.scopes is None else caller.claims
        values = {name: usable_claim(claims, name) for name in self.claims}
        if caller.scopes is None:
            values = {name: value for name, value in values.items() if value is not None}
        rights = Rights(caller.scopes, _encode(values).decode())
        if len(self._rights) >= _MAX_KEPT:
            self._rights.clear()
        self._rights[id(caller)] = caller, rights
        return rights

    def with_rights(self, rights: Rights) -> VisibleMounts:
        """Return the mounts that callers with these rights see."""
        if self.is_same_for_all:
            return self._all
        scopes = None if rights.scopes is None else self.scopes & rights.scopes
        key = Rights(scopes, rights.claims if self.claims else "{}")
        visible = self._known.get(key)
        if visible is None or not _used(visible):
            visible = self._known[key] = self._narrowed(key)
            if len(self._known) > _MAX_KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return visible

    def _narrowed(self, rights: Rights) -> VisibleMounts:
        values = msgspec.json.decode(rights.claims)
        mounts: list[Mount] = []
        for each in self._all.mounts:
            mount: Mount | None = each
            if rights.scopes is not None:
                mount = each.narrowed(rights.scopes)
            if mount is not None and mount.claims:
                mount = mount.with_claims(values)
            if mount is not None:
                mounts.append(mount)
        return VisibleMounts(mounts)


def _used(visible: VisibleMounts) -> bool:
    """Note that a caller has come to each mount; return False if one is closed."""
    return all([mount.use() for mount in visible.by_claims])  # noqa: C419 - each of them


class Catalog:
    """All mounts, as each caller sees them.

    An async context manager: leaving it closes every provider it has started. Results cover the
    mounts that are visible to the current caller (`access.current`); no other part checks scopes.
    `claims` are those of callers without tokens.

    Every method raises `ResourceNotFound` for a URI outside all mounts, `InvalidParameter` for an
    invalid cursor or query, `ResourceBusy` if the mount cannot serve now, and what the provider
    raises.
    """

    def __init__(
        self,
        mounts: Sequence[Mount],
        limits: CatalogLimits | None = None,
        timing: Timing = DEFAULT_TIMING,
        claims: Mapping[str, Any] | None = None,
    ) -> None:
        self.mounts = tuple(mounts)
        self.limits = limits or CatalogLimits()
        self.visibility = Visibility(self.mounts, claims or {})
        self.timing = timing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # Concurrently: each may hang until its timeout.
        await asyncio.gather(*(mount.close() for mount in self.mounts))

    async def start(self) -> dict[str, str]:
        """Start every mount; return the problems of those that cannot serve, by name."""
        for mount in self.mounts:
            with suppress(ResourceBusy):
                await mount.start()
        return {mount.name: mount.problem for mount in self.mounts if mount.problem is not None}

    async def survey(self) -> list[str]:
        """Return the mistakes of every mount that serves; it may take long."""
        found: list[str] = []
        for mount in self.mounts:
            try:
                found += (await mount.survey())[0] if mount.is_serving else ()
            except Exception as error:  # the code of a plugin
                log_failure(error, f"asking mount {mount.name} for mistakes failed")
                found.append(f"the mistakes of mount {mount.name} cannot be determined")
        return found

    async def wait_for_mistakes(self, within_s: float) -> None:
        """Wait until the mistakes of all started mounts are logged."""
        await asyncio.gather(*(mount.wait_for_mistakes(within_s) for mount in self.mounts))

    @property
    def can_watch(self) -> bool:
        """Whether any mount notices changes as they happen."""
        return any(mount.can_watch for mount in self.mounts)

    def route(self, uri: str) -> Address:
        """Return the address of a URI, or of what it means if it leads to no visible mount."""
        visible = self.visibility.current()
        try:
            return visible.route(uri)
        except ResourceNotFound:
            address = next(visible.other_addresses(uri), None)
            if address is None:
                raise
            return address

    async def explain(self, uri: str) -> str:
        """Return one sentence for the operator: why a URI is exposed or hidden.

        Raises:
            ResourceNotFound: it is outside all visible mounts.
            ResourceBusy: its mount is unavailable now.
        """
        mount, path, _ = self.route(uri)
        await mount.start()
        try:
            if "check" in mount.provider.abilities:
                text = await mount.provider.explain(path)
            else:
                await mount.provider.metadata(path)
                text = f"exposed by {mount.name}"
        except ResourceError as error:
            text = f"hidden by {mount.name}: {error}"
        scopes = ", ".join(sorted(mount.access))
        return f"{text}; {mount.name} requires {scopes} (access)" if scopes else text

    async def at(
        self, uri: str, use: Callable[[Mount, Path, Mapping[str, str]], Awaitable[T]]
    ) -> T:
        """Return what `use` returns for the address of a URI, its mount started.

        If nothing is there, a host may have changed the URI (`uris.other_readings`), or somebody
        has typed a name that is written otherwise (`as_typed`): `use` is then called for the first
        other address that has a resource. All requests for a URI come through here, so none reaches
        what it would not reach by the canonical URI.
        """
        try:
            mount, path, query = self.visibility.current().route(uri)
            if mount.problem is not None:
                await mount.start()
            return await use(mount, path, query)
        except ResourceNotFound:
            address = await self._other_address(uri)
            if address is None:
                raise
        return await use(*address)

    async def _other_address(self, uri: str) -> Address | None:
        time_limit = TimeLimit(self.timing.listing_s)
        visible = self.visibility.current()
        others = [*visible.other_addresses(uri)]
        looks = [(_as_written, address) for address in others]
        with suppress(ResourceNotFound):
            others.insert(0, visible.route(uri))
        looks += [(_as_listed, address) for address in others[:1]]
        for look, (mount, path, query) in looks:
            try:
                await mount.start()
                return mount, await look(mount, path, time_limit), query
            except _NotAllCompared:
                raise
            except ResourceNotFound:
                continue
            except Exception as error:
                # The failure of another mount must not fail this request.
                log_failure(error, f"looking for a resource in mount {mount.name} failed")
        return None

    async def metadata(self, uri: str) -> CatalogEntry:
        """Return the metadata of a resource, or of what its URI parameters select of it."""
        mount, resource, query = await self.at(uri, _described)
        if query and resource.type == "collection":
            raise InvalidParameter(NO_PARAMETERS)
        entry = mount.entry(resource)
        if query:
            entry = entry.selected(query)
            # Those of the whole document are not those of a part.
            formats = {each.name: each.mime_type for each in resource.formats}
            mime_type = formats.get(query.get("format", ""), resource.mime_type)
            entry.resource = msgspec.structs.replace(
                entry.resource, size=None, version=None, mime_type=mime_type
            )
        return entry

    # -- listing

    async def list(
        self, uri: str | None = None, after: str | None = None, progress: Progress | None = None
    ) -> ListPage:
        """Return a page of the global listing, or of the direct children of the collection `uri`.

        The global listing is bounded, and leaves out mounts that fail or take longer than
        `listing_s`. `after` is the cursor of the previous page.

        Raises:
            NotACollection: `uri` is a document.
        """
        if uri is None:
            return await self._list_all(after, progress)
        return await self.at(uri, functools.partial(self._list_children, after))

    async def _list_children(
        self, after: str | None, mount: Mount, path: Path, _: object
    ) -> ListPage:
        scope = uris.join(mount.base, path)
        size, last = self.limits.page_size, None
        if after is not None:
            last = path + _resume(after, scope, mount.name)[-1:]
            size = self.limits.next_page_size or size
        children = await mount.provider.list(path, after=last, limit=size + 1)
        has_more = len(children) > size
        entries = mount.entries(children[:size])
        return ListPage(entries, _cursor(scope, mount, entries[-1]) if has_more else None)

    async def tree(self, uri: str | None, *, depth: int, after: str | None) -> TreeListing:
        """Return the listing of a tree, level by level, below `uri` or in all listed mounts.

        Raises:
            NotACollection: `uri` is a document.
        """
        top = None
        mounts = [mount for mount in self.visibility.current().mounts if mount.listed]
        if uri is not None:
            mount, top, _ = await self.at(uri, _described)
            mounts = [mount]
        return TreeListing(
            mounts,
            top,
            depth=depth,
            after=after,
            time_limit=TimeLimit(self.timing.listing_s),
            max_unlisted=self.limits.page_size,
        )

    async def _list_all(self, after: str | None, progress: Progress | None) -> ListPage:
        mounts = [mount for mount in self.visibility.current().mounts if mount.listed]
        bounds = ListingBounds(
            page_size=self.limits.page_size,
            next_page_size=self.limits.next_page_size or self.limits.page_size,
            max=self.limits.listing_max,
            depth=self.limits.listing_depth,
        )
        return await GlobalListing(mounts, bounds, self.timing, progress).page(after)

    # -- reading

    async def read(self, uri: str, progress: Progress | None = None) -> ReadResult:
        """Return the contents of a document, or of a collection's children within the limits."""
        return await self.at(uri, functools.partial(self._read, uri, progress))

    async def text_format(self, uri: str) -> str | None:
        """Return the `format` to add to the URI of a document that is no text, to read its text.

        None for text, for what has no such format, and for a URI with `format` or `bytes`.
        """
        _, path, query = self.route(uri)
        media_type = media_types.from_name(path[-1]) if path else None
        # By the name first: the metadata of a row is a query.
        if media_type is None or not media_types.is_encoded(media_type):
            return None
        if not query.keys().isdisjoint(("format", "bytes")):
            return None
        format = text_format((await self.metadata(uri.partition("?")[0])).resource)
        return None if format is None else format.name

    async def _read(
        self,
        uri: str,
        progress: Progress | None,
        mount: Mount,
        path: Path,
        query: Mapping[str, str],
    ) -> ReadResult:
        resource, contents = await mount.provider.fetch(path, query)
        if resource.type == "document":
            entry = mount.entry(resource)
            if query:
                entry = entry.selected(query)
                contents = contents[:1]
            elif self.limits.alternatives:
                for format in resource.formats:
                    more = await mount.provider.read(resource.path, {"format": format.name})
                    contents = [*contents, *more]
            else:
                contents = contents[:1]
            return ReadResult(
                [
                    ReadItem(
                        uri,
                        entry,
                        content,
                        None if content.truncated is None else next_uri(entry, query, content),
                    )
                    for content in contents
                ]
            )
        if query:
            raise InvalidParameter(NO_PARAMETERS)
        return await self._read_collection(mount, resource, uri, progress)

    async def _read_collection(
        self, mount: Mount, resource: Resource, uri: str, progress: Progress | None
    ) -> ReadResult:
        limit = self.limits.collection_children
        children = await mount.provider.list(resource.path, after=None, limit=limit + 1)
        time_limit = TimeLimit(self.timing.listing_s)
        reading = CollectionReader(
            mount,
            max_bytes=self.limits.collection_bytes,
            time_limit=time_limit,
            links_to_binary=self.limits.links_to_binary,
        )
        is_table = table_facts(resource) is not None
        shown = [child for child in children if child.listed or not is_table]
        items = await reading.items(shown[:limit], progress)
        return ReadResult(
            items,
            complete=len(items) == len(shown) and time_limit.left_s() > 0,
            collection=uris.join(mount.base, resource.path),
            children=children[: limit + 1],
            total=len(shown) if len(shown) <= limit else None,
            itself=ReadItem(uri, mount.entry(resource), None),
        )

    # -- searching

    async def search(
        self,
        query: str,
        *,
        uri: str | None = None,
        where: Where | None = None,
        after: str | None = None,
        limit: int | None = None,
        options: SearchOptions = _NO_OPTIONS,
        progress: Progress | None = None,
    ) -> SearchResults:
        """Return a page of search hits in all listed mounts, or below `uri`.

        `where` limits the search to names or to text; otherwise names come first. `after` is the
        cursor of the previous page, `limit` the maximum number of hits, and of matching lines that
        are quoted: up to five per hit, or the rest of `limit` if that is more.
        """

        async def search(
            mounts: Sequence[Mount], below: Path | None, parameters: Mapping[str, str]
        ) -> SearchResults:
            if parameters:
                raise InvalidParameter("a search takes no query parameters in its URI")
            return await federated_search.search_mounts(
                mounts,
                query,
                below=below,
                where=where,
                after=after,
                size=limit or self.limits.search_hits,
                options=options,
                progress=progress,
                walk_page=self.limits.search_walk_page,
                timing=self.timing,
            )

        if uri is None:
            listed = [mount for mount in self.visibility.current().mounts if mount.listed]
            return await search(listed, None, {})
        return await self.at(uri, lambda mount, path, given: search([mount], path, given))

    # -- skills

    async def skills(self, after: str | None = None) -> SkillPage:
        """Return a page of the skills in all listed mounts; `after` is the previous cursor."""
        return await skill_catalog.list_skills(
            self.visibility.current().mounts,
            after,
            size=self.limits.page_size,
            timeout_s=self.timing.listing_s,
        )

    async def skill(self, uri: str) -> SkillEntry:
        """Return the skill whose `SKILL.md` has this URI, listed or not."""

        async def skill(mount: Mount, path: Path, query: Mapping[str, str]) -> SkillEntry:
            if query:
                raise ResourceNotFound
            return await skill_catalog.get_skill(self.visibility.current().mounts, mount, path)

        return await self.at(uri, skill)

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
        """Suggest values of a template's variable for the value typed so far.

        Values for `{+path}` are plain, except for characters that would not survive an expansion.
        What was typed, and the values in `given`, may be plain or percent-encoded.

        Raises:
            InvalidParameter: no such template, or no such variable in it.
        """
        operators = _operators(self._template(uri_template).template)
        is_path = operators.get(variable) == "+" and len(value) <= uris.MAX_URI_LENGTH
        typed = uris.typed_paths(value) if is_path else (value,)
        given = given or {}
        decoded = {
            name: uris.unquote_path(text) if operators.get(name) == "+" else text
            for name, text in given.items()
        }
        found = await self.suggest(uri_template, variable, typed, decoded)
        if not found.values and decoded != given:
            found = await self.suggest(uri_template, variable, typed, given)
        return found

    async def suggest(
        self, uri_template: str, variable: str, typed: Sequence[str], given: Mapping[str, str]
    ) -> CompletionResult:
        """Suggest values as `complete` does, for each meaning of what was typed, all decoded."""
        entry = self._template(uri_template)
        operators = _operators(entry.template)
        family = f"{variable.partition('.')[0]}.*"
        operator = operators.get(variable, operators.get(family))
        if operator is None:
            raise InvalidParameter(f"the template has no variable {variable!r}")
        if "complete" not in entry.mount.provider.abilities:
            return CompletionResult((), 0)
        await entry.mount.start()
        if max(map(len, typed)) > uris.MAX_URI_LENGTH:
            return CompletionResult((), 0)
        candidates: list[str] = []
        for text in typed:
            with suppress(ResourceNotFound):
                found = await entry.mount.provider.complete(variable, text, given=given)
                if not found and operator == "+":
                    text = await self._below_listed(entry.mount, text)
                    found = await entry.mount.provider.complete(variable, text, given=given)
                candidates.extend(found)
        best, total = await settle(rank_completions(typed, candidates))
        encoded = uris.plain_path if operator == "+" else uris.display
        return CompletionResult(list(map(encoded, best)), total)

    async def _below_listed(self, mount: Mount, typed: str) -> str:
        """Return a typed path below the collection that is listed under another spelling.

        Raises:
            ResourceNotFound: there is none.
        """
        above, slash, name = typed.rpartition("/")
        path = tuple(above.split("/"))
        if _has_one_spelling(above) or not all(map(uris.is_segment, path)):
            raise ResourceNotFound
        time_limit = TimeLimit(self.timing.listing_s)
        try:
            await _as_written(mount, path, time_limit)
        except ResourceNotFound:
            listed = await _as_listed(mount, path, time_limit)
            return "/".join(listed) + slash + name
        raise ResourceNotFound  # it is listed as it was typed, and has nothing that fits

    def _template(self, uri_template: str) -> TemplateEntry:
        for mount in self.visibility.current().mounts:
            for entry in _templates(mount):
                if entry.uri_template == uri_template:
                    return entry
        raise InvalidParameter("no template has this URI; see resources/templates/list")


def _operators(template: Template) -> Mapping[str, str]:
    """Return the variables of a template and its optional URI parameters with their operators."""
    optional = dict.fromkeys(template.optional, "&")
    return {**uris.template_variables(template.uri_template), **optional}


async def _as_written(mount: Mount, path: Path, time_limit: TimeLimit) -> Path:
    await mount.provider.metadata(path, time_limit)
    return path


def _has_one_spelling(name: str) -> bool:
    return name.isascii() and " " not in name


async def _as_listed(mount: Mount, path: Path, time_limit: TimeLimit) -> Path:
    """Return the path of a listed resource whose names are typed like those of `path`.

    Raises:
        ResourceNotFound: there is none.
    """
    found: Path = ()
    for name in path:
        if _has_one_spelling(name):
            found = (*found, name)
        else:
            found = await _child_typed(mount, found, as_typed(name), time_limit)
    if found == path:
        raise ResourceNotFound
    return await _as_written(mount, found, time_limit)


async def _child_typed(mount: Mount, parent: Path, typed: str, time_limit: TimeLimit) -> Path:
    after: Path | None = None
    while time_limit.left_s() > 0:
        page = await mount.provider.list(parent, after=after, limit=_CHILDREN)
        for child in page:
            if as_typed(child.path[-1]) == typed:
                return child.path
        if len(page) < _CHILDREN or not page[-1].listed:  # rows of a table are not listed
            raise ResourceNotFound
        after = page[-1].path
    raise _NotAllCompared(
        f"resource not found as it is written, and not all names in {mount.uri(parent)} were "
        "compared in time; list that collection for its spelling"
    )


class _NotAllCompared(ResourceNotFound):
    """The time was over before every name was compared with the one that was typed."""


async def _described(
    mount: Mount, path: Path, query: Mapping[str, str]
) -> tuple[Mount, Resource, Mapping[str, str]]:
    return mount, await mount.provider.metadata(path), query


def _templates(mount: Mount) -> list[TemplateEntry]:
    try:
        return [
            TemplateEntry(mount.base + template.uri_template, template, mount)
            for template in mount.provider.templates
        ]
    except Exception as error:
        log_failure(error, f"the templates of mount {mount.name} failed")
        return []


def _resume(after: str, scope: str, mount: str) -> Path:
    held = ListCursor.decode(after, scope=scope)
    if held.mount != mount or not held.path:
        raise InvalidParameter(cursor.INVALID)
    return held.path


def _cursor(scope: str, mount: Mount, last: CatalogEntry) -> str:
    return ListCursor(scope, mount.name, last.resource.path).encode()
