"""The mounts that each caller sees.

Resources are invisible to callers without the scopes that `access` in the manifest requires. So a
mount is left out for them, or replaced by one whose provider is narrowed; every request, listing,
completion, subscription and notification goes through these mounts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resource_server import uris
from resource_server.access import Scopes, current
from resource_server.catalog.mount import Mount
from resource_server.errors import ResourceNotFound
from resource_server.provider import Path

_MAX_COMBINATIONS = 256
"""Maximum combinations of scopes whose mounts are cached."""


class VisibleMounts:
    """The mounts that callers with the same scopes see, in manifest order."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self.mounts = tuple(mounts)
        self._routes: dict[tuple[str, str], list[tuple[Path, Mount]]] = {}
        for mount in self.mounts:
            base = uris.parse(mount.base)
            self._routes.setdefault((base.scheme, base.authority), []).append((base.path, mount))
        for routes in self._routes.values():
            routes.sort(key=lambda route: len(route[0]), reverse=True)

    def route(self, uri: str) -> tuple[Mount, Path, Mapping[str, str]]:
        """Return the mount of a URI, the path below it and the URI parameters.

        Raises:
            ResourceNotFound: no visible mount has this URI.
        """
        reference = uris.parse(uri)
        for base, mount in self._routes.get((reference.scheme, reference.authority), ()):
            if reference.path[: len(base)] == base:
                return mount, reference.path[len(base) :], reference.query
        raise ResourceNotFound


class Visibility:
    """The mounts of a catalog by the scopes of callers."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self.scopes = frozenset[str]().union(
            *(mount.access | mount.inner_access for mount in mounts)
        )
        """All scopes that any mount or part of one requires."""
        self._all = VisibleMounts(mounts)
        self._by_scopes: dict[frozenset[str], VisibleMounts] = {}

    def current(self) -> VisibleMounts:
        """Return the mounts that the current caller sees."""
        return self.for_scopes(current().scopes) if self.scopes else self._all

    def for_scopes(self, scopes: Scopes) -> VisibleMounts:
        """Return the mounts that a caller with these scopes sees."""
        if scopes is None or not self.scopes:
            return self._all
        held = self.scopes & scopes
        visible = self._by_scopes.get(held)
        if visible is None:
            narrowed = [mount.narrowed(held) for mount in self._all.mounts]
            visible = VisibleMounts([mount for mount in narrowed if mount is not None])
            if len(self._by_scopes) >= _MAX_COMBINATIONS:
                self._by_scopes.clear()
            self._by_scopes[held] = visible
        return visible
