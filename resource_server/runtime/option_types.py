"""Option types with their manifest notation (durations, sizes, rates), and checks of options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(ms|s|m|h|d)", re.ASCII)
_UNIT_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTE_SIZE = re.compile(r"(\d{1,30})(?:\.(\d{1,9}))? *([kmgt]?)(i?)b?", re.IGNORECASE | re.ASCII)
_RATE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)(?: */ *(s|m|h))?", re.ASCII)
_MIN_RATE, _MAX_RATE = 1e-9, 1e15


class Duration(float):
    """Seconds as an option type; in the manifest `250ms`, `2s`, `30m`, `1h`, `1d` or a number."""

    @classmethod
    def parse(cls, value: object) -> Duration:
        """Parse a number of seconds, or text such as `"250ms"`.

        Raises:
            ValueError: not a duration.
        """
        if isinstance(value, int | float) and not isinstance(value, bool):
            if math.isfinite(value) and value >= 0:
                return cls(value)
        elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
            number, unit = match.groups()
            return cls(float(number) * _UNIT_SECONDS[unit])
        raise ValueError("not a length of time; write one with a unit: 250ms, 2s, 30m, 1h, 1d")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        number: CoreSchema = {"type": "float", "ge": 0}
        return _schema(cls.parse, number, r"^\d+(\.\d+)? *(ms|s|m|h|d)$")


class ByteSize(int):
    """A number of bytes as an option type; in the manifest `4096`, `64KiB` or `10MB`."""

    @classmethod
    def parse(cls, value: object) -> ByteSize:
        """Parse `4096`, `"64KiB"` (powers of 1024) or `"10MB"` (powers of 1000).

        Raises:
            ValueError: not a size.
        """
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return cls(value)
        match = _BYTE_SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None or (match[4] and not match[3]):
            raise ValueError("not a size; write a number of bytes, or one with a unit: 64KiB, 10MB")
        whole, fraction, prefix, binary = match.groups(default="")
        unit = (1024 if binary else 1000) ** " kmgt".index(prefix.lower() or " ")
        return cls(int(whole + fraction) * unit // 10 ** len(fraction))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        number: CoreSchema = {"type": "int", "ge": 0}
        return _schema(cls.parse, number, r"^\d+(\.\d+)? *([kKmMgGtT][iI]?)?[bB]?$")


def short_size(count: int) -> str:
    """Return a number of bytes in at most five characters: `812`, `1.2K`, `34M`, units of 1024."""
    number, units = float(count), iter("KMGTPE")
    unit = ""
    while number >= 999.5:
        number, unit = number / 1024, next(units)
    return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"


class Rate(float):
    """Requests per second as an option type; in the manifest `200/s`, `30/m`, `5/h` or a number."""

    @classmethod
    def parse(cls, value: object) -> Rate:
        """Parse a number per second, as a number or as text, or text such as `"200/s"`.

        Raises:
            ValueError: not a rate, or zero.
        """
        number = 0.0
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = float(min(value, _MAX_RATE))  # a greater int may not fit a float
        elif isinstance(value, str) and (match := _RATE.fullmatch(value.strip())):
            number = float(match[1]) / _UNIT_SECONDS[match[2] or "s"]
        if _MIN_RATE < number < _MAX_RATE:
            return cls(number)
        raise ValueError("not a rate above 0; write how many a second, minute or hour: 200/s, 30/m")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        number: CoreSchema = {"type": "float", "gt": 0}
        return _schema(cls.parse, number, r"^\d+(\.\d+)?( */ *(s|m|h))?$")


OptionChecks: TypeAlias = Mapping[str, Callable[[Any], object]]
"""Functions by option name; each raises `ValueError` for a value that it refuses.

A class with options has them as `option_checks`. Each looks at one value, so that a mistake in one
option does not hide the mistakes in others.
"""


def option_problems(
    checks: OptionChecks, values: Mapping[str, Any]
) -> Iterator[tuple[str, ValueError]]:
    """Yield the name of each refused option, with the reason."""
    for name, check in checks.items():
        try:
            if name in values:
                check(values[name])
        except ValueError as error:
            yield name, error


def named_problem(name: str, reason: str) -> str:
    """Return a problem that begins with the name of its option, if it does not already."""
    return reason if reason.startswith(name) else f"{name}: {reason}"


class _HasChecks(Protocol):
    option_checks: ClassVar[OptionChecks]


def check_options(options: _HasChecks) -> None:
    """Check an object by the `option_checks` of its class.

    Raises:
        ValueError: with one problem per line.
    """
    checks = options.option_checks
    values = {name: getattr(options, name) for name in checks}
    problems = [named_problem(name, str(why)) for name, why in option_problems(checks, values)]
    if problems:
        raise ValueError("\n".join(problems))


def _schema(parse: Callable[[Any], object], number: CoreSchema, pattern: str) -> CoreSchema:
    """Return a schema that validates by `parse`; its JSON Schema is a number or matching text."""
    # Imported here: a folder served without a manifest never loads pydantic.
    from pydantic_core import core_schema

    text = core_schema.str_schema(pattern=pattern)
    return core_schema.no_info_plain_validator_function(
        parse, json_schema_input_schema=core_schema.union_schema([number, text])
    )
