"""The access log: one line per request, without contents, tokens or URIs."""

from __future__ import annotations

import datetime
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from resource_server.transports.http.observability.access_log import subject_digest
from tests.transports.phone import callee
from tests.transports.program import (
    README,
    Program,
    message,
    modern,
    project,
    read,
    request,
    running,
)

GIVEN = "0123456789abcdef"
GUARDED = f"{{auth: {{tokens: [{{token: {GIVEN}, subject: ada@example.org}}]}}}}"
BEARER = {"authorization": f"Bearer {GIVEN}"}
MEMBERS = "time address subject method mount tool status code ms bytes".split()


def logged(program: Program) -> list[Any]:
    """End the program, and return its log records."""
    assert program.end(signal.SIGTERM) == 0
    return [json.loads(line) for line in program.errors if line.startswith("{")]


def test_each_request_is_one_line(tmp_path: Path) -> None:
    with running(project(tmp_path), "--access-log") as program:
        begun = datetime.datetime.now(datetime.UTC) - datetime.timedelta(milliseconds=1)
        answer = program.ask(modern("resources/read", {"uri": README}))
        program.ask(modern("resources/read", {"uri": "file:///project/none"}))
        program.ask(modern("resources/read", {"uri": "file:///elsewhere/none"}))
        session = program.session()
        session.post([read(README)])
        with session.stream():
            pass
        program.ask(request("GET", path="/no/such/place"))
        lines = logged(program)
    assert [list(line) for line in lines] == [MEMBERS] * len(lines)
    told = [tuple(line[name] for name in ("method", "mount", "status", "code")) for line in lines]
    assert sorted(told, key=str) == sorted(
        [
            ("resources/read", "project", 200, None),
            ("resources/read", "project", 400, -32602),
            ("resources/read", None, 400, -32602),
            ("initialize", None, 200, None),
            ("notifications/initialized", None, 202, None),
            ("batch", None, 400, -32600),
            ("GET", None, 200, None),
            ("GET", None, 404, -32600),
        ],
        key=str,
    )
    first = lines[0]
    assert begun <= datetime.datetime.fromisoformat(first["time"])
    assert (first["address"], first["subject"]) == ("127.0.0.1", None)
    assert first["bytes"] == len(answer.body)
    assert first["ms"] > 0


def test_a_called_tool_is_named_without_its_arguments(tmp_path: Path) -> None:
    with running(project(tmp_path), "--access-log") as program:
        for name in ("search_resources", "no such\ntool"):
            program.ask(modern("tools/call", {"name": name, "arguments": {"query": "needle"}}))
        lines = logged(program)
    assert [(line["method"], line["tool"]) for line in lines] == [
        ("tools/call", "search_resources"),
        ("tools/call", None),
    ]
    assert "needle" not in str(lines)


def test_a_client_that_left_has_no_status(tmp_path: Path) -> None:
    with running(project(tmp_path), "--access-log") as program, callee() as called:
        with program.line() as leaving:
            leaving.send(modern("resources/read", {"uri": called.uri}))
            called.wait()
        program.until(lambda: any(line.startswith("{") for line in program.errors))
        [line] = logged(program)
        assert (line["mount"], line["status"], line["bytes"]) == ("phone", None, 0)


@pytest.mark.guarantee("tokens-are-verified")
def test_a_subject_is_a_digest_and_no_token_or_uri_is_logged(tmp_path: Path) -> None:
    with running(project(tmp_path, GUARDED), "--access-log", "-vv") as program:
        asked = {"uri": f"{README}?lines=1-1"}
        program.ask(modern("resources/read", asked, **BEARER))
        program.ask(modern("resources/read", asked))
        program.ask(
            modern("resources/read", asked, authorization="Bearer another-one-that-is-wrong")
        )
        program.ask(request("POST", message("a method\n{}"), **BEARER))
        program.ask(request("GET", path="/secret-place?token=1", host="secret-host"))
        lines = logged(program)
        everything = "".join(program.errors)
    assert [line["subject"] for line in lines] == [
        subject_digest("ada@example.org"),
        None,
        None,
        subject_digest("ada@example.org"),
        None,
    ]
    assert [line["status"] for line in lines] == [200, 401, 401, 400, 404]
    for secret in (GIVEN, "another-one", "ada@", "read%20me", "lines=", "a method", "secret-"):
        assert secret not in everything


def test_the_address_is_that_of_a_trusted_proxy_s_client(tmp_path: Path) -> None:
    trusted = ("--forwarded-allow-ips", "127.0.0.1")
    with running(project(tmp_path), "--access-log", *trusted) as program:
        program.ask(modern("server/discover", x_forwarded_for="192.0.2.7"))
        [line] = logged(program)
    assert line["address"] == "192.0.2.7"


def test_other_messages_stay_as_they_are(tmp_path: Path) -> None:
    gone = "databases: {late: {url: 'sqlite:///late.db'}}\n"
    with running(project(tmp_path, more=gone), "--access-log") as program:
        program.until(lambda: bool(program.errors))
        assert logged(program) == []
        assert program.errors[0].startswith("resource-server: warning: mount late is unavailable")


def test_the_access_log_is_off_by_default(tmp_path: Path) -> None:
    with running(project(tmp_path), "-vv") as program:
        program.read(README)
        assert logged(program) == []
