"""Challenges and protected-resource metadata."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from mcp.shared.auth import ProtectedResourceMetadata

from tests.cases import for_each
from tests.transports.guarded import SCOPE, Endpoint, auth, guarded
from tests.transports.issuer import AUDIENCE, Issuer

pytestmark = pytest.mark.anyio

METADATA = "https://files.example.org/.well-known/oauth-protected-resource/mcp"

PLAIN = "/.well-known/oauth-protected-resource"

# -- challenges


async def test_a_client_without_a_token_learns_where_to_get_one(endpoint: Endpoint) -> None:
    answer = await endpoint.post(None)
    assert answer.status_code == 401
    assert answer.headers.get_list("www-authenticate") == [
        f'Bearer scope="{SCOPE}", resource_metadata="{METADATA}"'
    ]


async def test_the_challenge_names_an_expired_token(endpoint: Endpoint, issuer: Issuer) -> None:
    answer = await endpoint.post(issuer.token(exp=int(time.time()) - 60))
    assert answer.status_code == 401
    assert answer.headers.get_list("www-authenticate") == [
        'Bearer error="invalid_token", error_description="the token has expired", '
        f'scope="{SCOPE}", resource_metadata="{METADATA}"'
    ]


@for_each("scope", [None, "", "mcp", "mcp:readmore", f"{SCOPE},x", [SCOPE + " x"]])
async def test_the_challenge_names_the_missing_scope(
    endpoint: Endpoint, issuer: Issuer, scope: object
) -> None:
    assert await endpoint.takes(issuer.token())
    answer = await endpoint.post(issuer.token(scope=scope))
    assert answer.status_code == 403
    assert answer.headers.get_list("www-authenticate") == [
        'Bearer error="insufficient_scope", error_description="the token lacks a scope", '
        f'scope="{SCOPE}", resource_metadata="{METADATA}"'
    ]


@pytest.mark.guarantee("tokens-grant-what-they-name")
async def test_every_required_scope_must_be_present(tmp_path: Path, issuer: Issuer) -> None:
    async with guarded(tmp_path, auth(issuer, scopes=("a", "b"))) as endpoint:
        assert await endpoint.status(issuer.token(scope="b c a")) == 200
        answer = await endpoint.post(issuer.token(scope="a"))
        assert answer.status_code == 403
        assert 'scope="a b"' in answer.headers["www-authenticate"]


async def test_a_web_page_can_read_the_challenge(endpoint: Endpoint) -> None:
    page = endpoint.url.removesuffix("/mcp")
    answer = await endpoint.post(None, headers={"origin": page})
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == page
    assert "www-authenticate" in answer.headers["access-control-expose-headers"]


# -- metadata (RFC 9728)


@for_each("path", [PLAIN, f"{PLAIN}/mcp"])
async def test_the_metadata_names_the_issuers_without_a_token(
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


async def test_the_metadata_path_has_the_path_of_the_public_url(
    tmp_path: Path, issuer: Issuer
) -> None:
    url = "https://files.example.org/team/files"
    async with guarded(tmp_path, auth(issuer), url=url) as endpoint:
        answer = await endpoint.post(None)
        at = f"{PLAIN}/team/files"
        assert f'resource_metadata="https://files.example.org{at}"' in str(answer.headers)
        found = await endpoint.http.get(f"{endpoint.url.removesuffix('/mcp')}{at}")
        assert found.json()["resource"] == url


async def test_the_metadata_is_below_the_prefix_of_the_public_url(
    tmp_path: Path, issuer: Issuer
) -> None:
    url = "https://files.example.org/team/docs/mcp"
    async with guarded(tmp_path, auth(issuer), url=url) as endpoint:
        challenge = (await endpoint.post(None)).headers["www-authenticate"]
        assert f'resource_metadata="https://files.example.org/team/docs{PLAIN}"' in challenge
        for path in (PLAIN, f"/team/docs{PLAIN}", f"{PLAIN}/team/docs/mcp"):
            found = await endpoint.http.get(f"{endpoint.url.removesuffix('/mcp')}{path}")
            assert found.json()["resource"] == url


async def test_without_a_public_url_the_metadata_names_the_address_listened_on(
    tmp_path: Path, issuer: Issuer
) -> None:
    async with guarded(tmp_path, auth(issuer), url=None) as endpoint:
        challenge = (await endpoint.post(None)).headers["www-authenticate"]
        at = re.search(r'resource_metadata="([^"]+)"', challenge)
        assert at is not None
        assert (await endpoint.http.get(at[1])).json()["resource"] == endpoint.url


async def test_the_audience_is_the_public_url_by_default(tmp_path: Path, issuer: Issuer) -> None:
    url = "https://files.example.org/other"
    async with guarded(tmp_path, auth(issuer, audience=None), url=url) as endpoint:
        assert await endpoint.takes(issuer.token(aud=url))
        assert not await endpoint.takes(issuer.token())
