from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.manifest import Duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("0s", 0), ("250ms", 0.25), ("2s", 2), ("1.5 s", 1.5), ("30m", 1800), ("1h", 3600),
        ("1d", 86400), (5, 5), (0.5, 0.5), (" 2s ", 2),
    ],
)  # fmt: skip
def test_a_duration_has_a_unit_or_is_in_seconds(written: object, seconds: float) -> None:
    assert Duration.parse(written) == seconds


@pytest.mark.parametrize(
    "written",
    ["", "5", "-1s", "1w", "s", "1e3s", "٣s", -1, True, None, float("nan"), float("inf"), []],
)
def test_anything_else_is_refused_with_how_to_write_one(written: object) -> None:
    with pytest.raises(ValueError, match="not a length of time; write one with a unit: 250ms"):
        Duration.parse(written)


@given(st.text("0123456789.msh d", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert 0 <= Duration.parse(text) < float("inf")
