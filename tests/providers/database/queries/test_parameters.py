from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import InvalidParameter
from resource_server.providers.database.engines.contract import EngineName
from resource_server.providers.database.queries import parameters
from resource_server.providers.database.queries.parameters import Parameter, ParameterType
from tests.cases import for_each
from tests.providers.database.declared_queries import declared


def value(text: str, **options: object) -> object:
    parameter = Parameter(**options)  # pyright: ignore[reportArgumentType]
    return declared("select :p", {"p": parameter}, "postgresql").bind({"p": text}).statement[1][0]


@for_each(
    ("options", "says"),
    [
        ({"type": "integer", "default": "5"}, "default: '5' is not an integer"),
        ({"type": "integer", "default": True}, "default: true is not an integer"),
        ({"type": "integer", "default": 5.5}, "default: 5.5 is not an integer"),
        (
            {"type": "integer", "default": 500, "maximum": 100},
            "default: 500 is not .* of at most 100",
        ),
        ({"type": "integer", "default": 2**63}, "default: 9223372036854775808 is not an integer"),
        ({"type": "number", "examples": (float("inf"),)}, "examples: inf is not a number"),
        ({"type": "date", "default": "2026-02-30"}, "default: '2026-02-30' is not a date"),
        ({"default": 5}, "default: 5 is not text; put it in quotes"),
        ({"examples": (False,)}, "examples: false is not text"),
        ({"enum": ("a", "b"), "default": "c"}, "default: 'c' is not in enum"),
        ({"enum": ("a",), "examples": ("c",)}, "examples: 'c' is not in enum"),
        ({"type": "integer", "enum": (1, "x")}, "enum: 'x' is not an integer"),
        ({"type": "boolean", "enum": (1, 0)}, "enum: a boolean has only the values"),
        ({"minimum": 1}, "minimum: 1 cannot be a bound of text"),
        ({"type": "number", "maximum": float("nan")}, "maximum: nan cannot be a bound"),
        ({"type": "integer", "minimum": 5, "maximum": 1}, "minimum: 5 exceeds the maximum"),
        ({"default": "a", "optional": True}, "optional: true, but there is a default"),
        ({"default": "abc", "max_length": 2}, "default: 'abc' is not text of at most 2"),
    ],
)
def test_options_of_a_parameter_that_contradict_each_other_are_refused(
    options: Mapping[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        Parameter(**options)  # pyright: ignore[reportArgumentType]


@for_each(
    ("type", "text", "expected"),
    [
        ("string", "", ""),
        ("string", "'; drop table t --", "'; drop table t --"),
        ("integer", "9223372036854775807", 2**63 - 1),
        ("integer", "-9223372036854775808", -(2**63)),
        ("integer", "007", 7),
        ("number", "5.5e3", 5500.0),
        ("number", "-.5", -0.5),
        ("number", "12345678901234567.12", Decimal("12345678901234567.12")),
        ("number", "9007199254740993", Decimal(2**53 + 1)),
        ("boolean", "1", True),
        ("boolean", "false", False),
        ("date", "2026-01-31", date(2026, 1, 31)),
        ("datetime", "2026-01-31T12:30:00Z", datetime(2026, 1, 31, 12, 30, tzinfo=UTC)),
        ("datetime", "2026-01-31", datetime(2026, 1, 31)),  # noqa: DTZ001
    ],
)
def test_text_is_converted_to_the_parameter_type(
    type: ParameterType, text: str, expected: object
) -> None:
    assert value(text, type=type) == expected


@for_each(
    ("type", "text"),
    [
        ("string", "x" * 1001),
        ("string", "a\0b"),
        ("string", "\udc80"),
        ("integer", "9223372036854775808"),
        ("integer", "1" * 5000),
        ("integer", "1_000"),
        ("integer", "٣"),
        ("integer", "5.0"),
        ("integer", ""),
        ("integer", "5\n"),
        ("number", "nan"),
        ("number", "Infinity"),
        ("number", "1e999"),
        ("number", "0x10"),
        ("number", "1" * 5000),
        ("boolean", "yes"),
        ("boolean", "2"),
        ("date", "2026-02-30"),
        ("date", "31.1.2026"),
        ("date", "2026-01-31T00:00:00"),
        ("datetime", "now"),
        ("datetime", "0001-01-01T00:00:00+23:00"),
        ("datetime", "2026-01-31T12:30:00" + "0" * 100),
    ],
)
def test_text_of_another_type_is_refused_with_the_expected_form(
    type: ParameterType, text: str
) -> None:
    with pytest.raises(InvalidParameter, match=r"^p must be (a|an|text|true) ?") as raised:
        value(text, type=type)
    assert len(str(raised.value)) < 160


@given(
    st.text(max_size=200),
    st.sampled_from(("string", "integer", "number", "boolean", "date", "datetime")),
)
def test_any_text_is_a_value_or_refused_in_one_line(text: str, type: ParameterType) -> None:
    refused = ""
    try:
        value(text, type=type, max_length=10)
    except InvalidParameter as error:
        refused = str(error)
    assert not refused or refused.isprintable()
    assert len(refused) < 160


def test_at_most_forty_characters_of_a_value_are_echoed() -> None:
    for text in ("z" * 300, "\x01" * 300, "\x01" * 39):
        with pytest.raises(InvalidParameter) as raised:
            value(text, type="integer")
        echoed = str(raised.value).partition("not '")[2].removesuffix("'")
        assert len(echoed) == 40


@for_each(
    ("options", "good", "bad", "expected"),
    [
        (
            {"type": "integer", "minimum": 1, "maximum": 100},
            "100",
            "101",
            "an integer from 1 to 100",
        ),
        ({"type": "number", "minimum": 0.5}, "0.5", "0.4", "a number of at least 0.5"),
        ({"type": "integer", "maximum": 5}, "-5", "6", "an integer of at most 5"),
        ({"enum": ("DE", "FR")}, "DE", "de", "one of DE, FR"),
        ({"type": "integer", "enum": (1, 2)}, "02", "3", "one of 1, 2"),
        ({"max_length": 2}, "äö", "abc", "text of at most 2 characters, not 3 characters"),
    ],
)
def test_bounds_and_enums_are_enforced(
    options: Mapping[str, object], good: str, bad: str, expected: str
) -> None:
    value(good, **options)
    with pytest.raises(InvalidParameter, match=f"p must be {expected}"):
        value(bad, **options)


def test_values_are_bound_in_the_types_each_driver_accepts() -> None:
    sql = "select :d, :t, :b, :n"
    parameters = {
        "d": Parameter(type="date"),
        "t": Parameter(type="datetime"),
        "b": Parameter(type="boolean"),
        "n": Parameter(type="number"),
    }
    texts = {"d": "2026-01-31", "t": "2026-01-31T12:00:00+02:00", "b": "true", "n": "5"}
    noon = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))

    def bound(engine: EngineName) -> tuple[object, ...]:
        return declared(sql, parameters, engine).bind(texts).statement.parameters

    assert bound("sqlite") == ("2026-01-31", "2026-01-31T12:00:00+02:00", 1, 5.0)
    assert bound("postgresql") == (date(2026, 1, 31), noon, True, 5)
    assert isinstance(bound("postgresql")[3], int)
    naive = datetime(2026, 1, 31, 10)  # noqa: DTZ001
    assert bound("mariadb") == (date(2026, 1, 31), naive, True, 5.0)


BAD: list[tuple[ParameterType, object]] = [
    ("string", 5),
    ("string", None),
    ("string", ["a"]),
    ("string", {"$ne": 1}),
    ("string", True),
    ("string", "a\0b"),
    ("string", "\ud800"),
    ("string", "x" * 1001),
    ("integer", "5.0"),
    ("integer", True),
    ("integer", 5.5),
    ("integer", 2**63),
    ("integer", 10**5000),
    ("integer", 1e300),
    ("integer", float("nan")),
    ("integer", None),
    ("number", "five"),
    ("number", float("nan")),
    ("number", float("inf")),
    ("number", 10**400),
    ("number", 10**5000),
    ("number", False),
    ("boolean", 1),
    ("boolean", "true"),
    ("boolean", None),
    ("date", "2026-02-30"),
    ("date", "yesterday"),
    ("date", 20260131),
    ("datetime", "now()"),
    ("datetime", 0),
]


@for_each(("type", "value"), BAD, ids=map(str, range(len(BAD))))
def test_a_json_value_of_another_type_is_refused_with_its_parameter(
    type: ParameterType, value: object
) -> None:
    with pytest.raises(InvalidParameter, match=r"^p must be ") as refused:
        parameters.value_from_json("p", Parameter(type=type), value)
    said = str(refused.value)
    assert len(said) < 200
    assert said.isprintable()


@for_each(
    ("options", "schema"),
    [
        ({"type": "integer"}, {"type": ["integer", "string"]}),
        ({"type": "integer", "minimum": 1}, {"type": ["integer", "string"], "minimum": 1}),
        (
            {"type": "integer", "minimum": 1, "maximum": 100},
            {"type": "integer", "minimum": 1, "maximum": 100},
        ),
        ({"type": "integer", "enum": (1, 2)}, {"type": "integer", "enum": [1, 2]}),
        (
            {"type": "integer", "enum": (1, 2**53 + 1)},
            {"type": ["integer", "string"], "enum": [1, "9007199254740993"]},
        ),
        (
            {"type": "integer", "default": 2**53, "examples": (-(2**53),)},
            {
                "type": ["integer", "string"],
                "examples": ["-9007199254740992"],
                "default": "9007199254740992",
            },
        ),
        ({"type": "number", "minimum": 0}, {"type": ["number", "string"], "minimum": 0}),
        ({"type": "boolean"}, {"type": "boolean"}),
    ],
)
def test_a_number_that_javascript_would_change_may_be_text(
    options: Mapping[str, Any], schema: Mapping[str, Any]
) -> None:
    parameter = Parameter(**options)
    assert parameters.parameter_schema(parameter) == schema
    for each in schema.get("enum", ()):
        parameters.value_from_json("p", parameter, each)


def test_a_number_as_text_is_the_same_value_as_the_number() -> None:
    of = Parameter(type="integer", maximum=2**60)
    for number in (5, 2**53 + 1):
        assert parameters.value_from_json("p", of, str(number)) == number
        assert parameters.value_from_json("p", of, number) == number
    with pytest.raises(InvalidParameter, match="p must be a number of at most 1"):
        parameters.value_from_json("p", Parameter(type="number", maximum=1), "2.5")
