"""Listeners of `list_changed`, by the scopes that decide which mounts they see."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from resource_server.access import Scopes
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.subscriptions.topic import Listener


class ListFollowers:
    """Listeners of the listing, and those of them that the next notification is due for."""

    def __init__(self) -> None:
        self._listeners: dict[Scopes, dict[Listener, None]] = {}
        self._due: set[Scopes] = set()

    def add(self, listener: Listener, scopes: Scopes) -> bool:
        """Add a listener, or give one other scopes; return whether `mounts` may differ now."""
        was_last = self.remove(listener)
        listeners = self._listeners.setdefault(scopes, {})
        listeners[listener] = None
        return was_last or len(listeners) == 1

    def remove(self, listener: Listener) -> bool:
        """Remove a listener; return whether `mounts` may differ now."""
        for scopes, listeners in self._listeners.items():
            if listener in listeners:
                del listeners[listener]
                if not listeners:
                    del self._listeners[scopes]
                return not listeners
        return False

    def clear(self) -> None:
        """Remove all listeners."""
        self._listeners.clear()

    def mounts(self, catalog: Catalog) -> Collection[Mount]:
        """Return the mounts whose listing has followers, in manifest order."""
        visible = (catalog.visibility.for_scopes(scopes).mounts for scopes in self._listeners)
        return dict.fromkeys(mount for mounts in visible for mount in mounts if mount.listed)

    def waiting(self, catalog: Catalog, mount: Mount) -> Sequence[Scopes]:
        """Return the scopes of followers who see a mount and whose notification is not due yet."""
        return [
            scopes
            for scopes in self._listeners
            if scopes not in self._due and mount in catalog.visibility.for_scopes(scopes).mounts
        ]

    def differing(self, before: Catalog, after: Catalog) -> Sequence[Scopes]:
        """Return the scopes of followers who see other mounts in one catalog than in another."""
        return [
            scopes
            for scopes in self._listeners
            if before.visibility.for_scopes(scopes).mounts
            != after.visibility.for_scopes(scopes).mounts
        ]

    def expect(self, scopes: Iterable[Scopes]) -> bool:
        """Make a notification due for followers with these scopes; return whether any is due."""
        self._due.update(scopes)
        return bool(self._due)

    def take(self) -> Sequence[Listener]:
        """Return the listeners whose notification is due; it is no longer due afterwards."""
        due, self._due = self._due, set()
        return [listener for scopes in due for listener in self._listeners.get(scopes, ())]
