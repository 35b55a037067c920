"""Ratios over a set of questions that both servers answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.benchmarks.agent.conversation import Given
from tests.benchmarks.agent.question import Question

Answers = Mapping[str, Mapping[str, Given]]
"""What reached the model, by question and policy."""


@dataclass(frozen=True)
class Comparison:
    """The questions of one set, by one policy."""

    pairs: Sequence[tuple[Given, Given]]
    """Ours and the peer's, of each question that both answer."""
    unanswered: Sequence[str]
    """Questions that the peer answers and we do not, and that no later version promises."""
    silent: Sequence[str]
    """Questions to which our answer is less than the whole and does not say so."""

    @property
    def ours(self) -> int:
        """Return our characters."""
        return sum(ours.characters for ours, _ in self.pairs)

    @property
    def theirs(self) -> int:
        """Return the peer's characters."""
        return sum(theirs.characters for _, theirs in self.pairs)

    @property
    def mean(self) -> float:
        """Return the geometric mean of the ratios."""
        logarithms = [math.log(ours.characters / theirs.characters) for ours, theirs in self.pairs]
        return math.exp(sum(logarithms) / len(logarithms))


def compare(
    questions: Sequence[Question], ours: Answers, theirs: Answers, policy: str
) -> Comparison:
    """Return how our answers compare with the peer's."""
    pairs: list[tuple[Given, Given]] = []
    unanswered: list[str] = []
    silent: list[str] = []
    for question in questions:
        mine, other = (side.get(question.asks, {}).get(policy) for side in (ours, theirs))
        if mine is not None and mine.verdict == "silently short":
            silent.append(question.asks)
        if other is None or not other.answered:
            continue
        if mine is not None and mine.answered:
            pairs.append((mine, other))
        elif not question.later:
            unanswered.append(question.asks)
    return Comparison(pairs, unanswered, silent)
