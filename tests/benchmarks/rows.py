"""The same rows of a table of orders, asked of this server, of peers and of SQLite itself."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from tests.benchmarks import orders, servers
from tests.benchmarks.client import Client, Json
from tests.benchmarks.http_client import HttpClient, get
from tests.ports import free_port

RAW = "raw sqlite3"
READS = {1: ("row by key", 1), 100: ("page of 100", 1.5), 1_000: ("page of 1,000", 2)}
"""By their number of rows, with the goal against dbhub."""
BEFORE = 1_000
KEY = orders.FIRST + BEFORE
"""The first row that is asked for; the page before it tells where it goes on."""
_ROW = "SELECT * FROM orders WHERE id = {key}"
_PAGE = "SELECT * FROM orders WHERE id >= {key} ORDER BY id LIMIT {limit}"


class Asked(Protocol):
    """What gives `count` orders from `KEY` on; one is the row by its key, more are a page."""

    def rows(self, count: int) -> list[Json]:
        """Return what it gives, as objects."""
        ...

    def rate(self, count: int, *, window: int, seconds: float) -> float:
        """Return how often per second it gives them, with `window` requests in flight."""
        ...


def opened(database: Path, stack: ExitStack) -> Mapping[str, Asked]:
    """Return this server first, then whatever is installed of the others, and SQLite itself."""
    asked: dict[str, Asked] = {
        servers.OURS: Ours(
            stack.enter_context(Client(servers.ours(database))),
            f"sqlite://{database.stem}/orders",
        )
    }
    if command := servers.dbhub(f"sqlite:///{database}"):
        asked[servers.DBHUB] = Dbhub(stack.enter_context(Client(command)))
    port = free_port()
    if command := servers.datasette(database, port):
        client = stack.enter_context(HttpClient(command, port))
        asked[servers.DATASETTE] = Datasette(client, database.stem)
    for name in (servers.DBHUB, servers.DATASETTE):
        if name not in asked:
            print(f"\n{name} is not installed")
    asked[RAW] = Raw(stack.enter_context(closing(sqlite3.connect(database))))
    return asked


def cursor_in(uri: str) -> str:
    """Return where a page begins, as its URI has it."""
    (cursor,) = parse_qs(urlsplit(uri).query)["after"]
    return cursor


def of_dbhub(result: Json) -> list[Json]:
    """Return the rows in a result of dbhub's `execute_sql`, of one statement."""
    data = json.loads(result["content"][0]["text"])["data"]
    # Since 1.0, each statement has its own.
    return data["statements"][0]["rows"] if "statements" in data else data["rows"]


class Ours:
    """This server: `resources/read`."""

    def __init__(self, client: Client, table: str) -> None:
        self._client = client
        self._table = table
        before = self._read(f"{self._table}/~rows?limit={BEFORE}")
        self._cursor = cursor_in(before["next"])

    def rows(self, count: int) -> list[Json]:
        """See `Asked.rows`."""
        read = self._read(self._uri(count))
        return [read] if count == 1 else read["rows"]

    def rate(self, count: int, *, window: int, seconds: float) -> float:
        """See `Asked.rate`."""
        params = {"uri": self._uri(count)}
        return self._client.rate("resources/read", params, window=window, seconds=seconds)

    def _uri(self, count: int) -> str:
        if count == 1:
            return f"{self._table}/{KEY}"
        return f"{self._table}/~rows?after={self._cursor}&limit={count}"

    def _read(self, uri: str) -> Json:
        (content,) = self._client.request("resources/read", uri=uri)["contents"]
        return json.loads(content["text"])


class Dbhub:
    """A peer: its tool `execute_sql`, by which a client says in SQL what it wants."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def rows(self, count: int) -> list[Json]:
        """See `Asked.rows`."""
        return of_dbhub(self._client.request("tools/call", **self._params(count)))

    def rate(self, count: int, *, window: int, seconds: float) -> float:
        """See `Asked.rate`."""
        return self._client.rate("tools/call", self._params(count), window=window, seconds=seconds)

    def _params(self, count: int) -> Json:
        return {"name": "execute_sql", "arguments": {"sql": _sql(count, str(KEY), str(count))}}


class Datasette:
    """A peer: its JSON over HTTP, without the count of all rows that it gives else."""

    def __init__(self, client: HttpClient, database: str) -> None:
        self._client = client
        self._table = f"/{database}/orders"

    def rows(self, count: int) -> list[Json]:
        """See `Asked.rows`."""
        return json.loads(self._client.get(self._path(count)))

    def rate(self, count: int, *, window: int, seconds: float) -> float:
        """See `Asked.rate`."""
        return self._client.rate(get(self._path(count)), window=window, seconds=seconds)

    def _path(self, count: int) -> str:
        if count == 1:
            return f"{self._table}/{KEY}.json?_shape=array"
        return f"{self._table}.json?_shape=array&_nocount=1&_next={KEY - 1}&_size={count}"


class Raw:
    """The floor: SQLite in this process, which gives tuples. It knows no requests in flight."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, count: int) -> list[Json]:
        """See `Asked.rows`."""
        cursor = self._connection.execute(_sql(count, "?", "?"), self._values(count))
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def rate(self, count: int, *, window: int, seconds: float) -> float:
        """See `Asked.rate`."""
        execute, sql, values = self._connection.execute, _sql(count, "?", "?"), self._values(count)
        done = 0
        begin = time.perf_counter()
        while time.perf_counter() < begin + seconds:
            execute(sql, values).fetchall()
            done += 1
        return done / (time.perf_counter() - begin)

    def _values(self, count: int) -> tuple[int, ...]:
        return (KEY,) if count == 1 else (KEY, count)


def _sql(count: int, key: str, limit: str) -> str:
    return _ROW.format(key=key) if count == 1 else _PAGE.format(key=key, limit=limit)
