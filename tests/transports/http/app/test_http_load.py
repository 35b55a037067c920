"""Many clients at once: each gets its own responses, and all are notified."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.transports.program import (
    GATE,
    OPEN,
    README,
    STATE,
    Program,
    message,
    modern,
    read,
    serving,
)

CLIENTS = 16
REQUESTS = 100
STREAMS = 300


def together(work: Callable[[int], None]) -> None:
    """Do something as each of many clients, begun at the same time."""
    barrier = threading.Barrier(CLIENTS)

    def begin(client: int) -> None:
        barrier.wait()
        work(client)

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(begin, range(CLIENTS)))


def test_every_client_gets_its_own_responses(program: Program) -> None:
    def ask(client: int) -> None:
        session = program.session()
        with program.line() as line:
            for number in range(REQUESTS):
                uri, id = f"{STATE}{client}-{number}", f"{client}/{number}"
                asked = (
                    session.request("POST", read(uri, id))
                    if number % 2
                    else modern("resources/read", {"uri": uri}, id)
                )
                answered = line.ask(asked).json
                assert answered["id"] == id
                assert answered["result"]["contents"][0]["uri"] == uri
        assert program.ask(session.request("DELETE")).status == 204

    together(ask)


def test_waiting_requests_do_not_delay_others(program: Program) -> None:
    session = program.session()
    with program.lines(CLIENTS) as lines:
        for number, line in enumerate(lines):
            line.send(session.request("POST", read(GATE + "load", number)))
        program.waiting("load", readers=CLIENTS)

        def ask(client: int) -> None:
            for _ in range(REQUESTS // 10):
                assert program.read(README).startswith("# H")
                assert session.post(message("ping", id=f"p{client}")).status == 200

        together(ask)
        program.read(OPEN + "load")
        assert sorted(line.answer().json["id"] for line in lines) == list(range(CLIENTS))


def test_every_listener_is_notified_of_a_change(program: Program) -> None:
    wanted = {"notifications": {"resourceSubscriptions": [README]}}
    sessions = [program.session() for _ in range(STREAMS // 2)]
    with program.lines(STREAMS) as lines:
        for number, line in enumerate(lines):
            if number % 2:
                session = sessions[number // 2]
                session.post(message("resources/subscribe", {"uri": README}))
                assert line.ask(session.request("GET")).status == 200
                assert line.event().data == ""
            else:
                assert line.ask(modern("subscriptions/listen", wanted, number)).status == 200
                line.event()
        with (program.folder / "read me.md").open("a") as file:
            file.write("more\n")
        for line in lines:
            assert line.event().json["params"]["uri"] == README


@pytest.mark.deep
def test_clients_that_come_and_go_leave_no_state(tmp_path: Path) -> None:
    with serving(tmp_path) as program:
        wanted = {"notifications": {"resourceSubscriptions": [README]}}

        def come_and_go() -> None:
            def leave(client: int) -> None:
                for number in range(10):
                    session = program.session()
                    session.post(message("resources/subscribe", {"uri": README}))
                    with session.stream(), program.line() as line:
                        line.send(modern("subscriptions/listen", wanted, number))
                    with program.line() as line:
                        line.send(session.request("POST", read(f"{GATE}{client}-{number}")))
                    program.ask(session.request("DELETE"))

            together(leave)

        program.read(README)
        sockets = program.sockets()
        come_and_go()
        before = program.memory()
        for _ in range(3):
            come_and_go()
        program.until(lambda: program.sockets() <= sockets)
        assert program.memory() - before < 8 << 20
