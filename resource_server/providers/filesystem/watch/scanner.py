"""The exposed directories as last looked at: arms their watches, tells what came, went and moved.

Only what matters to somebody is looked at: every exposed directory while the listing does, else
those on the way to what is subscribed to. A directory is watched first and read then, so what
comes into it in between is found by one or the other.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

from resource_server.errors import NotACollection, ResourceBusy, ResourceError, ResourceNotFound
from resource_server.provider import Change, Path
from resource_server.providers.filesystem.directory import (
    Directory,
    Listing,
    has_changed_since,
    is_fresh,
)
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.watch.armed_directories import ArmedDirectories
from resource_server.providers.filesystem.watch.demand import (
    Demand,
    LinkResolver,
    places,
    prefix_path,
    prefixes_to_links,
)
from resource_server.providers.filesystem.watch.event_sources import EventSource
from resource_server.providers.filesystem.watch.polling import DirectorySnapshot, Poller
from resource_server.runtime.clock import now_ns

logger = logging.getLogger(__name__)

_SLICE_S = 0.01
_SLOW_S = 0.005
_MAX_DIRECTORIES = 200_000
"""More are not looked at; each takes about a kilobyte."""
_MAX_PREFIX = 4000
"""Characters. What is deeper takes the longer to open the deeper it is: PATH_MAX is 4,096 bytes."""
_EVERYTHING = Change((), "tree")


class DirectoryScanner:
    """What is looked at and watched in one tree, and for whom. Not for two threads at once."""

    def __init__(self, tree: FileTree, source: EventSource | None) -> None:
        self._tree = tree
        self._listed_as = tree.listed_as = {}
        self._nodes: dict[str, DirectorySnapshot] = {}
        self._polled: set[str] = set()
        """Of the nodes, those that no event tells of."""
        self._demand = Demand()
        self._links = LinkResolver(tree, self._demand)
        self._polling = Poller(tree, self._demand)
        self._armed = ArmedDirectories(tree, source, self._demand)
        self._slow: dict[str, float] = {}
        """Seconds that a look takes at directories with very many names."""
        self._busy: set[str] = set()
        """Directories that are there and cannot be opened for the moment."""
        self._asked = deque[tuple[Iterator[Path], bool]]()
        """Paths that came (True) or went."""
        self._first = OrderedDict[str, bool]()
        """Directories to look at, and whether to watch them anew."""
        self._then: dict[str, Directory] = {}
        """Directories that were never looked at, with those above as last seen."""
        self._found: list[Change] = []
        self._unconfirmed: list[Change] = []
        """What is told once everything has been looked at that is to be looked at first."""
        self._confirmed: list[Change] = []
        """As `_unconfirmed`, and it is known through which links it is reached."""
        self._idle_until_ns = now_ns()
        """When it was last so that everything that matters was watched."""
        self._is_full = False
        self._identity: tuple[int, int] | Literal["unknown"] | None = "unknown"
        self._listing = False
        self.listing_since_ns = 0
        """When `listing` was set last; see `Interest.listing_since_ns`."""
        self.listing = False
        """Whether every exposed directory matters."""

    # -- for whom

    def subscribed(self, key: str) -> Sequence[Path]:
        """Return the paths by which a file or directory is subscribed to."""
        return self._demand.paths(key)

    def add(self, paths: Iterable[Path]) -> None:
        """Begin to watch these paths; a change of each is found as soon as it is watched."""
        self._asked.append((iter(paths), True))

    def remove(self, paths: Iterable[Path]) -> None:
        """Watch these paths no longer."""
        self._asked.append((iter(paths), False))

    @property
    def is_wanted(self) -> bool:
        """Whether there is anybody to look for."""
        return self.listing or bool(self._demand or self._asked)

    def patience_s(self, prefix: str) -> float:
        """Return how long a look at a directory takes, where that is long."""
        return self._slow.get(prefix, 0.0)

    def _relist(self) -> None:
        self._listing = self.listing
        if self._listing:
            self._idle_until_ns = min(self._idle_until_ns, self.listing_since_ns)
            # Of what is known, too: below it there may be what nobody needed until now.
            for prefix in ("", *self._nodes):
                self._look_soon(prefix)
        else:
            self._forget_unneeded(self._nodes)

    def _attach(self, path: Path) -> None:
        key = self._links.real(path)
        way = places(key)
        fresh = [place for place in way[-2:] if not self._demand.needs_content(place)]
        first = (*self._missing(way), *fresh) if self._demand.add(path, key) else ()
        for place in (*first, *self._missing(prefixes_to_links(path, key))):
            self._look_soon(place, arm=True)

    def _missing(self, way: Sequence[str]) -> Sequence[str]:
        """Return the first of the directories on a way that was not looked at, if it is one."""
        above: DirectorySnapshot | None = None
        for place in way:
            node = self._nodes.get(place)
            if node is None:
                known = above is not None and prefix_path(place)[-1] not in above.directories
                return () if known else (place,)
            above = node
        return ()

    def _detach(self, path: Path) -> None:
        key = self._demand.keys.get(path)
        if key is None:
            return
        self._demand.remove(path)
        way = places(key)
        if not self._listing:
            self._forget_unneeded((*way, *prefixes_to_links(path, key)))
        self._polling.forget(key)
        for place in way[-2:]:
            if place in self._nodes and not self._demand.needs_content(place):
                self._look_soon(place, arm=True)

    def _forget_unneeded(self, prefixes: Iterable[str]) -> None:
        for prefix in [prefix for prefix in prefixes if not self._demand.needs(prefix)]:
            self._forget(prefix)

    def follow_links_again(self, keys: Collection[str] | None = None) -> None:
        """See whether what is subscribed to is somewhere else, through links.

        `keys` are files and directories that came or went; None may be any.
        """
        self._links.doubt_below(keys)

    # -- what is to be looked at

    def look_at(self, prefix: str) -> None:
        """Look at a directory again: something may have come or gone, or it can be opened now."""
        if prefix in self._nodes or prefix in self._busy:
            self._look_soon(prefix, arm=prefix in self._busy)

    def _look_soon(self, prefix: str, *, arm: bool = False) -> None:
        self._first[prefix] = arm or self._first.get(prefix, False)

    def renew(self, prefix: str) -> None:
        """Forget a directory and all below: another one may be in its place."""
        if prefix in self._nodes:
            if self._listing:
                # Of the directory above, whose names may be the same: itself may be gone by now.
                self._found.append(Change(prefix_path(prefix)[:-1], "children"))
            self._lose(prefix)

    def _lose(self, prefix: str) -> None:
        if self._demand.needs(prefix):
            self._found.extend(self._tree_of(prefix))
        self._forget_below(prefix)

    def _tree_of(self, prefix: str) -> Iterator[Change]:
        """Yield the changes of a directory and all below it, links to it included."""
        yield Change(prefix_path(prefix), "tree")
        for path in self._demand.through_links:
            if f"{self._demand.keys[path]}/".startswith(prefix):
                yield Change(path)

    def look_at_everything(self) -> None:
        """Arm and look at all again: events were lost."""
        for prefix in self._nodes:
            self._look_soon(prefix, arm=True)
        self._unconfirmed.append(_EVERYTHING)

    def check_root(self) -> bool:
        """Look at everything if the root is another directory than it was; say if it is there."""
        try:
            status = self._tree.directories.status("")
            identity = (status.st_dev, status.st_ino)
        except ResourceBusy:
            return False
        except ResourceError:
            identity = None
        if identity != self._identity:
            if self._identity != "unknown":
                self._unconfirmed.append(_EVERYTHING)
            self._identity = identity
            self._forget_below("")
        if "" not in self._nodes:
            self._look_soon("", arm=True)
        return identity is not None

    def poll(self, *, everything: bool = False) -> None:
        """Look at what no event tells of, or at all, where its stamp is not what it was."""
        for prefix in self._busy:
            self._look_soon(prefix, arm=True)
        prefixes = list(self._nodes if everything else self._polled)
        for prefix, found in self._polling.directories(self._nodes, prefixes):
            if found == "another":
                # Mounted over, for one: of that there is no event.
                self.renew(prefix)
            if found != "same":
                # Watched anew unless it is the same directory for certain.
                self._look_soon(prefix, arm=found != "changed")
        self._found.extend(self._polling.subscribed(self._polled | self._busy))

    @property
    def only_polls(self) -> bool:
        """Whether no event tells of anything."""
        return not self._armed.has_source

    @property
    def has_polled(self) -> bool:
        """Whether there is anything that no event tells of."""
        return bool(self._polled or self._busy)

    @property
    def is_busy(self) -> bool:
        """Whether there is more to do than one call of `work` has done."""
        return self._listing != self.listing or bool(
            self._has_first or self._then or self._found or self._unconfirmed or self._confirmed
        )

    @property
    def _has_first(self) -> bool:
        return bool(self._asked or self._links or self._first)

    def work(self) -> Sequence[Change]:
        """Look at what there is to look at, for some 10 ms; return what was found."""
        if not (self._first or self._then):
            self._idle_until_ns = now_ns()
        if self._listing != self.listing:
            self._relist()
        until = time.monotonic() + _SLICE_S
        while self._step() and time.monotonic() < until:
            pass
        found, self._found = self._found, []
        if not self._has_first:
            found += self._confirmed
            # Before it was watched, too, a link may have come to lead elsewhere.
            self._links.doubt(change.path for change in self._unconfirmed)
            self._confirmed, self._unconfirmed = self._unconfirmed, []
        return found

    def _step(self) -> bool:
        """Do the next thing; say if there was any."""
        if self._asked:
            paths, wanted = self._asked[0]
            path = next(paths, None)
            if path is None:
                self._asked.popleft()
            elif not wanted:
                self._detach(path)
            else:
                self._unconfirmed.append(Change(path))
                if path not in self._demand.keys:
                    self._attach(path)
        elif self._links:
            if (moved := self._links.resolve_next()) is not None:
                self._detach(moved)
                self._attach(moved)
                self._unconfirmed.append(Change(moved, "tree"))
        elif self._first:
            prefix, arm = self._first.popitem(last=False)
            self._look(prefix, None, arm=arm)
        elif self._then:
            prefix, outer = self._then.popitem()
            above = self._nodes.get(outer.prefix)
            # It may have been hidden since, with all that is above it.
            if above is not None and prefix_path(prefix)[-1] in above.directories:
                self._look(prefix, outer, arm=False)
        else:
            return False
        return True

    # -- a look

    def _look(self, prefix: str, outer: Directory | None, *, arm: bool) -> None:
        if not (self._listing or self._demand.needs(prefix)):
            return
        node = self._nodes.get(prefix)
        if node is None and not self._has_room_for(prefix):
            return
        began = time.monotonic()
        try:
            opened = self._armed.open(prefix, outer, arm=arm or node is None)
        except ResourceBusy:
            if node is None:
                self._armed.disarm(prefix)
            self._busy.add(prefix)
            return
        except (ResourceNotFound, NotACollection):
            self._armed.disarm(prefix)
            self.renew(prefix)
            if self._armed.is_there(prefix):
                # Whoever lists it finds nothing in it.
                self._listed_as[prefix] = None
                self._busy.add(prefix)
            else:
                self._busy.discard(prefix)
            return
        finally:
            self._polled.update(self._armed.given_up)
            self._armed.given_up.clear()
        self._busy.discard(prefix)
        directory, listing = opened.directory, opened.listing
        if not opened.is_settled:
            self._look_soon(prefix)
        spent = time.monotonic() - began
        if spent > _SLOW_S:
            self._slow[prefix] = spent
        rules = tuple([ignores.version for ignores in directory.rules.ignores])
        own = rules[0] if directory.ignore_stamps else None
        seen = None if is_fresh(directory.stamp) else directory.stamp
        now = self._nodes[prefix] = DirectorySnapshot(
            listing.digest, hash(rules), own, seen, listing.directories
        )
        (self._polled.discard if prefix in self._armed else self._polled.add)(prefix)
        self._found += self._differences(prefix, node, now, directory)
        self._go_on(prefix, directory, listing, node, again=node is None or now.rules != node.rules)

    def _differences(
        self,
        prefix: str,
        before: DirectorySnapshot | None,
        now: DirectorySnapshot,
        directory: Directory,
    ) -> Sequence[Change]:
        found = [Change(path) for path in self.subscribed(prefix[:-1])]
        if before is None or now.rules != before.rules:
            # What is in it was not there, was something else, or is judged by other rules.
            for key in self._demand.inside(prefix):
                found += [Change(path) for path in self.subscribed(key)]
        # What came and went again may have been listed in between.
        relisted = self._listed_as.pop(prefix, now.digest) != now.digest
        if before is not None:
            relisted = relisted or now.digest != before.digest
        elif self._listing:
            # Whoever has listed it in the meantime does not know of it.
            relisted = relisted or self._has_changed_unseen(directory)
        if relisted:
            found.append(Change(prefix_path(prefix), "children"))
        return found

    def _has_changed_unseen(self, directory: Directory) -> bool:
        """Say whether a directory or its rules changed after it was found and before its watch."""
        if has_changed_since(directory.stamp, self._idle_until_ns):
            return True
        files = directory.ignore_stamps.values()
        return any(each and has_changed_since(each, self._idle_until_ns) for each in files)

    def _go_on(
        self,
        prefix: str,
        directory: Directory,
        listing: Listing,
        before: DirectorySnapshot | None,
        *,
        again: bool,
    ) -> None:
        """Go down into directories that are new, and forget those that are gone."""
        for name in listing.directories:
            below = f"{prefix}{name}/"
            if not again and below in self._nodes:
                continue
            if self._demand.needs(below):
                self._look_soon(below)
                self._first.move_to_end(below, last=False)
            elif self._listing:
                self._then[below] = directory
        for name in before.directories - listing.directories if before else ():
            self._lose(f"{prefix}{name}/")

    def _has_room_for(self, prefix: str) -> bool:
        if self._demand.needs(prefix):
            return True
        if len(prefix) > _MAX_PREFIX:
            return False
        if len(self._nodes) < _MAX_DIRECTORIES:
            return True
        if not self._is_full:
            self._is_full = True
            logger.warning(
                "more than %d folders: of others only what is subscribed to is told of; "
                "exclude what nobody needs",
                _MAX_DIRECTORIES,
            )
        return False

    def _forget(self, prefix: str) -> None:
        if self._nodes.pop(prefix, None) is not None:
            self._polled.discard(prefix)
            self._listed_as.pop(prefix, None)
            self._slow.pop(prefix, None)
            self._armed.disarm(prefix)

    def _forget_below(self, prefix: str) -> None:
        """Forget a directory and all below it."""
        for below in list(self._below(prefix)):
            self._forget(below)

    def _below(self, prefix: str) -> Iterator[str]:
        waiting = [prefix]
        while waiting:
            each = waiting.pop()
            node = self._nodes.get(each)
            if node is not None:
                yield each
                waiting.extend(f"{each}{name}/" for name in node.directories)
