"""What one client asked to be told of, and what it has not been told yet.

A subscription is to a resource, and is told of in the very spelling of the URI that was asked for.
Nothing is told before the client knows that it is subscribed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Literal

import msgspec

from resource_server import uris
from resource_server.access import Scopes
from resource_server.catalog.catalog import ReadResult
from resource_server.catalog.mount import FAILURES, log_failure
from resource_server.errors import ResourceBusy, ResourceError
from resource_server.protocol.announcements import Announcements, Follower, Offered
from resource_server.protocol.outbox import Outbox, Send, Source
from resource_server.protocol.versions import Versions
from resource_server.runtime.eager import Turns, is_cancelled
from resource_server.subscriptions.broker import Broker
from resource_server.subscriptions.snapshot import INDISTINCT, digest_children, read_of, state_of
from resource_server.subscriptions.topic import Listener, Topic

MAX_SUBSCRIPTIONS = 100_000
"""Of one connection, those of all its listens together."""
MAX_CHARACTERS = 32 * 1024 * 1024
"""Of the URIs of these; a spelling may be far longer than the name of what it addresses."""
MAX_STREAMS = 1024

_encode = msgspec.json.Encoder().encode


class Subscriber:
    """One client: what it has read, and all that it is told without a request."""

    def __init__(
        self,
        live: Broker,
        announcements: Announcements,
        push: Send,
        room: asyncio.Event | None = None,
    ) -> None:
        self.broker = live
        self.announcements = announcements
        self.versions = Versions()
        self.outbox = Outbox(room)
        self._free = MAX_SUBSCRIPTIONS
        self._free_characters = MAX_CHARACTERS
        self._streams = set[Subscriptions]()
        self.own = Subscriptions(self, push)
        """What the handshake revisions subscribe to: one set for the whole connection."""
        self.own.open()

    def stream(self, push: Send, meta: bytes) -> Subscriptions:
        """Return a set of subscriptions whose every notification has the members `meta`.

        Raises:
            ResourceBusy: there are too many.
        """
        if len(self._streams) >= MAX_STREAMS:
            raise ResourceBusy(f"more than {MAX_STREAMS} subscription streams at once")
        stream = Subscriptions(self, push, meta)
        self._streams.add(stream)
        return stream

    def forget(self, stream: Subscriptions) -> None:
        """Make room for another stream."""
        self._streams.discard(stream)

    def given(self, uri: str, given: Hashable) -> None:
        """Take note of what this client was given of a resource, by its canonical URI."""
        self.versions.put(uri, given)
        self.broker.note_read(uri, given)

    def read(self, reading: ReadResult) -> None:
        """Take note of all that this client was given by one read."""
        for body in reading.items:
            state = state_of(body.entry.resource)
            if body.content is None:
                continue
            if state != INDISTINCT:
                self.given(body.entry.uri, state)
            elif query := uris.parse(body.uri).query:
                part = uris.with_query(body.entry.uri, dict(sorted(query.items())))
                self.given(part, read_of(body.content))
        if reading.collection is not None:
            self.given(reading.collection, digest_children(reading.children))

    def claim(self, uri: str) -> None:
        """Count one more subscription.

        Raises:
            ResourceBusy: there are too many.
        """
        if not self._free or self._free_characters < len(uri):
            raise ResourceBusy("this connection has too many subscriptions")
        self._free -= 1
        self._free_characters -= len(uri)

    def release(self, *uris: str) -> None:
        """Count these subscriptions no longer."""
        self._free += len(uris)
        self._free_characters += sum(map(len, uris))

    def close(self) -> None:
        """Unsubscribe from everything; nothing more is told."""
        for stream in [self.own, *self._streams]:
            stream.close()
        self.outbox.close()


class _Subscription:
    """The subscription to one URI as it was asked for."""

    __slots__ = ("_subscriptions", "topic", "uri")

    def __init__(self, subscriptions: Subscriptions, uri: str) -> None:
        self._subscriptions = subscriptions
        self.uri = uri
        self.topic: Topic | None = None
        """None until it has begun, and again when it is given up."""

    def updated(self, uri: str) -> None:
        if self.topic is not None:
            self._subscriptions.updated(self.uri)

    def list_changed(self) -> None:
        self._subscriptions.list_changed()


class Subscriptions:
    """What is told together: all of a handshake connection, or one `subscriptions/listen`."""

    def __init__(self, subscriber: Subscriber, push: Send, meta: bytes = b"") -> None:
        self._subscriber = subscriber
        self._live = subscriber.broker
        self._push = push
        self._meta = meta
        self._subscriptions: dict[str, _Subscription] = {}
        self._attempts = Counter[str]()
        """How often each is being subscribed to just now."""
        self._untold = OrderedDict[str, None]()
        self._lists_untold: dict[str, None] = {}
        self._end: Callable[[], None] | None = None
        self._is_open = False
        self._is_closed = False

    # -- what the client asks

    async def subscribe(self, uri: str) -> None:
        """Tell from now on when this resource changes, and at once if it is not as it was read.

        Raises:
            ResourceError: the resource cannot be seen, or there are too many subscriptions.
        """
        known = self._subscriptions.get(uri)
        if known is None or known.topic is None:
            known = await self._begin(uri, claimed=known is not None)
        if known is None or known.topic is None:
            return
        read = self._subscriber.versions.get(known.topic.uri)
        if read is not None and read != known.topic.given:
            self.updated(uri)

    async def _begin(self, uri: str, *, claimed: bool) -> _Subscription | None:
        """Subscribe in fact; return the subscription unless it was given up meanwhile.

        The same may be asked several times at once: the first that succeeds is the one that lasts.
        """
        mine = _Subscription(self, uri)
        if not claimed:
            self._subscriber.claim(uri)
            self._subscriptions[uri] = mine
        self._attempts[uri] += 1
        try:
            topic = await self._live.subscribe(uri, mine)
        except BaseException:
            known = self._subscriptions.get(uri)
            if known is not None and known.topic is None and self._attempts[uri] == 1:
                self._remove(uri)
            raise
        finally:
            self._attempts[uri] -= 1
            if not self._attempts[uri]:
                del self._attempts[uri]
        lasting = self._subscriptions.get(uri)
        if lasting is None or lasting.topic is not None:
            self._live.unsubscribe(topic.uri, mine, topic.scopes)
            return lasting
        mine.topic = topic
        self._subscriptions[uri] = mine
        return mine

    async def subscribe_all(self, uris: Iterable[str]) -> list[str]:
        """Subscribe to each URI that can be; return those, each once, in this order."""
        honoured: list[str] = []
        failed = False
        turns = Turns()
        for uri in dict.fromkeys(uris):
            await turns.others()
            try:
                await self.subscribe(uri)
                honoured.append(uri)
            except ResourceError:
                pass
            except (*FAILURES, asyncio.CancelledError) as error:
                if is_cancelled():
                    raise
                if not failed:
                    log_failure(error, "a resource could not be subscribed to")
                failed = True
        return honoured

    def unsubscribe(self, uri: str) -> None:
        """Tell nothing more of the resource under this spelling of its URI."""
        if uri in self._subscriptions:
            self._remove(uri)

    def _remove(self, uri: str) -> None:
        subscription = self._subscriptions.pop(uri)
        if subscription.topic is not None:
            topic = subscription.topic
            self._live.unsubscribe(topic.uri, subscription, topic.scopes)
        self._untold.pop(uri, None)
        self._subscriber.release(uri)

    def follow_list(self, of: Literal["resources"] | Offered = "resources") -> None:
        """Tell from now on when other resources are listed than before; or tools, or prompts."""
        if self._is_closed:
            return
        if of == "resources":
            self._live.follow_list(self)
        else:
            self._subscriber.announcements.follow(of, self)

    # -- what there is to tell

    def updated(self, uri: str) -> None:
        """Tell that the resource has changed that was asked for as `uri`."""
        self._untold[uri] = None
        self._wake()

    def list_changed(self, of: Literal["resources"] | Offered = "resources") -> None:
        """Tell that other resources are listed; or tools, or prompts."""
        self._lists_untold[of] = None
        self._wake()

    def open(self) -> None:
        """Begin to tell: the client knows."""
        self._is_open = True
        if self._untold or self._lists_untold:
            self._wake()

    def end(self, end: Callable[[], None]) -> None:
        """Unsubscribe from everything, tell what is left to tell, and then call `end`."""
        self._unsubscribe_all()
        self._end = end
        self._wake()

    def close(self) -> None:
        """Unsubscribe from everything; nothing more is told."""
        self._is_closed = True
        self._unsubscribe_all()
        self._subscriber.outbox.remove(self)
        self._subscriber.forget(self)

    def _unsubscribe_all(self) -> None:
        self._live.unfollow_list(self)
        self._subscriber.announcements.unfollow(self)
        self._subscriber.release(*self._subscriptions)
        given_up: list[tuple[str, Listener, Scopes]] = []
        for subscription in self._subscriptions.values():
            if (topic := subscription.topic) is not None:
                given_up.append((topic.uri, subscription, topic.scopes))
                subscription.topic = None
        self._subscriptions.clear()
        self._live.unsubscribe_all(given_up)

    def _wake(self) -> None:
        if self._is_open and not self._is_closed:
            self._subscriber.outbox.put(self)

    def send_next(self) -> bool:
        """See `Source.send_next`."""
        if self._lists_untold:
            of = next(iter(self._lists_untold))
            del self._lists_untold[of]
            self.notify(f"{of}/list_changed")
        elif self._untold:
            uri, _ = self._untold.popitem(last=False)
            self.notify("resources/updated", b'"uri":' + _encode(uri))
        elif self._end is not None:
            end, self._end = self._end, None
            self.close()
            end()
        else:
            return False
        return True

    def notify(self, name: str, members: bytes = b"") -> None:
        """Send a notification now."""
        params = b",".join(filter(None, (self._meta, members)))
        self._push(
            b'{"jsonrpc":"2.0","method":"notifications/%b"%b}'
            % (name.encode(), b',"params":{%b}' % params if params else b"")
        )


_: tuple[type[Listener], type[Listener], type[Follower], type[Source]] = (
    _Subscription,
    Subscriptions,
    Subscriptions,
    Subscriptions,
)
