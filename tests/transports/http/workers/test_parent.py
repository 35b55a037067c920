"""The parent of workers: their start, their deaths, and the end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cases import for_each
from tests.commands import command
from tests.transports.http.server.test_uvicorn_server import listen
from tests.transports.http.workers.crews import (
    PID,
    crew,
    is_alive,
    line_to_each,
    worker_of,
    workers,
    write,
)
from tests.transports.phone import callee
from tests.transports.program import (
    README,
    Program,
    RawConnection,
    modern,
    read,
)
from tests.waiting import PATIENCE_S, block_until


def outcome(*arguments: object) -> tuple[int, Sequence[str]]:
    """Run a command that is refused; return its status and what it prints."""
    asked = [*command(), "serve", *map(str, arguments), "--workers", "3"]
    found = subprocess.run(
        asked, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
    )
    return found.returncode, found.stderr.splitlines()


def ended(line: RawConnection) -> bool:
    """Return whether a connection ends, without a whole answer."""
    try:
        while line.socket.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def test_a_port_that_is_taken_is_one_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, lines = outcome(write(tmp_path), "--http", address)
    assert status == 1
    assert lines == [f"resource-server: cannot listen on {address}: Address already in use"]


_ENDED_AT_ITS_START = """
import os, signal, socket
from resource_server.runtime.timing import DEFAULT_TIMING
from resource_server.transports.http.workers.parent import Parent

def serve(worker):
    if worker.number == 0:
        worker.ready()
    else:
        os.kill(os.getppid(), signal.SIGTERM)
    signal.pause()

def started():
    print("started")

listening = socket.create_server(("127.0.0.1", 0))
Parent(2, listening, serve, started=started, report=print, timing=DEFAULT_TIMING).run()
"""


def test_a_server_that_is_ended_at_its_start_tells_no_address() -> None:
    asked = [sys.executable, "-c", _ENDED_AT_ITS_START]
    found = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert found.stdout + found.stderr == ""


@for_each(
    "http, arguments, status, reason",
    [
        ("{paht: 1}", ("--http", "127.0.0.1:0"), 2, "paht"),
        ("{}", ("--http", "0.0.0.0:0"), 1, "refused to listen"),
        ("{limits: {sessions: 2}}", ("--http", "127.0.0.1:0"), 1, "http.limits.sessions is 2"),
        ("{}", ("--http", "127.0.0.1:0", "--tls-cert", __file__), 1, "certificate"),
    ],
)
def test_what_one_process_refuses_is_refused_once(
    tmp_path: Path, http: str, arguments: Sequence[str], status: int, reason: str
) -> None:
    place = tmp_path / str(len(list(tmp_path.iterdir())))
    place.mkdir()
    found, lines = outcome(write(place, http), *arguments)
    assert (found, len(lines)) == (status, 1), lines
    assert reason in lines[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_server_tells_its_address_once_and_ends_by_one_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    asked = [*command(), "serve", str(write(tmp_path)), "--http", "127.0.0.1:0", "--workers", "3"]
    with subprocess.Popen(asked, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(number)
        rest = process.stderr.read()
    assert re.fullmatch(r"resource-server: serving at http://127.0.0.1:\d+/mcp\n", first)
    assert (process.returncode, rest) == (0, "")


def test_a_terminal_interrupts_parent_and_workers_and_requests_finish(tmp_path: Path) -> None:
    with crew(tmp_path) as program, callee() as called, program.line() as line:
        line.send(modern("resources/read", {"uri": called.uri}))
        called.wait()
        for pid in (*workers(program), program.process.pid):
            os.kill(pid, signal.SIGINT)
        called.answer("at last")
        assert "at last" in line.answer().body.decode()
        assert program.end() == 0
        assert program.errors == []


def test_streams_end_and_requests_finish_at_the_end(tmp_path: Path) -> None:
    with crew(tmp_path) as program, callee() as called, ExitStack() as stack:
        sessions = [program.session() for _ in range(4)]
        streams = [stack.enter_context(session.stream()) for session in sessions]
        listening = stack.enter_context(program.line())
        listen(listening, "mine")
        lines = [stack.enter_context(program.line()) for _ in sessions]
        for session, line in zip(sessions, lines, strict=True):
            line.send(session.request("POST", read(called.uri)))
        called.wait(4)
        program.process.send_signal(signal.SIGTERM)
        assert [event.json["id"] for event in listening.events()] == ["mine"]
        called.answer("at last")
        for line in lines:
            answer = line.answer()
            found = answer.json if answer.body else line.event().json
            assert found["result"]["contents"][0]["text"] == "at last"
        assert [stream.events() for stream in streams] == [[]] * 4
        assert program.end() == 0
        assert program.errors == []


def test_a_killed_worker_is_replaced_and_its_clients_see_the_end(tmp_path: Path) -> None:
    with crew(tmp_path) as program, callee() as called, ExitStack() as stack:
        by_pid = stack.enter_context(line_to_each(program))
        victim, other = by_pid
        lines = {
            name: stack.enter_context(_line_to(program, victim))
            for name in ("read", "tool", "listen", "idle")
        }
        lines["read"].send(modern("resources/read", {"uri": called.uri}))
        arguments = {"name": "read_resource", "arguments": {"uri": called.uri}}
        lines["tool"].send(modern("tools/call", arguments, mcp_name="read_resource"))
        called.wait(2)
        listen(lines["listen"])
        waiting = stack.enter_context(callee())
        by_pid[other].send(modern("resources/read", {"uri": waiting.uri}))
        waiting.wait()
        os.kill(victim, signal.SIGKILL)
        assert all(map(ended, lines.values()))
        waiting.answer("untouched")
        assert "untouched" in by_pid[other].answer().body.decode()
        block_until(lambda: len(workers(program) - {victim}) == 2)
        with line_to_each(program) as again:
            assert victim not in again
            assert other in again
        block_until(lambda: program.errors)
        assert "ended by signal 9; the next one starts in 0.1 s" in program.errors[0]


def _line_to(program: Program, pid: int) -> RawConnection:
    """Return a connection that a process has."""
    found: list[RawConnection] = []

    def is_there() -> bool:
        line = program.line()
        if worker_of(line) == pid:
            found.append(line)
        else:
            line.socket.close()
        return bool(found)

    block_until(is_there)
    return found[0]


def test_a_worker_that_cannot_start_is_tried_less_and_less_often(tmp_path: Path) -> None:
    with crew(tmp_path) as program:
        manifest = tmp_path / "mcp-resources.yaml"
        good = manifest.read_text()
        manifest.write_text("roots: [")
        with line_to_each(program) as lines:
            victim, other = lines
            os.kill(victim, signal.SIGKILL)
            block_until(lambda: len(pauses(program)) >= 5)
            assert pauses(program)[:5] == ["0.1", "0.2", "0.4", "0.4", "0.4"]
            assert worker_of(lines[other]) == other
        manifest.write_text(good)
        with line_to_each(program) as lines:
            assert victim not in lines


def pauses(program: Program) -> Sequence[str]:
    found = (re.search(r"the next one starts in (\S+) s", line) for line in [*program.errors])
    return [each[1] for each in found if each]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_no_worker_outlives_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    with crew(tmp_path) as program, program.line() as line:
        listen(line)
        pids = workers(program)
        assert len(pids) == 2
        program.process.send_signal(number)
        block_until(lambda: not any(map(is_alive, pids)))
        [last] = [event.json for event in line.events()]
        assert last["result"]["resultType"] == "complete"
        with socket.create_server(("127.0.0.1", program.port)):
            pass  # nobody listens any more


def test_a_worker_that_does_not_end_is_killed(tmp_path: Path) -> None:
    times = {"shutdown_timeout_s": 0.1, "mount_close_s": 0.1}
    with crew(tmp_path, timing=times) as program:
        stuck, *_ = workers(program)
        os.kill(stuck, signal.SIGSTOP)
        assert program.end(signal.SIGTERM) == 1
        assert not is_alive(stuck)
        assert ["did not end in time, and is killed" in line for line in program.errors] == [True]


def test_a_demonstration_outlives_its_workers_and_ends_with_their_parent(tmp_path: Path) -> None:
    asked = [*command(), "serve", "--demo", "--http", "127.0.0.1:0", "--workers", "2"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(asked, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        assert "serving at" in process.stderr.readline()
        [folder] = tmp_path.glob("resource-server-demo-*")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        os.kill(int(children.read_text().split()[0]), signal.SIGTERM)
        assert "ended with 0" in process.stderr.readline()
        assert (folder / "shop" / "shop.db").exists()
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert not list(tmp_path.iterdir())


def test_every_worker_serves_a_changed_manifest_which_is_told_once(tmp_path: Path) -> None:
    with crew(tmp_path) as program, line_to_each(program) as lines:
        manifest = tmp_path / "mcp-resources.yaml"
        (tmp_path / "more").mkdir()
        (tmp_path / "more" / "a.md").write_text("more")
        asked = modern("resources/read", {"uri": "file:///more/a.md"})
        manifest.write_text(
            manifest.read_text().replace("roots: {", "roots: {more: {path: more}, ")
        )
        for line in lines.values():
            block_until(lambda: "error" not in line.ask(asked).json)  # noqa: B023
        assert program.end(signal.SIGTERM) == 0
        assert program.errors == ["resource-server: the manifest was reloaded: added more\n"]


def test_the_access_log_has_whole_lines_of_all_workers(tmp_path: Path) -> None:
    with crew(tmp_path, "--access-log") as program, line_to_each(program) as lines:
        for pid, line in lines.items():
            assert worker_of(line) == pid
            assert "result" in line.ask(modern("resources/read", {"uri": README})).json
            assert "result" in line.ask(modern("tools/list")).json
        for line in lines.values():
            line.socket.close()
        assert program.end(signal.SIGTERM) == 0
        assert all(line.startswith("{") and line.endswith("}\n") for line in program.errors)
        assert PID not in "".join(program.errors)
