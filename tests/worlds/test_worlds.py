from __future__ import annotations

import pytest

from tests.guarantees.promises import proved_by_world
from tests.worlds.harness import replay, search
from tests.worlds.registry import NAMES, property_named

SEED = 1
HOLDS_S = 15.0
FOUND_S = 60.0

_PROPERTIES = [pytest.param(name, marks=proved_by_world(name)) for name in NAMES]
_SABOTAGES = [(name, sabotage) for name in NAMES for sabotage in property_named(name).sabotages]
_KEPT = [
    pytest.param(name, place, marks=proved_by_world(name))
    for name in NAMES
    for place in range(len(property_named(name).kept))
]


@pytest.mark.deep
@pytest.mark.parametrize("name", _PROPERTIES)
def test_a_property_holds_in_generated_worlds(name: str) -> None:
    report = search(property_named(name), SEED, HOLDS_S)
    assert report.violation is None, f"{report.violation}\n\n{report.script}"
    assert report.tally.counts


@pytest.mark.deep
@pytest.mark.parametrize(("name", "sabotage"), _SABOTAGES)
def test_a_sabotage_is_found(name: str, sabotage: str) -> None:
    report = search(property_named(name), SEED, FOUND_S, sabotage, shrinks=False)
    assert report.violation is not None, f"not found in {report.cases} cases: {report.tally}"


@pytest.mark.parametrize(("name", "place"), _KEPT)
def test_a_case_found_once_holds(name: str, place: int) -> None:
    searched = property_named(name)
    replay(searched, searched.kept[place])
