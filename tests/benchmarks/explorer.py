"""Pages of the explorer: each against the MCP read behind it, and a table against datasette."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from resource_server.explorer.addresses import page_address
from tests.benchmarks import orders, servers
from tests.benchmarks.http_client import HttpClient, get
from tests.benchmarks.over_http import stateless
from tests.benchmarks.table import Goal, interleaved, show
from tests.ports import free_port

READ = "the MCP read behind it"
PAGE = "its page"
_ROWS = 100


def run(*, quick: bool) -> None:
    """Print pages per second of each view, beside what is read for it."""
    seconds, rounds = (0.3, 3) if quick else (0.8, 9)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        place = Path(scratch)
        _make(place)
        port = free_port()
        ours = stack.enter_context(HttpClient(servers.ours_http(place, port), port))
        for title, (address, request) in _views().items():
            measures = {
                PAGE: partial(ours.rate, get(f"/explore/{address}"), window=1, seconds=seconds),
                READ: partial(ours.rate, request, window=1, seconds=seconds),
            }
            show(title, "requests/s", interleaved(measures, rounds), [Goal(READ, ">=", 1 / 3)])
        port = free_port()
        command = servers.datasette(place / "shop.db", port)
        if command is None:
            print(f"\n{servers.DATASETTE} is not installed")
            return
        theirs = stack.enter_context(HttpClient(command, port))
        page, peer = get(f"/explore/{_table()}"), get(f"/shop/orders?_size={_ROWS}")
        measures = {
            PAGE: partial(ours.rate, page, window=1, seconds=seconds),
            servers.DATASETTE: partial(theirs.rate, peer, window=1, seconds=seconds),
        }
        goals = [Goal(servers.DATASETTE, ">=", 3)]
        title = f"a page of {_ROWS} rows, for people"
        show(title, "requests/s", interleaved(measures, rounds), goals)


def _make(place: Path) -> None:
    orders.make(f"sqlite:///{place / 'shop.db'}", 30_000)
    folder = place / "folder"
    (folder / "many").mkdir(parents=True)
    for number in range(1_000):
        (folder / "many" / f"document-{number}.txt").write_text("text\n", "utf-8")
    code = "def total(lines):\n    return sum(line.cost for line in lines)  # in cents\n"
    (folder / "code.py").write_text(code * 5_000, "utf-8")
    text = "roots: {folder: {path: folder}}\ndatabases: {shop: {url: 'sqlite:///shop.db'}}\n"
    (place / "mcp-resources.yaml").write_text(text, "utf-8")


def _table() -> str:
    return page_address(f"sqlite://shop/orders/~rows?limit={_ROWS}")


def _views() -> Mapping[str, tuple[str, bytes]]:
    """Return the address of each view's page, and the request for what it shows."""
    rows = f"sqlite://shop/orders/~rows?limit={_ROWS}"
    many, code = "file:///folder/many", "file:///folder/code.py"
    return {
        f"a table, {_ROWS} rows": (_table(), stateless("resources/read", uri=rows)),
        "a folder, 1,000 entries": (
            page_address(many),
            stateless("resources/directory/read", uri=many),
        ),
        "a document, 10,000 lines": (page_address(code), stateless("resources/read", uri=code)),
    }
