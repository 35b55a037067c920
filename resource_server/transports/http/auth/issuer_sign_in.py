"""Sign-in of people at the issuer of tokens: authorization code with PKCE (RFC 6749, RFC 7636).

Nothing is kept here: a cookie has a seed, from which only this server derives state, nonce and
verifier.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from anyio import CapacityLimiter, to_thread

from resource_server.access import Caller
from resource_server.manifest.http import ExplorerOptions
from resource_server.runtime.timing import Timing
from resource_server.transports.http.app.request import Headers, HttpError, HttpRequest
from resource_server.transports.http.auth.authenticator import Authenticator
from resource_server.transports.http.auth.jwks import (
    IssuerMetadata,
    IssuerUnavailable,
    discovered,
    fetched,
)
from resource_server.transports.http.auth.jwt import InvalidToken
from resource_server.transports.http.auth.page_cookies import OPERATOR, PageCookie, SignInFailed
from resource_server.transports.http.auth.protected_resource import ProtectedResource

logger = logging.getLogger(__name__)

T = TypeVar("T")

LIFETIME_S = 600
"""How long a person may take at the issuer."""
_MAX_THREADS = 4
_MAX_DESTINATION = 1500
"""Bytes of an address that a cookie has room for."""


class _Metadata(IssuerMetadata):
    authorization_endpoint: str
    token_endpoint: str
    authorization_response_iss_parameter_supported: bool = False
    token_endpoint_auth_methods_supported: Sequence[str] = ("client_secret_basic",)
    scopes_supported: Sequence[str] = ()
    id_token_signing_alg_values_supported: Sequence[str] = ()
    """Required of OpenID providers; others issue no ID token."""

    @property
    def urls(self) -> Sequence[str]:
        return (self.jwks_uri, self.authorization_endpoint, self.token_endpoint)


class _Tokens(msgspec.Struct):
    access_token: str
    token_type: str
    id_token: str | None = None


class StartedSignIn(NamedTuple):
    """A sign-in that waits for the issuer, as its cookie has it."""

    seed: bytes
    destination: str
    expires: float


class IssuerSignIn:
    """Signs people in at the first issuer, at which this server is registered as a client."""

    def __init__(
        self,
        client: ExplorerOptions,
        resource: ProtectedResource,
        audience: str,
        authenticator: Authenticator,
        *,
        cookie: PageCookie[StartedSignIn],
        secret: bytes,
        timing: Timing,
    ) -> None:
        self.issuer = resource.issuers[0]
        self.cookie = cookie
        self._client = client
        self._resource = resource
        # RFC 8707 has URIs only.
        self._target = {"resource": audience} if urlsplit(audience).scheme else {}
        self._authenticator = authenticator
        self._secret = secret
        self._timing = timing
        self._found: _Metadata | None = None
        self._look_again_at = -math.inf
        self._looking = asyncio.Lock()
        # Its own threads: a slow issuer could keep all of a shared pool.
        self._threads = CapacityLimiter(_MAX_THREADS)

    async def begin(
        self, request: HttpRequest, destination: str, return_url: str
    ) -> tuple[str, Headers]:
        """Return the address at the issuer to which a person is sent, and the cookie to set.

        Raises:
            SignInFailed: the issuer is unavailable.
        """
        metadata = await self._metadata()
        kept = destination if len(destination.encode()) <= _MAX_DESTINATION else ""
        begun = StartedSignIn(secrets.token_bytes(32), kept, time.time() + LIFETIME_S)
        challenge = sha256(self._derived("verifier", begun).encode()).digest()
        # An issuer may refuse a request for a scope that it does not know.
        scopes = [each for each in (OPERATOR,) if each in metadata.scopes_supported]
        scopes = [*self._resource.supported_scopes, *scopes]
        parameters = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": return_url,
            "state": self._derived("state", begun),
            "code_challenge": _base64(challenge),
            "code_challenge_method": "S256",
            **self._target,
        }
        if metadata.id_token_signing_alg_values_supported:
            scopes = ["openid", *scopes]
            parameters["nonce"] = self._derived("nonce", begun)
        if scopes:
            parameters["scope"] = " ".join(scopes)
        mark = "&" if "?" in metadata.authorization_endpoint else "?"
        address = f"{metadata.authorization_endpoint}{mark}{urlencode(parameters)}"
        return address, self.cookie.issued(request, begun)

    async def finish(
        self, request: HttpRequest, answer: Mapping[str, str], return_url: str
    ) -> tuple[Caller, str]:
        """Return the caller whom the issuer's answer names, and where the person wanted to go.

        Raises:
            SignInFailed: nobody is signed in.
        """
        begun = self.cookie.contents(request)
        if begun is None or not hmac.compare_digest(
            self._derived("state", begun).encode(), answer.get("state", "").encode()
        ):
            raise SignInFailed("This sign-in began in another browser or tab, or too long ago.")
        metadata = await self._metadata()
        implied = "" if metadata.authorization_response_iss_parameter_supported else self.issuer
        if answer.get("iss", implied) != self.issuer:
            raise SignInFailed(f"The answer is not from {self.issuer}.")
        if not answer.get("code"):
            reasons = [answer.get(each, "") for each in ("error", "error_description")]
            reason = ": ".join(filter(None, reasons))[:300] or "no code"
            raise SignInFailed(f"{self.issuer} has not signed you in: {reason}")
        tokens = await self._exchange(metadata, begun, answer["code"], return_url)
        verifier, nonce = self._authenticator.verifier, self._derived("nonce", begun)
        try:
            if metadata.id_token_signing_alg_values_supported:
                token, audience = tokens.id_token or "", self._client.client_id
                claims: Mapping[str, Any] = {}
                if verifier is not None:
                    claims = await verifier.claims(token, audience)
                if (claims.get("iss"), claims.get("nonce")) != (self.issuer, nonce):
                    raise InvalidToken("the ID token is of another sign-in")
            caller = await self._authenticator.verified(tokens.access_token, request.address)
            if not (caller.subject or "").startswith(f"{self.issuer}#"):
                raise InvalidToken("the token is of another issuer")
        except (HttpError, InvalidToken) as error:
            status = error.status if isinstance(error, HttpError) and error.status > 403 else 403
            reason = f"What {self.issuer} has issued is not accepted here: {error}"
            raise SignInFailed(reason, status) from None
        return caller, begun.destination

    async def _exchange(
        self, metadata: _Metadata, begun: StartedSignIn, code: str, return_url: str
    ) -> _Tokens:
        """Return the tokens for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": return_url,
            "client_id": self._client.client_id,
            "code_verifier": self._derived("verifier", begun),
            **self._target,
        }
        headers: dict[str, str] = {}
        if (secret := self._client.client_secret) is not None:
            if "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
                pair = f"{quote(self._client.client_id, safe='')}:{quote(secret, safe='')}"
                headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
            else:
                form["client_secret"] = secret
        url = metadata.token_endpoint
        found = await self._ask(lambda deadline: fetched(url, deadline, form, headers))
        try:
            tokens = msgspec.json.decode(found, type=_Tokens)
            if tokens.token_type.lower() == "bearer":
                return tokens
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        raise SignInFailed(f"{self.issuer} has issued no bearer token.", 502)

    async def _metadata(self) -> _Metadata:
        async with self._looking:
            if time.monotonic() >= self._look_again_at:
                pause_s, self._found = self._timing.jwks_retry_first_s, None
                try:
                    found = await self._ask(lambda end: discovered(self.issuer, _Metadata, end))
                    pause_s, self._found = self._timing.jwks_fresh_s, found
                finally:
                    # Those who have waited meanwhile are answered at once.
                    self._look_again_at = time.monotonic() + pause_s
        if self._found is None:
            raise self._unavailable
        return self._found

    async def _ask(self, ask: Callable[[float], T]) -> T:
        """Return what the issuer answers in time.

        Raises:
            SignInFailed: nothing, or a refusal.
        """
        within_s = self._timing.jwks_fetch_timeout_s
        deadline = time.monotonic() + within_s
        try:
            async with asyncio.timeout(within_s):
                return await to_thread.run_sync(
                    ask, deadline, abandon_on_cancel=True, limiter=self._threads
                )
        except IssuerUnavailable as error:
            logger.warning("a sign-in at %s has failed: %s", self.issuer, error)
            if error.status == 400:
                reason = "does not accept this sign-in: it took too long, or happened before."
                raise SignInFailed(f"{self.issuer} {reason}") from None
        except TimeoutError:
            pass
        raise self._unavailable

    @property
    def _unavailable(self) -> SignInFailed:
        reason = f"{self.issuer} does not answer as it should; try again later."
        return SignInFailed(reason, 503)

    def _derived(self, purpose: str, begun: StartedSignIn) -> str:
        return _base64(hmac.new(self._secret, purpose.encode() + begun.seed, sha256).digest())


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
