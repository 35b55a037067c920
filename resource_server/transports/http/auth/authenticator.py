"""Who asks, by the token of a request: one that an issuer has signed, or one given out by hand."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from resource_server.access import Caller
from resource_server.manifest.http import Auth
from resource_server.runtime.rate_limit import RateLimiter
from resource_server.transports.http.app.request import Request, too_often
from resource_server.transports.http.auth.protected_resource import ProtectedResource

if TYPE_CHECKING:
    from resource_server.transports.http.auth.jwt import Verifier

MAX_TOKEN_BYTES = 16 * 1024
REMEMBERED = 4096
"""Tokens that have been verified lately."""
REMEMBERED_S = 60.0
"""Then a token is verified again: its key may have been withdrawn."""

_BEARER = re.compile(r"bearer(?: +|$)", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class _Known(NamedTuple):
    caller: Caller
    until: float
    """In seconds since the epoch."""


class Authenticator:
    """Tells who asks; what it asks for has to be authenticated before anything is done for it."""

    def __init__(
        self, auth: Auth, resource: ProtectedResource, *, rates: RateLimiter | None = None
    ) -> None:
        self._resource = resource
        self._rates = rates
        """How often one address may come with a token that is not known to be good."""
        self._required = frozenset(auth.scopes)
        self._given = [
            (
                _digest(each.token),
                Caller(each.subject, None if each.scopes is None else frozenset(each.scopes)),
            )
            for each in auth.named_tokens
        ]
        self._verifier = _verifier(auth, resource) if auth.issuers else None
        # The least recently verified first.
        self._known = OrderedDict[bytes, _Known]()

    async def __call__(self, request: Request) -> Caller:
        """Return who asks.

        Raises:
            Refused: 401 without a token that counts, 403 without the scopes, 400 where it cannot be
                told what is meant, 429 where too many did not count that came from the same
                address, 503 where keys are not to be had.
        """
        if b"access_token=" in request.scope.get("query_string", b""):
            raise self._resource.refused(
                400, "a token belongs into the header Authorization", "invalid_request"
            )
        token = self._token(request)
        digest = _digest(token)
        caller = self._recalled(digest)
        if caller is None or not caller.may(self._required):
            # Before it is verified, which takes a while; who is known is not held up.
            wait = self._rates.take(request.address) if self._rates else 0
            if wait:
                raise too_often(wait)
        if caller is None:
            caller = await self._verified(token)
            self._remember(digest, caller)
        if not caller.may(self._required):
            raise self._resource.refused(403, "the token lacks a scope", "insufficient_scope")
        return caller

    def _token(self, request: Request) -> str:
        given = request.header(b"authorization")
        scheme = None if given is None else _BEARER.match(given)
        if given is None or scheme is None:
            raise self._resource.refused(401, "a token is required")
        token = given[scheme.end() :]
        if not _TOKEN.fullmatch(token):
            raise self._resource.refused(400, "expected: Bearer and a token", "invalid_request")
        if len(token) > MAX_TOKEN_BYTES:
            raise self._resource.refused(401, "the token is too long", "invalid_token")
        return token

    def _recalled(self, digest: bytes) -> Caller | None:
        """Return whose token it is, if that is known."""
        found = None
        for known, caller in self._given:
            # All of them, so that the time it takes tells nothing.
            if hmac.compare_digest(known, digest):
                found = caller
        if found is None and (seen := self._known.get(digest)) is not None:
            found = seen.caller if time.time() < seen.until else None
        return found

    async def _verified(self, token: str) -> Caller:
        if self._verifier is None:
            raise self._resource.refused(401, "the token is not known here", "invalid_token")
        # Imported here: whoever gives tokens out by hand does without the library for the others.
        from resource_server.transports.http.auth.jwt import Invalid

        try:
            return await self._verifier.verify(token)
        except Invalid as error:
            raise self._resource.refused(401, str(error), "invalid_token") from None

    def _remember(self, digest: bytes, caller: Caller) -> None:
        until = time.time() + REMEMBERED_S
        self._known[digest] = _Known(caller, min(until, caller.expires or until))
        self._known.move_to_end(digest)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


def _verifier(auth: Auth, resource: ProtectedResource) -> Verifier:
    try:
        from resource_server.transports.http.auth.jwks import Keys
        from resource_server.transports.http.auth.jwt import Verifier
    except ImportError:
        raise ValueError("http.auth needs: pip install 'resource-server[auth]'") from None
    keys = {issuer: Keys(issuer, auth.jwks_url) for issuer in auth.issuers}
    return Verifier(keys, auth.audience or resource.url)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
