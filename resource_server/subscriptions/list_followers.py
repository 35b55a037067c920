"""Who is told when other resources are listed than before: by their scopes, for what they see."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from resource_server.access import Scopes
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.subscriptions.topic import Listener


class ListFollowers:
    """Listeners of what is listed, and those who are about to be told."""

    def __init__(self) -> None:
        self._listeners: dict[Scopes, dict[Listener, None]] = {}
        self._due: set[Scopes] = set()

    def add(self, listener: Listener, scopes: Scopes) -> bool:
        """Take in a listener, with other scopes than before perhaps.

        Tell whether other mounts may be followed by that.
        """
        was_last = self.remove(listener)
        listeners = self._listeners.setdefault(scopes, {})
        listeners[listener] = None
        return was_last or len(listeners) == 1

    def remove(self, listener: Listener) -> bool:
        """Forget a listener; tell whether other mounts may be followed by that."""
        for scopes, listeners in self._listeners.items():
            if listener in listeners:
                del listeners[listener]
                if not listeners:
                    del self._listeners[scopes]
                return not listeners
        return False

    def clear(self) -> None:
        """Forget everybody."""
        self._listeners.clear()

    def mounts(self, catalog: Catalog) -> Collection[Mount]:
        """Return the mounts whose listing anybody follows, in the order of the manifest."""
        seen = (catalog.visibility.for_scopes(scopes).mounts for scopes in self._listeners)
        return dict.fromkeys(mount for mounts in seen for mount in mounts if mount.listed)

    def untold(self, catalog: Catalog, mount: Mount) -> Sequence[Scopes]:
        """Return the scopes of those who see a mount and are not about to be told."""
        return [
            scopes
            for scopes in self._listeners
            if scopes not in self._due and mount in catalog.visibility.for_scopes(scopes).mounts
        ]

    def differing(self, before: Catalog, after: Catalog) -> Sequence[Scopes]:
        """Return the scopes of those who see other mounts in one catalog than in another."""
        return [
            scopes
            for scopes in self._listeners
            if before.visibility.for_scopes(scopes).mounts
            != after.visibility.for_scopes(scopes).mounts
        ]

    def expect(self, scopes: Iterable[Scopes]) -> bool:
        """Take note that those who have these scopes are to be told; say whether anybody is."""
        self._due.update(scopes)
        return bool(self._due)

    def take(self) -> Sequence[Listener]:
        """Return who is to be told, and expect it of nobody any more."""
        due, self._due = self._due, set()
        return [each for scopes in due for each in self._listeners.get(scopes, ())]
