"""Authentication of requests by bearer token: a signed one, or a static one of the manifest."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from resource_server.access import Caller
from resource_server.manifest.http import Auth
from resource_server.runtime import extras
from resource_server.runtime.rates import RateLimiter
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.transports.http.app.request import HttpRequest, rate_limited
from resource_server.transports.http.auth.protected_resource import ProtectedResource

if TYPE_CHECKING:
    from resource_server.transports.http.auth.jwt import TokenVerifier

MAX_TOKEN_BYTES = 16 * 1024
MAX_VERIFIED_TOKENS = 4096
"""Maximum tokens whose verification is cached."""

_BEARER = re.compile(r"bearer(?: +|$)", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class _VerifiedToken(NamedTuple):
    caller: Caller
    until: float
    """In seconds since the epoch."""


class Authenticator:
    """Returns the caller of a request, or refuses the request."""

    def __init__(
        self,
        auth: Auth,
        resource: ProtectedResource,
        *,
        rates: RateLimiter | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._resource = resource
        self._rates = rates
        """The rate per address of requests whose token is not yet known to be valid."""
        self._timing = timing
        self._required = frozenset(auth.scopes)
        self._static = [
            (
                _digest(each.token),
                Caller(each.subject, frozenset(each.scopes or ()), claims=each.claims),
            )
            for each in auth.named_tokens
        ]
        self.verifier = _verifier(auth, resource, timing) if auth.issuers else None
        """Verifies signed tokens."""
        # The least recently verified first.
        self._verified = OrderedDict[bytes, _VerifiedToken]()

    async def __call__(self, request: HttpRequest) -> Caller:
        """Return the caller of a request.

        Raises:
            HttpError: 401 without a valid token, 403 without the required scopes, 400 for a
                malformed header, 429 after too many invalid tokens from one address, 503 while
                the issuer's keys are not available.
        """
        resource = self._resource.at(request)
        return await self._caller_of(_token(request, resource), request.address, resource)

    async def verified(self, token: str, address: str) -> Caller:
        """Return the caller of a token that was sent from an address.

        Raises:
            HttpError: as for a request with the token.
        """
        return await self._caller_of(token, address, self._resource)

    async def _caller_of(self, token: str, address: str, resource: ProtectedResource) -> Caller:
        if not _TOKEN.fullmatch(token):
            raise resource.refusal(400, "expected: Bearer and a token", "invalid_request")
        if len(token) > MAX_TOKEN_BYTES:
            raise resource.refusal(401, "the token is too long", "invalid_token")
        digest = _digest(token)
        caller = self._known_caller(digest)
        if caller is None or not caller.may(self._required):
            # Before the slow verification; known callers are not affected.
            wait_s = self._rates.take(address) if self._rates else 0
            if wait_s:
                raise rate_limited(wait_s)
        if caller is None:
            caller = await self._verify(token, resource)
            self._remember(digest, caller)
        if not caller.may(self._required):
            raise resource.refusal(403, "the token lacks a scope", "insufficient_scope")
        return caller

    def _known_caller(self, digest: bytes) -> Caller | None:
        found = None
        for static, caller in self._static:
            # All are compared, so that the time reveals nothing.
            if hmac.compare_digest(static, digest):
                found = caller
        if found is None and (verified := self._verified.get(digest)) is not None:
            found = verified.caller if time.time() < verified.until else None
        return found

    async def _verify(self, token: str, resource: ProtectedResource) -> Caller:
        if self.verifier is None:
            raise resource.refusal(401, "the token is not known here", "invalid_token")
        # Imported here: static tokens work without the library for signed ones.
        from resource_server.transports.http.auth.jwt import InvalidToken

        try:
            return await self.verifier.verify(token)
        except InvalidToken as error:
            raise resource.refusal(401, str(error), "invalid_token") from None

    def _remember(self, digest: bytes, caller: Caller) -> None:
        until = time.time() + self._timing.token_cache_s
        self._verified[digest] = _VerifiedToken(caller, min(until, caller.expires or until))
        self._verified.move_to_end(digest)
        if len(self._verified) > MAX_VERIFIED_TOKENS:
            self._verified.popitem(last=False)


def _token(request: HttpRequest, resource: ProtectedResource) -> str:
    header = request.header(b"authorization")
    scheme = None if header is None else _BEARER.match(header)
    token = header[scheme.end() :] if header and scheme else ""
    if not token:
        raise resource.refusal(401, "a token is required")
    return token


def _verifier(auth: Auth, resource: ProtectedResource, timing: Timing) -> TokenVerifier:
    extras.require_packages("auth", "http.auth.issuer")
    from resource_server.transports.http.auth.jwks import IssuerKeys
    from resource_server.transports.http.auth.jwt import TokenVerifier

    keys = {issuer: IssuerKeys(issuer, auth.jwks_url, timing=timing) for issuer in auth.issuers}
    return TokenVerifier(keys, auth.audience or resource.url or "", timing=timing)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
