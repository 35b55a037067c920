"""Properties of generated cases, and the search for a case that violates one."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import math
import pprint
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar, cast

import hypothesis
import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

C = TypeVar("C")

CASE_S = 600.0
"""A case that takes longer hangs, and is a violation."""
_ROUND = 10
"""Cases between two fresh starts of hypothesis, which would soon repeat parts of earlier cases."""

_MAX_ROUNDS = 10_000
_UNHURRIED = (
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
    HealthCheck.too_slow,
)
"""Worlds take longer to make than the arguments of a function."""


async def _nothing() -> None:
    pass


class Violation(AssertionError):
    """A case violates its property; the text says how."""


class Tally:
    """What the cases of a search compared, and how long the search may go on."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.until = time.monotonic() + seconds
        """End of the search, in the time of `time.monotonic`."""
        self.counts = Counter[str]()

    def count(self, what: str, number: int = 1) -> None:
        """Add to the things of one kind that were compared, such as `requests`."""
        self.counts[what] += number

    @property
    def remaining_s(self) -> float:
        """Seconds until the end of the search; never negative."""
        return max(0.0, self.until - time.monotonic())

    def add(self, other: Tally) -> None:
        """Add the counts of another search."""
        self.counts.update(other.counts)

    def __str__(self) -> str:
        return ", ".join(f"{number} {what}" for what, number in self.counts.items())


@dataclass(frozen=True, kw_only=True)
class Property(Generic[C]):
    """A statement about every case that a strategy generates.

    Cases are frozen dataclasses whose `repr` is the Python that makes them.
    """

    name: str
    """Name of its module in `tests.worlds`, and of its command."""
    cases: st.SearchStrategy[C]
    check: Callable[[C, Tally], Coroutine[Any, Any, None]]
    """Raises `Violation` if the case violates the property."""
    sabotages: Mapping[str, Callable[[], AbstractContextManager[object]]] = field(
        default_factory=dict[str, Callable[[], AbstractContextManager[object]]]
    )
    """Ways to break the server that the search must find, by name."""
    weight: int = 1
    """A case takes as long as so many of other properties; tests try as many times fewer."""
    sabotaged: Mapping[str, st.SearchStrategy[C]] = field(
        default_factory=dict[str, st.SearchStrategy[C]]
    )
    """The cases that a sabotage can show in, where most others cannot."""
    kept: tuple[C, ...] = ()
    """The smallest cases that were ever found, each mended since."""
    end: Callable[[], Coroutine[Any, Any, None]] = _nothing
    """Ends what the cases of a search share, in their event loop."""
    is_one_run: bool = False
    """Whether a case takes the whole time of its search; it is not made smaller."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What one search did and found."""

    name: str
    seed: int
    cases: int
    seconds: float
    tally: Tally
    script: str | None = None
    """Program that runs the smallest violating case, or None if there was no violation."""
    violation: str | None = None
    """How that case violates the property."""


class _SearchIsOverError(BaseException):
    """Ends a search; hypothesis passes on what is no `Exception`."""


class _Attempts(Generic[C]):
    """The checks of a search, one case after the other, at most `most` before the first find."""

    def __init__(self, searched: Property[C], tally: Tally, most: float, *, shrinks: bool) -> None:
        self.number = 0
        self._most = most
        self.found: list[tuple[C, Exception]] = []
        """Violating cases; shrinking tries smaller ones only, so the last is the smallest."""
        self._searched = searched
        self._tally = tally
        self._shrinks = shrinks
        self._simplest: C | None = None

    def __call__(self, runner: asyncio.Runner, case: C) -> None:
        """Check a case, unless there were enough, or the time is over."""
        is_over = self.number >= self._most and not self.found
        if self.number and (is_over or self._tally.remaining_s <= 0):
            raise _SearchIsOverError
        if self._simplest is None:
            self._simplest = case
            if self._searched.is_one_run:
                return  # another seed would begin with it, too
        elif case == self._simplest and not self.found:
            return  # every round begins with it
        self.number += 1
        try:
            runner.run(_within(self._searched, case, self._tally))
        except Exception as error:
            self.found.append((case, error))
            if not self._shrinks:
                raise _SearchIsOverError from None
            raise


def search(
    searched: Property[C],
    seed: int,
    seconds: float,
    sabotage: str | None = None,
    *,
    most: float = math.inf,
    shrinks: bool = True,
) -> Report:
    """Check at most `most` generated cases until one violates the property, or the time is over.

    A violating case is made smaller while there is time, unless `shrinks` is false.
    """
    started = time.monotonic()
    tally = Tally(seconds)
    shrinks = shrinks and not searched.is_one_run
    attempts = _Attempts(searched, tally, most, shrinks=shrinks)
    cases = searched.sabotaged.get(sabotage or "", searched.cases)
    sabotaged = nullcontext() if sabotage is None else searched.sabotages[sabotage]()
    with asyncio.Runner() as runner, sabotaged:
        attempt = partial(attempts, runner)
        try:
            for start in itertools.count(seed * _MAX_ROUNDS):
                _round(cases, attempt, start, shrinks=shrinks)
        except _SearchIsOverError:
            pass
        except BaseException:
            if not attempts.found:
                raise
        finally:
            runner.run(searched.end())
    case, error = attempts.found[-1] if attempts.found else (None, None)
    return Report(
        name=searched.name,
        seed=seed,
        cases=attempts.number,
        seconds=time.monotonic() - started,
        tally=tally,
        script=None if case is None else script_of(searched, case),
        violation=None if error is None else _told(error),
    )


def _round(
    cases: st.SearchStrategy[C], attempt: Callable[[C], None], seed: int, *, shrinks: bool
) -> None:
    """Attempt the cases of one round; raises what `attempt` raises for the smallest of them."""
    chosen = settings(
        deadline=None,
        database=None,
        derandomize=False,
        max_examples=_ROUND,
        phases=[Phase.generate, Phase.shrink] if shrinks else [Phase.generate],
        suppress_health_check=_UNHURRIED,
        report_multiple_bugs=False,
        print_blob=False,
    )

    def run(case: C) -> None:
        attempt(case)

    chosen(hypothesis.seed(seed)(hypothesis.given(cases)(run)))()


def replay(searched: Property[C], case: C) -> Tally:
    """Check one case.

    Raises:
        Violation: it violates the property.
    """
    tally = Tally()
    with asyncio.Runner() as runner:
        try:
            runner.run(_within(searched, case, tally))
        finally:
            runner.run(searched.end())
    return tally


async def _within(searched: Property[C], case: C, tally: Tally) -> None:
    limit = CASE_S + (tally.remaining_s if searched.is_one_run else 0)
    async with asyncio.timeout(limit):
        await searched.check(case, tally)


def _told(error: BaseException) -> str:
    if isinstance(error, Violation) and error.__cause__ is None:
        return str(error)
    return "".join(traceback.format_exception(error))


def script_of(searched: Property[C], case: C) -> str:
    """Return a program that checks one case."""
    names = {
        ("tests.worlds.harness", "replay"),
        (f"tests.worlds.{searched.name}", "PROPERTY"),
        *_names_in(case),
    }
    modules = sorted({module for module, name in names if not name})
    imports = [f"import {module}" for module in modules]
    for module in sorted({module for module, name in names if name}):
        chosen = sorted(name for its, name in names if its == module and name)
        imports.append(f"from {module} import {', '.join(chosen)}")
    shown = pprint.pformat(case, width=100, sort_dicts=False)
    lines = ("# python - < THIS_FILE, in the repository", *imports, "", f"case = {shown}")
    return "\n".join((*lines, "replay(PROPERTY, case)", ""))


def _fields_of(value: object) -> Iterable[str] | None:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value):
        return [each.name for each in dataclasses.fields(value)]
    return None


def _names_in(value: object) -> Iterable[tuple[str, str]]:
    """Yield what the `repr` of a value needs: modules with a name in them, or without."""
    if (fields := _fields_of(value)) is not None:
        yield type(value).__module__, type(value).__name__
        for name in fields:
            yield from _names_in(getattr(value, name))
    elif isinstance(value, Mapping):
        for pair in cast("Mapping[object, object]", value).items():
            yield from _names_in(pair)
    elif isinstance(value, tuple | list | set | frozenset):
        for each in cast("Iterable[object]", value):
            yield from _names_in(each)
    elif isinstance(value, float) and not math.isfinite(value):
        yield "math", "inf" if math.isinf(value) else "nan"
    elif type(value).__module__ == "datetime":
        yield "datetime", ""
    elif type(value).__module__ != "builtins":
        yield type(value).__module__, type(value).__name__
