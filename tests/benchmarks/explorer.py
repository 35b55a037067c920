"""Pages of the explorer: each against the MCP reads behind it, and a table against datasette."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from resource_server.explorer.addresses import page_address
from tests.benchmarks import orders, servers
from tests.benchmarks.http_client import Cost, HttpClient, get
from tests.benchmarks.over_http import stateless
from tests.benchmarks.table import Goal, show
from tests.ports import free_port

PAGE = "its page"
READS = "the MCP reads behind it"
CONTENT = "that of its content alone"
_PLAIN = f"{servers.DATASETTE}, no facets"
"""By itself, it looks for columns to offer as facets on every page."""
_ROWS = 100
_TABLE = "sqlite://shop/orders"
_MANY, _CODE = "file:///folder/many", "file:///folder/code.py"


class Asked(NamedTuple):
    """Requests to a server, which are measured together."""

    server: HttpClient
    requests: Sequence[bytes]


def run(*, quick: bool) -> None:
    """Print the processor time of each view, beside what is read for it.

    It holds on a machine that has other work, too.
    """
    seconds, rounds = (0.3, 3) if quick else (0.8, 9)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        place = Path(scratch)
        _make(place)
        port = free_port()
        ours = stack.enter_context(HttpClient(servers.ours_http(place, port), port))
        for title, view in _views().items():
            asked = {name: Asked(ours, requests) for name, requests in view.items()}
            costs = _measured(asked, seconds, rounds)
            _show(title, costs, [Goal(READS, "<=", 3)])
        port = free_port()
        command = servers.datasette(place / "shop.db", port)
        if command is None:
            print(f"\n{servers.DATASETTE} is not installed")
            return
        theirs = stack.enter_context(HttpClient(command, port))
        page = get(f"/explore/{page_address(_rows())}")
        peer = f"/shop/orders?_size={_ROWS}"
        asked = {
            PAGE: Asked(ours, [page]),
            servers.DATASETTE: Asked(theirs, [get(peer)]),
            _PLAIN: Asked(theirs, [get(f"{peer}&_nofacet=1&_nosuggest=1")]),
        }
        costs = _measured(asked, seconds, rounds)
        title = f"a page of {_ROWS} rows, for people"
        _show(title, costs, [Goal(name, "<=", 0.33) for name in (servers.DATASETTE, _PLAIN)])
        rates = {name: cost.per_second for name, cost in costs.items()}
        goals = [Goal(name, ">=", 3) for name in (servers.DATASETTE, _PLAIN)]
        show(title, "requests/s", rates, goals)


def _measured(asked: Mapping[str, Asked], seconds: float, rounds: int) -> dict[str, Cost]:
    """Return the median costs; the measures take turns, so that noise hits all alike."""
    found: dict[str, list[Cost]] = {name: [] for name in asked}
    for _ in range(rounds):
        for name, (server, requests) in asked.items():
            found[name].append(server.cost(requests, seconds=seconds))
    return {
        name: Cost(*map(statistics.median, zip(*costs, strict=True)))
        for name, costs in found.items()
    }


def _show(title: str, costs: Mapping[str, Cost], goals: Sequence[Goal]) -> None:
    times = {name: cost.processor_ms for name, cost in costs.items()}
    show(title, "processor ms", times, goals)


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


def _rows() -> str:
    return f"{_TABLE}/~rows?limit={_ROWS}"


def _views() -> Mapping[str, Mapping[str, Sequence[bytes]]]:
    """Return the page of each view, and requests for what it shows."""

    def view(uri: str, *facts: bytes, content: bytes) -> Mapping[str, Sequence[bytes]]:
        page = get(f"/explore/{page_address(uri)}")
        return {PAGE: [page], READS: [*facts, content], CONTENT: [content]}

    def metadata(uri: str) -> bytes:
        return stateless("resources/metadata", uri=uri)

    rows = stateless("resources/read", uri=f"{_rows()}&format=columns&cell=200")
    schema = stateless("resources/read", uri=f"{_TABLE}/~schema?format=json")
    entries = stateless("resources/directory/read", uri=_MANY)
    lines = stateless("resources/read", uri=f"{_CODE}?lines=1-2000")
    return {
        f"a table, {_ROWS} rows": view(_rows(), metadata(_TABLE), schema, content=rows),
        "a folder, 1,000 entries": view(_MANY, metadata(_MANY), content=entries),
        "a document, 10,000 lines": view(_CODE, metadata(_CODE), content=lines),
    }
