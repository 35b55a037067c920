"""The official clients repeat arguments in headers, as tools ask them to (2026-07-28)."""

from __future__ import annotations

import pytest
from mcp import Client

from tests.clients import typescript
from tests.clients.conftest import Reach, serve
from tests.conformance.served import copied

pytestmark = pytest.mark.anyio

TOOL = "test_custom_headers"
REGIONS = ("us-west1", "Zürich", " padded ", "=?base64?SGVsbG8=?=", "")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, reach: Reach) -> str:
    target = reach(serve(copied(tmp_path_factory.mktemp("mirrored"))), "http")
    assert isinstance(target, str)
    return target


async def test_the_python_client_mirrors_every_argument(url: str) -> None:
    async with Client(url, mode="auto") as client:
        assert client.protocol_version == "2026-07-28"
        assert TOOL in [tool.name for tool in (await client.list_tools()).tools]
        for region in REGIONS:
            assert not (await client.call_tool(TOOL, {"region": region})).is_error


@pytest.mark.deep
@typescript.NEEDS
def test_the_typescript_client_mirrors_every_argument(url: str) -> None:
    asked = {
        "client": "v2",
        "revision": "2026-07-28",
        "serving": url,
        "calls": [[TOOL, {"region": region}] for region in REGIONS],
    }
    seen = typescript.run("tools.mjs", asked)
    assert seen["revision"] == "2026-07-28"
    assert TOOL in seen["tools"]
    assert not any(each.get("isError") for each in seen["results"])
