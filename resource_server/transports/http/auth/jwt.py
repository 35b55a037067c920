"""Access tokens that issuers have signed (JWT, RFC 9068): who has one, and what it allows.

What a token says of itself decides nothing but which key may prove it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jwt

from resource_server.access import Caller
from resource_server.manifest.data import is_list
from resource_server.transports.http.auth.jwks import Keys

ALGORITHMS = tuple("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split())
"""Those with a public key only: who verifies must not be able to sign."""
SKEW_S = 30
"""So far the clocks of an issuer and of this machine may be apart."""

_FOREVER_S = 1 << 40
"""What is later than this is not told from it; clocks count in floats."""
_TYPES = (None, "jwt", "at+jwt", "application/at+jwt")
"""Of access tokens; those of other tokens say so (RFC 8725, 3.11)."""
_REASONS: Mapping[type[jwt.PyJWTError], str] = {
    jwt.ExpiredSignatureError: "the token has expired",
    jwt.ImmatureSignatureError: "the token is not valid yet",
    jwt.InvalidAudienceError: "the token is for somebody else",
    jwt.MissingRequiredClaimError: "the token does not say what it has to",
}


class Invalid(Exception):
    """A token that does not count; the text tells its owner why."""


class Verifier:
    """Verifies tokens that one of the issuers has issued for the audience."""

    def __init__(self, keys: Mapping[str, Keys], audience: str) -> None:
        self._keys = keys
        self._audience = audience

    async def verify(self, token: str) -> Caller:
        """Return who a token was issued to. It `expires` when no clock would take it any more.

        Raises:
            Invalid: it does not count.
            Refused: the keys of its issuer cannot be had now.
        """
        try:
            said = jwt.decode_complete(token, options={"verify_signature": False})
            issuer = said["payload"].get("iss")
            key = await self._key(said["header"], issuer)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                issuer=issuer,
                audience=self._audience,
                leeway=SKEW_S,
                options={
                    "require": ["iss", "exp", "aud", "sub"],
                    "enforce_minimum_key_length": True,
                },
            )
        except jwt.PyJWTError as error:
            raise Invalid(_REASONS.get(type(error), "the token is not valid")) from None
        if not claims["sub"]:
            raise Invalid("the token does not say what it has to")
        # Two issuers may give one name to two people.
        subject = f"{issuer}#{claims['sub']}"
        expires = min(int(claims["exp"]), _FOREVER_S) + SKEW_S
        return Caller(subject, _scopes(claims), float(expires))

    async def _key(self, header: Mapping[str, Any], issuer: object) -> jwt.PyJWK:
        keys = self._keys.get(issuer) if isinstance(issuer, str) else None
        if keys is None:
            raise Invalid("the token is from another issuer")
        kind, algorithm = header.get("typ"), header.get("alg")
        if (kind.lower() if isinstance(kind, str) else kind) not in _TYPES:
            raise Invalid("the token is no access token")
        if algorithm not in ALGORITHMS:
            raise Invalid("the token is not signed as it has to be")
        key = await keys.find(header.get("kid"), algorithm)
        if key is None:
            raise Invalid("the token is signed with an unknown key")
        return key


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return what a token allows: `scope` as RFC 9068 has it, `scp` as Entra and Okta do."""
    given = claims.get("scope", claims.get("scp"))
    words = given.split() if isinstance(given, str) else given
    if not is_list(words):
        return frozenset()
    return frozenset(word for word in words if isinstance(word, str))
