from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken, ProtectedResourceMetadata

from resource_server.manifest.http import HttpLimits, Token
from resource_server.runtime.rate_limit import Rate
from resource_server.runtime.timing import Timing
from resource_server.transports.http.auth.authenticator import MAX_TOKEN_BYTES
from resource_server.transports.http.auth.jwt import InvalidToken, TokenVerifier
from tests.cli.conftest import ROOT, Lines
from tests.transports.guarded import SCOPE, Endpoint, auth, guarded
from tests.transports.issuer import AUDIENCE, Issuer, issuing, key

pytestmark = pytest.mark.anyio

METADATA = "https://files.example.org/.well-known/oauth-protected-resource/mcp"
PLAIN = "/.well-known/oauth-protected-resource"
GIVEN = "0123456789abcdef0123456789abcdef"
OTHER = "fedcba9876543210fedcba9876543210"
ALGORITHMS = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split()
SIGNERS = {
    algorithm: key(f"of {algorithm}", algorithm if algorithm[0] == "E" else "RSA")
    for algorithm in ALGORITHMS
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        issuer.publish(key("one"), *SIGNERS.values())
        yield issuer


@pytest.fixture(scope="module")
async def endpoint(
    tmp_path_factory: pytest.TempPathFactory, issuer: Issuer
) -> AsyncIterator[Endpoint]:
    folder = tmp_path_factory.mktemp("auth")
    (folder / "a.txt").write_text("a", "utf-8")
    async with guarded(folder, auth(issuer), url=AUDIENCE) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
async def exact(
    tmp_path_factory: pytest.TempPathFactory, issuer: Issuer
) -> AsyncIterator[Endpoint]:
    """An endpoint that allows no difference of clocks."""
    timing = Timing(clock_skew_s=0.0)
    folder = tmp_path_factory.mktemp("exact")
    async with guarded(folder, auth(issuer), url=AUDIENCE, timing=timing) as endpoint:
        yield endpoint


# -- tokens that count, and those that do not


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_token_signed_with_a_private_key_counts(
    endpoint: Endpoint, issuer: Issuer, algorithm: str
) -> None:
    assert await endpoint.takes(issuer.token(SIGNERS[algorithm], algorithm))


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_with_a_secret(issuer: Issuer, secret: bytes) -> str:
    """Return a token that is signed with what everybody knows."""
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


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_token_that_proves_nothing_is_refused(
    endpoint: Endpoint, issuer: Issuer, attack: str
) -> None:
    token = ATTACKS[attack](issuer)
    assert await endpoint.takes(issuer.token())
    assert not await endpoint.takes(token)
    assert not await endpoint.takes(token), "the second time"
    assert "/mine" not in issuer.asked


@pytest.mark.parametrize(
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
async def test_a_token_may_say_more(
    endpoint: Endpoint, issuer: Issuer, claims: dict[str, Any]
) -> None:
    assert await endpoint.takes(issuer.token(**claims))


async def test_clocks_may_differ_by_half_a_minute_and_no_more(
    endpoint: Endpoint, issuer: Issuer
) -> None:
    now = int(time.time())
    assert await endpoint.takes(issuer.token(exp=now - 10))
    assert await endpoint.takes(issuer.token(nbf=now + 10, iat=now + 10))
    assert not await endpoint.takes(issuer.token(exp=now - 31))
    assert not await endpoint.takes(issuer.token(nbf=now + 60))


@pytest.mark.parametrize("kind", ["at+jwt", "application/at+jwt", "AT+JWT", "jwt", None])
async def test_an_access_token_may_say_that_it_is_one(
    endpoint: Endpoint, issuer: Issuer, kind: str | None
) -> None:
    assert await endpoint.takes(issuer.token(headers={"typ": kind}))


async def test_an_issuer_signs_for_itself_only(tmp_path: Path, issuer: Issuer) -> None:
    with issuing() as other:
        other.publish(key("other"))
        async with guarded(tmp_path, auth(issuer, other)) as endpoint:
            assert await endpoint.takes(issuer.token())
            assert await endpoint.takes(other.token(key("other")))
            assert not await endpoint.takes(issuer.token(key("other")))
            assert not await endpoint.takes(issuer.token(iss=other.url))


async def test_a_token_that_has_been_taken_still_expires(exact: Endpoint, issuer: Issuer) -> None:
    token = issuer.token(exp=int(time.time()) + 2)
    assert await exact.takes(token)
    with anyio.fail_after(20):
        while await exact.takes(token):
            pass


@given(
    header=st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "crit", "b64", "x"]),
        st.none() | st.text(max_size=5) | st.integers() | st.lists(st.text(max_size=3), max_size=2),
    ),
    payload=st.binary(max_size=20) | st.sampled_from([b"{}", b"[]", b'{"iss":[]}', b"[" * 9000]),
    signature=st.binary(max_size=8),
)
def test_no_token_breaks_the_verifier(
    header: dict[str, Any], payload: bytes, signature: bytes
) -> None:
    parts = [json.dumps(header).encode(), payload, signature]
    with pytest.raises(InvalidToken):
        anyio.run(TokenVerifier({}, AUDIENCE).verify, ".".join(map(encoded, parts)))


# -- where a token is


async def test_a_token_counts_in_the_header_only(endpoint: Endpoint, issuer: Issuer) -> None:
    token = issuer.token()
    assert await endpoint.takes(token)
    for answer in (
        await endpoint.post(None, query=f"?access_token={token}"),
        await endpoint.post(token, query=f"?access_token={token}"),
    ):
        assert answer.status_code == 400
        assert 'error="invalid_request"' in answer.headers["www-authenticate"]
    in_body = await endpoint.http.post(endpoint.url, data={"access_token": token})
    assert in_body.status_code == 401


@pytest.mark.parametrize(
    ("given", "status", "error"),
    [
        ("", 401, ""),
        ("Basic YTpi", 401, ""),
        ("BearerX", 401, ""),
        ("Bearer", 400, 'error="invalid_request"'),
        ("Bearer a b", 400, 'error="invalid_request"'),
        ("Bearer \xe4", 400, 'error="invalid_request"'),
        ("Bearer a,b", 400, 'error="invalid_request"'),
    ],
)
async def test_a_header_without_a_token_is_refused(
    endpoint: Endpoint, given: str, status: int, error: str
) -> None:
    headers = {b"authorization": given.encode("latin-1")}
    answer = await endpoint.http.post(endpoint.url, headers=headers)
    assert answer.status_code == status
    assert error in answer.headers["www-authenticate"]
    assert ("error" in answer.headers["www-authenticate"]) == bool(error)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
async def test_the_scheme_may_be_spelt_in_any_way(
    endpoint: Endpoint, issuer: Issuer, scheme: str
) -> None:
    answer = await endpoint.post(None, headers={"authorization": f"{scheme} {issuer.token()}"})
    assert answer.status_code == 200


async def test_two_tokens_are_refused(endpoint: Endpoint, issuer: Issuer) -> None:
    given = [("authorization", f"Bearer {issuer.token()}")] * 2
    answer = await endpoint.http.post(endpoint.url, content=b"{}", headers=given)
    assert answer.status_code == 400
    assert "the header authorization is given twice" in answer.text


# -- what a client is told


async def test_who_has_no_token_is_told_where_to_get_one(endpoint: Endpoint) -> None:
    answer = await endpoint.post(None)
    assert answer.status_code == 401
    assert answer.headers.get_list("www-authenticate") == [
        f'Bearer scope="{SCOPE}", resource_metadata="{METADATA}"'
    ]


async def test_who_has_an_expired_token_is_told_so(endpoint: Endpoint, issuer: Issuer) -> None:
    answer = await endpoint.post(issuer.token(exp=int(time.time()) - 60))
    assert answer.status_code == 401
    assert answer.headers.get_list("www-authenticate") == [
        'Bearer error="invalid_token", error_description="the token has expired", '
        f'scope="{SCOPE}", resource_metadata="{METADATA}"'
    ]


@pytest.mark.parametrize("scope", [None, "", "mcp", "mcp:readmore", f"{SCOPE},x", [SCOPE + " x"]])
async def test_who_lacks_a_scope_is_told_which(
    endpoint: Endpoint, issuer: Issuer, scope: object
) -> None:
    assert await endpoint.takes(issuer.token())
    answer = await endpoint.post(issuer.token(scope=scope))
    assert answer.status_code == 403
    assert answer.headers.get_list("www-authenticate") == [
        'Bearer error="insufficient_scope", error_description="the token lacks a scope", '
        f'scope="{SCOPE}", resource_metadata="{METADATA}"'
    ]


async def test_every_scope_is_needed(tmp_path: Path, issuer: Issuer) -> None:
    async with guarded(tmp_path, auth(issuer, scopes=("a", "b"))) as endpoint:
        assert await endpoint.status(issuer.token(scope="b c a")) == 200
        answer = await endpoint.post(issuer.token(scope="a"))
        assert answer.status_code == 403
        assert 'scope="a b"' in answer.headers["www-authenticate"]


async def test_a_web_page_can_read_why_it_was_refused(endpoint: Endpoint) -> None:
    page = "http://localhost:6274"
    answer = await endpoint.post(None, headers={"origin": page})
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == page
    assert "www-authenticate" in answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_every_method_needs_a_token(endpoint: Endpoint, method: str) -> None:
    assert (await endpoint.http.request(method, endpoint.url)).status_code == 401


# -- who comes with many that do not count


async def test_tokens_of_an_address_are_verified_as_seldom_as_it_may_ask(
    tmp_path: Path, issuer: Issuer
) -> None:
    forged, limits = issuer.token(key("mine")), HttpLimits(rate=Rate(0.1), burst=5)
    async with guarded(tmp_path, auth(issuer), url=AUDIENCE, limits=limits) as endpoint:
        known, narrow = issuer.token(), issuer.token(scope="more", sub="bob")
        assert await endpoint.status(known) == 200
        assert await endpoint.status(narrow) == 403
        found = [await endpoint.post(token) for token in (forged, narrow, forged, forged)]
        assert [each.status_code for each in found] == [401, 403, 401, 429]
        assert 1 <= int(found[-1].headers["retry-after"]) <= 10
        # Whatever it is asked for, and whether it would count.
        for token in (forged, narrow, issuer.token(sub="carol")):
            assert await endpoint.status(token) == 429
        ready = await endpoint.http.get(
            f"{endpoint.url.removesuffix('/mcp')}/metrics",
            headers={"authorization": f"Bearer {forged}"},
        )
        assert ready.status_code == 429
        # Who is known already is somebody else.
        assert await endpoint.status(known) == 200
        assert await endpoint.status(None) == 401


async def test_given_tokens_are_guessed_as_seldom_as_anybody_may_ask(tmp_path: Path) -> None:
    limits = HttpLimits(rate=Rate(0.1), burst=3)
    async with guarded(tmp_path, auth(tokens=(GIVEN,)), limits=limits) as endpoint:
        assert [await endpoint.status(OTHER) for _ in range(4)] == [401] * 3 + [429]
        assert await endpoint.status(GIVEN) == 200


# -- the metadata of the resource (RFC 9728)


@pytest.mark.parametrize("path", [PLAIN, f"{PLAIN}/mcp"])
async def test_the_metadata_names_the_issuers_to_everybody(
    endpoint: Endpoint, issuer: Issuer, path: str
) -> None:
    answer = await endpoint.http.get(
        f"{endpoint.url.removesuffix('/mcp')}{path}", headers={"origin": "https://any.example"}
    )
    assert answer.json() == {
        "resource": AUDIENCE,
        "authorization_servers": [issuer.url],
        "bearer_methods_supported": ["header"],
        "scopes_supported": [SCOPE],
    }
    assert ProtectedResourceMetadata.model_validate(answer.json())
    assert answer.headers["access-control-allow-origin"] == "*"
    asked = await endpoint.http.options(str(answer.url))
    assert "mcp-protocol-version" in asked.headers["access-control-allow-headers"]
    assert (await endpoint.http.post(str(answer.url))).status_code == 405


async def test_the_metadata_is_below_the_path_of_the_public_address(
    tmp_path: Path, issuer: Issuer
) -> None:
    url = "https://files.example.org/team/files"
    async with guarded(tmp_path, auth(issuer), url=url) as endpoint:
        answer = await endpoint.post(None)
        at = f"{PLAIN}/team/files"
        assert f'resource_metadata="https://files.example.org{at}"' in str(answer.headers)
        found = await endpoint.http.get(f"{endpoint.url.removesuffix('/mcp')}{at}")
        assert found.json()["resource"] == url


async def test_without_a_public_address_it_is_the_one_that_is_listened_on(
    tmp_path: Path, issuer: Issuer
) -> None:
    async with guarded(tmp_path, auth(issuer), url=None) as endpoint:
        challenge = (await endpoint.post(None)).headers["www-authenticate"]
        at = re.search(r'resource_metadata="([^"]+)"', challenge)
        assert at is not None
        assert (await endpoint.http.get(at[1])).json()["resource"] == endpoint.url


async def test_the_public_address_is_the_audience_unless_another_is_named(
    tmp_path: Path, issuer: Issuer
) -> None:
    url = "https://files.example.org/other"
    async with guarded(tmp_path, auth(issuer, audience=None), url=url) as endpoint:
        assert await endpoint.takes(issuer.token(aud=url))
        assert not await endpoint.takes(issuer.token())


# -- tokens given out by hand


async def test_a_given_token_counts(tmp_path: Path) -> None:
    async with guarded(tmp_path, auth(tokens=(GIVEN, OTHER))) as endpoint:
        assert await endpoint.takes(GIVEN)
        assert await endpoint.takes(OTHER)
        for wrong in (GIVEN[:-1], f"{GIVEN}0", GIVEN.upper(), f"{GIVEN}="):
            assert not await endpoint.takes(wrong)
        answer = await endpoint.post(None)
        assert answer.headers["www-authenticate"] == f'Bearer scope="{SCOPE}"'
        metadata = await endpoint.http.get(f"{endpoint.url.removesuffix('/mcp')}{PLAIN}")
        assert metadata.status_code == 404


async def test_a_given_token_may_have_few_scopes(tmp_path: Path) -> None:
    some = Token(token=OTHER, subject="ci", scopes=("other",))
    async with guarded(tmp_path, auth(tokens=(GIVEN, some))) as endpoint:
        assert await endpoint.status(GIVEN) == 200
        assert await endpoint.status(OTHER) == 403


async def test_a_challenge_says_something_where_there_is_nothing_to_say(tmp_path: Path) -> None:
    async with guarded(tmp_path, auth(tokens=(GIVEN,), scopes=())) as endpoint:
        assert (await endpoint.post(None)).headers["www-authenticate"] == 'Bearer realm="mcp"'


async def test_given_tokens_count_beside_those_of_an_issuer(tmp_path: Path, issuer: Issuer) -> None:
    async with guarded(tmp_path, auth(issuer, tokens=(GIVEN,))) as endpoint:
        assert await endpoint.takes(GIVEN)
        assert await endpoint.takes(issuer.token())
        assert not await endpoint.takes(OTHER)


# -- sessions and streams


async def test_a_session_is_its_subjects_own(endpoint: Endpoint, issuer: Issuer) -> None:
    session = await endpoint.session(issuer.token())
    assert await endpoint.ping(session) == 200
    for token, status in (
        (issuer.token(jti="another"), 200),
        (issuer.token(sub="bob"), 404),
        (issuer.token(scope="x"), 403),
        (issuer.token(exp=1), 401),
    ):
        other = {**session, "authorization": f"Bearer {token}"}
        assert await endpoint.ping(other) == status


async def test_a_session_ends_with_the_last_token_that_it_was_used_with(
    tmp_path: Path, issuer: Issuer
) -> None:
    limits = HttpLimits(sessions=2)
    async with guarded(tmp_path, auth(issuer), url=AUDIENCE, limits=limits) as endpoint:
        # Clocks may differ by half a minute: these are its last seconds.
        soon, later = int(time.time()) - 27, int(time.time()) + 60
        ended, kept = [await endpoint.session(issuer.token(exp=soon)) for _ in range(2)]
        good = {"authorization": f"Bearer {issuer.token(exp=later)}"}
        assert await endpoint.ping({**kept, **good}) == 200
        with anyio.fail_after(10):
            # Without a place for one more until then: and to look for it would be to use it.
            while True:
                answer = await endpoint.begin(issuer.token())
                if answer.status_code == 200:
                    break
                assert answer.status_code == 503
        assert await endpoint.ping({**ended, **good}) == 404
        assert await endpoint.ping({**kept, **good}) == 200


async def test_one_name_at_two_issuers_is_two_subjects(tmp_path: Path, issuer: Issuer) -> None:
    with issuing() as other:
        given = Token(token=GIVEN, subject="alice")
        async with guarded(tmp_path, auth(issuer, other, tokens=(given,))) as endpoint:
            session = await endpoint.session(issuer.token(sub="alice"))
            assert await endpoint.ping(session) == 200
            for token in (other.token(sub="alice"), GIVEN):
                stolen = {**session, "authorization": f"Bearer {token}"}
                assert await endpoint.ping(stolen) == 404


async def test_a_stream_ends_with_its_token_and_goes_on_with_another(
    exact: Endpoint, issuer: Issuer
) -> None:
    session = await exact.session(issuer.token())
    short = issuer.token(exp=int(time.time()) + 2)
    old = {**session, "authorization": f"Bearer {short}"}
    async with exact.http.stream("GET", exact.url, headers=old) as stream:
        assert stream.status_code == 200
        seen = [line async for line in stream.aiter_lines()]  # to its end
    assert seen[0].startswith("retry: ")
    assert await exact.ping(old) == 401
    assert await exact.ping(session) == 200
    async with exact.http.stream("GET", exact.url, headers=session) as stream:
        assert stream.status_code == 200


async def test_listening_ends_with_its_token(exact: Endpoint, issuer: Issuer) -> None:
    short = issuer.token(exp=int(time.time()) + 2)
    lines = await exact.listen(short)
    assert any("subscriptions/acknowledged" in line for line in lines)


# -- the official client


async def test_the_official_client_brings_a_token(endpoint: Endpoint, issuer: Issuer) -> None:
    headers = {"authorization": f"Bearer {issuer.token()}"}
    for mode in ("auto", "legacy"):
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(endpoint.url, http_client=http), mode=mode) as client,
        ):
            found = (await client.list_resources()).resources
            assert "file:///one/a.txt" in [str(each.uri) for each in found]


class Storage:
    """What a client keeps: nothing but the last token."""

    tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise AssertionError(client_info)


async def test_the_official_client_finds_out_how_to_get_a_token(
    tmp_path: Path, issuer: Issuer
) -> None:
    (tmp_path / "a.txt").write_text("a", "utf-8")
    async with guarded(tmp_path, auth(issuer, audience=None)) as endpoint:
        storage = Storage()
        provider = ClientCredentialsOAuthProvider(
            endpoint.url, storage, "robot", "secret", issuer=issuer.url
        )
        async with (
            httpx2.AsyncClient(auth=provider) as http,
            Client(streamable_http_client(endpoint.url, http_client=http)) as client,
        ):
            assert (await client.read_resource("file:///one/a.txt")).contents
        assert storage.tokens is not None
        said = jwt.decode(storage.tokens.access_token, options={"verify_signature": False})
        assert (said["aud"], said["scope"]) == (endpoint.url, SCOPE)


# -- the program


@contextmanager
def running(folder: Path, **environment: str) -> Generator[tuple[subprocess.Popen[str], Lines]]:
    """Serve a folder over HTTP in a process, and log every detail."""
    command = [sys.executable, "-m", "resource_server", "serve", folder, "-vv"]
    with subprocess.Popen(
        [*command, "--http", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stderr is not None
        try:
            yield process, Lines(process.stderr)
        finally:
            process.kill()


async def test_no_token_reaches_the_log(tmp_path: Path, issuer: Issuer) -> None:
    (tmp_path / "mcp-resources.yaml").write_text(
        "roots: {one: {path: .}}\n"
        "http:\n"
        "  auth:\n"
        f"    issuer: {issuer.url}\n"
        f"    audience: {AUDIENCE}\n"
        f"    scopes: ['{SCOPE}']\n"
        "    tokens: ['${GIVEN}']\n",
        "utf-8",
    )
    good, unknown = issuer.token(), issuer.token(key("nobody's"))
    with running(tmp_path, GIVEN=GIVEN) as (process, lines):
        said = lines.until("serving at ")
        async with httpx2.AsyncClient() as http:
            endpoint = Endpoint(said[-1].rpartition(" ")[2], http)
            assert await endpoint.takes(GIVEN)
            assert await endpoint.takes(good)
            for bad in (OTHER, unknown, issuer.token(aud="x"), f"{GIVEN}&"):
                assert await endpoint.status(bad) in (400, 401)
        process.terminate()
        said += lines.rest()
    for token in (GIVEN, OTHER, good, unknown):
        assert not [line for line in said if token.rpartition(".")[2] in line]
