"""What somebody sees: of all mounts those that their scopes allow, and of each as much.

For who lacks the scopes of an `access` in the manifest, what it is said of does not exist. So a
mount is left out, or another one stands in its place whose provider has been narrowed; what is
asked, listed, completed, subscribed to and told is asked of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resource_server import uris
from resource_server.access import Scopes, current
from resource_server.catalog.mount import Mount
from resource_server.errors import ResourceNotFound
from resource_server.provider import Path

_MAX_KEPT = 256


class VisibleMounts:
    """The mounts that somebody sees, as they see them, in manifest order."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self.mounts = tuple(mounts)
        self._routes: dict[tuple[str, str], list[tuple[Path, Mount]]] = {}
        for mount in self.mounts:
            base = uris.parse(mount.base)
            self._routes.setdefault((base.scheme, base.authority), []).append((base.path, mount))
        for routes in self._routes.values():
            routes.sort(key=lambda route: len(route[0]), reverse=True)

    def route(self, uri: str) -> tuple[Mount, Path, Mapping[str, str]]:
        """Return the mount of a URI with the path below it and the query; nothing is asked.

        Raises:
            ResourceNotFound: there is none.
        """
        reference = uris.parse(uri)
        for base, mount in self._routes.get((reference.scheme, reference.authority), ()):
            if reference.path[: len(base)] == base:
                return mount, reference.path[len(base) :], reference.query
        raise ResourceNotFound


class Visibility:
    """What each sees of the same mounts."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self.scopes = frozenset[str]().union(*(mount.access | mount.inner for mount in mounts))
        """Those that anything needs."""
        self._whole = VisibleMounts(mounts)
        self._parts: dict[frozenset[str], VisibleMounts] = {}

    def current(self) -> VisibleMounts:
        """Return what those see for whom something is being done now."""
        return self.for_scopes(current().scopes) if self.scopes else self._whole

    def for_scopes(self, scopes: Scopes) -> VisibleMounts:
        """Return what somebody sees who has these scopes."""
        if scopes is None or not self.scopes:
            return self._whole
        held = self.scopes & scopes
        seen = self._parts.get(held)
        if seen is None:
            found = [mount.narrowed(held) for mount in self._whole.mounts]
            seen = VisibleMounts([mount for mount in found if mount is not None])
            if len(self._parts) >= _MAX_KEPT:
                self._parts.clear()
            self._parts[held] = seen
        return seen
