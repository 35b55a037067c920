"""The validated manifest: frozen values, with positions for diagnostics.

The docstrings of the options are the reference of the manifest; the JSON Schema quotes them.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from resource_server.access import OPEN, Access
from resource_server.errors import Diagnostic
from resource_server.manifest.audit import Audit
from resource_server.manifest.data import DataPath, Positions
from resource_server.manifest.http import ExplorerOptions, Http, is_published
from resource_server.manifest.prompts import Prompt
from resource_server.provider import Annotations, ByteSize, Provider
from resource_server.runtime.option_types import Duration
from resource_server.runtime.server_key import ServerKey, process_key

_SHORTEST_KEY = 32
_LONGEST_KEY_BYTES = 4096
_PUBLISHED = "is a sample, which everybody may know; write one as 'openssl rand -hex 32' prints it"


class ListingLimits(Struct, frozen=True, kw_only=True):
    """Bounds of the global listing (`resources/list`)."""

    max: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
    """Maximum resources. The rest is found below the collections that are listed."""
    depth: Annotated[int, Meta(ge=1, le=100)] = 20
    """Maximum levels below a root, database or provider."""


class CollectionLimits(Struct, frozen=True, kw_only=True):
    """Limits of one read of a collection. A truncated result is marked."""

    children: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    """Maximum direct children."""
    bytes: ByteSize = ByteSize(256 * 1024)
    """Maximum bytes of content, before base64, shared among the documents: of those that exceed
    their share, the read has the beginning."""
    binary: Literal["blob", "link"] = "blob"
    """Whether binary documents are returned as blobs, or as links in text, for hosts that refuse
    blobs."""


class Cache(Struct, frozen=True, kw_only=True):
    """Caching hints for clients (MCP revision 2026-07-28)."""

    ttl: Duration = Duration(0)
    """How long clients may cache a result."""
    scope: Literal["private", "public"] = "private"
    """Whether caches may share a result between users; never, if anything has `access`."""


class KeyFile(Struct, frozen=True, kw_only=True):
    """A file that holds the key of the server, such as a mounted secret."""

    file: pathlib.Path
    """Path, relative to the manifest; spaces and line ends around the key are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The server's identity, and limits that apply to every mount."""

    name: Annotated[str, Meta(min_length=1)] = "resource-server"
    """Name of the server, for programs."""
    title: str | None = None
    """Name of the server, for people."""
    instructions: str | None = None
    """How to use the resources; clients may pass it to the model."""
    page_size: Annotated[int, Meta(ge=1, le=1000)] = 100
    """Maximum items per page of a listing. Further pages of resources have up to ten times as many,
    so that 64 pages reach the end of the global listing."""
    listing: ListingLimits = field(default_factory=ListingLimits)
    """Bounds of the global listing (`resources/list`): mounts first, those of high priority before
    the others, then level by level, collections before documents."""
    collection_read: CollectionLimits = field(default_factory=CollectionLimits)
    """Limits of one read of a collection."""
    alternatives: Literal["on-request", "inline"] = "on-request"
    """Whether reading a document returns all its formats (`inline`) or only the requested one."""
    cache: Cache = field(default_factory=Cache)
    """Caching hints for clients."""
    key: str | KeyFile | None = field(default=None, repr=False)
    """A secret of 32 or more characters, from an environment variable or a `file`. With the same
    key, masks of kind `hash` are the same after every start and in every replica, and every replica
    continues sessions, and calls that another has begun with a question."""
    secret: ServerKey = field(init=False, repr=False, default_factory=process_key)
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Claims of callers without tokens, over stdio or without `http.auth`: `{sub: alice}`. Without
    them, tables and queries whose rows depend on claims do not exist for these callers."""
    has_published_key: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        if self.key is not None:
            text = _key_text(self.key)
            secret = ServerKey(text.encode("utf-8", "surrogateescape"))
            object.__setattr__(self, "secret", secret)
            object.__setattr__(self, "has_published_key", is_published(text))


def _key_text(key: str | KeyFile) -> str:
    option, text = "key", key
    if isinstance(text, KeyFile):
        option, text = "key.file", _key_in(text.file)
    text = text.strip()
    if not text:
        raise ValueError(f"{option}: is empty; write one as 'openssl rand -hex 32' prints it")
    if len(text) < _SHORTEST_KEY:
        raise ValueError(
            f"{option}: is too short ({len(text)} characters; {_SHORTEST_KEY} or more are needed); "
            "write one as 'openssl rand -hex 32' prints it"
        )
    return text


def _key_in(file: pathlib.Path) -> str:
    if file.exists() and not file.is_file():
        raise ValueError("key.file: is not a regular file")
    try:
        with file.open("rb") as opened:
            data = opened.read(_LONGEST_KEY_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or "input or output failed").lower()
        raise ValueError(f"key.file: cannot be read: {reason}") from None
    if len(data) > _LONGEST_KEY_BYTES:
        raise ValueError(f"key.file: is longer than {_LONGEST_KEY_BYTES} bytes; is it the key?")
    return data.decode("utf-8", "surrogateescape")


class Tools(Struct, frozen=True, kw_only=True):
    """The tools that clients may call; `tools: false` removes all of them."""

    enabled: bool = True
    """Whether to offer any tools."""
    search: bool = True
    """Whether to offer the search tool."""
    queries: bool = True
    """Whether to offer each declared query of a database as a tool."""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{0,64}$")] = ""
    """Prefix of every tool name, such as `acme_`."""
    budget: Annotated[int, Meta(ge=1000, le=1_000_000)] = 25_000
    """Maximum characters of a result, as text or as JSON. A truncated result says how to go on."""
    structured: bool = True
    """Whether results are also JSON (`structuredContent`); some hosts give a model only that."""


class MountOptions(Struct, frozen=True, kw_only=True):
    """The options of every mount, whatever its provider."""

    uri: str | None = None
    """Base URI of the resources, such as `docs://handbook/`."""
    title: str | None = None
    """Name, for people."""
    description: str | None = None
    """Description, for people and models."""
    annotations: Annotations | None = None
    """Audience and priority of the resources."""
    listed: bool = True
    """Whether the resources appear in the global listing; `false` leaves them readable by URI."""
    access: Access = OPEN
    """Scopes required to see it. Needs `http.auth`."""
    watch: Literal["auto", "off"] = "auto"
    """How changes are detected. With `off`, subscriptions are not advertised, and subscribed
    resources are compared every 30 s."""


class ClientFolders(Struct, frozen=True, kw_only=True):
    """Folders offered by the client (MCP roots), each a mount of its own."""

    allow: Annotated[tuple[pathlib.Path, ...], Meta(min_length=1)] = ()
    """With `from: client`: folders, relative to the manifest, that must contain the client's
    folders; by default any folder is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The manifest that a mount or prompt was written in, if a server has several sources."""

    directory: pathlib.Path
    """Absolute path against which relative paths are resolved."""
    positions: Positions = field(default=Positions(), compare=False, repr=False)


class MountSpec(Struct, frozen=True, kw_only=True):
    """One mount as the manifest describes it; `plugins.load_provider` makes its provider."""

    name: str
    base: str
    """Canonical base URI, ending in `/`."""
    use: str | Provider
    """A provider reference, or the provider itself."""
    title: str | None = None
    description: str | None = None
    annotations: Annotations | None = None
    listed: bool = True
    access: frozenset[str] = frozenset()
    """Required scopes; the mount does not exist for a caller without them."""
    watch: bool = True
    """Whether to ask the provider for changes."""
    options: Mapping[str, object] = {}
    """The provider's own options as plain data, with environment variables filled in."""
    path: DataPath = ()
    """Data path of the mount in the manifest: `("roots", "project")`."""
    withheld: Mapping[str, str] = {}
    """For a folder: absolute paths of files that it never serves, each with the reason."""
    origin: Origin | None = None
    """None: the manifest that has this mount."""
    client: ClientFolders | None = None
    """If set, this is no mount itself but the pattern for mounts of the client's folders."""

    def __repr__(self) -> str:
        # Options may hold secrets.
        return f"MountSpec({self.name!r}, {self.base!r})"


class Manifest(Struct, frozen=True, kw_only=True):
    """The mounts, in the order of the file, and the options of the server."""

    file: pathlib.Path | None
    """Path as given; None if a folder or database is served without a manifest, or with others."""
    directory: pathlib.Path
    """Absolute path against which relative paths are resolved."""
    server: ServerOptions = ServerOptions()
    http: Http = Http()
    mounts: tuple[MountSpec, ...] = ()
    client_roots: tuple[MountSpec, ...] = ()
    """Patterns for the client's folders; the first that allows a folder makes its mount."""
    tools: Tools = Tools()
    audit: Audit = None
    """Where reads are recorded; None if they are not."""
    prompts: Mapping[str, Prompt] = {}
    prompt_origins: Mapping[str, Origin] = {}
    """Where the prompts of several sources were written."""
    positions: Positions = Positions()
    withheld: Mapping[str, str] = {}
    """Absolute paths of files that no folder serves, each with the reason."""

    @property
    def variables(self) -> frozenset[str]:
        """Environment variables that have given values."""
        parts = (spec.origin for spec in (*self.mounts, *self.client_roots))
        return self.positions.variables.union(*(each.positions.variables for each in parts if each))

    @property
    def published_secrets(self) -> Sequence[Diagnostic]:
        """Problems of tokens and keys that are published samples, with positions."""
        found: list[DataPath] = []
        for number, each in enumerate(self.http.auth.tokens if self.http.auth else ()):
            if is_published(each if isinstance(each, str) else each.token):
                found.append(("http", "auth", "tokens", number))
        client = self.http.explorer
        if isinstance(client, ExplorerOptions) and is_published(client.client_secret or ""):
            found.append(("http", "explorer", "client_secret"))
        if self.server.has_published_key:
            found.append(("server", "key"))
        return [self.positions.problem(path, _PUBLISHED) for path in found]

    def __repr__(self) -> str:
        # Options may hold secrets.
        return f"Manifest({self.file!r}, {self.mounts!r})"
