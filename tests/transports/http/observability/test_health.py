"""What operators ask: whether the server lives, whether it is ready, and how it does."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from prometheus_client.parser import text_string_to_metric_families

import resource_server
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.manifest.http import Http
from resource_server.protocol.server import Server
from resource_server.transports.http.app.application import Application
from tests.transports.phone import Phone, callee
from tests.transports.program import (
    PATIENCE_S,
    README,
    Answer,
    Program,
    initialize,
    message,
    modern,
    project,
    read,
    request,
    running,
)

GIVEN = "0123456789abcdef"
GUARDED = f"{{auth: {{tokens: [{GIVEN}]}}}}"
BEARER = {"authorization": f"Bearer {GIVEN}"}
FORWARDED = {"x-forwarded-for": "192.0.2.7"}


def get(program: Program, path: str, **headers: str) -> Answer:
    return program.ask(request("GET", path=path, **headers))


def metrics(program: Program) -> Mapping[str, float]:
    """Return the values of all metrics, by their names and labels."""
    answer = get(program, "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): (
            sample.value
        )
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


@contextmanager
def start_program(place: Path) -> Generator[Program]:
    with running(project(place)) as started:
        yield started


# -- alive and ready


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_an_operator_reads_and_does_nothing_else(program: Program, path: str) -> None:
    program.until(lambda: get(program, path).status == 200)
    head = program.ask(request("HEAD", path=path))
    assert (head.status, head.body) == (200, b"")
    for method in ("POST", "PUT", "DELETE"):
        refused = program.ask(request(method, path=path))
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


def test_nothing_follows_the_head_of_an_answer_to_head(program: Program) -> None:
    with program.line() as line:
        for _ in range(2):
            assert line.ask(request("HEAD", path="/healthz")).status == 200
        assert line.ask(request("GET", path="/healthz")).body == b"ok\n"


def test_it_is_alive_by_whatever_name_it_is_asked(program: Program) -> None:
    alive = get(program, "/healthz", host="10.0.0.7:8000")
    assert (alive.status, alive.body) == (200, b"ok\n")


def test_it_is_ready_when_all_mounts_are_up(program: Program) -> None:
    program.until(lambda: get(program, "/readyz").status == 200)
    assert get(program, "/readyz").json == {
        "ready": True,
        "mounts": 2,
        "up": 2,
        "unavailable": [],
    }


LATE = "databases: {late: {url: 'sqlite:///late.db'}}\n"


def test_it_is_not_ready_while_a_mount_is_down_and_tries_it_again_without_being_asked_for_it(
    tmp_path: Path,
) -> None:
    with running(project(tmp_path, more=LATE)) as program:
        program.until(lambda: get(program, "/readyz").json["up"] == 2)
        down = get(program, "/readyz")
        assert down.status == 503
        assert down.json == {"ready": False, "mounts": 3, "up": 2, "unavailable": ["late"]}
        with sqlite3.connect(tmp_path / "late.db") as database:
            database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        database.close()
        program.until(lambda: get(program, "/readyz").status == 200)


SLOW = """
import asyncio, dataclasses, pathlib
from tests.transports.phone import Phone

@dataclasses.dataclass
class Slow(Phone):
    async def __aenter__(self):
        with pathlib.Path({log!r}).open("a") as log:
            log.write("begun\\n")
        await asyncio.sleep({seconds})
        raise OSError

    async def __aexit__(self, *_):
        pass
"""


def test_a_mount_that_takes_long_to_start_keeps_nobody_waiting_and_is_started_once(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    (tmp_path / "slow.py").write_text(SLOW.format(log=str(log), seconds=PATIENCE_S))
    with running(project(tmp_path, provider=tmp_path / "slow.py")) as program:
        for _ in range(50):
            assert get(program, "/readyz").status == 503
        assert log.read_text() == "begun\n"


def test_a_mount_that_fails_is_tried_after_its_pause_however_often_is_asked(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    (tmp_path / "slow.py").write_text(SLOW.format(log=str(log), seconds=0))
    with running(project(tmp_path, provider=tmp_path / "slow.py")) as program:
        asked = 0
        while len(log.read_text().splitlines() if log.exists() else ()) < 2:
            assert get(program, "/readyz").status == 503
            asked += 1
        assert asked > 10


def test_only_who_may_see_mounts_is_told_their_names(tmp_path: Path) -> None:
    with running(project(tmp_path, http=GUARDED, more=LATE)) as program:
        program.until(lambda: get(program, "/readyz").json["up"] == 2)
        counts = {"ready": False, "mounts": 3, "up": 2}
        for headers in (
            {},
            {"authorization": "Bearer no-such-token-at-all"},
            {**BEARER, "host": "evil.example"},
            {**BEARER, "origin": "https://evil.example"},
        ):
            told = get(program, "/readyz", **headers)
            assert (told.status, told.json) == (503, counts)
        told = get(program, "/readyz", **BEARER)
        assert (told.status, told.json) == (503, {**counts, "unavailable": ["late"]})


SCOPED = """
databases:
  hidden: {url: "sqlite:///hidden.db", access: {scopes: [hr]}}
  shown: {url: "sqlite:///shown.db"}
"""


def test_a_mount_that_does_not_exist_for_a_caller_is_not_named_to_them(tmp_path: Path) -> None:
    other = "fedcba9876543210"
    tokens = f"[{{token: {GIVEN}, scopes: [hr]}}, {{token: {other}, scopes: []}}]"
    http = f"{{metrics: true, auth: {{tokens: {tokens}}}}}"
    proxied = ("--forwarded-allow-ips", "127.0.0.1")
    with running(project(tmp_path, http, SCOPED), *proxied) as program:
        program.until(lambda: get(program, "/readyz").json["up"] == 2)
        for token, names in ((GIVEN, ["hidden", "shown"]), (other, ["shown"])):
            bearer = {"authorization": f"Bearer {token}"}
            told = get(program, "/readyz", **bearer).json
            assert told["unavailable"] == names
            assert told["mounts"] - told["up"] == len(names)
            for way in ({}, FORWARDED):
                data = get(program, "/metrics", **bearer, **way).body
                assert (b'"hidden"' in data) == ("hidden" in names)
        # Who has no token, and who may be anybody behind a proxy that does not say so.
        assert get(program, "/readyz").json == {"ready": False, "mounts": 3, "up": 2}
        unnamed = get(program, "/metrics")
        assert (unnamed.status, b'"hidden"' in unnamed.body) == (200, False)
        assert b'"shown"' in unnamed.body
        wrong = {"authorization": "Bearer no-such-token-at-all"}
        assert get(program, "/metrics", **wrong).status == 401


def test_who_asks_again_and_again_piles_nothing_up() -> None:
    mount = Mount("slow", "test://slow/", Endless())

    async def ask() -> int:
        async with Server(Catalog([mount])) as server:
            application = Application(server, Http())
            before = len(asyncio.all_tasks())
            for _ in range(100):
                assert await status(application, "/readyz") == 503
            started = len(asyncio.all_tasks()) - before
            await application.close()
            assert len(asyncio.all_tasks()) == before
            return started

    assert asyncio.run(ask()) == 1


class Endless(Phone):
    """A provider that never has started."""

    async def __aenter__(self) -> Self:
        await asyncio.Event().wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


async def status(application: Application, path: str) -> int:
    """Ask an application without a server."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": [],
        "client": None,
    }
    await application(scope, receive, send)
    return int(sent[0]["status"])


def test_pages_of_others_are_not_told_the_names_where_nobody_needs_a_token(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program:
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            assert "unavailable" not in get(program, "/readyz", **headers).json


# -- metrics


def test_requests_are_counted_by_era_method_and_outcome(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program:
        program.read(README)
        program.read(README)
        program.ask(modern("resources/read", {"uri": "file:///project/none"}))
        program.ask(modern("tools/of/nobody"))
        program.ask(request("POST", b"{"))
        program.ask(request("PUT"))
        session = program.session("2025-03-26")
        session.post([read(README, 1), message("ping", id=2)])
        session.post(read("file:///project/none"))
        program.ask(session.request("DELETE"))
        found = metrics(program)
    counted = {
        name.removeprefix("resource_server_requests_total "): value
        for name, value in found.items()
        if name.startswith("resource_server_requests_total")
    }
    assert counted == {
        "era=stateless method=resources/read outcome=ok": 2,
        "era=stateless method=resources/read outcome=error": 1,
        "era=stateless method=other outcome=error": 1,
        "era=handshake method=other outcome=error": 2,
        "era=handshake method=initialize outcome=ok": 1,
        "era=handshake method=notifications/initialized outcome=ok": 1,
        "era=handshake method=batch outcome=ok": 1,
        "era=handshake method=resources/read outcome=error": 1,
        "era=handshake method=DELETE outcome=ok": 1,
    }
    errors = {"-32602": 1, "-32002": 1, "-32601": 1, "-32700": 1, "-32600": 1}
    for code, count in errors.items():
        assert found[f"resource_server_errors_total code={code}"] == count
    assert found["resource_server_responses_total status=200"] == 5
    assert found["resource_server_responses_total status=405"] == 1


def test_times_are_counted_of_what_ends_by_itself(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program:
        program.read(README)
        session = program.session()
        with session.stream():
            pass
        name = "resource_server_request_seconds"
        program.until(lambda: f"{name}_count method=initialize" in metrics(program))
        found = metrics(program)
        assert found[f"{name}_count method=resources/read"] == 1
        assert found[f"{name}_bucket le=+Inf method=resources/read"] == 1
        assert 0 < found[f"{name}_sum method=resources/read"] < PATIENCE_S
        assert f"{name}_count method=GET" not in found


def test_sessions_streams_and_what_they_are_told_are_counted_while_they_last(
    tmp_path: Path,
) -> None:
    with running(project(tmp_path)) as program:
        before = metrics(program)
        session = program.session()
        session.post(message("resources/subscribe", {"uri": README}))
        with session.stream() as stream:
            (program.folder / "read me.md").write_text("changed\n")
            stream.event()
            found = metrics(program)
            assert found["resource_server_sessions"] == 1
            assert found["resource_server_streams"] == 1
            assert found["resource_server_events_total"] == 1
            assert (
                found["resource_server_sent_bytes_total"]
                > before["resource_server_sent_bytes_total"]
            )
        program.ask(session.request("DELETE"))
        program.until(lambda: metrics(program)["resource_server_streams"] == 0)
        assert metrics(program)["resource_server_sessions"] == 0


def test_what_a_stream_answers_in_the_end_is_counted_as_what_it_is(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program, callee() as called:
        asked = modern("resources/read", {"uri": called.uri}, accept="text/event-stream")
        for text in ("an answer", ""):
            with program.line() as line:
                line.send(asked)
                called.wait()
                called.answer(text)
                assert line.answer().headers["content-type"] == "text/event-stream"
                line.events()
        with program.line() as leaving:
            leaving.send(modern("resources/read", {"uri": called.uri}))
            called.wait()
        kind = "resource_server_requests_total era=stateless method=resources/read outcome="
        program.until(lambda: f"{kind}gone" in metrics(program))
        found = metrics(program)
        assert [found[f"{kind}{outcome}"] for outcome in ("ok", "error", "gone")] == [1, 1, 1]


def test_errors_are_seen_whatever_stands_around_them(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program:
        before = metrics(program).get("resource_server_errors_total code=-32601", 0)
        for id in ("x" * 2000, '"result":{', '"error":{"code":1}'):
            refused = program.ask(modern("tools/of/nobody", id=id))
            assert (refused.status, refused.json["id"]) == (404, id)
            (program.folder / "read me.md").write_text('{"error":{"code":-1}}')
            asked = {"uri": README}
            assert program.ask(modern("resources/read", asked, id=id)).status == 200
        found = metrics(program)
        assert found["resource_server_errors_total code=-32601"] == before + 3
        errors = [name for name in found if name.startswith("resource_server_errors_total")]
        assert errors == ["resource_server_errors_total code=-32601"]


def test_each_mount_and_its_watch_and_the_build_are_there(tmp_path: Path) -> None:
    with running(project(tmp_path, more=LATE)) as program:
        program.until(lambda: get(program, "/readyz").json["up"] == 2)
        found = metrics(program)
        assert found["resource_server_mount_up mount=project"] == 1
        assert found["resource_server_mount_up mount=late"] == 0
        assert found["resource_server_mount_watch back_end=off mount=phone"] == 1
        [watch] = [
            name
            for name in found
            if name.startswith("resource_server_mount_watch") and "=project" in name
        ]
        assert "(" not in watch
        assert f" version={resource_server.__version__}" in "".join(
            name for name in found if name.startswith("resource_server_build_info")
        )
        assert found["process_resident_memory_bytes"] > 0


def test_clients_cannot_make_more_metrics_by_what_they_ask(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program:

        def ask(number: int) -> None:
            program.ask(modern(f"method/{number}"))
            program.ask(request("POST", message(f"m{number}"), mcp_protocol_version=f"v{number}"))
            program.ask(request("POST", initialize(f"1-{number}")))
            program.ask(request("GET", path=f"/{number}"))
            program.read(f"{README}?lines=1-{number + 1}")

        ask(0)
        before = set(metrics(program))
        for number in range(1, 5):
            ask(number)
        assert {name for name in metrics(program) if "status" not in name} - before == set()


def test_metrics_are_for_this_machine_unless_the_manifest_says_otherwise(tmp_path: Path) -> None:
    with running(project(tmp_path), "--forwarded-allow-ips", "127.0.0.1") as program:
        assert get(program, "/metrics").status == 200
        for forwarded in (
            FORWARDED,
            {"x-forwarded-for": "127.0.0.1"},
            {"forwarded": "for=192.0.2.7"},
            {"x-real-ip": "192.0.2.7"},
        ):
            assert get(program, "/metrics", **forwarded).status == 404
        assert get(program, "/metrics", host="evil.example").status == 421
        assert get(program, "/metrics", origin="https://evil.example").status == 403


@pytest.mark.parametrize(("http", "needed"), [("{metrics: true}", {}), ("guarded", BEARER)])
def test_others_are_told_metrics_where_the_manifest_says_so_with_a_token_if_there_are_any(
    tmp_path: Path, http: str, needed: Mapping[str, str]
) -> None:
    if needed:
        http = f"{{metrics: true, auth: {{tokens: [{GIVEN}]}}}}"
    with running(project(tmp_path, http), "--forwarded-allow-ips", "127.0.0.1") as program:
        assert get(program, "/metrics", **FORWARDED).status == (401 if needed else 200)
        told = get(program, "/metrics", **FORWARDED, **needed)
        assert (told.status, b"mount_up" in told.body) == (200, True)


def test_metrics_are_written_as_the_one_who_asks_accepts(program: Program) -> None:
    answer = get(program, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")
