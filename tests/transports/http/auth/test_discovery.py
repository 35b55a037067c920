"""Discovery of an issuer's keys by its metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from resource_server.runtime.timing import Timing
from resource_server.transports.http.auth import authenticator as authenticator
from resource_server.transports.http.auth import discovery
from tests.transports.guarded import Endpoint, auth, guarded
from tests.transports.issuer import Issuer, issuing, key

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
    with anyio.fail_after(20):
        while await endpoint.status(token) != 200:
            pass


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
        b'{"keys": [], "padding": "' + b"x" * discovery.MAX_DOCUMENT_BYTES + b'"}',
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
    assert discovery.fetch_keys(issuer.url, url, 10.0)
    issuer.drips = True
    with pytest.raises(discovery.KeysUnavailable, match="in time"):
        discovery.fetch_keys(issuer.url, url, 0.3)
