"""The keys of one issuer: kept, renewed, and asked for again when a token names an unknown one.

Whoever needs a key that is there gets it at once, however slow or unreachable the issuer is.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence

import jwt
from anyio import CapacityLimiter, to_thread

from resource_server.transports.http.app.request import Refused
from resource_server.transports.http.auth import discovery
from resource_server.transports.http.auth.discovery import Jwk

logger = logging.getLogger(__name__)

FRESH_S = 300.0
"""Older keys are used and renewed."""
KEPT_S = 3600.0
"""So long keys are used that cannot be renewed: a key that was withdrawn must not stay for ever."""
PAUSE_S = 10.0
"""Between two looks for a key that is unknown: anybody can make one up."""
RETRY_S = 2.0
"""Between two attempts while the issuer cannot be asked; each time it is twice as long."""
MAX_RETRY_S = 60.0
PATIENCE_S = 10.0
"""So long a request waits for a key."""

_PUBLIC_KEYS = ("RSA", "EC", "OKP")


class Keys:
    """The keys that an issuer signs with."""

    def __init__(self, issuer: str, jwks_url: str | None = None) -> None:
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._keys: Sequence[Jwk] = ()
        self._made: dict[tuple[str | None, str], jwt.PyJWK | None] = {}
        self._fetched_at = -math.inf
        self._next_at = 0.0
        self._failures = 0
        self._fetching: asyncio.Task[None] | None = None
        # Not the threads of others, who might keep them all.
        self._thread = CapacityLimiter(1)

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key of that name, for that algorithm; None where the issuer has none.

        Without a name, the only one for the algorithm.

        Raises:
            Refused: the issuer cannot be asked now.
        """
        key = self._find(kid, algorithm)
        if key is None:
            if (fetching := self._fetch()) is not None:
                await asyncio.wait((fetching,), timeout=PATIENCE_S)
                key = self._find(kid, algorithm)
            if key is None and (self._failures or self._fetching is not None):
                wait = max(math.ceil(self._next_at - time.monotonic()), 1)
                message = "tokens cannot be verified now: their issuer does not answer"
                raise Refused(503, message, [(b"retry-after", b"%d" % wait)])
        elif time.monotonic() - self._fetched_at > FRESH_S:
            self._fetch()
        return key

    def _find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        if time.monotonic() - self._fetched_at > KEPT_S:
            return None
        name = (kid, algorithm)
        if name not in self._made:
            named = [key for key in self._keys if kid in (None, key.get("kid"))]
            if not named:
                return None  # Not remembered: there is no end of names that are not there.
            made = [key for each in named if (key := _made(each, algorithm)) is not None]
            self._made[name] = made[0] if len(made) == 1 else None
        return self._made[name]

    def _fetch(self) -> asyncio.Task[None] | None:
        """Have the keys fetched, unless it is too early; return the task that does it."""
        if self._fetching is None and time.monotonic() >= self._next_at:
            self._fetching = asyncio.get_running_loop().create_task(self._fetched())
        return self._fetching

    async def _fetched(self) -> None:
        try:
            found = await to_thread.run_sync(
                discovery.fetch,
                self._issuer,
                self._jwks_url,
                abandon_on_cancel=True,
                limiter=self._thread,
            )
        except discovery.Unavailable as error:
            self._failures += 1
            pause = min(RETRY_S * 2 ** min(self._failures - 1, 10), MAX_RETRY_S)
            logger.warning("the keys of %s cannot be fetched: %s", self._issuer, error)
        else:
            self._keys = [key for key in found if _may_sign(key)]
            self._made = {}
            self._fetched_at = time.monotonic()
            self._failures = 0
            pause = PAUSE_S
        finally:
            self._fetching = None
        self._next_at = time.monotonic() + pause


def _may_sign(key: Jwk) -> bool:
    """Whether it is a public key for signatures; a private one that is public proves nothing."""
    uses = key.get("key_ops")
    return (
        key.get("kty") in _PUBLIC_KEYS
        and "d" not in key
        and key.get("use", "sig") == "sig"
        and (uses is None or (isinstance(uses, list) and "verify" in uses))
    )


def _made(key: Jwk, algorithm: str) -> jwt.PyJWK | None:
    """Return a key that is used for that algorithm and no other; None where it does not suit it."""
    if key.get("alg", algorithm) != algorithm:
        return None
    try:
        return jwt.PyJWK(dict(key), algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
