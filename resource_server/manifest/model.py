"""The validated manifest: frozen, every value in its own type, positions kept for diagnostics.

The attribute docstrings are the manifest's reference: the JSON Schema carries them to editors.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from resource_server.access import OPEN, Access
from resource_server.manifest.data import DataPath, Positions
from resource_server.manifest.http import Http
from resource_server.manifest.prompts import Prompt
from resource_server.provider import Annotations, ByteSize, Provider
from resource_server.runtime.option_types import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionRead:
    """How much one read of a collection may return; what does not fit is left out, and said so."""

    children: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Direct children at most."""
    bytes: ByteSize = ByteSize(256 * 1024)
    """Bytes of content at most, before base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Caching hints for clients (MCP revision 2026-07-28)."""

    ttl: Duration = Duration(0)
    """How long an answer may be kept."""
    scope: Literal["private", "public"] = "private"
    """Whether caches may share an answer between users; never where anything has an `access`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What the server says of itself, and limits of every mount."""

    name: Annotated[str, Meta(min_length=1)] = "resource-server"
    """The server's name as clients see it."""
    title: str | None = None
    """The server's name for people."""
    instructions: str | None = None
    """How to use what is served; clients may give it to the model."""
    page_size: Annotated[int, Meta(ge=1, le=1000)] = 100
    """Items in a page of every listing."""
    collection_read: CollectionRead = CollectionRead()
    """How much one read of a collection may return."""
    alternatives: Literal["on-request", "inline"] = "on-request"
    """Whether reading a document returns its other formats as well."""
    cache: Cache = Cache()
    """Caching hints for clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Which tools clients may call; `false` in its place: none."""

    enabled: bool = True
    """Whether there are tools at all."""
    search: bool = True
    """Whether one of them searches."""
    queries: bool = True
    """Whether what databases declare are tools as well."""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{0,64}$")] = ""
    """What all their names begin with: `acme_`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountOptions:
    """The options that every mount has, whatever its provider."""

    uri: str | None = None
    """Base URI of its resources, such as `docs://handbook/`."""
    title: str | None = None
    """Name for people."""
    description: str | None = None
    """What it holds, for people and models."""
    annotations: Annotations | None = None
    """For whom its resources are, and how important."""
    listed: bool = True
    """False: readable by URI, but not in the global listing."""
    access: Access = OPEN
    """Who may see it, where `http.auth` asks for tokens."""
    watch: Literal["auto", "off"] = "auto"
    """Whether changes are noticed when they happen; `off`: subscribing is not advertised, and what
    is subscribed to is compared every 30 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFolders:
    """Folders that the client offers (MCP roots), each of them a mount of its own."""

    allow: Annotated[tuple[pathlib.Path, ...], Meta(min_length=1)] = ()
    """With `from: client`: the folders below which the client's may be, relative to the manifest;
    by default they may be anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSpec:
    """One served thing as the manifest describes it; `plugins.load` makes its provider."""

    name: str
    base: str
    """Canonical base URI, ending in `/`."""
    use: str | Provider
    """A reference to the provider's class, or the provider itself."""
    title: str | None = None
    description: str | None = None
    annotations: Annotations | None = None
    listed: bool = True
    access: frozenset[str] = frozenset()
    """The scopes without which it does not exist."""
    watch: bool = True
    """False: the provider is not asked for changes."""
    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """The provider's own, as the YAML has them, environment variables filled in."""
    path: DataPath = ()
    """Where the mount stands in the manifest: `("roots", "project")`."""
    client: ClientFolders | None = None
    """Not None: no mount, but what those are made of that the client offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What to serve. Mounts come in the order of the file."""

    file: pathlib.Path | None
    """As it was named; None where a folder is served without one."""
    directory: pathlib.Path
    """Absolute; what relative paths are relative to."""
    server: Server = Server()
    http: Http = field(default_factory=Http)
    mounts: tuple[MountSpec, ...] = ()
    client_roots: tuple[MountSpec, ...] = ()
    """Whose mounts are those that the client offers: a folder is of the first that allows it."""
    tools: Tools = Tools()
    prompts: Mapping[str, Prompt] = field(default_factory=dict[str, Prompt])
    positions: Positions = field(default=Positions(), repr=False)
