"""Medians of interleaved rounds, and the tables they are printed in."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """A ratio of ours to one other: at least (`>=`, for rates) or at most (`<=`, for times)."""

    against: str
    sign: str
    ratio: float

    def __str__(self) -> str:
        return f"{self.sign} {self.ratio:g}x {self.against}"

    def met(self, ours: float, other: float) -> bool:
        """Tell whether ours is as good as this goal."""
        ratio = ours / other
        return ratio >= self.ratio if self.sign == ">=" else ratio <= self.ratio


def interleaved(measures: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median of each measure; they take turns, so that noise hits all alike."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(measure())
    return {name: statistics.median(values) for name, values in found.items()}


def show(title: str, unit: str, medians: Mapping[str, float], goals: Sequence[Goal]) -> None:
    """Print one table: a value each, what ours is to it, and the goal where there is one."""
    ours = next(iter(medians.values()))
    print(f"\n{title}")
    print(f"  {'':<26}{unit:>12}  {'ratio':>7}  goal")
    for name, value in medians.items():
        line = f"  {name:<26}{value:>12,.{0 if value >= 100 else 2}f}  {ours / value:>6.2f}x"
        for goal in goals:
            if goal.against == name:
                line += f"  {goal} {'met' if goal.met(ours, value) else 'MISSED'}"
        print(line)


def limit(label: str, value: float, most: float | None, unit: str) -> None:
    """Print one value beside the most that it may be, where there is such a goal."""
    line = f"  {label:<38}{value:>10,.2f} {unit}"
    if most is not None:
        line += f"  <= {most:g} {unit} {'met' if value <= most else 'MISSED'}"
    print(line)
