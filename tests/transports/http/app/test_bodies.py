"""Request bodies: bounded one by one and all together."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.transports.program import (
    GATE,
    OPEN,
    README,
    Answer,
    Program,
    RawConnection,
    modern,
    read,
    request,
    serving,
)

LONG, SMALL = 300_000, 60_000
# Patched, since the bound of all bodies is no option: nobody needs to set it.
LEAST = """
from resource_server.transports.http.app import bodies
bodies.MAX_TOTAL_BYTES = 1_000_000
"""


@contextmanager
def start_program(place: Path) -> Generator[Program]:
    with serving(place, "--legacy-sse", code=LEAST) as started:
        yield started


def padded(uri: str, size: int, id: object = 1) -> Any:
    """Return a message of about `size` bytes that reads a document."""
    message = read(uri, id)
    message["params"]["padding"] = "x" * size
    return message


def asked(program: Program, size: int) -> Answer:
    params = {"uri": README, "padding": "x" * size}
    return program.ask(modern("resources/read", params))


def is_refused(answer: Answer) -> bool:
    assert answer.status in (200, 202, 503)
    if answer.status != 503:
        return False
    assert (answer.code, answer.headers["retry-after"]) == (-32012, "1")
    assert answer.headers["connection"] == "close"
    return True


def begin(line: RawConnection, size: int) -> None:
    """Send all of a request but its last byte."""
    line.send(modern("resources/read", {"uri": README, "padding": "x" * size})[:-1])


def test_large_bodies_are_refused_while_all_bodies_are_at_their_limit(program: Program) -> None:
    with program.lines(3) as lines:
        for line in lines:
            begin(line, LONG)
        program.has_read(*lines)
        assert is_refused(asked(program, LONG))
        # Small bodies are not counted.
        with program.lines(20) as others:
            for line in others:
                begin(line, SMALL)
            assert asked(program, SMALL).status == 200
        lines[0].send(b"}")
        assert lines[0].answer().status == 200
        program.until(lambda: not is_refused(asked(program, LONG)))
    program.until(lambda: not is_refused(asked(program, 3 * LONG)))


def test_a_body_counts_until_its_request_is_answered(program: Program) -> None:
    with program.line() as line:
        params = {"uri": GATE + "kept", "padding": "x" * 2 * LONG}
        line.send(modern("resources/read", params))
        program.waiting("kept")
        assert is_refused(asked(program, 2 * LONG))
        program.read(OPEN + "kept")
        assert line.answer().status == 200
    assert not is_refused(asked(program, 3 * LONG))


def test_a_body_counts_until_the_request_of_a_client_that_left_is_answered(
    program: Program,
) -> None:
    session = program.session()
    sockets = program.sockets()
    with program.line() as line:
        line.send(session.request("POST", padded(GATE + "left", 2 * LONG)))
        program.waiting("left")
    program.until(lambda: program.sockets() <= sockets)
    assert is_refused(asked(program, 2 * LONG))
    program.read(OPEN + "left")
    program.until(lambda: not is_refused(asked(program, 2 * LONG)))
    program.ask(session.request("DELETE"))


def test_bodies_in_flight_stay_within_their_memory(tmp_path: Path) -> None:
    size = 4 * 1024 * 1024
    head = request("POST", b"", content_length=str(size))
    code = LEAST.replace("1_000_000", str(8 * size))
    with serving(tmp_path, code=code) as program, program.lines(40) as lines:
        program.read(README)
        before = program.memory()
        taken = [line.takes(head + b"x" * (size - 1), 1) for line in lines]
        assert asked(program, SMALL).status == 200
        assert program.memory() - before < 16 * size
        assert taken.count(True) >= 8
