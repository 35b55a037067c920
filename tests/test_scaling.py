from __future__ import annotations

import pytest

from tests import reference, scaling


@pytest.mark.parametrize("section", scaling.SECTIONS)
def test_the_tables_of_scaling_are_computed_from_the_measured_costs(section: str) -> None:
    written = scaling.SECTIONS[section]()
    assert reference.shown(section, scaling.PAGE) == written, "run python -m tests.scaling"


def test_the_sum_of_the_costs_is_what_loads_cost() -> None:
    _, loads = scaling.read()
    assert len(loads) == 3
    for expected, found in loads.values():
        assert expected.processor_ms == pytest.approx(found.processor_ms, rel=0.32)
        # The first clients take 2 MB that later ones do not: a quarter of what 200 take.
        assert expected.memory_kb == pytest.approx(found.memory_kb, rel=0.3)
