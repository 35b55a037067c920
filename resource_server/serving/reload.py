"""The server of its sources, reloaded whenever a manifest or the client's folders change."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import stat
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import structs

from resource_server.catalog.mount import Mount, log_failure
from resource_server.errors import Diagnostic, ManifestError
from resource_server.manifest import Manifest, sources
from resource_server.protocol.client_features.client_roots import ClientRoots
from resource_server.protocol.server import Server
from resource_server.provider import ClientRoot
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.serving import client_folders, server_builder
from resource_server.serving.client_folders import OfferedFolder

logger = logging.getLogger(__name__)

Stamp: TypeAlias = tuple[int, ...] | None
"""Identity of a file's state; None while the file does not exist."""

_INTERVAL_S = 0.25
"""Interval of checks of the manifest; two equal states in a row mean that writing has ended."""
_GRACE_S = 10.0
"""Grace period for requests in flight in a removed mount."""
_LOADED = "the manifest was reloaded"
_OFFERED = "the client offers other folders"


class Tell(Protocol):
    """Tells the operator what happens to a manifest."""

    def __call__(self, text: str, *, prefix: bool = True) -> None:
        """Tell a line; without `prefix`, the line itself begins with its place."""
        ...


def _log(text: str, *, prefix: bool = True) -> None:
    logger.log(logging.INFO if prefix else logging.WARNING, "%s", text)


class _Built(NamedTuple):
    manifest: Manifest
    whole: Manifest
    """The manifest with a mount for each folder of the client."""
    server: Server
    refused: Sequence[str] = ()
    """Why other folders of the client are refused."""


class ReloadingServer:
    """The server of its sources. While it is entered, it follows their manifests.

    An invalid manifest is reported, and the last valid one stays in force. A mount with an
    unchanged entry is kept, with its requests and subscriptions. The code of plugins is loaded
    once: a changed `.py` file is not reloaded. Reads are recorded as the manifest says, unless
    `records` is false; their activity is a resource only if `shows_activity`.

    Manifests in `known` are those of the sources, which are not read before they change.

    Raises:
        ManifestError: the sources cannot be served; from the constructor only.
    """

    def __init__(
        self,
        *named: str,
        allow_plugins: bool,
        strict: bool = False,
        over_http: bool = False,
        known: Sequence[Manifest] = (),
        tell: Tell = _log,
        records: bool = True,
        shows_activity: bool = True,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._sources = named or (".",)
        self._timing = timing
        self._tell = tell
        self._allow_plugins = allow_plugins
        self._strict = strict
        files = {source: sources.manifest_file(source) for source in self._sources if not known}
        files |= {source: each.file for source, each in zip(self._sources, known, strict=False)}
        # Before the manifests are read, so that every later write is detected.
        stamps = _stamps(files)
        self._found = [*known] or [self._read(source) for source in self._sources]
        # A manifest added later to a plain folder must not change the served resources.
        self._files = {
            source: files[source]
            for source, found in zip(self._sources, self._found, strict=True)
            if found.file is not None
        }
        self._stamps = {source: stamps[source] for source in self._files}
        self._is_over_http = over_http
        self._shows_activity = shows_activity
        manifest = self._joined(self._found)
        self._recorder = server_builder.open_recorder(manifest, timing) if records else None
        self.server = server_builder.build_server(
            manifest, allow_plugins=allow_plugins, recorder=self._recorder, timing=timing
        )
        self.server.reloads = bool(self._files)
        self.server.may_watch = any(spec.watch for spec in manifest.client_roots)
        self._built = _Built(manifest, manifest, self.server)
        self.takes_samples = True
        """Whether a manifest with published secrets is served, as on this machine alone."""
        self.reports = True
        """Whether it tells of reloads: of several workers, one does."""
        self._audit = manifest.audit
        """Where reads are recorded, fixed at start."""
        self._http = manifest.http if over_http else None
        """The HTTP options in force, fixed at start; None over stdio."""
        self._building = threading.Lock()
        """Held from a build until the loop has the server: each build starts from the last one."""
        self._roots: ClientRoots | None = None
        self._is_connected = self._has_warned = False
        self._folders: Sequence[OfferedFolder] = ()
        """All folders that the client offers, served or refused."""
        self._reported: Sequence[Diagnostic] = ()
        self._stopping = threading.Event()
        self._ended = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def manifest(self) -> Manifest:
        """The last valid manifest."""
        return self._built.manifest

    @property
    def found(self) -> Sequence[Manifest]:
        """The last valid manifest of each source."""
        return self._found

    async def __aenter__(self) -> Server:
        # In the background: a slow mount must not delay the first response.
        for mount in self.server.catalog.mounts:
            mount.start_in_background()
        if not self._files:
            return self.server
        # A thread, since the file may be on a hanging drive; a daemon, since it may never end.
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._follow, args=(loop,), name="manifest", daemon=True).start()
        return self.server

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        self._ended.set()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self.server.__aexit__(None, None, None)

    def offer(self, roots: ClientRoots | None) -> None:
        """Serve the folders that the client offers and the manifest allows."""
        self._roots = roots
        self._is_connected = True
        if not self.manifest.client_roots:
            return
        if roots is not None:
            roots.follow(self._take)
        elif not self._has_warned:
            self._has_warned = True
            logger.warning(
                "the folders of the client are not served: it has no capability 'roots', "
                "or its revision is 2026-07-28 or later"
            )

    async def _take(self, roots: Sequence[ClientRoot]) -> None:
        from anyio import to_thread  # not at every start

        await to_thread.run_sync(self._serve_folders, roots, asyncio.get_running_loop())

    # -- in a thread

    def _serve_folders(self, roots: Sequence[ClientRoot], loop: asyncio.AbstractEventLoop) -> None:
        folders = client_folders.offered_folders(roots)
        with self._building, suppress(RuntimeError):  # the loop has ended
            self._folders = folders
            built = self._build(self.manifest)
            self._keep(built)
            loop.call_soon_threadsafe(self._adopt, built.server, _OFFERED)

    def _build(self, manifest: Manifest) -> _Built:
        """Return the server of a manifest and the client's folders."""
        offered = client_folders.folder_mounts(manifest, self._folders)
        whole = structs.replace(manifest, mounts=(*manifest.mounts, *offered.mounts))
        known = zip(self._built.whole.mounts, self._built.server.catalog.mounts, strict=True)
        if manifest.server.secret != self._built.manifest.server.secret:
            known = ()  # each provider has the key
        server = server_builder.build_server(
            whole,
            allow_plugins=self._allow_plugins,
            known=known,
            recorder=self._recorder,
            timing=self._timing,
        )
        return _Built(manifest, whole, server, offered.refused)

    def _keep(self, built: _Built) -> None:
        for reason in built.refused:
            if reason not in self._built.refused:
                logger.warning("a folder of the client is not served: %s", reason)
        self._built = built

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reload the manifest once a change has settled."""
        before = self._stamps
        while not self._stopping.wait(_INTERVAL_S) and not loop.is_closed():
            now = _stamps(self._files)
            if now == before != self._stamps:
                changed = [source for source in now if now[source] != self._stamps[source]]
                if any(now[source] is None for source in changed):
                    logger.warning("the manifest is gone; its last version stays in force")
                if all(now[source] is None for source in changed):
                    self._stamps = now
                else:
                    with self._building, suppress(RuntimeError):  # the loop has ended
                        if (server := self._load(now)) is not None:
                            loop.call_soon_threadsafe(self._adopt, server, _LOADED)
            before = now

    def _read(self, source: str) -> Manifest:
        return server_builder.source_manifest(
            source, allow_plugins=self._allow_plugins, strict=self._strict
        )

    def _load(self, stamps: Mapping[str, Stamp]) -> Server | None:
        """Load the manifests in this state; report problems and return None if any is invalid."""
        built, found = None, self._found
        diagnostics: Sequence[Diagnostic] = ()
        try:
            found = [
                before if stamps.get(source) is None else self._read(source)
                for source, before in zip(self._sources, self._found, strict=True)
            ]
            manifest = self._joined(found)
            if not self.takes_samples and manifest.published_secrets:
                raise ManifestError(manifest.published_secrets)
            built = self._build(manifest)
        except ManifestError as error:
            diagnostics = error.diagnostics
        except Exception as error:
            log_failure(error, "loading the manifest again failed")
        if _stamps(self._files) != stamps:
            return None  # changed during the read, so perhaps incomplete; checked again later
        self._stamps = stamps
        self._report(diagnostics)
        if built is None:
            return None
        self._found = found
        self._report_fixed(built.manifest)
        self._keep(built)
        return built.server

    def _report_fixed(self, manifest: Manifest) -> None:
        """Warn once about changes of `http` and `audit`, which need a restart."""
        http, audit = manifest.http, manifest.audit
        is_new = self._http is not None and http not in (self._http, self.manifest.http)
        if is_new and self.reports:
            logger.warning("http has changed in the manifest; restart to apply it")
        if audit not in (self._audit, self.manifest.audit) and self.reports:
            logger.warning("audit has changed in the manifest; restart to apply it")

    def _joined(self, found: Sequence[Manifest]) -> Manifest:
        manifest = server_builder.joined_manifest(self._sources, found)
        if not self._shows_activity or (self._is_over_http and not manifest.http.auth):
            # Callers without a token have all scopes, and would see what everybody reads.
            mounts = [spec for spec in manifest.mounts if spec.path[:1] != ("audit",)]
            manifest = structs.replace(manifest, mounts=tuple(mounts))
        return manifest

    def _report(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Report the problems of the manifest, unless they are the same as before."""
        if diagnostics and diagnostics == self._reported:
            logger.debug("the manifest is still invalid")
        elif diagnostics and self.reports:
            logger.warning("the manifest is invalid; its last version stays in force")
            for diagnostic in diagnostics:
                self._tell(str(diagnostic), prefix=False)
        self._reported = diagnostics

    # -- on the event loop

    def _adopt(self, server: Server, why: str) -> None:
        """Take over the catalog of another server."""
        if self._ended.is_set():
            return
        before, after = self.server.catalog.mounts, server.catalog.mounts
        self.server.adopt(server)
        self.server.broker.replace_catalog(server.catalog, relist=before != after)
        if why == _LOADED and self.reports:
            self._tell(f"{why}: {_difference(before, after)}")
        else:
            logger.info("%s: %s", why, _difference(before, after))
        for mount in after:
            if mount not in before:
                mount.start_in_background()
            elif why == _LOADED:
                mount.look_for_mistakes()
        unused = [mount for mount in before if mount not in after]
        if unused:
            task = asyncio.create_task(self._close(unused))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        if self._is_connected:
            self.offer(self._roots)

    async def _close(self, unused: Sequence[Mount]) -> None:
        """Close mounts after a grace period, or when serving ends."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await self._ended.wait()
        for mount in unused:
            await mount.close()


def _stamps(files: Mapping[str, pathlib.Path | None]) -> dict[str, Stamp]:
    return {source: _stamp(file) for source, file in files.items()}


def _stamp(file: pathlib.Path | None) -> Stamp:
    try:
        found = file.stat() if file is not None else None
    except (OSError, ValueError):
        return None
    if found is None or not stat.S_ISREG(found.st_mode):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _difference(before: Collection[Mount], after: Collection[Mount]) -> str:
    """Return the differences between two sets of mounts: `added a, b; changed c`."""
    old = {mount.name: mount for mount in before}
    new = {mount.name: mount for mount in after}
    changes = {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "changed": [name for name, mount in new.items() if old.get(name, mount) is not mount],
    }
    differences = [f"{verb} {', '.join(names)}" for verb, names in changes.items() if names]
    return "; ".join(differences) or "no mount changed"
