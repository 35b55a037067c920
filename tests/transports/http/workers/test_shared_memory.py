"""Memory that workers share: states that deaths leave whole, and rates that all count."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from resource_server.transports.http.workers.shared_memory import SharedMemory
from tests.transports.http.workers.crews import crew, line_to_each
from tests.transports.program import initialize, modern, request
from tests.waiting import block_until


def in_a_process(work: Callable[[], object]) -> int:
    """Do something in a process of its own; return its status."""
    pid = os.fork()
    if not pid:
        try:
            os._exit(int(not work()))
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_state_is_what_its_worker_has_shown_last() -> None:
    memory = SharedMemory(3)
    assert memory.state(1) == b""
    for state in (b"first", b"", b"x" * (1 << 20)):
        assert in_a_process(lambda: memory.publish(1, state)) == 0  # noqa: B023
        assert memory.state(1) == state
    assert not memory.publish(1, b"x" * ((1 << 20) + 1))
    assert memory.state(1) == b"x" * (1 << 20)
    assert (memory.state(0), memory.state(2)) == (b"", b"")


def test_processes_count_the_requests_of_a_caller_together() -> None:
    memory = SharedMemory(2)

    def takes(caller: str | None, count: int) -> Callable[[], object]:
        def take() -> bool:
            limiter = memory.rate_limiter("requests", 0.001, 5)
            return sum(not limiter.take(caller) for _ in range(10)) == count

        return take

    assert in_a_process(takes("anna", 5)) == 0
    assert in_a_process(takes("anna", 0)) == 0
    assert in_a_process(takes("ben", 5)) == 0
    assert in_a_process(takes(None, 5)) == 0
    other = memory.rate_limiter("refusals", 0.001, 5)
    assert not other.take("anna")


def test_many_callers_displace_only_those_whose_bucket_is_full_first() -> None:
    limiter = SharedMemory(1).rate_limiter("requests", 1.0, 5)
    limiter.charge("busy", 1_000_000)
    for number in range(50_000):
        limiter.take(f"caller {number}")
    assert limiter.take("busy") > 0


def test_no_caller_gets_more_than_the_rate_at_all_workers_together(tmp_path: Path) -> None:
    with crew(tmp_path, http="{limits: {rate: 1/h, burst: 40}}") as program:
        lists = modern("resources/list")
        with line_to_each(program) as lines:
            allowed = 40
            for line in [*lines.values()] * 30:
                allowed -= line.ask(lists).status == 200
            assert 0 <= allowed < 40
            assert {line.ask(lists).status for line in lines.values()} == {429}


def test_all_workers_together_have_no_more_sessions_than_the_limit(tmp_path: Path) -> None:
    asked = request("POST", initialize("2025-06-18"))
    with crew(tmp_path, http="{limits: {sessions: 5}}") as program:
        with line_to_each(program) as lines:
            shares = [
                sum(line.ask(asked).status == 200 for _ in range(6)) for line in lines.values()
            ]
        assert sorted(shares) == [2, 3]
        block_until(lambda: program.ask(asked).status == 503)


def test_a_state_is_whole_while_its_worker_shows_others() -> None:
    memory = SharedMemory(1)
    memory.publish(0, b"")
    states = [letter * 500_000 for letter in (b"a", b"b", b"c")]
    pid = os.fork()
    if not pid:
        while True:
            for state in states:
                memory.publish(0, state)
    try:
        block_until(lambda: memory.state(0))
        for _ in range(500):
            state = memory.state(0)
            assert state == state[:1] * 500_000
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
