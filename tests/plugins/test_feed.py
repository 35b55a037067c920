from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from plugins.feed import feed
from resource_server.catalog.contract_guard import GuardedProvider
from resource_server.errors import MountUnavailable
from resource_server.provider import Resource
from resource_server.testing import check_provider, client

pytestmark = pytest.mark.anyio

RECORDS: list[dict[str, Any]] = [
    {"id": 7, "state": "open", "title": "Grüße"},
    {"id": "a/b", "state": "closed"},
    {"id": "..", "title": 8},
    {"state": "open"},
]


class Handler(BaseHTTPRequestHandler):
    body = b""
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Handler.body, Handler.status = json.dumps({"items": RECORDS, "next": None}).encode(), 200
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/feed.json"
        server.shutdown()
        thread.join()


async def listed(provider: Any) -> list[Resource]:
    async with provider:
        return await GuardedProvider(provider).below((), (), 100)


async def test_a_file_and_a_url_keep_the_contract(tmp_path: Path, url: str) -> None:
    file = tmp_path / "feed.jsonl"
    file.write_text("\n".join(map(json.dumps, RECORDS)), "utf-8")
    await check_provider(feed(file, group="state"))
    await check_provider(feed(url=url, group="state"))
    assert await listed(feed(file)) == await listed(feed(url=url))


async def test_records_are_grouped_named_and_titled_by_their_members(url: str) -> None:
    found = {"/".join(each.path): each.title for each in await listed(feed(url=url, group="state"))}
    assert found == {
        "_...json": None,
        "closed": None,
        "closed/a-b.json": None,
        "open": None,
        "open/4.json": None,
        "open/7.json": "Grüße",
    }


async def test_a_client_reads_a_record(url: str) -> None:
    async with client(feed(url=url, group="state"), base="issues://x/") as connected:
        read = await connected.request("resources/read", {"uri": "issues://x/open/7.json"})
        [content] = read["contents"]
        assert (json.loads(content["text"]), content["mimeType"]) == (
            RECORDS[0],
            "application/json",
        )


async def test_a_feed_that_cannot_be_read_says_why_without_its_url(
    tmp_path: Path, url: str
) -> None:
    async def problem(**options: Any) -> str:
        with pytest.raises(MountUnavailable) as caught:
            await listed(feed(**options))
        return str(caught.value)

    assert await problem() == "feed: give either a file or a url"
    assert await problem(url="file:///etc/passwd") == (
        "feed: the url of a feed begins with http:// or https://"
    )
    assert (
        await problem(file=tmp_path / "no") == "feed: the feed cannot be loaded: FileNotFoundError"
    )
    for body, message in (
        (b"[7]", "a record of the feed is no object: int"),
        (b"7", "the feed is no array of objects"),
        (b"<html>", "the feed is neither JSON nor JSON Lines"),
    ):
        Handler.body = body
        assert await problem(url=url) == f"feed: {message}"
    Handler.status = 503
    assert await problem(url=url) == "feed: the feed cannot be loaded: status 503"
