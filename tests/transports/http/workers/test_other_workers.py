"""`/metrics` and `/readyz` of several workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.transports.http.observability.monitor import get, metrics
from tests.transports.http.workers.crews import crew, line_to_each, workers
from tests.transports.program import Program, RawConnection, modern
from tests.waiting import block_until

LISTS = "resource_server_requests_total era=stateless method=resources/list outcome=ok"


def lists(line: RawConnection, times: int) -> None:
    for _ in range(times):
        assert "result" in line.ask(modern("resources/list")).json


def test_any_worker_tells_the_sums_of_all(tmp_path: Path) -> None:
    with crew(tmp_path) as program, line_to_each(program) as lines:
        for times, line in enumerate(lines.values(), start=2):
            lists(line, times)
        # Both begin sessions, and have streams.
        sessions = [program.session() for _ in range(6)]
        with sessions[0].stream(), sessions[1].stream(), sessions[2].stream():
            block_until(lambda: counted(program, LISTS) == 5)
            block_until(lambda: counted(program, "resource_server_sessions") == 6)
            block_until(lambda: counted(program, "resource_server_streams") == 3)
        block_until(lambda: counted(program, "resource_server_streams") == 0)
        buckets = "resource_server_request_seconds_bucket le=+Inf method=resources/list"
        assert counted(program, buckets) == 5
        assert counted(program, "resource_server_mount_up mount=project") == 1


def counted(program: Program, name: str) -> float:
    return metrics(program).get(name, 0)


def test_no_sum_becomes_less_when_a_worker_dies(tmp_path: Path) -> None:
    with crew(tmp_path) as program:
        with line_to_each(program) as lines:
            for line in lines.values():
                lists(line, 3)
            block_until(lambda: counted(program, LISTS) == 6)
            victim, _ = lines
            os.kill(victim, signal.SIGKILL)
            sent: list[float] = []

            def is_back() -> bool:
                found = metrics(program)
                assert found[LISTS] == 6
                sent.append(found["resource_server_sent_bytes_total"])
                return len(workers(program) - {victim}) == 2

            block_until(is_back)
            assert sent == sorted(sent)
        with line_to_each(program) as again:
            for line in again.values():
                lists(line, 1)
            block_until(lambda: counted(program, LISTS) == 8)


def test_a_server_is_ready_once_each_worker_is(tmp_path: Path) -> None:
    late = "databases: {late: {url: 'sqlite:///late.db'}}\n"
    with crew(tmp_path, more=late, timing={"mount_retry_max_s": 1.0}) as program:
        assert get(program, "/healthz").status == 200
        with line_to_each(program) as lines:
            for line in lines.values():
                block_until(lambda: "late" in ready(line))  # noqa: B023
            assert get(program, "/readyz").status == 503
            (tmp_path / "late.db").write_bytes(b"")
            block_until(lambda: get(program, "/readyz").status == 200)
            assert {str(line.ask(READY).status) for line in lines.values()} == {"200"}


READY = b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def ready(line: RawConnection) -> str:
    return line.ask(READY).body.decode()
