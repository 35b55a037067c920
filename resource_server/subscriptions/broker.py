"""From what providers see to what clients are told: `updated` of a resource, `list_changed`.

A change only suggests. What is told is decided by a comparison: of the version told last with the
present one, for a collection of what reading it would return. So nothing is told that did not
change, whatever a provider says, and a slow sweep over everything subscribed to finds what no
provider saw. The first event of a resource is told at once, and then at most one in 50 ms, the last
one for certain.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Coroutine, Hashable, Iterable, Sequence
from typing import Any

from resource_server import uris
from resource_server.access import Scopes, current
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import FAILURES, Mount, describe_error
from resource_server.errors import NotACollection, ResourceNotFound
from resource_server.provider import Change, Path
from resource_server.runtime import eager
from resource_server.runtime.eager import Turns, settle
from resource_server.subscriptions.list_followers import ListFollowers
from resource_server.subscriptions.snapshot import (
    ABSENT,
    INDISTINCT,
    NOTHING,
    DocumentState,
    part,
    snapshot_at,
    snapshot_of,
)
from resource_server.subscriptions.topic import FIRST_RETRY_S, Listener, Topic, Topics
from resource_server.subscriptions.watch_runner import WatchRunner

logger = logging.getLogger(__name__)

_INTERVAL_S = 0.05
"""Between two events of one resource."""
_LIST_INTERVAL_S = 0.25
_GRACE_S = 0.05
"""For the second half of a replacement: an editor that moves the old file away first."""
_LONG_S = 0.005
"""A search that took longer rests for as long, before the next."""
_SWEEP_S = 30.0
_SWEEP_SHARE = 300
"""A sweep comes no sooner than so many times its own duration: a third of a percent of a core."""
_LONGEST_RETRY_S = 60.0
_AT_ONCE = 32
"""Topics of a mount that wait for their provider, before more of its topics are compared."""
_MISREADS = 8
"""Looks at a topic between two sweeps because a client was given something else."""


class Broker:
    """Tells listeners of changes in a catalog. Does nothing until somebody listens."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._topics = Topics()
        self._watching: dict[Mount, WatchRunner] = {}
        self._followers = ListFollowers()
        self._relisted_at = float("-inf")
        self._relisting: asyncio.TimerHandle | None = None
        self._trees: dict[Mount, set[Path]] = {}
        """Where anything below may have changed, or any of many parts: not looked at yet."""
        self._searches = set[Mount]()
        """Where such a look is under way."""
        self._connecting: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Future[None]] = set()
        self._ending: set[asyncio.Future[None]] = set()
        """Watches of mounts that are not served any more."""
        self._sweeping: asyncio.Task[None] | None = None
        self._sweeps: dict[Mount, asyncio.Future[None]] = {}
        """Those that are under way."""

    async def close(self) -> None:
        """End every watch; nobody is told anything from here on."""
        self._followers.clear()
        for topic in self._topics.clear():
            topic.listeners.clear()
            if topic.timer is not None:
                topic.timer.cancel()
        if self._relisting is not None:
            self._relisting.cancel()
        tasks = [*self._tasks, *([self._sweeping] if self._sweeping else ())]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=eager.END_S)
        closings = (watching.close() for watching in self._watching.values())
        await asyncio.gather(*closings, *self._ending)
        self._watching.clear()

    # -- who listens

    async def subscribe(self, uri: str, listener: Listener) -> Topic:
        """Tell `listener` from now on when the resource `uri` differs from what it is now.

        A part of a document whose version tells of it is told of with the document; any other, such
        as the result of a query with parameters, when a read of this `uri` returns something else.

        Raises:
            ResourceError: as `Catalog.read`, for what cannot be read.
        """
        mount, path, query = await self.catalog.locate(uri)
        own = await part(mount, path, query) if query else None
        resource = await settle(mount.provider.metadata(path))
        if not resource.readable:
            raise ResourceNotFound
        # In one order: who names the same parameters otherwise subscribes to the same.
        query = dict(sorted(query.items())) if own else None
        canonical, scopes = uris.join(mount.base, resource.path, query), current().scopes
        topic = self._topics.get(canonical, scopes)
        if topic is None:
            # The version first, and then the watch, which begins with a look.
            present = own or await snapshot_of(mount, resource, self.catalog.limits)
            topic = self._topics.get(canonical, scopes)
            if topic is None:
                topic = Topic(canonical, present, scopes, query)
                self._topics.add(topic)
                self._connect(topic)
        topic.listeners[listener] = None
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep())
        return topic

    def unsubscribe(self, uri: str, listener: Listener, scopes: Scopes = None) -> None:
        """Tell `listener` no more of the resource with this canonical URI.

        The `scopes` are those with which it subscribed.
        """
        topic = self._topics.get(uri, scopes)
        if topic is not None and listener in topic.listeners:
            del topic.listeners[listener]
            if not topic.listeners:
                self._drop(topic)

    def unsubscribe_all(self, subscriptions: Iterable[tuple[str, Listener, Scopes]]) -> None:
        """Unsubscribe each as `unsubscribe` does: of very many a few at a time."""
        self._run(self._unsubscribe_all(subscriptions))

    async def _unsubscribe_all(self, subscriptions: Iterable[tuple[str, Listener, Scopes]]) -> None:
        turns = Turns()
        for uri, listener, scopes in subscriptions:
            self.unsubscribe(uri, listener, scopes)
            await turns.others()

    def note_read(self, uri: str, given: Hashable) -> None:
        """Take note of what a client was given of a resource: it may have been there for a moment.

        `given` is as `Snapshot.given`.
        """
        topic = self._topics.get(uri, current().scopes)
        if topic is not None and given != topic.given:
            topic.misread = True
            topic.misreads += 1
            # Of some providers a read never gives what `metadata` says.
            if topic.misreads <= _MISREADS:
                self._suspect(topic)

    def follow_list(self, listener: Listener) -> None:
        """Tell `listener` from now on when other resources are listed than before."""
        if self._followers.add(listener, current().scopes):
            self._set_listing()

    def unfollow_list(self, listener: Listener) -> None:
        """Tell `listener` no more of what is listed."""
        if self._followers.remove(listener):
            self._set_listing()

    def replace_catalog(self, catalog: Catalog, *, relist: bool) -> None:
        """Serve another catalog from now on: who subscribed to a URI is told if it now differs.

        `relist` says that other resources are listed than before, to those who see other mounts.
        """
        before, self.catalog = self.catalog, catalog
        for mount in [each for each in self._watching if each.origin not in catalog.mounts]:
            _keep(self._watching.pop(mount).close(), self._ending)
            self._topics.close(mount)
        self._set_listing()
        self._connecting = self._run(self._connect_all(self._connecting))
        if relist:
            self._relist(self._followers.differing(before, catalog))

    async def _connect_all(self, before: asyncio.Future[None] | None) -> None:
        """Watch every topic where its URI leads now, and compare those that are elsewhere."""
        if before is not None:
            await settle(asyncio.wait([before]))
        moved: dict[WatchRunner | None, list[Topic]] = {}
        turns = Turns()
        for topic in self._topics.all():
            if topic.listeners and self._connect(topic):
                moved.setdefault(topic.watching, []).append(topic)
            await turns.others()
        for topics in moved.values():
            self._run(self._suspect_all(topics, vague=True))

    def _connect(self, topic: Topic) -> bool:
        """Watch a topic in the mount that has its URI now; say if that is another one."""
        try:
            mount, path, _ = self.catalog.visibility.for_scopes(topic.scopes).route(topic.document)
        except ResourceNotFound:
            mount, path = None, ()
        before = topic.watching
        if path == topic.path and mount is (before and before.mount):
            return False
        self._topics.displace(topic)
        if mount is not None and not self._topics.place(topic, self._watched(mount), path):
            # The watch has begun, with a look for another topic.
            self._suspect(topic)
        return True

    def _drop(self, topic: Topic) -> None:
        self._topics.remove(topic)
        if topic.timer is not None:
            topic.timer.cancel()
            topic.timer = None

    def _watched(self, mount: Mount) -> WatchRunner:
        watching = self._watching.get(mount)
        if watching is None:
            watching = WatchRunner(mount, lambda change: self._changed(mount, change))
            self._watching[mount] = watching
            watching.start()
        return watching

    def _set_listing(self) -> None:
        followed = self._followers.mounts(self.catalog)
        for mount in followed:
            self._watched(mount).interest.listing = True
        for mount, watching in self._watching.items():
            if mount not in followed:
                watching.interest.listing = False

    # -- what may have changed

    def _changed(self, mount: Mount, change: Change) -> None:
        path = change.path
        topics = self._topics.at(mount, path)
        # More reads at once would keep everybody else from reading.
        many = sum(topic.query is not None for topic in topics) > _AT_ONCE
        for topic in topics:
            if many and topic.query is not None:
                topic.certain = topic.certain or change.certain
                continue
            vague = topic.token == INDISTINCT or (topic.cut and change.kind != "resource")
            self._suspect(topic, certain=change.certain or vague)
        for topic in self._topics.at(mount, path[:-1]) if path else ():
            self._suspect(topic)
            if change.certain or topic.cut:
                self._run(self._suspect_if_shown(mount, path, topic))
        if (change.kind == "tree" or many) and self._topics.has(mount):
            self._trees.setdefault(mount, set()).add(path)
            if mount not in self._searches:
                self._run(self._search(mount))
        relists = change.kind != "resource" and mount.listed
        if relists and self._followers.untold(self.catalog, mount):
            self._run(self._relist_if_listed(mount, path))

    async def _suspect_if_shown(self, mount: Mount, child: Path, topic: Topic) -> None:
        """Tell of a collection because of a child, unless nobody may know of the child."""
        try:
            await settle(mount.provider.metadata(child))
        except ResourceNotFound:
            return
        except (*FAILURES, asyncio.CancelledError):
            if eager.is_cancelled():
                raise
        self._suspect(topic, certain=True)  # better said once too often

    async def _relist_if_listed(self, mount: Mount, path: Path) -> None:
        """Tell that other resources are listed, unless the collection is kept out of listings."""
        for depth in range(len(path) + 1):
            try:
                if not (await settle(mount.provider.metadata(path[:depth]))).listed:
                    return
            except (ResourceNotFound, NotACollection):
                # The root of a mount that vanishes is gone from the listing; what vanishes below
                # it is a change of the collection above.
                if path:
                    return
            except (*FAILURES, asyncio.CancelledError):
                if eager.is_cancelled():
                    raise
                break  # better said once too often
        self._relist(self._followers.untold(self.catalog, mount))

    def _relist(self, whose: Iterable[Scopes]) -> None:
        if self._followers.expect(whose) and self._relisting is None:
            loop = asyncio.get_running_loop()
            wait = max(0.0, self._relisted_at + _LIST_INTERVAL_S - loop.time())
            self._relisting = loop.call_later(wait, self._tell_relisted)

    def _tell_relisted(self) -> None:
        self._relisting = None
        self._relisted_at = asyncio.get_running_loop().time()
        for listener in self._followers.take():
            listener.list_changed()

    async def _search(self, mount: Mount) -> None:
        """Compare what is in `_trees`, until nothing is: many trees at once are one search."""
        self._searches.add(mount)
        try:
            while trees := self._trees.pop(mount, None):
                began = time.monotonic()
                turns = Turns()
                below: list[Topic] = []
                for topic in self._topics.of(mount):
                    ends = len(topic.path) + (topic.query is not None)
                    if any(topic.path[:depth] in trees for depth in range(ends)):
                        below.append(topic)
                    await turns.others()
                await self._suspect_all(below, vague=True)
                spent = time.monotonic() - began
                if spent > _LONG_S:
                    await settle(asyncio.sleep(max(spent, _INTERVAL_S)))
        finally:
            self._searches.discard(mount)

    async def _suspect_all(self, topics: Sequence[Topic], *, vague: bool) -> None:
        """Compare these of one mount; with `vague`, tell of those whose comparison says little.

        Without it is the sweep.
        """
        turns = Turns()
        for topic in topics:
            if not topic.listeners:
                continue
            if not vague:
                topic.misreads = 0
            self._suspect(topic, certain=vague and topic.is_vague)
            while topic.watching is not None and len(topic.watching.looks) >= _AT_ONCE:
                looks = asyncio.wait(topic.watching.looks, return_when=asyncio.FIRST_COMPLETED)
                await settle(looks)
            await turns.others()

    def _suspect(self, topic: Topic, *, certain: bool = False) -> None:
        """See to it that a topic is compared soon: at once, unless it was told a moment ago."""
        topic.certain = topic.certain or certain
        if topic.is_looking:
            topic.again = True
            return
        if topic.timer is not None and topic.has_failed:
            # There is a better reason to look than that it may be possible by now.
            topic.timer.cancel()
            topic.timer = None
            topic.has_failed = False
        if topic.timer is None:
            loop = asyncio.get_running_loop()
            if topic.rests_until > loop.time():
                topic.timer = loop.call_at(topic.rests_until, self._look, topic)
            else:
                self._look(topic)

    def _look(self, topic: Topic) -> None:
        topic.timer = None
        topic.has_failed = False
        topic.is_looking = True
        look = self._run(self._compare(topic))
        if look is not None and topic.watching is not None:
            topic.watching.looks.add(look)
            look.add_done_callback(topic.watching.looks.discard)

    async def _compare(self, topic: Topic) -> None:
        """Tell of a topic if it differs from what was told last."""
        try:
            of, at = topic.watching, (topic.path, self.catalog.limits, topic.query)
            present = await snapshot_at(of.mount, *at) if of else NOTHING
        except (*FAILURES, asyncio.CancelledError) as error:
            if eager.is_cancelled():
                raise
            # It can neither be told nor forgotten: look again.
            logger.info(
                "a resource subscribed to could not be looked at: %s", describe_error(error)
            )
            again = topic.again
            self._look_later(topic, topic.retry_after)
            topic.retry_after = min(topic.retry_after * 2, _LONGEST_RETRY_S)
            topic.has_failed = True
            self._rest(topic)
            if again:
                self._suspect(topic)
            return
        finally:
            topic.is_looking = False
        topic.retry_after = FIRST_RETRY_S
        token, given, is_cut = present
        vanished = token == ABSENT != topic.token
        if vanished and not topic.missing:
            topic.missing = True
            self._look_later(topic, _GRACE_S)
            return
        topic.missing = False
        topic.given, topic.cut = given, is_cut
        if token != topic.token or topic.misread or (topic.certain and token != ABSENT):
            topic.token = token
            topic.certain = topic.misread = False
            self._rest(topic)
            for listener in list(topic.listeners):
                listener.updated(topic.uri)
        elif not isinstance(token, DocumentState):
            self._rest(topic)  # a look at a thousand children takes a while
        if topic.again:
            topic.again = False
            self._suspect(topic)

    def _rest(self, topic: Topic) -> None:
        topic.rests_until = asyncio.get_running_loop().time() + _INTERVAL_S

    def _look_later(self, topic: Topic, seconds: float) -> None:
        topic.again = False
        if topic.listeners:
            loop = asyncio.get_running_loop()
            topic.timer = loop.call_later(seconds, self._look, topic)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None] | None:
        """Do `work` at once; return the task of what is left of it, if it has to wait."""
        outcome = eager.run(work)
        return _keep(outcome, self._tasks) if isinstance(outcome, eager.Suspended) else None

    # -- the sweep

    async def _sweep(self) -> None:
        """Compare everything subscribed to, every now and then: nothing else sees every change."""
        pause = _SWEEP_S
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            for mount in self._topics.mounts:
                # A mount that hangs keeps no other waiting.
                if mount not in self._sweeps:
                    everything = self._suspect_all(self._topics.of(mount), vague=False)
                    sweep = _keep(everything, self._tasks)
                    self._sweeps[mount] = sweep
                    sweep.add_done_callback(lambda _, of=mount: self._sweeps.pop(of))
            hanging: Collection[object] = ()
            if self._sweeps:
                _, hanging = await asyncio.wait(self._sweeps.values(), timeout=_SWEEP_S)
            spent = 0.0 if hanging else time.monotonic() - began
            pause = max(_SWEEP_S, _SWEEP_SHARE * spent)


def _keep(
    work: Coroutine[Any, Any, None] | eager.Suspended[None], tasks: set[asyncio.Future[None]]
) -> asyncio.Future[None]:
    """Run `work` in a task that is in `tasks` until it is done."""
    task = asyncio.ensure_future(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task
