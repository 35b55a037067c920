"""Signed access tokens (JWT, RFC 9068): verification, and the caller they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jwt

from resource_server.access import Caller
from resource_server.manifest.data import is_list
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.transports.http.auth.jwks import IssuerKeys

ALGORITHMS = tuple("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split())
"""Algorithms with a public key: a server that verifies must not be able to sign."""

_MAX_EXPIRY_S = 1 << 40
"""Later expiries mean the same: times are floats."""
_TYPES = (None, "jwt", "at+jwt", "application/at+jwt")
"""Values of `typ` in access tokens; other tokens have others (RFC 8725, 3.11)."""
_REASONS: Mapping[type[jwt.PyJWTError], str] = {
    jwt.ExpiredSignatureError: "the token has expired",
    jwt.ImmatureSignatureError: "the token is not valid yet",
    jwt.InvalidAudienceError: "the token is for another audience",
    jwt.MissingRequiredClaimError: "the token lacks a required claim",
}


class InvalidToken(Exception):
    """A token that is not accepted; the text tells its owner why."""


class TokenVerifier:
    """Verifies tokens that one of several issuers has issued for the audience.

    Before the signature is verified, a token's claims only choose the key to verify it with.
    """

    def __init__(
        self, keys: Mapping[str, IssuerKeys], audience: str, *, timing: Timing = DEFAULT_TIMING
    ) -> None:
        self._keys = keys
        self._audience = audience
        self._clock_skew_s = timing.clock_skew_s

    async def verify(self, token: str) -> Caller:
        """Return the caller a token was issued to; it `expires` when no clock accepts it any more.

        Raises:
            InvalidToken: the token is not accepted.
            HttpError: its issuer's keys are unavailable.
        """
        claims = await self.claims(token, self._audience)
        # Two issuers may use one subject for different people.
        subject = f"{claims['iss']}#{claims['sub']}"
        expires = min(int(claims["exp"]), _MAX_EXPIRY_S) + self._clock_skew_s
        return Caller(subject, _scopes(claims), float(expires), claims)

    async def claims(self, token: str, audience: str) -> Mapping[str, Any]:
        """Return the claims of a token for an audience.

        Raises:
            InvalidToken: the token is not accepted.
            HttpError: its issuer's keys are unavailable.
        """
        try:
            unverified = jwt.decode_complete(token, options={"verify_signature": False})
            issuer = unverified["payload"].get("iss")
            key = await self._key(unverified["header"], issuer)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                issuer=issuer,
                audience=audience,
                leeway=self._clock_skew_s,
                options={
                    "require": ["iss", "exp", "aud", "sub"],
                    "enforce_minimum_key_length": True,
                },
            )
        except jwt.PyJWTError as error:
            raise InvalidToken(_REASONS.get(type(error), "the token is not valid")) from None
        if not claims["sub"]:
            raise InvalidToken("the token lacks a required claim")
        return claims

    async def _key(self, header: Mapping[str, Any], issuer: object) -> jwt.PyJWK:
        keys = self._keys.get(issuer) if isinstance(issuer, str) else None
        if keys is None:
            raise InvalidToken("the token is from another issuer")
        token_type, algorithm = header.get("typ"), header.get("alg")
        if (token_type.lower() if isinstance(token_type, str) else token_type) not in _TYPES:
            raise InvalidToken("the token is no access token")
        if algorithm not in ALGORITHMS:
            raise InvalidToken("the token has an unsupported signature algorithm")
        key = await keys.find(header.get("kid"), algorithm)
        if key is None:
            raise InvalidToken("the token is signed with an unknown key")
        return key


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return a token's scopes: in `scope` (RFC 9068), or in `scp` (Entra and Okta)."""
    found = claims.get("scope", claims.get("scp"))
    names = found.split() if isinstance(found, str) else found
    if not is_list(names):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str))
