"""The keys of an issuer: discovered, chosen, cached and renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from jwt.algorithms import ECAlgorithm

from resource_server.runtime.timing import Timing
from resource_server.transports.http.auth import jwks
from tests.transports.guarded import Endpoint, auth, guarded
from tests.transports.issuer import Issuer, issuing, key
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits long"),
]


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


def soon(**timing: float) -> Timing:
    """Return times with which a failed fetch is tried again soon."""
    return Timing(jwks_retry_first_s=0.2, **timing)


async def until_it_takes(endpoint: Endpoint, token: str) -> None:
    """Ask until a token counts, which it must before long."""
    with anyio.fail_after(PATIENCE_S):
        while await endpoint.status(token) != 200:
            pass


SOME = "RS256"


@pytest.mark.parametrize(
    "changes",
    [
        {"use": "enc"},
        {"key_ops": ["sign"]},
        {"alg": "PS256"},
        {"kty": "EC"},
        {"kty": "oct", "k": "AAAA"},
        {"n": "AQAB"},
        {"n": 5},
    ],
)
async def test_a_key_for_another_use_is_ignored(
    tmp_path: Path, issuer: Issuer, changes: dict[str, Any]
) -> None:
    some = key("some", SOME)
    issuer.publish(some.jwk(**changes), key("one"))
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert await endpoint.takes(issuer.token())
        assert not await endpoint.takes(issuer.token(some, SOME))
    issuer.publish(some.jwk(alg=SOME, key_ops=["verify"]), key("one"))
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert await endpoint.takes(issuer.token(some, SOME))


async def test_a_published_private_key_is_ignored(tmp_path: Path, issuer: Issuer) -> None:
    leaked = key("leaked")
    assert isinstance(leaked.private, EllipticCurvePrivateKey)
    issuer.publish({**ECAlgorithm.to_jwk(leaked.private, as_dict=True), "kid": "leaked"})
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert not await endpoint.takes(issuer.token(leaked))
    issuer.publish(leaked)
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert await endpoint.takes(issuer.token(leaked))


async def test_a_short_key_is_ignored(tmp_path: Path, issuer: Issuer) -> None:
    short = key("short", SOME, 1024)
    issuer.publish(short, key("some", SOME))
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert await endpoint.takes(issuer.token(key("some", SOME), SOME))
        assert not await endpoint.takes(issuer.token(short, SOME))


async def test_a_curve_is_used_only_with_its_algorithm(tmp_path: Path, issuer: Issuer) -> None:
    wide = key("wide", "ES384")
    issuer.publish(wide)
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert await endpoint.takes(issuer.token(wide, "ES384"))
        with pytest.raises(Exception, match="curve"):
            issuer.token(wide, "ES256")


async def test_a_single_key_needs_no_id(tmp_path: Path, issuer: Issuer) -> None:
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert await endpoint.takes(issuer.token(headers={"kid": None}))
    issuer.publish(key("one"), key("two"))
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert not await endpoint.takes(issuer.token(headers={"kid": None}))
        assert await endpoint.takes(issuer.token())


# -- fetching


async def test_concurrent_requests_share_one_fetch(tmp_path: Path, issuer: Issuer) -> None:
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        tokens = [issuer.token(jti=str(number)) for number in range(20)]
        assert await asyncio.gather(*map(endpoint.takes, tokens)) == [True] * 20
    assert issuer.count("/keys") == 1


async def test_an_unknown_key_is_fetched_at_once(tmp_path: Path, issuer: Issuer) -> None:
    timing = soon(jwks_fetch_pause_s=0.0)
    async with guarded(tmp_path, auth(issuer), timing=timing) as endpoint:
        assert await endpoint.takes(issuer.token())
        issuer.publish(key("one"), key("two"))
        assert await endpoint.takes(issuer.token(key("two")))
        assert issuer.count("/keys") == 2


async def test_invented_key_ids_cause_no_fetches(tmp_path: Path, issuer: Issuer) -> None:
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert await endpoint.takes(issuer.token())
        for number in range(20):
            assert not await endpoint.takes(issuer.token(headers={"kid": f"made up {number}"}))
    assert issuer.count("/keys") == 1


@pytest.mark.guarantee("tokens-are-verified")
async def test_a_withdrawn_key_is_no_longer_accepted(tmp_path: Path, issuer: Issuer) -> None:
    timing = soon(jwks_fetch_pause_s=0.0, jwks_fresh_s=0.0, token_cache_s=0.0)
    async with guarded(tmp_path, auth(issuer), timing=timing) as endpoint:
        token = issuer.token()
        assert await endpoint.takes(token)
        issuer.publish(key("two"))
        with anyio.fail_after(PATIENCE_S):
            while await endpoint.takes(token):
                pass


# -- an issuer that is unavailable


async def test_without_any_key_a_request_is_503_with_retry_after(
    tmp_path: Path, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.is_down = True
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        token = issuer.token()
        answer = await endpoint.post(token)
        assert answer.status_code == 503
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert "www-authenticate" not in answer.headers
        (record,) = caplog.records
        assert record.getMessage().startswith(f"the keys of {issuer.url} cannot be fetched: ")
        asked = len(issuer.asked)
        assert await endpoint.status(token) == 503
        assert len(issuer.asked) == asked, "too early"
        issuer.is_down = False
        await until_it_takes(endpoint, token)


async def test_cached_keys_are_accepted_while_the_issuer_is_down(
    tmp_path: Path, issuer: Issuer
) -> None:
    timing = soon(jwks_fetch_pause_s=0.0, jwks_fresh_s=0.0)
    async with guarded(tmp_path, auth(issuer), timing=timing) as endpoint:
        assert await endpoint.takes(issuer.token())
        issuer.is_down = True
        for number in range(5):
            assert await endpoint.takes(issuer.token(jti=str(number)))
        assert await endpoint.status(issuer.token(key("two"))) == 503


async def test_expired_keys_are_not_accepted_while_the_issuer_is_down(
    tmp_path: Path, issuer: Issuer
) -> None:
    timing = soon(jwks_fetch_pause_s=0.0, jwks_max_age_s=0.5, token_cache_s=0.0)
    async with guarded(tmp_path, auth(issuer), timing=timing) as endpoint:
        token = issuer.token()
        await until_it_takes(endpoint, token)
        issuer.is_down = True
        with anyio.fail_after(PATIENCE_S):
            while await endpoint.status(token) != 503:
                pass


async def test_a_slow_issuer_does_not_delay_tokens_with_cached_keys(
    tmp_path: Path, issuer: Issuer
) -> None:
    timing = soon(jwks_fetch_pause_s=0.0, jwks_fresh_s=0.0)
    async with guarded(tmp_path, auth(issuer), timing=timing) as endpoint:
        assert await endpoint.takes(issuer.token())
        issuer.answers.clear()
        issuer.publish(key("one"), key("two"))
        waiting = asyncio.create_task(endpoint.status(issuer.token(key("two"))))
        await asyncio.to_thread(issuer.wait_until_asked, issuer.asked[0], 2)
        for number in range(20):
            assert await endpoint.takes(issuer.token(jti=str(number)))
        assert not waiting.done()
        issuer.answers.set()
        assert await waiting == 200


async def test_a_request_waits_for_an_issuer_only_so_long(tmp_path: Path, issuer: Issuer) -> None:
    issuer.answers.clear()
    timing = soon(jwks_wait_s=0.1)
    async with guarded(tmp_path, auth(issuer), timing=timing) as endpoint:
        assert await endpoint.status(issuer.token()) == 503
        assert await endpoint.status(issuer.token()) == 503
        assert len(issuer.asked) == 1
        issuer.answers.set()
        await until_it_takes(endpoint, issuer.token())


@pytest.mark.parametrize(
    ("path", "at"),
    [
        ("", "/.well-known/oauth-authorization-server"),
        ("", "/.well-known/openid-configuration"),
        ("/team", "/.well-known/oauth-authorization-server/team"),
        ("/team", "/.well-known/openid-configuration/team"),
        ("/team", "/team/.well-known/openid-configuration"),
        ("/team/", "/.well-known/oauth-authorization-server/team"),
        ("/", "/.well-known/openid-configuration"),
    ],
)
async def test_the_keys_are_found_by_the_metadata(tmp_path: Path, path: str, at: str) -> None:
    with issuing(path) as issuer:
        issuer.discoverable(at)
        async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
            assert await endpoint.takes(issuer.token())
            assert issuer.asked[-2:] == [at, "/keys"]


async def test_with_a_jwks_url_no_metadata_is_fetched(tmp_path: Path, issuer: Issuer) -> None:
    url = f"{issuer.origin}/keys?of=me"
    issuer.documents["/keys?of=me"] = {"keys": [key("two").jwk()]}
    async with guarded(tmp_path, auth(issuer, jwks_url=url)) as endpoint:
        assert await endpoint.takes(issuer.token(key("two")))
        assert not await endpoint.takes(issuer.token())
        assert issuer.asked == ["/keys?of=me"]


async def test_metadata_of_another_issuer_is_ignored(tmp_path: Path, issuer: Issuer) -> None:
    issuer.discoverable("/.well-known/oauth-authorization-server", issuer=f"{issuer.url}/")
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert await endpoint.status(issuer.token()) == 503
    issuer.discoverable("/.well-known/oauth-authorization-server")
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert await endpoint.status(issuer.token()) == 200


@pytest.mark.parametrize("scheme", ["file:///", "ftp://127.0.0.1/", "http://login.example.org/"])
async def test_keys_at_an_insecure_address_are_not_fetched(
    tmp_path: Path, issuer: Issuer, scheme: str
) -> None:
    (tmp_path / "keys").write_text('{"keys": []}', "utf-8")
    uri = f"{scheme}{str(tmp_path).lstrip('/')}/keys"
    issuer.discoverable("/.well-known/openid-configuration", jwks_uri=uri)
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert await endpoint.status(issuer.token()) == 503


async def test_a_redirect_to_another_host_is_not_followed(tmp_path: Path, issuer: Issuer) -> None:
    issuer.documents["/moved"] = issuer.documents["/keys"]
    with issuing() as other:
        for to, status in ((f"{other.origin}/keys", 503), (f"{issuer.origin}/moved", 200)):
            issuer.documents["/keys"] = to
            async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
                assert await endpoint.status(issuer.token()) == status
        assert other.asked == []


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"keys": {}}',
        b'{"keys": [5]}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"keys": [], "padding": "' + b"x" * jwks.MAX_DOCUMENT_BYTES + b'"}',
    ],
)
async def test_an_invalid_key_set_is_an_unavailable_issuer(
    tmp_path: Path, issuer: Issuer, document: bytes
) -> None:
    issuer.documents["/keys"] = document
    async with guarded(tmp_path, auth(issuer), timing=soon()) as endpoint:
        assert await endpoint.status(issuer.token()) == 503
        issuer.publish(key("one"))
        await until_it_takes(endpoint, issuer.token())


def test_a_fetch_from_a_dripping_issuer_times_out(issuer: Issuer) -> None:
    url = f"{issuer.origin}/keys"
    assert jwks.fetch_keys(issuer.url, url, 10.0)
    issuer.drips = True
    with pytest.raises(jwks.IssuerUnavailable, match="in time"):
        jwks.fetch_keys(issuer.url, url, 0.3)
