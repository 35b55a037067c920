"""The provider contract: the interface between the server and a plugin.

A provider serves the resources of one mount. It is a plain class, usually a dataclass whose fields
are its manifest options. There is nothing to inherit or register. Import every name from
`resource_server.provider`:

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

    _: type[Provider] = Greetings                # a type checker verifies the contract here

Rules that hold for every method:

* **Paths.** A resource is addressed by its path below the mount, a tuple of decoded segments; `()`
  is the mount's own collection. A provider never handles URIs, percent-encoding, cursors, clients
  or protocol revisions.
* **Hostile input.** Paths and URI parameters come from clients. A path that names nothing and a
  path that is not exposed raise the same `ResourceNotFound`. The server rejects the segments `""`,
  `"."` and `".."`, and segments with `/` or NUL. Bytes that are not UTF-8 are lone surrogates, as
  in `os.fsdecode`.
* **Blocking.** A method is `async def`, or plain `def` if its result is available immediately.
  Neither may block the event loop for more than about a millisecond: use a worker thread
  (`anyio.to_thread.run_sync`).
* **Concurrency.** Methods run concurrently. A call is cancelled when its client cancels the request
  or disconnects, and after 20 seconds (`SupportsTimeout`): the server waits for it no longer, even
  if it ignores its cancellation.
* **Lifetime.** A provider that holds something open is an async context manager. It is entered
  before its first call. If it raises `MountUnavailable` on entering, the mount cannot serve now and
  the provider is entered again later; if a method raises it, only that request fails.
* **Errors.** Exceptions of `resource_server.errors` are reported to the client. Any other exception
  is a defect, as is a result of another type: it is logged, and the client gets "Internal error".
  `SystemExit`, `KeyboardInterrupt` and a `CancelledError` of the provider's own end the call, never
  the server.

Four members are required. Each further ability is a `Supports…` protocol, detected when the mount
is created. `resource_server.testing.check_provider` tests an instance against the whole contract.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence, Set
from datetime import datetime
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from resource_server.runtime.server_key import ServerKey

T = TypeVar("T")

Path: TypeAlias = tuple[str, ...]
"""Address of a resource below its mount: decoded segments; `()` is the mount's own collection."""

MaybeAwaitable: TypeAlias = T | Awaitable[T]
"""A result or an awaitable of it: the return type of methods that may be `def` or `async def`."""

ResourceType: TypeAlias = Literal["document", "collection"]
Role: TypeAlias = Literal["user", "assistant"]


class Annotations(msgspec.Struct, frozen=True):
    """Hints for the client: the intended audience and the importance (MCP `Annotations`)."""

    audience: tuple[Role, ...] | None = None
    """`user`, `assistant` or both."""
    priority: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    """Importance, from 0 (least) to 1 (most)."""

    def over(self, inherited: Annotations | None) -> Annotations:
        """Return these hints, with missing ones taken from `inherited`."""
        if inherited is None:
            return self
        return Annotations(
            audience=inherited.audience if self.audience is None else self.audience,
            priority=inherited.priority if self.priority is None else self.priority,
        )


class Format(msgspec.Struct, frozen=True):
    """Another representation of a document, read with the URI parameter `format=<name>`."""

    name: str
    mime_type: str
    description: str | None = None


class Resource(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Metadata of a resource (MCP `Resource`, without its URI)."""

    path: Path
    name: str
    """Display name; need not be unique. The server replaces lone surrogates."""
    type: ResourceType = "document"
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    """Media type of the preferred representation; None if unknown before a read."""
    size: int | None = None
    """Size of the preferred representation in bytes, before base64."""
    last_modified: datetime | float | None = None
    """Aware datetime in any zone, or seconds since the epoch; sent in UTC with milliseconds."""
    version: str | None = None
    """Opaque. Equal versions mean an unchanged document, or a collection with the same children."""
    formats: tuple[Format, ...] = ()
    """Other representations; usually returned by `metadata` only."""
    annotations: Annotations | None = None
    """Hints of this resource; each one overrides the mount's."""
    listed: bool = True
    """False leaves it, and everything below, out of `resources/list`; its parent still lists it."""
    readable: bool = True
    """False for a document that is listed and described, but cannot be read or subscribed to."""
    details: Mapping[str, Any] | None = None
    """Further metadata as JSON values, such as a row count; sent under `_meta`."""


class Truncation(msgspec.Struct, frozen=True):
    """Marks partial content and says how to read the rest."""

    reason: Literal["requested", "limit", "deadline"]
    unit: Literal["bytes", "lines", "rows", "characters"]
    total: int | None = None
    """Size of the whole document in `unit`; None if unknown without reading all of it."""
    next: Mapping[str, str] | None = None
    """URI parameters of the next part; None at the end."""


class Content(msgspec.Struct, frozen=True, gc=False):
    """The body of a document, in one format: `str` is sent as text, `bytes` as base64."""

    data: str | bytes
    mime_type: str | None = None
    """Media type, if it differs from the resource's or was unknown before the read."""
    truncated: Truncation | None = None
    size: int | None = None
    """Bytes of the whole content as stored, if `data` was decoded from them."""
    offset: int | None = None
    """Offset of a range of lines in bytes, for the rest of a line that is too long."""
    rows: int | None = None
    """Number of rows in `data`, for the record of reads."""


class Template(msgspec.Struct, frozen=True):
    """A URI template (RFC 6570) relative to the mount: `{+path}`, `{table}/{key}`, `search{?q}`.

    Some clients cannot leave a variable out: write only what is required into the template, as in
    `search?q={q}`, and name the rest in the description.
    """

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    type: ResourceType | None = None
    """Type of its resources; None for both."""
    optional: tuple[str, ...] = ()
    """URI parameters that may be added; they are completed as variables are.

    `where.*` stands for all whose names begin with `where.`.
    """


class Change(msgspec.Struct, frozen=True):
    """A possible change of a resource, observed by a provider.

    The server compares the path and its parent with their last known state, and notifies
    subscribers if the `version` differs. An unnecessary change costs a comparison; a missing one
    loses an update.
    """

    path: Path
    kind: Literal["resource", "children", "tree"] = "resource"
    """`resource`: it may have been changed, added or removed. `children`: children of this
    collection were added or removed, so listings are notified. `tree`: both, for the path and
    everything below it."""
    certain: bool = False
    """If true, subscribers are notified even if the `version` (say a coarse timestamp) is equal."""


class Interest(Protocol):
    """Subscriptions of all clients in one mount, updated while the provider watches.

    Without interest, watch nothing and poll nothing.
    """

    @property
    def paths(self) -> Set[Path]:
        """The subscribed paths, whether they exist or not.

        A live view: copy it before a loop that awaits.
        """
        ...

    @property
    def listing(self) -> bool:
        """Whether any client follows the listing: resources added or removed in the mount."""
        ...

    @property
    def listing_since_ns(self) -> int:
        """When `listing` became true: nanoseconds since the epoch, by the clock of file times.

        Report resources added or removed since then, even if they were not watched yet.
        """
        ...

    async def next(self, within: float | None = None) -> tuple[Set[Path], Set[Path]]:
        """Wait until the interest changes; return the paths added and removed since the last call.

        The first call returns all paths as added. Also returns when `listing` changes and after
        `within` seconds, possibly with empty sets.
        """
        ...


class Provider(Protocol):
    """Serves the resources of one mount. The fields of its dataclass are the manifest options."""

    @property
    def templates(self) -> Sequence[Template]:
        """URI templates that clients may fill in; may be empty."""
        ...

    def list(
        self, parent: Path, *, after: Path | None, limit: int
    ) -> MaybeAwaitable[Sequence[Resource]]:
        """Return the next direct children of a collection: those strictly after the path `after`.

        Children come in a stable total order, at most `limit`; fewer than `limit` means the end.
        The child `after` may no longer exist: continue where it was.

        Raises:
            ResourceNotFound: `parent` names no exposed resource.
            NotACollection: `parent` is a document.
        """
        ...

    def metadata(self, path: Path) -> MaybeAwaitable[Resource]:
        """Return the metadata of one resource, without reading its content.

        Repeats the resource's entry in `list`, and may add what is too expensive there.

        Raises:
            ResourceNotFound: `path` names no exposed resource.
        """
        ...

    def read(self, path: Path, query: Mapping[str, str]) -> MaybeAwaitable[Sequence[Content]]:
        """Return the current body of a document, in one or more formats, the preferred one first.

        `query` holds the decoded URI parameters. Never called for a path that `metadata` describes
        as a collection.

        Raises:
            ResourceNotFound: `path` names no readable document.
            InvalidParameter: a URI parameter is unknown or has an invalid value.
            ResourceTooLarge: the document is over a size limit, and `query` requests no range.
        """
        ...


@runtime_checkable
class SupportsComplete(Protocol):
    """Completes the variables of URI templates (MCP `completion/complete`)."""

    def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> MaybeAwaitable[Sequence[str]]:
        """Return values of `variable` that match the `value` typed so far, in any order.

        Values are decoded; the server ranks, limits and encodes them. Values of a multi-segment
        variable (`{+path}`) are segments joined by `/`, with a final `/` on a collection. `given`
        holds the other variables with a value. Suggest exposed resources only.
        """
        ...


@runtime_checkable
class SupportsLevels(Protocol):
    """Lists one level of the mount, with its collections apart from its documents.

    `resources/list` goes down level by level. Without this ability it is made from `list`, and the
    collections of a level come among its documents.
    """

    def level(
        self, depth: int, type: ResourceType, *, after: Path | None, limit: int
    ) -> MaybeAwaitable[Sequence[Resource]]:
        """Return up to `limit` resources of one type whose paths have `depth` segments.

        They come in a stable total order, strictly after the path `after`, which may no longer
        exist; fewer than `limit` means the end. Resources that are not `listed` are left out with
        all below them, and a `version` that is expensive to compute may be. `depth` is 1 or more.
        """
        ...


@runtime_checkable
class SupportsFetch(Protocol):
    """Returns metadata and contents in one step, from the same moment."""

    def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> MaybeAwaitable[tuple[Resource, Sequence[Content]]]:
        """Return the results of `metadata` and `read`; a collection has no contents.

        Raises:
            ResourceNotFound, InvalidParameter, ResourceTooLarge: as for `read`.
        """
        ...


@runtime_checkable
class SupportsWatch(Protocol):
    """Observes changes. Never used if the provider has an option `watch` and its value is `off`."""

    def changes(self, interest: Interest) -> AsyncIterator[Change]:
        """Yield possible changes until the iterator is closed; usually `async def … yield`.

        For each path added to `interest.paths`, start to watch it, then yield a `Change` of it: the
        server's comparison finds changes made before the watch. Yield `Change((), "tree")` after
        changes may have been lost. Simultaneous changes may be combined; the server limits the rate
        of notifications.

        A provider whose source has no notifications polls, and leaves the comparison to the server:

            async def changes(self, interest):
                while True:
                    await interest.next(within=1.0)
                    for path in list(interest.paths):
                        yield Change(path)

        This covers subscriptions. While `interest.listing` is true, the provider also yields, if it
        can, a change of kind `children` for each collection whose set of children changed.

        The iterator is closed with the mount. If it ends or raises, the server calls `changes`
        again after an increasing delay, and compares everything that is subscribed.
        """
        ...


@runtime_checkable
class SupportsAccess(Protocol):
    """Hides parts of the mount from callers without certain scopes.

    The server itself enforces the `access` of the whole mount.
    """

    @property
    def restrictions(self) -> Mapping[str, frozenset[str]]:
        """Required scopes by the option that demands them; at most six different scopes in all.

        Constant, and available before the provider is entered.
        """
        ...

    def narrowed(self, scopes: frozenset[str]) -> Provider:
        """Return a provider with the same options, for callers with these scopes.

        Parts that need other scopes do not exist in it. Called once per combination of scopes among
        the callers; each narrowed provider is entered, watched and closed separately.
        """
        ...


@runtime_checkable
class SupportsClaims(Protocol):
    """Shows other things to callers with other claims, such as the rows that are theirs."""

    @property
    def claims(self) -> Set[str]:
        """Names of the claims that decide: `sub`, `org.id` for a member of `org`; `""` for all.

        Constant, and available before the provider is entered.
        """
        ...

    def with_claims(self, values: Mapping[str, Any]) -> Provider:
        """Return a provider with the same options, for callers whose claims have these values.

        A value is text, a number, a boolean or a list of them; None if the token has no such claim,
        or none that can be used: then nothing of it is shown that depends on the claim. Without
        tokens, claims that the manifest does not give are missing, as in this provider: what
        depends on them does not exist. Called once per combination of values; each provider is
        entered, watched and closed separately, so it had better share what is expensive.
        """
        ...


@runtime_checkable
class SupportsCheck(Protocol):
    """Tells the operator what is hidden, why, and what may be wrong. Never sent to clients."""

    def explain(self, path: Path) -> MaybeAwaitable[str]:
        """Return one sentence that names the rule that exposes, hides or forbids this path."""
        ...

    def hides(self, *, limit: int) -> MaybeAwaitable[Sequence[tuple[Path, str]]]:
        """Return up to `limit` hidden paths, each with the rule that hides it.

        A hidden collection implies everything below it.
        """
        ...

    def warnings(self, *, thorough: bool) -> MaybeAwaitable[Sequence[tuple[str, str]]]:
        """Return pairs of an option and one sentence.

        With an option (`tables.orders.key`), that option is a mistake: it names something that does
        not exist. Without one (`""`), it is a warning, such as about a login that can write.

        `check` and `serve --strict` ask thoroughly. Otherwise it is asked after each start, and
        should soon return the options that were to hide something and name nothing. If one would
        leave open what it was to hide, `__aenter__` had better raise `MountUnavailable`.
        """
        ...


class Link(Protocol):
    """Function that returns the URIs of a mount."""

    def __call__(self, path: Path, query: Mapping[str, str] | None = None) -> str:
        """Return the URI of a path, with URI parameters."""
        ...


@runtime_checkable
class SupportsMount(Protocol):
    """Puts URIs of its own resources into contents, or derives values from the server's key."""

    def mounted(self, link: Link, key: ServerKey) -> None:
        """Store what it needs of its mount; called once, before the provider is entered.

        `link` makes the URIs, such as those along foreign keys. `key` is the same after a restart
        and in every replica, if the manifest has one.
        """
        ...


@runtime_checkable
class SupportsParameters(Protocol):
    """Has URI parameters that models may use: tools offer them as arguments.

    `lines`, `bytes` and `tail` are ranges of documents, as a folder has them; `limit` is a number
    of rows, and `format` a representation.
    """

    @property
    def parameters(self) -> Set[str]:
        """Names of the URI parameters, always the same."""
        ...


@runtime_checkable
class SupportsTimeout(Protocol):
    """Gives its calls more time than the 20 seconds after which the server gives them up."""

    @property
    def call_timeout_s(self) -> float:
        """Seconds that one call may take.

        Constant, and available before the provider is entered.
        """
        ...


@runtime_checkable
class SupportsRecord(Protocol):
    """Has values in addresses and calls that the record of reads must not hold."""

    def recorded_address(
        self, path: Path, query: Mapping[str, str], *, served: bool
    ) -> tuple[Path, Mapping[str, str]]:
        """Return the address of a request as it is recorded, with `...` for such values.

        If it was not `served`, it may hold anything: the key of a hidden row, or a secret that a
        model has taken for a name.
        """
        ...

    def recorded_call(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Return what is recorded of a call that was served, such as SQL without its values."""
        ...
