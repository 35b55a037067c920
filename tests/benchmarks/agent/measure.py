"""Characters that reach a model for everyday questions, beside the best peer of each source."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from resource_server.protocol.tools import builtin_schemas
from tests.benchmarks import servers
from tests.benchmarks.agent import files, patient_server, shop, sources
from tests.benchmarks.agent.comparison import Answers, Comparison, compare
from tests.benchmarks.agent.conversation import POLICIES, Asked, Given, answers, definitions
from tests.benchmarks.agent.question import Question
from tests.benchmarks.table import limit

MOST_IN_TOTAL, MOST_IN_THE_MEAN = 0.5, 0.9
MOST_TOKENS = 1_200
CHARACTERS_A_TOKEN = 4
USUAL_FOLDER = "/home/ada/src"
"""Counted in the place of the temporary folder, whose name differs between machines."""
BUILT_IN = {
    builtin_schemas.LIST,
    builtin_schemas.READ,
    builtin_schemas.METADATA,
    builtin_schemas.SEARCH,
}
OUR_MARKS = r"[Tt]runcated\b(?!\W{1,4}(?:false|null))|\bnext\b|\bcursor\b"


@dataclass(frozen=True)
class QuestionSet:
    """Questions about one source, asked of this server and of the best peer for it."""

    title: str
    questions: Sequence[Question]
    source: Path
    """What the facts are taken from."""
    ours: Asked
    peer: Asked | None
    """None where it is not installed."""


def run(*, quick: bool) -> None:
    """Print a table for each source with its goals; `quick` leaves out what is downloaded."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name).resolve()
        sets = [] if quick else [django_set(sources.django(scratch))]
        for each in (*sets, shop_set(sources.shop(scratch))):
            _report(each)


def django_set(folder: Path) -> QuestionSet:
    """Return the questions about the Django package in `folder`."""
    usual = (str(folder.parent), USUAL_FOLDER)
    ours = Asked(servers.OURS, _ours(folder), f"file:///{folder.name}", OUR_MARKS, usual)
    peer = None
    if command := servers.node(servers.FILESYSTEM, str(folder)):
        # Its dates are in the local time zone.
        in_utc = ["env", "TZ=UTC", *command]
        peer = Asked(servers.FILESYSTEM, in_utc, str(folder), None, usual)
    return QuestionSet(sources.DJANGO, files.QUESTIONS, folder, ours, peer)


def shop_set(database: Path) -> QuestionSet:
    """Return the questions about the shop's database, which is beside its manifest."""
    usual = (str(database.parent), USUAL_FOLDER)
    ours = Asked(servers.OURS, _ours(database.parent), "", OUR_MARKS, usual)
    peer = None
    if command := servers.dbhub(f"sqlite:///{database}"):
        peer = Asked(servers.DBHUB, command, "", r'"truncated": true', usual)
    return QuestionSet("a shop's database", shop.QUESTIONS, database, ours, peer)


def _ours(source: Path) -> list[str]:
    return [sys.executable, "-m", patient_server.__name__, "serve", str(source)]


def answers_of_ours(one: QuestionSet) -> Answers:
    """Return what reached the model from this server."""
    return answers(one.ours, one.source, [(each, each.ours) for each in one.questions])


def answers_of_peer(one: QuestionSet) -> Answers:
    """Return what reached the model from the peer: nothing where it is not installed."""
    if one.peer is None:
        return {}
    return answers(one.peer, one.source, [(each, each.peer) for each in one.questions])


def _report(one: QuestionSet) -> None:
    ours, theirs = answers_of_ours(one), answers_of_peer(one)
    peer = one.peer.name if one.peer is not None else "no peer installed"
    print(f"\n{len(one.questions)} questions about {one.title}: characters for an answer")
    heads = "".join(f"{f'as {each.name}':>10}{peer:>19}{'ratio':>7}" for each in POLICIES)
    print(f"  {'':<46}{heads}  answer")
    for question in one.questions:
        print(_row(question, ours.get(question.asks, {}), theirs.get(question.asks, {})))
    if theirs:
        for policy in POLICIES:
            _goals(policy.name, compare(one.questions, ours, theirs, policy.name))
        by_name = [each for each in one.questions if not each.in_text]
        if len(by_name) < len(one.questions):
            for policy in POLICIES:
                _totals(
                    f"{policy.name}, without search of text",
                    compare(by_name, ours, theirs, policy.name),
                )
    for asked in filter(None, (one.ours, one.peer)):
        _definitions(asked)


def _definitions(asked: Asked) -> None:
    """Print what the tools cost before any question; the goal is for those of every source."""
    every = definitions(asked)
    own = {name for name in every if asked.name == servers.OURS and name not in BUILT_IN}
    tokens = sum(size for name, size in every.items() if name not in own) / CHARACTERS_A_TOKEN
    most = MOST_TOKENS if asked.name == servers.OURS else None
    limit(f"tool definitions of {asked.name}", tokens, most, "tokens (characters / 4)")
    if own:
        tokens = sum(every[name] for name in own) / CHARACTERS_A_TOKEN
        limit(f"and of its {len(own)} declared queries", tokens, None, "tokens")


def _row(question: Question, ours: Mapping[str, Given], theirs: Mapping[str, Given]) -> str:
    line = f"  {question.asks:<46}"
    for policy in POLICIES:
        mine, other = ours.get(policy.name), theirs.get(policy.name)
        ratio = f"{mine.characters / other.characters:.2f}x" if mine and other else ""
        line += f"{_characters(mine):>10}{_characters(other):>19}{ratio:>7}"
    return f"{line}  {_verdicts(question, ours, theirs)}"


def _characters(given: Given | None) -> str:
    return "-" if given is None else f"{given.characters:,}"


def _verdicts(question: Question, ours: Mapping[str, Given], theirs: Mapping[str, Given]) -> str:
    if not ours:
        return question.later or "not answered"
    found = ", ".join(dict.fromkeys(each.verdict for each in ours.values()))
    others = {each.verdict for each in theirs.values()} - {"complete"}
    if not question.peer:
        return f"{found}; the peer has no way"
    return f"{found}; the peer's is {', '.join(sorted(others))}" if others else found


def _goals(policy: str, comparison: Comparison) -> None:
    _totals(policy, comparison, MOST_IN_TOTAL, MOST_IN_THE_MEAN)
    for label, found in (
        ("silently short", comparison.silent),
        ("answered only by the peer", comparison.unanswered),
    ):
        limit(f"{policy}: {label}", len(found), 0, "questions")
        for asks in found:
            print(f"    {asks}")


def _totals(
    label: str, comparison: Comparison, total: float | None = None, mean: float | None = None
) -> None:
    print(
        f"  {label}: {comparison.ours:,} characters, the peer {comparison.theirs:,}, "
        f"for {len(comparison.pairs)} questions"
    )
    limit(f"{label}: in total", comparison.ours / comparison.theirs, total, "x")
    limit(f"{label}: geometric mean", comparison.mean, mean, "x")
