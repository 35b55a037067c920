"""One served thing: a provider below a base URI, started on first use and again after a failure."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import cast

import msgspec

from resource_server import uris
from resource_server.errors import (
    MountUnavailable,
    ResourceBusy,
    ResourceError,
    ResourceServerError,
)
from resource_server.provider import (
    Annotations,
    Path,
    Provider,
    Resource,
    SupportsAccess,
    SupportsComplete,
    SupportsExplain,
    SupportsFetch,
    SupportsHides,
    SupportsLinks,
    SupportsWalk,
    SupportsWatch,
)
from resource_server.provider.search import SupportsSearch
from resource_server.provider.tools import SupportsTools
from resource_server.runtime.eager import is_cancelled, settle, within
from resource_server.runtime.lru import Memo

logger = logging.getLogger(__name__)

ENTER_S = 10.0
"""For a provider to start: who asks first waits for it, and hosts give up after a minute."""
LEAVE_S = 5.0
"""For a provider to close what it holds: hosts end a process that does not end by itself."""
_MAX_ENTRIES = 8192
_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 60.0
_UNAVAILABLE = "temporarily unavailable"

_NONE = frozenset[str]()

FAILURES = (Exception, SystemExit)
"""What a provider that fails may raise; none of it ends the server."""


class CatalogEntry(msgspec.Struct, eq=False, gc=False):
    """A resource with its canonical URI. The same object as long as the resource is unchanged."""

    uri: str
    resource: Resource
    source: Resource
    """As the provider gave it, without the manifest's words."""
    subscribable: bool = False
    """Whether its changes are noticed when they happen."""
    encoded: bytes | None = None
    """What the protocol layer made of it, kept here so that it is made once."""


class Mount:
    """One served thing: a provider below a base URI, with the manifest's words for it."""

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
        access: frozenset[str] = _NONE,
        origin: Mount | None = None,
    ) -> None:
        self.name = name
        self.base = base
        self.provider = provider
        self.title = title
        self.description = description
        self.annotations = annotations
        self.listed = listed
        self.access = access
        """The scopes without which it does not exist."""
        self.origin = self if origin is None else origin
        """What it was narrowed from; most are as they were made."""
        self.restricts = provider if isinstance(provider, SupportsAccess) else None
        self.inner = _NONE if self.restricts is None else _scopes_in(self.restricts)
        """The scopes without which parts of it do not exist."""
        self.walks = provider if isinstance(provider, SupportsWalk) else None
        self.fetches = provider if isinstance(provider, SupportsFetch) else None
        self.completes = provider if isinstance(provider, SupportsComplete) else None
        self.explains = provider if isinstance(provider, SupportsExplain) else None
        self.hides = provider if isinstance(provider, SupportsHides) else None
        self.searches = provider if isinstance(provider, SupportsSearch) else None
        self.tools = provider if isinstance(provider, SupportsTools) else None
        self.watches = _watching(provider) if watch else None
        if isinstance(provider, SupportsLinks):
            provider.linked(self.uri)
        self.problem: str | None = "not started"
        """Why the mount cannot serve now; None while it serves."""
        self._lifetime = _lifetime(provider)
        self._starting = asyncio.Lock()
        self._is_entering = False
        """Even when nobody waits for it any more, where it hangs and does not end."""
        self._is_closed = False
        self._retry_at = 0.0
        self._retry_after = _FIRST_RETRY_S
        self._entries = Memo[Path, CatalogEntry](_MAX_ENTRIES)
        self._narrowed: dict[frozenset[str], Mount | None] = {}

    def narrowed(self, scopes: frozenset[str]) -> Mount | None:
        """Return the mount as those see it who have these scopes; None where it does not exist."""
        if not self.access <= scopes:
            return None
        if self.restricts is None or self.inner <= scopes:
            return self
        held = self.inner & scopes
        if held not in self._narrowed:
            self._narrowed[held] = self._narrow(self.restricts, held)
        return self._narrowed[held]

    def _narrow(self, provider: SupportsAccess, scopes: frozenset[str]) -> Mount | None:
        try:
            narrowed = provider.narrowed(scopes)
        except FAILURES as error:  # the code of a plugin
            log_failure(error, f"narrowing mount {self.name} failed")
            return None
        return Mount(
            self.name,
            self.base,
            narrowed,
            title=self.title,
            description=self.description,
            annotations=self.annotations,
            listed=self.listed,
            watch=self.watches is not None,
            origin=self.origin,
        )

    async def start(self) -> None:
        """Enter the provider's lifetime; after a failure, not again before a growing delay.

        One that has not started after `ENTER_S` has failed, and is cancelled.

        Raises:
            ResourceBusy: the mount cannot serve now; `problem` says why.
        """
        await settle(self._starting.acquire())
        try:
            if self.problem is None:
                return
            if self._is_closed or time.monotonic() < self._retry_at:
                raise ResourceBusy(_UNAVAILABLE)
            await self._enter()
        finally:
            self._starting.release()

    async def _enter(self) -> None:
        try:
            await within(ENTER_S, self._entered())
        except (*FAILURES, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            self.problem = describe_error(error)
            self._retry_at = time.monotonic() + self._retry_after
            self._retry_after = min(self._retry_after * 2, _LONGEST_RETRY_S)
            logger.warning("mount %s is unavailable: %s", self.name, self.problem)
            raise ResourceBusy(_UNAVAILABLE) from error
        if self.problem is not None:
            raise ResourceBusy(_UNAVAILABLE)

    async def _entered(self) -> None:
        """Enter the provider's lifetime; leave it again where nobody waits for that any more."""
        if self._is_entering:
            raise MountUnavailable("what hung when it was to start has not ended yet")
        self._is_entering = True
        try:
            if self._lifetime is not None:
                await settle(self._lifetime.__aenter__())
        finally:
            self._is_entering = False
        if self._is_closed or is_cancelled():
            await self._leave()
        else:
            self.problem = None
            self._retry_after = _FIRST_RETRY_S

    @property
    def retry_in_s(self) -> float:
        """How long `start` does not try again after a failure; 0 where it would."""
        return max(0.0, self._retry_at - time.monotonic())

    async def close(self) -> None:
        """Leave the provider's lifetime if it was entered, or as soon as it is; for good.

        One that has not ended after `LEAVE_S` is cancelled and left alone.
        """
        for narrowed in self._narrowed.values():
            if narrowed is not None:
                await narrowed.close()
        is_entered, self.problem, self._is_closed = self.problem is None, "closed", True
        if is_entered:
            await self._leave()

    async def _leave(self) -> None:
        if self._lifetime is None:
            return
        try:
            await within(LEAVE_S, settle(self._lifetime.__aexit__(None, None, None)))
        except (*FAILURES, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            logger.warning("mount %s did not close cleanly: %s", self.name, describe_error(error))

    def uri(self, path: Path, query: Mapping[str, str] | None = None) -> str:
        """Return the URI of a path, with a query."""
        uri = uris.join(self.base, path)
        return uris.with_query(uri, query) if query else uri

    def entry(self, resource: Resource) -> CatalogEntry:
        """Return `resource` with its URI and the manifest's words."""
        path = resource.path
        if self._entries.is_new(path):
            return self._entry(resource)
        known = self._entries.get(path)
        if known is None or known.source != resource:
            known = self._entry(resource)
            self._entries.put(path, known)
        return known

    def _entry(self, resource: Resource) -> CatalogEntry:
        worded = resource
        if self.annotations is not None or not resource.path:
            worded = self._worded(resource)
        uri = uris.join(self.base, resource.path)
        return CatalogEntry(uri, worded, resource, self.watches is not None)

    def _worded(self, resource: Resource) -> Resource:
        if self.annotations is not None:
            hints = resource.annotations or Annotations()
            resource = msgspec.structs.replace(resource, annotations=hints.over(self.annotations))
        if resource.path:
            return resource
        return msgspec.structs.replace(
            resource,
            name=self.name,
            title=self.title or resource.title,
            description=self.description or resource.description,
        )


def _watching(provider: Provider) -> SupportsWatch | None:
    """Return what notices the changes of a provider, unless it has an option that turns it off."""
    if isinstance(provider, SupportsWatch) and getattr(provider, "watch", None) != "off":
        return provider
    return None


def _scopes_in(provider: SupportsAccess) -> frozenset[str]:
    return frozenset[str]().union(*provider.restrictions.values())


def _lifetime(provider: object) -> AbstractAsyncContextManager[object] | None:
    if not isinstance(provider, AbstractAsyncContextManager):
        return None
    return cast("AbstractAsyncContextManager[object]", provider)


def describe_error(error: BaseException) -> str:
    """Return an error as one line for the operator.

    Only of our own exceptions the text is known to hold no password, SQL or body.
    """
    text = " ".join(str(error).split())
    return text if text and isinstance(error, ResourceServerError) else type(error).__name__


def log_failure(error: BaseException, what: str) -> None:
    """Log a failure as one line: an expected one as such, a defect with where it happened."""
    if isinstance(error, ResourceError):
        logger.info("%s: %s", what, describe_error(error))
    elif isinstance(error, MountUnavailable):
        logger.warning("%s: %s", what, describe_error(error))
    else:
        logger.error("%s: %s in %s", what, describe_error(error), _place(error))
        logger.debug("%s", what, exc_info=error)


def _place(error: BaseException) -> str:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return f"{frame.tb_frame.f_code.co_qualname}:{frame.tb_lineno}" if frame else "unknown"
