"""Parameters of declared queries: their options, and values from clients to drivers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias, cast

from msgspec import Meta, Struct

from resource_server.errors import InvalidParameter
from resource_server.providers.database.engines.contract import EngineName
from resource_server.runtime.json_numbers import LARGEST_INTEGER, exact_integer, is_exact

ParameterType: TypeAlias = Literal["string", "integer", "number", "boolean", "date", "datetime"]
ParameterValue: TypeAlias = str | int | float | Decimal | bool | date | datetime
"""A number is a Decimal if a float cannot hold it."""
ManifestValue: TypeAlias = str | int | float | bool
"""A parameter value as written in a manifest."""

_LONGEST_ECHO = 40
_MOST_NAMED = 10
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(
    r"-?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?"
)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_WORDS: dict[ParameterType, str] = {
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date such as 2026-01-31",
    "datetime": "a time such as 2026-01-31T12:30:00 or 2026-01-31T12:30:00Z",
}
_NATIVE: dict[ParameterType, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_JSON_TYPES: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
    list: "an array",
    dict: "an object",
}
_FORMATS: dict[ParameterType, str] = {"date": "date", "datetime": "date-time"}


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter of a query, written `:name` in its SQL."""

    type: ParameterType = "string"
    """Type of its values."""
    description: str | None = None
    """Its meaning, for people and models."""
    default: str | int | float | bool | None = None
    """Default value; without one the parameter is required, unless it is `optional`."""
    optional: bool = False
    """Whether it may be omitted and is NULL then."""
    enum: tuple[str | int | float, ...] = ()
    """The only allowed values."""
    examples: tuple[str | int | float, ...] = ()
    """Suggested values."""
    minimum: float | None = None
    """Minimum of numbers."""
    maximum: float | None = None
    """Maximum of numbers."""
    max_length: Annotated[int, Meta(ge=1)] = 1000
    """Maximum characters of a string."""

    def __post_init__(self) -> None:
        _check_parameter(self)


def value_from_text(name: str, parameter: Parameter, text: str) -> ParameterValue:
    """Return the value of a client's text.

    Raises:
        InvalidParameter: names the parameter and the expected values.
    """
    try:
        value = _READERS[parameter.type](text)
        if _fits(parameter, value) and value in (_enumerated(parameter) or (value,)):
            return value
    except (ValueError, OverflowError):
        pass
    refused = f"'{echo(text)}'"
    if parameter.type == "string" and len(text) > parameter.max_length:
        refused = f"{len(text)} characters"
    raise InvalidParameter(f"{name} must be {expected_value(parameter)}, not {refused}")


def value_from_json(name: str, parameter: Parameter, value: object) -> ParameterValue:
    """Return the value of a client's JSON, which must have the parameter's own type.

    Numbers beyond those of JavaScript may be text, as results write them.

    Raises:
        InvalidParameter: names the parameter and the expected values.
    """
    if isinstance(value, str) and _may_be_text(parameter):
        return value_from_text(name, parameter, value)
    text = _native_text(parameter, value)
    if text is None:
        found = _JSON_TYPES.get(type(value), "something else")
        raise InvalidParameter(f"{name} must be {expected_value(parameter)}, not {found}")
    return value_from_text(name, parameter, text)


def declared_value(parameter: Parameter, value: ManifestValue) -> ParameterValue:
    """Return the value of a manifest, which may be outside of `enum`.

    Raises:
        ValueError: it is not a value of the parameter; for the manifest's author.
    """
    text = _native_text(parameter, value)
    if text is not None:
        try:
            found = _READERS[parameter.type](text)
            if _fits(parameter, found):
                return found
        except (ValueError, OverflowError):
            pass
    elif parameter.type not in _NATIVE:
        raise ValueError(f"{_written(value)} is not text; put it in quotes")
    raise ValueError(f"{_written(value)} is not {expected_value(parameter, enum=False)}")


def _native_text(parameter: Parameter, value: object) -> str | None:
    """Return a value of the parameter's type as a client writes it; None for any other value."""
    native = _NATIVE.get(parameter.type, (str,))
    if parameter.type == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON Schema counts 5.0 as an integer
    if not isinstance(value, native) or (parameter.type == "boolean") != isinstance(value, bool):
        return None
    try:
        return parameter_text(cast("ManifestValue", value))
    except ValueError:  # more digits than Python writes
        return "a very long number"


def _check_parameter(parameter: Parameter) -> None:
    """Refuse contradictory options.

    Raises:
        ValueError: names the option and its value, for the manifest's author.
    """
    number = parameter.type in ("integer", "number")
    for option, bound in (("minimum", parameter.minimum), ("maximum", parameter.maximum)):
        if bound is not None and not (number and math.isfinite(bound)):
            raise ValueError(f"{option}: {bound:g} cannot be a bound of {_WORDS[parameter.type]}")
    low, high = parameter.minimum, parameter.maximum
    if low is not None and high is not None and low > high:
        raise ValueError(f"minimum: {low:g} exceeds the maximum, {high:g}")
    if parameter.enum and parameter.type == "boolean":
        raise ValueError("enum: a boolean has only the values true and false")
    values: list[ManifestValue] = list(parameter.enum)
    for option, written in (("enum", parameter.enum), ("examples", parameter.examples)):
        for each in written:
            _check_value(option, parameter, each, values if option != "enum" else ())
    if parameter.default is not None:
        _check_value("default", parameter, parameter.default, values)
        if parameter.optional:
            raise ValueError("optional: true, but there is a default; remove one of them")


def _check_value(option: str, parameter: Parameter, value: ManifestValue, enum: object) -> None:
    try:
        found = declared_value(parameter, value)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    if enum and found not in _enumerated(parameter):
        raise ValueError(f"{option}: {_written(value)} is not in enum")


def expected_value(parameter: Parameter, *, enum: bool = True) -> str:
    """Return a description of a parameter's values: `an integer from 1 to 100`."""
    if enum and parameter.enum:
        named = ", ".join(echo(parameter_text(each)) for each in parameter.enum[:_MOST_NAMED])
        return f"one of {named}{', …' if len(parameter.enum) > _MOST_NAMED else ''}"
    words = _WORDS[parameter.type]
    if parameter.type == "string":
        return f"{words} of at most {parameter.max_length} characters"
    low, high = parameter.minimum, parameter.maximum
    if low is not None and high is not None:
        return f"{words} from {low:.15g} to {high:.15g}"
    if low is not None:
        return f"{words} of at least {low:.15g}"
    if high is not None:
        return f"{words} of at most {high:.15g}"
    return f"{words} of 64 bits" if parameter.type == "integer" else words


def parameter_schema(parameter: Parameter) -> dict[str, Any]:
    """Return the JSON Schema of a parameter's values."""
    kind = parameter.type if parameter.type in _NATIVE else "string"
    may_be_text = _may_be_text(parameter)
    found: dict[str, Any] = {"type": [kind, "string"] if may_be_text else kind}
    if parameter.description:
        found["description"] = parameter.description
    if parameter.type in _FORMATS:
        found["format"] = _FORMATS[parameter.type]
    elif parameter.type == "string" and not parameter.enum:
        found["maxLength"] = parameter.max_length
    for option in ("minimum", "maximum"):
        if (bound := getattr(parameter, option)) is not None and not parameter.enum:
            found[option] = int(bound) if float(bound).is_integer() else bound
    for option in ("enum", "examples"):
        if values := getattr(parameter, option):
            found[option] = list(map(_in_schema, values))
    if parameter.default is not None:
        found["default"] = _in_schema(parameter.default)
    return found


def _may_be_text(parameter: Parameter) -> bool:
    """Return whether a value may be a number that JavaScript would change."""
    if parameter.type == "number":
        return not parameter.enum
    bounds = parameter.enum or (parameter.minimum, parameter.maximum)
    return parameter.type == "integer" and not all(
        isinstance(each, int | float) and abs(each) <= LARGEST_INTEGER for each in bounds
    )


def _in_schema(value: ManifestValue) -> ManifestValue:
    return exact_integer(value) if type(value) is int else value


def parameter_text(value: ParameterValue) -> str:
    """Return a value as a client writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def echo(text: str) -> str:
    """Return at most 40 characters of a client's text, printable on one line."""
    cut = text[:_LONGEST_ECHO]
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut
    )
    if len(text) <= _LONGEST_ECHO and len(shown) <= _LONGEST_ECHO:
        return shown
    return f"{shown[: _LONGEST_ECHO - 1]}…"


def driver_value(value: ParameterValue | None, engine: EngineName) -> object:
    """Return a value in the form that an engine's driver binds.

    SQLite stores times as ISO 8601 text and booleans as integers, and has no decimals. asyncpg
    refuses a float where PostgreSQL expects an integer, and gives an exact number all digits of a
    float. MySQL and MariaDB have times without a zone: UTC.
    """
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value) if -(2**63) <= value < 2**63 else value
    if engine == "sqlite":
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, Decimal):
            return float(value)
        return value.isoformat() if isinstance(value, date) else value
    if engine == "postgresql":
        if not isinstance(value, float):
            return value
        is_whole = value.is_integer() and abs(value) <= LARGEST_INTEGER
        return int(value) if is_whole else Decimal(repr(value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _written(value: ManifestValue) -> str:
    return f"'{echo(value)}'" if isinstance(value, str) else parameter_text(value)


def _enumerated(parameter: Parameter) -> tuple[ParameterValue, ...]:
    return tuple([declared_value(parameter, each) for each in parameter.enum])


def _fits(parameter: Parameter, value: ParameterValue) -> bool:
    if isinstance(value, str):
        return len(value) <= parameter.max_length
    if isinstance(value, bool | date):
        return True
    low, high = parameter.minimum, parameter.maximum
    return (low is None or value >= low) and (high is None or value <= high)


def _string(text: str) -> str:
    # Some database refuses NUL in text, and none accepts lone surrogates.
    text.encode()
    if "\0" in text:
        raise ValueError
    return text


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError
    return int(text)


def _number(text: str) -> float | Decimal:
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    if not math.isfinite(value):
        raise ValueError
    return value if is_exact(text) else Decimal(text)


def _boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise ValueError
    return _BOOLEANS[text]


def _date(text: str) -> date:
    if len(text) > _LONGEST_ECHO or not text.isascii():
        raise ValueError
    return date.fromisoformat(text)


def _datetime(text: str) -> datetime:
    if len(text) > _LONGEST_ECHO or not text.isascii():
        raise ValueError
    value = datetime.fromisoformat(text)
    if value.tzinfo is not None:
        value.astimezone(UTC)  # drivers do this, and it fails near year 1
    return value


_READERS: dict[ParameterType, Callable[[str], ParameterValue]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
    "datetime": _datetime,
}
