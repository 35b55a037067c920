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
from typing import IO, Any, TypeAlias, TypeVar, cast
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
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
        except IssuerUnavailable as error:
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


class IssuerUnavailable(Exception):
    """A document of an issuer cannot be fetched; the text tells the operator why."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        """The HTTP status of a refusal."""


class IssuerMetadata(msgspec.Struct):
    """The metadata of an issuer (RFC 8414): what is needed of it here."""

    issuer: str
    jwks_uri: str

    @property
    def urls(self) -> Sequence[str]:
        """The addresses in it that are used."""
        return (self.jwks_uri,)


M = TypeVar("M", bound=IssuerMetadata)


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


_decode_key_set = msgspec.json.Decoder(_KeySet).decode


def fetch_keys(issuer: str, jwks_url: str | None, timeout_s: float) -> Sequence[Jwk]:
    """Return the keys of an issuer; without `jwks_url`, from the address in its metadata.

    Blocks, so it runs in a thread.

    Raises:
        IssuerUnavailable: they cannot be fetched, or not in time.
    """
    deadline = time.monotonic() + timeout_s
    url = jwks_url or discovered(issuer, IssuerMetadata, deadline).jwks_uri
    try:
        return _decode_key_set(fetched(url, deadline)).keys
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise IssuerUnavailable(f"no key set is at {url}") from None


def discovered(issuer: str, kind: type[M], deadline: float) -> M:
    """Return the first metadata that is the issuer's own. Blocks.

    Raises:
        IssuerUnavailable: there is none, or it names an address that is not to be trusted.
    """
    reasons: list[str] = []
    for url in _metadata_urls(issuer):
        try:
            metadata = msgspec.json.decode(fetched(url, deadline), type=kind)
        except IssuerUnavailable as error:
            reasons.append(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            reasons.append(f"no metadata with what is needed is at {url}")
        else:
            if metadata.issuer != issuer:
                reasons.append(f"{url} is the metadata of another issuer")
            elif not all(_is_as_trustworthy(each, issuer) for each in metadata.urls):
                reasons.append(f"{url} names an address that is not https://")
            else:
                return metadata
    raise IssuerUnavailable("; ".join(reasons))


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
    """Follows redirects within one origin only, and none of what was sent in a body."""

    def redirect_request(  # noqa: PLR0917 - as the base class has it
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> Request | None:
        if req.data is not None or urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetched(
    url: str,
    deadline: float,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return the document at a URL, or the response to a form. Blocks.

    Raises:
        IssuerUnavailable: there is none, it is too large, or it does not come in time.
    """
    common = {"accept": "application/json", "user-agent": f"resource-server/{__version__}"}
    request = Request(  # noqa: S310 - all callers have checked the scheme
        url,
        data=None if form is None else urlencode(form).encode(),
        headers={**common, **(headers or {})},
    )
    try:
        left_s = max(deadline - time.monotonic(), 0.001)
        with build_opener(_SameOrigin).open(request, timeout=left_s) as response:
            return _read(cast("http.client.HTTPResponse", response), deadline)
    except HTTPError as error:
        error.close()
        raise IssuerUnavailable(f"{url} answers {error.code}", error.code) from None
    except TimeoutError:
        raise IssuerUnavailable(f"{url} does not answer in time") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise IssuerUnavailable(f"{url} cannot be read: {reason}") from None


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
