"""Signed access tokens: accepted and refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from resource_server.transports.http.auth.authenticator import MAX_TOKEN_BYTES
from resource_server.transports.http.auth.jwks import IssuerKeys
from resource_server.transports.http.auth.jwt import InvalidToken, TokenVerifier
from tests.cases import for_each
from tests.transports.guarded import SCOPE, Endpoint, auth, guarded
from tests.transports.issuer import ALGORITHMS, AUDIENCE, Issuer, issuing, key, signer

pytestmark = pytest.mark.anyio


@pytest.mark.guarantee("tokens-are-verified")
@for_each("algorithm", ALGORITHMS)
async def test_a_token_signed_with_a_private_key_is_accepted(
    endpoint: Endpoint, issuer: Issuer, algorithm: str
) -> None:
    assert await endpoint.takes(issuer.token(signer(algorithm), algorithm))


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_with_a_secret(issuer: Issuer, secret: bytes) -> str:
    """Return a token signed with a public value as its secret."""
    header = {"alg": "HS256", "kid": "one", "typ": "JWT"}
    parts = [encoded(json.dumps(each).encode()) for each in (header, issuer.claims())]
    signature = hmac.digest(secret, ".".join(parts).encode(), hashlib.sha256)
    return ".".join([*parts, encoded(signature)])


def signed(issuer: Issuer, **claims: Any) -> str:
    """Return a token that is signed well, with claims that a library would not sign."""
    said = json.dumps({**issuer.claims(), **claims}).encode()
    return jwt.PyJWS().encode(said, key("one").private, "ES256", {"kid": "one", "typ": "JWT"})


def with_the_public_key_as_secret(issuer: Issuer) -> str:
    public = key("one").private.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return signed_with_a_secret(issuer, pem)


def with_the_public_jwk_as_secret(issuer: Issuer) -> str:
    return signed_with_a_secret(issuer, json.dumps(key("one").jwk()).encode())


def with_other_claims(issuer: Issuer) -> str:
    header, _, signature = issuer.token().split(".")
    said = {**issuer.claims(), "sub": "root"}
    return ".".join([header, encoded(json.dumps(said).encode()), signature])


def with_its_own_key(issuer: Issuer) -> str:
    mine = key("mine")
    return issuer.token(mine, headers={"kid": "one", "jwk": mine.jwk()})


def with_its_own_key_set(issuer: Issuer) -> str:
    issuer.documents["/mine"] = {"keys": [key("mine").jwk(kid="one")]}
    headers = {"kid": "one", "jku": f"{issuer.origin}/mine", "x5u": f"{issuer.origin}/mine"}
    return issuer.token(key("mine"), headers=headers)


ATTACKS: Mapping[str, Callable[[Issuer], str]] = {
    "unsigned": lambda i: jwt.encode(i.claims(), "", "none", {"kid": "one"}),
    "unsigned, with a signature": lambda i: jwt.encode(i.claims(), "", "none") + "AAAA",
    "with the public key as secret": with_the_public_key_as_secret,
    "with the public JWK as secret": with_the_public_jwk_as_secret,
    "with no secret": lambda i: signed_with_a_secret(i, b""),
    "with other claims than were signed": with_other_claims,
    "with its own key": with_its_own_key,
    "with its own key set": with_its_own_key_set,
    "signed with another key of that name": lambda i: i.token(key("mine"), headers={"kid": "one"}),
    "signed with an unknown key": lambda i: i.token(key("mine")),
    "that names no key where there are several": lambda i: i.token(headers={"kid": None}),
    "with a critical header that is unknown": lambda i: i.token(headers={"crit": ["x"], "x": 1}),
    "of another kind": lambda i: i.token(headers={"typ": "logout+jwt"}),
    "of another issuer": lambda i: i.token(iss="https://login.example.org"),
    "of an issuer with a slash more": lambda i: i.token(iss=f"{i.url}/"),
    "of a list of issuers": lambda i: signed(i, iss=[i.url]),
    "for somebody else": lambda i: i.token(aud="https://other.example.org/mcp"),
    "for the whole host": lambda i: i.token(aud="https://files.example.org"),
    "for all that begins so": lambda i: i.token(aud=f"{AUDIENCE}/more"),
    "for nobody": lambda i: i.token(aud=None),
    "for an empty list": lambda i: i.token(aud=[]),
    "for what is no text": lambda i: signed(i, aud={AUDIENCE: 1}),
    "expired": lambda i: i.token(exp=int(time.time()) - 60),
    "without an end": lambda i: i.token(exp=None),
    "with an end that is no time": lambda i: signed(i, exp="tomorrow"),
    "with an end that is no number": lambda i: signed(i, exp=float("nan")),
    "without any end": lambda i: signed(i, exp=float("inf")),
    "not valid yet": lambda i: i.token(nbf=int(time.time()) + 90),
    "issued in the future": lambda i: i.token(iat=int(time.time()) + 90),
    "without an issuer": lambda i: i.token(iss=None),
    "without a subject": lambda i: i.token(sub=None),
    "with an empty subject": lambda i: i.token(sub=""),
    "with a subject that is no text": lambda i: signed(i, sub=5),
    "that is no token": lambda i: "no-token",
    "of two parts": lambda i: i.token().rpartition(".")[0],
    "of four parts": lambda i: f"{i.token()}.AAAA",
    "of empty parts": lambda i: "..",
    "that is too long": lambda i: i.token(padding="x" * MAX_TOKEN_BYTES),
}


@pytest.mark.guarantee("tokens-are-verified")
@for_each("attack", ATTACKS)
async def test_an_invalid_token_is_refused(endpoint: Endpoint, issuer: Issuer, attack: str) -> None:
    token = ATTACKS[attack](issuer)
    assert await endpoint.takes(issuer.token())
    assert not await endpoint.takes(token)
    assert not await endpoint.takes(token), "the second time"
    assert "/mine" not in issuer.asked


@for_each(
    "claims",
    [
        {"aud": ["https://other.example.org", AUDIENCE]},
        {"exp": 2**40},
        {"exp": 10**400},
        {"nbf": 1, "iat": 1},
        {"scope": None, "scp": [SCOPE, "more", 5]},
        {"scope": None, "scp": f"more {SCOPE}"},
        {"scope": f"{SCOPE} more"},
        {"padding": "x" * 8_000},
    ],
)
async def test_a_token_may_have_further_claims(
    endpoint: Endpoint, issuer: Issuer, claims: dict[str, Any]
) -> None:
    assert await endpoint.takes(issuer.token(**claims))


async def test_clocks_may_differ_by_half_a_minute(endpoint: Endpoint, issuer: Issuer) -> None:
    now = int(time.time())
    assert await endpoint.takes(issuer.token(exp=now - 10))
    assert await endpoint.takes(issuer.token(nbf=now + 10, iat=now + 10))
    assert not await endpoint.takes(issuer.token(exp=now - 31))
    assert not await endpoint.takes(issuer.token(nbf=now + 60))


@for_each("kind", ["at+jwt", "application/at+jwt", "AT+JWT", "jwt", None])
async def test_a_token_may_name_its_type(
    endpoint: Endpoint, issuer: Issuer, kind: str | None
) -> None:
    assert await endpoint.takes(issuer.token(headers={"typ": kind}))


@pytest.mark.guarantee("tokens-are-verified")
async def test_an_issuer_signs_only_its_own_tokens(tmp_path: Path, issuer: Issuer) -> None:
    with issuing() as other:
        other.publish(key("other"))
        async with guarded(tmp_path, auth(issuer, other)) as endpoint:
            assert await endpoint.takes(issuer.token())
            assert await endpoint.takes(other.token(key("other")))
            assert not await endpoint.takes(issuer.token(key("other")))
            assert not await endpoint.takes(issuer.token(iss=other.url))


async def test_a_caller_has_the_verified_claims_of_the_token(issuer: Issuer) -> None:
    verifier = TokenVerifier({issuer.url: IssuerKeys(issuer.url)}, AUDIENCE)
    caller = await verifier.verify(issuer.token(sub="ada", org={"id": 7}, teams=["a", None]))
    assert (caller.claims["sub"], caller.claims["org"]) == ("ada", {"id": 7})
    assert caller.claims["teams"] == ["a", None]
    assert caller.subject == f"{issuer.url}#ada"


@given(
    header=st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "crit", "b64", "x"]),
        st.none() | st.text(max_size=5) | st.integers() | st.lists(st.text(max_size=3), max_size=2),
    ),
    payload=st.binary(max_size=20) | st.sampled_from([b"{}", b"[]", b'{"iss":[]}', b"[" * 9000]),
    signature=st.binary(max_size=8),
)
def test_malformed_tokens_never_break_the_verifier(
    header: dict[str, Any], payload: bytes, signature: bytes
) -> None:
    parts = [json.dumps(header).encode(), payload, signature]
    with pytest.raises(InvalidToken):
        anyio.run(TokenVerifier({}, AUDIENCE).verify, ".".join(map(encoded, parts)))
