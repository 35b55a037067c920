"""The deprecated transport of 2024-11-05."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client import session
from mcp.client.sse import sse_client
from mcp_types import (
    EmptyResult,
    ResourceUpdatedNotification,
    SubscribeRequest,
    SubscribeRequestParams,
    TextResourceContents,
)

from tests.protocol.wire import HANDSHAKE
from tests.transports.program import (
    GATE,
    LARGE,
    OPEN,
    README,
    STATE,
    Program,
    RawConnection,
    initialize,
    message,
    modern,
    notification,
    read,
    request,
    serving,
)
from tests.waiting import PATIENCE_S

BODY = 100_000


@contextmanager
def start_program(place: Path) -> Generator[Program]:
    http = f"{{limits: {{body: {BODY}, streams: 20}}}}"
    with serving(place, "--legacy-sse", http=http) as started:
        yield started


def opened(line: RawConnection) -> str:
    """Open a stream, and return where its messages are posted."""
    answered = line.ask(request("GET", path="/sse", accept="text/event-stream"))
    assert (answered.status, answered.headers["content-type"]) == (200, "text/event-stream")
    event = line.event()
    assert (event.name, event.id) == ("endpoint", None)
    assert event.data.startswith("/messages?session=")
    return event.data


def post(program: Program, path: str, body: object, **headers: Any) -> int:
    answered = program.ask(request("POST", body, path=path, accept="*/*", **headers))
    assert answered.status != 202 or answered.body == b""
    return answered.status


@pytest.mark.anyio
@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_the_official_client_reads_and_is_notified(
    program: Program, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LATEST_HANDSHAKE_VERSION", revision)
    told = asyncio.Queue[object]()
    url = program.url.replace("/mcp", "/sse")

    async def take(message: object) -> None:
        told.put_nowait(message)

    async with (
        asyncio.timeout(PATIENCE_S),
        Client(sse_client(url), mode="legacy", message_handler=take) as client,
    ):
        assert client.protocol_version == revision
        listed = (await client.list_resources()).resources
        assert README in [str(resource.uri) for resource in listed]
        (content,) = (await client.read_resource(README)).contents
        assert isinstance(content, TextResourceContents)
        subscribe = SubscribeRequest(params=SubscribeRequestParams(uri=README))
        await client.session.send_request(subscribe, EmptyResult)
        with (program.folder / "read me.md").open("a") as file:
            file.write(f"{revision}\n")
        event = await told.get()
        assert isinstance(event, ResourceUpdatedNotification)


def test_the_legacy_transport_is_off_by_default(tmp_path: Path) -> None:
    with serving(tmp_path) as program:
        assert program.ask(request("GET", path="/sse")).status == 404
        assert program.ask(request("POST", path="/messages?session=x")).status == 404


def test_the_address_for_posts_keeps_the_prefix_of_the_public_url(tmp_path: Path) -> None:
    # A proxy may strip `/team/docs` from the path, or not.
    url = "https://files.example.org/team/docs/mcp"
    with serving(tmp_path, "--legacy-sse", http=f"{{url: '{url}'}}") as program:
        for path in ("/sse", "/team/docs/sse", "/team/docs/sse/"):
            with program.line() as line:
                line.ask(request("GET", path=path, accept="text/event-stream"))
                posts = line.event().data
                assert posts.startswith("/team/docs/messages?session=")
                for each in (posts, posts.removeprefix("/team/docs")):
                    assert post(program, each, message("ping")) == 202
        answered = program.ask(request("POST", initialize("2025-11-25"), path="/team/docs/mcp"))
        assert answered.status == 200


def test_all_responses_come_on_the_stream(program: Program) -> None:
    with program.line() as line:
        path = opened(line)
        for body in (
            initialize("2024-11-05", "i"),
            notification("notifications/initialized"),
            read(GATE + "legacy", "late"),
            read(README, "soon"),
        ):
            assert post(program, path, body) == 202
        program.waiting("legacy")
        program.read(OPEN + "legacy")
        assert [line.event().json["id"] for _ in range(3)] == ["i", "soon", "late"]
        # Equal messages are answered twice.
        for _ in range(2):
            assert post(program, path, b"{") == 202
        assert [line.event().json["error"]["code"] for _ in range(2)] == [-32700] * 2


def test_requests_are_cancelled_when_their_stream_ends(program: Program) -> None:
    with program.line() as line:
        path = opened(line)
        post(program, path, initialize("2024-11-05"))
        post(program, path, read(GATE + "gone", 2))
        program.waiting("gone")
    program.until(lambda: program.read(STATE + "gone") == "0 waiting 0 read 1 cancelled")
    assert post(program, path, message("ping")) == 404


def test_invalid_posts_are_refused_as_at_the_endpoint(program: Program) -> None:
    with program.line() as line:
        path = opened(line)
        assert post(program, path, b" " * (BODY + 1)) == 413
        assert post(program, path, message("ping"), content_type="text/plain") == 415
        assert post(program, path, message("ping"), origin="https://evil.example") == 403
        assert post(program, path, message("ping"), host="evil.example") == 421
        for other in ("/messages", "/messages?session=", "/messages?session=x", f"{path}x"):
            assert post(program, other, message("ping")) == 404
        assert post(program, path, message("ping", id="p")) == 202
        assert line.event().json == {"jsonrpc": "2.0", "id": "p", "result": {}}


def test_invalid_streams_are_refused_as_at_the_endpoint(program: Program) -> None:
    for headers, status in (
        ({"accept": "application/json"}, 406),
        ({"origin": "null"}, 403),
        ({"host": "evil.example"}, 421),
    ):
        assert program.ask(request("GET", path="/sse", **headers)).status == status
    for method, path, allowed in (("POST", "/sse", "GET"), ("GET", "/messages", "POST")):
        refused = program.ask(request(method, path=path))
        assert (refused.status, refused.headers["allow"]) == (405, allowed)
    with program.lines(20) as lines:
        for line in lines:
            opened(line)
        refused = program.ask(request("GET", path="/sse"))
        assert (refused.status, refused.headers["retry-after"]) == (503, "60")


def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--legacy-sse", timing={"slow_reader_timeout_s": 0.5}) as program,
        program.line(receive=4096) as line,
    ):
        path = opened(line)
        post(program, path, initialize("2024-11-05"))
        before = program.memory()
        statuses: list[int] = []
        while 404 not in statuses:
            statuses.append(post(program, path, read(LARGE, len(statuses) + 2)))
            assert program.memory() - before < 60 << 20
        assert 1 <= statuses.count(202) < 20


def test_a_waiting_message_does_not_outlive_its_client(tmp_path: Path) -> None:
    code = (
        "from resource_server.transports.http.app import bodies; bodies.MAX_TOTAL_BYTES = 1_000_000"
    )
    padding = {"padding": "x" * 600_000}
    with (
        serving(tmp_path, "--legacy-sse", code=code) as program,
        program.line(receive=4096) as line,
    ):
        path = opened(line)
        post(program, path, initialize("2024-11-05"))
        # The system buffers part of the first response, and the second waits.
        for id in (2, 3):
            assert post(program, path, read(LARGE, id)) == 202
        with program.line() as other:
            other.send(request("POST", message("ping", padding), path=path))
            program.has_read(other)
            assert asked(program, padding) == 503
        program.until(lambda: asked(program, padding) == 200)


def asked(program: Program, params: dict[str, str]) -> int:
    return program.ask(modern("resources/read", {"uri": README, **params})).status


def test_a_stream_ends_with_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, "--legacy-sse") as program, program.line() as line:
        path = opened(line)
        post(program, path, initialize("2024-11-05"))
        line.event()
        assert program.end(signal.SIGTERM) == 0
        assert line.events() == []
        assert program.errors == []
