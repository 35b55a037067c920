"""The signing keys of one issuer (JWKS): cached, renewed, and fetched again for an unknown key.

A cached key is returned without delay, even if the issuer is slow or unreachable.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence

import jwt
from anyio import CapacityLimiter, to_thread

from resource_server.runtime.backoff import Backoff
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.transports.http.app.request import HttpError
from resource_server.transports.http.auth import discovery
from resource_server.transports.http.auth.discovery import Jwk

logger = logging.getLogger(__name__)

_PUBLIC_KEY_TYPES = ("RSA", "EC", "OKP")


class IssuerKeys:
    """The keys that an issuer signs tokens with."""

    def __init__(
        self, issuer: str, jwks_url: str | None = None, *, timing: Timing = DEFAULT_TIMING
    ) -> None:
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._timing = timing
        self._keys: Sequence[Jwk] = ()
        self._parsed: dict[tuple[str | None, str], jwt.PyJWK | None] = {}
        self._fetched_at = -math.inf
        self._next_fetch_at = 0.0
        self._backoff = Backoff(timing.jwks_retry_first_s, timing.jwks_retry_max_s)
        self._has_failed = False
        self._fetching: asyncio.Task[None] | None = None
        # Its own thread: several slow issuers could keep all of a shared pool.
        self._thread = CapacityLimiter(1)

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key with this id for an algorithm; None if the issuer has none.

        Without an id, return the only key for the algorithm.

        Raises:
            HttpError: the issuer cannot be reached now.
        """
        key = self._cached(kid, algorithm)
        if key is None:
            if (fetching := self._start_fetch()) is not None:
                await asyncio.wait((fetching,), timeout=self._timing.jwks_wait_s)
                key = self._cached(kid, algorithm)
            if key is None and (self._has_failed or self._fetching is not None):
                wait_s = max(math.ceil(self._next_fetch_at - time.monotonic()), 1)
                message = "tokens cannot be verified now: their issuer does not answer"
                raise HttpError(503, message, [(b"retry-after", b"%d" % wait_s)])
        elif time.monotonic() - self._fetched_at > self._timing.jwks_fresh_s:
            self._start_fetch()
        return key

    def _cached(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        if time.monotonic() - self._fetched_at > self._timing.jwks_max_age_s:
            return None
        name = (kid, algorithm)
        if name not in self._parsed:
            candidates = [key for key in self._keys if kid in (None, key.get("kid"))]
            if not candidates:
                return None  # Not cached: tokens can name any number of missing keys.
            keys = [key for each in candidates if (key := _parsed(each, algorithm)) is not None]
            self._parsed[name] = keys[0] if len(keys) == 1 else None
        return self._parsed[name]

    def _start_fetch(self) -> asyncio.Task[None] | None:
        """Start fetching the keys, unless it is too early; return the task."""
        if self._fetching is None and time.monotonic() >= self._next_fetch_at:
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())
        return self._fetching

    async def _fetch(self) -> None:
        try:
            found = await to_thread.run_sync(
                discovery.fetch_keys,
                self._issuer,
                self._jwks_url,
                self._timing.jwks_fetch_timeout_s,
                abandon_on_cancel=True,
                limiter=self._thread,
            )
        except discovery.KeysUnavailable as error:
            self._has_failed = True
            pause_s = self._backoff.next_s()
            logger.warning("the keys of %s cannot be fetched: %s", self._issuer, error)
        else:
            self._keys = [key for key in found if _is_for_signatures(key)]
            self._parsed = {}
            self._fetched_at = time.monotonic()
            self._has_failed = False
            self._backoff.reset()
            pause_s = self._timing.jwks_fetch_pause_s
        finally:
            self._fetching = None
        self._next_fetch_at = time.monotonic() + pause_s


def _is_for_signatures(key: Jwk) -> bool:
    """Return whether it is a public key for signatures; a published private key proves nothing."""
    operations = key.get("key_ops")
    return (
        key.get("kty") in _PUBLIC_KEY_TYPES
        and "d" not in key
        and key.get("use", "sig") == "sig"
        and (operations is None or (isinstance(operations, list) and "verify" in operations))
    )


def _parsed(key: Jwk, algorithm: str) -> jwt.PyJWK | None:
    """Return a key for this algorithm and no other; None if it does not suit it."""
    if key.get("alg", algorithm) != algorithm:
        return None
    try:
        return jwt.PyJWK(dict(key), algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
