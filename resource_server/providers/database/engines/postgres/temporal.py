"""Codecs for PostgreSQL's dates, times and intervals in binary form.

PostgreSQL has infinite dates, years before 1 and after 9999, 24:00, and intervals of months, and
Python has none of these; JSON encoders have no zones with seconds. Such values are decoded to
PostgreSQL's own text, so that no value is wrong and none fails a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any, NamedTuple

_DAY_US = 86_400_000_000
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(2000, 1, 1)  # noqa: DTZ001
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)
_EPOCH_DAY = date(2000, 1, 1)
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_INFINITE = {"infinity": 1, "-infinity": -1}
_FAR = re.compile(
    r"(\d{4,7})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:\+00)?)?( BC)?", re.ASCII
)


class Codec(NamedTuple):
    """Conversions of one type between asyncpg's tuples of integers and Python's values."""

    decode: Callable[[tuple[int, ...]], object]
    encode: Callable[[Any], tuple[int, ...]]


def _decode_date(value: tuple[int, ...]) -> date | str:
    (days,) = value
    if abs(days) >= 2**31 - 1:
        return "infinity" if days > 0 else "-infinity"
    try:
        return _EPOCH_DAY + timedelta(days)
    except OverflowError:
        return _far(days)


def _decode_timestamp(value: tuple[int, ...]) -> datetime | str:
    try:
        return _EPOCH + value[0] * _MICROSECOND
    except OverflowError:
        return _far_timestamp(value[0], "")


def _decode_timestamptz(value: tuple[int, ...]) -> datetime | str:
    try:
        return _EPOCH_UTC + value[0] * _MICROSECOND
    except OverflowError:
        return _far_timestamp(value[0], "+00")


def _far_timestamp(microseconds: int, zone: str) -> str:
    if abs(microseconds) >= 2**63 - 1:
        return "infinity" if microseconds > 0 else "-infinity"
    days, rest = divmod(microseconds, _DAY_US)
    return _far(days, f" {_clock(rest)}{zone}")


def _far(days: int, clock: str = "") -> str:
    """Format a day outside of Python's range; the calendar repeats every 400 years."""
    cycles = days // _CYCLE_DAYS
    near = _EPOCH_DAY + timedelta(days - cycles * _CYCLE_DAYS)
    year = near.year + cycles * _CYCLE_YEARS
    era = "" if year > 0 else " BC"
    return f"{year if year > 0 else 1 - year:04}-{near.month:02}-{near.day:02}{clock}{era}"


def _clock(microseconds: int) -> str:
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def _decode_time(value: tuple[int, ...]) -> time | str:
    if value[0] >= _DAY_US:
        return "24:00:00"
    return (_EPOCH + value[0] * _MICROSECOND).time()


def _decode_timetz(value: tuple[int, ...]) -> time | str:
    zone = timezone(timedelta(seconds=-value[1]))
    if value[0] >= _DAY_US:
        return "24:00:00" + time(tzinfo=zone).isoformat()[8:]
    found = (_EPOCH + value[0] * _MICROSECOND).time().replace(tzinfo=zone)
    # JSON encoders leave out the seconds of an offset.
    return found.isoformat() if value[1] % 60 else found


def _decode_interval(value: tuple[int, ...]) -> str:
    """Format an interval as PostgreSQL does: `1 year 2 mons -3 days +04:05:06`."""
    months, days, microseconds = value
    # Rounded towards zero, as by PostgreSQL.
    years = int(months / 12)
    parts: list[str] = []
    negative = False
    for number, unit in ((years, "year"), (months - years * 12, "mon"), (days, "day")):
        if number:
            sign = "+" if negative and number > 0 else ""
            parts.append(f"{sign}{number} {unit}{'' if number == 1 else 's'}")
            negative = number < 0
    if microseconds or not parts:
        sign = "-" if microseconds < 0 else "+" if negative else ""
        parts.append(sign + _clock(abs(microseconds)))
    return " ".join(parts)


def _encode_date(value: date | str) -> tuple[int, ...]:
    if isinstance(value, str):
        if value in _INFINITE:
            return (2**31 - 1 if value == "infinity" else -(2**31),)
        return (_parse_far(value)[0],)
    if isinstance(value, datetime):
        value = value.date()
    return ((value - _EPOCH_DAY).days,)


def _encode_timestamp(value: date | str) -> tuple[int, ...]:
    if isinstance(value, str):
        if value in _INFINITE:
            return (2**63 - 1 if value == "infinity" else -(2**63),)
        days, rest = _parse_far(value)
        return (days * _DAY_US + rest,)
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)  # noqa: DTZ001
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return ((value - _EPOCH) // _MICROSECOND,)


def _parse_far(text: str) -> tuple[int, int]:
    """Return the days since the epoch and the microseconds of the day."""
    match = _FAR.fullmatch(text)
    if match is None:
        return _parse_near(text)
    year = 1 - int(match[1]) if match[8] else int(match[1])
    cycles = (year - 2000) // _CYCLE_YEARS
    day = date(year - cycles * _CYCLE_YEARS, int(match[2]), int(match[3]))
    hours, minutes, whole = (int(part or 0) for part in match.group(4, 5, 6))
    seconds = hours * 3600 + minutes * 60 + whole
    microseconds = seconds * 1_000_000 + int((match[7] or "").ljust(6, "0"))
    return (day - _EPOCH_DAY).days + cycles * _CYCLE_DAYS, microseconds


def _parse_near(text: str) -> tuple[int, int]:
    return divmod(_encode_timestamp(datetime.fromisoformat(text))[0], _DAY_US)


def _encode_time(value: time | timedelta | str) -> tuple[int, ...]:
    if isinstance(value, str):
        if value.startswith("24:00:00"):
            return (_DAY_US,)
        value = time.fromisoformat(value)
    if isinstance(value, timedelta):
        return (value // _MICROSECOND,)
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond,)


def _encode_timetz(value: time | str) -> tuple[int, ...]:
    offset = time.fromisoformat(value.replace("24:", "00:", 1)) if isinstance(value, str) else value
    ahead = offset.utcoffset() or timedelta()
    return (*_encode_time(value), -int(ahead.total_seconds()))


_INTERVAL = re.compile(
    r"(?:(?P<year>[+-]?\d+) years?)? ?(?:(?P<mon>[+-]?\d+) mons?)? ?(?:(?P<day>[+-]?\d+) days?)? ?"
    r"(?:(?P<sign>[+-])?(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)(?:\.(?P<us>\d{1,6}))?)?",
    re.ASCII,
)


def _encode_interval(value: timedelta | str) -> tuple[int, ...]:
    if isinstance(value, timedelta):
        return (0, value.days, value.seconds * 1_000_000 + value.microseconds)
    match = _INTERVAL.fullmatch(value) if value else None
    if match is None:
        raise ValueError("not an interval")
    year, mon, day, hours, minutes, seconds = (
        int(part or 0) for part in match.group("year", "mon", "day", "h", "m", "s")
    )
    microseconds = (hours * 3600 + minutes * 60 + seconds) * 1_000_000
    microseconds += int((match["us"] or "").ljust(6, "0"))
    return (year * 12 + mon, day, -microseconds if match["sign"] == "-" else microseconds)


CODECS = {
    "date": Codec(_decode_date, _encode_date),
    "timestamp": Codec(_decode_timestamp, _encode_timestamp),
    "timestamptz": Codec(_decode_timestamptz, _encode_timestamp),
    "time": Codec(_decode_time, _encode_time),
    "timetz": Codec(_decode_timetz, _encode_timetz),
    "interval": Codec(_decode_interval, _encode_interval),
}
"""Codecs by the type's name in `pg_catalog`."""
