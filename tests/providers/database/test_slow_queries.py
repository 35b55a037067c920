"""Statements that take long: their limits in words, their progress, and their end by the client."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.protocol.server import Server
from resource_server.providers.database.options import Query, ReadLimits, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.runtime.option_types import Duration
from resource_server.runtime.timing import Timing
from tests.protocol.wire import EVERY, Wire
from tests.providers.database.owners import Owner, SqliteOwner
from tests.transports.program import message, modern, notification, running
from tests.waiting import PATIENCE_S, block, block_until, until

pytestmark = pytest.mark.anyio

URI = "db://shop/~query/slow"
RUNNING = {
    "postgresql": "select pid from pg_stat_activity where state = 'active'"
    " and query like '%pg_sleep(600)%' and pid <> pg_backend_pid()",
    "mariadb": "select id from information_schema.processlist where info like '%benchmark(1%'"
    " and id <> connection_id()",
}
LONG = ReadLimits(timeout=Duration(PATIENCE_S), query_timeout=Duration(PATIENCE_S))
SHORT = ReadLimits(timeout=Duration(0.3), query_timeout=Duration(0.4))
TICKING = Timing(progress_tick_s=0.1)


@asynccontextmanager
async def _serving(
    owner: Owner, limits: ReadLimits, timing: Timing = TICKING
) -> AsyncGenerator[Server]:
    await owner.run("create table t (id integer primary key, name varchar(9))")
    await owner.insert("t", (1, "tea"))
    provider = Database(
        owner.url,
        tables={"t": TableOptions(where=f"({owner.endless}) > 0")},
        queries={"slow": Query(sql=owner.endless), "quick": Query(sql="select 1 as n")},
        limits=limits,
    )
    catalog = Catalog([Mount("shop", "db://shop/", provider)], timing=timing)
    async with Server(catalog, timing=timing) as server:
        await catalog.start()
        yield server


async def _is_running(owner: Owner) -> bool:
    return bool(await owner.rows(RUNNING[owner.engine])) if owner.engine in RUNNING else True


async def _is_stopped(owner: Owner) -> bool:
    return not await _is_running(owner)


async def test_a_time_limit_names_its_option_and_who_can_raise_it(owner: Owner) -> None:
    async with _serving(owner, SHORT) as server:
        wire = Wire(server, "2025-11-25")
        of_query = (
            "ime limit of 0.4 s exceeded; whoever runs the server can raise limits.query_timeout"
        )
        of_page = "ime limit of 0.3 s exceeded; whoever runs the server can raise limits.timeout"
        table = f"db://shop/{owner.prefix}t"
        for uri, told in (
            (URI, of_query),
            (f"{table}/~rows", of_page),
            (f"{table}/~rows?count", of_page),
            (f"{table}/~summary", of_page),
            (f"{table}/1", of_page),
        ):
            error = await wire.error("resources/read", {"uri": uri})
            assert error["code"] == -32011
            assert error["message"] == f"T{told}", uri
            arguments = {"uri": uri}
            called = await wire.result(
                "tools/call", {"name": "read_resource", "arguments": arguments}
            )
            assert called["isError"]
            assert told in called["content"][0]["text"]
        called = await wire.result("tools/call", {"name": "slow", "arguments": {}})
        assert f"T{of_query}" in called["content"][0]["text"]
        error = await wire.error("resources/read", {"uri": f"{table}/~rows?where.name=tea"})
        assert error["message"] == (
            "Time limit of 0.3 s exceeded; an index of t on (name) would help, or whoever runs "
            "the server can raise limits.timeout"
        )


async def test_a_slow_query_tells_its_progress_and_stops_when_it_is_cancelled(
    owner: Owner,
) -> None:
    async with _serving(owner, LONG) as server:
        for revision in EVERY:
            wire = Wire(server, revision)
            params: dict[str, Any] = {"uri": URI, "_meta": {"progressToken": "p"}}
            ids = [wire.start("resources/read", params) for _ in range(3)]
            await wire.notified(3)
            assert {each["method"] for each in wire.notifications} == {"notifications/progress"}
            await until(lambda: _is_running(owner))
            for id in ids:
                asked = {"requestId": id}
                wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": asked})
            await wire.finished()
            if owner.engine in RUNNING:
                await until(lambda: _is_stopped(owner))
            # Nothing of them occupies what others need.
            for _ in range(5):
                assert await wire.result("resources/read", {"uri": "db://shop/~query/quick"})
            assert not [each for each in wire.replies if each["id"] in ids]


async def test_sql_of_callers_names_its_option(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("create table t (id integer primary key)")
    database.close()
    provider = Database(f"sqlite:///{tmp_path}/shop.db", sql=True, limits=SHORT)
    catalog = Catalog([Mount("shop", "db://shop/", provider)], timing=TICKING)
    async with Server(catalog, timing=TICKING) as server:
        wire = Wire(server, "2025-11-25")
        params = {"name": "query_database", "arguments": {"sql": SqliteOwner.endless}}
        called = await wire.result("tools/call", params)
        assert called["content"][0]["text"].startswith(
            "Time limit of 0.4 s exceeded; whoever runs the server can raise limits.query_timeout."
        )


def test_over_http_a_slow_query_tells_its_progress_and_ends_with_its_client(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("create table t (id integer primary key)")
    database.close()
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text(
        "databases:\n  shop:\n    url: sqlite:///shop.db\n    uri: db://shop/\n"
        f'    queries: {{slow: {{sql: "{SqliteOwner.endless}"}}}}\n'
        "    limits: {query_timeout: 100s}\naudit: {file: audit.jsonl}\n"
    )
    record = tmp_path / "audit.jsonl"
    timing = {"progress_tick_s": 0.1, "audit_settle_s": 0.0}
    with running(manifest, timing=timing) as program:
        asked = {"uri": URI, "_meta": {"progressToken": "p"}}
        with program.line() as line:
            line.send(modern("resources/read", asked))
            assert line.answer().headers["content-type"] == "text/event-stream"
            for _ in range(2):
                note = line.event().json
                assert note["method"] == "notifications/progress"
                assert note["params"]["progressToken"] == "p"
                assert note["params"]["message"].startswith("running for ")
        block_until(lambda: '"cancelled"' in record.read_text())
        session = program.session("2025-11-25")
        with session.stream("POST", message("resources/read", asked, 7)) as line:
            assert line.event().json["method"] == "notifications/progress"
            session.post(notification("notifications/cancelled", {"requestId": 7}))
            block_until(lambda: record.read_text().count('"cancelled"') == 2)
        # Its processor time ends, too.
        process = Path(f"/proc/{program.process.pid}/stat")

        def is_idle() -> bool:
            before = process.read_text().split()[13]
            block(0.3)
            return int(process.read_text().split()[13]) - int(before) <= 5

        block_until(is_idle)
