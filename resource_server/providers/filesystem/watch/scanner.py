"""The directory scanner: arms watches, compares scans, and reports additions, removals and moves.

Only directories that matter are scanned: all exposed ones while a client follows the list,
otherwise those on the way to subscribed paths. A directory is watched first and read then, so
whatever appears in between is found by one of the two.
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
    DirectoryListing,
    has_changed_since,
    is_fresh,
)
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.watch.armed_directories import (
    ArmedDirectories,
    OpenedDirectory,
)
from resource_server.providers.filesystem.watch.demand import (
    Demand,
    LinkResolver,
    link_prefixes,
    prefix_path,
    prefixes_to,
)
from resource_server.providers.filesystem.watch.event_sources import EventSource
from resource_server.providers.filesystem.watch.polling import DirectorySnapshot, Poller
from resource_server.runtime.clock import now_ns
from resource_server.runtime.timing import Timing

logger = logging.getLogger(__name__)

_SLICE_S = 0.01
_MAX_DIRECTORIES = 200_000
"""Maximum directories that are remembered, about a kilobyte each; others are not scanned."""
_MAX_PREFIX = 4000
"""Maximum characters of a prefix: deeper directories take ever longer to open, and PATH_MAX is
4,096 bytes."""
_EVERYTHING = Change((), "tree")


class DirectoryScanner:
    """Scans and watches the directories of one tree that matter. Not thread-safe."""

    def __init__(
        self, tree: FileTree, source: EventSource | None, timing: Timing = Timing()
    ) -> None:
        self._tree = tree
        self._timing = timing
        self._listed_as = tree.listed_as = {}
        self._snapshots: dict[str, DirectorySnapshot] = {}
        self._polled: set[str] = set()
        """The scanned directories that have no events."""
        self._demand = Demand()
        self._links = LinkResolver(tree, self._demand)
        self._poller = Poller(tree, self._demand)
        self._armed = ArmedDirectories(tree, source, self._demand)
        self._slow: dict[str, float] = {}
        """Scan times of slow directories, in seconds."""
        self._ways: set[str] = set()
        """Directories in those of which clients see only what leads to something included."""
        self._unopenable: set[str] = set()
        """Directories that exist but cannot be opened at present."""
        self._requests = deque[tuple[Iterator[Path], bool]]()
        """Paths to subscribe to (True) or to unsubscribe from."""
        self._queue = OrderedDict[str, bool]()
        """Directories to scan first, and whether to watch them anew."""
        self._new: dict[str, Directory] = {}
        """Directories to scan afterwards, never scanned before, with their last known parents."""
        self._found: list[Change] = []
        self._unconfirmed: list[Change] = []
        """Changes that are reported once the queue is empty."""
        self._confirmed: list[Change] = []
        """Unconfirmed changes whose links have been resolved again."""
        self._unlisted = set[str]()
        """Directories that were not scanned since the listing is followed."""
        self._idle_until_ns = now_ns()
        """The last time at which everything that matters was watched."""
        self._has_warned = False
        self._root_identity: tuple[int, int] | Literal["unknown"] | None = "unknown"
        self._listing = False
        self.listing_since_ns = 0
        """When `listing` was last set; see `Interest.listing_since_ns`."""
        self.listing = False
        """Whether all exposed directories matter."""

    # -- subscriptions

    def subscribed(self, key: str) -> Sequence[Path]:
        """Return the paths by which a file or directory is subscribed to."""
        return self._demand.paths(key)

    def add(self, paths: Iterable[Path]) -> None:
        """Watch these paths; once watched, each is reported as changed."""
        self._requests.append((iter(paths), True))

    def remove(self, paths: Iterable[Path]) -> None:
        """Stop watching these paths."""
        self._requests.append((iter(paths), False))

    @property
    def is_wanted(self) -> bool:
        """Whether anything has to be watched."""
        return self.listing or bool(self._demand or self._requests)

    def scan_time_s(self, prefix: str) -> float:
        """Return how long a scan of a slow directory takes; 0 for others."""
        return self._slow.get(prefix, 0.0)

    def _apply_listing(self) -> None:
        self._listing = self.listing
        if self._listing:
            self._idle_until_ns = min(self._idle_until_ns, self.listing_since_ns)
            # Known directories too: their subdirectories may not have been needed until now, and
            # they may have changed after a client had listed them and before they were scanned.
            self._unlisted = {"", *self._snapshots}
            for prefix in self._unlisted:
                self._schedule(prefix)
        else:
            self._unlisted.clear()
            self._forget_unneeded(self._snapshots)

    def _attach(self, path: Path) -> None:
        key = self._links.key(path)
        prefixes = prefixes_to(key)
        fresh = [prefix for prefix in prefixes[-2:] if not self._demand.needs_content(prefix)]
        first = (*self._missing(prefixes), *fresh) if self._demand.add(path, key) else ()
        for prefix in (*first, *self._missing(link_prefixes(path, key))):
            self._schedule(prefix, arm=True)

    def _missing(self, prefixes: Sequence[str]) -> Sequence[str]:
        """Return the first unscanned prefix of a path, unless it is known to be no directory."""
        parent: DirectorySnapshot | None = None
        for prefix in prefixes:
            snapshot = self._snapshots.get(prefix)
            if snapshot is None:
                is_absent = parent is not None and prefix_path(prefix)[-1] not in parent.directories
                return () if is_absent else (prefix,)
            parent = snapshot
        return ()

    def _detach(self, path: Path) -> None:
        key = self._demand.keys.get(path)
        if key is None:
            return
        self._demand.remove(path)
        prefixes = prefixes_to(key)
        if not self._listing:
            ways = self._ways.intersection(self._below(prefixes[-1])) if self._ways else ()
            self._forget_unneeded((*prefixes, *link_prefixes(path, key), *ways))
        self._poller.forget(key)
        for prefix in prefixes[-2:]:
            if prefix in self._snapshots and not self._demand.needs_content(prefix):
                self._schedule(prefix, arm=True)

    def _forget_unneeded(self, prefixes: Iterable[str]) -> None:
        for prefix in [prefix for prefix in prefixes if not self._is_needed(prefix)]:
            self._forget(prefix)

    def _is_needed(self, prefix: str) -> bool:
        """Return whether a directory has to be watched, for itself or since it is a way."""
        return self._demand.needs(prefix) or (
            prefix in self._ways
            and any(self._demand.paths(each[:-1]) for each in prefixes_to(prefix[:-1]))
        )

    def recheck_links(self, keys: Collection[str] | None = None) -> None:
        """Check whether subscribed paths resolve elsewhere through links now.

        `keys` are files and directories that were created or removed; None means any.
        """
        self._links.mark_outdated_below(keys)

    # -- what to scan

    def rescan(self, prefix: str) -> None:
        """Scan a directory again: its entries may have changed, or it can be opened now."""
        if prefix in self._snapshots or prefix in self._unopenable:
            self._schedule(prefix, arm=prefix in self._unopenable)

    def rescan_all(self) -> None:
        """Watch and scan everything again, because events were lost."""
        for prefix in self._snapshots:
            self._schedule(prefix, arm=True)
        self._unconfirmed.append(_EVERYTHING)

    def _schedule(self, prefix: str, *, arm: bool = False) -> None:
        self._queue[prefix] = arm or self._queue.get(prefix, False)

    def invalidate(self, prefix: str) -> None:
        """Forget a directory and all below it, because another may have replaced it."""
        if prefix in self._snapshots:
            if self._listing:
                # A change of the parent, whose names may be the same; this one may be gone.
                self._found.append(Change(prefix_path(prefix)[:-1], "children"))
            self._drop(prefix)

    def _drop(self, prefix: str) -> None:
        if self._demand.needs(prefix):
            self._found.extend(self._tree_changes(prefix))
        self._forget_below(prefix)

    def _tree_changes(self, prefix: str) -> Iterator[Change]:
        """Yield the changes of a directory and all below it, also as seen through links."""
        yield Change(prefix_path(prefix), "tree")
        for path in self._demand.through_links:
            if f"{self._demand.keys[path]}/".startswith(prefix):
                yield Change(path)

    def check_root(self) -> bool:
        """Rescan everything if the root is another directory now; return whether it exists."""
        try:
            status = self._tree.directories.status("")
            identity = (status.st_dev, status.st_ino)
        except ResourceBusy:
            return False
        except ResourceError:
            identity = None
        if identity != self._root_identity:
            # A root that is missing at the first look vanished after clients had listed it.
            if self._root_identity != "unknown" or identity is None:
                self._unconfirmed.append(_EVERYTHING)
            self._root_identity = identity
            self._forget_below("")
        if "" not in self._snapshots:
            self._schedule("", arm=True)
        return identity is not None

    def poll(self, *, everything: bool = False) -> None:
        """Schedule directories whose stamps differ: those without events, or all of them."""
        for prefix in self._unopenable:
            self._schedule(prefix, arm=True)
        prefixes = list(self._snapshots if everything else self._polled)
        for prefix, difference in self._poller.compare(self._snapshots, prefixes):
            if difference == "replaced":
                # Mounting a file system there, for example, sends no event.
                self.invalidate(prefix)
            if difference != "same":
                # Watched anew unless it is certainly the same directory.
                self._schedule(prefix, arm=difference != "changed")
        self._found.extend(self._poller.subscribed(self._polled | self._unopenable))

    @property
    def only_polls(self) -> bool:
        """Whether there are no events at all."""
        return not self._armed.has_source

    @property
    def has_polled(self) -> bool:
        """Whether any directory has to be polled."""
        return bool(self._polled or self._unopenable)

    @property
    def has_work(self) -> bool:
        """Whether `work` has more to do."""
        return self._listing != self.listing or bool(
            self._is_unsettled or self._new or self._found or self._unconfirmed or self._confirmed
        )

    @property
    def only_explores(self) -> bool:
        """Whether all that is left to do is to scan directories for the first time."""
        is_other = self._is_unsettled or self._found or self._unconfirmed or self._confirmed
        return bool(self._new) and not is_other

    @property
    def _is_unsettled(self) -> bool:
        return bool(self._requests or self._links or self._queue)

    def work(self) -> Sequence[Change]:
        """Do pending work for about 10 ms; return the changes found."""
        if not (self._queue or self._new):
            self._idle_until_ns = now_ns()
        if self._listing != self.listing:
            self._apply_listing()
        until = time.monotonic() + _SLICE_S
        while self._step() and time.monotonic() < until:
            pass
        found, self._found = self._found, []
        if not self._is_unsettled:
            found += self._confirmed
            # Links may have changed before the watches were in place.
            self._links.mark_outdated(change.path for change in self._unconfirmed)
            self._confirmed, self._unconfirmed = self._unconfirmed, []
        return found

    def _step(self) -> bool:
        """Do the next piece of work; return whether there was any."""
        if self._requests:
            paths, wanted = self._requests[0]
            path = next(paths, None)
            if path is None:
                self._requests.popleft()
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
        elif self._queue:
            prefix, arm = self._queue.popitem(last=False)
            self._scan(prefix, None, arm=arm)
        elif self._new:
            prefix, parent = self._new.popitem()
            above = self._snapshots.get(parent.prefix)
            # It may have been hidden meanwhile, and its ancestors with it.
            if above is not None and prefix_path(prefix)[-1] in above.directories:
                self._scan(prefix, parent, arm=False)
        else:
            return False
        return True

    # -- one scan

    def _scan(self, prefix: str, parent: Directory | None, *, arm: bool) -> None:
        if not (self._listing or self._is_needed(prefix)):
            return
        before = self._snapshots.get(prefix)
        if before is None and not self._has_room_for(prefix):
            return
        began = time.monotonic()
        opened = self._open(prefix, parent, arm=arm)
        if opened is None:
            return
        self._unopenable.discard(prefix)
        directory, listing = opened.directory, opened.listing
        if not opened.is_settled:
            self._schedule(prefix)
        spent = time.monotonic() - began
        if spent > self._timing.watch_slow_scan_s:
            self._slow[prefix] = spent
        rules = tuple([ignores.version for ignores in directory.rules.ignores])
        now = self._snapshots[prefix] = DirectorySnapshot(
            digest=self._tree.digest(directory, listing),
            rules=hash(rules),
            own_rules=rules[0] if directory.ignore_stamps else None,
            stamp=None if is_fresh(directory.stamp) else directory.stamp,
            directories=listing.directories,
            description=self._tree.description(directory, listing),
        )
        if directory.rules.is_open:
            is_other = (
                before.digest != now.digest if before else self._has_changed_unseen(directory)
            )
            above = prefix[: prefix.rfind("/", 0, -1) + 1]
            if is_other and prefix and above in self._snapshots:
                self._schedule(above)  # it may be seen there now, or no longer
        if prefix in self._armed:
            self._polled.discard(prefix)
        else:
            self._polled.add(prefix)
        self._found += self._differences(prefix, before, now, directory)
        self._descend(prefix, directory, listing, before, now)

    def _open(self, prefix: str, parent: Directory | None, *, arm: bool) -> OpenedDirectory | None:
        """Open and watch a directory; None if that fails, after updating the state."""
        is_known = prefix in self._snapshots
        try:
            return self._armed.open(prefix, parent, arm=arm or not is_known)
        except ResourceBusy:
            if not is_known:
                self._armed.disarm(prefix)
            self._unopenable.add(prefix)
        except (ResourceNotFound, NotACollection):
            self._armed.disarm(prefix)
            self.invalidate(prefix)
            if self._armed.exists(prefix):
                # Clients that list it find nothing in it.
                self._listed_as[prefix] = None
                self._unopenable.add(prefix)
            else:
                self._unopenable.discard(prefix)
        finally:
            self._polled.update(self._armed.given_up)
            self._armed.given_up.clear()
        return None

    def _differences(
        self,
        prefix: str,
        before: DirectorySnapshot | None,
        now: DirectorySnapshot,
        directory: Directory,
    ) -> Sequence[Change]:
        found = [Change(path) for path in self.subscribed(prefix[:-1])]
        if before is None or now.rules != before.rules:
            # Its entries are new, were replaced, or are subject to other rules.
            for key in self._demand.inside(prefix):
                found += [Change(path) for path in self.subscribed(key)]
        # An entry may have been listed between its addition and its removal.
        is_relisted = self._listed_as.pop(prefix, now.digest) != now.digest
        if before is not None:
            is_relisted = is_relisted or (
                (now.digest, now.description) != (before.digest, before.description)
            )
        if self._listing and (before is None or prefix in self._unlisted):
            # Clients may have listed it before it changed.
            self._unlisted.discard(prefix)
            is_relisted = is_relisted or self._has_changed_unseen(directory)
        if is_relisted:
            found.append(Change(prefix_path(prefix), "children"))
        return found

    def _has_changed_unseen(self, directory: Directory) -> bool:
        """Return whether a directory or its rules changed between its discovery and its watch."""
        if has_changed_since(directory.stamp, self._idle_until_ns):
            return True
        files = directory.ignore_stamps.values()
        return any(file and has_changed_since(file, self._idle_until_ns) for file in files)

    def _descend(
        self,
        prefix: str,
        directory: Directory,
        listing: DirectoryListing,
        before: DirectorySnapshot | None,
        now: DirectorySnapshot,
    ) -> None:
        """Schedule new subdirectories, or all if the rules changed; drop those that are gone."""
        is_judged_alike = before is not None and now.rules == before.rules
        for name in listing.directories:
            below = f"{prefix}{name}/"
            if is_judged_alike and below in self._snapshots:
                continue
            if directory.rules.is_open:
                self._ways.add(below)
            if self._is_needed(below):
                self._schedule(below)
                self._queue.move_to_end(below, last=False)
            elif self._listing:
                self._new[below] = directory
            else:
                self._ways.discard(below)
        for name in before.directories - listing.directories if before else ():
            self._drop(f"{prefix}{name}/")

    def _has_room_for(self, prefix: str) -> bool:
        if self._demand.needs(prefix):
            return True
        if len(prefix) > _MAX_PREFIX:
            return False
        if len(self._snapshots) < _MAX_DIRECTORIES:
            return True
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "more than %d folders: the others are watched only where they are subscribed to; "
                "exclude what nobody needs",
                _MAX_DIRECTORIES,
            )
        return False

    def _forget(self, prefix: str) -> None:
        if self._snapshots.pop(prefix, None) is not None:
            self._polled.discard(prefix)
            self._ways.discard(prefix)
            self._listed_as.pop(prefix, None)
            self._slow.pop(prefix, None)
            self._armed.disarm(prefix)

    def _forget_below(self, prefix: str) -> None:
        """Forget a directory and all below it."""
        for below in list(self._below(prefix)):
            self._forget(below)

    def _below(self, prefix: str) -> Iterator[str]:
        pending = [prefix]
        while pending:
            current = pending.pop()
            snapshot = self._snapshots.get(current)
            if snapshot is not None:
                yield current
                pending.extend(f"{current}{name}/" for name in snapshot.directories)
