"""How often one caller may ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from resource_server.transports.http.rates import MAX_CALLERS, Rates
from resource_server.transports.http.request import Refused
from tests.transports.program import Program, Running, modern, request, serving


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Running:
    # Of a hundred requests the last is full again after 1000 s.
    http = "{limits: {rate: 0.1, burst: 100}}"
    with serving(tmp_path_factory.mktemp("rates"), http=http) as run:
        yield run


def test_who_asks_too_often_is_429_and_told_when_to_come_back(program: Program) -> None:
    with program.line() as line:
        answers = [line.ask(modern("server/discover")) for _ in range(103)]
    assert [each.status for each in answers] == [200] * 100 + [429] * 3
    refused = answers[-1]
    assert 1 <= int(refused.headers["retry-after"]) <= 10
    assert refused.code == -32012
    # On another connection it is the same caller, and a health check is none.
    assert program.ask(request("GET")).status == 429
    assert program.ask(request("GET", path="/healthz")).status == 200


def test_nobody_is_refused_by_default(tmp_path: Path) -> None:
    with serving(tmp_path) as program, program.line() as line:
        assert {line.ask(modern("server/discover")).status for _ in range(1000)} == {200}


def test_each_caller_has_a_bucket_and_the_memory_of_them_is_bounded() -> None:
    rates = Rates(0.001, 1)
    rates.take("first")
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            rates.take("first")
        assert (refused.value.status, dict(refused.value.headers)) == (
            429,
            {b"retry-after": b"1000"},
        )
    for number in range(MAX_CALLERS):
        rates.take(str(number))
    rates.take("first")
    with pytest.raises(Refused):
        rates.take(str(MAX_CALLERS - 1))


@pytest.mark.parametrize("burst", [1, 3, 400])
def test_as_many_as_the_burst_are_never_refused(burst: int) -> None:
    # Rounding is no reason, whatever the rate.
    for rate in range(1, 200):
        rates = Rates(rate / 7e6, burst)
        for _ in range(burst):
            rates.take("one")
        with pytest.raises(Refused):
            rates.take("one")
