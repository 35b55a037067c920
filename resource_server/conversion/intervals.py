"""Intervals of numbers counted from 1, as URI parameters write them: `3`, `3-7` or `3-`."""

from __future__ import annotations

import re

from resource_server.errors import InvalidParameter

_INTERVAL = re.compile(r"([0-9]{1,9})(-([0-9]{1,9})?)?")


def parse_interval(name: str, value: str) -> tuple[int, int | None]:
    """Return the first and the last number of the parameter `name`; None for all that follow.

    Raises:
        InvalidParameter: it is no interval; the message shows one.
    """
    match = _INTERVAL.fullmatch(value)
    first = int(match[1]) if match else 0
    last = None
    if match:
        last = first if match[2] is None else int(match[3]) if match[3] else None
    if not first or (last is not None and last < first):
        raise InvalidParameter(f"{name} cannot be {value[:40]!r}; write {name}=3, 3-7 or 3-")
    return first, last
