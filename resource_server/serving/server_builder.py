"""Builds the server of one or several sources from their manifests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self, cast

from resource_server import access, uris
from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.mount import Mount, describe_error, log_failure
from resource_server.errors import IN_CHECK, ManifestError, MountUnavailable, ResourceNotFound
from resource_server.manifest import Manifest, MountSpec, ServerOptions, sources
from resource_server.manifest.audit import AuditFileOptions
from resource_server.protocol.server import Server
from resource_server.protocol.tools.registry import ToolSettings
from resource_server.provider import Content, Path, Provider, Resource, Template
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

if TYPE_CHECKING:
    from resource_server.audit.activity import Activity
    from resource_server.audit.recorder import Recorder

logger = logging.getLogger(__name__)

_PAGES = 63
"""Maximum pages of the global listing after the first one."""
_MAX_GROWN_PAGE = 1000


def load_manifest(*named: str, allow_plugins: bool, strict: bool = False) -> Manifest:
    """Return the manifest of the named sources, by default of the current folder.

    `strict` also imports plugins to check their options.

    Raises:
        ManifestError: all problems of the first source that has any, or between the sources.
    """
    found = [
        source_manifest(source, allow_plugins=allow_plugins, strict=strict)
        for source in named or (".",)
    ]
    return joined_manifest(named, found)


def joined_manifest(named: Sequence[str], found: Sequence[Manifest]) -> Manifest:
    """Return the manifests of the named sources as one.

    Raises:
        ManifestError: all problems between the sources.
    """
    if len(found) == 1:
        return found[0]
    # Imported here: most servers have one source.
    from resource_server.manifest import several_sources

    parts = map(several_sources.NamedSource, named, found)
    return several_sources.joined(list(parts))


def source_manifest(source: str, *, allow_plugins: bool, strict: bool = False) -> Manifest:
    """Return the manifest of one source; `strict` also imports plugins to check their options.

    Raises:
        ManifestError: all problems of the manifest.
    """
    if not strict:
        return sources.find_manifest(source)
    # Imported here and below: a plain folder needs no plugins.
    from resource_server import plugins

    return plugins.find_with_plugins(source, allow_plugins=allow_plugins)


def build_server(
    manifest: Manifest,
    *,
    allow_plugins: bool,
    known: Iterable[tuple[MountSpec, Mount]] = (),
    recorder: Recorder | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> Server:
    """Return the server of a manifest, not started. A failing plugin only fails its mount.

    Mounts in `known` are reused if their specification is unchanged. `recorder` is what
    `open_recorder` returns for a manifest; without it, nothing is recorded.
    """
    options = manifest.server
    for problem in manifest.published_secrets:
        logger.warning("%s", problem, extra=IN_CHECK)
    limits = CatalogLimits(
        page_size=options.page_size,
        next_page_size=_next_page_size(options),
        listing_max=options.listing.max,
        listing_depth=options.listing.depth,
        collection_children=options.collection_read.children,
        collection_bytes=options.collection_read.bytes,
        links_to_binary=options.collection_read.binary == "link",
        alternatives=options.alternatives == "inline",
    )
    usable = {
        spec.name: (spec, mount)
        for spec, mount in known
        if not mount.provider.is_instance(_Unloadable)
    }
    mounts: list[Mount] = []
    for spec in manifest.mounts:
        old_spec, mount = usable.get(spec.name, (None, None))
        if mount is None or old_spec != spec:
            mount = _mount(spec, manifest, allow_plugins=allow_plugins, timing=timing)
        else:
            mount.located = _locator(spec, manifest)  # its entry may have moved
        if spec.path == ("audit", "access"):
            cast("Activity", spec.use).recorder = recorder
        mounts.append(mount)
    for mount in mounts:
        if note := claims_note(manifest, mount.claims):
            logger.warning("mount %s: %s", mount.name, note, extra=IN_CHECK)
    return Server(
        Catalog(mounts, limits, timing, options.claims),
        name=options.name,
        title=options.title,
        instructions=options.instructions,
        ttl_ms=round(options.cache.ttl * 1000),
        cache_scope=options.cache.scope,
        prompts=manifest.prompts,
        tools=_tool_settings(manifest),
        key=options.secret,
        recorder=recorder,
        timing=timing,
    )


def claims_note(manifest: Manifest, claims: Collection[str]) -> str | None:
    """Return a mistake about the claims that a mount uses: nobody has them, or two people one."""
    given, auth = manifest.server.claims, manifest.http.auth
    if auth:
        if len(auth.issuers) < 2 or not claims or "iss" in claims or access.WHOLE in claims:
            return None
        return (
            f"issuers name callers independently, so {', '.join(sorted(claims))} may be equal for "
            "callers of two; compare `:claims.iss`, too"
        )
    lacking = [name for name in sorted(claims) if access.usable_claim(given, name) is None]
    if not lacking:
        return None
    names = ", ".join(name or "all claims" for name in lacking)
    return (
        f"what depends on the caller's {names} does not exist without tokens; write "
        f"`claims: {{{lacking[0] or 'sub'}: …}}` in `server`, or `http.auth`"
    )


def open_recorder(manifest: Manifest, timing: Timing = DEFAULT_TIMING) -> Recorder | None:
    """Return the recorder of a manifest; None if it records nothing.

    Raises:
        ManifestError: nothing can be written to the file.
    """
    audit = manifest.audit
    if audit is None:
        return None
    # Imported here: most servers have no record.
    from resource_server.audit.audit_file import AuditFile, unusable
    from resource_server.audit.recorder import Recorder, StandardError

    try:
        if not isinstance(audit, AuditFileOptions):
            return Recorder(StandardError(), timing=timing)
        file = AuditFile(audit.file.absolute(), rotate=audit.rotate, keep=audit.keep)
        refuses = audit.on_error == "refuse"
        return Recorder(file, last=file.last, tail=file.tail, refuses=refuses, timing=timing)
    except OSError as error:
        at = ("audit", "file")
        raise ManifestError([manifest.positions.problem(at, unusable(error))]) from None


def _next_page_size(options: ServerOptions) -> int:
    """Return how many resources a further page has: widely used clients stop after 64 pages."""
    grown = min(_MAX_GROWN_PAGE, 10 * options.page_size)
    return max(options.page_size, grown, -(-options.listing.max // _PAGES))


def _tool_settings(manifest: Manifest) -> ToolSettings:
    tools = manifest.tools
    queries = {spec.name for spec in manifest.mounts if spec.path[:1] == ("databases",)}
    return ToolSettings(
        enabled=tools.enabled,
        search=tools.search,
        prefix=tools.prefix,
        budget=tools.budget,
        structured=tools.structured,
        without=frozenset() if tools.queries else frozenset(queries),
    )


def make_providers(manifest: Manifest, *, allow_plugins: bool) -> Iterable[tuple[str, Provider]]:
    """Return a new provider for each mount, by mount name."""
    for spec in manifest.mounts:
        yield spec.name, _provider(spec, manifest, allow_plugins=allow_plugins)


def _mount(spec: MountSpec, manifest: Manifest, *, allow_plugins: bool, timing: Timing) -> Mount:
    make = partial(
        Mount,
        spec.name,
        spec.base,
        title=spec.title,
        description=spec.description,
        annotations=spec.annotations,
        listed=spec.listed,
        access=spec.access,
        watch=spec.watch,
        located=_locator(spec, manifest),
        key=manifest.server.secret,
        timing=timing,
    )
    provider = _provider(spec, manifest, allow_plugins=allow_plugins)
    try:
        return make(provider)
    except Exception as error:  # the code of a plugin, such as its `restrictions`
        log_failure(error, f"making mount {spec.name} failed")
        return make(_Unloadable(describe_error(error)))


def _locator(spec: MountSpec, manifest: Manifest) -> Callable[[str, str], str]:
    """Return the function that puts the problem of an option of a mount into words."""
    positions = (spec.origin or manifest).positions

    def located(option: str, problem: str) -> str:
        return str(positions.problem(positions.named(spec.path, option), uris.display(problem)))

    return located


def _provider(spec: MountSpec, manifest: Manifest, *, allow_plugins: bool) -> Provider:
    if not isinstance(spec.use, str):
        return spec.use
    from resource_server import plugins

    try:
        return plugins.load_provider(spec, manifest, allow_plugins=allow_plugins)
    except ManifestError as error:
        return _Unloadable("; ".join(map(str, error.diagnostics)))


class _Unloadable:
    """Replaces a provider that cannot be created: its mount exists but never starts."""

    def __init__(self, reason: str) -> None:
        self.templates: Sequence[Template] = ()
        self._reason = reason

    async def __aenter__(self) -> Self:
        raise MountUnavailable(self._reason)

    async def __aexit__(self, *_: object) -> None:
        pass

    def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        raise ResourceNotFound

    def metadata(self, path: Path) -> Resource:
        raise ResourceNotFound

    def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        raise ResourceNotFound
