"""The signing keys of one issuer (JWKS): discovered, cached, and fetched again for an unknown key.

Discovery follows RFC 8414 and OpenID Connect Discovery. A cached key is returned without delay,
even if the issuer is slow or unreachable.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, TypeAlias, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import jwt
import msgspec
from anyio import CapacityLimiter, to_thread

from resource_server import __version__
from resource_server.manifest.http import is_trustworthy
from resource_server.runtime.rates import Backoff
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.transports.http.app.request import HttpError

logger = logging.getLogger(__name__)

Jwk: TypeAlias = Mapping[str, Any]
"""A public key in the form of RFC 7517, not validated."""

MAX_DOCUMENT_BYTES = 256 * 1024
"""Maximum bytes of a key set or of an issuer's metadata."""

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
                fetch_keys,
                self._issuer,
                self._jwks_url,
                self._timing.jwks_fetch_timeout_s,
                abandon_on_cancel=True,
                limiter=self._thread,
            )
        except KeysUnavailable as error:
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


class KeysUnavailable(Exception):
    """The keys cannot be fetched; the text tells the operator why."""


class _Metadata(msgspec.Struct):
    issuer: str
    jwks_uri: str


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_decode_key_set = msgspec.json.Decoder(_KeySet).decode


def fetch_keys(issuer: str, jwks_url: str | None, timeout_s: float) -> Sequence[Jwk]:
    """Return the keys of an issuer; without `jwks_url`, from the address in its metadata.

    Blocks, so it runs in a thread.

    Raises:
        KeysUnavailable: they cannot be fetched, or not in time.
    """
    deadline = time.monotonic() + timeout_s
    url = jwks_url or _jwks_url(issuer, deadline)
    try:
        return _decode_key_set(_get(url, deadline)).keys
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise KeysUnavailable(f"no key set is at {url}") from None


def _jwks_url(issuer: str, deadline: float) -> str:
    """Return the address of the keys in the first metadata that is the issuer's own."""
    reasons: list[str] = []
    for url in _metadata_urls(issuer):
        try:
            metadata = _decode_metadata(_get(url, deadline))
        except KeysUnavailable as error:
            reasons.append(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            reasons.append(f"no metadata with keys is at {url}")
        else:
            if metadata.issuer != issuer:
                reasons.append(f"{url} is the metadata of another issuer")
            elif not _is_as_trustworthy(metadata.jwks_uri, issuer):
                reasons.append(f"{url} names keys at an address that is not https://")
            else:
                return metadata.jwks_uri
    raise KeysUnavailable("; ".join(reasons))


def _metadata_urls(issuer: str) -> Iterator[str]:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    if path:
        yield f"{origin}/.well-known/openid-configuration{path}"
    yield f"{origin}{path}/.well-known/openid-configuration"


def _is_as_trustworthy(url: str, issuer: str) -> bool:
    """Return whether a URL is at least as hard to impersonate as the issuer's."""
    return is_trustworthy(url) and urlsplit(url).scheme in ("https", urlsplit(issuer).scheme)


class _SameOrigin(HTTPRedirectHandler):
    """Follows redirects within one origin only."""

    def redirect_request(  # noqa: PLR0917 - as the base class has it
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> Request | None:
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _get(url: str, deadline: float) -> bytes:
    """Return the document at a URL.

    Raises:
        KeysUnavailable: there is none, it is too large, or it does not come in time.
    """
    request = Request(  # noqa: S310 - both callers have checked the scheme
        url,
        headers={"accept": "application/json", "user-agent": f"resource-server/{__version__}"},
    )
    try:
        left_s = max(deadline - time.monotonic(), 0.001)
        with build_opener(_SameOrigin).open(request, timeout=left_s) as response:
            return _read(cast("http.client.HTTPResponse", response), deadline)
    except HTTPError as error:
        error.close()
        raise KeysUnavailable(f"{url} answers {error.code}") from None
    except TimeoutError:
        raise KeysUnavailable(f"{url} does not answer in time") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise KeysUnavailable(f"{url} cannot be read: {reason}") from None


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    parts: list[bytes] = []
    length = 0
    while part := response.read1(MAX_DOCUMENT_BYTES):
        parts.append(part)
        length += len(part)
        if length > MAX_DOCUMENT_BYTES:
            raise ValueError(f"it is longer than {MAX_DOCUMENT_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)
