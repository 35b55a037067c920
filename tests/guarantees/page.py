"""The sections of docs/guarantees.md: each promise with its modules, tests, limits and figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from tests.guarantees.marks import Mark, marks
from tests.guarantees.promises import PROMISES, Promise
from tests.worlds.figures import figures

PAGE = Path(__file__).parents[2] / "docs/guarantees.md"
SECTION = "guarantees"


def sections() -> str:
    """Return a section of the page for each promise."""
    found = list(marks())
    return "\n".join(("", *itertools.chain(*(_section(each, found) for each in PROMISES))))


def _section(promise: Promise, found: list[Mark]) -> Iterator[str]:
    yield f"## {promise.name}\n"
    for sentence in promise.sentences:
        yield f"> {sentence}\n"
    yield f"* **Kept by** {', '.join(f'`{module}`' for module in promise.modules)}"
    yield f"* **Not covered:** {promise.limits}"
    for world in promise.worlds:
        yield f"* **Last search:** {figures(world)}"
    yield "* **Tests:**"
    proving = (mark for mark in found if mark.guarantee == promise.name)
    for file, of_file in itertools.groupby(proving, key=lambda mark: mark.file):
        names = [f"`{mark.test}`" if mark.test else "all tests" for mark in of_file]
        yield f"    * `{file}`: {', '.join(names)}"
    if promise.worlds:
        properties = " and ".join(f"`{world}`" for world in promise.worlds)
        yield f"    * `tests/worlds`: {properties}, in generated worlds and in all that were found"
    yield ""
