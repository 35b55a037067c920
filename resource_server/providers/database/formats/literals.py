"""Values that JSON has no words for, as their database writes them: ranges, points, durations.

The driver's classes are known by their names, so that no driver is imported for this.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

_FRACTION_ZEROS = re.compile(r"(?<=\.)(\d*?)0+(?=[+-]|\Z)")
_RANGE_QUOTED = frozenset('"\\(),[] \t\n\r\v\f')


def not_finite(value: float) -> str:
    """Return `NaN`, `Infinity` or `-Infinity`."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def number(value: float) -> str:
    """Return a float as PostgreSQL writes those of points: `1` for 1.0, `Infinity`."""
    return repr(value).removesuffix(".0") if math.isfinite(value) else not_finite(value)


def decimal(value: Decimal) -> str:
    """Return a Decimal in digits, `0.00000001` instead of `1E-8`; `NaN` and `Infinity` as such."""
    text = str(value)
    return format(value, "f") if "E" in text and abs(value.adjusted()) < 1000 else text


def duration(value: datetime.timedelta) -> str:
    """Return `[-]HH:MM:SS[.ffffff]` with as many hours as it takes, as MariaDB writes a TIME."""
    sign, value = ("-", -value) if value.days < 0 else ("", value)
    minutes, seconds = divmod(value.days * 86400 + value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}" if value.microseconds else ""
    return f"{sign}{hours:02}:{minutes:02}:{seconds:02}{fraction}"


def _range(value: Any) -> str:
    if value.isempty:
        return "empty"
    opening = "[" if value.lower_inc else "("
    closing = "]" if value.upper_inc else ")"
    return f"{opening}{_bound(value.lower)},{_bound(value.upper)}{closing}"


def _bound(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        text = _FRACTION_ZEROS.sub(r"\1", str(value))
        text = text if value.tzinfo is None else text.removesuffix(":00")
    elif isinstance(value, float):
        text = number(value)
    elif isinstance(value, Decimal):
        text = decimal(value)
    else:
        text = str(value)
    if text and _RANGE_QUOTED.isdisjoint(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def _point(value: Any) -> str:
    return f"({number(value[0])},{number(value[1])})"


def _points(values: Iterable[Any]) -> str:
    return ",".join(map(_point, values))


def _path(value: Any) -> str:
    return f"({_points(value)})" if value.is_closed else f"[{_points(value)}]"


def _circle(value: Any) -> str:
    return f"<{_point(value.center)},{number(value.radius)}>"


def _line(value: Any) -> str:
    return "{" + ",".join(map(number, value)) + "}"


def _bits(value: Any) -> str:
    return str(value.as_string()).replace(" ", "")


LITERALS: dict[tuple[str, str], Callable[[Any], str]] = {
    ("asyncpg", "BitString"): _bits,
    ("asyncpg", "Box"): _points,
    ("asyncpg", "Circle"): _circle,
    ("asyncpg", "Line"): _line,
    ("asyncpg", "LineSegment"): lambda value: f"[{_points(value)}]",
    ("asyncpg", "Path"): _path,
    ("asyncpg", "Point"): _point,
    ("asyncpg", "Polygon"): lambda value: f"({_points(value)})",
    ("asyncpg", "Range"): _range,
    ("datetime", "timedelta"): duration,
    ("decimal", "Decimal"): decimal,
    ("ipaddress", "IPv4Address"): str,
    ("ipaddress", "IPv4Interface"): str,
    ("ipaddress", "IPv4Network"): str,
    ("ipaddress", "IPv6Address"): str,
    ("ipaddress", "IPv6Interface"): str,
    ("ipaddress", "IPv6Network"): str,
}
"""By top package and name of the class."""
