"""The contract between the server and a provider: all that a plugin author needs to read.

A provider serves the resources of one mount. It is a plain class, usually a dataclass whose fields
are its options in the manifest; nothing has to be inherited or registered:

    @dataclass
    class Greetings:
        names: tuple[str, ...]                   # `names: [ada, alan]` in the manifest

        templates = (Template("{name}", name="greeting"),)

        async def list(self, parent, *, after, limit):
            if (await self.metadata(parent)).type == "document":
                raise NotACollection
            names = sorted(n for n in self.names if after is None or n > after[-1])
            return [await self.metadata((n,)) for n in names[:limit]]

        async def metadata(self, path):
            if path == ():
                return Resource(path=(), name="greetings", type="collection")
            if len(path) == 1 and path[0] in self.names:
                return Resource(path=path, name=path[0], mime_type="text/plain")
            raise ResourceNotFound

        async def read(self, path, query):
            if (await self.metadata(path)).type == "collection":
                raise ResourceNotFound
            for unknown in query:
                raise InvalidParameter(f"unknown query parameter {unknown!r}")
            return [Content(f"Hello, {path[0]}!")]

    _: type[Provider] = Greetings                # the type checker proves the contract here

Rules that hold for every method:

* A resource is addressed by its **path** below the mount: decoded segments, `()` being the mount's
  own collection. URIs, percent-encoding, cursors, clients and revisions never reach a provider.
* Paths and queries come from clients and are hostile: a path that names nothing, or nothing that
  may be shown, raises `ResourceNotFound`. The segments `""`, `"."`, `".."`, and any with `/` or
  NUL, never arrive. Bytes that are not UTF-8 arrive as lone surrogates, as in `os.fsdecode`.
* A method may be `async def`, or return its result at once. One that is not async must not block
  for more than about a millisecond: what may, belongs in a thread (`anyio.to_thread.run_sync`).
* Methods run concurrently. A call is cancelled when the client cancels its request.
* A provider with a lifetime is an async context manager; it is entered before its first call. To
  raise `MountUnavailable` on entering says that it cannot serve now; it is entered again later.
  Raised by a method, it says so for this one request.
* Exceptions of `resource_server.errors` reach the client as what they say. Any other is logged,
  and the client is told "Internal error".

What a provider can do beyond the required four is a `Supports…` protocol, found when the mount is
made. `resource_server.testing.check_provider` tests all of this against a real instance.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence, Set
from datetime import datetime
from typing import (
    Annotated,
    Any,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

import msgspec

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    NotACollection,
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.runtime.option_types import ByteSize

__all__ = [
    "Annotations",
    "ByteSize",
    "Change",
    "Content",
    "DeadlineExceeded",
    "Format",
    "Interest",
    "InvalidParameter",
    "Link",
    "MaybeAwaitable",
    "MountUnavailable",
    "NotACollection",
    "Path",
    "Provider",
    "Resource",
    "ResourceBusy",
    "ResourceNotFound",
    "ResourceTooLarge",
    "SupportsAccess",
    "SupportsComplete",
    "SupportsExplain",
    "SupportsFetch",
    "SupportsHides",
    "SupportsLinks",
    "SupportsWalk",
    "SupportsWarnings",
    "SupportsWatch",
    "Template",
    "Truncation",
]

T = TypeVar("T")

Path: TypeAlias = tuple[str, ...]
"""A resource's address inside its mount: decoded segments; `()` is the mount's own collection."""

MaybeAwaitable: TypeAlias = T | Awaitable[T]
"""A result, or an awaitable of one: what `def` and `async def` methods return."""

ResourceType: TypeAlias = Literal["document", "collection"]
Role: TypeAlias = Literal["user", "assistant"]


class Annotations(msgspec.Struct, frozen=True):
    """Hints for the client (MCP `Annotations`): for whom, and how important from 0 to 1."""

    audience: tuple[Role, ...] | None = None
    """`user`, `assistant` or both."""
    priority: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    """From 0 to 1, the most important."""

    def over(self, inherited: Annotations | None) -> Annotations:
        """Return these hints, each that is missing taken from `inherited`."""
        if inherited is None:
            return self
        return Annotations(
            audience=inherited.audience if self.audience is None else self.audience,
            priority=inherited.priority if self.priority is None else self.priority,
        )


class Format(msgspec.Struct, frozen=True):
    """Another representation of a document, read with the query `format=<name>`."""

    name: str
    mime_type: str
    description: str | None = None


class Resource(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What may be known of a resource without reading it (MCP `Resource`, its URI aside)."""

    path: Path
    name: str
    """For display; need not be unique. Lone surrogates in it are replaced by the server."""
    type: ResourceType = "document"
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    """Of the preferred representation; omitted where only reading would tell."""
    size: int | None = None
    """Bytes of the preferred representation, before any base64."""
    last_modified: datetime | float | None = None
    """An aware datetime of any zone, or seconds since the epoch; sent in UTC with milliseconds."""
    version: str | None = None
    """Opaque; equal means unchanged. For a collection: equal means the same direct children."""
    formats: tuple[Format, ...] = ()
    """Other representations, on request; usually filled in by `metadata` only."""
    annotations: Annotations | None = None
    """Each hint instead of the mount's own, where given."""
    listed: bool = True
    """False keeps it and all below out of the global listing; it is still its parent's child."""
    readable: bool = True
    """False: a document that is listed and described and never read, nor subscribed to."""
    details: Mapping[str, Any] | None = None
    """Further facts (row count, foreign keys), JSON-ready, sent under `_meta`."""


class Truncation(msgspec.Struct, frozen=True):
    """What was cut from a content, and how to read on."""

    reason: Literal["requested", "limit", "deadline"]
    unit: Literal["bytes", "lines", "rows", "characters"]
    total: int | None = None
    """In `unit`s, of the whole document, where known without reading all of it."""
    next: Mapping[str, str] | None = None
    """The query that reads on from here; None where this is the end."""


class Content(msgspec.Struct, frozen=True, gc=False):
    """One body of a document: `str` is sent as text, `bytes` as base64."""

    data: str | bytes
    mime_type: str | None = None
    """Where it differs from the resource's own, or where only reading could tell."""
    truncated: Truncation | None = None


class Template(msgspec.Struct, frozen=True):
    """An RFC 6570 template relative to the mount: `{+path}`, `{table}/{key}`, `search{?q}`."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    type: ResourceType | None = None
    """None where its resources may be of either type."""


class Change(msgspec.Struct, frozen=True):
    """Something that a provider saw: a reason to look, not yet something that clients are told.

    The server looks at what the path and its parent are now, and tells whoever subscribes if their
    `version` differs from the one told last. So to say too much costs a look, to say too little
    loses an update.
    """

    path: Path
    kind: Literal["resource", "children", "tree"] = "resource"
    """`resource`: it may have changed, come or gone. `children`: resources have come to this
    collection or gone from it; clients that keep listings are told. `tree`: both may hold for it
    and anything below it."""
    certain: bool = False
    """True: it has changed for certain, even if its `version` (a time too coarse) is the same."""


class Interest(Protocol):
    """What somebody wants to be told of, in one mount; changes while the provider watches.

    Where there is no interest there is nothing to watch, and nothing to poll.
    """

    @property
    def paths(self) -> Set[Path]:
        """The paths that are subscribed to now, whether anything is there or not.

        A view: copy it before an `await` in a loop over it.
        """
        ...

    @property
    def listing(self) -> bool:
        """Whether anybody is to be told when a resource comes or goes, anywhere in the mount."""
        ...

    @property
    def listing_since_ns(self) -> int:
        """When `listing` began to be so: nanoseconds since the epoch, by the clock of file times.

        What came or went after this moment is to be told, even if it was not watched yet.
        """
        ...

    async def next(self, within: float | None = None) -> tuple[Set[Path], Set[Path]]:
        """Return the paths that came and those that went since the last call, once there are any.

        The first call returns all there are. Also returns, with empty sets, when `listing` changes
        and after `within` seconds.
        """
        ...


class Provider(Protocol):
    """Serves the resources of one mount. The fields of its dataclass are its manifest options."""

    @property
    def templates(self) -> Sequence[Template]:
        """The address forms that clients may fill in; may be empty."""
        ...

    def list(
        self, parent: Path, *, after: Path | None, limit: int
    ) -> MaybeAwaitable[Sequence[Resource]]:
        """Return the direct children of a collection that come strictly after the path `after`.

        In a stable total order, at most `limit`; fewer than `limit` means that this is the end.
        `after` is the path of a child, which may have vanished: what follows its place is meant.

        Raises:
            ResourceNotFound: nothing that may be shown has the path `parent`.
            NotACollection: `parent` is a document.
        """
        ...

    def metadata(self, path: Path) -> MaybeAwaitable[Resource]:
        """Return what may be known of one resource without reading its content.

        Equal to its entry in `list`, except that facts too costly for listings may be added.

        Raises:
            ResourceNotFound: nothing that may be shown has this path.
        """
        ...

    def read(self, path: Path, query: Mapping[str, str]) -> MaybeAwaitable[Sequence[Content]]:
        """Return the current body of a document: the first content is the preferred one.

        `query` holds the URI's query parameters, decoded. Several contents are the same document
        in several formats. Never called for a path whose `metadata` says `collection`.

        Raises:
            ResourceNotFound: nothing readable has this path.
            InvalidParameter: a query parameter that is unknown or has an unusable value.
            ResourceTooLarge: over a size limit, and no range was asked for.
        """
        ...


@runtime_checkable
class SupportsComplete(Protocol):
    """Suggests values of a template's variable (MCP `completion/complete`)."""

    def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> MaybeAwaitable[Sequence[str]]:
        """Return values for `variable` that fit the `value` typed so far, in any order.

        Decoded, not URI-encoded; the server ranks, cuts and encodes. For a variable of several
        segments (`{+path}`) values are paths joined by `/`; one that goes on ends in `/`.
        `given` holds the other variables that are already known. Only what may be read.
        """
        ...


@runtime_checkable
class SupportsWalk(Protocol):
    """Lists the whole mount depth first, faster than a `list` per collection would."""

    def walk(self, *, after: Path | None, limit: int) -> MaybeAwaitable[Sequence[Resource]]:
        """Return up to `limit` descendants of the mount, depth first, strictly after `after`.

        A collection comes before its children and siblings come in the order of `list`, so what
        follows a collection is its first child. What is not `listed` is left out with all below it.
        The mount's own collection is not part of the walk. A `version` that would take long to
        find out may be left out.
        """
        ...


@runtime_checkable
class SupportsFetch(Protocol):
    """Describes and reads in one step, so that metadata and content are of the same moment."""

    def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> MaybeAwaitable[tuple[Resource, Sequence[Content]]]:
        """Return what `metadata` returns and, for a document, what `read` returns.

        The contents of a collection are empty.

        Raises:
            ResourceNotFound, InvalidParameter, ResourceTooLarge: as `read`.
        """
        ...


@runtime_checkable
class SupportsWatch(Protocol):
    """Notices changes. With an option named `watch` whose value is `off`, it is never asked to."""

    def changes(self, interest: Interest) -> AsyncIterator[Change]:
        """Yield what may have changed, for as long as it is iterated; usually `async def … yield`.

        For each path that comes to `interest.paths`: watch it first, then yield a `Change` of it,
        so that what happened before it was watched is not lost. The same for `()` with the kind
        `tree` after anything that may have lost changes. Several changes of the same moment may be
        yielded as one; the server limits how often clients are told.

        Whoever cannot be notified polls, and the server compares:

            async def changes(self, interest):
                while True:
                    await interest.next(within=1.0)
                    for path in list(interest.paths):
                        yield Change(path)

        This tells of what is subscribed to. Where `interest.listing` is set, whoever can also
        yields `children` of each collection that resources have come to or gone from.

        The iterator is closed when the mount is. If it ends or raises, it is asked for again after
        a growing delay, and everything subscribed to is compared.
        """
        ...


@runtime_checkable
class SupportsAccess(Protocol):
    """Has parts that only those may see who have certain scopes.

    The `access` of the mount itself is none of its concern.
    """

    @property
    def restrictions(self) -> Mapping[str, frozenset[str]]:
        """What needs scopes, by the option that says so, and which: at most six different ones.

        Always the same; asked for before the provider is entered.
        """
        ...

    def narrowed(self, scopes: frozenset[str]) -> Provider:
        """Return another provider with the same options, as those see it who have these scopes.

        For them what needs others does not exist. Called once for each combination of scopes that
        anybody has; what it returns is entered, watched and closed by itself.
        """
        ...


@runtime_checkable
class SupportsExplain(Protocol):
    """Tells the operator (`check --explain`) why a resource is shown or not; never a client."""

    def explain(self, path: Path) -> MaybeAwaitable[str]:
        """Return one sentence naming the rule that exposes, hides or forbids this path."""
        ...


@runtime_checkable
class SupportsHides(Protocol):
    """Tells the operator what a provider has and does not show. Never sent to clients."""

    def hides(self, *, limit: int) -> MaybeAwaitable[Sequence[tuple[Path, str]]]:
        """Return up to `limit` hidden paths, each with the rule that hides it.

        What lies below a hidden collection is not named again.
        """
        ...


@runtime_checkable
class SupportsWarnings(Protocol):
    """Tells the operator what is unsafe, or cannot have been meant. Never sent to clients."""

    def warnings(self) -> MaybeAwaitable[Sequence[tuple[str, str]]]:
        """Return what to see to: the option that it is about, and one sentence.

        An option (`tables.orders.key`) that names nothing there is a mistake. Without one (`""`)
        it is a warning, such as of a login that may do more than read.
        """
        ...


class Link(Protocol):
    """Gives the URIs of a mount."""

    def __call__(self, path: Path, query: Mapping[str, str] | None = None) -> str:
        """Return the URI of a path, with a query."""
        ...


@runtime_checkable
class SupportsLinks(Protocol):
    """Writes URIs of its own resources into contents: of a row that another refers to, say."""

    def linked(self, link: Link) -> None:
        """Take the function that gives these URIs; called once, when the mount is made."""
        ...
