"""Many cases as one test: for cases that cost less than a test does."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest

_Test: TypeAlias = Callable[..., Any]
_PARAM: Any = type(pytest.param())


def for_each(
    names: str | Sequence[str], values: Iterable[Any], *, ids: Iterable[object] | None = None
) -> Callable[[_Test], _Test]:
    """Run a test with each of these values, as `pytest.mark.parametrize` does, but as one test.

    All cases run, and each that fails is reported. They share the test's fixtures and event loop.
    """
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    cases = dict(_named(split, values, ids))

    def decorate(test: _Test) -> _Test:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def run_asynchronous(*args: Any, **fixtures: Any) -> None:
                failures = _Failures(len(cases))
                for name, case in cases.items():
                    with failures.of(name):
                        await test(*args, **fixtures, **case)
                failures.report()

            run = run_asynchronous
        else:

            @functools.wraps(test)
            def run_synchronous(*args: Any, **fixtures: Any) -> None:
                failures = _Failures(len(cases))
                for name, case in cases.items():
                    with failures.of(name):
                        test(*args, **fixtures, **case)
                failures.report()

            run = run_synchronous
        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name not in split]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate


class _Failures:
    """The failures of the cases of a test."""

    def __init__(self, cases: int) -> None:
        self._cases = cases
        self._failures: list[BaseException] = []

    @contextmanager
    def of(self, name: str) -> Generator[None]:
        """Keep the failure of a case, with its name."""
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"in case {name}")
            self._failures.append(error)

    def report(self) -> None:
        """Fail if a case failed."""
        if len(self._failures) == 1:
            raise self._failures[0]
        if self._failures:
            message = f"{len(self._failures)} of {self._cases} cases failed"
            raise BaseExceptionGroup(message, self._failures)


def _named(
    names: Sequence[str], values: Iterable[Any], ids: Iterable[object] | None
) -> Iterable[tuple[str, Mapping[str, Any]]]:
    labels = [] if ids is None else [*ids]
    for place, value in enumerate(values):
        case, label = value, labels[place] if labels else None
        if isinstance(value, _PARAM):
            assert not value.marks, "a case with a mark is a test of its own"
            case, label = value.values, value.id
        elif len(names) == 1:
            case = (value,)
        arguments: dict[str, Any] = dict(zip(names, case, strict=True))
        yield f"{place}: {label or arguments!s:.200}", arguments
