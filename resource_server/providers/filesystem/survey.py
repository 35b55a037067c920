"""The exposed directories as last looked at: arms their watches, tells what came, went and moved.

Only what matters to somebody is looked at: every exposed directory while the listing does, else
those on the way to what is subscribed to. A directory is watched first and read then, so what
comes into it in between is found by one or the other.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from resource_server.clock import now_ns
from resource_server.errors import NotACollection, ResourceBusy, ResourceError, ResourceNotFound
from resource_server.provider import Change, Path
from resource_server.providers.filesystem.armed import Armed, Source
from resource_server.providers.filesystem.demand import Demand, path_of, places, way_to_links
from resource_server.providers.filesystem.directory import (
    Directory,
    Listing,
    Stamp,
    has_changed_since,
    is_fresh,
    stamp,
)
from resource_server.providers.filesystem.node import Node
from resource_server.providers.filesystem.tree import Tree

logger = logging.getLogger(__name__)

_SLICE_S = 0.01
_BREATH_S = 0.000_05
_BREATH_EVERY_S = 0.002
"""Meanwhile the event loop has to wait for the interpreter."""
_SLOW_S = 0.005
_MAX_DIRECTORIES = 200_000
"""More are not looked at; each takes about a kilobyte."""
_EVERYTHING = Change((), "tree")


class Survey:
    """What is looked at and watched in one tree, and for whom. Not for two threads at once."""

    def __init__(self, tree: Tree, source: Source | None) -> None:
        self._tree = tree
        self._nodes: dict[str, Node] = {}
        self._polled: set[str] = set()
        """Of the nodes, those that no event tells of."""
        self._demand = Demand()
        self._armed = Armed(tree, source, self._demand)
        self._seen: dict[str, Stamp | None] = {}
        """What was subscribed to in a polled directory, as last looked at."""
        self._slow: dict[str, float] = {}
        """Seconds that a look takes at directories with very many names."""
        self._restless: dict[str, float] = {}
        """Directories in which something came or went, and since when."""
        self._busy: set[str] = set()
        """Directories that could not be opened for the moment."""
        self._asked: deque[tuple[Path, bool]] = deque()
        """Paths that came (True) or went."""
        self._first: deque[tuple[str, bool]] = deque()
        """Directories to look at, and whether to watch them anew."""
        self._then: dict[str, Directory] = {}
        """Directories that were never looked at, with those above as last seen."""
        self._found: list[Change] = []
        self._confirmed: list[Change] = []
        """What is told once everything in `_first` has been looked at."""
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

    def add(self, path: Path) -> None:
        """Begin to watch a path; a change of it is found as soon as it is watched."""
        self._asked.append((path, True))

    def remove(self, path: Path) -> None:
        """Watch a path no longer."""
        self._asked.append((path, False))

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
            self._first.extend((prefix, False) for prefix in dict.fromkeys(["", *self._nodes]))
        else:
            self._forget_unneeded(self._nodes)

    def _attach(self, path: Path) -> None:
        key = self._real(path)
        way = places(key)
        fresh = [place for place in way[-2:] if not self._demand.needs_content(place)]
        if self._demand.add(path, key):
            self._first.extend((place, True) for place in (*self._missing(way), *fresh))
        missing = self._missing(way_to_links(path, key))
        self._first.extend((place, True) for place in missing)

    def _missing(self, way: Sequence[str]) -> Sequence[str]:
        """Return the first of the directories on a way that was not looked at, if it is one."""
        above: Node | None = None
        for place in way:
            node = self._nodes.get(place)
            if node is None:
                known = above is not None and path_of(place)[-1] not in above.directories
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
            self._forget_unneeded((*way, *way_to_links(path, key)))
        self._seen.pop(key, None)
        for place in way[-2:]:
            if place in self._nodes and not self._demand.needs_content(place):
                self._first.append((place, True))

    def _forget_unneeded(self, prefixes: Iterable[str]) -> None:
        for prefix in [prefix for prefix in prefixes if not self._demand.needs(prefix)]:
            self._forget(prefix)

    def _real(self, path: Path) -> str:
        """Return where a path leads, through links where they are followed."""
        if self._tree.follow_links:
            try:
                return self._tree.find(path).key
            except ResourceError:
                pass
        return "/".join(path)

    def follow_links_again(self, paths: Iterable[Path] | None = None) -> None:
        """See whether what is subscribed to, by these paths, is somewhere else through links."""
        if not self._tree.follow_links:
            return
        keys = self._demand.keys
        for path in list(keys if paths is None else paths):
            if path in keys and self._real(path) != keys[path]:
                self._detach(path)
                self._attach(path)
                self._confirmed.append(Change(path, "tree"))

    # -- what is to be looked at

    def look_at(self, prefix: str, since: float) -> None:
        """Look at a directory again: since then something may have come or gone."""
        if prefix in self._nodes:
            self._restless[prefix] = since
            self._first.append((prefix, False))

    def renew(self, prefix: str) -> None:
        """Forget a directory and all below: another one may be in its place."""
        if prefix in self._nodes:
            if self._listing:
                # Of the directory above, whose names may be the same: itself may be gone by now.
                self._found.append(Change(path_of(prefix)[:-1], "children"))
            self._lose(prefix)

    def _lose(self, prefix: str) -> None:
        if self._demand.needs(prefix):
            self._found.extend(self._tree_of(prefix))
        self._forget_below(prefix)

    def _tree_of(self, prefix: str) -> Iterator[Change]:
        """Yield the changes of a directory and all below it, links to it included."""
        yield Change(path_of(prefix), "tree")
        if self._tree.follow_links:
            for path, key in self._demand.keys.items():
                if f"{key}/".startswith(prefix) and "/".join(path) != key:
                    yield Change(path)

    def look_at_everything(self) -> None:
        """Arm and look at all again: events were lost."""
        self._first.extend((prefix, True) for prefix in self._nodes)
        self._confirmed.append(_EVERYTHING)

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
                self._confirmed.append(_EVERYTHING)
            self._identity = identity
            self._forget_below("")
        if "" not in self._nodes:
            self._first.append(("", True))
        return identity is not None

    def poll(self, *, everything: bool = False) -> None:
        """Look at what no event tells of, or at all, where its stamp is not what it was."""
        self._first.extend((prefix, True) for prefix in self._busy)
        self._busy.clear()
        for prefix in list(self._nodes if everything else self._polled):
            if (node := self._nodes.get(prefix)) is None:
                continue
            now = self._stamp(prefix[:-1])
            if node.stamp is not None and now is not None and not node.stamp.is_of_the_same(now):
                # Mounted over, for one: of that there is no event.
                self.renew(prefix)
                self._first.append((prefix, True))
            elif node.own_rules is not None or node.stamp is None or node.stamp != now:
                # Watched anew where nothing tells whether it is the same directory.
                self._first.append((prefix, node.stamp is None))
        if everything:
            self._look_for_lost()
        for key in set(self._demand.keys.values()):
            above, own = places(key)[-2:]
            if own in self._polled:
                # A collection: what is written in it leaves nothing behind in its own stamp.
                self._found.extend(Change(path) for path in self._demand.paths(key))
            elif above in self._polled:
                now = self._stamp(key)
                if now is None or now != self._seen.get(key):
                    self._seen[key] = now
                    self._found.extend(Change(path) for path in self._demand.paths(key))

    def _look_for_lost(self) -> None:
        """Look at directories that could not be looked at before: nothing tells when they can."""
        for prefix, node in self._nodes.items():
            for name in node.directories:
                below = f"{prefix}{name}/"
                if below not in self._nodes and (self._listing or self._demand.needs(below)):
                    self._first.append((below, True))

    def _stamp(self, key: str) -> Stamp | None:
        """Return the stamp of a file or directory, unless another change might not show in it."""
        try:
            status = self._tree.directories.status(key)
        except ResourceError:
            return None
        return None if is_fresh(status) else stamp(status)

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
            self._asked or self._first or self._then or self._found or self._confirmed
        )

    def work(self) -> Sequence[Change]:
        """Look at what there is to look at, for some 10 ms; return what was found."""
        if not (self._first or self._then):
            self._idle_until_ns = now_ns()
        if self._listing != self.listing:
            self._relist()
        now = time.monotonic()
        until, breath_at = now + _SLICE_S, now + _BREATH_EVERY_S
        while now < until and self._step():
            now = time.monotonic()
            if now > breath_at:
                # Left to itself Python changes threads every 5 ms.
                time.sleep(_BREATH_S)
                breath_at = now + _BREATH_EVERY_S
        found, self._found = self._found, []
        if not (self._asked or self._first):
            # Before it was watched, too, a link may have come to lead elsewhere.
            self.follow_links_again({change.path for change in self._confirmed})
        if not (self._asked or self._first):
            found += self._confirmed
            self._confirmed = []
        return found

    def _step(self) -> bool:
        """Do the next thing; say if there was any."""
        if self._asked:
            path, wanted = self._asked.popleft()
            if wanted:
                self._confirmed.append(Change(path))
                if path not in self._demand.keys:
                    self._attach(path)
            else:
                self._detach(path)
        elif self._first:
            prefix, arm = self._first.popleft()
            self._look(prefix, None, arm=arm)
        elif self._then:
            prefix, outer = self._then.popitem()
            above = self._nodes.get(outer.prefix)
            # It may have been hidden since, with all that is above it.
            if above is not None and path_of(prefix)[-1] in above.directories:
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
            return
        finally:
            self._polled.update(self._armed.given_up)
            self._armed.given_up.clear()
        directory, listing = opened.directory, opened.listing
        if not opened.is_settled:
            self._first.append((prefix, False))
        spent = time.monotonic() - began
        if spent > _SLOW_S:
            self._slow[prefix] = spent
        rules = tuple(ignores.version for ignores in directory.scope.ignores)
        own = rules[0] if directory.ignore_stamps else None
        digest = hash((listing.names, listing.directories, listing.links))
        seen = None if is_fresh(directory.stamp) else directory.stamp
        now = self._nodes[prefix] = Node(digest, hash(rules), own, seen, listing.directories)
        (self._polled.discard if prefix in self._armed else self._polled.add)(prefix)
        self._found.extend(self._differences(prefix, node, now, directory))
        self._go_on(prefix, directory, listing, node, again=node is None or now.rules != node.rules)

    def _differences(
        self, prefix: str, before: Node | None, now: Node, directory: Directory
    ) -> Iterator[Change]:
        if before is None:
            # It was not there, or something else was.
            for key in (prefix[:-1], *self._demand.inside(prefix)):
                yield from (Change(path) for path in self.subscribed(key))
            # Whoever has listed it in the meantime does not know of it.
            if self._listing and self._has_changed_unseen(directory):
                yield Change(path_of(prefix), "children")
        elif now.own_rules != before.own_rules:
            yield from self._tree_of(prefix)
        else:
            # What came and went again may have been listed in between.
            since = self._restless.pop(prefix, float("inf"))
            if now.digest != before.digest or self._tree.walked_at >= since:
                yield Change(path_of(prefix), "children")
            yield from (Change(path) for path in self.subscribed(prefix[:-1]))

    def _has_changed_unseen(self, directory: Directory) -> bool:
        """Say whether a directory or its rules changed after it was found and before its watch."""
        stamps = (directory.stamp, *directory.ignore_stamps.values())
        return any(each and has_changed_since(each, self._idle_until_ns) for each in stamps)

    def _go_on(
        self,
        prefix: str,
        directory: Directory,
        listing: Listing,
        before: Node | None,
        *,
        again: bool,
    ) -> None:
        """Go down into directories that are new, and forget those that are gone."""
        for name in listing.directories:
            below = f"{prefix}{name}/"
            if not again and below in self._nodes:
                continue
            if self._demand.needs(below):
                self._first.appendleft((below, False))
            elif self._listing:
                self._then[below] = directory
        for name in before.directories - listing.directories if before else ():
            self._lose(f"{prefix}{name}/")

    def _has_room_for(self, prefix: str) -> bool:
        if len(self._nodes) < _MAX_DIRECTORIES or self._demand.needs(prefix):
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
            self._restless.pop(prefix, None)
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
