"""Clients in this process: pages of a listing, exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from resource_server.cli.addresses import SourceArguments
from resource_server.cli.source_client import listing_pages, run_with_client
from resource_server.protocol.in_process_client import LocalClient


def test_every_page_of_a_listing_is_yielded(tmp_path: Path) -> None:
    names = [f"{letter}.txt" for letter in "abcdefghijklmnopqrstuvw"]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "mcp-resources.yaml").write_text(
        "server: {page_size: 1, listing: {max: 100}}\nroots: {r: {path: ., include: ['*.txt']}}\n",
        "utf-8",
    )
    pages: list[list[str]] = []

    async def session(client: LocalClient, _: object) -> int:
        found = [page async for page in listing_pages(client, "file:///r/")]
        pages.extend([resource["name"] for resource in page["resources"]] for page in found)
        return 7

    assert run_with_client(SourceArguments([str(tmp_path)], []), session, allow_plugins=False) == 7
    # Pages after the first one are larger.
    assert pages == [names[:1], names[1:11], names[11:21], names[21:]]


def test_an_error_response_is_printed_as_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def session(client: LocalClient, _: object) -> int:
        await client.request("resources/read", {"uri": "file:///nowhere/x"})
        return 0

    assert run_with_client(SourceArguments([str(tmp_path)], []), session, allow_plugins=False) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("resource-server: resource not found: file:///nowhere/x")
