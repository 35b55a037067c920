"""Times that tests shorten: one frozen value, injected where a component is made."""

from __future__ import annotations

import msgspec


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals, delays and timeouts in seconds, each with the default the server runs with."""
