"""Fair eviction: no owner of many sessions or streams keeps others out."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.transports.http.sse.stream_limits import larger_owner
from tests.transports.program import (
    Answer,
    Program,
    RawConnection,
    initialize,
    message,
    modern,
    request,
    serving,
)

ANN, BOB = "ann-0123456789abcdef", "bob-0123456789abcdef"
FEW = (
    f"{{limits: {{sessions: 4, streams: 4}}, auth: {{tokens: [{{token: {ANN}, subject: ann}}, "
    f"{{token: {BOB}, subject: bob}}]}}}}"
)


@pytest.fixture
def program(tmp_path: Path) -> Generator[Program]:
    with serving(tmp_path, "--legacy-sse", http=FEW) as run:
        yield run


def bearer(token: str) -> str:
    return f"Bearer {token}"


def opened(program: Program, token: str) -> Answer:
    """Try to begin a session."""
    return program.ask(request("POST", initialize("2025-11-25"), authorization=bearer(token)))


def begun(program: Program, token: str) -> dict[str, str]:
    """Begin a session; return the headers of its requests."""
    answer = opened(program, token)
    assert answer.status == 200
    return {"authorization": bearer(token), "mcp_session_id": answer.headers["mcp-session-id"]}


def pinged(program: Program, headers: dict[str, str]) -> int:
    return program.ask(request("POST", message("ping"), **headers)).status


def listened(line: RawConnection, token: str) -> int:
    """Try to listen; return the status."""
    asked = {"notifications": {"resourcesListChanged": True}}
    answer = line.ask(modern("subscriptions/listen", asked, authorization=bearer(token)))
    if answer.status == 200:
        line.event()
    else:
        assert (answer.status, answer.headers["retry-after"]) == (503, "60")
    return answer.status


def test_an_owner_of_all_sessions_loses_some_to_one_without(program: Program) -> None:
    ann = [begun(program, ANN) for _ in range(4)]
    assert [pinged(program, each) for each in ann[:2]] == [200, 200]
    # The least recently used: the third, and then the fourth.
    bob = [begun(program, BOB) for _ in range(2)]
    assert [pinged(program, each) for each in (*ann, *bob)] == [200, 200, 404, 404, 200, 200]
    # Now both have as many, and neither loses another.
    for token in (ANN, BOB):
        refused = opened(program, token)
        assert (refused.status, refused.headers["retry-after"]) == (503, "60")


def test_an_idle_session_is_evicted_before_one_in_use(program: Program) -> None:
    ann = [begun(program, ANN) for _ in range(4)]
    with program.line() as line:
        assert line.ask(request("GET", **ann[0])).status == 200
        line.event()
        begun(program, BOB)
        assert [pinged(program, each) for each in ann] == [200, 404, 200, 200]


def test_an_owner_of_all_streams_loses_some_to_one_without(program: Program) -> None:
    session = begun(program, ANN)
    with program.lines(4) as ann, program.lines(3) as bob:
        listened(ann[0], ANN)
        assert ann[1].ask(request("GET", **session)).status == 200
        ann[1].event()
        old = ann[2].ask(request("GET", path="/sse", authorization=bearer(ANN)))
        assert old.status == 200
        listened(ann[3], ANN)
        assert [listened(line, BOB) for line in bob] == [200, 200, 503]
        # The oldest have ended in the regular way.
        for line in ann[:2]:
            line.events()
        assert [listened(ann[0], ANN), listened(bob[2], BOB)] == [503, 503]
        ann[3].socket.close()
        program.until(lambda: listened(bob[2], BOB) == 200)
        # And its owner can open it again.
        bob[0].socket.close()
        program.until(lambda: ann[1].ask(request("GET", **session)).status == 200)


def test_a_legacy_stream_is_evicted_too(
    program: Program,
) -> None:
    with program.lines(4) as ann, program.line() as bob:
        for line in ann:
            opened = line.ask(request("GET", path="/sse", authorization=bearer(ANN)))
            assert opened.status == 200
        assert listened(bob, BOB) == 200
        assert [event.name for event in ann[0].events()] == ["endpoint"]


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 8))
def test_no_refused_owner_has_two_fewer_than_another(asking: list[str], most: int) -> None:
    held: list[str] = []
    for owner in asking:
        if len(held) == most:
            largest = larger_owner(owner, held)
            if largest is None:
                continue
            assert held.count(largest) == max(map(held.count, held))
            held.remove(largest)
        held.append(owner)
        assert len(held) <= most
    refused = [owner for owner in "abc" if len(held) == most and larger_owner(owner, held) is None]
    for owner in refused:
        assert held.count(owner) + 1 >= max(map(held.count, held))
