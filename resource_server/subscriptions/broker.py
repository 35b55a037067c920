"""Turns provider changes into client notifications: `updated` of a resource, and `list_changed`.

A change is only a hint. The broker compares a snapshot of the resource with the one last notified,
and sends nothing if they are equal. A slow sweep over all topics finds changes that no provider
noticed. Topics limit the rate of notifications.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from typing import Any

from resource_server import uris
from resource_server.access import EVERYTHING, Caller, Rights, current
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount, describe_error
from resource_server.errors import NotACollection, ResourceNotFound
from resource_server.provider import Change, Path
from resource_server.runtime import eager
from resource_server.runtime.eager import Turns, settle
from resource_server.runtime.rates import Backoff
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.subscriptions.snapshot import (
    NOTHING,
    snapshot_at,
    snapshot_of,
    snapshot_of_query,
)
from resource_server.subscriptions.topic import Listener, Topic, Topics
from resource_server.subscriptions.watch_runner import WatchRunner

logger = logging.getLogger(__name__)

_LONG_S = 0.005
"""A search for the topics of a changed tree that takes longer rests as long before the next."""
MAX_COMPARISONS = 32
"""Maximum comparisons of one mount that wait for its provider at a time."""


class Broker:
    """Notifies listeners of changes in a catalog. Does nothing until there is a listener."""

    def __init__(
        self,
        catalog: Catalog,
        timing: Timing = DEFAULT_TIMING,
        max_comparisons: int = MAX_COMPARISONS,
    ) -> None:
        self.catalog = catalog
        self._timing = timing
        self._max_comparisons = max_comparisons
        self._topics = Topics()
        self._runners: dict[Mount, WatchRunner] = {}
        self._followers = ListFollowers()
        self._list_notified_at = float("-inf")
        self._list_timer: asyncio.TimerHandle | None = None
        self._changed_trees: dict[Mount, set[Path]] = {}
        """Paths below which anything may have changed; their topics are not compared yet."""
        self._unlisted = set[Mount]()
        """Mounts that were missing from a listing, and are tried again."""
        self._tree_searches = set[Mount]()
        """Mounts whose changed trees are being searched for topics."""
        self._connecting: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Future[None]] = set()
        self._closing: set[asyncio.Future[None]] = set()
        """Watches of mounts that are no longer served, while they end."""
        self.ever_subscribed = False
        """Whether there was any subscription yet: mostly there is none."""
        self._sweeping: asyncio.Task[None] | None = None
        self._mount_sweeps: dict[Mount, asyncio.Future[None]] = {}
        """The running sweep of each mount."""

    async def close(self) -> None:
        """End every watch; no listener is notified from here on."""
        self._followers.clear()
        for topic in self._topics.clear():
            topic.close()
        if self._list_timer is not None:
            self._list_timer.cancel()
        tasks = [*self._tasks, *([self._sweeping] if self._sweeping else ())]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=eager.CANCEL_S)
        closings = (runner.close() for runner in self._runners.values())
        await asyncio.gather(*closings, *self._closing)
        self._runners.clear()

    # -- listeners

    async def subscribe(self, uri: str, listener: Listener) -> Topic:
        """Notify a listener whenever the resource `uri` differs from what it was before.

        The part of a document is covered by the document's version, if it has one. Any other URI
        with parameters, such as that of a query, is notified when reading it gives another result.

        Raises:
            ResourceError: the resource cannot be read; as `Catalog.read`.
        """
        topic = await self.catalog.at(uri, self._topic)
        topic.add_listener(listener, current())
        self.ever_subscribed = True
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep())
        return topic

    async def _topic(self, mount: Mount, path: Path, parameters: Mapping[str, str]) -> Topic:
        """Return the topic of an address, a new one if it is the first subscription to it."""
        own = await snapshot_of_query(mount, path, parameters) if parameters else None
        resource = await mount.provider.metadata(path)
        if not resource.readable:
            raise ResourceNotFound
        # Sorted: the order in which a client writes parameters makes no other topic.
        query = parameters if own else None
        canonical = uris.join(mount.base, resource.path, query)
        rights = self.catalog.visibility.rights(current())
        topic = self._topics.get(canonical, rights)
        if topic is None:
            # The snapshot comes before the watch, which begins with a comparison.
            snapshot = own or await snapshot_of(mount, resource, self.catalog.limits)
            topic = self._topics.get(canonical, rights)
            if topic is None:
                topic = Topic(
                    canonical,
                    snapshot,
                    self._compare,
                    rights=rights,
                    query=query,
                    timing=self._timing,
                )
                self._topics.add(topic)
                self._connect(topic)
        return topic

    def unsubscribe(self, uri: str, listener: Listener, rights: Rights = EVERYTHING) -> None:
        """Stop notifying a listener of the resource with this canonical URI.

        `rights` are those with which it subscribed.
        """
        topic = self._topics.get(uri, rights)
        if topic is None or listener not in topic.listeners:
            topic = self._topics.of_listener(uri, listener)  # of a catalog with other claims
        if topic is not None:
            topic.remove_listener(listener)
            if not topic.listeners:
                self._remove(topic)

    def _remove(self, topic: Topic) -> None:
        runner = topic.runner
        self._topics.remove(topic)
        topic.unschedule()
        self._end_if_unused(runner)

    def _end_if_unused(self, runner: WatchRunner | None) -> None:
        """End the watch of a mount for callers with some claims, so that it can be closed."""
        if runner is None or not runner.mount.is_by_claims:
            return
        is_used = runner.interest.listing or self._topics.has_any(runner.mount)
        if not is_used and self._runners.get(runner.mount) is runner:
            del self._runners[runner.mount]
            runner.mount.is_watched = False
            self._topics.forget_mount(runner.mount)
            _track(runner.close(), self._closing)

    def unsubscribe_all(self, subscriptions: Iterable[tuple[str, Listener, Rights]]) -> None:
        """Unsubscribe each as `unsubscribe` does, in turns with other work if there are many."""
        self._run(self._unsubscribe_all(subscriptions))

    async def _unsubscribe_all(self, subscriptions: Iterable[tuple[str, Listener, Rights]]) -> None:
        turns = Turns()
        for uri, listener, rights in subscriptions:
            self.unsubscribe(uri, listener, rights)
            await turns.others()

    def note_read(self, uri: str, digest: Hashable) -> None:
        """Record the state that a client has read, which may have lasted only for a moment.

        `digest` is as `Snapshot.read_digest`.
        """
        if self.ever_subscribed:
            topic = self._topics.get(uri, self.catalog.visibility.rights(current()))
            if topic is not None:
                topic.note_read(digest)

    def follow_list(self, listener: Listener) -> None:
        """Notify a listener whenever the listing changes."""
        caller = current()
        if self._followers.add(listener, caller, self.catalog.visibility.rights(caller)):
            self._set_list_interest()

    def unfollow_list(self, listener: Listener) -> None:
        """Stop notifying a listener of the listing."""
        if self._followers.remove(listener):
            self._set_list_interest()

    def note_unlisted(self, names: Collection[str]) -> None:
        """Record that these mounts were missing from the caller's listing, since they failed.

        Followers are notified when they can be listed.
        """
        for mount in self.catalog.visibility.current().mounts:
            if mount.name in names and mount not in self._unlisted:
                self._unlisted.add(mount)
                self._run(self._notify_once_listed(mount))

    def replace_catalog(self, catalog: Catalog, *, relist: bool) -> None:
        """Serve another catalog from now on, and compare topics that lead elsewhere in it.

        `relist` notifies followers of the listing who see other mounts than before.
        """
        before, self.catalog = self.catalog, catalog
        for mount in [each for each in self._runners if each.origin not in catalog.mounts]:
            _track(self._runners.pop(mount).close(), self._closing)
            self._topics.forget_mount(mount)
        if before.visibility.claims or catalog.visibility.claims:
            self._regroup()
        self._set_list_interest()
        self._connecting = self._run(self._connect_all(self._connecting))
        if relist:
            self._notify_list(self._followers.differing(before, catalog))

    def _regroup(self) -> None:
        """Give each listener the topic of its rights in a catalog that may use other claims."""
        rights_of = self.catalog.visibility.rights
        self._followers.regroup(rights_of)
        for topic in self._topics.all():
            listeners = [(each, c, rights_of(c)) for each, c in topic.listeners.items()]
            moved = [each for each in listeners if each[2] != topic.rights]
            for listener, caller, rights in moved:
                topic.remove_listener(listener)
                own = self._topics.get(topic.uri, rights)
                if own is None:
                    own = topic.copy(rights)
                    self._topics.add(own)
                own.add_listener(listener, caller)
            if moved and not topic.listeners:
                self._remove(topic)

    async def _connect_all(self, before: asyncio.Future[None] | None) -> None:
        """Watch every topic where its URI leads now, and compare those that lead elsewhere."""
        if before is not None:
            await settle(asyncio.wait([before]))
        moved: dict[WatchRunner | None, list[Topic]] = {}
        turns = Turns()
        for topic in self._topics.all():
            if topic.listeners and self._connect(topic):
                moved.setdefault(topic.runner, []).append(topic)
            await turns.others()
        for topics in moved.values():
            self._run(self._suspect_all(topics))

    def _connect(self, topic: Topic) -> bool:
        """Watch a topic in the mount that has its URI now; return whether mount or path differ."""
        mount: Mount | None
        try:
            mount, path, _ = self.catalog.visibility.with_rights(topic.rights).route(topic.document)
        except ResourceNotFound:
            mount, path = None, ()
        watched = None if topic.runner is None else topic.runner.mount
        if path == topic.path and mount is watched:
            return False
        self._topics.detach(topic)
        if mount is None:
            topic.mark_changed()  # subscribers may read that it is gone before it is back
        if mount is not None and not self._topics.attach(topic, self._runner(mount), path):
            # The path is watched already: no comparison comes from the watch.
            topic.suspect()
        return True

    def _runner(self, mount: Mount) -> WatchRunner:
        runner = self._runners.get(mount)
        if runner is None:
            runner = WatchRunner(mount, lambda change: self._changed(mount, change), self._timing)
            self._runners[mount] = runner
            mount.is_watched = True
            runner.start()
        return runner

    def _set_list_interest(self) -> None:
        followed = self._followers.mounts(self.catalog)
        for mount in followed:
            self._runner(mount).interest.listing = True
        for mount, runner in list(self._runners.items()):
            if mount not in followed:
                runner.interest.listing = False
                self._end_if_unused(runner)

    # -- changes

    def _changed(self, mount: Mount, change: Change) -> None:
        path = change.path
        topics = self._topics.at(mount, path)
        # Comparing this many queries together would keep every other request waiting.
        has_many_queries = sum(topic.query is not None for topic in topics) > self._max_comparisons
        for topic in topics:
            if has_many_queries and topic.query is not None:
                if change.certain:
                    topic.mark_changed()
                continue
            may_miss = not topic.has_state or (topic.is_truncated and change.kind != "resource")
            topic.suspect(is_certain=change.certain or may_miss)
        for topic in self._topics.at(mount, path[:-1]) if path else ():
            topic.suspect()
            # The comparison of a subscribed child decides, so that hidden changes stay hidden.
            if change.certain or (topic.is_truncated and not topics):
                self._run(self._suspect_if_visible(mount, path, topic))
        if (change.kind == "tree" or has_many_queries) and self._topics.has_any(mount):
            self._changed_trees.setdefault(mount, set()).add(path)
            if mount not in self._tree_searches:
                self._run(self._search_trees(mount))
        changes_list = change.kind != "resource" and mount.listed
        if changes_list and self._followers.waiting(self.catalog, mount):
            self._run(self._notify_list_if_listed(mount, path))

    async def _suspect_if_visible(self, mount: Mount, child: Path, topic: Topic) -> None:
        """Notify of a collection because a child changed, unless the child is hidden."""
        try:
            await mount.provider.metadata(child)
        except ResourceNotFound:
            return
        except Exception as error:
            logger.debug("a changed child cannot be described: %s", describe_error(error))
        topic.suspect(is_certain=True)  # one notification too many is better than one too few

    async def _notify_list_if_listed(self, mount: Mount, path: Path) -> None:
        """Notify of the listing, unless the changed collection is unlisted."""
        for depth in range(len(path) + 1):
            try:
                if not (await mount.provider.metadata(path[:depth])).listed:
                    return
            except (ResourceNotFound, NotACollection):
                # A mount whose root vanishes leaves the listing. If anything below it vanishes,
                # that is a change of the collection above.
                if path:
                    return
            except Exception:
                break  # one notification too many is better than one too few
        self._notify_list(self._followers.waiting(self.catalog, mount))

    def _notify_list(self, rights: Iterable[Rights]) -> None:
        if self._followers.expect(rights) and self._list_timer is None:
            loop = asyncio.get_running_loop()
            at = self._list_notified_at + self._timing.list_notify_interval_s
            self._list_timer = loop.call_later(max(0.0, at - loop.time()), self._send_list_changed)

    def _send_list_changed(self) -> None:
        self._list_timer = None
        self._list_notified_at = asyncio.get_running_loop().time()
        for listener in self._followers.take():
            listener.list_changed()

    async def _notify_once_listed(self, mount: Mount) -> None:
        """Notify of the listing as soon as a mount can be listed that it lacked."""
        backoff = Backoff(self._timing.compare_retry_s, self._timing.compare_retry_max_s)
        try:
            while rights := self._followers.waiting(self.catalog, mount):
                await settle(asyncio.sleep(backoff.next_s()))
                try:
                    await mount.start()
                    await mount.provider.metadata(())
                    await mount.provider.list((), after=None, limit=self.catalog.limits.page_size)
                except Exception as error:
                    logger.info("mount %s is not listed: %s", mount.name, describe_error(error))
                else:
                    self._notify_list(rights)
                    return
        finally:
            self._unlisted.discard(mount)

    async def _search_trees(self, mount: Mount) -> None:
        """Compare the topics below changed trees, in one search for all pending trees."""
        self._tree_searches.add(mount)
        try:
            while trees := self._changed_trees.pop(mount, None):
                began = time.monotonic()
                turns = Turns()
                below: list[Topic] = []
                for topic in self._topics.in_mount(mount):
                    ends = len(topic.path) + (topic.query is not None)
                    if any(topic.path[:depth] in trees for depth in range(ends)):
                        below.append(topic)
                    await turns.others()
                await self._suspect_all(below)
                spent = time.monotonic() - began
                if spent > _LONG_S:
                    await settle(asyncio.sleep(max(spent, self._timing.notify_interval_s)))
        finally:
            self._tree_searches.discard(mount)

    async def _suspect_all(self, topics: Sequence[Topic]) -> None:
        """Compare topics of one mount; those without a conclusive comparison count as changed."""
        await self._for_each(topics, lambda topic: topic.suspect(is_certain=topic.is_inconclusive))

    async def _for_each(self, topics: Sequence[Topic], compare: Callable[[Topic], None]) -> None:
        """Compare topics of one mount, not too many at a time."""
        turns = Turns()
        for topic in topics:
            if not topic.listeners:
                continue
            compare(topic)
            while topic.runner and len(topic.runner.comparisons) >= self._max_comparisons:
                comparisons = topic.runner.comparisons
                await settle(asyncio.wait(comparisons, return_when=asyncio.FIRST_COMPLETED))
            await turns.others()

    def _compare(self, topic: Topic) -> None:
        comparison = self._run(self._compared(topic))
        if comparison is not None and topic.runner is not None:
            topic.runner.comparisons.add(comparison)
            comparison.add_done_callback(topic.runner.comparisons.discard)

    async def _compared(self, topic: Topic) -> None:
        """Take a snapshot of a topic's resource, and give the topic the outcome."""
        snapshot = NOTHING
        try:
            if topic.runner is not None:
                mount, limits = topic.runner.mount, self.catalog.limits
                snapshot = await snapshot_at(mount, topic.path, limits, topic.query)
        except asyncio.CancelledError:
            topic.cancelled()
            raise
        except Exception as error:
            logger.info("a subscribed resource could not be compared: %s", describe_error(error))
            topic.failed()
        else:
            if topic.compared(snapshot):
                self._suspect_truncated_parents(topic)

    def _suspect_truncated_parents(self, topic: Topic) -> None:
        """Notify of collections whose comparison may have left out the changed resource."""
        if topic.runner is not None and topic.path:
            for parent in self._topics.at(topic.runner.mount, topic.path[:-1]):
                if parent.is_truncated:
                    parent.suspect(is_certain=True)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None] | None:
        """Run `work` inline; if it has to wait, return the task that finishes it."""
        outcome = eager.run(work)
        return _track(outcome, self._tasks) if isinstance(outcome, eager.Suspended) else None

    # -- the sweep

    async def _sweep(self) -> None:
        """Compare all topics every now and then: no provider notices every change."""
        pause = self._timing.sweep_s
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            for mount in self._topics.mounts:
                # A mount that hangs does not delay the others.
                if mount.provider.is_swept and mount not in self._mount_sweeps:
                    topics = self._topics.in_mount(mount)
                    sweep = _track(self._for_each(topics, Topic.sweep), self._tasks)
                    self._mount_sweeps[mount] = sweep
                    sweep.add_done_callback(lambda _, mount=mount: self._mount_sweeps.pop(mount))
            hanging: Collection[object] = ()
            if self._mount_sweeps:
                sweeps = self._mount_sweeps.values()
                _, hanging = await asyncio.wait(sweeps, timeout=self._timing.sweep_s)
            spent = 0.0 if hanging else time.monotonic() - began
            pause = self._timing.pause_after_sweep(spent)


class ListFollowers:
    """Listeners of `list_changed`, by the rights that decide which mounts they see."""

    def __init__(self) -> None:
        self._listeners: dict[Rights, dict[Listener, Caller]] = {}
        self._due: set[Rights] = set()

    def add(self, listener: Listener, caller: Caller, rights: Rights) -> bool:
        """Add a listener, or give one other rights; return whether `mounts` may differ now."""
        was_last = self.remove(listener)
        listeners = self._listeners.setdefault(rights, {})
        listeners[listener] = caller
        return was_last or len(listeners) == 1

    def remove(self, listener: Listener) -> bool:
        """Remove a listener; return whether `mounts` may differ now."""
        for rights, listeners in self._listeners.items():
            if listener in listeners:
                del listeners[listener]
                if not listeners:
                    del self._listeners[rights]
                return not listeners
        return False

    def clear(self) -> None:
        """Remove all listeners."""
        self._listeners.clear()

    def regroup(self, rights_of: Callable[[Caller], Rights]) -> None:
        """Give each listener the rights that its caller has now."""
        every = [each for listeners in self._listeners.values() for each in listeners.items()]
        due = set(self.take())
        self._listeners = {}
        for listener, caller in every:
            rights = rights_of(caller)
            self._listeners.setdefault(rights, {})[listener] = caller
            if listener in due:
                self._due.add(rights)

    def mounts(self, catalog: Catalog) -> Collection[Mount]:
        """Return the mounts whose listing has followers, in manifest order."""
        visible = (catalog.visibility.with_rights(rights).mounts for rights in self._listeners)
        return dict.fromkeys(mount for mounts in visible for mount in mounts if mount.listed)

    def waiting(self, catalog: Catalog, mount: Mount) -> Sequence[Rights]:
        """Return the rights of followers who see a mount and whose notification is not due yet."""
        return [
            rights
            for rights in self._listeners
            if rights not in self._due and mount in catalog.visibility.with_rights(rights).mounts
        ]

    def differing(self, before: Catalog, after: Catalog) -> Sequence[Rights]:
        """Return the rights of followers for whom the two catalogs have different mounts."""
        return [
            rights
            for rights, listeners in self._listeners.items()
            for caller in [next(iter(listeners.values()))]
            if before.visibility.of(caller).mounts != after.visibility.of(caller).mounts
        ]

    def expect(self, rights: Iterable[Rights]) -> bool:
        """Make a notification due for followers with these rights; return whether any is due."""
        self._due.update(rights)
        return bool(self._due)

    def take(self) -> Sequence[Listener]:
        """Return the listeners whose notification is due; it is no longer due afterwards."""
        due, self._due = self._due, set()
        return [listener for rights in due for listener in self._listeners.get(rights, ())]


def _track(
    work: Coroutine[Any, Any, None] | eager.Suspended[None], tasks: set[asyncio.Future[None]]
) -> asyncio.Future[None]:
    """Run `work` in a task that is in `tasks` until it is done."""
    task = asyncio.ensure_future(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task
