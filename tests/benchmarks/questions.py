"""Filtered, sorted pages and SQL of callers, beside dbhub with the same statement."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from resource_server.providers.database.engines.factory import engine_name
from tests.benchmarks import orders, rows, servers, services
from tests.benchmarks.client import Client, Json
from tests.benchmarks.table import Goal, interleaved
from tests.benchmarks.table import show as show_table
from tests.providers.database.policy_logins import sql_login

LIMIT = 100
_INDEX = "CREATE INDEX orders_by_total ON orders (status, total, id)"
_FILTERS = {"status": "paid", "total.gt": 5000}
_SQL = f"""SELECT * FROM orders WHERE status = 'paid' AND total > 5000
ORDER BY total, id LIMIT {LIMIT}"""  # noqa: S608


class _Request(NamedTuple):
    client: Client
    method: str
    params: Json
    keys: Callable[[Json], list[Any]]
    """Returns the keys of the rows in a result."""

    def rate(self, seconds: float) -> float:
        return self.client.rate(self.method, self.params, window=1, seconds=seconds)


def show(scratch: Path, *, quick: bool) -> None:
    """Print the rates of each engine whose server runs."""
    scratch.mkdir()
    _compare("SQLite", scratch, f"sqlite:///{scratch / 'shop.db'}", quick=quick)
    for engine, service in (("PostgreSQL", services.postgres), ("MariaDB", services.mariadb)):
        with service() as url:
            if url is not None:
                _compare(engine, scratch, url, quick=quick)


def _compare(engine: str, scratch: Path, url: str, *, quick: bool) -> None:
    total, seconds, rounds = (100_000, 0.2, 3) if quick else (1_000_000, 0.4, 9)
    orders.make(url, total)
    orders.run(url, _INDEX)
    with ExitStack() as stack:
        asked = _ours(url, scratch, stack)
        theirs = _theirs(url, scratch, stack)
        asked |= theirs
        found = {
            name: each.keys(each.client.request(each.method, **each.params))
            for name, each in asked.items()
        }
        expected = found["resources/read"]
        assert len(expected) == LIMIT, "fewer rows than asked for"
        for name, keys in found.items():
            assert keys == expected, f"{name} gives other rows"
        measures = {name: partial(each.rate, seconds) for name, each in asked.items()}
        medians = interleaved(measures, rounds)
        peers = {name: medians.pop(name) for name in theirs}
        for name, median in medians.items():
            show_table(
                f"{engine}, {total:,} rows, page of {LIMIT} filtered and sorted, {name}",
                "requests/s",
                {servers.OURS: median} | peers,
                [Goal(servers.DBHUB, ">=", 1)],
            )


def _ours(url: str, scratch: Path, stack: ExitStack) -> dict[str, _Request]:
    """Return each way to ask this server, whose rate limit of statements is lifted."""
    sql = True if engine_name(url) == "sqlite" else {"url": stack.enter_context(sql_login(url))}
    command = servers.ours_unlimited(orders.manifest(scratch, url, sql=sql))
    client = stack.enter_context(Client(command))
    table = f"{orders.base(url)}orders"
    filters = "&".join(f"where.{name}={value}" for name, value in _FILTERS.items())
    uri = f"{table}/~rows?{filters}&sort=total&limit={LIMIT}"
    arguments = {"uri": table, "where": _FILTERS, "sort": "total", "limit": LIMIT}
    statement = _call("query_database", {"sql": _SQL})
    return {
        "resources/read": _Request(client, "resources/read", {"uri": uri}, _of_page),
        "query_table": _Request(client, "tools/call", _call("query_table", arguments), _of_csv),
        "query_database": _Request(client, "tools/call", statement, _of_table),
    }


def _theirs(url: str, scratch: Path, stack: ExitStack) -> dict[str, _Request]:
    """Return dbhub as it comes, which may write, and as it only reads, like this server."""
    commands = {
        servers.DBHUB: servers.dbhub(url),
        servers.READ_ONLY_DBHUB: servers.dbhub(url, config=scratch / "dbhub.toml"),
    }
    statement = _call("execute_sql", {"sql": _SQL})
    asked: dict[str, _Request] = {}
    for name, command in commands.items():
        if command is None:
            print(f"\n{name} is not installed")
        else:
            client = stack.enter_context(Client(command))
            asked[name] = _Request(client, "tools/call", statement, _of_dbhub)
    return asked


def _call(name: str, arguments: Json) -> Json:
    return {"name": name, "arguments": arguments}


def _of_page(result: Json) -> list[Any]:
    return [row["id"] for row in json.loads(result["contents"][0]["text"])["rows"]]


def _of_csv(result: Json) -> list[Any]:
    read = csv.DictReader(io.StringIO(result["content"][0]["text"]))
    return [int(row["id"]) for row in read]


def _of_table(result: Json) -> list[Any]:
    return [row[0] for row in result["structuredContent"]["rows"]]


def _of_dbhub(result: Json) -> list[Any]:
    return [row["id"] for row in rows.of_dbhub(result)]
