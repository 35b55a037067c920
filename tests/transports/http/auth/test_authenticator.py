"""Bearer tokens of requests, sessions and streams, and the official client."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import jwt
import pytest
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from resource_server.manifest.http import HttpLimits, StaticToken
from resource_server.runtime.option_types import Rate
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.cli.conftest import ROOT, Lines
from tests.transports.guarded import SCOPE, Endpoint, auth, guarded
from tests.transports.issuer import AUDIENCE, Issuer, issuing, key
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

PLAIN = "/.well-known/oauth-protected-resource"

GIVEN = "0123456789abcdef0123456789abcdef"

OTHER = "fedcba9876543210fedcba9876543210"


@pytest.fixture(scope="module")
async def exact(
    tmp_path_factory: pytest.TempPathFactory, issuer: Issuer
) -> AsyncIterator[Endpoint]:
    """An endpoint that allows no difference of clocks."""
    timing = Timing(clock_skew_s=0.0)
    folder = tmp_path_factory.mktemp("exact")
    async with guarded(folder, auth(issuer), url=AUDIENCE, timing=timing) as endpoint:
        # With the keys of the issuer, the first use of a token takes little of its time.
        assert await endpoint.takes(issuer.token())
        yield endpoint


@pytest.mark.guarantee("tokens-are-verified")
async def test_a_cached_token_still_expires(exact: Endpoint, issuer: Issuer) -> None:
    token = issuer.token(exp=int(time.time()) + 2)
    assert await exact.takes(token)
    with anyio.fail_after(PATIENCE_S):
        while await exact.takes(token):
            pass


# -- the header


@pytest.mark.guarantee("tokens-are-verified")
async def test_a_token_is_accepted_only_in_the_header(endpoint: Endpoint, issuer: Issuer) -> None:
    token = issuer.token()
    assert await endpoint.takes(token)
    in_query = await endpoint.post(None, query=f"?access_token={token}")
    assert in_query.status_code == 401
    assert "error" not in in_query.headers["www-authenticate"]
    in_both = await endpoint.post(token, query="?access_token=another")
    assert in_both.status_code == 200
    in_body = await endpoint.http.post(endpoint.url, data={"access_token": token})
    assert in_body.status_code == 401


@for_each(
    ("given", "status", "error"),
    [
        ("", 401, ""),
        ("Basic YTpi", 401, ""),
        ("BearerX", 401, ""),
        ("Bearer", 401, ""),
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


@for_each("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
async def test_the_scheme_is_case_insensitive(
    endpoint: Endpoint, issuer: Issuer, scheme: str
) -> None:
    answer = await endpoint.post(None, headers={"authorization": f"{scheme} {issuer.token()}"})
    assert answer.status_code == 200


async def test_two_tokens_are_refused(endpoint: Endpoint, issuer: Issuer) -> None:
    given = [("authorization", f"Bearer {issuer.token()}")] * 2
    answer = await endpoint.http.post(endpoint.url, content=b"{}", headers=given)
    assert answer.status_code == 400
    assert "the header authorization is given twice" in answer.text


@pytest.mark.guarantee("others-need-a-token")
@for_each("method", ["GET", "DELETE", "PUT"])
async def test_every_method_needs_a_token(endpoint: Endpoint, method: str) -> None:
    assert (await endpoint.http.request(method, endpoint.url)).status_code == 401


# -- rates


async def test_verifications_of_an_address_are_limited_by_the_rate(
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
        # For any request, and even for a valid token.
        for token in (forged, narrow, issuer.token(sub="carol")):
            assert await endpoint.status(token) == 429
        ready = await endpoint.http.get(
            f"{endpoint.url.removesuffix('/mcp')}/metrics",
            headers={"authorization": f"Bearer {forged}"},
        )
        assert ready.status_code == 429
        # A caller already known counts on its own.
        assert await endpoint.status(known) == 200
        assert await endpoint.status(None) == 401


async def test_guesses_of_static_tokens_are_limited_by_the_rate(tmp_path: Path) -> None:
    limits = HttpLimits(rate=Rate(0.1), burst=3)
    async with guarded(tmp_path, auth(tokens=(GIVEN,)), limits=limits) as endpoint:
        assert [await endpoint.status(OTHER) for _ in range(4)] == [401] * 3 + [429]
        assert await endpoint.status(GIVEN) == 200


# -- static tokens


async def test_a_static_token_is_accepted(tmp_path: Path) -> None:
    async with guarded(tmp_path, auth(tokens=(GIVEN, OTHER))) as endpoint:
        assert await endpoint.takes(GIVEN)
        assert await endpoint.takes(OTHER)
        for wrong in (GIVEN[:-1], f"{GIVEN}0", GIVEN.upper(), f"{GIVEN}="):
            assert not await endpoint.takes(wrong)
        answer = await endpoint.post(None)
        assert answer.headers["www-authenticate"] == f'Bearer scope="{SCOPE}"'
        metadata = await endpoint.http.get(f"{endpoint.url.removesuffix('/mcp')}{PLAIN}")
        assert metadata.status_code == 404


@pytest.mark.guarantee("tokens-grant-what-they-name")
async def test_a_static_token_may_have_few_scopes(tmp_path: Path) -> None:
    some = StaticToken(token=OTHER, subject="ci", scopes=("other",))
    async with guarded(tmp_path, auth(tokens=(GIVEN, some))) as endpoint:
        assert await endpoint.status(GIVEN) == 200
        assert await endpoint.status(OTHER) == 403


async def test_a_challenge_always_has_a_parameter(tmp_path: Path) -> None:
    async with guarded(tmp_path, auth(tokens=(GIVEN,), scopes=())) as endpoint:
        assert (await endpoint.post(None)).headers["www-authenticate"] == 'Bearer realm="mcp"'


async def test_static_tokens_are_accepted_beside_signed_ones(
    tmp_path: Path, issuer: Issuer
) -> None:
    async with guarded(tmp_path, auth(issuer, tokens=(GIVEN,))) as endpoint:
        assert await endpoint.takes(GIVEN)
        assert await endpoint.takes(issuer.token())
        assert not await endpoint.takes(OTHER)


# -- sessions and streams


@pytest.mark.guarantee("tokens-grant-what-they-name")
async def test_a_session_belongs_to_its_subject(endpoint: Endpoint, issuer: Issuer) -> None:
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


async def test_a_session_ends_with_the_last_of_its_tokens(tmp_path: Path, issuer: Issuer) -> None:
    limits = HttpLimits(sessions=2)
    async with guarded(tmp_path, auth(issuer), url=AUDIENCE, limits=limits) as endpoint:
        # Clocks may differ by half a minute, so these are the last seconds of the token.
        soon, later = int(time.time()) - 27, int(time.time()) + 60
        ended, kept = [await endpoint.session(issuer.token(exp=soon)) for _ in range(2)]
        good = {"authorization": f"Bearer {issuer.token(exp=later)}"}
        assert await endpoint.ping({**kept, **good}) == 200
        with anyio.fail_after(PATIENCE_S):
            # There is no room for another session until then; a ping would keep this one in use.
            while True:
                answer = await endpoint.begin(issuer.token())
                if answer.status_code == 200:
                    break
                assert answer.status_code == 503
        assert await endpoint.ping({**ended, **good}) == 404
        assert await endpoint.ping({**kept, **good}) == 200


async def test_the_same_name_at_two_issuers_is_two_subjects(tmp_path: Path, issuer: Issuer) -> None:
    with issuing() as other:
        given = StaticToken(token=GIVEN, subject="alice")
        async with guarded(tmp_path, auth(issuer, other, tokens=(given,))) as endpoint:
            session = await endpoint.session(issuer.token(sub="alice"))
            assert await endpoint.ping(session) == 200
            for token in (other.token(sub="alice"), GIVEN):
                stolen = {**session, "authorization": f"Bearer {token}"}
                assert await endpoint.ping(stolen) == 404


async def test_a_stream_ends_with_its_token_and_resumes_with_another(
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


async def test_a_listen_ends_with_its_token(exact: Endpoint, issuer: Issuer) -> None:
    short = issuer.token(exp=int(time.time()) + 2)
    lines = await exact.listen(short)
    assert any("subscriptions/acknowledged" in line for line in lines)


# -- the official client


async def test_the_official_client_sends_a_token(endpoint: Endpoint, issuer: Issuer) -> None:
    headers = {"authorization": f"Bearer {issuer.token()}"}
    for mode in ("auto", "legacy"):
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(endpoint.url, http_client=http), mode=mode) as client,
        ):
            found = (await client.list_resources()).resources
            assert "file:///one/a.txt" in [str(each.uri) for each in found]


class Storage:
    """The storage of a client, which keeps only its last token."""

    tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise AssertionError(client_info)


async def test_the_official_client_discovers_how_to_get_a_token(
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


@pytest.mark.guarantee("tokens-are-verified")
async def test_tokens_are_never_logged(tmp_path: Path, issuer: Issuer) -> None:
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
