from __future__ import annotations

import math
from itertools import islice

import pytest
import yaml

from resource_server.runtime.yaml_composer import resolved_scalar, yaml_events
from tests.cases import for_each

LEVELS = 900


@for_each("opening", ["[", "{a: ", "- ", "? "])
def test_levels_that_the_parser_refuses_are_preceded_by_those_before_them(opening: str) -> None:
    text = "a: 1\nb:\n  " + opening * 10_000
    events = list(islice(yaml_events(text), LEVELS))
    kinds = yaml.SequenceStartEvent, yaml.MappingStartEvent
    assert len([event for event in events if isinstance(event, kinds)]) > LEVELS // 3
    assert [event.value for event in events[3:6] if isinstance(event, yaml.ScalarEvent)] == [
        "a",
        "1",
        "b",
    ]


def test_other_errors_are_those_of_the_parser() -> None:
    with pytest.raises(yaml.MarkedYAMLError, match="expected ',' or"):
        list(yaml_events("a: [1, 2"))


@for_each(
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
