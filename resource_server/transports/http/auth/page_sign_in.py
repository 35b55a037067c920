"""Sign-in of people to pages: by a token, at an issuer, or by a link that works once."""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable, Iterable
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from resource_server.access import EVERYBODY, WHOLE, Caller, claim_path
from resource_server.manifest.http import Auth, ExplorerOptions, Http
from resource_server.runtime.server_key import ServerKey
from resource_server.runtime.timing import Timing
from resource_server.transports.http.app.request import Headers, HttpError, HttpRequest
from resource_server.transports.http.auth.authenticator import Authenticator
from resource_server.transports.http.auth.page_cookies import PageCookie, SignInFailed
from resource_server.transports.http.auth.protected_resource import ProtectedResource

if TYPE_CHECKING:
    from resource_server.transports.http.auth.issuer_sign_in import IssuerSignIn

LIFETIME_S = 12 * 3600
"""How long a person stays signed in, if the token does not expire before."""


class PageSignIn:
    """Signs people in: by a token, at an issuer, or by the code of a link that works once.

    `verify` returns the caller of a token sent from an address, or raises `HttpError`. `claims`
    returns the names of the claims on which it depends what a caller sees: cookies have these.
    """

    def __init__(
        self,
        cookie: PageCookie[Caller],
        verify: Callable[[str, str], Awaitable[Caller]] | None,
        code: str | None = None,
        at_issuer: IssuerSignIn | None = None,
        claims: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.cookie = cookie
        self.takes_tokens = verify is not None
        self.at_issuer = at_issuer
        self._verify = verify
        self._code = code
        self._claims = claims

    def redeem(self, code: str) -> Caller:
        """Return the caller of a link; its code is worth nothing afterwards.

        Raises:
            SignInFailed: it is worth nothing already.
        """
        if self._code is None or not hmac.compare_digest(self._code.encode(), code.encode()):
            raise SignInFailed("This link has been used, or is of another server.")
        self._code = None
        return EVERYBODY

    async def verified(self, token: str, address: str) -> Caller:
        """Return the caller of a token.

        Raises:
            SignInFailed: it is not valid.
            HttpError: 429 after too many invalid tokens, 503 while keys are not available.
        """
        try:
            if self._verify is not None:
                return await self._verify(token, address)
        except HttpError as error:
            if error.status not in (400, 401, 403):
                raise
        raise SignInFailed("This token is not known here, or has expired.")

    def issued(self, request: HttpRequest, caller: Caller) -> Headers:
        """Return the header with the cookie of a caller, which ends with the token.

        Raises:
            SignInFailed: the caller has too many scopes or claims for a cookie.
        """
        until = time.time() + LIFETIME_S
        expires = min(until, caller.expires or until)
        names = {name and claim_path(name)[0] for name in self._claims()}
        has = caller.claims
        claims = has if WHOLE in names else {each: has[each] for each in names & has.keys()}
        held = Caller(caller.subject, caller.scopes, expires, claims)
        return self.cookie.issued(request, held)


def page_sign_in(
    options: Http,
    auth: Auth,
    resource: ProtectedResource,
    authenticator: Authenticator,
    key: ServerKey,
    *,
    link_code: str | None,
    claims: Callable[[], Iterable[str]],
    timing: Timing,
) -> PageSignIn:
    """Return the sign-in for these options; the code of a link is then the only way."""
    has_tls = (resource.url or "").startswith("https:")
    # With other tokens, issuers, scopes or audience, the cookies of before are worth nothing.
    accepted = msgspec.json.encode((auth, options.url))

    def secret(purpose: str) -> bytes:
        return hmac.new(key.derived(purpose), accepted, sha256).digest()

    cookie = PageCookie("explorer", Caller, secret("explorer cookie"), has_tls=has_tls)
    if link_code:
        return PageSignIn(cookie, None, link_code)
    at_issuer = None
    if isinstance(options.explorer, ExplorerOptions):
        # Imported here: static tokens work without the library for signed ones.
        from resource_server.transports.http.auth.issuer_sign_in import IssuerSignIn, StartedSignIn

        at_issuer = IssuerSignIn(
            options.explorer,
            resource,
            auth.audience or resource.url or "",
            authenticator,
            cookie=PageCookie(
                "explorer-issuer", StartedSignIn, secret("explorer issuer"), has_tls=has_tls
            ),
            secret=secret("explorer PKCE"),
            timing=timing,
        )
    return PageSignIn(cookie, authenticator.verified, at_issuer=at_issuer, claims=claims)
