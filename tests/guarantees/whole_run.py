"""What only a whole run of the tests shows: whether each promise was proved, and how many ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

import pytest

_PARTIAL = (
    "collectonly",
    "deselect",
    "file_or_dir",
    "ignore",
    "ignore_glob",
    "keyword",
    "lf",
    "stepwise",
)
"""Options with which pytest runs a selection; marks other than `not deep` select, too."""


class WholeRun:
    """A plugin of pytest that fails a whole run in which a promise was not proved.

    A skipped test proves nothing, and is counted.
    """

    def __init__(
        self, promises: Collection[str], problems_of: Callable[[Iterable[str]], Iterable[str]]
    ) -> None:
        """`problems_of` takes the ids of all tests, and says what does not fit them."""
        self._promises = promises
        self._problems_of = problems_of
        self._tests: list[str] = []
        self._passed = Counter[str]()
        self._skipped = Counter[str]()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Let the reports of a test name its promises and its mark, also to another process."""
        names = {mark.args[0] for mark in item.iter_markers("guarantee")}
        item.user_properties += [("guarantee", name) for name in sorted(names)]
        if item.get_closest_marker("deep"):
            item.user_properties.append(("mark", "deep"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the test for its promises."""
        if report.when == "setup":
            self._tests.append(report.nodeid)
        names = [str(value) for key, value in report.user_properties if key == "guarantee"]
        if report.skipped:
            self._skipped.update(names)
        elif report.when == "call" and report.passed:
            self._passed.update(names)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a whole run in which a promise was not proved."""
        is_green = session.exitstatus == pytest.ExitCode.OK
        if is_green and self._is_whole(session.config) and any(self._problems(session.config)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which promises were not proved, and of which only a part was."""
        if not self._is_whole(terminalreporter.config):
            return
        proved = {name for name in self._promises if self._passed[name]}
        terminalreporter.write_line(f"guarantees: {len(proved)} of {len(self._promises)} proved")
        for name in sorted(proved & {*self._skipped}):
            counts = f"{self._passed[name]} passed, {self._skipped[name]} not run"
            terminalreporter.write_line(f"guarantee {name}: {counts}")
        for problem in self._problems(terminalreporter.config):
            terminalreporter.write_line(f"FAILED {problem}")

    def _problems(self, config: pytest.Config) -> Iterator[str]:
        for name in self._promises:
            if not self._passed[name]:
                yield f"guarantee {name}: no test of it ran, {self._skipped[name]} skipped"
        for name in sorted({*self._passed, *self._skipped}.difference(self._promises)):
            yield f"guarantee {name}: tests/guarantees/promises.py has no such promise"
        if not config.getoption("markexpr"):
            yield from self._problems_of(self._tests)

    @staticmethod
    def _is_whole(config: pytest.Config) -> bool:
        if hasattr(config, "workerinput"):
            return False  # of xdist, whose controller has the reports of all workers
        if config.invocation_params.dir != config.rootpath:
            return False  # of a folder of tests
        selects = any(config.getoption(option, None) for option in _PARTIAL)
        return not selects and config.getoption("markexpr") in {"", "not deep"}
