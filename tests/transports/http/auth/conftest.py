"""An issuer, and an endpoint that takes its tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.transports.guarded import Endpoint, auth, guarded
from tests.transports.issuer import ALGORITHMS, AUDIENCE, Issuer, issuing, key, signer


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        issuer.publish(key("one"), *map(signer, ALGORITHMS))
        yield issuer


@pytest.fixture(scope="module")
async def endpoint(
    tmp_path_factory: pytest.TempPathFactory, issuer: Issuer
) -> AsyncIterator[Endpoint]:
    folder = tmp_path_factory.mktemp("auth")
    (folder / "a.txt").write_text("a", "utf-8")
    async with guarded(folder, auth(issuer), url=AUDIENCE) as endpoint:
        yield endpoint
