"""A length of time as an option type."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from resource_server.runtime import notation

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(ms|s|m|h|d)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(float):
    """Seconds as an option type; in the manifest `250ms`, `2s`, `30m`, `1h`, `1d` or a number."""

    @classmethod
    def parse(cls, value: object) -> Duration:
        """Read a number of seconds, or text such as `"250ms"`.

        Raises:
            ValueError: not a length of time.
        """
        if isinstance(value, int | float) and not isinstance(value, bool):
            if math.isfinite(value) and value >= 0:
                return cls(value)
        elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
            number, unit = match.groups()
            return cls(float(number) * _SECONDS[unit])
        raise ValueError("not a length of time; write one with a unit: 250ms, 2s, 30m, 1h, 1d")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        number: CoreSchema = {"type": "float", "ge": 0}
        return notation.schema_of(cls.parse, number, r"^\d+(\.\d+)? *(ms|s|m|h|d)$")
