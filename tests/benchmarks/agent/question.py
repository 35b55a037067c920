"""Questions with their facts, and the calls by which an agent gets the answer from each server."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Argument: TypeAlias = str | int | Sequence[str]
Call: TypeAlias = tuple[str, Mapping[str, Argument]]
"""A tool and its arguments; `{root}` in them is the served folder, as the server spells it."""


@dataclass(frozen=True)
class Names:
    """The files that match a glob, each by the last `parts` of its path."""

    glob: str
    parts: int = 1

    def facts(self, source: Path) -> list[str]:
        """Return an expression for each file."""
        found = sorted(source.glob(self.glob))
        return [re.escape("/".join(each.parts[-self.parts :])) for each in found]


@dataclass(frozen=True)
class Lines:
    """The lines of the files of a glob in which an expression is found, from there on.

    Of a long line 40 characters: servers quote a part of it.
    """

    glob: str
    expression: str

    def facts(self, source: Path) -> list[str]:
        """Return an expression for each different line."""
        files = [each for each in sorted(source.glob(self.glob)) if each.is_file()]
        lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
        found = [re.search(self.expression, line) for line in lines]
        parts = [each.string[each.start() :][:40].strip() for each in found if each]
        return [re.escape(part) for part in dict.fromkeys(parts)]


@dataclass(frozen=True)
class Rows:
    """All values of the rows that a statement returns."""

    sql: str

    def facts(self, source: Path) -> list[str]:
        """Return an expression for each different value that is not NULL."""
        with closing(sqlite3.connect(source)) as connection:
            values = [value for row in connection.execute(self.sql) for value in row]
        texts = [str(value) for value in values if value is not None]
        return [rf"(?<![^\W_]){re.escape(text)}(?![^\W_])" for text in dict.fromkeys(texts)]


Fact: TypeAlias = str | Names | Lines | Rows
"""An expression that is found in a complete answer, or what makes some from the source."""


@dataclass(frozen=True)
class Question:
    """An everyday question, with the best calls of each server for it."""

    asks: str
    facts: Sequence[Fact]
    ours: Sequence[Call]
    peer: Sequence[Call]
    """The best peer's; of either none where it has no way, and then the question is in no ratio."""
    in_text: bool = False
    """Whether a search of text answers it, which this server has and the peer of files has not."""
    later: str = ""
    """What this server lacks for it until a later version."""

    def expressions(self, source: Path) -> list[str]:
        """Return what has to be found in the answer.

        Raises:
            AssertionError: a fact is about nothing in the source.
        """
        found: list[str] = []
        for fact in self.facts:
            more = [fact] if isinstance(fact, str) else fact.facts(source)
            assert more, f"{self.asks}: nothing in the source is {fact}"
            found += more
        return found
