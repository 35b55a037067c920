from __future__ import annotations

import math

import pytest

from resource_server.runtime.yaml_scalars import resolved_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("Null", None),
        ("true", True),
        ("FALSE", False),
        ("tRUE", "tRUE"),
        ("yes", "yes"),
        ("off", "off"),
        ("-12", -12),
        ("0o17", 15),
        ("0x1f", 31),
        ("017", 17),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        ("-.inf", -math.inf),
        ("9" * 301, "9" * 301),
        ("x" * 1000, "x" * 1000),
    ],
)
def test_a_plain_scalar_has_the_value_of_the_core_schema(text: str, value: object) -> None:
    found = resolved_scalar(text)
    assert (type(found), found) == (type(value), value)


def test_not_a_number_is_a_number() -> None:
    found = resolved_scalar(".NaN")
    assert isinstance(found, float)
    assert math.isnan(found)
