"""One served thing: a provider with its base URI, its lifetime and the manifest's words for it.

A mount starts on first use; after a failure it is retried with increasing delays.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from resource_server import uris
from resource_server.catalog.contract_guard import GuardedProvider
from resource_server.errors import (
    IN_CHECK,
    MountUnavailable,
    ProviderFailed,
    ResourceBusy,
    ResourceError,
    ResourceServerError,
    RuleUnmatched,
)
from resource_server.provider import Annotations, Path, Provider, Resource, ServerKey
from resource_server.runtime.eager import settle
from resource_server.runtime.rates import Backoff
from resource_server.runtime.server_key import process_key
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAX_ENTRIES = 8192
_RETRY_MARGIN_S = 0.01
"""Added to a wait for the next attempt: a timer may fire a moment early."""

_MAX_BY_CLAIMS = 256
"""Mounts with other values of claims that stay open, whoever uses them."""
_CLOSED_AT_ONCE = 4
_UNUSED_S = 10.0
"""A mount is unused if no caller has come for this time beyond the timeout of a call."""

_NO_SCOPES = frozenset[str]()
_NOT_STARTED = "not started"
_CLOSED = "closed"

_encode = msgspec.json.Encoder(order="sorted").encode


class CatalogEntry(msgspec.Struct, eq=False, gc=False):
    """A resource with its canonical URI; the same object until the resource changes.

    With `query`, it is what these URI parameters select of the resource.
    """

    uri: str
    resource: Resource
    source: Resource
    """As the provider returned it, without the manifest's title and description."""
    subscribable: bool = False
    """Whether changes are noticed as they happen."""
    encoded: bytes | None = None
    """Its encoding, stored here by the protocol layer."""
    query: Mapping[str, str] = {}

    def selected(self, query: Mapping[str, str]) -> CatalogEntry:
        """Return the entry of what URI parameters select of the resource."""
        return msgspec.structs.replace(self, query=query, encoded=None)


class Mount:
    """A provider below a base URI, with the manifest's words for it.

    `origin` is the mount that this one was narrowed from; `is_by_claims`, if by values of claims.
    """

    def __init__(
        self,
        name: str,
        base: str,
        provider: Provider,
        *,
        title: str | None = None,
        description: str | None = None,
        annotations: Annotations | None = None,
        listed: bool = True,
        watch: bool = True,
        access: frozenset[str] = _NO_SCOPES,
        origin: Mount | None = None,
        is_by_claims: bool = False,
        located: Callable[[str, str], str] = "{}: {}".format,
        key: ServerKey | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self.name = name
        self.base = base
        self.provider = GuardedProvider(provider, timing)
        self.title = title
        self.description = description
        self.annotations = annotations
        self.listed = listed
        self.access = access
        """Scopes that a caller needs to see the mount at all."""
        self.origin = self if origin is None else origin
        self.is_by_claims = is_by_claims
        self.inner_access = _NO_SCOPES.union(*self.provider.restrictions.values())
        """Scopes that parts of the mount need."""
        self.can_watch = (
            watch and "watch" in self.provider.abilities and not self.provider.is_watch_off
        )
        """Whether changes are noticed as they happen."""
        for each in self.provider.incomplete if origin is None else ():
            logger.warning("mount %s: the provider's ability is not used: %s", name, each)
        self._key = key or process_key()
        self.provider.mounted(self.uri, self._key)
        self.problem: str | None = _NOT_STARTED
        """Why the mount cannot serve now; None while it serves."""
        self._failure: MountUnavailable | None = None
        """The reason why the last attempt to start failed, if the provider gave one."""
        self.located = located
        """Returns the problem of an option with its position in the manifest."""
        self._timing = timing
        self._starting = asyncio.Lock()
        self._start_task: asyncio.Task[None] | None = None
        self._survey_task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._retry_at = 0.0
        self._backoff = Backoff(timing.mount_retry_s, timing.mount_retry_max_s)
        self._entries = SecondUseCache[Path, CatalogEntry](_MAX_ENTRIES)
        self._narrowed: dict[frozenset[str], Mount | None] = {}
        self.claims = self.provider.claims
        """Names of the claims of callers whose values decide on what it shows."""
        # The least recently used first.
        self._by_claims = OrderedDict[str, Mount | None]()
        self._used_at = time.monotonic()
        self.is_watched = False
        """Whether its changes are followed, so that it is in use without any request."""
        self._closing = set[asyncio.Task[None]]()

    def narrowed(self, scopes: frozenset[str]) -> Mount | None:
        """Return the mount for callers with these scopes; None if it is invisible to them."""
        if not self.access <= scopes:
            return None
        if self.inner_access <= scopes:
            return self
        held = self.inner_access & scopes
        if held not in self._narrowed:
            self._narrowed[held] = self._part(lambda: self.provider.narrowed(held))
        return self._narrowed[held]

    def _part(self, make: Callable[[], Provider], *, is_by_claims: bool = False) -> Mount | None:
        """Return the mount of a narrowed provider; None if there is none, since it fails."""
        try:
            return Mount(
                self.name,
                self.base,
                make(),
                title=self.title,
                description=self.description,
                annotations=self.annotations,
                listed=self.listed,
                watch=self.can_watch,
                origin=self.origin,
                is_by_claims=is_by_claims,
                key=self._key,
                timing=self._timing,
            )
        except Exception as error:  # a plugin's code
            log_failure(error, f"narrowing mount {self.name} failed")
            return None

    def with_claims(self, values: Mapping[str, Any]) -> Mount | None:
        """Return the mount for callers whose claims have these values; None if it fails.

        Values of other claims do not count. Without any, it is this mount.
        """
        own = {name: values[name] for name in sorted(self.claims & values.keys())}
        if not own:
            return self
        key = _encode(own).decode()
        if key not in self._by_claims:
            made = self._part(lambda: self.provider.with_claims(own), is_by_claims=True)
            self._by_claims[key] = made
            self._close_unused()
        self._by_claims.move_to_end(key)
        return self._by_claims[key]

    def _close_unused(self) -> None:
        """Close a few of the mounts that were made or kept longest ago, if there are too many."""
        for _ in range(_CLOSED_AT_ONCE):
            if len(self._by_claims) <= _MAX_BY_CLAIMS:
                return
            key, mount = self._by_claims.popitem(last=False)
            if mount is not None and mount.retire():
                task = asyncio.get_running_loop().create_task(mount.close())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
            elif mount is not None:
                self._by_claims[key] = mount

    def use(self) -> bool:
        """Note that a caller has come; return False if the mount is closed."""
        self._used_at = time.monotonic()
        return not self._is_closed

    def retire(self) -> bool:
        """Take no callers any more if no request can be in flight, and nobody follows changes."""
        unused_s = time.monotonic() - self._used_at
        is_unused = not self.is_watched and unused_s > self.provider.call_s + _UNUSED_S
        self._is_closed = self._is_closed or is_unused
        return is_unused

    @property
    def is_serving(self) -> bool:
        """Whether the provider has started and is not closed."""
        return self.problem is None

    @property
    def is_available(self) -> bool:
        """Whether requests succeed; a narrowed mount starts with the first, as its origin did."""
        state = self.origin.problem if self.problem is _NOT_STARTED else self.problem
        return state is None

    # -- lifetime

    async def start(self) -> None:
        """Start the provider unless it is running; after a failure, not before the next retry.

        An attempt that takes longer than `mount_start_s`, or than the provider's own timeout, has
        failed and is cancelled.

        Raises:
            ResourceBusy: the mount cannot serve now; `problem` has the reason.
        """
        if self.is_serving:
            return
        await settle(self._starting.acquire())
        try:
            if self.is_serving:
                return
            if self._is_closed or time.monotonic() < self._retry_at:
                raise self._unavailable()
            await self._enter()
        finally:
            self._starting.release()

    def start_in_background(self) -> None:
        """Start the mount in a task, unless it has started, is starting, or must not retry yet."""
        if self.is_serving or self._start_task is not None or self.retry_in_s:
            return

        async def start() -> None:
            with suppress(ResourceBusy):  # logged by `start`; the next request tries again
                await self.start()

        def done(_: object) -> None:
            self._start_task = None

        self._start_task = asyncio.get_running_loop().create_task(start())
        self._start_task.add_done_callback(done)

    async def wait_until_started(self) -> bool:
        """Retry until the mount serves; return whether any attempt failed."""
        has_failed = False
        while self.problem is not None:
            with suppress(ResourceBusy):
                await self.start()
                break
            has_failed = True
            await asyncio.sleep(self.retry_in_s + _RETRY_MARGIN_S)
        return has_failed

    @property
    def retry_in_s(self) -> float:
        """Seconds until `start` may try again after a failure; 0 if it may now."""
        return max(0.0, self._retry_at - time.monotonic())

    async def close(self) -> None:
        """Leave the provider's lifetime for good, even if it is still being entered.

        A provider that has not ended after `mount_close_s` is cancelled and abandoned.
        """
        is_entered, self.problem, self._is_closed = self.is_serving, _CLOSED, True
        tasks = [task for task in (self._start_task, self._survey_task) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        with suppress(TimeoutError):  # what a request has begun to enter is left by it
            async with asyncio.timeout(self._timing.mount_close_s), self._starting:
                pass
        parts = (*self._narrowed.values(), *self._by_claims.values())
        await asyncio.gather(*(part.close() for part in parts if part is not None))
        if self._closing:
            await asyncio.wait(self._closing)
        if is_entered:
            await self._leave()

    async def _enter(self) -> None:
        try:
            await self.provider.enter()
        except Exception as error:
            before, self.problem = self.problem, describe_error(error)
            if isinstance(error, RuleUnmatched):
                self.problem = self.located(error.option, self.problem)
            self._retry_at = time.monotonic() + self._backoff.next_s()
            is_told = self.origin is not self and not self.origin.is_serving
            if self.problem != before and not is_told:  # not at each attempt
                self._log_problem()
            self._failure = error if isinstance(error, MountUnavailable) else None
            raise self._unavailable() from error
        if self._is_closed:
            await self._leave()
            raise self._unavailable()
        self.problem = None
        self._backoff.reset()
        self.look_for_mistakes()

    def _log_problem(self) -> None:
        logger.warning("mount %s is unavailable: %s", self.name, self.problem, extra=IN_CHECK)

    def _unavailable(self) -> ResourceBusy:
        """Return the error of requests while the mount does not serve."""
        failure = self._failure
        if failure is None or self._is_closed:
            return ResourceBusy("temporarily unavailable")
        return ResourceBusy(failure.told, is_temporary=failure.is_temporary)

    async def _leave(self) -> None:
        try:
            await self.provider.leave()
        except Exception as error:
            logger.warning("mount %s did not close cleanly: %s", self.name, describe_error(error))

    # -- mistakes

    async def survey(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return all mistakes and warnings of the provider; it may take long.

        A mistake is an option that names nothing, with its position. Raises what the provider
        raises.
        """
        if "check" not in self.provider.abilities:
            return (), ()
        found = await self.provider.warnings(thorough=True)
        return self._mistakes(found), [text for option, text in found if not option]

    async def wait_for_mistakes(self, within_s: float) -> None:
        """Wait until the mistakes are known and logged, if the mount has started."""
        if self._survey_task is not None:
            await asyncio.wait([self._survey_task], timeout=within_s)

    def look_for_mistakes(self) -> None:
        """Look for mistakes in a task, and tell the operator; of a failed start, tell the cause."""
        if not self.is_serving and self._failure is not None:
            self._log_problem()
        if not self.is_serving or self.origin is not self:
            return
        is_looking = self._survey_task is not None and not self._survey_task.done()
        if "check" in self.provider.abilities and not is_looking:
            self._survey_task = asyncio.get_running_loop().create_task(self._log_mistakes())

    async def _log_mistakes(self) -> None:
        try:
            found = await self.provider.warnings(thorough=False)
        except Exception as error:  # such as a plugin's code, or a lock
            log_failure(error, f"asking mount {self.name} for mistakes failed")
            return
        for mistake in self._mistakes(found):
            logger.warning("%s", mistake, extra=IN_CHECK)

    def _mistakes(self, found: Sequence[tuple[str, str]]) -> Sequence[str]:
        return [self.located(option, text) for option, text in found if option]

    # -- entries

    def uri(self, path: Path, query: Mapping[str, str] | None = None) -> str:
        """Return the URI of a path, with URI parameters."""
        uri = uris.join(self.base, path)
        return uris.with_query(uri, query) if query else uri

    def entry(self, resource: Resource) -> CatalogEntry:
        """Return a resource with its URI and the manifest's title, description and annotations."""
        path = resource.path
        entry = self._entries.get(path)
        if entry is not None and entry.source == resource:
            return entry
        described = resource
        if self.annotations is not None or not path:
            described = self._described(resource)
        entry = CatalogEntry(uris.join(self.base, path), described, resource, self.can_watch)
        self._entries.keep(path, entry)
        return entry

    def entries(self, resources: Sequence[Resource]) -> list[CatalogEntry]:
        """Return what `entry` does for each; written for speed, as pages are long."""
        known = self._entries.get
        return [
            entry
            if (entry := known(resource.path)) is not None and entry.source == resource
            else self.entry(resource)
            for resource in resources
        ]

    def _described(self, resource: Resource) -> Resource:
        if self.annotations is not None:
            own = resource.annotations or Annotations()
            resource = msgspec.structs.replace(resource, annotations=own.over(self.annotations))
        if resource.path:
            return resource
        return msgspec.structs.replace(
            resource,
            name=self.name,
            title=self.title or resource.title,
            description=self.description or resource.description,
        )


class SecondUseCache(OrderedDict[K, V]):
    """Keeps values of keys that are used at least twice, at most `max_values`, oldest out first.

    One pass over a large tree uses each key once: it costs little and evicts nothing.
    """

    def __init__(self, max_values: int) -> None:
        super().__init__()
        self._max_values = max_values
        self._used = set[int]()

    def keep(self, key: K, value: V) -> None:
        """Keep a value, if its key was used recently."""
        mark = hash(key)
        if mark in self._used:
            self[key] = value
            if len(self) > self._max_values:
                self.popitem(last=False)
            return
        if len(self._used) >= 4 * self._max_values:
            self._used.clear()
        self._used.add(mark)


def describe_error(error: BaseException) -> str:
    """Return an error as one line for the operator.

    Only the package's own exceptions are known to hold no password, SQL or content; any other is
    reduced to its type.
    """
    text = " ".join(str(error).split())
    return text if text and isinstance(error, ResourceServerError) else type(error).__name__


def log_failure(error: BaseException, what: str) -> None:
    """Log a failure as one line; an unexpected one with the place where it was raised."""
    if isinstance(error, ResourceError):
        logger.info("%s: %s", what, describe_error(error))
    elif isinstance(error, MountUnavailable):
        logger.warning("%s: %s", what, describe_error(error))
    else:
        logger.error("%s: %s in %s", what, describe_error(error), _raised_in(error))
        logger.debug("%s", what, exc_info=error)


def _raised_in(error: BaseException) -> str:
    frame = (error.cause if isinstance(error, ProviderFailed) else error).__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return f"{frame.tb_frame.f_code.co_qualname}:{frame.tb_lineno}" if frame else "unknown"
