"""Cases of tests that the README's command leaves out, since all together take too long.

`python -m tests.slow_tests REPORT` writes `slow_tests.txt` from the report of a whole run on a
quiet machine (`pytest -n 4 --dist worksteal -m '' --junitxml REPORT`). Each test keeps its quickest
case, unless that is slow by itself, and each promise keeps its quickest test.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

_LIST: Final = Path(__file__).with_name("slow_tests.txt")
_CASE_S: Final = 0.3
"""Seconds of a quick case, beside those of other workers."""
_TEST_S: Final = 1.5
"""Seconds of the quickest case of a test, above which none of its cases is quick."""


class _Case(NamedTuple):
    id: str
    seconds: float
    promises: frozenset[str]

    @property
    def test(self) -> str:
        return self.id.partition("[")[0]


def slow_tests() -> frozenset[str]:
    """Return the ids of the cases that are marked `deep` for their time alone."""
    return frozenset(_LIST.read_text(encoding="utf-8").splitlines())


def _cases(report: Path) -> Iterable[_Case]:
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - our own report
        id = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"
        properties = [(each.attrib["name"], each.attrib["value"]) for each in case.iter("property")]
        promises = frozenset([value for name, value in properties if name == "guarantee"])
        if case.find("skipped") is None and ("mark", "deep") not in properties:
            yield _Case(id, float(case.attrib["time"]), promises)


def _slow(cases: Iterable[_Case]) -> Iterable[str]:
    by_time = sorted(cases, key=lambda case: case.seconds)
    quickest: Mapping[str, _Case] = {case.test: case for case in reversed(by_time)}
    proofs = {name: case for case in reversed(by_time) for name in case.promises}
    for case in by_time:
        is_needed = case is quickest[case.test] and case.seconds <= _TEST_S
        if case.seconds > _CASE_S and not is_needed and case not in proofs.values():
            yield case.id


if __name__ == "__main__":
    lines = [f"{id}\n" for id in sorted(_slow(_cases(Path(sys.argv[1])))) if id.isprintable()]
    _LIST.write_text("".join(lines), encoding="utf-8")
