from __future__ import annotations

import asyncio
import datetime
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from tests.worlds import harness
from tests.worlds.harness import Property, Tally, Violation, replay, search


@dataclass(frozen=True)
class Numbers:
    first: int
    others: tuple[float, ...] = ()
    day: datetime.date | None = None


_limit = 1000


async def check(case: Numbers, tally: Tally) -> None:
    tally.count("numbers")
    if case.first > _limit:
        raise Violation(f"{case.first} is too much")


@contextmanager
def lower() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "_limit", 5)
        yield


PROPERTY = Property(
    name="test_harness",
    cases=st.builds(Numbers, st.integers(0, 1000)),
    check=check,
    sabotages={"lower": lower},
)


def test_a_search_ends_with_its_time_and_says_what_it_compared() -> None:
    report = search(PROPERTY, seed=1, seconds=0.2)
    assert report.violation is None
    assert report.script is None
    assert report.cases == report.tally.counts["numbers"] > 0
    assert str(report.tally) == f"{report.cases} numbers"


def test_a_search_ends_after_as_many_cases_as_it_may_have() -> None:
    report = search(PROPERTY, seed=1, seconds=30, most=12)
    assert (report.cases, report.violation) == (12, None)


def test_a_search_finds_the_smallest_case() -> None:
    report = search(PROPERTY, seed=1, seconds=30, sabotage="lower")
    assert report.violation == "6 is too much"
    assert report.script is not None
    assert "Numbers(first=6, others=(), day=None)" in report.script


def test_a_search_without_shrinking_ends_with_the_first_case() -> None:
    report = search(PROPERTY, seed=1, seconds=30, sabotage="lower", shrinks=False)
    assert report.violation is not None


def test_a_case_that_hangs_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(case: Numbers, tally: Tally) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(harness, "CASE_S", 0.01)
    hanging = Property(name="test_harness", cases=PROPERTY.cases, check=hang)
    report = search(hanging, seed=1, seconds=0.2)
    assert report.violation is not None
    assert "TimeoutError" in report.violation


def test_the_script_of_a_case_runs() -> None:
    # pytest imports this module under another name.
    from tests.worlds import test_harness as itself

    case = itself.Numbers(2000, (float("inf"), 1.5), datetime.date(2026, 1, 2))
    script = harness.script_of(itself.PROPERTY, case)
    ran = subprocess.run(
        [sys.executable, "-"], input=script, capture_output=True, text=True, check=False
    )
    assert "Violation: 2000 is too much" in ran.stderr


def test_a_case_that_holds_can_be_replayed() -> None:
    assert replay(PROPERTY, Numbers(3)).counts["numbers"] == 1


def test_one_run_is_of_a_case_that_its_seed_chooses() -> None:
    seen: list[Numbers] = []

    async def remember(case: Numbers, tally: Tally) -> None:
        seen.append(case)

    lasting = Property(name="test_harness", cases=PROPERTY.cases, check=remember, is_one_run=True)
    for seed in range(5):
        assert search(lasting, seed, seconds=0).cases == 1
    assert len(set(seen)) > 1
