"""How often one caller may ask: a token bucket each."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from resource_server.runtime import notation

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

_RATE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)(?: */ *(s|m|h))?", re.ASCII)
_LEAST, _MOST = 1e-9, 1e15
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_ROUNDING_S = 1e-6
MAX_CALLERS = 10_000
"""As many are remembered; a caller who was forgotten begins with a full bucket."""


class Rate(float):
    """So many a second, as an option type; in the manifest `200/s`, `30/m`, `5/h` or a number."""

    @classmethod
    def parse(cls, value: object) -> Rate:
        """Read a number, which is of a second and may be text, or `"200/s"`.

        Raises:
            ValueError: not a rate, or none at all.
        """
        number = 0.0
        if isinstance(value, int | float) and not isinstance(value, bool):
            # Greater numbers may be no floats.
            number = float(min(value, _MOST))
        elif isinstance(value, str) and (match := _RATE.fullmatch(value.strip())):
            number = float(match[1]) / _SECONDS[match[2] or "s"]
        if _LEAST < number < _MOST:
            return cls(number)
        raise ValueError("not a rate above 0; write how many a second, minute or hour: 200/s, 30/m")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        number: CoreSchema = {"type": "float", "gt": 0}
        return notation.schema_of(cls.parse, number, r"^\d+(\.\d+)?( */ *(s|m|h))?$")


class RateLimiter:
    """`rate` requests a second, and `burst` of them at once."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        # Of each caller when the bucket will be full again, the least recently seen first.
        self._full_at = OrderedDict[str | None, float]()

    def take(self, caller: str | None) -> float:
        """Count one request and return 0; or count none, and return how many seconds to wait."""
        now = time.monotonic()
        full_at = max(self._full_at.get(caller, now), now) + 1 / self._rate
        wait = full_at - now - self._burst / self._rate
        if wait > _ROUNDING_S:
            return wait
        self._remember(caller, full_at)
        return 0.0

    def charge(self, caller: str | None, requests: int) -> None:
        """Count requests that were not asked for one by one; whoever asked waits the longer."""
        now = time.monotonic()
        self._remember(caller, max(self._full_at.get(caller, now), now) + requests / self._rate)

    def _remember(self, caller: str | None, full_at: float) -> None:
        self._full_at[caller] = full_at
        self._full_at.move_to_end(caller)
        if len(self._full_at) > MAX_CALLERS:
            self._full_at.popitem(last=False)
