from __future__ import annotations

import math

import pytest

from tests.guarantees.promises import proved_by_world
from tests.waiting import BUSY_S
from tests.worlds.harness import Report, replay, search
from tests.worlds.registry import NAMES, property_named

SEED = 1
SEEDS = {"where of completion": 4}
"""Seeds of sabotages that are found late by the first one."""
HOLDS_CASES = 12
FOUND_CASES = 200
"""Cases in which a sabotage must be found; most are found in the first ten."""
ONE_RUN_S = 15.0
"""Time of a property whose case takes all the time of its search."""
FOUND_RUN_S = 45.0
"""The same with a sabotage, which a slow machine finds in no less."""

_PROPERTIES = [pytest.param(name, marks=proved_by_world(name)) for name in NAMES]
_SABOTAGES = [(name, sabotage) for name in NAMES for sabotage in property_named(name).sabotages]
_QUICK = 2
"""Cases of each property that were found once and run in every run; the rest are deep."""
_KEPT = [
    pytest.param(
        name,
        place,
        marks=(*proved_by_world(name), *((pytest.mark.deep,) if place >= _QUICK else ())),
    )
    for name in NAMES
    for place in range(len(property_named(name).kept))
]


@pytest.mark.deep
@pytest.mark.timeout(BUSY_S)
@pytest.mark.parametrize("name", _PROPERTIES)
def test_a_property_holds_in_generated_worlds(name: str) -> None:
    report = _searched(name, HOLDS_CASES)
    assert report.violation is None, f"{report.violation}\n\n{report.script}"
    assert report.tally.counts


@pytest.mark.deep
@pytest.mark.timeout(BUSY_S)
@pytest.mark.parametrize(("name", "sabotage"), _SABOTAGES)
def test_a_sabotage_is_found(name: str, sabotage: str) -> None:
    report = _searched(name, FOUND_CASES, sabotage)
    assert report.violation is not None, f"not found in {report.cases} cases: {report.tally}"


@pytest.mark.parametrize(("name", "sabotage"), _SABOTAGES)
def test_a_sabotage_names_what_the_server_has(name: str, sabotage: str) -> None:
    with property_named(name).sabotages[sabotage]():
        pass


@pytest.mark.timeout(BUSY_S)
@pytest.mark.parametrize(("name", "place"), _KEPT)
def test_a_case_found_once_holds(name: str, place: int) -> None:
    searched = property_named(name)
    replay(searched, searched.kept[place])


def _searched(name: str, most: int, sabotage: str | None = None) -> Report:
    searched = property_named(name)
    one_run_s = ONE_RUN_S if sabotage is None else FOUND_RUN_S
    seconds = one_run_s if searched.is_one_run else math.inf
    most //= searched.weight
    seed = SEEDS.get(sabotage or "", SEED)
    return search(searched, seed, seconds, sabotage, most=most, shrinks=sabotage is None)
