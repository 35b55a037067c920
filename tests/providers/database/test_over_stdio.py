"""Each kind of request for a database, sent twice by a client of the program.

The first one waits for what is not open or known yet. The second one has no task before it waits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from resource_server.providers.database.engines.factory import engine_name
from tests.benchmarks import orders
from tests.cli.conftest import Client, connected
from tests.providers.database.policy_logins import sql_login

_QUERIES: dict[str, Any] = {
    "by_status": {
        "sql": "select id from orders where status = :status",
        "parameters": {"status": {}},
    }
}
_TABLES: dict[str, Any] = {"orders": {"search": ["note"]}}


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


def _called(client: Client, tool: str, arguments: object) -> str:
    result = client.request("tools/call", name=tool, arguments=arguments)["result"]
    assert not result.get("isError"), result
    return json.dumps(result)
