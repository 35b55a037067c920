from __future__ import annotations

from itertools import islice

import pytest
import yaml

from resource_server.runtime.yaml_events import yaml_events

LEVELS = 900


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
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
