"""Reads of a database through the program, as clients send them: again and again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.cli.conftest import Client, connected
from tests.providers.database.owners import Owner, numbered

pytestmark = pytest.mark.anyio

READS = ("t/~rows", "t/1", "t/~schema")


def _texts(client: Client, uri: str, times: int) -> list[str]:
    responses = [client.request("resources/read", uri=uri) for _ in range(times)]
    assert all("result" in response for response in responses), (uri, responses)
    return [response["result"]["contents"][0]["text"] for response in responses]


def _read_all(manifest: Path, base: str, prefix: str) -> None:
    with connected(manifest) as client:
        for path in READS:
            first, *others = _texts(client, f"{base}{prefix}{path}", 4)
            assert others == [first] * 3, path
        for parameters in ("", "?name=name%202"):
            first, *others = _texts(client, f"{base}~query/named{parameters}", 4)
            assert others == [first] * 3
        assert json.loads(first)["rows"][0]["id"] == 2
        client.end()


async def test_every_read_after_the_first_is_answered_like_it(owner: Owner, tmp_path: Path) -> None:
    await numbered(owner, 5)
    named = {
        "sql": "select id from t where name = :name or :name = ''",
        "parameters": {"name": {"default": ""}},
    }
    databases = {"it": {"url": owner.url, "queries": {"named": named}}}
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text(json.dumps({"databases": databases}))
    base = f"{owner.url.partition(':')[0]}://it/"
    await asyncio.to_thread(_read_all, manifest, base, owner.prefix)


async def test_every_read_of_a_data_file_after_the_first_is_answered_like_it(
    tmp_path: Path,
) -> None:
    rows = "".join(f"{number},name {number}\n" for number in range(1, 6))
    (tmp_path / "t.csv").write_text(f"id,name\n{rows}")
    named = {
        "sql": "select id from t where name = :name or :name = ''",
        "parameters": {"name": {"default": ""}},
    }
    url = f"files:{quote(str(tmp_path))}/*.csv"
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text(
        json.dumps({"databases": {"it": {"url": url, "queries": {"named": named}}}})
    )
    await asyncio.to_thread(_read_all, manifest, "duckdb://it/", "")
