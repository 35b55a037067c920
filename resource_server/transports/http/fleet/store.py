"""The state of sessions that the servers of a fleet share, in Redis or Valkey.

It holds URIs of subscriptions and log levels: no contents, tokens or arguments. What it returns is
checked: the database may be another's, and its values anything.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any, TypeVar, get_args

import msgspec

from resource_server.protocol.params import LoggingLevel
from resource_server.runtime.rates import Backoff
from resource_server.runtime.server_key import Seal, ServerKey
from resource_server.runtime.timing import Timing
from resource_server.transports.http.app.session_ids import MAX_AGE_S

logger = logging.getLogger(__name__)

_NAME_BYTES = 6
_EPOCH_BYTES = 8
_MAX_CALLS = 64
"""Maximum calls at a time; the others wait."""
_LOG_INTERVAL_S = 60.0
_REPLICA = re.compile(r"ask-([0-9a-f]{12})-[0-9]{1,15}")
"""The ids of requests to clients, and in them the server that asks."""
_MAX_REFUSALS = 20
_MAX_URIS = 100_000
"""Maximum subscriptions of a session: the limit of one connection."""
_MAX_GONE = 10_000
"""Maximum ended subscriptions of a session that are remembered."""
_MAX_ATTEMPTS = 5
_MAX_DIGITS = 16
_MAX_REPLICAS = 1000
_MAX_SKEW_S = 60.0
"""Maximum difference of two servers' clocks."""
_DAY_S = 86_400
_AWAY = (
    "the store of the fleet (http.fleet) does not answer (%s); sessions go on, subscriptions "
    "cannot be changed"
)
_DEAF = (
    "the store of the fleet (http.fleet) sends no messages (%s); changes by other servers are seen "
    "late"
)
_LEVELS: Mapping[str, LoggingLevel] = {level: level for level in get_args(LoggingLevel)}

T = TypeVar("T")


class StoreUnavailable(Exception):
    """The store does not answer, or refuses a command."""


class SharedState(msgspec.Struct, frozen=True):
    """The shared state of one session."""

    epoch: str | None
    """Names this record; None if it was lost, and only what came later is here."""
    change: int
    """Grows with every change of the subscriptions."""
    is_ended: bool
    level: LoggingLevel | None


_FILL = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local full = tonumber(redis.call('GET', KEYS[1]) or now) or now
if full < now or full > now + ARGV[2] then full = now end
full = full + ARGV[1]
redis.call('SET', KEYS[1], string.format('%.6f', full), 'PX', math.ceil((full - now) * 1000) + 1)
return string.format('%.6f', full - now)
"""
"""The generic cell rate algorithm: keeps when a bucket is full again, and returns what is left."""

_encode = msgspec.msgpack.Encoder().encode
_decode_response = msgspec.msgpack.Decoder(tuple[bytes, bytes]).decode


class FleetStore:
    """The shared state of all sessions of one fleet: the servers that have one key.

    A call takes at most `Timing.fleet_call_s`. After a failure, others fail without a request
    for `Timing.fleet_pause_s`. `replica` is the name of this server.
    """

    def __init__(self, url: str, key: ServerKey, timing: Timing) -> None:
        # Imported here: an optional package.
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import ResponseError, WatchError

        self.replica = secrets.token_hex(6)
        self._sender = self.replica.encode()
        """Begins this server's own messages of changes, which it does not heed."""
        self._beats_at = float("-inf")
        self.replicas = 1
        """How many servers the fleet had, when the store was last asked."""
        self.is_up = True
        """Whether the last call was answered."""
        self._timing = timing
        self._refused = ResponseError
        self._overtaken = WatchError
        self._refusals = set[str]()
        """The kinds of refusals that are in the log."""
        self._slots = asyncio.Semaphore(_MAX_CALLS)
        self._paused_until = self._answered_at = self._logged_at = float("-inf")
        self._is_listening = True
        self._is_closed = False
        self._seal = Seal(key.derived("fleet response"))
        self._prefix = f"resource-server:{key.derived('fleet name')[:_NAME_BYTES].hex()}:"
        # The types of redis-py are incomplete.
        self._redis: Any = Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
            url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=timing.fleet_call_s,
            socket_connect_timeout=timing.fleet_call_s,
            client_name="resource-server",
        )
        self._rates_key = key.derived("fleet rates")
        self._fill: Any = self._redis.register_script(_FILL)

    async def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        with suppress(Exception):  # the connections are gone in any case
            await self._redis.aclose()

    # -- sessions

    async def begin(self, session: bytes) -> str:
        """Record a session that begins; return the name of the record.

        Raises:
            StoreUnavailable: it is not recorded.
        """
        epoch, key = _new_epoch(), self._key(session)

        async def ask() -> None:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.hset(key, "epoch", epoch)
                # Until something changes, the record is of no use to anybody for long.
                pipe.expire(key, _DAY_S)
                await pipe.execute()

        await self._call(ask)
        return epoch

    async def load(self, session: bytes) -> SharedState | None:
        """Return the state of a session; None if none is recorded, or it was lost.

        Raises:
            StoreUnavailable: it is not known.
        """

        async def ask() -> SharedState | None:
            names = ["epoch", "change", "ended", "level"]
            epoch, change, ended, level = await self._redis.hmget(self._key(session), names)
            if epoch is change is ended is None:
                return None
            number = (change or b"0")[:_MAX_DIGITS]
            named = _LEVELS.get(_decoded(level) or "")
            is_ended = ended is not None
            count = int(number) if number.isdigit() else 0
            return SharedState(_decoded(epoch), count, is_ended, named)

        return await self._call(ask)

    async def end(self, session: bytes) -> None:
        """Record that a client has ended its session.

        Raises:
            StoreUnavailable: it is not recorded.
        """

        def end(pipe: Any, key: str) -> None:
            pipe.hset(key, "ended", "1")
            pipe.delete(f"{key}:uris", f"{key}:gone")

        await self._change(session, end)

    async def set_level(self, session: bytes, level: LoggingLevel) -> None:
        """Record the level of log messages that a client wants.

        Raises:
            StoreUnavailable: it is not recorded.
        """
        await self._change(session, lambda pipe, key: pipe.hset(key, "level", level))

    # -- subscriptions

    async def subscriptions(
        self, session: bytes, epoch: str | None
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return the URIs that a session is subscribed to, and those that it no longer is.

        The second set does not contain subscriptions that the store has lost.

        Raises:
            StoreUnavailable: they are not known, or the record is no longer that of `epoch`.
        """
        key = self._key(session)

        async def ask() -> tuple[frozenset[str], frozenset[str]]:
            counts = self._redis.pipeline(transaction=False)
            counts.scard(f"{key}:uris")
            counts.scard(f"{key}:gone")
            if max(await counts.execute()) > _MAX_URIS:
                raise StoreUnavailable("the session has too many subscriptions")
            members = self._redis.pipeline(transaction=True)
            members.smembers(f"{key}:uris")
            members.smembers(f"{key}:gone")
            members.hget(key, "epoch")
            wanted, gone, now = await members.execute()
            if _decoded(now) != epoch:
                raise StoreUnavailable("the store has lost the session meanwhile")
            return _all_decoded(wanted), _all_decoded(gone)

        return await self._call(ask)

    async def subscribe(
        self, session: bytes, uris: Iterable[str], *, is_new_record: bool = False
    ) -> int:
        """Record subscriptions, or with `is_new_record` those of a session whose record was lost.

        Returns the number of this change.

        Raises:
            StoreUnavailable: they are not recorded.
        """
        named = list(uris)

        def add(pipe: Any, key: str) -> None:
            pipe.hincrby(key, "change", 1)
            pipe.scard(f"{key}:uris")
            if named:
                pipe.sadd(f"{key}:uris", *named)
                pipe.srem(f"{key}:gone", *named)
            if is_new_record:
                pipe.hset(key, "epoch", _new_epoch())

        number, count, *_ = await self._change(session, add)
        if count + len(named) > _MAX_URIS:
            for uri in named:
                await self.unsubscribe(session, uri)
            raise StoreUnavailable("the session has too many subscriptions")
        return number

    async def unsubscribe(self, session: bytes, uri: str) -> None:
        """Record the end of a subscription.

        Raises:
            StoreUnavailable: it is not recorded.
        """

        def remove(pipe: Any, key: str) -> None:
            pipe.hincrby(key, "change", 1)
            pipe.scard(f"{key}:gone")
            pipe.srem(f"{key}:uris", uri)
            pipe.sadd(f"{key}:gone", uri)

        # Heard of late, it must not end a subscription that was recorded meanwhile.
        _, count, *_ = await self._change(session, remove, is_conditional=True)
        if count >= _MAX_GONE:
            key = f"{self._key(session)}:gone"
            # One that is forgotten may be notified once more.
            await self._call(lambda: self._redis.spop(key, _MAX_GONE // 2))

    # -- rates

    async def count(self, caller: str, used_s: float, max_s: float) -> float:
        """Count requests of a caller, as the seconds in which its bucket takes as many.

        Returns in how many seconds the bucket is full again, by the clock of the store; a bucket
        that takes longer than `max_s` was not filled here, and is forgotten.

        Raises:
            StoreUnavailable: they are not counted.
        """
        name = blake2b(caller.encode(), key=self._rates_key, digest_size=16).hexdigest()
        key = f"{self._prefix}rate:{name}"

        async def ask() -> float:
            left_s = float(await self._fill(keys=[key], args=[used_s, max_s]))
            return min(max(left_s, 0.0), max_s)

        return await self._call(ask)

    async def beat(self) -> None:
        """Tell the others that this server runs, and learn how many do, if it is time for that.

        Raises:
            StoreUnavailable: it is not known.
        """
        if time.monotonic() < self._beats_at:
            return
        self._beats_at = time.monotonic() + self._timing.fleet_sync_s
        key, now = f"{self._prefix}replicas", time.time()
        # Clocks differ: others are forgotten late rather than early.
        lasting_s = 3 * self._timing.fleet_sync_s + _MAX_SKEW_S

        async def ask() -> int:
            pipe = self._redis.pipeline(transaction=True)
            pipe.zadd(key, {self.replica: now})
            pipe.zremrangebyscore(key, "-inf", now - lasting_s)
            pipe.expire(key, int(lasting_s) + 1)
            pipe.zcard(key)
            *_, count = await pipe.execute()
            return int(count)

        self.replicas = min(max(await self._call(ask), 1), _MAX_REPLICAS)

    # -- between servers

    @property
    def request_name(self) -> str:
        """How the ids of this server's requests to clients begin; see `respond`."""
        return f"ask-{self.replica}"

    async def respond(self, request_id: object, session: bytes, response: bytes) -> None:
        """Send the response of a client to the other server that waits for it.

        Raises:
            StoreUnavailable: it is not sent.
        """
        asked = _REPLICA.fullmatch(str(request_id))
        if asked is None or (replica := asked[1]) == self.replica:
            return
        body = self._seal.sealed(_encode((session, response)), replica.encode())
        await self._call(lambda: self._redis.publish(f"{self._prefix}to:{replica}", body))

    async def listen(
        self,
        changed: Callable[[bytes], None],
        responded: Callable[[bytes, bytes], None],
        returned: Callable[[], None],
    ) -> None:
        """Report changes and responses until it is cancelled.

        `returned` is called whenever changes may have been missed.
        """
        backoff = Backoff(self._timing.fleet_retry_s, self._timing.fleet_retry_max_s)
        changes, own = f"{self._prefix}changes", f"{self._prefix}to:{self.replica}"
        while True:
            try:
                async with self._redis.pubsub() as channels:
                    await self._subscribed(channels, changes, own)
                    backoff.reset()
                    self._is_listening = True
                    returned()
                    is_asked = False
                    while True:
                        message = await channels.get_message(timeout=self._timing.fleet_ping_s)
                        if message is None:
                            if is_asked:
                                raise TimeoutError("no answer")
                            await channels.ping()
                        elif message["type"] == "message":
                            self._receive(message, changes, changed, responded)
                        is_asked = message is None
            except Exception as error:  # redis-py raises any for a response that is none
                if self._is_listening:
                    self._is_listening = False
                    logger.warning(_DEAF, type(error).__name__)
                await asyncio.sleep(backoff.next_s())

    async def _subscribed(self, channels: Any, *names: str) -> None:
        """Subscribe to channels, and wait until the store has confirmed that."""
        async with asyncio.timeout(self._timing.fleet_call_s):
            await channels.subscribe(*names)
            confirmed = 0
            while confirmed < len(names):
                message = await channels.get_message(timeout=self._timing.fleet_call_s)
                confirmed += message is not None and message["type"] == "subscribe"

    def _receive(
        self,
        message: Mapping[str, Any],
        changes: str,
        changed: Callable[[bytes], None],
        responded: Callable[[bytes, bytes], None],
    ) -> None:
        data: bytes = message["data"]
        if _decoded(message["channel"]) == changes:
            sender, session = data[: len(self._sender)], data[len(self._sender) :]
            if sender != self._sender:
                changed(session)
            return
        try:
            body = self._seal.opened(_decoded(data) or "", self.replica.encode())
            session, response = _decode_response(body)
        except ValueError:
            logger.warning("a message to this server was not one of its fleet, and is ignored")
            return
        responded(session, response)

    # -- calls

    async def _change(
        self,
        session: bytes,
        change: Callable[[Any, str], object],
        *,
        is_conditional: bool = False,
    ) -> Any:
        """Change the keys of a session in one transaction, and tell the other servers.

        With `is_conditional`, it begins anew if another change comes first. Returns the results
        of the commands.
        """
        key = self._key(session)

        async def ask() -> Any:
            async with self._redis.pipeline(transaction=True) as pipe:
                if is_conditional:
                    await pipe.watch(key)
                    pipe.multi()
                change(pipe, key)
                for each in (key, f"{key}:uris", f"{key}:gone"):
                    pipe.expire(each, 2 * MAX_AGE_S)
                pipe.publish(f"{self._prefix}changes", self._sender + session)
                return await pipe.execute()

        async def ask_again() -> Any:
            for _ in range(_MAX_ATTEMPTS):
                with suppress(self._overtaken):
                    return await ask()
            raise StoreUnavailable("the session changes all the time")

        return await self._call(ask_again)

    async def _call(self, ask: Callable[[], Awaitable[T]]) -> T:
        started = time.monotonic()
        if started < self._paused_until:
            raise StoreUnavailable("the store of the fleet does not answer")
        is_sent = False
        try:
            async with asyncio.timeout(self._timing.fleet_call_s), self._slots:
                is_sent = True
                answer = await ask()
        except StoreUnavailable:
            raise
        except self._refused as error:
            self._note_refusal(str(error).partition(" ")[0][:40])
            raise StoreUnavailable("the store of the fleet refuses") from None
        except Exception as error:  # redis-py raises any for a response that is none
            # One slow command is no reason to give up the others, which are answered.
            if is_sent and self._answered_at < started:
                self._note_failure(error)
            raise StoreUnavailable("the store of the fleet does not answer") from None
        self._answered_at = time.monotonic()
        self.is_up = True
        return answer

    def _note_refusal(self, kind: str) -> None:
        if kind not in self._refusals and len(self._refusals) < _MAX_REFUSALS:
            self._refusals.add(kind)
            logger.warning("the store of the fleet refuses a command: %s", kind)

    def _note_failure(self, error: BaseException) -> None:
        self._paused_until = now = time.monotonic() + self._timing.fleet_pause_s
        if self.is_up and not self._is_closed and now - self._logged_at > _LOG_INTERVAL_S:
            self._logged_at = now
            logger.warning(_AWAY, type(error).__name__)
        self.is_up = False

    def _key(self, session: bytes) -> str:
        # In braces: all keys of a session lie on one node of a cluster.
        return f"{self._prefix}{{{session.hex()}}}"


def _new_epoch() -> str:
    return secrets.token_hex(_EPOCH_BYTES)


def _decoded(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _all_decoded(members: Iterable[bytes]) -> frozenset[str]:
    return frozenset(text for each in members if (text := _decoded(each)) is not None)
