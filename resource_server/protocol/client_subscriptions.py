"""Subscriptions of one client: its topics, and its queued notifications.

A notification repeats the URI in the spelling of its subscription. Nothing is sent before the
client knows that it is subscribed.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, MutableMapping
from typing import Literal, Protocol

import msgspec

from resource_server import uris
from resource_server.access import Rights
from resource_server.catalog.mount import log_failure
from resource_server.catalog.read_result import ReadResult
from resource_server.errors import ResourceBusy, ResourceError
from resource_server.protocol.message import JsonRpcMessage
from resource_server.protocol.outbox import Outbox, Room, Send
from resource_server.protocol.params import LoggingLevel
from resource_server.protocol.server import ListAnnouncements, ListName, Server
from resource_server.runtime.eager import Turns
from resource_server.subscriptions.snapshot import (
    INDISTINCT,
    digest_children,
    digest_content,
    state_of,
)
from resource_server.subscriptions.topic import Listener, Topic

MAX_URI_CHARACTERS = 32 * 1024 * 1024
"""Maximum characters of all subscribed URIs; a spelling may be far longer than its address."""

_encode = msgspec.json.Encoder().encode


class SharedConnection(Protocol):
    """Shares the state of a connection with the other servers that answer its client."""

    async def subscribed(self, uri: str) -> None:
        """Note a subscription.

        Raises:
            ResourceBusy: the other servers would not know of it.
        """
        ...

    async def unsubscribed(self, uri: str) -> None:
        """Note the end of a subscription.

        Raises:
            ResourceBusy: the other servers would not know of it.
        """
        ...

    def level_set(self, level: LoggingLevel) -> None:
        """Note the level of log messages that the client wants."""
        ...

    def responded(self, response: JsonRpcMessage) -> None:
        """Take a response to no request of this server."""
        ...


class Subscriber:
    """One client: its subscriptions and its outbox.

    `read_states` has the states of resources that it has read, by canonical URI.
    """

    def __init__(
        self,
        server: Server,
        push: Send,
        room: Room | None,
        read_states: MutableMapping[str, Hashable],
    ) -> None:
        self.broker = server.broker
        self.announcements: ListAnnouncements = server.announcements
        self.read_states = read_states
        self.outbox = Outbox(room)
        self._limits = server.limits
        self._free = server.limits.subscriptions
        self._free_characters = MAX_URI_CHARACTERS
        self._streams = set[Subscriptions]()
        self.own = Subscriptions(self, push)
        """The subscriptions of a handshake connection, which has one set."""
        self.own.open()

    def stream(self, push: Send, meta: bytes) -> Subscriptions:
        """Return a set of subscriptions whose notifications all carry the members `meta`.

        Raises:
            ResourceBusy: there are too many.
        """
        if len(self._streams) >= self._limits.listens:
            raise ResourceBusy(f"more than {self._limits.listens} concurrent subscription streams")
        stream = Subscriptions(self, push, meta)
        self._streams.add(stream)
        return stream

    def forget(self, stream: Subscriptions) -> None:
        """Make room for another stream."""
        self._streams.discard(stream)

    def given(self, uri: str, state: Hashable) -> None:
        """Note the state of a resource that this client was sent, by its canonical URI."""
        self.read_states[uri] = state
        self.broker.note_read(uri, state)

    def read(self, reading: ReadResult) -> None:
        """Note the states of all resources that one read sent to this client."""
        for body in reading.items:
            state = state_of(body.entry.resource)
            if body.content is None:
                continue
            if state != INDISTINCT:
                self.given(body.entry.uri, state)
            elif query := body.entry.query:
                part = uris.with_query(body.entry.uri, query)
                self.given(part, digest_content(body.content))
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
        """Stop counting these subscriptions."""
        self._free += len(uris)
        self._free_characters += sum(map(len, uris))

    def close(self) -> None:
        """Unsubscribe from everything, and send nothing more."""
        for stream in [self.own, *self._streams]:
            stream.close()
        self.outbox.close()


class _Subscription:
    """The subscription to one URI in the client's spelling."""

    __slots__ = ("_subscriptions", "topic", "uri")

    def __init__(self, subscriptions: Subscriptions, uri: str) -> None:
        self._subscriptions = subscriptions
        self.uri = uri
        self.topic: Topic | None = None
        """None before it has started, and after it was cancelled."""

    def updated(self, uri: str) -> None:
        if self.topic is not None:
            self._subscriptions.updated(self.uri)

    def list_changed(self) -> None:
        self._subscriptions.list_changed()


class Subscriptions:
    """Subscriptions that share a stream: of a handshake connection, or of one listen."""

    def __init__(self, subscriber: Subscriber, push: Send, meta: bytes = b"") -> None:
        self._subscriber = subscriber
        self._broker = subscriber.broker
        self._push = push
        self._meta = meta
        self._subscriptions: dict[str, _Subscription] = {}
        self._attempts = Counter[str]()
        """Subscribe requests in progress, by URI."""
        self._pending_updates = OrderedDict[str, None]()
        self._pending_lists: dict[str, None] = {}
        self.shared: SharedConnection | None = None
        """Set if other servers answer the client, too."""
        self.refusal: str | None = None
        """Why nothing can be subscribed to."""
        self._end: Callable[[], None] | None = None
        self._is_open = False
        self._is_closed = False

    # -- requests

    async def subscribe(self, uri: str) -> None:
        """Notify of changes from now on, immediately if the client has read another version.

        Raises:
            ResourceError: the resource is not visible, or there are too many subscriptions.
        """
        if self.refusal is not None:
            raise ResourceBusy(self.refusal, is_temporary=False)
        known = self._subscriptions.get(uri)
        if known is None or known.topic is None:
            known = await self._begin(uri, claimed=known is not None)
        if known is None or known.topic is None:
            return
        read = self._subscriber.read_states.get(known.topic.uri)
        if read is not None and read != known.topic.read_digest:
            self.updated(uri)

    async def _begin(self, uri: str, *, claimed: bool) -> _Subscription | None:
        """Do the subscribing; return the subscription unless it was cancelled meanwhile.

        If several requests for one URI run concurrently, the first to succeed wins.
        """
        mine = _Subscription(self, uri)
        if not claimed:
            self._subscriber.claim(uri)
            self._subscriptions[uri] = mine
        self._attempts[uri] += 1
        try:
            topic = await self._broker.subscribe(uri, mine)
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
        if self._is_closed or lasting is None or lasting.topic is not None:
            self._broker.unsubscribe(topic.uri, mine, topic.rights)
            return lasting
        mine.topic = topic
        self._subscriptions[uri] = mine
        return mine

    async def subscribe_all(self, uris: Iterable[str]) -> list[str]:
        """Subscribe to each URI that allows it; return those, each once, in this order."""
        honoured: list[str] = []
        failed = False
        turns = Turns()
        for uri in dict.fromkeys(uris):
            await turns.others()
            if self._is_closed:
                break
            try:
                await self.subscribe(uri)
                honoured.append(uri)
            except ResourceError:
                pass
            except Exception as error:
                if not failed:
                    log_failure(error, "a resource could not be subscribed to")
                failed = True
        return honoured

    @property
    def uris(self) -> frozenset[str]:
        """The subscribed URIs, as the client writes them."""
        return frozenset(self._subscriptions)

    def read_state(self, uri: str) -> Hashable:
        """Return the state of a subscribed resource that the client has read here, or None."""
        known = self._subscriptions.get(uri)
        if known is None or known.topic is None:
            return None
        return self._subscriber.read_states.get(known.topic.uri)

    def unsubscribe(self, uri: str) -> None:
        """End the subscription to this spelling of a URI."""
        if uri in self._subscriptions:
            self._remove(uri)

    def _remove(self, uri: str) -> None:
        subscription = self._subscriptions.pop(uri)
        if subscription.topic is not None:
            topic = subscription.topic
            self._broker.unsubscribe(topic.uri, subscription, topic.rights)
        self._pending_updates.pop(uri, None)
        self._subscriber.release(uri)

    def follow_list(self, name: Literal["resources"] | ListName = "resources") -> None:
        """Notify of changes of a list from now on."""
        if self._is_closed:
            return
        if name == "resources":
            self._broker.follow_list(self)
        else:
            self._subscriber.announcements.follow(name, self)

    # -- notifications

    def updated(self, uri: str) -> None:
        """Queue the notification that a resource has changed, by its subscribed URI."""
        self._pending_updates[uri] = None
        self._wake()

    def list_changed(self, name: Literal["resources"] | ListName = "resources") -> None:
        """Queue the notification that a list has changed."""
        self._pending_lists[name] = None
        self._wake()

    def open(self) -> None:
        """Start sending: the client knows that it is subscribed."""
        self._is_open = True
        if self._pending_updates or self._pending_lists:
            self._wake()

    def end(self, end: Callable[[], None]) -> None:
        """Unsubscribe from everything, send the queued notifications, then call `end`."""
        self._unsubscribe_all()
        self._end = end
        self._wake()

    def close(self) -> None:
        """Unsubscribe from everything, and send nothing more."""
        self._is_closed = True
        self._unsubscribe_all()
        self._subscriber.outbox.remove(self._send_next)
        self._subscriber.forget(self)

    def _unsubscribe_all(self) -> None:
        self._broker.unfollow_list(self)
        self._subscriber.announcements.unfollow(self)
        self._subscriber.release(*self._subscriptions)
        given_up: list[tuple[str, Listener, Rights]] = []
        for subscription in self._subscriptions.values():
            if (topic := subscription.topic) is not None:
                given_up.append((topic.uri, subscription, topic.rights))
                subscription.topic = None
        self._subscriptions.clear()
        self._broker.unsubscribe_all(given_up)

    def _wake(self) -> None:
        if self._is_open and not self._is_closed:
            self._subscriber.outbox.put(self._send_next)

    def _send_next(self) -> bool:
        """Send the next notification, lists first; return False if there was none."""
        if self._pending_lists:
            name = next(iter(self._pending_lists))
            del self._pending_lists[name]
            self.notify(f"{name}/list_changed")
        elif self._pending_updates:
            uri, _ = self._pending_updates.popitem(last=False)
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
