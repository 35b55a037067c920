"""Rate limits per caller."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from tests.transports.program import Program, message, modern, request, serving

# The hundred requests of the burst take 1000 s to come back.
start_program = partial(serving, http="{limits: {rate: 0.1, burst: 100}}")


def test_a_client_over_the_rate_is_429_with_retry_after(program: Program) -> None:
    with program.line() as line:
        answers = [line.ask(modern("server/discover")) for _ in range(103)]
    assert [each.status for each in answers] == [200] * 100 + [429] * 3
    refused = answers[-1]
    assert 1 <= int(refused.headers["retry-after"]) <= 10
    assert refused.code == -32012
    # Another connection has the same caller, and health checks have no limit.
    assert program.ask(request("GET")).status == 429
    assert program.ask(request("GET", path="/healthz")).status == 200


def test_each_message_of_a_batch_counts_against_the_rate(tmp_path: Path) -> None:
    http = "{limits: {rate: 0.1, burst: 100}}"
    with serving(tmp_path, http=http) as program:
        session = program.session("2025-03-26")
        batch = [message("ping", id=number) for number in range(80)]
        with program.line() as line:
            # It is answered whole, and its client waits longer afterwards.
            assert [line.ask(session.request("POST", batch)).status for _ in range(3)] == [
                *(200, 200),
                429,
            ]
            refused = line.ask(session.request("POST", message("ping")))
            assert refused.status == 429
            assert int(refused.headers["retry-after"]) > 500


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has 127.0.0.2 at once")
def test_tool_calls_without_a_token_count_by_address(tmp_path: Path) -> None:
    # Patched, since the program has no option for these limits.
    few = (
        "import functools; from resource_server.protocol import server; "
        "server.ServerLimits = functools.partial("
        "server.ServerLimits, tool_calls_per_s=0.001, tool_call_burst=1)"
    )
    asked: dict[str, object] = {"name": "list_resources", "arguments": {}}
    with serving(tmp_path, code=few) as program:

        def is_refused(source: str) -> bool:
            with program.line(source=source) as line:
                called = line.ask(modern("tools/call", asked, mcp_name="list_resources"))
            return bool(called.json["result"].get("isError"))

        assert [is_refused(f"127.0.0.{last}") for last in (1, 2, 1)] == [False, False, True]
        # Calls in a session count by address, too.
        assert program.session().post(message("tools/call", asked)).json["result"]["isError"]


def test_there_is_no_rate_limit_by_default(tmp_path: Path) -> None:
    with serving(tmp_path) as program, program.line() as line:
        assert {line.ask(modern("server/discover")).status for _ in range(1000)} == {200}
