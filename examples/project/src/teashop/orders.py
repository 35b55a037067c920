"""Orders, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

DISCOUNT_FROM_GRAMS = 500
DISCOUNT = 0.1


@dataclass(frozen=True)
class Line:
    """One tea of an order."""

    tea: str
    grams: int


def total(lines: Iterable[Line], prices: Mapping[str, float]) -> float:
    """Return the price of an order; `prices` are per gram."""
    cost = 0.0
    for line in lines:
        discount = DISCOUNT if line.grams >= DISCOUNT_FROM_GRAMS else 0
        cost += line.grams * prices[line.tea] * (1 - discount)
    return round(cost, 2)
