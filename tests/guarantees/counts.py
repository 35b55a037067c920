"""Numbers of tests by what they are of, for docs/how-it-is-tested.md."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests import reference

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-it-is-tested.md"
SECTION = "counts"
_TOLERANCE = 0.1
_FEW = 20
"""How far a number of the page may be off, as a share or in tests: few changes need a new page."""
_SUBJECTS = {
    "protocol": "the protocol in every revision, tools, prompts",
    "conformance": "the official conformance suite, in every revision",
    "clients": "clients: the SDKs of Python and TypeScript, FastMCP, the Inspector",
    "hosts": "replays of ten hosts",
    "transports": "stdio and HTTP, authorization, monitoring",
    "catalog": "the catalog: listings, search, limits of providers",
    "subscriptions": "notifications",
    "providers/filesystem": "folders",
    "providers/database/engines/sqlite": "databases: SQLite",
    "providers/database/engines/postgres": "databases: PostgreSQL",
    "providers/database/engines/mysql": "databases: MariaDB",
    "providers/database/engines/duckdb": "databases: DuckDB and data files",
    "providers/database": "databases: pages, keys, policy and queries on every engine",
    "conversion": "documents",
    "manifest": "the manifest",
    "cli": "the command line, and the configurations of hosts",
    "provider": "providers of a function",
    "plugins": "the example plugins",
    "testing": "the test kit for plugins",
    "packaging": "packages, the container, releases",
    "worlds": "generated worlds, and the cases that they found",
    "": "the rest: docs, examples, access, bad input, architecture",
}
"""Folders of tests, the deeper before those that hold them, and what they are of."""


def counted(tests: Iterable[str]) -> Counter[str]:
    """Return the number of tests of each subject, from their ids."""
    return Counter(_subject(test.partition("::")[0]) for test in tests)


def table(counts: Counter[str]) -> str:
    """Return the section of the page."""
    rows = [f"| {subject} | {counts[subject]:,} |" for subject in _SUBJECTS.values()]
    total = f"| all | {counts.total():,} |"
    return "\n".join(("| tests of | number |", "| --- | ---: |", *rows, total, ""))


def outdated(tests: Iterable[str]) -> list[str]:
    """Return the subjects of which the page has a number that these tests do not have."""
    counts = counted(tests)
    rows = re.findall(r"^\| (.+) \| ([\d,]+) \|$", reference.shown(SECTION, PAGE), re.MULTILINE)
    shown = {subject: int(number.replace(",", "")) for subject, number in rows}
    return [
        f"docs/how-it-is-tested.md has {shown.get(subject, 0)} tests of {subject}, of "
        f"{counts[subject]}: run python -m tests.guarantees counts"
        for subject in _SUBJECTS.values()
        if abs(shown.get(subject, 0) - counts[subject]) > max(_FEW, _TOLERANCE * counts[subject])
    ]


def collected() -> Counter[str]:
    """Return the number of tests of each subject, as pytest collects them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-m", ""]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    counts = Counter[str]()
    for file, number in re.findall(r"^(tests/\S+): (\d+)$", done.stdout, re.MULTILINE):
        counts[_subject(file)] += int(number)
    return counts


def _subject(file: str) -> str:
    place = file.removeprefix("tests/")
    for folder, subject in _SUBJECTS.items():
        if place.startswith(f"{folder}/"):
            return subject
    return _SUBJECTS[""]
