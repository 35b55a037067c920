from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resource_server.access import Caller, acting
from resource_server.audit.entry import AuditEvent
from resource_server.audit.recorder import Recorder
from resource_server.protocol.server import Server
from resource_server.serving.server_builder import build_server, load_manifest
from tests.audit.records import SOON
from tests.protocol.wire import EVERY, Wire, initialize, server_of
from tests.providers_for_tests import Gate, Tree

pytestmark = pytest.mark.anyio

SECRETS = ("123-45-0001", "HIDDENNOTE", "hunter2", "password")


class _Kept:
    """A place that keeps lines in memory."""

    problem = None
    fails = False

    def look(self) -> AuditEvent | None:
        return None

    def write(self, lines: bytes) -> None:
        if self.fails:
            raise OSError(28, "No space left on device")

    def close(self) -> None:
        pass


class _Defective(Tree):
    async def read(self, path: Any, query: Any) -> Any:
        raise RuntimeError("defect")


@pytest.fixture
def kept() -> _Kept:
    return _Kept()


def _recorded(server: Server) -> list[dict[str, Any]]:
    """Return what was recorded, oldest first."""
    assert server.recorder is not None
    return [msgspec.to_builtins(entry) for _, entry in server.recorder.recent]


@asynccontextmanager
async def _shop(folder: Path, place: _Kept, **options: Any) -> AsyncGenerator[Server]:
    (folder / "docs").mkdir()
    (folder / "docs" / "a.txt").write_text("one\ntwo\n")
    (folder / "docs" / ".env").write_text("KEY=1")
    with sqlite3.connect(folder / "shop.db") as database:
        database.execute("create table people (ssn text primary key, name text, note text)")
        database.execute("create table orders (id integer primary key, customer text, total real)")
        database.execute("create table hidden_things (id integer primary key)")
        database.execute("insert into people values ('123-45-0001', 'Ada', 'HIDDENNOTE')")
        database.executemany(
            "insert into orders values (?, 'Ada', 1)", [(number,) for number in range(7)]
        )
    database.close()
    manifest = folder / "mcp-resources.yaml"
    manifest.write_text(
        "roots: {docs: {path: docs}}\n"
        "databases:\n  shop:\n    url: sqlite:///shop.db\n    sql: true\n"
        "    queries:\n      named:\n        sql: select name from people where ssn = :ssn\n"
        "        parameters: {ssn: {type: string}}\n"
        "    tables:\n"
        "      people: {columns: {mask: {ssn: redact}, hide: [note]}}\n"
        "      hidden_things: false\n"
    )
    loaded = load_manifest(str(manifest), allow_plugins=False)
    recorder = Recorder(place, timing=SOON, **options)
    async with build_server(loaded, allow_plugins=False, recorder=recorder) as server:
        await server.catalog.start()
        yield server


async def _one(wire: Wire, server: Server, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request; return what is recorded of it alone."""
    before = len(_recorded(server))
    await wire.call(method, params)
    (found,) = _recorded(server)[before:]
    return found


@pytest.mark.guarantee("reads-are-recorded")
@pytest.mark.parametrize("revision", EVERY)
async def test_each_request_has_a_line_in_every_revision(
    tmp_path: Path, kept: _Kept, revision: str
) -> None:
    async with _shop(tmp_path, kept) as server:
        wire = Wire(server, revision)
        with acting(Caller("ada")):
            found = await _one(wire, server, "resources/read", {"uri": "file:///docs/a.txt"})
        assert found["method"] == "resources/read"
        assert found["uri"] == "file:///docs/a.txt"
        assert (found["mount"], found["subject"], found["decision"]) == ("docs", "ada", "served")
        assert found["client"] == {"name": "tests", "version": "0"}
        assert found["version"]
        assert found["bytes"] > 100
        assert found["ms"] >= 0
        requests: list[tuple[str, dict[str, Any]]] = [
            ("resources/list", {}),
            ("resources/templates/list", {}),
            ("resources/metadata", {"uri": "file:///docs/a.txt"}),
            ("resources/directory/read", {"uri": "file:///docs"}),
            ("skills/list", {}),
            ("tools/list", {}),
            ("tools/call", {"name": "list_resources", "arguments": {}}),
            (
                "completion/complete",
                {
                    "ref": {"type": "ref/resource", "uri": "file:///docs/{+path}"},
                    "argument": {"name": "path", "value": "a"},
                },
            ),
        ]
        for method, params in requests:
            found = await _one(wire, server, method, params)
            assert (found["method"], found["decision"]) == (method, "served"), found
        assert found["uri"] == "file:///docs/{+path}"


async def test_what_reads_nothing_has_no_line(tmp_path: Path, kept: _Kept) -> None:
    async with _shop(tmp_path, kept) as server:
        wire = Wire(server, "2025-11-25")
        await wire.result("ping")
        await wire.result("logging/setLevel", {"level": "info"})
        await wire.error("no/such/method")
        await Wire(server, "2026-07-28").result("server/discover")
        assert _recorded(server) == []


async def test_subscriptions_have_lines(tmp_path: Path, kept: _Kept) -> None:
    uri = "file:///docs/a.txt"
    async with _shop(tmp_path, kept) as server:
        wire = Wire(server, "2025-11-25")
        for method in ("resources/subscribe", "resources/unsubscribe"):
            found = await _one(wire, server, method, {"uri": uri})
            assert (found["uri"], found["decision"]) == (uri, "served")
        wire = Wire(server, "2026-07-28")
        filter = {"resourceSubscriptions": [uri, "sqlite://shop/people/123-45-0001"]}
        wire.start("subscriptions/listen", {"notifications": filter})
        await wire.notified(1)
        found = _recorded(server)[-1]
        assert (found["method"], found["uris"]) == ("subscriptions/listen", (uri,))
        await wire.connection.close()
        assert len(_recorded(server)) == 3


async def test_a_tool_is_recorded_by_what_it_reads(tmp_path: Path, kept: _Kept) -> None:
    async with _shop(tmp_path, kept) as server:
        wire = Wire(server, "2025-11-25")

        async def call(name: str, **arguments: Any) -> dict[str, Any]:
            return await _one(wire, server, "tools/call", {"name": name, "arguments": arguments})

        found = await call("read_resource", uri="file:///docs/a.txt", lines="1-1")
        assert (found["name"], found["uri"]) == ("read_resource", "file:///docs/a.txt?lines=1-1")
        found = await call("query_table", uri="sqlite://shop/orders", where={"customer": "Ada"})
        assert "where.customer=Ada" in found["uri"]
        assert (found["rows"], found["mount"]) == (7, "shop")
        sql = "select * from orders where id < 3 and customer <> 'hunter2' -- password"
        found = await call("query_database", sql=sql)
        assert found["sql"] == "select * from orders where id < ? and customer <> ?"
        assert (found["rows"], found["mount"]) == (3, "shop")
        found = await call("named", ssn="123-45-0001")
        assert (found["name"], found["mount"], found["rows"]) == ("named", "shop", 0)


@pytest.mark.guarantee("record-has-no-secret")
async def test_no_value_of_a_hidden_or_masked_column_is_recorded(
    tmp_path: Path, kept: _Kept
) -> None:
    async with _shop(tmp_path, kept) as server:
        for revision in ("2025-11-25", "2026-07-28"):
            wire = Wire(server, revision)
            for uri in (
                "sqlite://shop/people/~rows?where.ssn=123-45-0001",
                "sqlite://shop/people/~rows?where.ssn.like=123-45-0001",
                "sqlite://shop/people/~rows?where.note=HIDDENNOTE",
                "sqlite://shop/people/~rows?sort=HIDDENNOTE",
                "sqlite://shop/people/~summary?by=HIDDENNOTE",
                "sqlite://shop/people/~rows%3Fwhere.ssn=123-45-0001",
                "sqlite://shop/people%3Fwhere.ssn=123-45-0001",
                "sqlite://shop/people/123-45-0001",
                "sqlite://shop/people/123-45-0001/~cell/name",
                "sqlite://shop/123-45-0001",
                "sqlite://shop/~query/named?ssn=123-45-0001",
                "sqlite://shop/~query/123-45-0001",
                "sqlite://shopp/people/123-45-0001",
                "sqlite://SHOP/people/~rows?where.note=HIDDENNOTE&where.ssn=123-45-0001",
                "postgresql://user:password@host/123-45-0001",
                "hunter2",
                "file:///docs/a.txt?token=hunter2",
            ):
                for method in ("resources/read", "resources/metadata", "resources/list"):
                    await wire.call(method, {"uri": uri})
                if revision == "2025-11-25":
                    await wire.call("resources/subscribe", {"uri": uri})
                for name in ("read_resource", "list_resources", "resource_metadata"):
                    await wire.call("tools/call", {"name": name, "arguments": {"uri": uri}})
            for name, arguments in (
                ("search_resources", {"query": "123-45-0001"}),
                ("query_table", {"uri": "sqlite://shop/people", "where": {"ssn": "123-45-0001"}}),
                ("query_database", {"sql": "select 1 where '123-45-0001' = \"hunter2\""}),
                ("query_database", {"sql": "select 'HIDDENNOTE"}),
                ("query_database", {"sql": "select note from people -- HIDDENNOTE"}),
                ("query_database", {"sql": "select :a", "parameters": {"a": "hunter2"}}),
                ("named", {"ssn": "123-45-0001"}),
                ("123-45-0001", {}),
            ):
                await wire.call("tools/call", {"name": name, "arguments": arguments})
            ref = {"type": "ref/resource", "uri": "sqlite://shop/{table}/{+key}"}
            argument = {"name": "key", "value": "123-45-0001"}
            context = {"arguments": {"table": "HIDDENNOTE"}}
            await wire.call(
                "completion/complete", {"ref": ref, "argument": argument, "context": context}
            )
        text = str(_recorded(server))
        assert [secret for secret in SECRETS if secret in text] == []
        assert len(_recorded(server)) > 200


async def test_values_of_visible_columns_are_recorded(tmp_path: Path, kept: _Kept) -> None:
    async with _shop(tmp_path, kept) as server:
        wire = Wire(server, "2025-11-25")
        for uri, expected in (
            ("sqlite://shop/orders/3", "sqlite://shop/orders/3"),
            ("sqlite://shop/orders/99", "sqlite://shop/orders/..."),
            ("sqlite://shop/hidden_things/1", "sqlite://shop/hidden_things/..."),
            ("sqlite://shop/orders/~rows?where.id=3", "sqlite://shop/orders/~rows?where.id=3"),
            ("file:///docs/.env", "file:///docs/.env"),
            ("file:///etc/passwd", "file:///etc/passwd"),
        ):
            assert (await _one(wire, server, "resources/read", {"uri": uri}))["uri"] == expected


async def test_the_decision_says_what_became_of_a_request(tmp_path: Path, kept: _Kept) -> None:
    async with _shop(tmp_path, kept) as server:
        wire = Wire(server, "2026-07-28")

        async def decision(method: str, **params: Any) -> tuple[str, object]:
            found = await _one(wire, server, method, params)
            return found["decision"], found.get("code")

        assert await decision("resources/read", uri="file:///docs/a.txt") == ("served", None)
        assert await decision("resources/read", uri="file:///docs/.env") == ("not found", -32602)
        assert await decision("resources/directory/read", uri="file:///docs/b") == (
            "not found",
            -32602,
        )
        assert await decision("resources/read", uri="file:///docs/a.txt?x=1") == ("refused", -32602)
        assert await decision("resources/read") == ("refused", -32602)
        assert await decision("tools/call", name="none") == ("refused", -32602)
        arguments: dict[str, Any] = {"uri": "file:///docs/.env"}
        assert await decision("tools/call", name="read_resource", arguments=arguments) == (
            "not found",
            None,
        )
        assert await decision("tools/call", name="read_resource", arguments={"x": 1}) == (
            "refused",
            None,
        )


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_cancelled_request_has_one_line(kept: _Kept, revision: str) -> None:
    gate = Gate()
    server = await server_of(Tree({"gate": gate}))
    server.recorder = Recorder(kept, timing=SOON)
    wire = Wire(server, revision)
    id = wire.start("resources/read", {"uri": "test://one/gate"})
    await gate.started.wait()
    wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
    await wire.finished()
    (found,) = _recorded(server)
    assert (found["decision"], found["uri"]) == ("cancelled", "test://one/gate")
    assert "bytes" not in found


async def test_a_failure_of_a_provider_is_recorded(kept: _Kept) -> None:
    server = await server_of(_Defective({"a": "text"}))
    server.recorder = Recorder(kept, timing=SOON)
    await Wire(server, "2025-11-25").error("resources/read", {"uri": "test://one/a"})
    (found,) = _recorded(server)
    assert (found["decision"], found["code"]) == ("failed", -32603)


async def test_hostile_clients_have_short_lines(tmp_path: Path, kept: _Kept) -> None:
    async with _shop(tmp_path, kept) as server:
        wire = Wire(server)
        hello = initialize()
        hello["params"]["clientInfo"] = {"name": "x\n\ud800" * 300_000, "version": "\x00"}
        wire.send(hello)
        huge = "file:///docs/" + "a%0A" * 200_000
        with acting(Caller("s\r\n" * 100_000)):
            for uri in (huge, "file:///docs/\x00", "\ud800", "", "file:///docs/%FF"):
                await wire.call("resources/read", {"uri": uri})
        for found in _recorded(server):
            assert len(str(found)) < 5000


@pytest.mark.guarantee("reads-are-recorded")
async def test_requests_are_refused_while_nothing_can_be_recorded(
    tmp_path: Path, kept: _Kept
) -> None:
    async with _shop(tmp_path, kept, refuses=True) as server:
        recorder = server.recorder
        assert recorder is not None
        wire = Wire(server, "2025-11-25")
        await wire.result("resources/read", {"uri": "file:///docs/a.txt"})
        recorder.problem = "no space left on device"
        for method in ("resources/read", "resources/metadata", "resources/list"):
            error = await wire.error(method, {"uri": "file:///docs"})
            assert error["code"] == -32012
            assert error["message"] == (
                "Refused: the record of reads cannot be written (no space left on device), "
                "and none goes without"
            )
            assert error["data"] == {"retryable": True}
        await wire.result("ping")
        recorder.problem = None
        await wire.result("resources/read", {"uri": "file:///docs/a.txt"})
        assert len(_recorded(server)) == 2
