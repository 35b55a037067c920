"""`audit verify`, and records that `serve` writes."""

from __future__ import annotations

import json
import resource
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.audit.records import events, lines, verdict
from tests.cli.conftest import INITIALIZE, Run, serve
from tests.transports.program import modern, project, read, request, running
from tests.waiting import block_until

README = "file:///project/read%20me.md"
_AUTH = (
    "{auth: {tokens: [{token: token-of-ada-0123456789abcdef, subject: ada, scopes: [read]}, "
    "{token: token-of-eve-0123456789abcdef, subject: eve, scopes: [audit]}]}}"
)
SOON = {"audit_settle_s": 0.0, "audit_retry_s": 0.05}
_RECORD = "audit: {file: audit.jsonl, access: {scopes: [audit]}}\n"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return project(tmp_path, more=_RECORD)


def _requests(manifest: Path, count: int) -> list[dict[str, Any]]:
    """Wait until so many requests are recorded, and return all."""
    path = manifest.parent / "audit.jsonl"
    block_until(lambda: path.read_bytes().count(b'"method"') >= count)
    return [each for each in lines(path) if "method" in each]


def _read(manifest: Path) -> None:
    status, answers, errors = serve(manifest, messages=(INITIALIZE, read(README, 2)))
    assert (status, errors) == (0, "")
    assert "result" in answers[1]


def test_a_read_over_stdio_is_recorded(manifest: Path, run: Run) -> None:
    _read(manifest)
    path = manifest.parent / "audit.jsonl"
    started, line, ended = lines(path)
    assert (started["event"], ended["event"]) == ("started", "ended")
    assert (line["uri"], line["decision"]) == (README, "served")
    assert "address" not in line["client"]
    status, out, err, _ = run("audit", "verify", str(path))
    assert (status, err) == (0, "")
    assert out.startswith("audit.jsonl: whole: 3 lines follow each other in 1 file, from 20")


@pytest.mark.guarantee("record-is-chained")
def test_verify_says_where_a_record_was_changed(manifest: Path, run: Run) -> None:
    _read(manifest)
    path = manifest.parent / "audit.jsonl"
    path.write_bytes(path.read_bytes().replace(b"served", b"failed"))
    status, out, _, _ = run("audit", "verify", str(path))
    assert status == 1
    assert out == (
        "audit.jsonl: BROKEN: line 3 of audit.jsonl does not follow the line before: one of the "
        "two was changed, or lines between them are missing; 2 lines follow each other before it\n"
    )
    status, out, _, _ = run("audit", "verify", str(path), "--json")
    found = json.loads(out)
    assert status == 1
    assert (found["record"], found["break_file"], found["break_line"]) == (
        "audit.jsonl",
        "audit.jsonl",
        3,
    )


def test_verify_shows_no_control_character_of_a_changed_record(manifest: Path, run: Run) -> None:
    _read(manifest)
    path = manifest.parent / "audit.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"time":"2', b'"time":"\\u001b[31m2'))
    _, out, _, _ = run("audit", "verify", str(path))
    assert "\x1b" not in out


def test_a_missing_file_is_an_error_of_usage(tmp_path: Path, run: Run) -> None:
    status, _, err, _ = run("audit", "verify", str(tmp_path / "none.jsonl"))
    assert status == 2
    assert "does not exist" in err
    assert run("audit", "verify").status == 2
    assert run("audit", "rotate", str(tmp_path)).status == 2


@pytest.mark.guarantee("reads-are-recorded")
def test_a_record_that_cannot_be_written_is_an_error_at_the_start(manifest: Path, run: Run) -> None:
    path = manifest.parent / "audit.jsonl"
    path.mkdir()
    status, _, err, _ = run("serve", str(manifest))
    assert status == 2
    assert err == (f"{manifest}:4:15: audit.file: audit.jsonl cannot be written: is a directory\n")


def test_each_kind_of_caller_over_http_has_lines(tmp_path: Path) -> None:
    manifest = project(tmp_path, _AUTH, _RECORD)
    with running(manifest, timing=SOON) as program:

        def ask(who: str, uri: str) -> dict[str, object]:
            token = {"authorization": f"Bearer token-of-{who}-0123456789abcdef"}
            return program.ask(modern("resources/read", {"uri": uri}, **token)).json

        assert "result" in ask("ada", README)
        assert "error" in ask("ada", "activity://server/recent")
        text = json.dumps(ask("eve", "activity://server/recent"))
        assert README in text
        assert program.ask(request("POST", {}, path="/mcp")).status == 401
        found = _requests(manifest, 3)
    assert [each["subject"] for each in found] == ["ada", "ada", "eve"]
    assert [each["decision"] for each in found] == ["served", "not found", "served"]
    assert {each["client"]["address"] for each in found} == {"127.0.0.1"}
    assert "token-of" not in (tmp_path / "audit.jsonl").read_text()


def test_without_tokens_nobody_sees_the_activity_over_http(manifest: Path) -> None:
    with running(manifest, timing=SOON) as program:
        answer = program.ask(modern("resources/read", {"uri": "activity://server/recent"})).json
        assert "error" in answer


def test_sessions_and_the_explorer_are_recorded(manifest: Path) -> None:
    with running(manifest, timing=SOON) as program:
        program.session("2025-06-18").post(read(README))
        page = request("GET", path=f"/explore/{README}", accept="text/html")
        assert program.ask(page).status == 200
        found = _requests(manifest, 3)
    assert [each["client"]["name"] for each in found if each.get("uri") == README][:1] == ["tests"]
    pages = [each for each in found if each["client"]["name"] == "explorer"]
    assert {"resources/metadata", "resources/read"} <= {each["method"] for each in pages}
    assert {each["client"]["address"] for each in found} == {"127.0.0.1"}


def test_sixteen_clients_at_once_have_a_whole_record(manifest: Path) -> None:
    with running(manifest, timing=SOON) as program:

        def client() -> None:
            with program.line() as line:
                for _ in range(50):
                    assert line.ask(modern("resources/read", {"uri": README})).status == 200

        threads = [threading.Thread(target=client) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = _requests(manifest, 800)
    path = manifest.parent / "audit.jsonl"
    assert sum(each["uri"] == README for each in found) == 800
    assert verdict(path).problem is None


@pytest.mark.guarantee("reads-are-recorded")
def test_a_killed_server_leaves_a_record_that_the_next_continues(manifest: Path, run: Run) -> None:
    path = manifest.parent / "audit.jsonl"
    with running(manifest, timing=SOON) as program:
        program.read(README)
        block_until(lambda: README in path.read_text())
        program.process.kill()
        program.process.wait()
    _read(manifest)
    assert events(path) == ["started", "started", "ended"]
    assert run("audit", "verify", str(path)).status == 0


@pytest.mark.guarantee("reads-are-recorded")
def test_workers_have_a_file_each(manifest: Path, run: Run) -> None:
    paths = [manifest.parent / name for name in ("audit.jsonl", "audit.2.jsonl")]
    with running(manifest, "--workers", "2", timing=SOON) as program:
        for _ in range(20):
            program.read(README)
        block_until(lambda: sum(path.read_text().count(README) for path in paths) == 20)
    status, out, _, _ = run("audit", "verify", *map(str, paths))
    assert status == 0
    assert out.count("whole") == 2


@pytest.mark.guarantee("reads-are-recorded")
def test_a_full_disk_refuses_reads_until_there_is_room(tmp_path: Path) -> None:
    more = "audit: {file: audit.jsonl, on_error: refuse}\n"
    manifest = project(tmp_path, more=more)
    path = tmp_path / "audit.jsonl"
    with running(manifest, timing=SOON) as program:
        program.read(README)
        pid = program.process.pid
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (path.stat().st_size + 10_000, -1))
        answer = {"result": None}
        while "result" in answer:
            answer = program.ask(modern("resources/read", {"uri": README})).json
        assert answer["error"] == {
            "code": -32012,
            "message": "Refused: the record of reads cannot be written (file too large), "
            "and none goes without",
            "data": {"retryable": True},
        }
        ready = program.ask(request("GET", path="/readyz"))
        assert ready.status == 503
        assert ready.json["audit"] == "file too large"
        metrics = program.ask(request("GET", path="/metrics")).body.decode()
        assert "resource_server_audit_failing 1.0" in metrics
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (-1, -1))
        program.until(
            lambda: "result" in program.ask(modern("resources/read", {"uri": README})).json
        )
        assert program.ask(request("GET", path="/readyz")).status == 200
        assert any(
            "cannot be written: file too large; requests are refused" in each
            for each in program.errors
        )
    assert verdict(path).problem is None


def test_check_says_where_reads_are_recorded(manifest: Path, run: Run) -> None:
    status, out, _, _ = run("check", str(manifest))
    assert status == 0
    assert "reads are recorded in audit.jsonl" in out
    assert "activity://server/ does not exist over HTTP without http.auth" in out


def test_other_commands_record_nothing(manifest: Path, run: Run) -> None:
    assert run("list", str(manifest)).status == 0
    assert run("read", str(manifest), README).status == 0
    assert not (manifest.parent / "audit.jsonl").exists()


def test_check_warns_of_a_record_that_cannot_be_written(manifest: Path, run: Run) -> None:
    path = manifest.parent / "audit.jsonl"
    path.symlink_to("other")
    status, out, _, _ = run("check", str(manifest))
    assert status == 0
    assert "audit.file: audit.jsonl is no regular file" in out
    path.unlink()
    path.touch()
    path.chmod(0o666)
    assert "may be written by others" in run("check", str(manifest)).out
    path.unlink()
    assert "warning" not in run("check", str(manifest)).out
    assert not path.exists()


@pytest.mark.guarantee("record-is-not-served")
def test_a_hard_link_to_the_record_is_not_served(manifest: Path) -> None:
    path = manifest.parent / "audit.jsonl"
    link = manifest.parent / "project" / "link.txt"
    with running(manifest, timing=SOON) as program:
        program.read(README)
        link.hardlink_to(path)
        (manifest.parent / "project" / "other.txt").write_text("other")
        assert program.read("file:///project/other.txt") == "other"
        answer = program.ask(modern("resources/read", {"uri": "file:///project/link.txt"}))
        assert "error" in answer.json


def test_a_change_of_the_section_needs_a_restart(manifest: Path) -> None:
    with running(manifest, timing=SOON) as program:
        text = manifest.read_text()
        manifest.write_text(text.replace("audit.jsonl", "other.jsonl"))
        program.until(lambda: any("audit has changed" in each for each in program.errors))
        program.read(README)
        assert len(_requests(manifest, 1)) == 1
    assert not (manifest.parent / "other.jsonl").exists()
