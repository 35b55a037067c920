"""Each kind of request for a database, sent twice by a client of the program.

The first one waits for what is not open or known yet. The second one has no task before it waits.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from resource_server.providers.database.engines.factory import engine_name
from tests.benchmarks import orders
from tests.cli.conftest import Client, connected
from tests.providers.database.policy_logins import sql_login
from tests.waiting import PATIENCE_S, block_until

_QUERIES: dict[str, Any] = {
    "by_status": {
        "sql": "select id from orders where status = :status",
        "parameters": {"status": {}},
    },
    "numbered": {
        "sql": "select id, price from numbered where id = :id and price = :price",
        "parameters": {"id": {"type": "integer"}, "price": {"type": "number"}},
    },
}
_NUMBERED = (
    "create table numbered (id bigint primary key, price decimal(24, 4))",
    "insert into numbered values (9007199254740992, 1.10), (9007199254740993, 1.10),"
    " (1, 12345678901234.1235), (2, 12345678901234.1236)",
)
_TABLES: dict[str, Any] = {"orders": {}, "numbered": {}}


_HOST = """
const [python, manifest, call] = process.argv.slice(1);
const server = require("child_process").spawn(python, ["-m", "resource_server", "serve", manifest]);
const ask = (id, method, params) =>
  server.stdin.write(JSON.stringify({jsonrpc: "2.0", id, method, params}) + "\\n");
require("readline").createInterface({input: server.stdout}).on("line", line => {
  const message = JSON.parse(line);
  if (message.id === 1) ask(2, "tools/call", JSON.parse(call));
  if (message.id === 2) {
    console.log(String(message.result.structuredContent.rows[0][0]));
    server.stdin.end();
  }
});
ask(1, "initialize", {protocolVersion: "2025-11-25", capabilities: {},
  clientInfo: {name: "host", version: "1"}});
"""


@pytest.fixture(params=["sqlite", "duckdb", "postgresql", "mariadb"], scope="module")
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param in ("sqlite", "duckdb"):
            made = f"{request.param}:///{tmp_path_factory.mktemp('shop')}/shop.db"
        elif request.param == "postgresql":
            from tests.providers.database.postgres_databases import empty_postgres_database

            made = stack.enter_context(empty_postgres_database()).url
        else:
            from tests.providers.database.mysql_databases import empty_mysql_database

            made = stack.enter_context(empty_mysql_database()).url
        orders.make(made, 8)
        orders.run(made, *_NUMBERED)
        yield made


@pytest.fixture(scope="module")
def manifest(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with ExitStack() as stack:
        in_file = engine_name(url) in ("sqlite", "duckdb")
        sql = True if in_file else {"url": stack.enter_context(sql_login(url, *_TABLES))}
        folder = tmp_path_factory.mktemp("manifest")
        yield orders.manifest(folder, url, sql=sql, queries=_QUERIES, tables=_TABLES)


_FIRST = orders.FIRST
_CALLS = {
    "query_database": ({"sql": "select count(*) as n from orders"}, "8"),
    "by_status": ({"status": "paid"}, str(_FIRST)),
    "query_table": ({"uri": "{table}", "where": {"status": "paid"}}, str(_FIRST)),
    "resource_metadata": ({"uri": "{table}"}, "orders"),
    "list_resources": ({"uri": "{base}"}, "orders"),
    "search_resources": ({"query": "number 10000002"}, "10000002"),
}
_READS = {
    "/~rows?limit=1": str(_FIRST),
    "/~rows?count": "8",
    "/~summary?by=status": "paid",
    "/~schema": "customer",
    f"/{_FIRST}": "Customer",
    f"/{_FIRST}/~cell/note": "A note",
}


@pytest.fixture(scope="module")
def client(manifest: Path) -> Iterator[Client]:
    with connected(manifest) as made:
        yield made


@pytest.mark.parametrize("tool", _CALLS)
def test_a_tool_answers_again(tool: str, client: Client, url: str) -> None:
    given, expected = _CALLS[tool]
    base = orders.base(url)
    arguments = json.loads(
        json.dumps(given).replace("{table}", f"{base}orders").replace("{base}", base)
    )
    for _ in range(2):
        assert expected in _called(client, tool, arguments)


@pytest.mark.parametrize("suffix", _READS)
def test_a_document_is_read_again(suffix: str, client: Client, url: str) -> None:
    for _ in range(2):
        response = client.request("resources/read", uri=f"{orders.base(url)}orders{suffix}")
        assert _READS[suffix] in response["result"]["contents"][0]["text"]


@pytest.mark.guarantee("as-shown-so-taken")
@pytest.mark.parametrize("tool", ["numbered", "query_database"])
def test_numbers_beyond_a_double_are_text_as_shown_and_as_taken(
    tool: str, client: Client, url: str
) -> None:
    def found(id: object, price: object) -> Any:
        given = {"id": id, "price": price}
        arguments = given if tool == "numbered" else {"sql": sql, "parameters": given}
        result = client.request("tools/call", name=tool, arguments=arguments)["result"]
        assert not result.get("isError"), result
        return result["structuredContent"]["rows"]

    sql = _QUERIES["numbered"]["sql"]
    is_exact = not url.startswith("sqlite")
    shown = ["9007199254740993", "1.1000" if is_exact else 1.1]
    for id in ("9007199254740993", 2**53 + 1):
        for price in (1.1, "1.10", "1.1000"):
            assert found(id, price) == [shown], (id, price)
    assert found("9007199254740993", "1.2") == []
    if is_exact:
        shown = ["12345678901234.1235", "12345678901234.1236"]
        assert [found(id, shown[id - 1]) for id in (1, 2)] == [[[1, shown[0]]], [[2, shown[1]]]]
        assert found(1, shown[1]) == []


@pytest.mark.guarantee("as-shown-so-taken")
@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_id_9007199254740993_is_exact_in_a_javascript_host(manifest: Path) -> None:
    call = {"name": "numbered", "arguments": {"id": "9007199254740993", "price": 1.1}}
    done = subprocess.run(
        [str(shutil.which("node")), "-e", _HOST, sys.executable, str(manifest), json.dumps(call)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout.strip() == "9007199254740993"


def test_a_database_without_a_manifest_is_searched(url: str) -> None:
    with connected(url) as client:
        tool = {"name": "search_resources", "arguments": {"query": "number 10000002"}}
        result = client.request("tools/call", **tool)["result"]
        assert "10000002" in json.dumps(result)
        arguments = {"query": "no such text"}
        result = client.request("tools/call", name="search_resources", arguments=arguments)
        assert result["result"]["content"][0]["text"].startswith("Nothing was found")


def test_full_text_tables_of_a_file_without_a_manifest_are_searched(tmp_path: Path) -> None:
    path = tmp_path / "crm.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            """
            create table people (id integer primary key, name text, phone text);
            insert into people values (1, 'Ada Lovelace', '555'), (2, 'Alan Turing', '777');
            create virtual table notes using fts5(subject, body);
            insert into notes values ('Call', 'Ask Turing about the machine'), ('Tea', 'Earl Grey');
            """
        )
    with connected(path) as client:

        def found(query: str) -> list[str]:
            structured = _searched(client, query)
            return [structured["base"] + file["path"] for file in structured["files"]]

        assert found("turing") == ["sqlite://crm/notes/1", "sqlite://crm/people/2"]
        assert found("earl") == ["sqlite://crm/notes/2"]
        assert found("555") == ["sqlite://crm/people/1"]
        assert found("nobody") == []


def test_a_data_file_without_a_manifest_is_searched(tmp_path: Path) -> None:
    path = tmp_path / "teas.csv"
    path.write_text("name,city,number\nEarl Grey,London,17\nSencha,Uji,18\n", "utf-8")
    with connected(path) as client:
        for query, found in (("GREY", [1]), ("uji", [2]), ("nobody", [])):
            files = _searched(client, query)["files"]
            assert [file["path"] for file in files] == [f"teas/{n}" for n in found]
        arguments = {"query": "17"}
        result = client.request("tools/call", name="search_resources", arguments=arguments)
        assert "teas (column number)" in result["result"]["content"][0]["text"]


def _searched(client: Client, query: str) -> Any:
    """Return the result of a search of text that had the time to look into everything."""
    found: list[Any] = []

    def had_time() -> bool:
        arguments = {"query": query, "in": "text"}
        result = client.request("tools/call", name="search_resources", arguments=arguments)
        found.append(result["result"]["structuredContent"])
        return "next" not in found[-1] and "took too long" not in json.dumps(found[-1])

    block_until(had_time)
    return found[-1]


def _called(client: Client, tool: str, arguments: object) -> str:
    result = client.request("tools/call", name=tool, arguments=arguments)["result"]
    assert not result.get("isError"), result
    return json.dumps(result)
