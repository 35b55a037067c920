"""`/metrics`."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import resource_server
from resource_server.transports.http.app.application import Application
from tests.providers.object_storage.storage import Storage
from tests.transports.http.observability.monitor import BEARER, FORWARDED, GIVEN, get, metrics
from tests.transports.phone import callee
from tests.transports.program import (
    PATIENCE_S,
    README,
    Program,
    initialize,
    message,
    modern,
    project,
    read,
    request,
    running,
)


@contextmanager
def start_program(place: Path) -> Generator[Program]:
    with running(project(place)) as started:
        yield started


LATE = "databases: {late: {url: 'sqlite:///late.db'}}\n"


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


def test_latencies_leave_out_streams_that_last(tmp_path: Path) -> None:
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


def test_sessions_streams_and_events_are_counted_while_they_last(
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


def test_a_response_on_a_stream_is_counted_by_its_outcome(tmp_path: Path) -> None:
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


def test_errors_are_counted_whatever_their_id_looks_like(tmp_path: Path) -> None:
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


def test_each_mount_and_its_watch_and_the_build_are_shown(tmp_path: Path) -> None:
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


def test_conversions_and_their_workers_are_counted(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program:
        (program.folder / "a.csv").write_text("name\nEarl Grey\n")
        (program.folder / "bad.ipynb").write_text("{")
        before = metrics(program)
        outcomes = [f"resource_server_conversions_total outcome={each}" for each in ("ok", "error")]
        assert [before[name] for name in outcomes] == [0, 0]
        assert before["resource_server_conversion_workers"] == 0
        assert "Earl Grey" in program.read("file:///project/a.csv?format=markdown")
        refused = program.ask(
            modern("resources/read", {"uri": "file:///project/bad.ipynb?format=markdown"})
        )
        assert "cannot be converted" in refused.json["error"]["message"]
        found = metrics(program)
        assert [found[name] for name in outcomes] == [1, 1]
        assert found["resource_server_conversion_seconds_count"] == 2
        assert found["resource_server_conversion_seconds_sum"] > 0
        assert found["resource_server_conversions_waiting"] == 0
        assert found["resource_server_conversion_workers"] in (1, 2)


def test_requests_to_object_storage_are_counted_by_mount(tmp_path: Path, storage: Storage) -> None:
    bucket = storage.bucket({"x.txt": "x" * 5000, "people.csv": "id\n1\n"})
    manifest = project(tmp_path)
    place = f"endpoint: '{storage.endpoint}'"
    roots = f"roots: {{lake: {{path: 's3://{bucket}', {place}}}, "
    files = f"{{url: 'files:s3://{bucket}/*.csv', storage: {{{place}}}}}"
    text = manifest.read_text().replace("roots: {", roots, 1)
    manifest.write_text(f"{text}\ndatabases: {{people: {files}}}\n")
    names = [f"resource_server_storage_{each}_total" for each in ("requests", "errors", "bytes")]
    with running(manifest) as program:
        program.until(lambda: get(program, "/readyz").json["ready"])
        before = metrics(program)
        assert program.read("file:///lake/x.txt") == "x" * 5000
        program.ask(modern("resources/read", {"uri": "file:///lake/y.txt"}))
        found = metrics(program)
        requests, errors, size = (
            found[f"{n} mount=lake"] - before[f"{n} mount=lake"] for n in names
        )
        assert (requests >= 4, errors) == (True, 0)
        assert size > 5000
        assert found[f"{names[0]} mount=people"] >= 2
        assert f"{names[0]} mount=project" not in found


def test_search_indexes_are_counted(tmp_path: Path) -> None:
    manifest = project(tmp_path)
    with running(manifest) as program:
        assert not any("search_index" in name for name in metrics(program))
    text = manifest.read_text()
    manifest.write_text(text.replace("path: project", "path: project, index: true, cache: .cache"))
    name = "resource_server_search_index"
    with running(manifest) as program:
        program.until(lambda: metrics(program)[f"{name}_bytes"] > 0)
        found = metrics(program)
    assert found[f"{name}_documents"] > 0
    assert (found[f"{name}_waiting"], found[f"{name}_failed"]) == (0, 0)


def test_search_indexes_are_not_counted_for_whom_a_part_of_the_folder_does_not_exist(
    tmp_path: Path,
) -> None:
    http = f"{{auth: {{tokens: [{{token: {GIVEN}, scopes: [inner]}}]}}}}"
    manifest = project(tmp_path, http)
    (tmp_path / "project" / "inner").mkdir()
    (tmp_path / "project" / "inner" / "secret.txt").write_text("secret")
    options = "index: true, cache: .cache, directories: {inner: {access: {scopes: [inner]}}}"
    manifest.write_text(manifest.read_text().replace("path: project", f"path: project, {options}"))
    with running(manifest) as program:

        def counts(**headers: str) -> bool:
            return b"search_index_documents 2.0" in get(program, "/metrics", **headers).body

        program.until(lambda: counts(**BEARER))
        assert b"search_index" not in get(program, "/metrics").body


def test_clients_cannot_add_metrics(tmp_path: Path) -> None:
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


def test_metrics_are_only_for_local_programs_by_default(tmp_path: Path) -> None:
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
def test_public_metrics_need_a_token_where_there_are_any(
    tmp_path: Path, http: str, needed: Mapping[str, str]
) -> None:
    if needed:
        http = f"{{metrics: true, auth: {{tokens: [{GIVEN}]}}}}"
    with running(project(tmp_path, http), "--forwarded-allow-ips", "127.0.0.1") as program:
        assert get(program, "/metrics", **FORWARDED).status == (401 if needed else 200)
        told = get(program, "/metrics", **FORWARDED, **needed)
        assert (told.status, b"mount_up" in told.body) == (200, True)


def test_metrics_have_the_accepted_format(program: Program) -> None:
    answer = get(program, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")
